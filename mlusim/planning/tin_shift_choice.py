"""Strategy "auto" of tin_shift: the choice of the fastest strategy on a board."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np

from mlusim.errors import PlanError
from mlusim.hardware import Board
from mlusim.planning.cost import Cost, load_cost, store_cost
from mlusim.planning.plan import Plan
from mlusim.planning.prediction import Grid, TileCost, predict_ps
from mlusim.planning.search import Candidate, best, predicted_text, tile_counts_below
from mlusim.planning.split import MAX_SEGMENTS, buffer_bytes
from mlusim.units import ceil_div

# Of the five strategies only these can be fastest: the other three do unnecessary work in comparison.
CANDIDATES = ("batched", "pingpong")

# Fraction of the rows that is loaded; zeros fill the others. Planners do not know the shifts. ASSUMED: shifts are
# distributed evenly over +-T/2, as drawn by `mlusim run --shape`, so a quarter of the rows is vacated on average.
LOADED = 3 / 4

# Segments of time to try.
_MAX_SEGMENTS = 8


def choose(plan_of: Callable[[str], Plan]) -> Plan:
    """Return the plan that is predicted to be fastest, the first among equals; its reason lists the times.

    Args:
        plan_of: returns the plan of a strategy, or raises `PlanError` if it does not fit.

    Raises the `PlanError` of the first strategy if none fits.
    """
    first, *others = CANDIDATES
    candidates = {first: _candidate(plan_of(first))}
    for name in others:
        # Two buffers may not fit where one does.
        with suppress(PlanError):
            candidates[name] = _candidate(plan_of(name))
    fastest = min(candidates.values(), key=lambda candidate: candidate.predicted_ps)
    plan = fastest.split
    if not plan.tier:
        return plan
    return replace(plan, reason=f"{plan.reason}; {predicted_text(candidates)}", predicted_ps=fastest.predicted_ps)


def _candidate(plan: Plan) -> Candidate[Plan]:
    return Candidate(
        strategy=plan.strategy,
        predicted_ps=predict_tin_shift_ps(plan),
        tasks=plan.tasks,
        operations=len(plan.tiles),
        split=plan,
    )


def predict_tin_shift_ps(plan: Plan) -> int:
    """Predict the time of a tin_shift plan from its largest tile and the balance of its tasks."""
    if not len(plan.tiles):
        return 0
    _, rows, channels, elements = (plan.tiles.stop - plan.tiles.start).max(axis=0).tolist()
    # One shift is loaded for all chunks of a row.
    shifts = 1 if plan.tier < 3 else ceil_div(plan.output_shape[3], elements)
    tasks = int(plan.tiles.task.max()) + 1
    largest = rows * channels * elements
    counts = np.bincount(plan.tiles.task, minlength=tasks)
    by_task = plan.elements_by_task()
    tile = tile_cost(
        plan.board,
        plan.output_shape,
        (rows, channels, elements),
        plan.itemsize,
        shifts=shifts,
        busiest=float(by_task.max()) / (largest * int(counts.max())),
        mean=float(by_task.sum()) / (largest * len(plan.tiles)),
    )
    grid = Grid(board=plan.board, tiles=len(plan.tiles), tasks=tasks, union=True)
    return predict_ps(grid, tile, overlapped=plan.parameters.buffers > 1)


def tile_cost(
    board: Board,
    shape: tuple[int, ...],
    tile: tuple[int, int, int],
    itemsize: int,
    *,
    shifts: int = 1,
    busiest: float = 1.0,
    mean: float = 1.0,
) -> TileCost:
    """Return the cost of a tile of (rows, channels, elements).

    Args:
        board, shape, tile, itemsize: the board, the input's shape, the tile's extents, and bytes per element.
        shifts: tiles per loaded shift.
        busiest, mean: average tile size of the busiest task, and of all tasks, relative to this tile.
    """
    rows, channels, elements = tile
    segment = channels * elements * itemsize
    loops = ((rows, shape[2] * shape[3] * itemsize),) if rows > 1 else ()
    load, store = load_cost(board, segment, loops), store_cost(board, segment, loops)
    return TileCost(
        load=_uneven(load, busiest * LOADED, mean * LOADED),
        store=_uneven(store, busiest, mean),
        scalar_ps=board.scalar_gdram_latency_ps // shifts,
    )


def _uneven(cost: Cost, busiest: float, mean: float) -> Cost:
    """Scale the cost of a copy to the busiest task, and its DRAM time to the mean task."""
    return Cost(
        cost.own_ps, cost.transfer_ps * busiest, cost.read_ps * busiest, cost.write_ps * busiest, cost.dram_ps * mean
    )


def best_cut(board: Board, shape: tuple[int, ...], groups: int, itemsize: int, buffers: int) -> tuple[int, int]:
    """Return the segments of time and the blocks of channels per group that are predicted to be fastest.

    Adjacent channels are adjacent in every row, so a block is one strided copy with longer segments. Larger tiles mean
    fewer latencies; smaller ones spread more evenly over the cores, and few tiles start fewer clusters. Candidates are
    the fewest segments, up to eight, and enough to occupy the cores; for each, the fewest blocks that fit, and enough
    for up to four tiles per core. With two buffers, tiles have one channel.

    Args:
        shape: (N, T, C, HW).
        groups: number of groups of channels.
        itemsize: bytes per element.
        buffers: number of NRAM buffers.
    """
    batch, time, channels, hw = shape
    per_group = channels // groups
    capacity = buffer_bytes(board, buffers) // (hw * itemsize)
    fewest = max(ceil_div(time, capacity), ceil_div(time, MAX_SEGMENTS))
    occupied = ceil_div(board.cores, batch * groups)
    counts = {*tile_counts_below(board.cores), *(board.cores * rounds for rounds in range(1, 5))}
    candidates: list[Candidate[tuple[int, int]]] = []
    for segments in sorted({fewest, *range(fewest, _MAX_SEGMENTS + 1), occupied}):
        if not fewest <= segments <= time:
            continue
        rows = ceil_div(time, segments)
        max_units = 1 if buffers > 1 else max(capacity // rows, 1)
        fewest_blocks = ceil_div(per_group, min(max_units, per_group))
        units = batch * groups * segments
        for blocks in sorted({fewest_blocks, *(ceil_div(count, units) for count in counts)}):
            if not fewest_blocks <= blocks <= per_group:
                continue
            tiles = units * blocks
            grid = Grid.of_unions(board, tiles)
            tile = tile_cost(board, shape, (rows, ceil_div(per_group, blocks), hw), itemsize)
            predicted = predict_ps(grid, tile, overlapped=buffers > 1)
            candidates.append(
                Candidate(
                    strategy="", predicted_ps=predicted, tasks=grid.tasks, operations=tiles, split=(segments, blocks)
                )
            )
    return best(candidates).split

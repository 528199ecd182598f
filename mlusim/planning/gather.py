"""The planner of gather and gather_nd.

slab   A core loads the slab of x that the index of a tile can address, and selects from it within NRAM. A unit is the
       slab and the lookups of one coordinate of the leading shared axes. Tier 1: units stay whole. Tier 2: units are
       cut along the lookups, or along inner shared axes; the latter makes the slab smaller.
rows   A core copies from GDRAM for each lookup: the contiguous part of its row, or its single element. Tier 3, and the
       only strategy if the indexed axes alone exceed NRAM.

The strategy and the tiles with the shortest predicted time are chosen (`mlusim.planning.lookup_cost`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mlusim.errors import PlanError
from mlusim.planning.box_sizes import ROUNDS, Extents, blocks, count_boxes, sizes_of_at_most, spread
from mlusim.planning.cost import Cost, move_ps
from mlusim.planning.index_arithmetic import LOADED_REPEATS, IndexArithmetic
from mlusim.planning.lookup import (
    LookupCandidate,
    LookupParameters,
    LookupProblem,
    LookupSplit,
    choose,
    counts_to_hold,
    leading,
    nothing_to_do,
    nram_bytes,
    plan_of,
)
from mlusim.planning.lookup_cost import (
    INSTRUCTION,
    LOAD,
    STORE,
    Costs,
    scalar_address,
    selection_method,
)
from mlusim.planning.plan import Plan
from mlusim.planning.prediction import Grid, predict_serial_ps
from mlusim.planning.search import Candidate, fractions_of
from mlusim.planning.split import boxes, cut, in_runs, run_lengths
from mlusim.planning.tiles import Tiles
from mlusim.units import ceil_div, group_digits

STRATEGIES: dict[str, str] = {
    "auto": "the strategy with the shortest predicted time",
    "slab": "load the part of x that the index can address, and select within NRAM",
    "rows": "access GDRAM for each lookup",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherParameters(LookupParameters):
    """Parameters of the gather kernels besides the tiles.

    Attributes:
        slab, values: elements of the largest slab, and of the values of a tile.
        lookups_at_once: lookups of a tile.
    """

    slab: int = 0
    values: int
    lookups_at_once: int


def plan_gather(problem: LookupProblem) -> Plan:
    """Plan a gather. The plan does not depend on index values: the kernel reads them on the board.

    Raises `PlanError` if no strategy, or not the requested one, fits in NRAM, and for lookups along an axis without
    elements.
    """
    shape = problem.lookups.value_shape
    if 0 in shape:
        return nothing_to_do(problem, shape)
    if not problem.lookups.slab_elements:
        x_shape, axes = list(problem.lookups.x_shape), list(problem.lookups.axes)
        raise PlanError(
            f"x has shape {x_shape}, without elements along the indexed axes {axes}, and there are "
            f"{group_digits(math.prod(problem.lookups.positions))} lookups: make the index empty, or index other axes"
        )
    candidates = list(_slab_candidates(problem))
    if problem.lookups.columns:
        candidates += _row_candidates(problem)
    candidate, reason = choose(problem, candidates)
    split = candidate.split
    start, stop = boxes([cut(extent, size) for extent, size in zip(shape, split.sizes, strict=True)], split.order)
    return plan_of(
        problem,
        candidate,
        reason,
        shape=shape,
        parts=len(start),
        tiles=Tiles(in_runs(len(start), candidate.tasks), start, stop, split.nram_bytes),
        tiles_text=(
            f"{group_digits(len(start))} tiles of up to {list(split.sizes)}; each task has a contiguous range of them",
        ),
        parameters=split.parameters,
    )


def _slab_candidates(problem: LookupProblem) -> Iterator[LookupCandidate]:
    lookups, board = problem.lookups, problem.board
    shape = lookups.value_shape
    shared_extents = tuple(shape[axis] for axis in lookups.shared_axes)
    gathered_extents = tuple(shape[axis] for axis in lookups.gathered_axes)
    slab_bytes = max(lookups.slab_elements * problem.itemsize, 1)
    is_positional = bool(lookups.shared_positions)
    lookup_bytes = problem.itemsize + (
        sum(problem.arithmetic(positional=True).buffer_bytes(board, problem.index_itemsize)) if is_positional else 0
    )
    # Slabs that fit with a quarter of NRAM left for lookups, and slabs that fit together with all their lookups.
    capacities = [
        limit
        for available in fractions_of(board.nram_usable_bytes)
        for limit in (
            available * 3 // 4 // slab_bytes,
            available // (slab_bytes + math.prod(gathered_extents) * lookup_bytes),
        )
    ]
    shared_choices = {
        sizes
        for limit in counts_to_hold(math.prod(shared_extents), capacities, board.cores)
        if (sizes := _shared_sizes_that_fit(problem, shared_extents, limit)) is not None
    }
    # Sizes limited by `limit` are rounded down, which may leave one slab more than cores; these are rounded up.
    shared_choices |= {
        sizes for sizes in spread(shared_extents, max(*capacities, 1), board.cores) if _elements_left(problem, sizes)
    }
    for shared_sizes in sorted(shared_choices):
        slabs = count_boxes(shared_extents, shared_sizes)
        for sizes in sorted(
            spread(gathered_extents, _elements_left(problem, shared_sizes), ceil_div(board.cores, slabs))
        ):
            yield _slab_candidate(problem, shared_sizes, sizes)


def _shared_sizes_that_fit(problem: LookupProblem, extents: Extents, limit: int) -> Extents | None:
    """Return sizes of at most `limit` coordinates, halving the limit until lookups fit next to the slab."""
    while limit:
        sizes = sizes_of_at_most(extents, limit)
        if _elements_left(problem, sizes):
            return sizes
        limit //= 2
    return None


def _shared_positions(problem: LookupProblem, shared_sizes: Extents) -> int:
    """Return the coordinates of a tile on the shared axes that are axes of the index."""
    lookups = problem.lookups
    return math.prod(
        size for axis, size in zip(lookups.shared_axes, shared_sizes, strict=True) if axis in lookups.shared_positions
    )


def _arithmetic(problem: LookupProblem, shared_sizes: Extents) -> IndexArithmetic:
    """Return the address arithmetic; positional if a tile spans several coordinates of shared index axes."""
    return problem.arithmetic(positional=_shared_positions(problem, shared_sizes) > 1)


def _buffers(problem: LookupProblem, arithmetic: IndexArithmetic, values: int, lookups_at_once: int) -> list[int]:
    """Return the buffer sizes of a tile in bytes: its values and the buffers of index arithmetic."""
    index_bytes = arithmetic.buffer_bytes(problem.board, problem.index_itemsize)
    return (
        [values * problem.itemsize, *(lookups_at_once * nbytes for nbytes in index_bytes)]
        if problem.lookups.columns
        else []
    )


def _elements_left(problem: LookupProblem, shared_sizes: Extents) -> int:
    """Return how many coordinates of the gathered axes fit next to the slab of a tile; 0 if none."""
    lookups, board = problem.lookups, problem.board
    slab_bytes = nram_bytes(board, [lookups.slab_elements * math.prod(shared_sizes) * problem.itemsize])
    if slab_bytes > board.nram_usable_bytes:
        return 0
    if not lookups.columns:
        return max(math.prod(lookups.positions), 1)
    lookups_at_once = _shared_positions(problem, shared_sizes)
    element_bytes = _buffers(problem, _arithmetic(problem, shared_sizes), math.prod(shared_sizes), lookups_at_once)
    rounding = len(element_bytes) * (board.vector_alignment_bytes - 1)
    return max(board.nram_usable_bytes - slab_bytes - rounding, 0) // sum(element_bytes)


def _slab_candidate(problem: LookupProblem, shared_sizes: Extents, gathered_sizes: Extents) -> LookupCandidate:
    lookups, board, itemsize = problem.lookups, problem.board, problem.itemsize
    shape, rank = lookups.value_shape, len(lookups.positions)
    order = (*lookups.shared_axes, *lookups.gathered_axes)
    size_of = dict(zip(order, (*shared_sizes, *gathered_sizes), strict=True))
    sizes = tuple(size_of[axis] for axis in range(len(shape)))
    values, lookups_at_once = math.prod(sizes), math.prod(sizes[:rank])
    row = values // lookups_at_once
    arithmetic = _arithmetic(problem, shared_sizes)
    even = all(extent % size == 0 for extent, size in zip(shape[rank:], sizes[rank:], strict=True))
    method = selection_method(board, row, itemsize, arithmetic, even=even)
    slab_box = lookups.slab_of((0,) * len(shape), sizes)[1]
    slab = math.prod(slab_box)
    buffers = _buffers(problem, arithmetic, values, lookups_at_once)
    first = len(leading(lookups))
    is_whole = all(size == extent for size, extent in zip(sizes[first:], shape[first:], strict=True))
    tiles = count_boxes(shape, sizes)

    def details() -> tuple[str, ...]:
        return (
            (
                f"a slab {list(slab_box)} of x takes {group_digits(slab * itemsize)} B; "
                f"{group_digits(lookups_at_once)} lookups of {group_digits(row)} values take "
                f"{group_digits(values * itemsize)} B, and their index {group_digits(sum(buffers[1:]))} B"
            ),
            f"values are selected by {method}" if lookups.columns else "the slab is stored unchanged",
        )

    return Candidate(
        strategy="slab",
        predicted_ps=_slab_ps(problem, sizes, slab_box, arithmetic, method),
        tasks=min(board.cores, tiles),
        operations=tiles,
        split=LookupSplit(
            tier=1 if is_whole else 2,
            sizes=sizes,
            nram_bytes=nram_bytes(board, [slab * itemsize, *buffers]),
            order=order,
            details=details,
            parameters=GatherParameters(
                lookups=lookups,
                strategy="slab",
                arithmetic=arithmetic,
                method=method,
                slab=slab,
                values=values,
                lookups_at_once=lookups_at_once,
            ),
        ),
    )


def _slab_ps(
    problem: LookupProblem, sizes: Extents, slab_box: Extents, arithmetic: IndexArithmetic, method: str
) -> int:
    """Predict the time of strategy "slab" with tiles of these sizes."""
    lookups, board, itemsize = problem.lookups, problem.board, problem.itemsize
    shape, positions = lookups.value_shape, sizes[: len(lookups.positions)]
    tiles = count_boxes(shape, sizes)
    tasks = min(board.cores, tiles)
    costs = Costs(board)
    load = costs.box(LOAD, lookups.x_shape, slab_box, itemsize)
    # The first tile of each task loads a whole slab; later tiles load a fraction of one, on average.
    parts = math.prod(ceil_div(shape[axis], sizes[axis]) for axis in lookups.gathered_axes)
    most_loads, loads = _slab_loads(tiles, tasks, parts)
    stages = [(load * ((most_loads - 1) / ceil_div(tiles, tasks))).with_dram_of(load * ((loads - tasks) / tiles))]
    if lookups.columns:
        stages += _index_stages(problem, costs, positions)
        lookups_at_once = math.prod(positions)
        row = math.prod(sizes) // lookups_at_once
        stages.append(
            costs.select_at_once(row, itemsize, lookups_at_once, arithmetic)
            if method == INSTRUCTION
            else costs.select(
                method, row, itemsize, lookups_at_once, lookups_at_once, scalar_address(board, arithmetic)
            )
        )
    stages.append(costs.box(STORE, shape, sizes, itemsize))
    return predict_serial_ps(Grid.of_unions(board, tiles), stages, preparation=[load])


def _slab_loads(tiles: int, tasks: int, parts: int) -> tuple[int, int]:
    """Return the slabs loaded by a task with the most tiles, at most, and by all tasks.

    Tasks handle runs of tiles, and `parts` successive tiles share a slab. A task that begins within such a group loads
    the slab again.
    """
    runs = run_lengths(tiles, tasks)
    stop = np.cumsum(runs)
    loads = (stop - 1) // parts - (stop - runs) // parts + 1
    return int(loads[runs == runs.max()].max()), int(loads.sum())


def _index_stages(problem: LookupProblem, costs: Costs, sizes: Extents) -> list[Cost]:
    """Return the cost of loading the index of a tile; an index that repeats is loaded once and repeated in NRAM."""
    lookups, columns = problem.lookups, problem.lookups.columns
    shared_axes = lookups.batch_dims if problem.repeats else 0
    load = costs.box(
        LOAD, (*lookups.positions[shared_axes:], columns), (*sizes[shared_axes:], columns), problem.index_itemsize
    )
    repeats = math.prod(sizes[:shared_axes])
    if repeats <= LOADED_REPEATS:
        return [load * repeats]
    nbytes = math.prod(sizes[shared_axes:]) * columns * problem.index_itemsize
    return [load, Cost(move_ps(costs.board, nbytes, repeats - 1))]


def _row_candidates(problem: LookupProblem) -> Iterator[LookupCandidate]:
    lookups, board, itemsize = problem.lookups, problem.board, problem.itemsize
    arithmetic = problem.arithmetic(positional=lookups.aligned or bool(lookups.shared_positions))
    index_bytes = arithmetic.buffer_bytes(board, problem.index_itemsize)
    available = board.nram_usable_bytes - (len(index_bytes) + 1) * (board.vector_alignment_bytes - 1)
    max_positions, positions = max((available - sum(index_bytes)) // itemsize, 1), math.prod(lookups.positions)
    # With fewer lookups than cores, rows are cut to occupy the remaining cores.
    fewest = [board.cores * rounds // positions for rounds in ROUNDS if positions < board.cores]
    parts = {count for fewer in fewest for count in (fewer, fewer + 1)}
    evenly = {ceil_div(math.prod(lookups.row_shape), count) for count in parts}
    for row_sizes in sorted(
        {blocks(lookups.row_shape, limit) for limit in {max_positions} | {s for s in evenly if s < max_positions}}
    ):
        max_lookups = available // (sum(index_bytes) + math.prod(row_sizes) * itemsize)
        chunks = count_boxes(lookups.row_shape, row_sizes)
        groups = max(board.cores // chunks, 1)
        position_sizes_to_try = (
            {sizes for available in fractions_of(max_lookups) for sizes in spread(lookups.positions, available, groups)}
            if max_lookups
            else set()
        )
        for position_sizes in sorted(position_sizes_to_try):
            yield _row_candidate(problem, arithmetic, position_sizes, row_sizes)


def _row_candidate(
    problem: LookupProblem, arithmetic: IndexArithmetic, position_sizes: Extents, row_sizes: Extents
) -> LookupCandidate:
    lookups, board, itemsize = problem.lookups, problem.board, problem.itemsize
    row, sizes = math.prod(row_sizes), position_sizes + row_sizes
    lookups_at_once = math.prod(position_sizes)
    shape = lookups.value_shape
    tiles = count_boxes(shape, sizes)
    grid = Grid.of_unions(board, tiles)
    costs = Costs(board)
    stages = (
        *_index_stages(problem, costs, position_sizes),
        costs.rows_at_once(LOAD, row * itemsize, lookups_at_once, arithmetic)
        if board.has_gather
        else costs.rows(LOAD, row * itemsize, lookups_at_once, address=scalar_address(board, arithmetic)),
        costs.box(STORE, shape, sizes, itemsize),
    )
    buffers = _buffers(problem, arithmetic, lookups_at_once * row, lookups_at_once)

    def details() -> tuple[str, ...]:
        return (
            (
                f"a row has {group_digits(math.prod(lookups.row_shape))} values, {group_digits(row)} at once; "
                f"{group_digits(lookups_at_once)} lookups take {group_digits(lookups_at_once * row * itemsize)} B, "
                f"and their index {group_digits(sum(buffers[1:]))} B"
            ),
            "rows are loaded by the gather instruction" if board.has_gather else "each row is loaded by a copy",
        )

    return Candidate(
        strategy="rows",
        predicted_ps=predict_serial_ps(grid, stages),
        tasks=grid.tasks,
        operations=tiles,
        split=LookupSplit(
            tier=3,
            sizes=sizes,
            nram_bytes=nram_bytes(board, buffers),
            order=tuple(range(len(shape))),
            details=details,
            parameters=GatherParameters(
                lookups=lookups,
                strategy="rows",
                arithmetic=arithmetic,
                values=lookups_at_once * row,
                lookups_at_once=lookups_at_once,
            ),
        ),
    )

"""How tin_shift is split: the tin_shift document's three tiers, and four variants of it.

A unit is one channel of one batch entry, T rows of HW elements. Tier 1: a core holds whole units; tier 2: a unit is
cut along time into segments of as many rows as fit, the last one short; tier 3: one core walks a row in chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mlusim.dtypes import Dtype
from mlusim.hardware import Board
from mlusim.planning.plan import Plan, Tiles
from mlusim.planning.split import (
    Cuts,
    Fit,
    Integers,
    boxes,
    buffer_bytes,
    choose_tier,
    cut,
    cut_evenly,
    in_turn,
    union1_launch,
)
from mlusim.planning.tin_shift_choice import choose
from mlusim.units import PS_PER_S, ceil_div, group_digits, round_up

Shape = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """One way to do it.

    Attributes:
        summary: what sets it apart, for people.
        buffers: equal NRAM buffers; two take turns.
        clears: "buffer": the whole buffer for every item; "vacated": only the rows that the shift leaves empty.
        whole_nram: the buffer is all of the usable NRAM, however small the tile.
        batches: several channels of one group in one copy.
        floors: dim.y is the number of tasks over the cores of a cluster, rounded down, as mlu-ops does it.
    """

    summary: str
    buffers: int = 1
    clears: str = "buffer"
    whole_nram: bool = False
    batches: bool = False
    floors: bool = False


STRATEGIES: dict[str, Strategy] = {
    "auto": Strategy(summary="batched or pingpong, whichever the board's cost functions say is faster"),
    "documented": Strategy(summary="the document's three tiers: clear the buffer, load the shifted rows, store"),
    "shipped": Strategy(
        summary="as mlu-ops ships it: all of NRAM cleared for every item, clusters counted by floor division",
        whole_nram=True,
        floors=True,
    ),
    "tight": Strategy(summary="clears only the rows that the shift vacates, while the others load", clears="vacated"),
    "batched": Strategy(
        summary="as tight, with several channels of one group in each copy", clears="vacated", batches=True
    ),
    "pingpong": Strategy(
        summary="as tight, with two buffers: one is stored while the other is filled", clears="vacated", buffers=2
    ),
}


def plan_tin_shift(
    board: Board, shape: Shape, groups: int, dtype: Dtype, strategy: str, operator: str = "tin_shift_forward"
) -> Plan:
    """Split one tin_shift. The shifts themselves play no part: the kernel reads them on the board.

    Args:
        board: the board's record.
        shape: (N, T, C, HW), all positive but T, which may be 0.
        groups: G, a divisor of C.
        dtype: element type.
        strategy: a name of `STRATEGIES`.
        operator: what the plan calls itself.

    Raises `PlanError` where the NRAM of the board does not hold one element.
    """
    if strategy == "auto":
        return choose(lambda name: plan_tin_shift(board, shape, groups, dtype, name, operator))
    chosen = STRATEGIES[strategy]
    batch, time, channels, hw = shape
    itemsize = dtype.itemsize
    unit = f"one channel of {time} x {hw} elements of {itemsize} B"
    if not time:
        return Plan(
            operator=operator,
            strategy=strategy,
            board=board,
            tier=0,
            reason="T is 0: the output has no elements and nothing is launched",
            arithmetic=(),
            unit=unit,
            unit_bytes=0,
            kind="UNION1",
            dim=(board.cores_per_cluster, 1, 1),
            output_shape=shape,
            itemsize=itemsize,
            tiles=Tiles([], np.empty((0, 4)), np.empty((0, 4)), 0),
            nram_bytes=0,
            parameters={"clears": chosen.clears, "buffers": chosen.buffers, "rows": 0},
        )
    fit = choose_tier(board, rows=time, row_elements=hw, itemsize=itemsize, buffers=chosen.buffers)
    channel_cuts = cut(channels, 1)
    batching: tuple[str, ...] = ()
    if chosen.batches and fit.tier == 1:
        channel_cuts, batching = _batch(board, fit, shape, groups, itemsize)
    # Items are nested as batch, channel, time; the chunks of a row are one item, because one core walks it.
    row_cuts = cut(time, fit.rows)
    chunks = cut(hw, fit.elements)
    start, stop = boxes((cut(batch, 1), row_cuts, channel_cuts, chunks), order=(0, 2, 1, 3))
    per_item = len(chunks[0])
    items = len(start) // per_item
    deal = _deal_with_floor if chosen.floors else _deal
    kind, dim, task, dealing = deal(board, np.prod((stop - start)[::per_item, :3], axis=1))
    tile_bytes = int(np.prod(stop - start, axis=1).max()) * itemsize
    nram_bytes = chosen.buffers * round_up(tile_bytes, board.vector_alignment_bytes)
    if chosen.whole_nram:
        nram_bytes = buffer_bytes(board)
    return Plan(
        operator=operator,
        strategy=strategy,
        board=board,
        tier=fit.tier,
        reason=fit.reason,
        arithmetic=(*fit.arithmetic, *batching, f"{_n(items)} items: {dealing}"),
        unit=unit,
        unit_bytes=time * hw * itemsize,
        kind=kind,
        dim=dim,
        output_shape=shape,
        itemsize=itemsize,
        tiles=Tiles(np.repeat(task, per_item), start, stop, nram_bytes),
        nram_bytes=nram_bytes,
        parameters={"clears": chosen.clears, "buffers": chosen.buffers, "rows": fit.rows},
    )


_Launch = tuple[str, tuple[int, int, int], Integers, str]


def _deal(board: Board, sizes: Integers) -> _Launch:
    kind, dim = union1_launch(board, len(sizes))
    tasks = dim[0] * dim[1]
    return kind, dim, in_turn(sizes, tasks), f"{_n(tasks)} tasks take them in turn, the larger first"


def _deal_with_floor(board: Board, sizes: Integers) -> _Launch:
    """mlu-ops' own: dim.y is tasks // cores of a cluster, so that 7 items run on 4 tasks; items in their own order."""
    wanted = min(len(sizes), board.cores)
    dim = (board.cores_per_cluster, max(wanted // board.cores_per_cluster, 1), 1)
    tasks = dim[0] * dim[1]
    dealing = f"dim.y = min({_n(len(sizes))}, {board.cores} cores) // {dim[0]} = {dim[1]}; {_n(tasks)} tasks in turn"
    return "UNION1", dim, np.arange(len(sizes)) % tasks, dealing


def _batch(board: Board, fit: Fit, shape: Shape, groups: int, itemsize: int) -> tuple[Cuts, tuple[str, ...]]:
    """Cut the channels into blocks of one group each, as even as can be, by the least time for the busiest core.

    Adjacent channels lie next to each other in every row, so a block is one strided copy of longer segments, also
    where there is no 3-D memcpy. Larger blocks mean fewer latencies; smaller ones spread more evenly over the cores.
    """
    batch, _, channels, _ = shape
    per_group = channels // groups
    largest = min(fit.units, per_group)
    blocks = np.arange(ceil_div(per_group, largest), per_group + 1)
    total = batch * groups * blocks
    tasks = np.minimum(total, board.cores)
    turns = -(-total // tasks)
    # What one copy gets of its core's port, its cluster's and the DRAM while all tasks copy; each byte goes twice.
    clusters = -(-tasks // board.cores_per_cluster)
    port = min(board.core_read_bandwidth_bytes_per_s, board.core_write_bandwidth_bytes_per_s)
    cluster_port = min(board.cluster_read_bandwidth_bytes_per_s, board.cluster_write_bandwidth_bytes_per_s)
    shared = np.minimum(cluster_port * clusters, board.dram_bandwidth_bytes_per_s) / tasks
    unit_ps = 2 * fit.rows * fit.elements * itemsize * PS_PER_S / np.minimum(port, shared)
    fixed_ps = board.scalar_gdram_latency_ps + board.dma_read_latency_ps + board.dma_write_latency_ps
    busiest_ps = turns * (fixed_ps + -(-per_group // blocks) * unit_ps)
    # Of those about as fast, the one with the fewest turns, then with the most cores at work.
    near = np.flatnonzero(busiest_ps <= busiest_ps.min() * _ABOUT)
    best = int(blocks[near[np.lexsort((-tasks[near], turns[near]))[0]]])
    starts, stops = cut_evenly(per_group, best)
    first = np.arange(groups)[:, None] * per_group
    line = (
        f"{_n(per_group)} channels a group, at most {_n(largest)} at once: {_n(best)} blocks of up to "
        f"{_n(ceil_div(per_group, best))} keep the busiest core least busy"
    )
    return ((first + starts).reshape(-1), (first + stops).reshape(-1)), (line,)


# Predicted times within this factor count as equal: the prediction knows no queueing.
_ABOUT = 1.001

_n: Callable[[int], str] = group_digits

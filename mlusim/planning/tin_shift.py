"""The planner of tin_shift: the three tiers of its design document, and four variants.

A unit is one channel of one batch entry, T rows of HW elements. Tier 1: a core holds whole units; tier 2: a unit is cut
along time into segments of as many rows as fit, the last one shorter; tier 3: one core processes a row in chunks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from mlusim.arrays import Integers
from mlusim.dtypes import Dtype
from mlusim.hardware import Board
from mlusim.planning.plan import Plan, empty_plan
from mlusim.planning.split import Cuts, boxes, buffer_bytes, cut, cut_evenly, in_turn, union1_launch
from mlusim.planning.tiles import Tiles
from mlusim.planning.tin_shift_choice import best_cut, choose
from mlusim.planning.tin_shift_tiers import Fit, choose_tier
from mlusim.units import ceil_div, group_digits, plural, round_up

Shape = tuple[int, int, int, int]
Clears = Literal["buffer", "vacated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A strategy of tin_shift.

    Attributes:
        summary: description for users.
        buffers: equal NRAM buffers; two alternate.
        clears: what each item clears: "buffer", its whole buffer; "vacated", only the rows that the shift vacates.
        whole_nram: the buffer takes all usable NRAM, however small the tile.
        batches: one copy may transfer several channels of a group.
        floor_clusters: dim.y is the number of tasks divided by the cores of a cluster, rounded down, as in mlu-ops.
    """

    summary: str
    buffers: int = 1
    clears: Clears = "buffer"
    whole_nram: bool = False
    batches: bool = False
    floor_clusters: bool = False


STRATEGIES: dict[str, Strategy] = {
    "auto": Strategy(summary="batched or pingpong, whichever has the shorter predicted time"),
    "documented": Strategy(summary="the design document's three tiers: clear the buffer, load the shifted rows, store"),
    "shipped": Strategy(
        summary="like mlu-ops: clears all of NRAM for every item, and counts clusters by floor division",
        whole_nram=True,
        floor_clusters=True,
    ),
    "tight": Strategy(
        summary="clears only the rows that the shift vacates, while the other rows load", clears="vacated"
    ),
    "batched": Strategy(
        summary="like tight, with several channels of one group in each copy", clears="vacated", batches=True
    ),
    "pingpong": Strategy(
        summary="like tight, with two buffers: one is stored while the other is filled", clears="vacated", buffers=2
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftParameters:
    """Parameters of the tin_shift kernels besides the tiles.

    Attributes:
        clears, buffers: of the strategy.
        rows: most rows of a unit in one tile.
    """

    clears: Clears
    buffers: int
    rows: int


def plan_tin_shift(
    board: Board, shape: Shape, groups: int, dtype: Dtype, strategy: str, operator: str = "tin_shift_forward"
) -> Plan:
    """Plan a tin_shift. The plan does not depend on the shifts: the kernel reads them on the board.

    Args:
        shape: (N, T, C, HW), all positive but T, which may be 0.
        groups: G, a divisor of C.
        dtype: element type.
        strategy: a key of `STRATEGIES`.
        operator: name of the operator in the plan.

    Raises `PlanError` if not one element fits in NRAM.
    """
    if strategy == "auto":
        return choose(lambda name: plan_tin_shift(board, shape, groups, dtype, name, operator))
    settings = STRATEGIES[strategy]
    batch, time, channels, hw = shape
    itemsize = dtype.itemsize
    unit = f"one channel of {time} x {hw} elements of {itemsize} B"
    if not time:
        return empty_plan(
            operator=operator,
            strategy=strategy,
            board=board,
            shape=shape,
            itemsize=itemsize,
            reason="T is 0: the output has no elements, so nothing is launched",
            unit=unit,
            parameters=ShiftParameters(clears=settings.clears, buffers=settings.buffers, rows=0),
        )
    fit = choose_tier(board, rows=time, row_elements=hw, itemsize=itemsize, buffers=settings.buffers)
    row_cuts, channel_cuts = cut(time, fit.rows), cut(channels, 1)
    if fit.tier < 3 and (settings.batches or settings.buffers > 1):
        fit, row_cuts, channel_cuts = _cut_for_the_cores(board, shape, groups, itemsize, settings, fit)
    # Items are nested as batch, channel, time; the chunks of a row form one item, processed by one core.
    chunks = cut(hw, fit.elements)
    start, stop = boxes((cut(batch, 1), row_cuts, channel_cuts, chunks), order=(0, 2, 1, 3))
    per_item = len(chunks[0])
    items = len(start) // per_item
    assign = _assign_by_floor_division if settings.floor_clusters else _assign_in_turn
    launch = assign(board, np.prod((stop - start)[::per_item, :3], axis=1))
    tile_bytes = int(np.prod(stop - start, axis=1).max()) * itemsize
    nram_bytes = settings.buffers * round_up(tile_bytes, board.vector_alignment_bytes)
    if settings.whole_nram:
        nram_bytes = buffer_bytes(board)
    return Plan(
        operator=operator,
        strategy=strategy,
        board=board,
        tier=fit.tier,
        reason=fit.reason,
        arithmetic=(*fit.arithmetic, f"{group_digits(items)} items: {launch.text}"),
        unit=unit,
        unit_bytes=time * hw * itemsize,
        kind=launch.kind,
        dim=launch.dim,
        output_shape=shape,
        itemsize=itemsize,
        tiles=Tiles(np.repeat(launch.task, per_item), start, stop, nram_bytes),
        nram_bytes=nram_bytes,
        parameters=ShiftParameters(clears=settings.clears, buffers=settings.buffers, rows=fit.rows),
    )


class _Assignment(NamedTuple):
    """The launch, by item its task, and a description."""

    kind: str
    dim: tuple[int, int, int]
    task: Integers
    text: str


def _assign_in_turn(board: Board, sizes: Integers) -> _Assignment:
    kind, dim = union1_launch(board, len(sizes))
    tasks = dim[0] * dim[1]
    text = f"assigned to {group_digits(tasks)} tasks in turn, largest first"
    return _Assignment(kind, dim, in_turn(sizes, tasks), text)


def _assign_by_floor_division(board: Board, sizes: Integers) -> _Assignment:
    """Assign items as mlu-ops does: dim.y = tasks // cores of a cluster, so 7 items run on 4 tasks.

    Items are not sorted.
    """
    desired = min(len(sizes), board.cores)
    dim = (board.cores_per_cluster, max(desired // board.cores_per_cluster, 1), 1)
    tasks = dim[0] * dim[1]
    text = (
        f"dim.y = min({group_digits(len(sizes))}, {board.cores} cores) // {dim[0]} = {dim[1]}; assigned to "
        f"{group_digits(tasks)} tasks in turn"
    )
    return _Assignment("UNION1", dim, np.arange(len(sizes)) % tasks, text)


def _cut_for_the_cores(
    board: Board, shape: Shape, groups: int, itemsize: int, settings: Strategy, fit: Fit
) -> tuple[Fit, Cuts, Cuts]:
    """Cut rows into segments, and the channels of each group into blocks, evenly; return the fit and both cuts."""
    _, time, channels, _ = shape
    segments, blocks = best_cut(board, shape, groups, itemsize, settings.buffers)
    per_group = channels // groups
    line = (
        f"{group_digits(per_group)} channels per group in {plural(blocks, 'block')} of up to "
        f"{group_digits(ceil_div(per_group, blocks))}, {group_digits(time)} rows in {plural(segments, 'segment')}: the "
        "shortest predicted time of the busiest core"
    )
    cut_fit = replace(fit, rows=ceil_div(time, segments), arithmetic=(*fit.arithmetic, line))
    if segments > 1 and fit.tier == 1:
        reason = f"{fit.reason}, but is cut into {segments} segments to occupy the cores"
        cut_fit = replace(cut_fit, tier=2, reason=reason)
    starts, stops = cut_evenly(per_group, blocks)
    first = np.arange(groups)[:, None] * per_group
    return cut_fit, cut_evenly(time, segments), ((first + starts).reshape(-1), (first + stops).reshape(-1))

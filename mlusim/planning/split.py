"""The common parts of planners: tiers, distribution to tasks, grids, and boxes as columns.

A *unit* is the amount of data that one core would ideally process at once; it consists of rows, and rows of elements.
`choose_tier` computes from their sizes what fits in an NRAM buffer, with an explanation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlusim.arrays import Integers
from mlusim.errors import PlanError
from mlusim.hardware import Board
from mlusim.memory.copy_limits import MAX_SEGNUM
from mlusim.units import ceil_div, group_digits, plural

Cuts = tuple[Integers, Integers]

# The remedy if NRAM is too small. A caller who set an NRAM limit should raise that limit instead.
MORE_NRAM = "give the board more nram_bytes or fewer nram_reserved_bytes"
# segnum is the number of segments minus one (B), so one strided copy transfers up to this many rows.
MAX_SEGMENTS = MAX_SEGNUM + 1


def max_loops(board: Board) -> int:
    """Return the number of loops over segments that one `__memcpy` supports: one before arch 300 (B)."""
    return 2 if board.has_3d_memcpy else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The contents of one NRAM buffer.

    Attributes:
        tier: 1 whole units, 2 a unit cut into segments of rows, 3 a row cut into chunks of elements.
        units: whole units that fit at once; 0 in tiers 2 and 3.
        rows: most rows of a unit in one tile; 1 in tier 3.
        elements: most elements of a row in one tile.
        reason: why this tier.
        arithmetic: the calculation, as lines of text.
    """

    tier: int
    units: int
    rows: int
    elements: int
    reason: str
    arithmetic: tuple[str, ...]


def buffer_bytes(board: Board, buffers: int = 1) -> int:
    """Return the bytes of each of `buffers` equal NRAM buffers, rounded down to the alignment of allocations."""
    alignment = board.vector_alignment_bytes
    return board.nram_usable_bytes // buffers // alignment * alignment


def choose_tier(
    board: Board,
    *,
    rows: int,
    row_elements: int,
    itemsize: int,
    buffers: int = 1,
) -> Fit:
    """Return the first tier whose tile fits in one of `buffers` NRAM buffers.

    Args:
        board: the board.
        rows: rows per unit.
        row_elements: elements per row.
        itemsize: bytes per element.
        buffers: equal parts that the usable NRAM is divided into.

    A unit of more than `MAX_SEGMENTS` rows is cut as if it did not fit: one copy takes no more. Raises `PlanError` if
    not one element fits in a buffer.
    """
    capacity = buffer_bytes(board, buffers)
    row_bytes = row_elements * itemsize
    unit_bytes = rows * row_bytes
    usable = f"usable NRAM {group_digits(board.nram_usable_bytes)} B"
    room = usable if buffers == 1 else f"{usable} / {buffers} buffers = {group_digits(capacity)} B each"
    if capacity < itemsize:
        raise PlanError(
            f"{board.name} has {room}, and allocations are rounded up to {board.vector_alignment_bytes} B: no element "
            f"of {itemsize} B fits; {MORE_NRAM}"
        )
    units = capacity // unit_bytes
    division = f"{room}; {group_digits(capacity)} B // {group_digits(unit_bytes)} B per unit = {plural(units, 'unit')}"
    if units and rows <= MAX_SEGMENTS:
        return Fit(
            tier=1,
            units=units,
            rows=rows,
            elements=row_elements,
            reason=f"a unit of {group_digits(unit_bytes)} B fits in a buffer of {group_digits(capacity)} B",
            arithmetic=(division,),
        )
    if row_bytes > capacity:
        return _cut_rows(row_elements, itemsize, capacity, division)
    reason = (
        f"a unit of {group_digits(unit_bytes)} B does not fit in a buffer of {group_digits(capacity)} B, but a row of "
        f"{group_digits(row_bytes)} B does"
        if not units
        else f"a unit has {group_digits(rows)} rows, and one copy takes at most {group_digits(MAX_SEGMENTS)} (segnum "
        f"{group_digits(MAX_SEGNUM)})"
    )
    fitting = capacity // row_bytes
    tile_rows = min(fitting, MAX_SEGMENTS, rows)
    return Fit(
        tier=2,
        units=0,
        rows=tile_rows,
        elements=row_elements,
        reason=reason,
        arithmetic=(
            division,
            f"{group_digits(capacity)} B // {group_digits(row_bytes)} B per row = {group_digits(fitting)} rows",
            _parts_text(rows, "rows", "segments", tile_rows),
        ),
    )


def _cut_rows(row_elements: int, itemsize: int, capacity: int, division: str) -> Fit:
    """Return the tier of rows that exceed the capacity: chunks of a row."""
    row_bytes = row_elements * itemsize
    elements = capacity // itemsize
    return Fit(
        tier=3,
        units=0,
        rows=1,
        elements=elements,
        reason=f"not even a row of {group_digits(row_bytes)} B fits in a buffer of {group_digits(capacity)} B",
        arithmetic=(
            division,
            f"{group_digits(capacity)} B // {group_digits(row_bytes)} B per row = 0 rows",
            _parts_text(row_elements, "elements per row", "chunks", elements),
        ),
    )


def _parts_text(total: int, what: str, parts: str, size: int) -> str:
    count = ceil_div(total, size)
    last = total - (count - 1) * size
    cut_into = f"{group_digits(count)} {parts} of up to {group_digits(size)}, the last of {group_digits(last)}"
    return f"{group_digits(total)} {what} = {cut_into}"


def union1_launch(board: Board, units: int) -> tuple[str, tuple[int, int, int]]:
    """Return task type and grid: one task per core, on no more clusters than `units` can occupy."""
    clusters = min(board.clusters, max(ceil_div(units, board.cores_per_cluster), 1))
    return "UNION1", (board.cores_per_cluster, clusters, 1)


def in_turn(sizes: Integers, tasks: int) -> Integers:
    """Deal out items to tasks in turn, larger ones first; return the task of each item.

    Items of equal size go to task k modulo `tasks`. Short items come last and thus spread over tasks: no two tasks
    differ by more than the largest item.
    """
    task = np.empty(len(sizes), np.int64)
    task[np.argsort(-np.asarray(sizes), kind="stable")] = np.arange(len(sizes)) % tasks
    return task


def in_runs(count: int, tasks: int) -> Integers:
    """Divide `count` items into one contiguous run per task, as evenly as possible; return the task of each item."""
    return np.repeat(np.arange(tasks), run_lengths(count, tasks))


def run_lengths(count: int, tasks: int) -> Integers:
    """Return the length of each task's run in `in_runs`."""
    quotient, remainder = divmod(count, tasks)
    return np.where(np.arange(tasks) < remainder, quotient + 1, quotient)


def cut(extent: int, size: int) -> Cuts:
    """Cut an extent into parts of `size`, the last one possibly shorter; return starts and stops."""
    starts = np.arange(0, extent, size, dtype=np.int64)
    return starts, np.minimum(starts + size, extent)


def cut_evenly(extent: int, parts: int) -> Cuts:
    """Cut an extent into `parts` parts that differ by at most one; return starts and stops."""
    bounds = np.arange(parts + 1, dtype=np.int64) * extent // parts
    return bounds[:-1], bounds[1:]


def boxes(cuts: Sequence[Cuts], order: Sequence[int]) -> tuple[Integers, Integers]:
    """Return every combination of the parts of each axis: starts and stops, each (boxes, rank).

    Args:
        cuts: the parts of each axis.
        order: loop order of the axes, outermost first.
    """
    parts = [len(cuts[axis][0]) for axis in order]
    count = int(np.prod(parts))
    start = np.empty((count, len(cuts)), np.int64)
    stop = np.empty((count, len(cuts)), np.int64)
    inner = count
    box = np.arange(count)
    for axis, extent in zip(order, parts, strict=True):
        inner //= max(extent, 1)
        part = box // max(inner, 1) % max(extent, 1)
        start[:, axis] = np.asarray(cuts[axis][0])[part]
        stop[:, axis] = np.asarray(cuts[axis][1])[part]
    return start, stop

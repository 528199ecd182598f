"""The common parts of planners: buffers, grids, distribution to tasks, and boxes as columns.

They serve planners of users too, and raise `InputError` for arguments that no split has.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlusim.arrays import Integers
from mlusim.errors import InputError, shown
from mlusim.hardware import Board
from mlusim.inputs import as_array, as_count, as_tuple, check_is
from mlusim.memory.copy_limits import MAX_SEGNUM
from mlusim.units import ceil_div

Cuts = tuple[Integers, Integers]

# The remedy if NRAM is too small. A caller who set an NRAM limit should raise that limit instead.
MORE_NRAM = "give the board more nram_bytes or fewer nram_reserved_bytes"
_A_BOARD = "pass mlusim.board(NAME), or the board of a device"
# segnum is the number of segments minus one (B), so one strided copy transfers up to this many rows.
MAX_SEGMENTS = MAX_SEGNUM + 1
_MAX_PARTS = 2**31 - 1  # as elements of a tensor that is not "large" (K)


def max_loops(board: Board) -> int:
    """Return the number of loops over segments that one `__memcpy` supports: one before arch 300 (B)."""
    check_is("max_loops: board", board, Board, _A_BOARD)
    return 2 if board.has_3d_memcpy else 1


def buffer_bytes(board: Board, buffers: int = 1) -> int:
    """Return the bytes of each of `buffers` equal NRAM buffers, rounded down to the alignment of allocations."""
    check_is("buffer_bytes: board", board, Board, _A_BOARD)
    alignment = board.vector_alignment_bytes
    return board.nram_usable_bytes // as_count("buffer_bytes: buffers", buffers) // alignment * alignment


def union1_launch(board: Board, units: int) -> tuple[str, tuple[int, int, int]]:
    """Return task type and grid: one task per core, on no more clusters than `units` can occupy."""
    check_is("union1_launch: board", board, Board, _A_BOARD)
    units = as_count("union1_launch: units", units, minimum=0)
    clusters = min(board.clusters, max(ceil_div(units, board.cores_per_cluster), 1))
    return "UNION1", (board.cores_per_cluster, clusters, 1)


def in_turn(sizes: Integers, tasks: int) -> Integers:
    """Deal out items to tasks in turn, larger ones first; return the task of each item.

    Items of equal size go to task k modulo `tasks`. Short items come last and thus spread over tasks: no two tasks
    differ by more than the largest item.
    """
    tasks = as_count("in_turn: tasks", tasks)
    _check_parts(f"in_turn: tasks={tasks}", 0, tasks)
    items = as_array("in_turn: sizes", sizes)
    if items.ndim != 1 or (len(items) and items.dtype.kind not in "iu"):
        raise InputError(f"in_turn: sizes={shown(sizes)}: pass the size of each item, a list of integers")
    task = np.empty(len(items), np.int64)
    task[np.argsort(-items.astype(np.int64), kind="stable")] = np.arange(len(items)) % tasks
    return task


def in_runs(count: int, tasks: int) -> Integers:
    """Divide `count` items into one contiguous run per task, as evenly as possible; return the task of each item."""
    tasks = as_count("in_runs: tasks", tasks)
    lengths = run_lengths(count, tasks)  # checks that arrays of this length can be made
    return np.repeat(np.arange(tasks), lengths)


def run_lengths(count: int, tasks: int) -> Integers:
    """Return the length of each task's run in `in_runs`."""
    count = as_count("runs: count", count, minimum=0)
    tasks = as_count("runs: tasks", tasks)
    _check_parts(f"runs: count={count}, tasks={tasks}", count, max(count, tasks))
    quotient, remainder = divmod(count, tasks)
    return np.where(np.arange(tasks) < remainder, quotient + 1, quotient)


def cut(extent: int, size: int) -> Cuts:
    """Cut an extent into parts of `size`, the last one possibly shorter; return starts and stops."""
    extent = as_count("cut: extent", extent, minimum=0)
    size = as_count("cut: size", size)
    _check_parts(f"cut: extent={extent}, size={size}", extent, ceil_div(extent, size))
    size = min(size, max(extent, 1))
    starts = np.arange(0, extent, size, dtype=np.int64)
    return starts, np.minimum(starts + size, extent)


def cut_evenly(extent: int, parts: int) -> Cuts:
    """Cut an extent into `parts` parts that differ by at most one; return starts and stops."""
    extent = as_count("cut_evenly: extent", extent, minimum=0)
    parts = as_count("cut_evenly: parts", parts)
    _check_parts(f"cut_evenly: extent={extent}, parts={parts}", extent, parts)
    bounds = np.arange(parts + 1, dtype=np.int64) * extent // parts
    return bounds[:-1], bounds[1:]


def _check_parts(call_text: str, extent: int, parts: int) -> None:
    """Raise `InputError` for more parts than can be listed, and for extents beyond 64 bits."""
    if parts > _MAX_PARTS or extent > np.iinfo(np.int64).max // max(parts, 1):
        raise InputError(
            f"{call_text}: at most {_MAX_PARTS} parts, and 64 bits for extent x parts; use a smaller extent"
        )


def boxes(cuts: Sequence[Cuts], order: Sequence[int]) -> tuple[Integers, Integers]:
    """Return every combination of the parts of each axis: starts and stops, each (boxes, rank).

    Args:
        cuts: the parts of each axis.
        order: loop order of the axes, outermost first.
    """
    cuts_passed, cuts, order = cuts, as_tuple(cuts), as_tuple(order)
    for name, value in (("cuts", cuts), ("order", order)):
        if not isinstance(value, tuple):
            raise InputError(f"boxes: {name}={shown(value)}: pass a list with an item for each axis")
    if not all(isinstance(as_tuple(part), tuple) and len(part) == 2 for part in cuts):
        raise InputError(
            f"boxes: cuts={shown(cuts_passed)}: an item is a pair of starts and stops, such as cut(extent, size)"
        )
    if not all(isinstance(axis, int | np.integer) for axis in order) or sorted(order) != list(range(len(cuts))):
        raise InputError(f"boxes: order={shown(list(order))} for the cuts of {len(cuts)} axes: name each axis once")
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

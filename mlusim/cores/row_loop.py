"""Checks and row moves of the counted operations that do not depend on a core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlusim.dtypes import is_integer
from mlusim.errors import AccessError, CopyError, OperandError
from mlusim.log import LoopRecord
from mlusim.memory.addresses import Addresses, Indices
from mlusim.memory.copy import CopyShape
from mlusim.memory.kinds import Direction
from mlusim.memory.loops import AddressInstructions, most_row_units, row_units
from mlusim.memory.view import View

Rows = Indices | Addresses | View | None


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over rows with its addresses computed.

    Attributes:
        iterations: trip count of the loop.
        selected: iterations that copy a row; the others lie outside a window.
        dst_rows, src_rows: row numbers of those; None for 0, 1, 2, ..., or if a timing-only run does not know them.
        address: scalar instructions that compute the addresses of an iteration.
        indices: the NRAM views that the addresses are computed from.
        unread: whether the bus is charged for the worst possible rows, because no scalar code, or no timing-only run,
            has read their numbers.
    """

    iterations: int
    selected: int
    dst_rows: Indices | None
    src_rows: Indices | None
    address: AddressInstructions
    indices: tuple[View, ...]
    unread: bool = False

    def record(self, method: str, extra_cycles: int = 0) -> LoopRecord:
        """Return the loop as recorded in the log."""
        return LoopRecord(method, self.iterations, self.selected, *self.address, extra_cycles, self.unread)


def row_bytes_of(name: str, view: View) -> int:
    """Return the bytes of one row of a view. Raises `CopyError` if it has no rows, or its rows have gaps."""
    if not view.shape:
        raise CopyError(f"{name} of {view!r}: it needs an axis of rows")
    row = view.layout.row
    if not row.is_contiguous:
        raise CopyError(f"{name} of {view!r} with strides {list(view.strides)}: each row must be contiguous")
    return row.nbytes


def iterations_of(name: str, dst: View, src: View, dst_rows: Rows, src_rows: Rows) -> int:
    """Return the trip count. Raises `AccessError` if the sides differ or it is 0, `CopyError` without rows."""
    counts = [_count_of(rows) for rows in (dst_rows, src_rows) if rows is not None]
    for view in (dst, src):
        if not view.shape:
            raise CopyError(f"{name} of {view!r}: it needs an axis of rows")
    if not counts:
        counts = [src.shape[0]]
    if len(set(counts)) > 1:
        raise AccessError(f"{counts[0]} destination and {counts[1]} source indices: both sides need the same number")
    if not counts[0]:
        raise AccessError(f"a loop of no copies from {src!r} to {dst!r}: guard it with `if`")
    return counts[0]


def _count_of(rows: Indices | Addresses | View) -> int:
    if isinstance(rows, Addresses):
        return rows.count
    return rows.size


def row_numbers(name: str, rows: Any) -> Rows:
    """Check the row numbers passed by a kernel: addresses, a list in NRAM, or one axis of integers."""
    if isinstance(rows, View) and not is_integer(rows.dtype):
        raise OperandError(f"{name} by rows {rows!r}: they must be integers")
    if rows is None or isinstance(rows, Addresses | View):
        return rows
    array = np.asarray(rows)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise OperandError(
            f"{name} with indices of {array.dtype} {list(array.shape)}: they must be one axis of integers"
        )
    return array.astype(np.int64, copy=False)


def check_apart(name: str, dst: View, src: View) -> None:
    """Reject a loop that could read bytes that it has written: NumPy reads everything first."""
    if dst.allocation is src.allocation and 0 not in (*dst.shape, *src.shape):
        (low, high), (first, last) = _span(dst), _span(src)
        if low < last and first < high:
            raise OperandError(f"{name} from {src!r} to {dst!r}: they overlap; copy through another buffer")


def rows_apart(dst: View, src: View, dst_rows: Rows, src_rows: Rows) -> bool:
    """Whether a loop moves rows of one view to other rows of it, none of which it also reads."""
    one_view = dst.allocation is src.allocation and dst.offset == src.offset
    one_view &= dst.size > 0 and (dst.shape, dst.strides) == (src.shape, src.strides) and dst.ndim > 0
    if not (one_view and isinstance(dst_rows, np.ndarray) and isinstance(src_rows, np.ndarray)):
        return False
    return abs(dst.strides[0]) >= dst.nbytes // dst.shape[0] and not np.isin(dst_rows, src_rows).any()


def _span(view: View) -> tuple[int, int]:
    """Return the range [first, last) of bytes of a view in its allocation."""
    reaches = [(extent - 1) * stride for extent, stride in zip(view.shape, view.strides, strict=True)]
    low = view.offset + sum(reach for reach in reaches if reach < 0)
    return low, view.offset + sum(reach for reach in reaches if reach > 0) + view.itemsize


def check_rows(name: str, view: View, rows: Indices | None, count: int) -> None:
    """Raise `AccessError` if a row number, or the count if there are none, is outside the view."""
    extent = view.shape[0]
    if rows is None:
        if count > extent:
            raise AccessError(f"{name} of {count} rows of {view!r}, which has {extent}")
        return
    if not len(rows):
        return
    # As unsigned numbers, negative ones exceed every extent. The reduction of `max`, without its calls in Python.
    if np.maximum.reduce(rows.view(np.uint64)) >= extent:
        low, high = int(rows.min()), int(rows.max())
        bad = low if low < 0 else high
        raise AccessError(f"{name}: index {bad} is outside {view!r}, which has {extent}")


def rows_shape(dst: View, src: View, loop: Loop, direction: Direction, count: int, unit_bytes: int) -> CopyShape:
    """Return the geometry of `count` row copies of a loop, with their bus bytes."""
    row_bytes = row_bytes_of("rows", dst)

    def on_bus(view: View, rows: Indices | None) -> tuple[int, int]:
        if not view.memory.off_chip:
            return 0, 0
        if loop.unread:
            return most_row_units(view, count, row_bytes, unit_bytes)
        return row_units(view, rows, count, row_bytes, unit_bytes)

    bus_read, _ = on_bus(src, loop.src_rows)
    bus_write, partly = on_bus(dst, loop.dst_rows)
    return CopyShape(direction, row_bytes * count, row_bytes, count, (), (), bus_read + partly, bus_write, count > 1)


def move_rows(dst: View, src: View, dst_rows: Indices | None, src_rows: Indices | None, count: int) -> None:
    """Copy rows in order: for a repeated destination the last row remains."""
    to, origin = dst.raw(), src.raw()
    if dst_rows is None:
        target = to[:count]
        if src_rows is None:
            target[...] = origin[:count]
        elif target.flags.c_contiguous and origin.flags.c_contiguous:
            # The rows are checked; "clip" avoids a buffer in NumPy.
            np.take(origin, src_rows, axis=0, out=target, mode="clip")
        else:
            target[...] = origin[src_rows]
        return
    # NumPy assigns through one index array in order, so the last of repeated rows remains; tests check it.
    to[dst_rows] = origin[:count] if src_rows is None else origin[src_rows]

"""Checks and row moves of the counted operations that need no core."""

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
    """A loop over rows, its addresses worked out.

    Attributes:
        iterations: trip count of the loop.
        selected: iterations that copy a row; the others lie outside a window.
        dst_rows, src_rows: row numbers of those; None for 0, 1, 2, ..., or where a timing-only run does not know them.
        address: scalar instructions that work out the addresses of an iteration.
        indices: the NRAM views that they come from.
        unread: whether the bus is charged for the worst rows there are, because nobody on the board, or in a
            timing-only run, has read the numbers.
    """

    iterations: int
    selected: int
    dst_rows: Indices | None
    src_rows: Indices | None
    address: AddressInstructions
    indices: tuple[View, ...]
    unread: bool = False

    def record(self, method: str, extra_cycles: int = 0) -> LoopRecord:
        """As the log has it."""
        return LoopRecord(method, self.iterations, self.selected, *self.address, extra_cycles, self.unread)


def row_bytes_of(name: str, view: View) -> int:
    """Bytes of one row of a view. Raises `CopyError` where it has none, or its rows have gaps."""
    if not view.shape:
        raise CopyError(f"{name} of {view!r}: it needs an axis of rows")
    row = view.layout.row
    if not row.is_contiguous:
        raise CopyError(f"{name} of {view!r} with strides {list(view.strides)}: each row must be contiguous")
    return row.nbytes


def iterations_of(name: str, dst: View, src: View, dst_rows: Rows, src_rows: Rows) -> int:
    """Turns of a loop. Raises `AccessError` where the sides differ or there is none, `CopyError` without rows."""
    counts = [_count_of(rows) for rows in (dst_rows, src_rows) if rows is not None]
    for view in (dst, src):
        if not view.shape:
            raise CopyError(f"{name} of {view!r}: it needs an axis of rows")
    if not counts:
        counts = [src.shape[0]]
    if len(set(counts)) > 1:
        raise AccessError(f"{counts[0]} destination and {counts[1]} source indices: there must be as many of both")
    if not counts[0]:
        raise AccessError(f"a loop of no copies from {src!r} to {dst!r}: guard it with `if`")
    return counts[0]


def _count_of(rows: Indices | Addresses | View) -> int:
    if isinstance(rows, Addresses):
        return rows.count
    return rows.size


def row_numbers(name: str, rows: Any) -> Rows:
    """The row numbers that a kernel gives, checked: addresses, a list in NRAM, or one axis of integers."""
    if isinstance(rows, View) and not is_integer(rows.dtype):
        raise OperandError(f"{name} by rows {rows!r}: they are integers")
    if rows is None or isinstance(rows, Addresses | View):
        return rows
    array = np.asarray(rows)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise OperandError(f"{name} with indices of {array.dtype} {list(array.shape)}: they are one axis of integers")
    return array.astype(np.int64, copy=False)


def check_apart(name: str, dst: View, src: View) -> None:
    """Refuse a loop that could read what it has written: NumPy reads everything first."""
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
    """First byte of a view in its allocation, and the one behind its last."""
    reaches = [(extent - 1) * stride for extent, stride in zip(view.shape, view.strides, strict=True)]
    low = view.offset + sum(reach for reach in reaches if reach < 0)
    return low, view.offset + sum(reach for reach in reaches if reach > 0) + view.itemsize


def check_rows(name: str, view: View, rows: Indices | None, count: int) -> None:
    """Raise `AccessError` where a row number, or the count where there are none, is outside the view."""
    extent = view.shape[0]
    if rows is None:
        if count > extent:
            raise AccessError(f"{name} of {count} rows of {view!r}, which has {extent}")
        return
    if not len(rows):
        return
    low, high = int(rows.min()), int(rows.max())
    if low < 0 or high >= extent:
        bad = low if low < 0 else high
        raise AccessError(f"{name}: index {bad} is outside {view!r}, which has {extent}")


def rows_shape(dst: View, src: View, loop: Loop, direction: Direction, count: int, unit_bytes: int) -> CopyShape:
    """The bytes that `count` rows of a loop move, and their bus units."""
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
    """Rows in order: of several that go to one place the last stays."""
    to, origin = dst.raw(), src.raw()
    if dst_rows is None:
        target = to[:count]
        if src_rows is None:
            target[...] = origin[:count]
        elif target.flags.c_contiguous and origin.flags.c_contiguous:
            # The rows are checked; "clip" spares NumPy a buffer of its own.
            np.take(origin, src_rows, axis=0, out=target, mode="clip")
        else:
            target[...] = origin[src_rows]
        return
    # NumPy assigns through one index array in its order, so the last of repeated rows stays; tests hold it to that.
    to[dst_rows] = origin[:count] if src_rows is None else origin[src_rows]

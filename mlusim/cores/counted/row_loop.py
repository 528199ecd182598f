"""The rows that a counted loop moves: `RowLoop`, computed and checked from what a kernel passes.

Row numbers are an array in registers, a list in NRAM, or `Addresses`, which each iteration of the loop computes from
index tuples in NRAM.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Array, Integers
from mlusim.dtypes import is_integer
from mlusim.errors import AccessError, CopyError, OperandError
from mlusim.log_tables import LoopRecord
from mlusim.memory import element_loops
from mlusim.memory.addresses import Addresses
from mlusim.memory.allocation import check_usable
from mlusim.memory.loop_costs import NO_ADDRESS, AddressInstructions
from mlusim.memory.row_copy import RowCopy
from mlusim.memory.view import View, byte_span

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer

Rows = Integers | Addresses | View | None
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)
_UNSIGNED: dict[int, Any] = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
# Fresh memory as an index: signed, or unsigned of 16 or 32 bits.
_FRESH = (-1, 0xFFFF, 0xFFFFFFFF)
# Each iteration loads its row number from a list in NRAM.
_ONE_LOAD = AddressInstructions(loads=1)


class RowLoop:
    """A loop over rows with its addresses computed.

    Attributes:
        iterations: trip count of the loop.
        selected: iterations that copy a row; the others lie outside a window.
        dst_rows, src_rows: row numbers of those, int64, or int32 for at most 2**31 rows; None for 0, 1, 2, ..., or if a
            timing-only run does not know them.
        address: scalar instructions that compute the addresses of an iteration.
        indices: the NRAM views that the addresses are computed from.
        unread: whether the bus is charged for the worst possible rows, because no scalar code, or no timing-only run,
            has read their numbers.
        lengths: for a loop that copies several contiguous rows in each iteration, their number; `src_rows` has the
            first of them, and `selected` counts all rows.
        known: whether a timing-only run knows the row numbers although `unread`.
    """

    def __init__(
        self,
        iterations: int,
        selected: int,
        dst_rows: Integers | None,
        src_rows: Integers | None,
        address: AddressInstructions,
        indices: tuple[View, ...],
        *,
        unread: bool = False,
        lengths: Integers | None = None,
        known: bool = False,
    ) -> None:
        self.iterations = iterations
        self.selected = selected
        self.dst_rows = dst_rows
        self.src_rows = src_rows
        self.address = address
        self.indices = indices
        self.unread = unread
        self.lengths = lengths
        self.known = known

    def record(self, method: str, extra_cycles: int = 0) -> LoopRecord:
        """Return the loop as recorded in the log."""
        return _record_of(method, self.iterations, self.selected, self.address, extra_cycles, unread=self.unread)

    def effect(self, dst: View, src: View) -> RowCopy:
        """Return the effect of the loop on memory."""
        return RowCopy(dst, src, self.dst_rows, self.src_rows, self.selected, self.lengths)


@lru_cache(maxsize=1024)
def _record_of(
    method: str, iterations: int, selected: int, address: AddressInstructions, extra_cycles: int, *, unread: bool
) -> LoopRecord:
    """Return a loop as recorded in the log. Those of all cores are alike."""
    loads, operations, additions = address
    return LoopRecord(method, iterations, selected, loads, operations, additions, extra_cycles, unread)


def loop_of(issuer: Issuer, name: str, dst: View, src: View, dst_rows: Rows, src_rows: Rows) -> RowLoop:
    """Compute and check the addresses of a loop from the current contents of NRAM."""
    row_choices = (_row_numbers(name, dst_rows), _row_numbers(name, src_rows))
    if not _rows_apart(dst, src, *row_choices):
        check_no_overlap(name, dst, src)
    iterations = _iterations_of(name, dst, src, *row_choices)
    issuer.unit.prepare(issuer.task.now_ps, [rows for rows in row_choices if isinstance(rows, View)])
    to = _side(issuer, name, dst, row_choices[0], iterations)
    origin = _side(issuer, name, src, row_choices[1], iterations)
    address = to.address.plus(origin.address)
    indices = tuple([side.source for side in (to, origin) if side.source is not None])
    unread = any(isinstance(choice, View) for choice in row_choices)
    inside = origin.inside if to.inside is None else to.inside
    if inside is None:
        return RowLoop(iterations, iterations, to.rows, origin.rows, address, indices, unread=unread)
    if isinstance(row_choices[0], Addresses) and isinstance(row_choices[1], Addresses):
        raise OperandError(f"{name} by two addresses, one of them within a window: give row numbers for the other")
    return RowLoop(iterations, len(inside), to.within(inside), origin.within(inside), address, indices, unread=unread)


class _Side:
    """The rows of one side of a loop.

    Attributes:
        rows: row numbers; None for 0, 1, 2, ..., or if a timing-only run does not know them.
        address: scalar instructions that compute the row of an iteration.
        source: the NRAM view that the rows are computed from, if any.
        inside: the iterations within the window of its addresses, whose rows these are; None without a window.
    """

    def __init__(
        self,
        rows: Integers | None,
        address: AddressInstructions = NO_ADDRESS,
        source: View | None = None,
        inside: Integers | None = None,
    ) -> None:
        self.rows = rows
        self.address = address
        self.source = source
        self.inside = inside

    def within(self, inside: Integers) -> Integers | None:
        """Return the rows of the iterations within a window, which is its own or that of the other side."""
        if self.inside is not None:
            return self.rows
        return inside if self.rows is None else self.rows[inside]


def _side(issuer: Issuer, name: str, view: View, choice: Rows, iterations: int) -> _Side:
    """Compute and check the rows of one side from the current contents of NRAM."""
    if isinstance(choice, Addresses):
        elements: Array | None = None
        if choice.index is not None:
            check_index(issuer, name, choice.index)
            elements = issuer.unit.source_of(choice.index)
        choice.check(name, view.shape[0], view)
        rows, inside = choice.resolve(name, elements)
        return _Side(rows, choice.instructions, choice.index, inside)
    if isinstance(choice, View):
        check_index(issuer, name, choice)
        if not issuer.has_data:
            return _Side(None, _ONE_LOAD, choice)
        listed = copied_rows(choice, view.shape[0])
        check_rows(name, view, listed, iterations)
        return _Side(listed, _ONE_LOAD, choice)
    check_rows(name, view, choice, iterations)
    return _Side(choice)


def loop_of_runs(dst: View, src: View, starts: Rows, lengths: Rows) -> RowLoop:
    """Check a `memcpy_rows` of runs of contiguous rows of `src`, in ascending order, to dst, one after the other."""
    for view in (dst, src):
        if not view.is_contiguous or not view.shape:
            raise CopyError(f"memcpy_rows of runs of {view!r}: rows of both sides must be contiguous")
    first, counts = _row_numbers("memcpy_rows", starts), _row_numbers("memcpy_rows", lengths)
    if not isinstance(first, np.ndarray) or not isinstance(counts, np.ndarray) or len(first) != len(counts):
        raise OperandError("memcpy_rows with lengths: src_rows and lengths must be arrays, one number for each run")
    total = element_loops.rows_of_runs(first, counts)
    if not total:
        raise OperandError("memcpy_rows with lengths: runs must have one or more rows, ascend, and not overlap")
    check_no_overlap("memcpy_rows", dst, src)
    begin, end = int(first[0]), int(first[-1]) + int(counts[-1])
    if begin < 0 or end > src.shape[0]:
        index = begin if begin < 0 else end - 1
        raise AccessError(f"memcpy_rows: index {index} is outside {src!r}, which has {src.shape[0]}")
    check_rows("memcpy_rows", dst, None, total)
    return RowLoop(len(first), total, None, first, NO_ADDRESS, (), lengths=counts)


def row_bytes_of(name: str, view: View) -> int:
    """Return the bytes of one row of a view. Raises `CopyError` if it has no rows, or its rows have gaps."""
    if not view.shape:
        raise CopyError(f"{name} of {view!r}: it needs an axis of rows")
    row = view.layout.row
    if not row.is_contiguous:
        raise CopyError(f"{name} of {view!r} with strides {list(view.strides)}: each row must be contiguous")
    return row.nbytes


def _iterations_of(name: str, dst: View, src: View, dst_rows: Rows, src_rows: Rows) -> int:
    """Return the trip count. Raises `AccessError` if the sides differ or it is 0, `CopyError` without rows."""
    given_rows = [rows for rows in (dst_rows, src_rows) if rows is not None]
    counts = [rows.count if isinstance(rows, Addresses) else rows.size for rows in given_rows]
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


def _row_numbers(name: str, rows: Any) -> Rows:
    """Check the row numbers passed by a kernel: addresses, a list in NRAM, or one axis of integers."""
    if isinstance(rows, View) and not is_integer(rows.dtype):
        raise OperandError(f"{name} by rows {rows!r}: they must be integers")
    if rows is None or isinstance(rows, Addresses | View):
        return rows
    if type(rows) is np.ndarray and rows.dtype is _INT64 and rows.ndim == 1:
        # The usual rows, which pass all checks below.
        return rows.copy()
    array = np.asarray(rows)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise OperandError(
            f"{name} with indices of {array.dtype} {list(array.shape)}: they must be one axis of integers"
        )
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 1 << 63:
        raise AccessError(f"{name}: index {int(array.max())} is beyond the rows of any view")
    # A copy, as the kernel may change its array before the rows are copied.
    return array.astype(np.int64, order="C")


def check_no_overlap(name: str, dst: View, src: View) -> None:
    """Reject a loop that could read bytes that it has written: NumPy reads everything first."""
    if dst.allocation is src.allocation and 0 not in dst.shape + src.shape:
        (low, high), (first, last) = byte_span(dst), byte_span(src)
        if low < last and first < high:
            raise OperandError(f"{name} from {src!r} to {dst!r}: they overlap; copy through another buffer")


def _rows_apart(dst: View, src: View, dst_rows: Rows, src_rows: Rows) -> bool:
    """Return whether a loop moves rows of one view to other rows of it, none of which it also reads."""
    one_view = dst.allocation is src.allocation and dst.offset == src.offset
    one_view &= dst.size > 0 and (dst.shape, dst.strides) == (src.shape, src.strides) and dst.ndim > 0
    if not (one_view and isinstance(dst_rows, np.ndarray) and isinstance(src_rows, np.ndarray)):
        return False
    return abs(dst.strides[0]) >= dst.nbytes // dst.shape[0] and not np.isin(dst_rows, src_rows).any()


def check_rows(name: str, view: View, rows: Integers | None, count: int) -> None:
    """Raise `AccessError` if a row number, or the count if there are none, is outside the view."""
    extent = view.shape[0]
    if rows is None:
        if count > extent:
            raise AccessError(f"{name} of {count} rows of {view!r}, which has {extent}")
        return
    if not len(rows):
        return
    # As unsigned numbers, negative ones exceed every extent. The reduction of `max`, without its calls in Python.
    if np.maximum.reduce(rows.view(_UNSIGNED[rows.itemsize])) >= extent:
        low, high = int(rows.min()), int(rows.max())
        index = low if low < 0 else high
        fresh = f"; {index} is also what memory holds until it is written: have all indices arrived?"
        raise AccessError(
            f"{name}: index {index} is outside {view!r}, which has {extent}{fresh if index in _FRESH else ''}"
        )


def copied_rows(offsets: View, extent: int) -> Integers:
    """Return the row numbers in NRAM as they are now: int32 as such if all rows have such numbers, others as int64."""
    numbers = offsets.typed().reshape(-1)
    narrow = numbers.dtype == _INT32 and extent <= 1 << 31
    return numbers.copy() if narrow else numbers.astype(np.int64)


def check_index(issuer: Issuer, name: str, index: View | None) -> None:
    """Raise `OperandError` for indices, offsets or a mask that are not contiguous in this core's NRAM."""
    if index is None:
        return
    if index.allocation.memory is not issuer.unit.nram or not index.is_contiguous:
        raise OperandError(f"{name} with {index!r}: indices, offsets and masks must be contiguous in this core's NRAM")
    check_usable(index.allocation, write=False)

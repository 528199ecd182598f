"""Deferred loads: large copies from inputs to NRAM whose bytes are written only when another access needs them.

Most kernels load a tile of an input, move or convert it as a whole, and store it. Inputs never change while kernels
run, so the bytes of a large load need not pass through the simulated NRAM: it records their source, and the store
copies them from there, in one pass over the host's memory instead of two. Before any other access to bytes of the
NRAM, they are written; overwriting them cancels the deferred load. Rows that are stored in such a tile by number, as
a scatter does, are deferred with it: the host applies all updates of a tile at once, while it is in the cache. Large
fresh buffers are filled in the same way, because most of them are overwritten before they are read.

Only host time depends on this. Simulated times, records and all visible bytes are those of plain copies;
`tests/memory/test_deferred.py` compares random kernels with and without deferral.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mlusim.arrays import Array
from mlusim.dtypes import RAW
from mlusim.memory import element_loops
from mlusim.memory.row_copy import RowCopy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlusim.memory.allocation import Memory
    from mlusim.memory.view import View


# Deferring a smaller copy, or one with shorter segments, costs the host more than copying it.
MIN_BYTES = 16_384
MIN_SEGMENT_BYTES = 256
# Operations on other bytes after which all deferred bytes are written. Each operation checks whether it overlaps them:
# more checks would cost the host more than the saved copy.
_MAX_CHECKS = 16
# Rows that are stored in a deferred load may take this many times its bytes, in all, before it is written.
_MAX_UPDATES = 2


class Conversion(NamedTuple):
    """A conversion of elements: `compute(result, source)` writes to a contiguous result of type `dtype`."""

    compute: Callable[[Array, Array], Any]
    dtype: np.dtype[Any]


class DeferredWrite:
    """A write that is still to be executed: the elements of `source`, in C order, to bytes [first, last) of a memory.

    A source of rank 0 is the value of all elements. With a conversion, the source is contiguous, and the bytes are
    those of its converted elements. `fresh`: they are the contents of a fresh buffer, not a load. `updates` are rows
    that were stored since: their numbers and values, in order; `updated` is how many.
    """

    __slots__ = ("conversion", "first", "fresh", "last", "source", "updated", "updates")

    def __init__(
        self, first: int, last: int, source: Array, conversion: Conversion | None = None, *, fresh: bool = False
    ) -> None:
        self.first = first
        self.last = last
        self.source = source
        self.conversion = conversion
        self.fresh = fresh
        self.updates: list[tuple[Array, Array]] = []
        self.updated = 0

    def elements(self, first: int, last: int) -> Array | None:
        """Return the part of the source for bytes [first, last).

        Returns None if a bound falls inside one of its rows, or for a part of bytes whose rows have been updated.
        """
        source = self.source
        if first == self.first and last == self.last:
            return source
        if self.updates:
            return None
        if not source.ndim:
            itemsize = source.itemsize
            return None if (first - self.first) % itemsize or (last - self.first) % itemsize else source
        row_bytes = (self.last - self.first) // len(source)
        start, start_rest = divmod(first - self.first, row_bytes)
        stop, stop_rest = divmod(last - self.first, row_bytes)
        return None if start_rest or stop_rest else source[start:stop]

    def part(self, first: int, last: int) -> DeferredWrite | None:
        """Return the write of bytes [first, last), or None if a bound falls inside a row of the source."""
        source = self.elements(first, last)
        return None if source is None else DeferredWrite(first, last, source, self.conversion, fresh=self.fresh)

    def apply_to(self, target: Array, first: int, last: int) -> bool:
        """Write bytes [first, last) to an array, possibly of another shape or dtype.

        Returns false, without effect, if a bound falls inside a row of the source or elements do not match.
        """
        source = self.elements(first, last)
        if source is None or (self.updates and not target.flags.c_contiguous):
            return False
        if not self._copy_source(source, target):
            return False
        for rows, values in self.updates:
            element_loops.scatter_rows(target, rows, values, None)
        return True

    def _copy_source(self, source: Array, target: Array) -> bool:
        if self.conversion is not None:
            compute, dtype = self.conversion
            if not target.flags.c_contiguous or target.itemsize != dtype.itemsize:
                return False
            compute(target.view(dtype).reshape(source.shape), source)
            return True
        elements = source if source.dtype is target.dtype else _as_dtype(source, target.dtype)
        if elements is None:
            return False
        if elements.ndim and elements.shape != target.shape:
            if target.flags.c_contiguous:
                target = target.reshape(elements.shape)
            else:
                elements = elements.reshape(target.shape)
        target[...] = elements
        return True


class DeferredWrites:
    """The deferred writes of one memory, which do not overlap.

    Attributes:
        pending: in no order; always the same list object, so that callers can keep it to check whether any load is
            pending.
        written_early: first bytes of loads that had to be written after all. Their kernel does not only pass tiles on,
            so its later loads to the same addresses write their bytes at once.
    """

    __slots__ = ("_checks", "_memory", "pending", "written_early")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._checks = 0
        self.pending: list[DeferredWrite] = []
        self.written_early: set[int] = set()

    def put(self, write: DeferredWrite) -> None:
        """Defer a write, whose source must not change meanwhile."""
        if self.pending:
            self.discard(write.first, write.last)
        self.pending.append(write)
        self._checks = 0

    def find(self, first: int, last: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | None:
        """Return the source of exactly bytes [first, last), not copied, with this shape and dtype, or None."""
        for write in self.pending:
            if write.first == first and write.last == last and write.conversion is None and not write.updates:
                source = _as_dtype(write.source, dtype)
                if source is not None and not source.ndim:
                    return np.ndarray(shape, dtype, source, 0, (0,) * len(shape))
                return None if source is None else _without_copy(source, shape)
        return None

    def store(self, target: Array, stored: Array, first: int, last: int) -> None:
        """Store `stored`, the array on [first, last), in `target`, each row from its source or from memory."""
        rows = len(target)
        row_bytes = (last - first) // rows
        ranges: list[tuple[int, int]] = []
        for write in self.pending:
            low = write.first if write.first > first else first
            high = write.last if write.last < last else last
            if low >= high:
                continue
            start, start_rest = divmod(low - first, row_bytes)
            stop, stop_rest = divmod(high - first, row_bytes)
            if start_rest or stop_rest or not write.apply_to(target[start:stop], low, high):
                self.flush(first, last)
                target[...] = stored
                return
            ranges.append((start, stop))
            rows -= stop - start
        if not rows:
            return
        next_row = 0
        for start, stop in (*sorted(ranges), (len(target), len(target))):
            if next_row < start:
                target[next_row:start] = stored[next_row:start]
            next_row = stop

    def apply(self, effect: Any) -> None:
        """Apply the effect of a copy, as `mlusim.cores.copies.effect` returns it."""
        if type(effect) is DeferredWrite:
            self.put(effect)
        elif type(effect) is RowCopy:
            self.copy_rows(effect)
        elif type(effect) is not tuple:
            self.flush()
            effect()
        elif len(effect) == 2:
            self.copy(*effect)
        else:
            self.store(*effect)

    def copy(self, to: Array, origin: Array) -> None:
        """Copy arrays, either of which may lie in this memory; writes only the deferred bytes that the copy reads."""
        self.count_other()
        span = self._memory.span_of(origin)
        if span is not None:
            self.flush(*span)
        span = self._memory.span_of(to)
        if span is not None:
            if to.flags.c_contiguous:
                self.discard(*span)
            else:
                self.flush(*span)
        to[...] = origin

    def copy_rows(self, copy: RowCopy) -> None:
        """Copy rows. Rows that are stored in the bytes of one deferred load, and only there, are deferred with it."""
        dst = copy.dst
        copy.source = self.read(copy.src, RAW[copy.src.layout.itemsize])
        if dst.allocation.memory is self._memory:
            first, last = memory_span(dst)
            if dst.layout.is_contiguous and copy.dst_rows is None:
                self.discard(first, first + dst.layout.row.nbytes * copy.count)
            elif dst.layout.is_contiguous and self._update(first, last, copy):
                return
            else:
                self.flush(first, last)
        self.count_other()
        copy()

    def _update(self, first: int, last: int, copy: RowCopy) -> bool:
        """Defer storing rows of bytes [first, last). Returns false, without effect, if these are not one load."""
        rows = copy.dst_rows
        for write in self.pending:
            if rows is not None and write.first == first and write.last == last:
                updated = write.updated + len(rows)
                if updated * copy.dst.layout.row.nbytes > _MAX_UPDATES * (last - first):
                    return False
                values = copy.rows()
                # No kernel has these numbers; as int32 they take half the memory.
                numbers = np.ascontiguousarray(rows, np.int32)
                in_memory = copy.src_rows is None and copy.source is None
                write.updates.append((numbers, values.copy() if in_memory else values))
                write.updated = updated
                self._checks = 0
                return True
        return False

    def prepare(self, views: Sequence[View]) -> None:
        """Write the deferred bytes of views of any memory that are about to be read."""
        self.count_other()
        for view in views:
            self._flush_view(view)

    def read(self, view: View, dtype: np.dtype[Any]) -> Array | None:
        """Return the elements of a view from the source of its load, or None if they are now in memory.

        The source is returned if the view is exactly one deferred load that is contiguous there, too.
        """
        if self.pending and view.layout.is_contiguous and view.allocation.memory is self._memory:
            source = self.find(*memory_span(view), view.shape, dtype)
            if source is not None and source.flags.c_contiguous:
                return source
        self._flush_view(view)
        return None

    def _flush_view(self, view: View) -> None:
        if view.allocation.memory is self._memory:
            first, last = memory_span(view)
            self.flush(first, last)

    def count_other(self) -> None:
        """Count an operation that is neither a deferred load nor a store of one; after many, write all bytes.

        A buffer that a kernel fills or loads once would otherwise slow down all of its later operations.
        """
        self._checks += 1
        if self._checks > _MAX_CHECKS:
            self.flush()
            self._checks = 0

    def discard(self, first: int, last: int) -> None:
        """Cancel the deferred loads of bytes [first, last), which are about to be overwritten."""
        remaining: list[DeferredWrite] = []
        for write in self.pending:
            low, high = write.first, write.last
            if low >= last or high <= first:
                remaining.append(write)
            elif low < first or high > last:
                part_before = write.part(low, first) if low < first else write
                part_after = write.part(last, high) if high > last else write
                if part_before is None or part_after is None:
                    self._apply(write, low, high)
                else:
                    remaining += [part for part in (part_before, part_after) if part is not write]
        self.pending[:] = remaining

    def flush(self, first: int = 0, last: int | None = None) -> None:
        """Write the deferred bytes of [first, last), or of the whole memory by default.

        If a write reaches beyond these bounds, only whole rows of its source that they need are written.
        """
        remaining: list[DeferredWrite] = []
        for write in self.pending:
            if write.last <= first or (last is not None and write.first >= last):
                remaining.append(write)
                continue
            if not write.fresh:
                self.written_early.add(write.first)
            part_before = write.part(write.first, first) if write.first < first else None
            part_after = write.part(last, write.last) if last is not None and last < write.last else None
            remaining += [part for part in (part_before, part_after) if part is not None]
            self._apply(write, first if part_before else write.first, part_after.first if part_after else write.last)
        self.pending[:] = remaining

    def clear(self) -> None:
        """Drop all writes at the end of a task, when the memory can no longer be read."""
        self.pending.clear()
        self.written_early.clear()

    def _apply(self, write: DeferredWrite, first: int, last: int) -> None:
        dtype = write.source.dtype if write.conversion is None else write.conversion.dtype
        write.apply_to(self._memory.bytes_between(first, last).view(dtype), first, last)


def memory_span(view: View) -> tuple[int, int]:
    """Return the range [first, last) of bytes of its memory that a view spans, gaps included."""
    start = view.allocation.address + view.offset
    return start + view.layout.low, start + view.layout.high


def _as_dtype(source: Array, dtype: np.dtype[Any]) -> Array | None:
    """Return the same bytes with another dtype, not copied, or None if its elements would not be contiguous."""
    if source.dtype == dtype:
        return source
    if source.itemsize == dtype.itemsize:
        return source.view(dtype)
    if not source.ndim:
        element = source.tobytes() * (dtype.itemsize // source.itemsize or 1)
        one_byte = len(set(element)) == 1
        return np.ndarray((), dtype, element) if one_byte or dtype.itemsize > source.itemsize else None
    if (source.shape[-1] * source.itemsize) % dtype.itemsize or source.strides[-1] != source.itemsize:
        return None
    return source.view(dtype)


def _without_copy(source: Array, shape: tuple[int, ...]) -> Array | None:
    """Return the same elements in another shape if that needs no copy, else None."""
    if source.shape == shape:
        return source
    return source.reshape(shape) if _can_reshape(source.shape, source.strides, shape) else None


@lru_cache(maxsize=1024)
def _can_reshape(shape: tuple[int, ...], strides: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Return whether an array can be reshaped without a copy, as NumPy decides it."""
    # Runs of elements with a constant stride: (count, stride).
    runs: list[tuple[int, int]] = []
    for extent, stride in zip(shape, strides, strict=True):
        if runs and runs[-1][1] == extent * stride:
            runs[-1] = runs[-1][0] * extent, stride
        elif extent > 1:
            runs.append((extent, stride))
    run_length = 1
    for extent in reversed(target):
        if extent > 1 and run_length == 1 and runs:
            run_length, _ = runs.pop()
        if run_length % extent:
            return False
        run_length //= extent
    return True

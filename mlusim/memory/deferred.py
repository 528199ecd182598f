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
# After this many operations on other bytes all deferred bytes are written: each operation checks for an overlap, and
# more checks would cost the host more than the copy that they save.
_MAX_CHECKS = 16
# Rows that are stored in a deferred load may take this many times its bytes, in all, before it is written.
_MAX_UPDATES = 2


class Conversion(NamedTuple):
    """A conversion of elements: `compute(result, source)` writes to a contiguous result of type `dtype`."""

    compute: Callable[[Array, Array], Any]
    dtype: np.dtype[Any]


class Piece:
    """Bytes [first, last) of a memory that are still to be written: the elements of `source` in C order.

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
        start, left = divmod(first - self.first, row_bytes)
        stop, over = divmod(last - self.first, row_bytes)
        return None if left or over else source[start:stop]

    def part(self, first: int, last: int) -> Piece | None:
        """Return bytes [first, last) as a piece, or None if a bound falls inside a row of the source."""
        source = self.elements(first, last)
        return None if source is None else Piece(first, last, source, self.conversion, fresh=self.fresh)

    def write(self, target: Array, first: int, last: int) -> bool:
        """Write bytes [first, last) to an array, possibly of another shape or dtype.

        Returns false, without effect, if a bound falls inside a row of the source or elements do not match.
        """
        source = self.elements(first, last)
        if source is None or (self.updates and not target.flags.c_contiguous):
            return False
        if not self._write_source(source, target):
            return False
        for rows, values in self.updates:
            element_loops.scatter_rows(target, rows, values, None)
        return True

    def _write_source(self, source: Array, target: Array) -> bool:
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
    """The deferred loads of one memory: pieces that do not overlap.

    Attributes:
        pieces: in no order; always the same list object, so that callers can keep it to check whether any load is
            pending.
        written_early: where pieces began that had to be written after all: their kernel does not only pass tiles on, so
            later loads to the same addresses write their bytes at once.
    """

    __slots__ = ("_checks", "_memory", "pieces", "written_early")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._checks = 0
        self.pieces: list[Piece] = []
        self.written_early: set[int] = set()

    def put(self, piece: Piece) -> None:
        """Defer writing a piece, whose source must not change meanwhile."""
        if self.pieces:
            self.discard(piece.first, piece.last)
        self.pieces.append(piece)
        self._checks = 0

    def find(self, first: int, last: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | None:
        """Return the source of exactly bytes [first, last), not copied, with this shape and dtype, or None."""
        for piece in self.pieces:
            if piece.first == first and piece.last == last and piece.conversion is None and not piece.updates:
                source = _as_dtype(piece.source, dtype)
                if source is not None and not source.ndim:
                    return np.ndarray(shape, dtype, source, 0, (0,) * len(shape))
                return None if source is None else _without_copy(source, shape)
        return None

    def store(self, target: Array, held: Array, first: int, last: int) -> None:
        """Store `held`, the array on [first, last), in `target`, each row from its source or from memory."""
        rows = len(target)
        row_bytes = (last - first) // rows
        written: list[tuple[int, int]] = []
        for piece in self.pieces:
            low = piece.first if piece.first > first else first
            high = piece.last if piece.last < last else last
            if low >= high:
                continue
            start, before = divmod(low - first, row_bytes)
            stop, after = divmod(high - first, row_bytes)
            if before or after or not piece.write(target[start:stop], low, high):
                self.flush(first, last)
                target[...] = held
                return
            written.append((start, stop))
            rows -= stop - start
        if not rows:
            return
        done = 0
        for start, stop in (*sorted(written), (len(target), len(target))):
            if done < start:
                target[done:start] = held[done:start]
            done = stop

    def apply(self, effect: Any) -> None:
        """Apply the effect of a copy, as `mlusim.cores.copies.effect` returns it."""
        if type(effect) is Piece:
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
        """Defer storing rows of bytes [first, last). Returns false, without effect, if these are not one piece."""
        rows = copy.dst_rows
        for piece in self.pieces:
            if rows is not None and piece.first == first and piece.last == last:
                updated = piece.updated + len(rows)
                if updated * copy.dst.layout.row.nbytes > _MAX_UPDATES * (last - first):
                    return False
                values = copy.rows()
                # No kernel has these numbers; as int32 they take half the memory.
                numbers = np.ascontiguousarray(rows, np.int32)
                in_memory = copy.src_rows is None and copy.source is None
                piece.updates.append((numbers, values.copy() if in_memory else values))
                piece.updated = updated
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
        if self.pieces and view.layout.is_contiguous and view.allocation.memory is self._memory:
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
        """Count an operation that is neither a deferred load nor a store of one; after many, write all pieces.

        A buffer that a kernel fills or loads once would otherwise slow down all of its later operations.
        """
        self._checks += 1
        if self._checks > _MAX_CHECKS:
            self.flush()
            self._checks = 0

    def discard(self, first: int, last: int) -> None:
        """Cancel the deferred loads of bytes [first, last), which are about to be overwritten."""
        rest: list[Piece] = []
        for piece in self.pieces:
            low, high = piece.first, piece.last
            if low >= last or high <= first:
                rest.append(piece)
            elif low < first or high > last:
                before = piece.part(low, first) if low < first else piece
                after = piece.part(last, high) if high > last else piece
                if before is None or after is None:
                    self._write(piece, low, high)
                else:
                    rest += [part for part in (before, after) if part is not piece]
        self.pieces[:] = rest

    def flush(self, first: int = 0, last: int | None = None) -> None:
        """Write the deferred bytes of [first, last), or of the whole memory by default.

        If a piece reaches beyond these bounds, only whole rows of its source that they need are written.
        """
        rest: list[Piece] = []
        for piece in self.pieces:
            if piece.last <= first or (last is not None and piece.first >= last):
                rest.append(piece)
                continue
            if not piece.fresh:
                self.written_early.add(piece.first)
            before = piece.part(piece.first, first) if piece.first < first else None
            after = piece.part(last, piece.last) if last is not None and last < piece.last else None
            rest += [part for part in (before, after) if part is not None]
            self._write(piece, first if before else piece.first, after.first if after else piece.last)
        self.pieces[:] = rest

    def clear(self) -> None:
        """Drop all pieces at the end of a task, when the memory can no longer be read."""
        self.pieces.clear()
        self.written_early.clear()

    def _write(self, piece: Piece, first: int, last: int) -> None:
        dtype = piece.source.dtype if piece.conversion is None else piece.conversion.dtype
        piece.write(self._memory.held_bytes(first, last).view(dtype), first, last)


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
    return source.reshape(shape) if _is_reshaped(source.shape, source.strides, shape) else None


@lru_cache(maxsize=1024)
def _is_reshaped(shape: tuple[int, ...], strides: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Return whether an array can be reshaped without a copy, as NumPy decides it."""
    # Runs of elements with a constant stride: (count, stride).
    runs: list[tuple[int, int]] = []
    for extent, stride in zip(shape, strides, strict=True):
        if runs and runs[-1][1] == extent * stride:
            runs[-1] = runs[-1][0] * extent, stride
        elif extent > 1:
            runs.append((extent, stride))
    left = 1
    for extent in reversed(target):
        if extent > 1 and left == 1 and runs:
            left, _ = runs.pop()
        if left % extent:
            return False
        left //= extent
    return True

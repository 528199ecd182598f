"""Deferred loads: large copies from inputs to NRAM whose bytes are written only when another access needs them.

Most kernels load a tile of an input, move or convert it as a whole, and store it. Inputs never change while kernels
run, so the bytes of a large load need not pass through the simulated NRAM: it records their source, and the store
copies them from there, in one pass over the host's memory instead of two. Before any other access to bytes of the
NRAM, they are written; overwriting them cancels the deferred load.

Only host time depends on this. Simulated times, records and all visible bytes are those of plain copies;
`tests/memory/test_deferred.py` compares random kernels with and without deferral.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from mlusim.memory.allocation import Memory

Array = np.ndarray[Any, Any]

# Deferring a smaller copy, or one with shorter segments, costs the host more than copying it.
LEAST_BYTES = 16_384
LEAST_SEGMENT_BYTES = 256


class Conversion(NamedTuple):
    """A conversion of elements: `compute(result, source)` writes to a contiguous result of type `dtype`."""

    compute: Callable[[Array, Array], Any]
    dtype: np.dtype[Any]


class Piece(NamedTuple):
    """Bytes [first, last) of a memory that are still to be written: the elements of `source` in C order.

    If there is a conversion, `source` is contiguous, and the bytes are those of its converted elements.
    """

    first: int
    last: int
    source: Array
    conversion: Conversion | None = None

    def part(self, first: int, last: int) -> Piece | None:
        """Return bytes [first, last) as a piece if both bounds fall between rows of the source, else None."""
        if first == self.first and last == self.last:
            return self
        rows = len(self.source)
        row_bytes = (self.last - self.first) // rows
        start, left = divmod(first - self.first, row_bytes)
        stop, over = divmod(last - self.first, row_bytes)
        return None if left or over else Piece(first, last, self.source[start:stop], self.conversion)

    def as_dtype(self, dtype: np.dtype[Any], *, contiguous: bool) -> Piece | None:
        """Return the piece for a target of another dtype, contiguous or not; None if its elements do not match."""
        if self.conversion is not None:
            return self if contiguous and dtype.itemsize == self.conversion.dtype.itemsize else None
        if self.source.dtype == dtype:
            return self
        source = _as_dtype(self.source, dtype)
        return None if source is None else Piece(self.first, self.last, source)

    def write(self, target: Array) -> None:
        """Write the elements to an array of as many elements, possibly of another shape (see `as_dtype`)."""
        source = self.source
        if self.conversion is not None:
            self.conversion.compute(target.view(self.conversion.dtype).reshape(source.shape), source)
            return
        if target.shape != source.shape:
            if target.flags.c_contiguous:
                target = target.reshape(source.shape)
            else:
                source = source.reshape(target.shape)
        target[...] = source


class Deferred:
    """The deferred loads of one memory: pieces that do not overlap.

    Attributes:
        pieces: in no order; always the same list object, so that callers can keep it to check whether any load is
            pending.
        written_early: where pieces began that had to be written after all: their kernel does not only pass tiles on, so
            later loads to the same addresses write their bytes at once.
    """

    __slots__ = ("_memory", "pieces", "written_early")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.pieces: list[Piece] = []
        self.written_early: set[int] = set()

    def put(self, first: int, last: int, source: Array, conversion: Conversion | None = None) -> None:
        """Defer a load of bytes [first, last) from `source`, of rank 1 or more, which must not change meanwhile."""
        if self.pieces:
            self.forget(first, last)
        self.pieces.append(Piece(first, last, source, conversion))

    def find(self, first: int, last: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | None:
        """Return the source of exactly bytes [first, last), not copied, with this shape and dtype, or None."""
        for piece in self.pieces:
            if piece.first == first and piece.last == last and piece.conversion is None:
                source = _as_dtype(piece.source, dtype)
                return None if source is None else _without_copy(source, shape)
        return None

    def store(self, first: int, last: int, target: Array, held: Array) -> None:
        """Store `held`, the array on [first, last), in `target`, each row from its source or from memory."""
        row_bytes = (last - first) // len(target)
        contiguous = target.flags.c_contiguous
        parts: list[Piece] = []
        for piece in self.pieces:
            low, high = max(piece.first, first), min(piece.last, last)
            if low < high:
                part = piece.part(low, high)
                by_rows = (low - first) % row_bytes == 0 == (high - first) % row_bytes
                if part is not None:
                    part = part.as_dtype(target.dtype, contiguous=contiguous)
                if part is None or not by_rows:
                    self.settle(first, last)
                    target[...] = held
                    return
                if low == first and high == last:
                    part.write(target)
                    return
                parts.append(part)
        done = 0
        for part in sorted(parts, key=attrgetter("first")):
            start, stop = (part.first - first) // row_bytes, (part.last - first) // row_bytes
            if done < start:
                target[done:start] = held[done:start]
            part.write(target[start:stop])
            done = stop
        if done < len(target):
            target[done:] = held[done:]

    def copy(self, to: Array, origin: Array) -> None:
        """Copy arrays, either of which may lie in this memory; writes only the deferred bytes that the copy reads."""
        span = self._memory.span_of(origin)
        if span is not None:
            self.settle(*span)
        span = self._memory.span_of(to)
        if span is not None:
            if to.flags.c_contiguous:
                self.forget(*span)
            else:
                self.settle(*span)
        to[...] = origin

    def forget(self, first: int, last: int) -> None:
        """Cancel the deferred loads of bytes [first, last), which are about to be overwritten."""
        pieces = self.pieces
        for piece in pieces[:]:
            if piece.first >= last or piece.last <= first:
                continue
            pieces.remove(piece)
            rest = []
            if piece.first < first:
                rest.append((piece.first, first))
            if piece.last > last:
                rest.append((last, piece.last))
            parts = [piece.part(*borders) for borders in rest]
            if None in parts:
                self._write(piece)
            else:
                pieces += [part for part in parts if part is not None]

    def settle(self, first: int = 0, last: int | None = None) -> None:
        """Write the deferred bytes of [first, last), or of the whole memory by default.

        If a piece reaches beyond these bounds, only whole rows of its source that they need are written.
        """
        pieces = self.pieces
        for piece in pieces[:]:
            if piece.last <= first or (last is not None and piece.first >= last):
                continue
            self.written_early.add(piece.first)
            pieces.remove(piece)
            before = piece.part(piece.first, first) if piece.first < first else None
            after = piece.part(last, piece.last) if last is not None and last < piece.last else None
            low = piece.first if before is None else first
            high = piece.last if after is None or last is None else last
            self._write(piece.part(low, high) or piece)
            pieces += [part for part in (before, after) if part is not None]

    def restart(self) -> None:
        """Drop all pieces at the end of a task, when the memory can no longer be read."""
        self.pieces.clear()
        self.written_early.clear()

    def _write(self, piece: Piece) -> None:
        content = self._memory.held_bytes(piece.first, piece.last)
        piece.write(content if piece.conversion is not None else content.view(piece.source.dtype))


class DeferredLoad:
    """The effect of a large load: defer bytes [first, last) to the elements of `source`."""

    __slots__ = ("_deferred", "_first", "_last", "_source")

    def __init__(self, deferred: Deferred, first: int, last: int, source: Array) -> None:
        self._deferred = deferred
        self._first = first
        self._last = last
        self._source = source

    def act(self) -> None:
        """Apply the effect when the load completes."""
        self._deferred.put(self._first, self._last, self._source)


class DeferredStore:
    """The effect of a large store: target = held, the array on [first, last)."""

    __slots__ = ("_deferred", "_first", "_held", "_last", "_target")

    def __init__(self, deferred: Deferred, first: int, last: int, target: Array, held: Array) -> None:
        self._deferred = deferred
        self._first = first
        self._last = last
        self._target = target
        self._held = held

    def act(self) -> None:
        """Apply the effect when the store completes."""
        if self._deferred.pieces:
            self._deferred.store(self._first, self._last, self._target, self._held)
        else:
            self._target[...] = self._held


def _as_dtype(source: Array, dtype: np.dtype[Any]) -> Array | None:
    """Return the same bytes with another dtype, not copied, or None if its elements would not be contiguous."""
    if source.dtype == dtype:
        return source
    if source.itemsize == dtype.itemsize:
        return source.view(dtype)
    if (source.shape[-1] * source.itemsize) % dtype.itemsize:
        return None
    if source.strides[-1] == source.itemsize:
        return source.view(dtype)
    # All elements are one repeated element.
    element = source[:1].tobytes() * (dtype.itemsize // source.itemsize or 1)
    if source.strides != (0,) or (dtype.itemsize < source.itemsize and len(set(element)) > 1):
        return None
    return np.ndarray((source.nbytes // dtype.itemsize,), dtype, element, 0, (0,))


def _without_copy(source: Array, shape: tuple[int, ...]) -> Array | None:
    """Return the same elements in another shape if that needs no copy, else None."""
    if source.shape == shape:
        return source
    return source.reshape(shape) if _is_reshaped(source.shape, source.strides, shape) else None


@lru_cache(maxsize=1024)
def _is_reshaped(shape: tuple[int, ...], strides: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether an array can be reshaped without a copy, as NumPy decides it."""
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

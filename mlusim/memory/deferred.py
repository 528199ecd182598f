"""Loads that an NRAM owes: large copies from inputs whose bytes move when somebody looks at them.

Most kernels load a tile of an input, move or convert it as a whole, and store it. Inputs never change while kernels
run. So the bytes of a large load need not pass through the simulated NRAM: it remembers where they are, and the store
takes them from there, in one pass over the host's memory where a load and a store make two. Whatever else looks at
bytes of the NRAM has those written first, and whatever overwrites them ends what is owed to them.

This is about host time alone. Simulated times, records and every byte that anyone can see are those of plain copies;
`tests/memory/test_deferred.py` compares random kernels with and without.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from mlusim.memory.allocation import Memory

Array = np.ndarray[Any, Any]

# A copy of fewer bytes, or of shorter segments, costs the host less than remembering it.
LEAST_BYTES = 16_384
LEAST_SEGMENT_BYTES = 256


class Piece(NamedTuple):
    """Bytes [first, last) of a memory that are still to be written: the elements of `source` in C order."""

    first: int
    last: int
    source: Array

    def part(self, first: int, last: int) -> Piece | None:
        """Bytes [first, last) of it, where these borders lie between two rows of the source; else None."""
        rows = len(self.source)
        row_bytes = (self.last - self.first) // rows
        start, left = divmod(first - self.first, row_bytes)
        stop, over = divmod(last - self.first, row_bytes)
        return None if left or over else Piece(first, last, self.source[start:stop])


class Deferred:
    """What one memory owes: pieces that do not overlap.

    Attributes:
        pieces: in no order; the list stays the same object, so that whoever holds it sees whether anything is owed.
        looked_at: where pieces began that had to be written after all: their kernel does not only pass tiles on, and
            later loads to there write their bytes at once.
    """

    __slots__ = ("_memory", "looked_at", "pieces")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.pieces: list[Piece] = []
        self.looked_at: set[int] = set()

    def put(self, first: int, last: int, source: Array) -> None:
        """Bytes [first, last) become those of `source`, of rank 1 or more, which must not change while owed."""
        if self.pieces:
            self.forget(first, last)
        self.pieces.append(Piece(first, last, source))

    def find(self, first: int, last: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | None:
        """What is owed to exactly [first, last), not copied, in a shape and an element type; None where it is not."""
        for piece in self.pieces:
            if piece.first == first and piece.last == last:
                source = _seen_as(piece.source, dtype)
                return None if source is None else _reshaped(source, shape)
        return None

    def store(self, first: int, last: int, target: Array, held: Array) -> None:
        """Store `held`, the array of [first, last), in `target`: each of its rows from where it is."""
        row_bytes = (last - first) // len(target)
        parts = []
        for piece in self.pieces:
            low, high = max(piece.first, first), min(piece.last, last)
            if low < high:
                part = piece.part(low, high)
                by_rows = (low - first) % row_bytes == 0 == (high - first) % row_bytes
                source = _seen_as(part.source, target.dtype) if part is not None and by_rows else None
                if source is None:
                    self.settle(first, last)
                    target[...] = held
                    return
                if low == first and high == last:
                    _assign(target, source)
                    return
                parts.append((low, high, source))
        done = 0
        for low, high, source in sorted(parts, key=_low):
            start, stop = (low - first) // row_bytes, (high - first) // row_bytes
            if done < start:
                target[done:start] = held[done:start]
            _assign(target[start:stop], source)
            done = stop
        if done < len(target):
            target[done:] = held[done:]

    def copy(self, to: Array, origin: Array) -> None:
        """A copy of arrays, either of which may lie in this memory: only bytes that it reads are written first."""
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
        """Bytes [first, last) are about to be overwritten: what they are owed does not matter any more."""
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
        """Write what is owed to bytes [first, last), to all of them where no borders are named.

        Of a piece that reaches beyond them no more is written than rows of its source need.
        """
        pieces = self.pieces
        for piece in pieces[:]:
            if piece.last <= first or (last is not None and piece.first >= last):
                continue
            self.looked_at.add(piece.first)
            pieces.remove(piece)
            before = piece.part(piece.first, first) if piece.first < first else None
            after = piece.part(last, piece.last) if last is not None and last < piece.last else None
            low = piece.first if before is None else first
            high = piece.last if after is None or last is None else last
            self._write(piece.part(low, high) or piece)
            pieces += [part for part in (before, after) if part is not None]

    def restart(self) -> None:
        """A task ends: nobody can see what it leaves."""
        self.pieces.clear()
        self.looked_at.clear()

    def _write(self, piece: Piece) -> None:
        source = piece.source
        held = self._memory.held_bytes(piece.first, piece.last)
        held.view(source.dtype).reshape(source.shape)[...] = source


class DeferredLoad:
    """The effect of a large load: [first, last) is owed the elements of `source`."""

    __slots__ = ("_deferred", "_first", "_last", "_source")

    def __init__(self, deferred: Deferred, first: int, last: int, source: Array) -> None:
        self._deferred = deferred
        self._first = first
        self._last = last
        self._source = source

    def act(self) -> None:
        """The load is complete."""
        self._deferred.put(self._first, self._last, self._source)


class DeferredStore:
    """The effect of a large store: target = held, the array of [first, last)."""

    __slots__ = ("_deferred", "_first", "_held", "_last", "_target")

    def __init__(self, deferred: Deferred, first: int, last: int, target: Array, held: Array) -> None:
        self._deferred = deferred
        self._first = first
        self._last = last
        self._target = target
        self._held = held

    def act(self) -> None:
        """The store is complete."""
        if self._deferred.pieces:
            self._deferred.store(self._first, self._last, self._target, self._held)
        else:
            self._target[...] = self._held


def _seen_as(source: Array, dtype: np.dtype[Any]) -> Array | None:
    """The same bytes as elements of another type, not copied; None where elements of it would not lie together."""
    if source.dtype == dtype:
        return source
    if source.itemsize == dtype.itemsize:
        return source.view(dtype)
    if (source.shape[-1] * source.itemsize) % dtype.itemsize:
        return None
    if source.strides[-1] == source.itemsize:
        return source.view(dtype)
    # One element that stands for all.
    one = source[:1].tobytes() * (dtype.itemsize // source.itemsize or 1)
    if source.strides != (0,) or (dtype.itemsize < source.itemsize and len(set(one)) > 1):
        return None
    return np.ndarray((source.nbytes // dtype.itemsize,), dtype, one, 0, (0,))


def _reshaped(source: Array, shape: tuple[int, ...]) -> Array | None:
    """The same elements in another shape where that takes no copy, else None."""
    if source.shape == shape:
        return source
    return source.reshape(shape) if _is_reshaped(source.shape, source.strides, shape) else None


@lru_cache(maxsize=1024)
def _is_reshaped(shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether elements of an array lie in another shape with one stride for each axis; else NumPy copies them."""
    # Runs of elements at one distance from each other: their number and the distance.
    runs: list[tuple[int, int]] = []
    for extent, stride in zip(shape, strides, strict=True):
        if runs and runs[-1][1] == extent * stride:
            runs[-1] = runs[-1][0] * extent, stride
        elif extent > 1:
            runs.append((extent, stride))
    left = 1
    for extent in reversed(wanted):
        if extent > 1 and left == 1 and runs:
            left, _ = runs.pop()
        if left % extent:
            return False
        left //= extent
    return True


def _assign(target: Array, source: Array) -> None:
    """Copy elements in C order to as many elements of another shape perhaps."""
    if target.shape != source.shape:
        if target.flags.c_contiguous:
            target = target.reshape(source.shape)
        else:
            source = source.reshape(target.shape)
    target[...] = source


def _low(part: tuple[int, int, Array]) -> int:
    return part[0]

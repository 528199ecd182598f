"""Loads that an NRAM owes: large copies from inputs whose bytes move when somebody looks at them.

Most kernels load a tile of an input, move or convert it as a whole, and store it. Inputs never change while kernels
run. So the bytes of a large load need not pass through the simulated NRAM: it remembers where they are, and the store
takes them from there, in one pass over the host's memory where a load and a store make two. Whatever else looks at the
NRAM, or writes to it, has all that is owed written first.

This is about host time alone. Simulated times, records and every byte that anyone can see are those of plain copies;
`tests/memory/test_deferred.py` compares random kernels with and without.
"""

from __future__ import annotations

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
                source = piece.source
                if source.itemsize != dtype.itemsize:
                    return None
                return _reshaped(source if source.dtype == dtype else source.view(dtype), shape)
        return None

    def store(self, first: int, last: int, target: Array, held: Array) -> None:
        """Store `held`, the array of [first, last), in `target`: each of its rows from where it is."""
        for piece in self.pieces:
            if piece.first == first and piece.last == last and piece.source.dtype == target.dtype:
                _assign(target, piece.source)
                return
        row_bytes = (last - first) // len(target)
        parts = []
        for piece in self.pieces:
            low, high = max(piece.first, first), min(piece.last, last)
            if low < high:
                part = piece.part(low, high)
                by_rows = (low - first) % row_bytes == 0 == (high - first) % row_bytes
                if part is None or not by_rows or piece.source.itemsize != target.itemsize:
                    self.settle()
                    target[...] = held
                    return
                parts.append(part)
        done = 0
        for part in sorted(parts):
            start, stop = (part.first - first) // row_bytes, (part.last - first) // row_bytes
            target[done:start] = held[done:start]
            _assign(target[start:stop], part.source.view(target.dtype))
            done = stop
        target[done:] = held[done:]

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

    def settle(self) -> None:
        """Write everything that is owed."""
        for piece in self.pieces:
            self.looked_at.add(piece.first)
            self._write(piece)
        self.pieces.clear()

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


def _reshaped(source: Array, shape: tuple[int, ...]) -> Array | None:
    """The same elements in another shape where that takes no copy, else None."""
    if source.shape == shape:
        return source
    reshaped = source.reshape(shape)
    return reshaped if np.may_share_memory(reshaped, source) else None


def _assign(target: Array, source: Array) -> None:
    """Copy elements in C order to as many elements of another shape perhaps."""
    if target.shape != source.shape and target.flags.c_contiguous:
        target = target.reshape(source.shape)
    target[...] = source.reshape(target.shape)

"""Bits of bit masks that come from uninitialised bytes: the mark of a byte says only that some of its eight bits do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlusim.log_tables import AllocationRecord
from mlusim.verifier.uninitialised.marks import Marks, Operand, view_of

Bits = np.ndarray[Any, np.dtype[np.uint8]]

BYTE_BITS = 8
_ALL = 0xFF


class MarkedBits:
    """The marked bits of each marked byte; in an allocation that no comparison or copy of its result has written, all.

    Args:
        allocations: those of the log.
        marks_of: returns the marks of an operand by byte, or None if its allocation has none.
    """

    def __init__(self, allocations: Sequence[AllocationRecord], marks_of: Callable[[Operand], Any]) -> None:
        self._allocations = allocations
        self._marks_of = marks_of
        self._bits: dict[int, Bits] = {}

    def __contains__(self, alloc: int) -> bool:
        """Return whether the bits of an allocation may be marked apart from each other."""
        return alloc in self._bits

    def _of(self, alloc: int) -> Bits:
        bits = self._bits.get(alloc)
        if bits is None:
            bits = self._bits[alloc] = np.full(self._allocations[alloc].nbytes, _ALL, np.uint8)
        return bits

    def reset(self, operand: Operand) -> None:
        """All bits of marked bytes of an operand are marked from now on."""
        if operand[0] in self._bits:
            view_of(operand, self._bits[operand[0]])[...] = _ALL

    def compare(self, dst: Operand, groups: Marks) -> None:
        """Set the bits of a comparison's result from the marks of the elements compared, [bytes, 8]."""
        bits = np.packbits(groups != 0, axis=1, bitorder="little")[:, 0]
        self._of(dst[0])[dst[1] : dst[1] + len(bits)] = bits

    def move(self, dst: Operand, sources: list[Operand]) -> None:
        """Give the result of a copy or a bitwise instruction the marked bits of its sources, byte by byte."""
        if not any(source[0] in self._bits for source in sources) or self._marks_of(dst) is None:
            return
        parts = [self._marked(source) for source in sources if self._marks_of(source) is not None]
        target = view_of(dst, self._of(dst[0]))
        if all(part.size == target.size for part in parts):
            target[...] = np.bitwise_or.reduce(parts).reshape(target.shape)

    def none_before(self, count: int, mask: Operand) -> bool:
        """Return whether none of the first `count` bits of a bit mask is marked; False if unknown."""
        if mask[0] not in self._bits:
            return False
        marked = self._marked(mask)
        return marked.size * BYTE_BITS >= count and not np.unpackbits(marked, bitorder="little")[:count].any()

    def _marked(self, operand: Operand) -> Bits:
        bits = self._bits.get(operand[0])
        tracked = np.uint8(_ALL) if bits is None else view_of(operand, bits).reshape(-1)
        return np.where(self._marks_of(operand).reshape(-1) != 0, tracked, np.uint8(0))

"""Marks of whole operands: one number instead of one per byte.

Loops access a buffer by rows or tiles that are equal or apart from each other, and the bytes of one of them usually
have the same mark. Then an operation takes the largest of a few numbers instead of a dozen calls on short arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.log_tables import Box
from mlusim.verifier.accesses.geometry import geometry_of, group_rows
from mlusim.verifier.accesses.table import Accesses
from mlusim.verifier.uninitialised.marks import Marks


class OperandMarks:
    """The marks of allocations whose operands are runs of bytes, equal or apart from each other.

    Args:
        boxes: those of the log.
        accesses: all accesses of the run.
        marked: by allocation, whether marks may reach it.
    """

    def __init__(self, boxes: Sequence[Box], accesses: Accesses, marked: Flags) -> None:
        self._boxes = boxes
        # By allocation, the end of each operand by its first byte.
        self._ends = _separate_operands(accesses, marked)
        self._marks: dict[int, dict[int, int]] = {}
        # By box, where its operands begin relative to their offset; None if it is empty.
        self._starts: dict[int, int | None] = {}

    def __contains__(self, alloc: int) -> bool:
        """Return whether the marks of an allocation are kept here."""
        return alloc in self._marks

    def add(self, alloc: int) -> bool:
        """Keep the marks of an allocation here, none at first, and return whether that is possible."""
        if alloc not in self._ends:
            return False
        self._marks[alloc] = {}
        return True

    def is_operand(self, alloc: int, starts: Integers, stops: Integers) -> bool:
        """Return whether byte ranges of an allocation are one operand."""
        return len(starts) == 1 and self._ends[alloc].get(int(starts[0])) == int(stops[0])

    def first_byte(self, offset: int, box: int) -> int | None:
        """Return the first byte of an operand; None if it has no bytes."""
        if box not in self._starts:
            geometry = geometry_of(self._boxes[box])
            self._starts[box] = None if geometry is None else geometry.start
        start = self._starts[box]
        return None if start is None else offset + start

    def get(self, alloc: int, first: int | None) -> int:
        """Return the mark of the operand that begins at byte `first`; 0 for none."""
        return 0 if first is None else self._marks[alloc].get(first, 0)

    def set(self, alloc: int, first: int, mark: int) -> bool:
        """Set the mark of an operand, 0 for none, and return whether it was another one."""
        marks = self._marks[alloc]
        changed = marks.get(first, 0) != mark
        marks[first] = mark
        return changed

    def all_of(self, alloc: int) -> frozenset[int]:
        """Return the marks in an allocation."""
        return frozenset(mark for mark in self._marks[alloc].values() if mark)

    def move(self, alloc: int, marks: Marks) -> None:
        """Move the marks of an allocation into an array by byte, for good."""
        range_ends = self._ends.pop(alloc)
        for first, mark in self._marks.pop(alloc).items():
            marks[first : range_ends[first]] = mark


def _separate_operands(accesses: Accesses, marked: Flags) -> dict[int, dict[int, int]]:
    """Return, for allocations whose operands are single runs, equal or apart, the ends of these by first byte."""
    rows = np.flatnonzero(marked[accesses.alloc])
    if not len(rows):
        return {}
    mixed = {*accesses.unknown, *accesses.alloc[rows][~accesses.single_run[accesses.geometry[rows]]].tolist()}
    rows = rows[group_rows(accesses.alloc[rows], accesses.low[rows], accesses.high[rows])[0]]
    rows = rows[np.lexsort((accesses.low[rows], accesses.alloc[rows]))]
    alloc, low, high = accesses.alloc[rows], accesses.low[rows], accesses.high[rows]
    overlaps = (alloc[1:] == alloc[:-1]) & (low[1:] < high[:-1])
    mixed.update(alloc[1:][overlaps].tolist())
    range_ends: dict[int, dict[int, int]] = {}
    for number, first, end in zip(alloc.tolist(), low.tolist(), high.tolist(), strict=True):
        if number not in mixed:
            range_ends.setdefault(number, {})[first] = end
    return range_ends

"""Storage of the marks of uninitialised bytes, and of those that have taken effect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.log import NONE
from mlusim.verifier.accesses.outputs import outputs_of
from mlusim.verifier.accesses.partial_results import by_element
from mlusim.verifier.run import Run
from mlusim.verifier.uninitialised.agenda import Agenda
from mlusim.verifier.uninitialised.marked_bits import MarkedBits
from mlusim.verifier.uninitialised.marks import Marks, Operand, view_of
from mlusim.verifier.uninitialised.operand_marks import OperandMarks

_LARGEST = np.iinfo(np.int32).max


class MarkStore:
    """The marks in each allocation, by operand where that is possible, else by byte.

    Args:
        run: the run.
        marked: by allocation, whether marks may reach it.
        agenda: the operations to examine; the present one is the one whose marks are propagated.

    Attributes:
        whole: the marks that are kept by operand.
        bits: the marked bits of bit masks.
        changes: by marked allocation, how often its marks have changed.
        effects: by mark, the operation through which it first had an effect; NONE for the host's.
    """

    def __init__(self, run: Run, marked: Flags, agenda: Agenda) -> None:
        log = self._log = run.log
        self._agenda = agenda
        self._outputs = outputs_of(log)
        self._marks: dict[int, Marks] = {}
        self._stored: dict[tuple[int, int], int] = {}
        self.whole = OperandMarks(log.boxes, run.accesses, marked)
        self.bits = MarkedBits(log.allocations, self.bytes)
        self.changes: dict[int, int] = {}
        self.effects: dict[int, int] = {}

    def by_operand(self, alloc: int) -> bool:
        """Return whether the marks of an allocation are kept by operand; without any, begins to keep them so."""
        if alloc in self.whole:
            return True
        if alloc in self._marks or not self.whole.add(alloc):
            return False
        self._begin(alloc)
        return True

    def of(self, alloc: int) -> Marks:
        """Return the marks of an allocation by byte; from now on, they are kept so."""
        if alloc not in self._marks:
            marks = self._marks[alloc] = np.zeros(self._log.allocations[alloc].nbytes, np.int32)
            if alloc in self.whole:
                self.whole.move(alloc, marks)
            else:
                self._begin(alloc)
        return self._marks[alloc]

    def is_by_byte(self, alloc: int) -> bool:
        """Return whether the marks of an allocation are kept by byte."""
        return alloc in self._marks

    def _begin(self, alloc: int) -> None:
        self.changes[alloc] = 0
        self._agenda.add(alloc)

    def changed(self, alloc: int) -> None:
        """Note that marks of an allocation have changed."""
        self.changes[alloc] += 1
        self._agenda.changed(alloc)

    def set_bytes(self, alloc: int, starts: Integers, stops: Integers, mark: int) -> None:
        """Set the mark of byte ranges of an allocation."""
        if self.by_operand(alloc) and self.whole.is_operand(alloc, starts, stops):
            self.whole.set(alloc, int(starts[0]), mark)
        else:
            marks = self.of(alloc)
            for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
                marks[start:stop] = mark
        self.changed(alloc)

    def set_operand(self, alloc: int, offset: int, box: int, mark: int) -> None:
        """Set the mark of an operand, in an allocation whose marks are kept by operand."""
        first = self.whole.first_byte(offset, box)
        if first is None:
            return
        if self.whole.set(alloc, first, mark):
            self.changed(alloc)
        if mark and self._outputs[alloc]:
            self._stored.setdefault((alloc, mark), self._agenda.present)

    def uniform_mark(self, alloc: int, offset: int, box: int) -> int | None:
        """Return the mark that all bytes of an operand have, 0 for none; None if they differ."""
        if alloc in self.whole:
            return self.whole.get(alloc, self.whole.first_byte(offset, box))
        if alloc not in self._marks:
            return 0
        marks = view_of((alloc, offset, self._log.boxes[box]), self._marks[alloc])
        smallest, largest = int(marks.min(initial=_LARGEST)), int(marks.max(initial=0))
        return largest if smallest >= largest and alloc not in self.bits else None

    def bytes(self, operand: Operand) -> Any:
        """Return the marks of an operand by byte, [..., itemsize]; None if its allocation has none."""
        alloc = operand[0]
        return view_of(operand, self.of(alloc)) if alloc in self._marks or alloc in self.whole else None

    def elements(self, operand: Operand) -> Any:
        """Return the marks of an operand by element; None if its allocation has none."""
        marks = self.bytes(operand)
        return None if marks is None else marks.max(axis=-1, initial=0)

    def assign(self, operand: Operand, result: Any) -> None:
        """Set the marks of an operand, by element or one for all."""
        if not np.any(result):
            self.clear(operand)
            return
        target = view_of(operand, self.of(operand[0]))
        self.bits.reset(operand)
        marks = np.asarray(result)[..., None]
        if np.any(target != marks):
            target[...] = marks
            self.changed(operand[0])
        self.note(operand[0], result)

    def assign_run(self, alloc: int, offset: int, nbytes: int, itemsize: int, sources: list[Marks]) -> None:
        """Set the marks of a run of elements, which are kept by byte, to the largest of those of its sources."""
        target = self._marks[alloc][offset : offset + nbytes].reshape(-1, itemsize)
        marks: Any = 0
        if sources:
            largest = sources[0] if len(sources) == 1 else np.maximum(*sources)
            marks = largest.reshape(-1, itemsize).max(axis=1, keepdims=True)
        if (target != marks).any():
            target[...] = marks
            self.changed(alloc)
        self.note(alloc, marks)

    def assign_some(self, operand: Operand, result: Any, positions: Integers) -> None:
        """Set the marks of some elements of an operand, at their positions in it; the others keep theirs."""
        if not np.any(result) and not self.is_marked(operand[0]):
            return
        flat = (operand[0], operand[1], by_element(operand[2]))
        target = view_of(flat, self.of(operand[0]))
        if np.any(target[positions] != result[:, None]):
            target[positions] = result[:, None]
            self.changed(operand[0])
        self.note(operand[0], result)

    def clear(self, operand: Operand) -> None:
        """Remove the marks of an operand."""
        target = self.bytes(operand)
        if target is None:
            return
        self.bits.reset(operand)
        if target.any():
            target[...] = 0
            self.changed(operand[0])

    def is_marked(self, alloc: int) -> bool:
        """Return whether an allocation has had marks."""
        return alloc in self.changes

    def note(self, alloc: int, result: Any) -> None:
        """Note that the present operation has stored marks in an allocation."""
        if self._outputs[alloc]:
            for mark in np.unique(result).tolist():
                if mark:
                    self._stored.setdefault((alloc, mark), self._agenda.present)

    def count(self, operands: Iterable[Operand], rows: Any = ...) -> None:
        """Count marks that reach registers, addresses or masks as having an effect; of all rows, or those of `rows`."""
        for operand in operands:
            marks = self.elements(operand)
            if marks is not None:
                for mark in np.unique(marks[rows]).tolist():
                    self.take_effect(mark)

    def take_effect(self, mark: int) -> None:
        """Note that a mark has an effect through the present operation; 0 is none."""
        if mark:
            self.effects.setdefault(mark, self._agenda.present)

    def count_outputs(self) -> None:
        """Count marks in outputs as having an effect through the operation that stored them."""
        for alloc in self.changes:
            if self._outputs[alloc]:
                for mark in self._host_reads(alloc):
                    self.effects.setdefault(mark, self._stored.get((alloc, mark), NONE))

    def _host_reads(self, alloc: int) -> frozenset[int]:
        parts = self._log.host.read_parts.get(alloc)
        if parts == {(0, self._log.allocations[alloc].nbytes)}:
            parts = None
        if parts is None and alloc in self.whole:
            return self.whole.all_of(alloc)
        marks = self.of(alloc)
        marks_read = marks if parts is None else np.concatenate([marks[first:end] for first, end in parts])
        return frozenset(np.unique(marks_read[marks_read > 0]).tolist())

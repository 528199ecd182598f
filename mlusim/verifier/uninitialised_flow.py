"""The flow of uninitialised bytes: a read of them counts if they reach an output, a register or an address.

Vector code often computes on a rounded-up length and stores only the valid part: the extra lanes read whatever is in
the buffer, to no effect. Therefore each uninitialised byte that is read gets a mark. Copies and instructions propagate
marks (`mlusim.verifier.marks`): element by element if they work elementwise, from a filter to its channel, else from
any input to the whole result. Writes of unmarked data clear them. Only operations that access marked buffers are
examined, in log order (`mlusim.verifier.agenda`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlusim.cores.instructions.selection import HEAD_BYTES
from mlusim.cores.sets_and_atomics import ATOMIC_NAMES, FETCHING
from mlusim.log import NONE, Box, Log
from mlusim.verifier.accesses import BY_ROWS, COLLECT, FILTERS, SORTING, Accesses
from mlusim.verifier.agenda import Agenda
from mlusim.verifier.allocation_flow import AllocationFlow, Flags
from mlusim.verifier.geometry import Integers, alike
from mlusim.verifier.marked_bits import BYTE_BITS, MarkedBits
from mlusim.verifier.marks import Marks, Operand, compares_to_bits, is_copy, marks_by_position, result_marks, view_of
from mlusim.verifier.partial_results import BY_CHOICE, BY_SHAPE, LOOKUPS, by_element, written_box
from mlusim.verifier.plan_comparison import outputs_of
from mlusim.verifier.row_geometry import rows_of_runs

_BITWISE = frozenset({"band", "bor", "bxor", "bnot"})
_OPERAND_COLUMNS = tuple((f"{side}_alloc", f"{side}_offset", f"{side}_box") for side in ("dst", "a", "b"))


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A read of uninitialised bytes: record, allocation, and byte ranges in it."""

    record: int
    alloc: int
    starts: Integers
    stops: Integers


class Flow:
    """The marks of one log.

    Args:
        log, columns, accesses, flow: the run.
        reads: the reads of uninitialised bytes. A mark is the number of reads from its read on: of several, the
            largest is that of the first read.
    """

    def __init__(
        self,
        log: Log,
        columns: dict[str, Integers],
        accesses: Accesses,
        flow: AllocationFlow,
        reads: Sequence[Unwritten],
    ) -> None:
        self._log = log
        self._columns = columns
        self._reads = reads
        self._marks: dict[int, Marks] = {}
        self._outputs = outputs_of(log)
        start = np.zeros(len(log.allocations), bool)
        start[[read.alloc for read in reads]] = True
        marked = flow.reached_from(start)
        self._records, self._first = _records_by_allocation(accesses, marked)
        self._seeds: dict[int, list[int]] = {}
        for number, read in enumerate(reads):
            self._seeds.setdefault(read.record, []).append(number)
        self._agenda = Agenda(self._seeds)
        # Memory views return Python integers, one at a time, at a tenth of the cost of array elements.
        self._operands = tuple(columns[name].data for operand in _OPERAND_COLUMNS for name in operand)
        self._names = columns["op"].data
        self._pipes = columns["pipe"].data
        self._call_of = self._calls(marked)
        # By allocation, how often its marks have changed; by call, these counts when it last changed nothing.
        self._changes: dict[int, int] = {}
        self._no_ops: dict[int, list[int]] = {}
        # Lookups whose indices beyond the table are all uninitialised.
        self.padding: set[int] = set()
        # By read, the operation through which its bytes first have an effect.
        self.reached: dict[int, int] = {}
        self._stored: dict[tuple[int, int], int] = {}
        self._bits = MarkedBits(log.allocations, self._bytes)

    @property
    def marked(self) -> list[int]:
        """The allocations that marks have reached."""
        return [*self._marks]

    def _calls(self, marked: Flags) -> Integers:
        """By record, return a number that operations with the same effect on the same marks share.

        Which bytes of a source are read does not matter if it is never `marked`; operations without a marked operand
        are never examined.
        """
        marked = np.append(marked, False)
        allocs = [self._columns[f"{side}_alloc"] for side in ("dst", "a", "b")]
        chosen = np.logical_or.reduce([marked[alloc] for alloc in allocs])
        more = self._log.more_operands
        chosen[[record for record, operands in more.items() if any(marked[alloc] for alloc, _, _ in operands)]] = True
        records = np.flatnonzero(chosen)
        columns = [self._log.records.instructions()[1][records]]
        for side in ("dst", "a", "b"):
            known = marked[self._columns[f"{side}_alloc"][records]]
            columns += [np.where(known, self._columns[f"{side}_{part}"][records], NONE) for part in ("alloc", "offset")]
        if more:
            numbers: dict[tuple[tuple[int, int, int], ...], int] = {}
            further = np.full(len(self._names), NONE)
            for record, operands in more.items():
                further[record] = numbers.setdefault(tuple(operands), len(numbers))
            columns.append(further[records])
        calls = np.full(len(self._names), NONE)
        calls[records] = alike(*columns)[1]
        return calls

    def follow(self) -> dict[int, int]:
        """By index of the read, return the record through which its bytes have an effect; omits harmless reads."""
        waits = self._host_waits()
        while (record := self._agenda.next()) is not None:
            while waits and waits[0] <= record:
                waits.pop(0)
                self._mark_reached_outputs()
            for number in self._seeds.get(record, ()):
                read = self._reads[number]
                marks = self._marks_of(read.alloc, record)
                for start, stop in zip(read.starts.tolist(), read.stops.tolist(), strict=True):
                    # Nothing has written these bytes, so their only marks are those of earlier reads.
                    marks[start:stop] = len(self._reads) - number
                self._changed(read.alloc)
            self._agenda.examined(settled=self._propagate(record))
        self._mark_reached_outputs()
        return self.reached

    def _host_waits(self) -> list[int]:
        """Return the records before which the host may have read the outputs."""
        launch = np.array([task.launch for task in self._log.tasks], np.int64)[self._columns["task"]]
        later = [np.flatnonzero(launch >= count) for count in self._log.host_waits]
        return [int(uses[0]) for uses in later if len(uses)]

    def _marks_of(self, alloc: int, record: int) -> Marks:
        """Return the marks of an allocation, and schedule its operations after `record`."""
        marks = self._marks.get(alloc)
        if marks is None:
            marks = self._marks[alloc] = np.zeros(self._log.allocations[alloc].nbytes, np.int32)
            self._changes[alloc] = 0
            records = self._records[self._first[alloc] : self._first[alloc + 1]]
            records = records[np.searchsorted(records, record, side="right") :]
            self._agenda.add(alloc, records, self._call_of[records])
        return marks

    def _changed(self, alloc: int) -> None:
        self._changes[alloc] += 1
        self._agenda.changed(alloc)

    def _mark_reached_outputs(self) -> None:
        for alloc, marks in self._marks.items():
            if self._outputs[alloc]:
                parts = self._log.host_read_parts.get(alloc, {(0, len(marks))})
                read = np.concatenate([marks[first:end] for first, end in parts])
                for mark in np.unique(read[read > 0]).tolist():
                    self.reached.setdefault(len(self._reads) - mark, self._stored.get((alloc, mark), NONE))

    def _propagate(self, record: int) -> bool:
        """Propagate the marks of one operation; returns whether it and other calls like it change nothing.

        Loops repeat the same calls on the same buffers. A call that changed nothing still changes nothing while the
        marks of its operands are unchanged.
        """
        log = self._log
        if record in log.addresses or record in log.selected:
            self._apply(record)
            return False
        call = int(self._call_of[record])
        changes = self._changes.get
        allocs = [column[record] for column in self._operands[::3]]
        allocs += [alloc for alloc, _, _ in log.more_operands.get(record, ())]
        before = [changes(alloc, 0) for alloc in allocs]
        if self._no_ops.get(call) == before:
            return True
        self._apply(record)
        if [changes(alloc, 0) for alloc in allocs] != before:
            return False
        self._no_ops[call] = before
        return True

    def _apply(self, record: int) -> None:
        """Propagate the marks of one operation."""
        log = self._log
        name, pipe = log.ops[self._names[record]], self._pipes[record]
        numbers = [column[record] for column in self._operands]
        dst, *sources = (
            (alloc, offset, log.boxes[code])
            for alloc, offset, code in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
        )
        sources = [operand for operand in sources if operand[0] != NONE]
        further = [(alloc, offset, log.boxes[code]) for alloc, offset, code in log.more_operands.get(record, [])]
        if name in BY_ROWS:
            # Row numbers and masks are read to compute addresses.
            self._count(
                record, [*sources[1:], *(mask for mask in further if not self._is_padding(name, sources, mask))]
            )
            if dst[0] == NONE:
                # A gather or scatter that an offset stopped has no rows: it has read all of its offsets.
                self._count(record, sources[:1], log.addresses.get(record, {"src": ...})["src"])
            elif not sources:
                self._store_rows(record, dst)
            else:
                self._rows(record, dst, sources[0])
            return
        if name == COLLECT:
            self._count(record, sources[1:])
        elif name in SORTING:
            self._count(record, sources)
        if dst[0] == NONE:
            # The result goes to a register: a scalar load, a sum, a maximum, or a count returned by an instruction.
            self._count(record, [*sources, *further])
            return
        if name in ATOMIC_NAMES:
            self._atomic(record, name, dst, sources, further)
            return
        if name in FILTERS and self._filter(record, dst, *sources):
            return
        marks = [self._elements(operand) for operand in ([*sources, *further] if name not in SORTING else sources)]
        marked = [mark for mark in marks if mark is not None and mark.any()]
        if marked and compares_to_bits(name):
            self._to_bits(record, dst, marked)
            return
        beyond = log.addresses[record]["dst"] if name in LOOKUPS and record in log.addresses else None
        if beyond is not None and marks[0] is not None and marks[0].reshape(-1)[beyond].all():
            self.padding.add(record)
        if record in log.selected and name in LOOKUPS:
            looked_up = log.selection(record, by_element(sources[-1][2]).shape[0])
            marks[-1] = None if marks[-1] is None else np.where(looked_up, marks[-1].reshape(-1), 0)
            marked = [mark for mark in marks if mark is not None and mark.any()]
        elif record in log.selected:
            selected = log.selection(record, by_element(dst[2]).shape[0])
            if name in BY_CHOICE:
                marks[1:] = _chosen(selected, *marks[1:])
                marked = [mark for mark in marks if mark is not None and mark.any()]
            elif not np.any(marks[1:]):
                self._assign_some(record, dst, *self._selected_marks(record, name, dst, marks, sources, selected))
                return
        if name in BY_SHAPE:
            dst = (dst[0], dst[1], written_box(name, dst[2], sources[0][2]))
        for target in [dst, *(further if name in SORTING else ())]:
            if marked:
                copied = self._bytes(sources[0]) if is_copy(name, pipe) and len(sources) == 1 else None
                boxes = [operand[2] for operand in (*sources, *further)]
                by_position = marks_by_position(name, target[2], marks, boxes, log.attributes.get(record))
                known = result_marks(name, copied, target[2], marks) if by_position is None else by_position
                self._assign(record, target, known)
            else:
                self._clear(target)
            if name in _BITWISE or is_copy(name, pipe):
                self._bits.move(target, sources)

    def _selected_marks(
        self, record: int, name: str, dst: Operand, marks: list[Any], sources: list[Operand], selected: Any
    ) -> tuple[Any, Integers]:
        """Return marks for the selected elements of a result, and their positions in it."""
        positions = np.flatnonzero(selected)
        moved = self._log.addresses.get(record, {}).get("src")
        if moved is not None:
            whole = np.zeros(selected.size, np.int32)
            if marks[0] is not None:
                whole[HEAD_BYTES // dst[2].itemsize :][: len(moved)] = marks[0].reshape(-1)[moved]
            return whole[positions], positions
        box = Box((len(positions),), (dst[2].itemsize,), dst[2].itemsize)
        boxes = [operand[2] for operand in sources]
        found = marks_by_position(name, box, marks, boxes, self._log.attributes.get(record))
        if found is not None:
            return found, positions
        every = np.broadcast_to(np.asarray(result_marks(name, None, dst[2], marks)), dst[2].shape)
        return every.reshape(-1)[positions], positions

    def _to_bits(self, record: int, dst: Operand, marked: list[Marks]) -> None:
        """Propagate marks through a comparison to a bit mask: 8 elements to a byte."""
        groups = np.maximum.reduce([mark.reshape(-1) for mark in marked]).reshape(-1, BYTE_BITS)
        marks = self._marks_of(dst[0], record)
        span = slice(dst[1], dst[1] + len(groups))
        marks[span] = groups.max(axis=1)
        self._bits.compare(dst, groups)
        self._changed(dst[0])
        self._note(record, dst[0], marks[span])

    def _is_padding(self, name: str, sources: list[Operand], mask: Operand) -> bool:
        """Whether all marked bits of a bit mask lie behind the last offset of a gather or scatter."""
        if name not in ("gather", "scatter") or len(sources) < 2:
            return False
        count = int(np.prod(sources[1][2].shape, dtype=np.int64))
        return self._bits.none_before(count, mask)

    def _atomic(
        self,
        record: int,
        name: str,
        dst: Operand,
        sources: Iterable[Operand],
        further: Iterable[Operand],
    ) -> None:
        """Combine the marks of target and operands elementwise; the old value's marks go to the result, if fetched."""
        box = dst[2]
        size = int(np.prod(box.shape, dtype=np.int64))
        old_marks = self._elements(dst)
        operands = [operand for operand in map(self._elements, sources) if operand is not None]
        combined = operands if name.endswith("_exch") or old_marks is None else [old_marks, *operands]
        before = np.zeros(size, np.int32) if old_marks is None else old_marks.reshape(-1).copy()
        result: Any = 0
        if combined:
            result = np.maximum.reduce([operand.reshape(-1) for operand in combined]).reshape(box.shape)
        self._assign(record, dst, result)
        for old in further if name in FETCHING else ():
            self._assign(record, old, before.reshape(old[2].shape))

    def _rows(self, record: int, dst: Operand, src: Operand) -> None:
        addresses = self._log.addresses.get(record, {})
        if "unknown" in addresses:
            return
        values = self._elements(src)
        to_rows, from_rows = addresses.get("dst"), addresses.get("src")
        if from_rows is not None and "lengths" in addresses:
            from_rows = rows_of_runs(from_rows, addresses["lengths"])
        count = min((len(rows) for rows in (to_rows, from_rows) if rows is not None), default=NONE)
        box = dst[2]
        row_bytes = box.itemsize * int(np.prod(box.shape[1:], dtype=np.int64))
        if count == NONE:
            count = int(self._columns["bytes_requested"][record]) // max(row_bytes, 1)
        if values is None and dst[0] not in self._marks:
            return
        lines: Any = 0
        if values is not None:
            lines = values.reshape(len(values), -1)[slice(0, count) if from_rows is None else from_rows[:count]]
        marked = bool(np.any(lines))
        if not marked and dst[0] not in self._marks:
            return
        target = view_of(dst, self._marks_of(dst[0], record))
        chosen: Any = slice(0, count) if to_rows is None else to_rows[:count]
        value = lines.reshape(count, *box.shape[1:])[..., None] if marked else 0
        target[chosen] = value
        self._changed(dst[0])
        if marked:
            self._note(record, dst[0], lines)

    def _store_rows(self, record: int, dst: Operand) -> None:
        """Remove the marks of elements that are stored from registers."""
        marks = self._bytes(dst)
        rows = self._log.addresses[record]["dst"]
        if marks is not None and marks[rows].any():
            marks[rows] = 0
            self._changed(dst[0])

    def _filter(self, record: int, dst: Operand, src: Operand, mask: Operand) -> bool:
        """Propagate marks to where a filter moves their elements; false if its selection depends on marked bytes."""
        positions = self._log.addresses.get(record, {}).get("src")
        marked_mask = self._elements(mask)
        if positions is None or (marked_mask is not None and marked_mask.any()):
            return False
        values = self._elements(src)
        selected = np.zeros(len(positions), np.int32) if values is None else values.reshape(-1)[positions]
        if not selected.any() and dst[0] not in self._marks:
            return True
        target = view_of(dst, self._marks_of(dst[0], record))
        front = target.reshape(-1, target.shape[-1])[: len(positions)]
        if np.any(front != selected[:, None]):
            front[...] = selected[:, None]
            self._changed(dst[0])
        self._note(record, dst[0], selected)
        return True

    def _bytes(self, operand: Operand) -> Any:
        marks = self._marks.get(operand[0])
        return None if marks is None else view_of(operand, marks)

    def _elements(self, operand: Operand) -> Any:
        """Return the marks of an operand by element; None if its allocation has none."""
        marks = self._bytes(operand)
        return None if marks is None else marks.max(axis=-1, initial=0)

    def _assign(self, record: int, operand: Operand, result: Any) -> None:
        if not np.any(result):
            self._clear(operand)
            return
        target = view_of(operand, self._marks_of(operand[0], record))
        self._bits.reset(operand)
        marks = np.asarray(result)[..., None]
        if np.any(target != marks):
            target[...] = marks
            self._changed(operand[0])
        self._note(record, operand[0], result)

    def _assign_some(self, record: int, operand: Operand, result: Any, positions: Integers) -> None:
        """Set the marks of some elements of an operand, at their positions in it; the others keep theirs."""
        if not np.any(result) and operand[0] not in self._marks:
            return
        flat = (operand[0], operand[1], by_element(operand[2]))
        target = view_of(flat, self._marks_of(operand[0], record))
        if np.any(target[positions] != result[:, None]):
            target[positions] = result[:, None]
            self._changed(operand[0])
        self._note(record, operand[0], result)

    def _clear(self, operand: Operand) -> None:
        """Remove the marks of an operand."""
        target = self._bytes(operand)
        if target is None:
            return
        self._bits.reset(operand)
        if target.any():
            target[...] = 0
            self._changed(operand[0])

    def _note(self, record: int, alloc: int, result: Any) -> None:
        if self._outputs[alloc]:
            for mark in np.unique(result).tolist():
                if mark:
                    self._stored.setdefault((alloc, mark), record)

    def _count(self, record: int, operands: Iterable[Operand], rows: Any = ...) -> None:
        """Count marks that reach registers, addresses or masks as having an effect; of all rows, or those of `rows`."""
        for operand in operands:
            marks = self._elements(operand)
            if marks is not None:
                for mark in np.unique(marks[rows]).tolist():
                    if mark:
                        self.reached.setdefault(len(self._reads) - mark, record)


def _records_by_allocation(accesses: Accesses, marked: Flags) -> tuple[Integers, Integers]:
    """Return the records that access each of the `marked` allocations, and the first of each allocation among them."""
    rows = np.flatnonzero(marked[accesses.alloc])
    rows = rows[np.argsort(accesses.alloc[rows], kind="stable")]
    alloc, record = accesses.alloc[rows], accesses.record[rows]
    new = np.ones(len(rows), bool)
    new[1:] = (alloc[1:] != alloc[:-1]) | (record[1:] != record[:-1])
    return record[new], np.searchsorted(alloc[new], np.arange(len(marked) + 1))


def _chosen(selected: Any, first: Any, second: Any) -> tuple[Any, Any]:
    """Return the marks of two sources without those of elements that a choice between them leaves out."""
    return (
        None if first is None else np.where(selected, first.reshape(-1), 0),
        None if second is None else np.where(selected, 0, second.reshape(-1)),
    )

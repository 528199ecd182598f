"""Propagation of the marks of uninitialised bytes by operations (`mlusim.verifier.uninitialised.marks`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.atomics import ATOMIC_NAMES, FETCHING
from mlusim.cores.instructions.selection import HEAD_BYTES
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.log import NONE, VECTOR
from mlusim.log_tables import Box
from mlusim.verifier.accesses.partial_results import BY_CHOICE, BY_SHAPE, LOOKUPS, by_element, written_box
from mlusim.verifier.accesses.row_geometry import rows_of_runs
from mlusim.verifier.accesses.table import BY_ROWS, COLLECT, FILTERS, SORTING
from mlusim.verifier.run import Run
from mlusim.verifier.uninitialised.mark_store import MarkStore
from mlusim.verifier.uninitialised.marked_bits import BYTE_BITS
from mlusim.verifier.uninitialised.marks import (
    Marks,
    Operand,
    compares_to_bits,
    elementwise,
    is_copy,
    marks_by_position,
    result_marks,
    view_of,
)

_BITWISE = frozenset({"band", "bor", "bxor", "bnot"})
# Above this size of a result, the passes over its marks take longer than the calls.
_FEW_BYTES = 4096
_OPERAND_COLUMNS = tuple((f"{side}_alloc", f"{side}_offset", f"{side}_box") for side in ("dst", "a", "b"))
_SPECIAL = frozenset({*BY_ROWS, *SORTING, *FILTERS, *ATOMIC_NAMES, *LOOKUPS, *BY_SHAPE, *BY_CHOICE, COLLECT})


class Propagation:
    """The operations of one run.

    Args:
        run: the run.
        store: the marks.

    Attributes:
        padding: records of the lookups whose indices beyond the table are all uninitialised.
    """

    def __init__(self, run: Run, store: MarkStore) -> None:
        self._log, self._columns = log, columns = run.log, run.columns
        self._store = store
        # Memory views return Python integers, one at a time, at a tenth of the cost of array elements.
        self._operands = tuple(columns[name].data for operand in _OPERAND_COLUMNS for name in operand)
        self._names = columns["op"].data
        self._pipes = columns["pipe"].data
        self._passes_marks_on = [_passes_marks_on(name) for name in log.ops]
        self._by_element = [
            passes_on and elementwise(name) and not is_copy(name, VECTOR) and name not in _BITWISE
            for name, passes_on in zip(log.ops, self._passes_marks_on, strict=True)
        ]
        self._runs: dict[int, tuple[int, int] | None] = {}
        self.padding: set[int] = set()

    def allocations(self, record: int) -> list[int]:
        """Return the allocations of an operation's operands; NONE for those that are absent."""
        return [
            *(column[record] for column in self._operands[::3]),
            *(alloc for alloc, _, _ in self._log.more_operands.get(record, ())),
        ]

    def short_run(self, record: int) -> tuple[int, int] | None:
        """Return the bytes of an operation's result and of its elements if `apply_short` can propagate its marks.

        The operation works by element on a few bytes whose marks are kept by byte. `apply` takes three times as long.
        """
        log, store = self._log, self._store
        if not self._by_element[self._names[record]] or record in log.more_operands:
            return None
        alloc, _, box, a, _, a_box, b, _, b_box = (column[record] for column in self._operands)
        if not store.is_by_byte(alloc) or alloc in store.bits or a in store.whole or b in store.whole:
            return None
        run = self._run(box)
        are_equal = all(
            not store.is_by_byte(source) or self._run(source_box) == run
            for source, source_box in ((a, a_box), (b, b_box))
        )
        return run if are_equal else None

    def apply_short(self, record: int, nbytes: int, itemsize: int) -> None:
        """Propagate the marks of an operation that has a `short_run`."""
        alloc, offset, _, a, a_offset, _, b, b_offset, _ = (column[record] for column in self._operands)
        sources = ((a, a_offset), (b, b_offset))
        marks = [self._store.of(source)[at : at + nbytes] for source, at in sources if self._store.is_by_byte(source)]
        self._store.assign_run(alloc, offset, nbytes, itemsize, marks)

    def _run(self, code: int) -> tuple[int, int] | None:
        """Return the bytes of a box and of its elements if it has few, and no gaps."""
        if code not in self._runs:
            box = self._log.boxes[code]
            nbytes = box.itemsize * int(np.prod(box.shape, dtype=np.int64))
            is_dense = len(box.shape) == 1 and box.strides[0] == box.itemsize
            self._runs[code] = (nbytes, box.itemsize) if is_dense and 0 < nbytes <= _FEW_BYTES else None
        return self._runs[code]

    def apply_uniform(self, record: int) -> bool | None:
        """Propagate the marks of an operation if each of its sources has one mark; None if not.

        Its result has the largest of them, whether the operation works by element or not. Returns whether the same call
        would change nothing afterwards: a result may overlap a source.
        """
        log, store = self._log, self._store
        if not self._passes_marks_on[self._names[record]] or record in log.more_operands or record in log.selected:
            return None
        alloc, offset, box, *sources = [column[record] for column in self._operands]
        mark = 0
        for source, start, shape in (sources[:3], sources[3:]):
            of_source = store.uniform_mark(source, start, shape)
            if of_source is None:
                return None
            mark = max(mark, of_source)
        if alloc == NONE:
            # The result goes to a register.
            store.take_effect(mark)
        elif store.by_operand(alloc) if mark else alloc in store.whole:
            store.set_operand(alloc, offset, box, mark)
        elif mark or store.is_marked(alloc):
            store.assign((alloc, offset, log.boxes[box]), mark)
            return alloc not in (sources[0], sources[3])
        return True

    def apply(self, record: int) -> None:
        """Propagate the marks of one operation."""
        log = self._log
        name = log.ops[self._names[record]]
        dst, sources, further = self._operands_of(record)
        if name in BY_ROWS:
            self._propagate_rows(record, name, dst, sources, further)
            return
        if name == COLLECT or name in FILTERS:
            # The mask decides how many elements are selected, a number that scalar code gets.
            self._store.count(sources[1:])
        elif name in SORTING:
            self._store.count(sources)
        if dst[0] == NONE:
            # The result goes to a register: a scalar load, a sum, a maximum, or a count returned by an instruction.
            self._store.count([*sources, *further])
            return
        if name in ATOMIC_NAMES:
            self._atomic(name, dst, sources, further)
        elif name not in FILTERS or not self._filter(record, dst, *sources):
            self._propagate_elements(record, name, dst, sources, further)

    def _propagate_elements(
        self, record: int, name: str, dst: Operand, sources: list[Operand], further: list[Operand]
    ) -> None:
        """Propagate the marks of an operation whose result depends on the elements of its sources."""
        log = self._log
        marks = [self._store.elements(operand) for operand in (sources if name in SORTING else [*sources, *further])]
        if compares_to_bits(name) and (marked := _marked(marks)):
            self._propagate_to_bits(dst, marked)
            return
        if name in LOOKUPS:
            self._look_up(record, sources, marks)
        elif record in log.selected:
            selected = log.selection(record, by_element(dst[2]).shape[0])
            if name in BY_CHOICE:
                marks[1:] = _selected_sources(selected, *marks[1:])
            elif not np.any(marks[1:]):
                self._store.assign_some(dst, *self._selected_marks(record, name, dst, marks, sources, selected))
                return
        if name in BY_SHAPE:
            dst = (dst[0], dst[1], written_box(name, dst[2], sources[0][2]))
        boxes = [operand[2] for operand in (*sources, *further)]
        for target in [dst, *(further if name in SORTING else ())]:
            self._assign(record, name, target, sources, boxes, marks)

    def _look_up(self, record: int, sources: list[Operand], marks: list[Any]) -> None:
        """Note the padding of a lookup, and keep the marks of only those of its indices that look up elements."""
        log = self._log
        beyond = log.addresses[record]["dst"] if record in log.addresses else None
        if beyond is not None and marks[0] is not None and marks[0].reshape(-1)[beyond].all():
            self.padding.add(record)
        if record in log.selected and marks[-1] is not None:
            looked_up = log.selection(record, by_element(sources[-1][2]).shape[0])
            marks[-1] = np.where(looked_up, marks[-1].reshape(-1), 0)

    def _assign(
        self, record: int, name: str, target: Operand, sources: list[Operand], boxes: list[Box], marks: list[Any]
    ) -> None:
        """Give one result of an operation the marks of the elements of its sources."""
        copies = is_copy(name, self._pipes[record])
        if _marked(marks):
            copied = self._store.bytes(sources[0]) if copies and len(sources) == 1 else None
            by_position = marks_by_position(name, target[2], marks, boxes, self._log.attributes.get(record))
            element_marks = result_marks(name, copied, target[2], marks) if by_position is None else by_position
            self._store.assign(target, element_marks)
        else:
            self._store.clear(target)
        if name in _BITWISE or copies:
            self._store.bits.move(target, sources)

    def _operands_of(self, record: int) -> tuple[Operand, list[Operand], list[Operand]]:
        """Return the result of an operation, its sources, and its operands beyond those of a record."""
        log, numbers = self._log, [column[record] for column in self._operands]
        dst, *sources = (
            (alloc, offset, log.boxes[code])
            for alloc, offset, code in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
        )
        further = [(alloc, offset, log.boxes[code]) for alloc, offset, code in log.more_operands.get(record, [])]
        return dst, [operand for operand in sources if operand[0] != NONE], further

    def _propagate_rows(
        self, record: int, name: str, dst: Operand, sources: list[Operand], further: list[Operand]
    ) -> None:
        """Propagate the marks of an operation on rows; row numbers and masks are read to compute addresses."""
        self._store.count([*sources[1:], *(mask for mask in further if not self._is_padding(name, sources, mask))])
        if dst[0] == NONE:
            # A gather or scatter that an offset stopped has no rows: it has read all of its offsets.
            self._store.count(sources[:1], self._log.addresses.get(record, {"src": ...})["src"])
        elif not sources:
            self._store_rows(record, dst)
        else:
            self._rows(record, dst, sources[0])

    def _selected_marks(
        self, record: int, name: str, dst: Operand, marks: list[Any], sources: list[Operand], selected: Any
    ) -> tuple[Any, Integers]:
        """Return marks for the selected elements of a result, and their positions in it."""
        positions = np.flatnonzero(selected)
        addresses = self._log.addresses.get(record, {}).get("src")
        if addresses is not None:
            all_marks = np.zeros(selected.size, np.int32)
            if marks[0] is not None:
                all_marks[HEAD_BYTES // dst[2].itemsize :][: len(addresses)] = marks[0].reshape(-1)[addresses]
            return all_marks[positions], positions
        box = Box((len(positions),), (dst[2].itemsize,), dst[2].itemsize)
        boxes = [operand[2] for operand in sources]
        found = marks_by_position(name, box, marks, boxes, self._log.attributes.get(record))
        if found is not None:
            return found, positions
        every = np.broadcast_to(np.asarray(result_marks(name, None, dst[2], marks)), dst[2].shape)
        return every.reshape(-1)[positions], positions

    def _propagate_to_bits(self, dst: Operand, marked: list[Marks]) -> None:
        """Propagate marks through a comparison to a bit mask: 8 elements to a byte."""
        groups = np.maximum.reduce([mark.reshape(-1) for mark in marked]).reshape(-1, BYTE_BITS)
        marks = self._store.of(dst[0])
        span = slice(dst[1], dst[1] + len(groups))
        marks[span] = groups.max(axis=1)
        self._store.bits.compare(dst, groups)
        self._store.changed(dst[0])
        self._store.note(dst[0], marks[span])

    def _is_padding(self, name: str, sources: list[Operand], mask: Operand) -> bool:
        """Return whether all marked bits of a bit mask lie beyond the last offset of a gather or scatter."""
        if name not in ("gather", "scatter") or len(sources) < 2:
            return False
        count = int(np.prod(sources[1][2].shape, dtype=np.int64))
        return self._store.bits.none_before(count, mask)

    def _atomic(self, name: str, dst: Operand, sources: Iterable[Operand], further: Iterable[Operand]) -> None:
        """Combine the marks of target and operands elementwise; the old value's marks go to the result, if fetched."""
        box = dst[2]
        size = int(np.prod(box.shape, dtype=np.int64))
        old_marks = self._store.elements(dst)
        operands = [operand for operand in map(self._store.elements, sources) if operand is not None]
        combined = operands if name.endswith("_exch") or old_marks is None else [old_marks, *operands]
        previous = np.zeros(size, np.int32) if old_marks is None else old_marks.reshape(-1).copy()
        result: Any = 0
        if combined:
            result = np.maximum.reduce([operand.reshape(-1) for operand in combined]).reshape(box.shape)
        self._store.assign(dst, result)
        for old in further if name in FETCHING else ():
            self._store.assign(old, previous.reshape(old[2].shape))

    def _rows(self, record: int, dst: Operand, src: Operand) -> None:
        addresses = self._log.addresses.get(record, {})
        if "unknown" in addresses:
            return
        values = self._store.elements(src)
        to_rows, from_rows = addresses.get("dst"), addresses.get("src")
        if from_rows is not None and "lengths" in addresses:
            from_rows = rows_of_runs(from_rows, addresses["lengths"])
        count = min((len(rows) for rows in (to_rows, from_rows) if rows is not None), default=NONE)
        box = dst[2]
        row_bytes = box.itemsize * int(np.prod(box.shape[1:], dtype=np.int64))
        if count == NONE:
            count = int(self._columns["bytes_requested"][record]) // max(row_bytes, 1)
        if values is None and not self._store.is_marked(dst[0]):
            return
        lines: Any = 0
        if values is not None:
            lines = values.reshape(len(values), -1)[slice(0, count) if from_rows is None else from_rows[:count]]
        marked = bool(np.any(lines))
        if not marked and not self._store.is_marked(dst[0]):
            return
        target = view_of(dst, self._store.of(dst[0]))
        chosen: Any = slice(0, count) if to_rows is None else to_rows[:count]
        value = lines.reshape(count, *box.shape[1:])[..., None] if marked else 0
        target[chosen] = value
        self._store.changed(dst[0])
        if marked:
            self._store.note(dst[0], lines)

    def _store_rows(self, record: int, dst: Operand) -> None:
        """Remove the marks of elements that are stored from registers."""
        marks = self._store.bytes(dst)
        rows = self._log.addresses[record]["dst"]
        if marks is not None and marks[rows].any():
            marks[rows] = 0
            self._store.changed(dst[0])

    def _filter(self, record: int, dst: Operand, src: Operand, mask: Operand) -> bool:
        """Propagate marks to where a filter moves their elements; false if its selection depends on marked bytes."""
        positions = self._log.addresses.get(record, {}).get("src")
        marked_mask = self._store.elements(mask)
        if positions is None or (marked_mask is not None and marked_mask.any()):
            return False
        values = self._store.elements(src)
        selected = np.zeros(len(positions), np.int32) if values is None else values.reshape(-1)[positions]
        self._store.assign_some(dst, selected, np.arange(len(positions)))
        return True


def _passes_marks_on(name: str) -> bool:
    """Return whether an operation gives its whole result the marks of its sources, and is no lookup or atomic."""
    instruction = INSTRUCTIONS.get(name)
    by_position = instruction is not None and instruction.marks is not None
    return not (by_position or name in _SPECIAL or compares_to_bits(name))


def _marked(marks: Iterable[Marks | None]) -> list[Marks]:
    """Return the marks of those operands that have any."""
    return [mark for mark in marks if mark is not None and mark.any()]


def _selected_sources(selected: Any, first: Any, second: Any) -> tuple[Any, Any]:
    """Return the marks of two sources without those of elements that a choice between them leaves out."""
    return (
        None if first is None else np.where(selected, first.reshape(-1), 0),
        None if second is None else np.where(selected, 0, second.reshape(-1)),
    )

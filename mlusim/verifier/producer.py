"""The producers of a value: the operations that wrote and computed it, and the elements that they read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.log import NONE, SCALAR, VECTOR
from mlusim.verifier.accesses.geometry import Geometry, element_starts, shared
from mlusim.verifier.accesses.table import BY_ROWS, FILLS
from mlusim.verifier.columns import joint, ops_among
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import SourceLine
from mlusim.verifier.uninitialised.marks import elementwise, is_copy

# Operations that made a wrong value which are looked up.
_MOST_MAKERS = 64
# And how many of one line: iterations of a loop, and a value that returns to it.
_MOST_OF_A_LINE = 4
_TO_REGISTER = frozenset(name for name, record in INSTRUCTIONS.items() if record.to_register or record.counts)
# Instructions of which a number, in place of a view or beside it, comes from a register.
_WITH_NUMBERS = frozenset(
    name for name, record in INSTRUCTIONS.items() if any(operand.number for operand in record.operands)
) | {"write_value", "fill"}
# Reads to registers before such a number is used, each of another line or buffer: one of them read it.
_MOST_TO_REGISTERS = 3


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a buffer: allocation, first byte and size."""

    alloc: int
    byte: int
    nbytes: int


def last_writer(run: Run, element: Element, end: int) -> int:
    """Return the last record before `end` that writes any byte of an element; NONE if there is none."""
    accesses, byte = run.accesses, element.byte
    candidates = (accesses.alloc == element.alloc) & accesses.write & (accesses.record < end)
    candidates &= (accesses.low < byte + element.nbytes) & (accesses.high > byte)
    geometry = Geometry(0, element.nbytes, ())
    for row in np.flatnonzero(candidates)[::-1].tolist():
        if len(shared(*accesses.of(row), geometry, byte)[0]):
            return int(accesses.record[row])
    return NONE


def sources_of(run: Run, record: int, byte: int) -> list[Element]:
    """Return the elements that a record computes a byte of its result from; none unless it copies or is elementwise."""
    elements = []
    for side in ("a", "b"):
        origin = _source_byte(run, record, side, byte)
        if origin is not None:
            itemsize = run.log.boxes[int(run.columns[f"{side}_box"][record])].itemsize
            elements.append(Element(int(run.columns[f"{side}_alloc"][record]), origin, itemsize))
    return elements


@dataclass(frozen=True, slots=True)
class Lineage:
    """What made an element of an output.

    Attributes:
        run: the run.
        records: the last record that stored it, and those that made what this one stored, a few of each line; the
            nearest first.
        are_all: whether no others did.
    """

    run: Run
    records: Sequence[int]
    are_all: bool

    @property
    def lines(self) -> set[SourceLine]:
        """The lines of its records."""
        return self.run.lines_at(self.records)

    @property
    def made_at(self) -> set[SourceLine]:
        """The lines of what made it before it was stored."""
        return self.run.lines_at(self.records[1:])

    @property
    def read_at(self) -> dict[str, SourceLine]:
        """By buffer, the line that last read it on the way."""
        columns, log = self.run.columns, self.run.log
        reads = [(record, int(columns[side][record])) for record in self.records for side in ("a_alloc", "b_alloc")]
        by_buffer: dict[str, SourceLine] = {}
        for record, alloc in reads:
            if alloc != NONE:
                by_buffer.setdefault(log.allocations[alloc].name, SourceLine(*log.lines[columns["line"][record]][:2]))
        return by_buffer

    def lacks(self, others: Sequence[Lineage]) -> set[SourceLine]:
        """Return the lines that made others and not this one, if none made this one alone.

        Only those of elements that the same operation stored, and that write to the buffers through which it came: they
        might have written it, too. A fill only prepares for others.
        """
        is_fill = ops_among(self.run.log, FILLS)[self.run.columns["op"]]
        if not self.records or not others or not all(other.records for other in others):
            return set()
        own_lines = self.lines.difference(*(other.lines for other in others))
        filling = [record for record in self.records if is_fill[record]]
        if own_lines and own_lines <= self.run.lines_at(filling):
            # What replaces the fill in the others should have replaced it here.
            filled = {self._written_buffer(record) for record in filling}
            replaced = [
                [writer for writer in other.records[1:] if self._written_buffer(writer) in filled] for other in others
            ]
            if replacing := set.intersection(*map(self.run.lines_at, replaced)) - own_lines:
                return replacing
        if own_lines and all(other.are_all for other in others):
            return set()
        buffers = {self._written_buffer(record) for record in self.records} - {""}
        lacks = []
        for other in (other for other in others if other.records[0] == self.records[0]):
            # If its own records are not all, it only lacks what made the other last.
            records = other.records if self.are_all else other.records[1:2]
            lacks.append(
                self.run.lines_at(
                    [writer for writer in records if self._written_buffer(writer) in buffers and not is_fill[writer]]
                )
            )
        return set.intersection(*lacks) - self.lines if lacks else set()

    def _written_buffer(self, record: int) -> str:
        """Return the name of the buffer that a record writes, which each task may have of its own; else ""."""
        alloc = int(self.run.columns["dst_alloc"][record])
        return "" if alloc == NONE else self.run.log.allocations[alloc].name


def lineage_of(run: Run, element: Element) -> Lineage:
    """Return what made an element.

    Of an instruction that is not elementwise, every operand counts with all of its bytes; of a scalar store and of an
    instruction with a number, what its task last read to registers.
    """
    store = last_writer(run, element, len(run.log))
    if store == NONE:
        return Lineage(run, [], are_all=True)
    records: dict[int, None] = {store: None}
    todo, of_line, skipped = [(store, element.byte)], Counter[int](), False
    while todo and len(records) < _MOST_MAKERS:
        record, at = todo.pop(0)
        for maker, its_byte in _makers(run, record, at):
            line = int(run.columns["line"][maker])
            if maker in records:
                continue
            if of_line[line] == _MOST_OF_A_LINE:
                skipped = True
                continue
            records[maker] = None
            of_line[line] += 1
            todo.append((maker, its_byte))
    return Lineage(run, list(records), are_all=not (todo or skipped))


def _makers(run: Run, record: int, first_byte: int) -> list[tuple[int, int]]:
    """Return the records that wrote what a record computes a byte from, each with a byte that it wrote there."""
    accesses = run.accesses
    elements = sources_of(run, record, first_byte)
    if not elements:
        elements = [
            Element(int(accesses.alloc[row]), int(accesses.low[row]), int(accesses.high[row] - accesses.low[row]))
            for row in np.flatnonzero((accesses.record == record) & ~accesses.write).tolist()
        ]
    writers = ((last_writer(run, element, record), element.byte) for element in elements)
    makers = [(writer, byte) for writer, byte in writers if writer != NONE]
    loaded = loaded_before(run, record) if _uses_a_number(run, record, elements, makers) else []
    return makers + [(load, 0) for load in loaded]


def _uses_a_number(run: Run, record: int, elements: Sequence[Element], makers: Sequence[tuple[int, int]]) -> bool:
    """Return whether a record uses a number of its task: it stores one, computes with one, or copies from an input.

    What a copy takes of an input may be at an address that the task has loaded.

    Args:
        run: the run.
        record: the record.
        elements: those that it computes from.
        makers: what wrote them.
    """
    pipe, name = int(run.columns["pipe"][record]), run.log.ops[int(run.columns["op"][record])]
    if pipe == SCALAR:
        return not elements
    if name in _WITH_NUMBERS:
        return bool(run.columns["b_alloc"][record] == NONE)
    return is_copy(name, pipe) and not makers


def loaded_before(run: Run, record: int) -> list[int]:
    """Return the records by which a task last read registers, of a few lines, before a record."""
    columns, log = run.columns, run.log
    loads = np.flatnonzero(
        (columns["task"][:record] == columns["task"][record]) & (columns["a_alloc"][:record] != NONE)
    )
    reads = loads[ops_among(log, _TO_REGISTER)[columns["op"][loads]] | (columns["pipe"][loads] == SCALAR)]
    sources = joint(columns["line"][reads[::-1]], columns["a_alloc"][reads[::-1]], len(log.allocations))
    _, last = np.unique(sources, return_index=True)
    return [int(read) for read in reads[::-1][np.sort(last)[:_MOST_TO_REGISTERS]]]


def _source_byte(run: Run, record: int, side: str, byte: int) -> int | None:
    """Return the first byte of the source element that a destination byte comes from; None if unknown."""
    log, columns = run.log, run.columns
    name, pipe = log.ops[int(columns["op"][record])], int(columns["pipe"][record])
    if columns[f"{side}_alloc"][record] == NONE or name in BY_ROWS or pipe == SCALAR:
        return None
    if pipe == VECTOR and not elementwise(name) and not is_copy(name, pipe):
        return None
    dst, src = (log.boxes[int(columns[f"{operand}_box"][record])] for operand in ("dst", side))
    starts = int(columns["dst_offset"][record]) + element_starts(dst)
    containing = np.flatnonzero((starts <= byte) & (byte < starts + dst.itemsize))
    if not len(containing):
        return None
    position = int(containing[0])
    if is_copy(name, pipe):
        # Copies preserve byte order; element sizes may differ between the two sides.
        position = (position * dst.itemsize + byte - int(starts[position])) // src.itemsize
    origins = int(columns[f"{side}_offset"][record]) + element_starts(src)
    return int(origins[position]) if position < len(origins) else None

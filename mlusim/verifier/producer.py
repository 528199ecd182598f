"""The producers of a value: the operations that wrote and computed it, and the elements that they read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.log import NONE, SCALAR, VECTOR
from mlusim.verifier.accesses.geometry import Geometry, element_starts, shared
from mlusim.verifier.accesses.table import BY_ROWS
from mlusim.verifier.columns import ops_among
from mlusim.verifier.run import Run
from mlusim.verifier.uninitialised.marks import elementwise, is_copy

# Operations that made a wrong value which are looked up.
_MOST_MAKERS = 64
# And how many of one line: iterations of a loop, and a value that returns to it.
_MOST_OF_A_LINE = 4
_TO_REGISTER = frozenset(name for name, record in INSTRUCTIONS.items() if record.to_register or record.counts)


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a buffer: allocation, first byte and size."""

    alloc: int
    byte: int
    nbytes: int


def last_writer(run: Run, element: Element, before: int) -> int:
    """Return the last record before `before` that writes any byte of an element; NONE if there is none."""
    accesses, byte = run.accesses, element.byte
    candidates = (accesses.alloc == element.alloc) & accesses.write & (accesses.record < before)
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


def came_through(run: Run, store: int, byte: int) -> list[int]:
    """Return the records that made what a record stores to a byte, a few of each line.

    Of an instruction that is not elementwise, every operand counts with all of its bytes; of a scalar store, what its
    task last read to a register.
    """
    made: dict[int, None] = {}
    todo, of_line = [(store, byte)], Counter[int]()
    while todo and len(made) < _MOST_MAKERS:
        record, at = todo.pop(0)
        for maker, its_byte in _makers(run, record, at):
            line = int(run.columns["line"][maker])
            if maker not in made and of_line[line] < _MOST_OF_A_LINE:
                made[maker] = None
                of_line[line] += 1
                todo.append((maker, its_byte))
    return list(made)


def _makers(run: Run, record: int, byte: int) -> list[tuple[int, int]]:
    """Return the records that wrote what a record computes a byte from, each with a byte that it wrote there."""
    accesses = run.accesses
    elements = sources_of(run, record, byte)
    if not elements:
        elements = [
            Element(int(accesses.alloc[row]), int(accesses.low[row]), int(accesses.high[row] - accesses.low[row]))
            for row in np.flatnonzero((accesses.record == record) & ~accesses.write).tolist()
        ]
    if elements:
        writers = ((last_writer(run, element, record), element.byte) for element in elements)
        return [(writer, at) for writer, at in writers if writer != NONE]
    loaded = _loaded_before(run, record)
    return [] if loaded == NONE else [(loaded, 0)]


def _loaded_before(run: Run, record: int) -> int:
    """Return the record by which a task last read a register before a scalar store of its; NONE if there is none."""
    columns, log = run.columns, run.log
    if columns["pipe"][record] != SCALAR:
        return NONE
    before = np.flatnonzero(
        (columns["task"][:record] == columns["task"][record]) & (columns["a_alloc"][:record] != NONE)
    )
    reads = ops_among(log, _TO_REGISTER)[columns["op"][before]] | (columns["pipe"][before] == SCALAR)
    return int(before[reads][-1]) if reads.any() else NONE


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

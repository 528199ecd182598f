"""The producers of a value: the operations that wrote and computed it, and the elements that they read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlusim.log import NONE, SCALAR, VECTOR
from mlusim.verifier.accesses.geometry import Geometry, element_starts, shared
from mlusim.verifier.accesses.table import BY_ROWS
from mlusim.verifier.run import Run
from mlusim.verifier.uninitialised.marks import elementwise, is_copy

# Operations that made a wrong value which are looked up.
_MOST_MAKERS = 64


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
    """Return the records that made what a record stores to a byte, as far as they are copies or elementwise."""
    made: dict[int, None] = {}
    todo = [(store, byte)]
    while todo and len(made) < _MOST_MAKERS:
        record, at = todo.pop()
        for source in sources_of(run, record, at):
            maker = last_writer(run, source, record)
            if maker != NONE and maker not in made:
                made[maker] = None
                todo.append((maker, source.byte))
    return list(made)


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

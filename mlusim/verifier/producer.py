"""The producer of a wrong value: the operation that computed the bytes of a store, and its operands."""

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
class Read:
    """An element read by the producer: allocation, first byte and size."""

    alloc: int
    byte: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Producer:
    """An operation, and the elements that one byte was computed from; empty if the operation is not elementwise."""

    record: int
    reads: tuple[Read, ...]


def last_writer(run: Run, alloc: int, byte: int, nbytes: int, before: int) -> int:
    """Return the last record before `before` that writes any of the bytes; NONE if there is none."""
    accesses = run.accesses
    candidates = (accesses.alloc == alloc) & accesses.write & (accesses.record < before)
    candidates &= (accesses.low < byte + nbytes) & (accesses.high > byte)
    element = Geometry(0, nbytes, ())
    for row in np.flatnonzero(candidates)[::-1].tolist():
        if len(shared(*accesses.of(row), element, byte)[0]):
            return int(accesses.record[row])
    return NONE


def producer_of(run: Run, store: int, byte: int, nbytes: int) -> Producer | None:
    """Find the operation that computed an element before `store` wrote it; None if it is the store itself or unknown.

    Args:
        run: the run.
        store: record of the copy that wrote the element.
        byte, nbytes: the element, in the allocation of the destination.
    """
    log, columns = run.log, run.columns
    source = _source_byte(run, store, "a", byte)
    if source is None:
        return None
    alloc = int(columns["a_alloc"][store])
    if log.allocations[alloc].memory not in ("nram", "sram"):
        return None
    producer = last_writer(run, alloc, source, nbytes, store)
    if producer == NONE:
        return None
    reads = []
    for side in ("a", "b"):
        if columns[f"{side}_alloc"][producer] != NONE:
            origin = _source_byte(run, producer, side, source)
            if origin is not None:
                itemsize = log.boxes[int(columns[f"{side}_box"][producer])].itemsize
                reads.append(Read(int(columns[f"{side}_alloc"][producer]), origin, itemsize))
    return Producer(producer, tuple(reads))


def came_through(run: Run, store: int, byte: int) -> list[int]:
    """Return the records that made what a record stores to a byte, as far as they are copies or elementwise."""
    log, columns = run.log, run.columns
    made: dict[int, None] = {}
    todo = [(store, byte)]
    while todo and len(made) < _MOST_MAKERS:
        record, at = todo.pop()
        for side in ("a", "b"):
            origin = _source_byte(run, record, side, at)
            if origin is None:
                continue
            itemsize = log.boxes[int(columns[f"{side}_box"][record])].itemsize
            maker = last_writer(run, int(columns[f"{side}_alloc"][record]), origin, itemsize, record)
            if maker != NONE and maker not in made:
                made[maker] = None
                todo.append((maker, origin))
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

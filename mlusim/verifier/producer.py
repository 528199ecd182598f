"""The producer of a wrong value: the operation that made the bytes of a store, and what it read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlusim.log import NONE, SCALAR, VECTOR, Log
from mlusim.verifier.accesses import BY_ROWS, Accesses
from mlusim.verifier.boxes import Geometry, Integers, element_starts, shared
from mlusim.verifier.flow import elementwise, is_copy


@dataclass(frozen=True, slots=True)
class Read:
    """An element that the producer read: allocation and first byte."""

    alloc: int
    byte: int


@dataclass(frozen=True, slots=True)
class Producer:
    """An operation, and the elements that it made one byte of; none where it does not work element by element."""

    record: int
    reads: tuple[Read, ...]


def last_writer(accesses: Accesses, alloc: int, byte: int, nbytes: int, before: int) -> int:
    """The last record before another one that writes one of some bytes; NONE where there is none."""
    near = (accesses.alloc == alloc) & accesses.write & (accesses.record < before)
    near &= (accesses.low < byte + nbytes) & (accesses.high > byte)
    element = Geometry(0, nbytes, ())
    for row in np.flatnonzero(near)[::-1].tolist():
        if len(shared(*accesses.of(row), element, byte)[0]):
            return int(accesses.record[row])
    return NONE


def producer_of(
    log: Log, columns: dict[str, Integers], accesses: Accesses, store: int, byte: int, nbytes: int
) -> Producer | None:
    """The operation that made an element which a store wrote; None where it is the store itself, or unknown.

    Args:
        log, columns, accesses: of the run.
        store: record of the copy that wrote the element.
        byte, nbytes: of the element, in the destination's allocation.
    """
    source = _source_byte(log, columns, store, "a", byte)
    if source is None:
        return None
    alloc = int(columns["a_alloc"][store])
    if log.allocations[alloc].memory not in ("nram", "sram"):
        return None
    made = last_writer(accesses, alloc, source, nbytes, store)
    if made == NONE:
        return None
    reads = []
    for side in ("a", "b"):
        if columns[f"{side}_alloc"][made] != NONE:
            first = _source_byte(log, columns, made, side, source)
            if first is not None:
                reads.append(Read(int(columns[f"{side}_alloc"][made]), first))
    return Producer(made, tuple(reads))


def _source_byte(log: Log, columns: dict[str, Integers], record: int, side: str, byte: int) -> int | None:
    """The first byte of the source element that a byte of the destination comes from."""
    name, pipe = log.ops[int(columns["op"][record])], int(columns["pipe"][record])
    if columns[f"{side}_alloc"][record] == NONE or name in BY_ROWS or pipe == SCALAR:
        return None
    if pipe == VECTOR and not elementwise(name) and not is_copy(name, pipe):
        return None
    dst, src = (log.boxes[int(columns[f"{one}_box"][record])] for one in ("dst", side))
    starts = int(columns["dst_offset"][record]) + element_starts(dst)
    hit = np.flatnonzero((starts <= byte) & (byte < starts + dst.itemsize))
    if not len(hit):
        return None
    position = int(hit[0])
    if is_copy(name, pipe):
        # Bytes in order: elements may have other sizes on the two sides.
        position = (position * dst.itemsize + byte - int(starts[position])) // src.itemsize
    origins = int(columns[f"{side}_offset"][record]) + element_starts(src)
    return int(origins[position]) if position < len(origins) else None

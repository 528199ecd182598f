"""Reads of uninitialised bytes.

In GDRAM as on chip, a byte is initialised once an earlier operation or the host has written it. The contents of a fresh
buffer count as uninitialised, whatever they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.cores.atomics import ATOMIC_NAMES
from mlusim.log import NONE, Log
from mlusim.verifier.accesses.cells import Cells
from mlusim.verifier.accesses.geometry import group_rows
from mlusim.verifier.accesses.table import Accesses, scratch_rows
from mlusim.verifier.order.happens_before import Order
from mlusim.verifier.run import Run

_NEVER = np.iinfo(np.int64).max
# Accesses compared per batch.
_BATCH_ROWS = 1 << 18
# Up to this many cells, the reads that come too early in an allocation are cached.
_FEW_CELLS = 1 << 16
# Byte ranges: starts and stops.
Ranges = tuple[Integers, Integers]


@dataclass(frozen=True, slots=True)
class UninitialisedRead:
    """A read of bytes that nothing has written, or a write that leaves bytes of its scratch undefined.

    Attributes:
        row: its row in the access table.
        record: its record in the log.
        alloc: index of the allocation.
        starts, stops: the uninitialised bytes, as ranges in the allocation.
        partly: whether it also reads bytes that are initialised.
    """

    row: int
    record: int
    alloc: int
    starts: Integers
    stops: Integers
    partly: bool


def reads_to_check(run: Run) -> Integers:
    """Return the rows of all accesses that decide whether reads are of initialised bytes; empty if all are."""
    rows, accesses = _candidates(run, _not_uploaded_ranges(run.log)), run.accesses
    return rows[_allocations_to_check(accesses.where(rows))[accesses.alloc[rows]]] if len(rows) else rows


def uninitialised_reads(run: Run, rows: Integers) -> list[UninitialisedRead]:
    """Return the reads of uninitialised bytes among `rows`: `reads_to_check`, or those of some allocations of them."""
    not_uploaded = _not_uploaded_ranges(run.log)
    reads = (
        _restrict_to(read, not_uploaded.get(read.alloc)) for read in _reads_before_writes(run.accesses, run.order, rows)
    )
    return [read for read in reads if len(read.starts)]


def undefined_scratch(run: Run) -> list[UninitialisedRead]:
    """Return the bytes that instructions leave undefined in their scratch, in buffers that are also read."""
    log, columns, accesses = run.log, run.columns, run.accesses
    is_read = np.zeros(len(log.allocations), bool)
    is_read[accesses.alloc[~accesses.write]] = True
    rows = np.flatnonzero(scratch_rows(log, columns, accesses) & is_read[accesses.alloc])
    return [
        _uninitialised_read(accesses, row, accesses.low[row : row + 1], accesses.high[row : row + 1], partly=False)
        for row in rows.tolist()
    ]


def _uninitialised_read(
    accesses: Accesses, row: int, starts: Integers, stops: Integers, *, partly: bool
) -> UninitialisedRead:
    return UninitialisedRead(row, int(accesses.record[row]), int(accesses.alloc[row]), starts, stops, partly)


def _not_uploaded_ranges(log: Log) -> dict[int, Ranges]:
    """By allocation that the host has written in part, return the bytes that it has not written: starts and stops."""
    not_uploaded = {}
    for identity, written_ranges in log.host.written_parts.items():
        first, last = np.array(sorted(written_ranges), np.int64).T
        starts = np.append(0, np.maximum.accumulate(last))
        stops = np.append(first, log.allocations[identity].nbytes)
        if (starts < stops).any():
            not_uploaded[identity] = starts[starts < stops], stops[starts < stops]
    return not_uploaded


def _restrict_to(read: UninitialisedRead, not_uploaded: Ranges | None) -> UninitialisedRead:
    """Return a read restricted to the bytes that the host has not written; None: it has written none."""
    if not_uploaded is None:
        return read
    ranges = read.starts, read.stops
    edges = np.unique(np.concatenate([*ranges, *not_uploaded]))
    begins = edges[:-1]
    covered = [
        np.searchsorted(a, begins, "right") > np.searchsorted(b, begins, "right") for a, b in (ranges, not_uploaded)
    ]
    remaining = covered[0] & covered[1]
    partly = read.partly or not np.array_equal(covered[0], remaining)
    return replace(read, starts=begins[remaining], stops=edges[1:][remaining], partly=partly)


def _candidates(run: Run, not_uploaded: dict[int, Ranges]) -> Integers:
    """Return accesses to allocations that are read but not initialised before the run; of equal accesses the first.

    A write to scratch initialises nothing.
    """
    log, columns, accesses = run.log, run.columns, run.accesses
    is_initialised = np.array([record.read_only for record in log.allocations], bool)
    is_initialised[[*log.host.writes, *accesses.unknown]] = True
    is_initialised[[identity for identity in not_uploaded if identity not in accesses.unknown]] = False
    rows = np.flatnonzero(~is_initialised[accesses.alloc] & ~scratch_rows(log, columns, accesses))
    if log.seen:
        rows = rows[accesses.write[rows] | ~np.isin(accesses.record[rows], np.array(sorted(log.seen), np.int64))]
    is_read = np.zeros(len(log.allocations), bool)
    is_read[accesses.alloc[rows[~accesses.write[rows]]]] = True
    rows = rows[is_read[accesses.alloc[rows]]]
    # Bytes stay initialised, so the first of equal accesses decides. In batches, to save memory on long logs.
    batches = [rows[begin : begin + _BATCH_ROWS] for begin in range(0, len(rows), _BATCH_ROWS)]
    first_rows = np.concatenate([rows[:0], *(_first_of_equal(run, batch) for batch in batches)])
    return np.sort(_first_of_equal(run, first_rows))


def _first_of_equal(run: Run, rows: Integers) -> Integers:
    """Return the first of all accesses to the same bytes by the same line (reads) or by any line (writes)."""
    accesses = run.accesses
    line = np.where(accesses.write[rows], NONE, run.columns["line"][accesses.record[rows]])
    keys = (column[rows] for column in (accesses.alloc, accesses.offset, accesses.geometry, accesses.write))
    return rows[group_rows(*keys, line)[0]]


def _allocations_to_check(accesses: Accesses) -> Flags:
    """By allocation, return False if its first write is one run that covers everything read, before any read."""
    count = int(accesses.alloc.max()) + 1
    alloc, write, record = accesses.alloc, accesses.write, accesses.record
    first_write, first_read = np.full(count, _NEVER), np.full(count, _NEVER)
    low, high = np.full(count, _NEVER), np.full(count, -_NEVER)
    np.minimum.at(first_write, alloc[write], record[write])
    np.minimum.at(first_read, alloc[~write], record[~write])
    np.minimum.at(low, alloc[~write], accesses.low[~write])
    np.maximum.at(high, alloc[~write], accesses.high[~write])
    single_run = accesses.single_run
    covers_reads = write & single_run[accesses.geometry] & (record == first_write[alloc]) & (record < first_read[alloc])
    covers_reads &= (accesses.low <= low[alloc]) & (accesses.high >= high[alloc])
    may_be_unwritten = np.ones(count, bool)
    may_be_unwritten[alloc[covers_reads]] = False
    return may_be_unwritten


def _reads_before_writes(accesses: Accesses, order: Order, rows: Integers) -> list[UninitialisedRead]:
    """Return reads of bytes that no operation has written, in the order of the log."""
    by_alloc = rows[np.argsort(accesses.alloc[rows], kind="stable")]
    sorted_accesses = accesses.where(by_alloc)
    alloc = sorted_accesses.alloc
    result = []
    cache: dict[bytes, list[_EarlyRead]] = {}
    bounds = [0, *(np.flatnonzero(alloc[1:] != alloc[:-1]) + 1).tolist(), len(alloc)]
    for begin, end in pairwise(bounds) if len(alloc) else []:
        unwritten_reads = _reads_before_writes_of(sorted_accesses.where(slice(begin, end)), order, cache)
        result += [
            _uninitialised_read(accesses, int(by_alloc[begin + row]), starts, stops, partly=partly)
            for row, starts, stops, partly in unwritten_reads
        ]
    return sorted(result, key=lambda read: read.row)


class _EarlyRead:
    """A read of cells of which some are not written before it in the log.

    Attributes:
        row: its row among the accesses of the allocation.
        later: numbers of the writes that come first in some of the cells, after the read.
    """

    __slots__ = ("_cells", "_first_writes", "_number", "_touched", "_unwritten", "later", "row")

    def __init__(self, row: int, number: int, cells: Cells, first_writes: Integers) -> None:
        self.row = row
        self._number = number
        self._cells = cells
        self._touched = np.arange(len(cells))[cells.of(row)]
        self._first_writes = first_writes[self._touched]
        self.later = np.unique(
            self._first_writes[(self._first_writes > number) & (self._first_writes != _NEVER)]
        ).tolist()
        self._unwritten: dict[tuple[int, ...], tuple[Integers, Integers, bool]] = {}

    def __len__(self) -> int:
        return len(self._touched)

    def unwritten(self, later_writes: tuple[int, ...]) -> tuple[Integers, Integers, bool]:
        """Return the uninitialised bytes of the read as ranges, and whether it also reads initialised ones.

        Uninitialised are bytes that nothing writes, or only the reader itself, or first one of `later_writes`: those of
        `later` that the read precedes.
        """
        unwritten = self._unwritten.get(later_writes)
        if unwritten is None:
            is_unwritten = np.isin(self._first_writes, (_NEVER, self._number, *later_writes))
            cells = np.zeros(len(self._cells), bool)
            cells[self._touched[is_unwritten]] = True
            unwritten = self._unwritten[later_writes] = (*self._cells.runs(cells), not is_unwritten.all())
        return unwritten


def _reads_before_writes_of(
    accesses: Accesses, order: Order, cache: dict[bytes, list[_EarlyRead]]
) -> list[tuple[int, Integers, Integers, bool]]:
    """Return the reads of uninitialised bytes in one allocation.

    Tasks often do the same in allocations of their own, so `cache` keeps what depends on the accesses alone.
    """
    starts_record = np.ones(len(accesses), bool)
    np.not_equal(accesses.record[1:], accesses.record[:-1], out=starts_record[1:])
    number = np.cumsum(starts_record) - 1
    key = b"".join(column.tobytes() for column in (accesses.offset, accesses.geometry, accesses.write, number))
    early_reads = cache.get(key)
    if early_reads is None:
        cells = Cells(accesses, int(accesses.high.max()))
        write = cells.first_of(number, rows=accesses.write)
        rows = np.flatnonzero(~accesses.write & (cells.max_value(write, ~accesses.write) >= number))
        early_reads = [_EarlyRead(row, int(number[row]), cells, write) for row in rows.tolist()]
        if sum(map(len, early_reads)) <= _FEW_CELLS:
            cache[key] = early_reads
    position = order.position[accesses.record[starts_record]]
    result = []
    for read in early_reads:
        # If nothing orders the write and the read, it is a race and reported as one: the run's order is accidental.
        read_position = int(position[number[read.row]])
        starts, stops, partly = read.unwritten(
            tuple(write for write in read.later if _precedes(order, read_position, int(position[write])))
        )
        if len(starts):
            result.append((read.row, starts, stops, partly))
    return result


def _precedes(order: Order, read: int, write: int) -> bool:
    """Return whether a read precedes a write: always, or in this run, if they exclude each other and so do not race."""
    if order.before(read, write):
        return True
    names = order.log.ops
    if names[int(order.op[read])] in ATOMIC_NAMES and names[int(order.op[write])] in ATOMIC_NAMES:
        return True
    return "lock" in names and bool(order.locks_of(read, write))

"""Reads of uninitialised bytes.

In GDRAM as on chip, a byte is initialised once an earlier operation or the host has written it. The contents of a fresh
buffer count as uninitialised, whatever they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.cores.sets_and_atomics import ATOMIC_NAMES
from mlusim.log import NONE, Log
from mlusim.verifier.accesses.cells import Cells
from mlusim.verifier.accesses.geometry import group_rows
from mlusim.verifier.accesses.table import Accesses, scratch_rows
from mlusim.verifier.order.happens_before import Order
from mlusim.verifier.run import Run

_NEVER = np.iinfo(np.int64).max
# Accesses compared per batch.
_BATCH_ROWS = 1 << 18
# Cells read too early in an allocation for which this is cached.
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


def doubtful_reads(run: Run) -> Integers:
    """Return the rows of all accesses that decide whether reads are of initialised bytes; empty if all are."""
    rows, accesses = _candidates(run, _left_by_the_host(run.log)), run.accesses
    return rows[_doubtful(accesses.where(rows))[accesses.alloc[rows]]] if len(rows) else rows


def uninitialised_reads(run: Run, rows: Integers) -> list[UninitialisedRead]:
    """Return the reads of uninitialised bytes among `rows`: `doubtful_reads`, or those of some allocations of them."""
    left = _left_by_the_host(run.log)
    reads = (_beyond_the_host(read, left.get(read.alloc)) for read in _too_early(run.accesses, run.order, rows))
    return [read for read in reads if len(read.starts)]


def undefined_scratch(run: Run) -> list[UninitialisedRead]:
    """Return the bytes that instructions leave undefined in their scratch, in buffers that are also read."""
    log, columns, accesses = run.log, run.columns, run.accesses
    read = np.zeros(len(log.allocations), bool)
    read[accesses.alloc[~accesses.write]] = True
    rows = np.flatnonzero(scratch_rows(log, columns, accesses) & read[accesses.alloc])
    return [
        _read(accesses, row, accesses.low[row : row + 1], accesses.high[row : row + 1], partly=False)
        for row in rows.tolist()
    ]


def _read(accesses: Accesses, row: int, starts: Integers, stops: Integers, *, partly: bool) -> UninitialisedRead:
    return UninitialisedRead(row, int(accesses.record[row]), int(accesses.alloc[row]), starts, stops, partly)


def _left_by_the_host(log: Log) -> dict[int, Ranges]:
    """By allocation that the host has written in part, return the bytes that it has not written: starts and stops."""
    left = {}
    for identity, parts in log.host.written_parts.items():
        first, end = np.array(sorted(parts), np.int64).T
        starts = np.append(0, np.maximum.accumulate(end))
        stops = np.append(first, log.allocations[identity].nbytes)
        if (starts < stops).any():
            left[identity] = starts[starts < stops], stops[starts < stops]
    return left


def _beyond_the_host(read: UninitialisedRead, left: Ranges | None) -> UninitialisedRead:
    """Return a read without the bytes that the host has written: all but `left`."""
    if left is None:
        return read
    ranges = read.starts, read.stops
    edges = np.unique(np.concatenate([*ranges, *left]))
    at = edges[:-1]
    within = [np.searchsorted(a, at, "right") > np.searchsorted(b, at, "right") for a, b in (ranges, left)]
    both = within[0] & within[1]
    partly = read.partly or not np.array_equal(within[0], both)
    return replace(read, starts=at[both], stops=edges[1:][both], partly=partly)


def _candidates(run: Run, left: dict[int, Ranges]) -> Integers:
    """Return accesses to allocations that are read but not initialised before the run; of equal accesses the first.

    A write to scratch initialises nothing.
    """
    log, columns, accesses = run.log, run.columns, run.accesses
    known = np.array([record.read_only for record in log.allocations], bool)
    known[[*log.host.writes, *accesses.unknown]] = True
    known[[identity for identity in left if identity not in accesses.unknown]] = False
    rows = np.flatnonzero(~known[accesses.alloc] & ~scratch_rows(log, columns, accesses))
    if log.seen:
        rows = rows[accesses.write[rows] | ~np.isin(accesses.record[rows], np.array(sorted(log.seen), np.int64))]
    read = np.zeros(len(log.allocations), bool)
    read[accesses.alloc[rows[~accesses.write[rows]]]] = True
    rows = rows[read[accesses.alloc[rows]]]
    # Bytes stay initialised, so the first of equal accesses decides. In batches, to save memory on long logs.
    parts = [rows[begin : begin + _BATCH_ROWS] for begin in range(0, len(rows), _BATCH_ROWS)]
    first = np.concatenate([rows[:0], *(_first_of_equal(run, part) for part in parts)])
    return np.sort(_first_of_equal(run, first))


def _first_of_equal(run: Run, rows: Integers) -> Integers:
    """Return the first of all accesses to the same bytes by the same line (reads) or by any line (writes)."""
    accesses = run.accesses
    line = np.where(accesses.write[rows], NONE, run.columns["line"][accesses.record[rows]])
    keys = (column[rows] for column in (accesses.alloc, accesses.offset, accesses.geometry, accesses.write))
    return rows[group_rows(*keys, line)[0]]


def _doubtful(accesses: Accesses) -> Flags:
    """By allocation, return False if its first write is one run that covers everything read, before any read."""
    count = int(accesses.alloc.max()) + 1
    alloc, write, record = accesses.alloc, accesses.write, accesses.record
    first_write, first_read = np.full(count, _NEVER), np.full(count, _NEVER)
    low, high = np.full(count, _NEVER), np.full(count, -_NEVER)
    np.minimum.at(first_write, alloc[write], record[write])
    np.minimum.at(first_read, alloc[~write], record[~write])
    np.minimum.at(low, alloc[~write], accesses.low[~write])
    np.maximum.at(high, alloc[~write], accesses.high[~write])
    whole = accesses.single_run
    fills = write & whole[accesses.geometry] & (record == first_write[alloc]) & (record < first_read[alloc])
    fills &= (accesses.low <= low[alloc]) & (accesses.high >= high[alloc])
    doubtful = np.ones(count, bool)
    doubtful[alloc[fills]] = False
    return doubtful


def _too_early(accesses: Accesses, order: Order, rows: Integers) -> list[UninitialisedRead]:
    """Return reads of bytes that no operation has written, in the order of the log."""
    by_alloc = rows[np.argsort(accesses.alloc[rows], kind="stable")]
    sorted_accesses = accesses.where(by_alloc)
    alloc = sorted_accesses.alloc
    result = []
    late_reads: dict[bytes, list[_Late]] = {}
    bounds = [0, *(np.flatnonzero(alloc[1:] != alloc[:-1]) + 1).tolist(), len(alloc)]
    for begin, end in pairwise(bounds) if len(alloc) else []:
        early = _of_allocation(sorted_accesses.where(slice(begin, end)), order, late_reads)
        result += [
            _read(accesses, int(by_alloc[begin + row]), starts, stops, partly=partly)
            for row, starts, stops, partly in early
        ]
    return sorted(result, key=lambda read: read.row)


class _Late:
    """A read of cells of which some are not written before it in the log.

    Attributes:
        row: its row among the accesses of the allocation.
        later: numbers of the writes that come first in some of the cells, after the read.
    """

    __slots__ = ("_cells", "_first", "_now", "_touched", "_unwritten", "later", "row")

    def __init__(self, row: int, now: int, cells: Cells, first: Integers) -> None:
        self.row = row
        self._now = now
        self._cells = cells
        self._touched = np.arange(len(cells))[cells.of(row)]
        self._first = first[self._touched]
        self.later = np.unique(self._first[(self._first > now) & (self._first != _NEVER)]).tolist()
        self._unwritten: dict[tuple[int, ...], tuple[Integers, Integers, bool]] = {}

    def __len__(self) -> int:
        return len(self._touched)

    def unwritten(self, late: tuple[int, ...]) -> tuple[Integers, Integers, bool]:
        """Return the byte ranges that are uninitialised, and whether the read has others.

        These are never written, or by the reader itself, or by those of `later` that the reader precedes: `late`.
        """
        known = self._unwritten.get(late)
        if known is None:
            bad = np.isin(self._first, (_NEVER, self._now, *late))
            chosen = np.zeros(len(self._cells), bool)
            chosen[self._touched[bad]] = True
            known = self._unwritten[late] = (*self._cells.runs(chosen), not bad.all())
        return known


def _of_allocation(
    accesses: Accesses, order: Order, late_reads: dict[bytes, list[_Late]]
) -> list[tuple[int, Integers, Integers, bool]]:
    """Return the reads of uninitialised bytes in one allocation.

    Tasks often do the same in allocations of their own, so `late_reads` caches what depends on the accesses alone.
    """
    new = np.ones(len(accesses), bool)
    np.not_equal(accesses.record[1:], accesses.record[:-1], out=new[1:])
    number = np.cumsum(new) - 1
    key = b"".join(column.tobytes() for column in (accesses.offset, accesses.geometry, accesses.write, number))
    late = late_reads.get(key)
    if late is None:
        cells = Cells(accesses, int(accesses.high.max()))
        first = cells.first_of(number, among=accesses.write)
        rows = np.flatnonzero(~accesses.write & (cells.most(first, ~accesses.write) >= number))
        late = [_Late(row, int(number[row]), cells, first) for row in rows.tolist()]
        if sum(map(len, late)) <= _FEW_CELLS:
            late_reads[key] = late
    position = order.position[accesses.record[new]]
    result = []
    for read in late:
        # If nothing orders the write and the read, it is a race and reported as one: the run's order is accidental.
        now = int(position[number[read.row]])
        starts, stops, partly = read.unwritten(
            tuple(first for first in read.later if _comes_first(order, now, int(position[first])))
        )
        if len(starts):
            result.append((read.row, starts, stops, partly))
    return result


def _comes_first(order: Order, read: int, write: int) -> bool:
    """Return whether a read precedes a write: always, or in this run, if they exclude each other and so do not race."""
    if order.before(read, write):
        return True
    names = order.log.ops
    if names[int(order.op[read])] in ATOMIC_NAMES and names[int(order.op[write])] in ATOMIC_NAMES:
        return True
    return "lock" in names and bool(order.locks_of(read, write))

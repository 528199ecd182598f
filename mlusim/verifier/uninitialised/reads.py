"""Reads of uninitialised bytes.

In GDRAM as on chip, a byte is initialised once an earlier operation or the host has written it. The contents of a fresh
buffer count as uninitialised, whatever they are.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.cores.sets_and_atomics import ATOMIC_NAMES
from mlusim.log import NONE, Log
from mlusim.log_tables import AllocationRecord
from mlusim.verifier.accesses.cells import Cells
from mlusim.verifier.accesses.coordinates import describe
from mlusim.verifier.accesses.geometry import group_rows
from mlusim.verifier.accesses.table import Accesses, scratch_rows
from mlusim.verifier.findings import Finding, Site, site_of
from mlusim.verifier.order.happens_before import Order
from mlusim.verifier.order.lanes import LANES
from mlusim.verifier.uninitialised.allocation_flow import AllocationFlow
from mlusim.verifier.uninitialised.equal_tasks import reads_to_follow
from mlusim.verifier.uninitialised.flow import Flow, Unwritten
from mlusim.verifier.uninitialised.nearby import write_beside
from mlusim.verifier.uninitialised.unselected import Unselected

_NEVER = np.iinfo(np.int64).max
# Accesses compared per batch.
_BATCH_ROWS = 1 << 18
# Byte ranges: starts and stops. A read of uninitialised bytes: row, their ranges, whether others were initialised.
Ranges = tuple[Integers, Integers]
Early = tuple[int, Integers, Integers, bool]
# Cells read too early in an allocation for which this is cached.
_FEW_CELLS = 1 << 16


def find_uninitialised(
    log: Log, columns: dict[str, Integers], accesses: Accesses, order: Order, padding: set[int] | None = None
) -> list[Finding]:
    """Find uninitialised bytes that flow into an output, a register or an address, one finding per reading line.

    Reads without effect are not reported (`mlusim.verifier.uninitialised.flow`). `padding` receives the records of the
    lookups whose indices beyond the table are all uninitialised.
    """
    left = _left_by_the_host(log)
    used = _used_scratch(log, columns, accesses)
    rows = _candidates(log, columns, accesses, left)
    rows = rows[_doubtful(accesses.where(rows))[accesses.alloc[rows]]] if len(rows) else rows
    if not len(rows) and not used:
        return []
    flow = AllocationFlow(log, columns)
    early_reads = _too_early(accesses, order, rows[flow.leads_somewhere()[accesses.alloc[rows]]])
    reads = used + [
        read for early in early_reads if len((read := _where_left(early, left.get(int(accesses.alloc[early[0]]))))[1])
    ]
    if not reads:
        return []
    unwritten = [
        Unwritten(int(accesses.record[row]), int(accesses.alloc[row]), starts, stops) for row, starts, stops, _ in reads
    ]
    followed = reads_to_follow(log, columns, accesses, flow, unwritten)
    marks = Flow(log, columns, accesses, flow, [unwritten[number] for number in followed])
    reached = {followed[number]: record for number, record in marks.follow().items()}
    if padding is not None:
        padding |= marks.padding
    unselected = Unselected(log, columns, accesses)
    findings: dict[tuple[Any, ...], tuple[Finding, int, Ranges]] = {}
    for number, (row, starts, stops, ever) in enumerate(reads):
        if number not in reached:
            continue
        record = int(accesses.record[row])
        allocation = log.allocations[int(accesses.alloc[row])]
        stores_itself = reached[number] in (NONE, record)
        is_hint = stores_itself and unselected.stored(unwritten[number])
        key_of = (int(columns["line"][record]), allocation.name, allocation.memory, is_hint)
        if key_of in findings:
            finding, times, ranges = findings[key_of]
            findings[key_of] = (finding, times + 1, ranges)
            continue
        ends = [record] if stores_itself else [record, reached[number]]
        roles = ("leaves" if accesses.write[row] else "reads", "passes")
        sites = tuple(
            site_of(log, end, role, LANES[int(order.lane[order.position[end]])])
            for end, role in zip(ends, roles, strict=False)
        )
        region = f"{describe(allocation, starts, stops)} in {allocation.memory.upper()}"
        if is_hint:
            words = _unselected(allocation.name, sites)
        elif accesses.write[row]:
            words = _undefined(allocation.name, sites)
        else:
            later = _later_launch(log, order, accesses, row) if allocation.memory == "gdram" else ""
            beside = write_beside(log, columns, accesses, row)
            words = _uninitialised(allocation, sites, partly=ever, later=later, beside=beside)
        finding = replace(
            words,
            region=region,
            nbytes=int((stops - starts).sum()),
            sites=sites,
            fields={"buffer": allocation.name, "memory": allocation.memory},
        )
        findings[key_of] = finding, 1, (starts, stops)
    return _fold_readers(log, [(replace(finding, times=times), ranges) for finding, times, ranges in findings.values()])


def _fold_readers(log: Log, findings: list[tuple[Finding, Ranges]]) -> list[Finding]:
    """Return one finding for all lines of a kernel that read uninitialised bytes of a buffer: it lacks a write.

    In GDRAM, where tasks share a tensor, only for lines that have bytes in common.
    """
    groups: list[tuple[tuple[str, ...], list[Ranges], list[Finding]]] = []
    for finding, ranges in findings:
        buffer = _buffer_of(log, finding)
        for name, members, group in groups:
            if name == buffer and ("gdram" not in name or any(_overlap(ranges, member) for member in members)):
                members.append(ranges)
                group.append(finding)
                break
        else:
            groups.append((buffer, [ranges], [finding]))
    return [replace(main, folded=tuple(others)) if others else main for _, _, (main, *others) in groups]


def _buffer_of(log: Log, finding: Finding) -> tuple[str, ...]:
    """Return what the findings of one buffer have in common: kind and role, its memory and name, and the kernel."""
    site = finding.sites[0]
    launch = log.launches[log.tasks[log.records.values(site.record)["task"]].launch]
    return finding.kind, site.role, finding.fields["memory"], finding.fields["buffer"], launch.kernel


def _overlap(one: Ranges, other: Ranges) -> bool:
    """Return whether two sets of byte ranges, each in ascending order, have bytes in common."""
    first = np.searchsorted(other[1], one[0], side="right")
    inside = first < len(other[0])
    return bool((other[0][first[inside]] < one[1][inside]).any())


def _later_launch(log: Log, order: Order, accesses: Accesses, read: int) -> str:
    """Return the kernel of the first later launch that writes any of the bytes of a read; empty if there is none."""
    launch = order.launch[order.task_of[accesses.record]]
    writes = (accesses.alloc == accesses.alloc[read]) & accesses.write & (launch > launch[read])
    writes &= (accesses.low < accesses.high[read]) & (accesses.high > accesses.low[read])
    return log.launches[int(launch[writes].min())].kernel if writes.any() else ""


def _uninitialised(
    allocation: AllocationRecord, sites: tuple[Site, ...], *, partly: bool, later: str, beside: str
) -> Finding:
    """Return the words of a finding: a read of bytes that nothing has written.

    `later`: the kernel of a later launch that writes them. `beside`: the line that writes other bytes of the buffer.
    """
    buffer = allocation.name
    remedy = f"write these bytes first ({_writers(sites[0])}), or read only bytes that were written"
    if beside:
        remedy += f"\nor correct the part of {buffer} at {beside}, which writes other bytes of it"
    if later:
        remedy = f"launch {later}, which writes these bytes later, before this kernel\nor {remedy}"
    # Memory without a parameter's name is not an argument, such as what a host program allocates.
    if allocation.memory == "gdram" and sites[0].is_compiled and not buffer.isidentifier():
        remedy += "\nor, if it is an input, copy it there on the host before the launch: cnrtMemcpy, cnrtMemset"
    if allocation.memory == "gdram" and buffer.isidentifier() and not (partly or allocation.workspace):
        remedy += (
            f"\nor, if {buffer} has values before the run, pass them: an array, or InOut(array); on the command line "
            f"--arg {buffer}=FILE.npy or random:DTYPE:SHAPE"
        )
    return Finding(
        kind="uninitialised",
        title=f"{sites[0].operation} reads {buffer}, part of which is uninitialised"
        if partly
        else f"{sites[0].operation} reads {buffer} before anything is written there",
        rule="fresh memory holds its previous contents, not zeros" + _takes_effect(sites),
        remedy=remedy,
    )


def _undefined(buffer: str, sites: tuple[Site, ...]) -> Finding:
    """As `_uninitialised`, for bytes that an instruction has used as scratch."""
    return Finding(
        kind="uninitialised",
        title=f"{buffer} is used after it was scratch of {sites[0].operation}, which leaves it undefined",
        rule="an instruction leaves its scratch undefined" + _takes_effect(sites),
        remedy=f"pass another buffer as scratch, or write {buffer} again before its next use",
    )


def _unselected(buffer: str, sites: tuple[Site, ...]) -> Finding:
    """As `_uninitialised`, for elements beyond those that a filter has selected, stored with them: a hint."""
    return Finding(
        kind="unselected",
        title=f"{sites[0].operation} stores elements of {buffer} beyond those that a filter selected",
        rule="a filter writes only the selected elements; the others keep their previous values. A reader "
        "that takes their number from another output can skip them",
        remedy="store as many elements as the filter returns, or fill the buffer before it",
    )


def _takes_effect(sites: tuple[Site, ...]) -> str:
    return "" if len(sites) == 1 else f"; at {sites[1].location} these bytes take effect"


def _writers(site: Site) -> str:
    return "__memcpy, __bang_write_value" if site.is_compiled else "memcpy, fill, write_zero"


def _left_by_the_host(log: Log) -> dict[int, Ranges]:
    """By allocation that the host has written in part, return the bytes that it has not written: starts and stops."""
    left = {}
    for identity, parts in log.host_parts.items():
        first, end = np.array(sorted(parts), np.int64).T
        starts = np.append(0, np.maximum.accumulate(end))
        stops = np.append(first, log.allocations[identity].nbytes)
        if (starts < stops).any():
            left[identity] = starts[starts < stops], stops[starts < stops]
    return left


def _where_left(read: Early, left: Ranges | None) -> Early:
    """Return a read of uninitialised bytes without those that the host has written."""
    if left is None:
        return read
    row, starts, stops, partly = read
    edges = np.unique(np.concatenate([starts, stops, *left]))
    at = edges[:-1]
    within = [np.searchsorted(a, at, "right") > np.searchsorted(b, at, "right") for a, b in ((starts, stops), left)]
    both = within[0] & within[1]
    return row, at[both], edges[1:][both], partly or not np.array_equal(within[0], both)


def _used_scratch(log: Log, columns: dict[str, Integers], accesses: Accesses) -> list[Early]:
    """Return the bytes that instructions leave undefined in their scratch, in buffers that are also read."""
    read = np.zeros(len(log.allocations), bool)
    read[accesses.alloc[~accesses.write]] = True
    rows = np.flatnonzero(scratch_rows(log, columns, accesses) & read[accesses.alloc])
    return [(row, accesses.low[row : row + 1], accesses.high[row : row + 1], False) for row in rows.tolist()]


def _candidates(log: Log, columns: dict[str, Integers], accesses: Accesses, left: dict[int, Ranges]) -> Integers:
    """Return accesses to allocations that are read but not initialised before the run; of equal accesses the first.

    A write to scratch initialises nothing.
    """
    known = np.array([record.read_only for record in log.allocations], bool)
    known[[*log.host_writes, *accesses.unknown]] = True
    known[[identity for identity in left if identity not in accesses.unknown]] = False
    rows = np.flatnonzero(~known[accesses.alloc] & ~scratch_rows(log, columns, accesses))
    if log.seen:
        rows = rows[accesses.write[rows] | ~np.isin(accesses.record[rows], np.array(sorted(log.seen), np.int64))]
    read = np.zeros(len(log.allocations), bool)
    read[accesses.alloc[rows[~accesses.write[rows]]]] = True
    rows = rows[read[accesses.alloc[rows]]]
    # Bytes stay initialised, so the first of equal accesses decides. In batches, to save memory on long logs.
    parts = [rows[begin : begin + _BATCH_ROWS] for begin in range(0, len(rows), _BATCH_ROWS)]
    first = np.concatenate([rows[:0], *(_first_of_equal(columns, accesses, part) for part in parts)])
    return np.sort(_first_of_equal(columns, accesses, first))


def _first_of_equal(columns: dict[str, Integers], accesses: Accesses, rows: Integers) -> Integers:
    """Return the first of all accesses to the same bytes by the same line (reads) or by any line (writes)."""
    line = np.where(accesses.write[rows], NONE, columns["line"][accesses.record[rows]])
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


def _too_early(accesses: Accesses, order: Order, rows: Integers) -> list[Early]:
    """Return reads of uninitialised bytes."""
    by_alloc = rows[np.argsort(accesses.alloc[rows], kind="stable")]
    sorted_accesses = accesses.where(by_alloc)
    alloc = sorted_accesses.alloc
    result = []
    late_reads: dict[bytes, list[_Late]] = {}
    bounds = [0, *(np.flatnonzero(alloc[1:] != alloc[:-1]) + 1).tolist(), len(alloc)]
    for begin, end in pairwise(bounds) if len(alloc) else []:
        early = _of_allocation(sorted_accesses.where(slice(begin, end)), order, late_reads)
        result += [(int(by_alloc[begin + row]), starts, stops, partly) for row, starts, stops, partly in early]
    return sorted(result, key=lambda early: early[0])


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
    return "lock" in names and bool(order.locks_held[read] & order.locks_held[write])

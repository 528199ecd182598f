"""Hints: redundant syncs, copies that overlap themselves, and copies that outlive their task."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.log import SYNC
from mlusim.verifier.accesses.geometry import geometry_of, overlap
from mlusim.verifier.columns import ops_among
from mlusim.verifier.findings import Finding, site_of
from mlusim.verifier.order.happens_before import Order
from mlusim.verifier.races.conflicts import between_tasks, within_tasks
from mlusim.verifier.races.lane_syncs import sync_after
from mlusim.verifier.races.releases import TRANSFERS, in_flight
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import source_file

# The purpose of a sync usually shows in the first operations of a log, so these are checked first.
_FIRST_OPERATIONS = 2000


def find_overlapping_copies(run: Run) -> list[Finding]:
    """Find copies within an allocation that read bytes which they write elsewhere, one finding per source line.

    Copies that no order of bytes makes correct are rejected earlier (`mlusim.memory.copy_limits.check_apart`); the rest
    rely on ascending order.
    """
    log, columns = run.log, run.columns
    copies = ops_among(log, ("memcpy", "move"))
    within_buffer = (columns["dst_alloc"] == columns["a_alloc"]) & copies[columns["op"]]
    within_buffer &= (columns["dst_offset"] != columns["a_offset"]) | (columns["dst_box"] != columns["a_box"])
    records = np.flatnonzero(within_buffer)
    names = ("line", "dst_offset", "dst_box", "a_offset", "a_box")
    kinds, first, times_by_kind = np.unique(
        np.stack([columns[name][records] for name in names]), axis=1, return_index=True, return_counts=True
    )
    by_line: dict[int, tuple[int, int]] = {}
    for (line, dst_offset, dst_box, src_offset, a_box), record, times in zip(
        kinds.T.tolist(), records[first].tolist(), times_by_kind.tolist(), strict=True
    ):
        dst_bytes, src_bytes = geometry_of(log.boxes[dst_box]), geometry_of(log.boxes[a_box])
        if dst_bytes is not None and src_bytes is not None and overlap(dst_bytes, dst_offset, src_bytes, src_offset):
            earliest, count = by_line.get(line, (record, 0))
            by_line[line] = min(earliest, record), count + times
    return [
        Finding(
            kind="overlapping-copy",
            title=f"{site.operation} overlaps itself: it reads bytes of its buffer that it also writes",
            sites=(site,),
            rule="no public document defines the order in which a copy moves its bytes; this one needs ascending order",
            remedies=("copy through a second buffer, so that the result does not depend on the order",),
            times=times,
        )
        for record, times in by_line.values()
        for site in (site_of(log, record, "copies"),)
    ]


def _unawaited(order: Order) -> Integers:
    """Return the records of copies that nothing in their task waits for."""
    return np.sort(order.record[np.isin(order.lane, TRANSFERS) & ~order.awaited])


def find_unawaited(run: Run) -> list[Finding]:
    """Find copies that their task never waits for, one finding per sync that would. ASSUMED: it ends when they have."""
    records, log, order = _unawaited(run.order), run.log, run.order
    by_sync: dict[tuple[str, int], list[int]] = {}
    for record in records.tolist():
        kernel = log.launches[log.tasks[order.task_of[record]].launch].kernel
        by_sync.setdefault((kernel, int(order.lane[order.position[record]])), []).append(record)
    findings = []
    for (_, lane), copies in by_sync.items():
        _, first = np.unique(order.line_of[copies], return_index=True)
        sites = tuple(run.site(copies[index], "copies") for index in sorted(first))
        findings.append(
            Finding(
                kind="unawaited",
                title=f"a task ends while {sites[0].operation} may still run",
                sites=sites,
                rule="no public document says that a task waits for its copies before it ends. ASSUMED: it does",
                remedies=(f"{sync_after(sites[0], lane)}, before the kernel ends",),
                times=len(copies),
            )
        )
    return findings


def find_redundant(run: Run) -> list[Finding]:
    """Find syncs that order nothing on the paths that ran, given the other syncs. Requires a log without races.

    A sync that waits for the last copies of a task is not redundant. One in a loop that no task repeats is left out.
    """
    if {"gather", "scatter"} & set(run.log.ops):
        # Their offsets are read at issue, so a sync may establish an order that no pipe shows.
        return []
    columns, order = run.columns, run.order
    dropped: list[int] = []
    findings = []
    unawaited = len(_unawaited(order))
    for lines in _groups_of_lines(run):
        if any(_is_in_single_iteration(run, line) for line in lines):
            continue
        reduced = order.without([*dropped, *lines])
        if len(_unawaited(reduced)) > unawaited or _needed(run.but(order=reduced)):
            continue
        dropped += lines
        records = np.flatnonzero((columns["pipe"] == SYNC) & np.isin(columns["line"], lines))
        sites = tuple(run.site(int(records[columns["line"][records] == line][0]), "waits") for line in lines)
        findings.append(
            Finding(
                kind="redundant-sync",
                title=f"{sites[0].operation} orders nothing on any path that ran",
                sites=sites,
                rule="only operations of different pipes or cores on the same bytes need a sync between them",
                remedies=(
                    "remove it, unless a path that did not run needs it: the other syncs order everything that ran",
                ),
                times=len(records),
            )
        )
    return findings


def _groups_of_lines(run: Run) -> Iterator[list[int]]:
    """Yield source lines of syncs; lines that meet in one barrier form a group, as none can be removed alone."""
    lines = _removable_lines(run)
    groups: list[set[int]] = []
    for _, positions in run.order.rounds:
        group = {int(line) for line in run.columns["line"][run.order.record[positions]]}
        for other in [other for other in groups if other & group]:
            groups.remove(other)
            group |= other
        groups.append(group)
    for line in lines:
        group = next((members for members in groups if line in members), {line})
        if line == min(group):
            yield sorted(group)


def _removable_lines(run: Run) -> list[int]:
    """Return the lines of syncs that may be superfluous."""
    columns, order = run.columns, run.order
    is_sync = columns["pipe"] == SYNC
    # Exclude lines with other records: those operations block by themselves and cannot be removed.
    lines = np.setdiff1d(columns["line"][is_sync], columns["line"][~is_sync])
    # A barrier can be judged only if several tasks write shared memory, and do not read there what they wrote.
    of_all = run.accesses.where(np.flatnonzero((run.space.shared & ~run.space.read_only)[run.accesses.alloc]))
    exchanged = np.intersect1d(of_all.alloc[of_all.write], of_all.alloc[~of_all.write])
    work, writes, reads = (
        set(order.task_of[of_all.record[rows]].tolist())
        for rows in (of_all.alloc >= 0, of_all.write, ~of_all.write & np.isin(of_all.alloc, exchanged))
    )
    barriers = set(columns["line"][ops_among(run.log, BARRIERS)[columns["op"]]].tolist())
    for _, positions in order.rounds:
        tasks = {*order.task[positions].tolist()}
        if len(tasks & work) > 1 and tasks & writes and not tasks & reads & writes:
            barriers.difference_update(order.line[positions].tolist())
    return list(np.setdiff1d(lines, [*barriers]).tolist())


def _is_in_single_iteration(run: Run, line: int) -> bool:
    """Return whether a line is in a loop, and no task passes it twice."""
    file, number, _ = run.log.lines[line]
    loops = source_file(file).loops_around(number)
    return bool(loops) and int(np.bincount(run.order.task[run.order.line == line]).max()) == 1


def _needed(run: Run) -> bool:
    """Return whether a run without some syncs has a race, or a release of a buffer in flight."""
    order, record = run.order, run.accesses.record
    is_early = order.position - order.first[order.task_of] < _FIRST_OPERATIONS // max(1, len(run.log.tasks))
    for part in (run.but(accesses=run.accesses.where(is_early[record])), run):
        if len(in_flight(part)):
            return True
        for join in (within_tasks, between_tasks):
            if any(len(a) for a, _ in join(part)):
                return True
    return False

"""Buffers released while a transfer may still use them."""

from __future__ import annotations

import numpy as np

from mlusim.arrays import Integers
from mlusim.log import IO, MOVE, NONE
from mlusim.verifier.accesses.coordinates import describe
from mlusim.verifier.accesses.geometry import group_rows
from mlusim.verifier.columns import joint
from mlusim.verifier.findings import Finding
from mlusim.verifier.order.lanes import MEMORY_CORE_IO
from mlusim.verifier.races.lane_syncs import LANE_SYNCS, sync_after
from mlusim.verifier.run import Run

TRANSFERS = (IO, MOVE, MEMORY_CORE_IO)


def in_flight(run: Run) -> Integers:
    """Return the rows whose transfer may be running when their buffer is released.

    Only transfers count: later vector instructions on the same bytes are in order with earlier ones.
    """
    log, accesses, order = run.log, run.accesses, run.order
    released = {identity: count for identity, count in log.released.items() if log.allocations[identity].task != NONE}
    if not released or not len(accesses):
        return np.empty(0, np.int64)
    # By allocation, the position of the first operation of its task after the release.
    first_after_release = np.full(len(log.allocations), len(order.task) + 1, np.int64)
    identities = np.array(list(released), np.int64)
    task = np.array([log.allocations[identity].task for identity in released], np.int64)
    records = len(order.task) + 1
    begin = np.searchsorted(
        joint(order.task, order.record, records), joint(task, np.array(list(released.values())), records)
    )
    first_after_release[identities] = begin
    owner = np.full(len(log.allocations), NONE, np.int64)
    owner[identities] = task
    rows = np.flatnonzero(np.isin(order.lane, TRANSFERS)[order.position][accesses.record])
    position, alloc = order.position[accesses.record[rows]], accesses.alloc[rows]
    after = first_after_release[alloc]
    flying = (owner[alloc] == order.task[position]) & (order.waiter[position] >= after) & (position < after)
    return np.asarray(rows[flying])


def find_releases(run: Run) -> list[Finding]:
    """Find releases of buffers in flight, one finding per source line and buffer."""
    log, accesses, order = run.log, run.accesses, run.order
    rows = in_flight(run)
    if not len(rows):
        return []
    names = sorted({record.name for record in log.allocations})
    name = np.array([names.index(log.allocations[alloc].name) for alloc in accesses.alloc[rows].tolist()])
    line = order.line_of[accesses.record[rows]]
    first, _, times = group_rows(line, name)
    findings = []
    for row, count in sorted(zip(rows[first].tolist(), times.tolist(), strict=True)):
        record = int(accesses.record[row])
        allocation = log.allocations[int(accesses.alloc[row])]
        lane = int(order.lane[order.position[record]])
        writes = bool(accesses.write[row])
        site = run.site(record, "writes" if writes else "reads")
        starts, stops = (part + int(accesses.offset[row]) for part in accesses.of(row)[0].segments())
        findings.append(
            Finding(
                kind="release",
                title=f"{allocation.name} is released while {site.operation} may still "
                f"{'write' if writes else 'read'} it",
                region=f"{describe(allocation, starts, stops)} in {allocation.memory.upper()}",
                nbytes=int((stops - starts).sum()),
                sites=(site,),
                rule="a buffer exists until its scope ends; the next allocation may use the same bytes",
                remedies=(f"{sync_after(site, lane)}, before the scope of {allocation.name} ends",),
                times=count,
                fields={"sync": LANE_SYNCS[lane][0], "buffer": allocation.name},
            )
        )
    return findings

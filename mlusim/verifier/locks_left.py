"""Locks that a task still holds when it ends: no other task can acquire them any more."""

from __future__ import annotations

from mlusim.cores.synchronisation.locks import LOCK_NAMES, SHIFT
from mlusim.verifier.findings import Finding
from mlusim.verifier.run import Run


def locks_in_use(run: Run) -> dict[tuple[int, int], int]:
    """By task and lock, return the record with which the task acquired the lock, or waits for it, if not released."""
    log, columns = run.log, run.columns
    if LOCK_NAMES[0] not in log.ops:
        return {}
    lock_op, unlock_op = (log.ops.index(name) if name in log.ops else -1 for name in LOCK_NAMES)
    in_use: dict[tuple[int, int], int] = {}
    for record in ((columns["op"] == lock_op) | (columns["op"] == unlock_op)).nonzero()[0].tolist():
        key = int(columns["task"][record]), int(columns["detail"][record]) >> SHIFT
        if columns["op"][record] == unlock_op:
            in_use.pop(key, None)
        else:
            in_use[key] = record
    return in_use


def find_locks_left(run: Run) -> list[Finding]:
    """Find tasks that ended while holding a lock, one finding per source line and lock."""
    by_line: dict[tuple[int, int], list[int]] = {}
    for (task, number), record in locks_in_use(run).items():
        if run.log.tasks[task].end_ps >= 0:
            by_line.setdefault((int(run.columns["line"][record]), number), []).append(record)
    findings = []
    for (_, number), records in by_line.items():
        site = run.site(records[0], "locks")
        findings.append(
            Finding(
                kind="hang",
                title=f"{site.task} ends without releasing lock {number}",
                sites=(site,),
                rule="a lock is held until its task releases it; the next task that acquires it waits forever",
                remedies=(f"{site.call(f'unlock({number})')} on every path after {site.location}",),
                times=len(records),
            )
        )
    return findings

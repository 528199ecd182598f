"""Locks that a task still holds when it ends: nobody can take them any more."""

from __future__ import annotations

from mlusim.cores.locks import LOCK_NAMES, SHIFT
from mlusim.log import Log
from mlusim.verifier.boxes import Integers
from mlusim.verifier.findings import Finding, site_of


def find_locks_left(log: Log, columns: dict[str, Integers]) -> list[Finding]:
    """Tasks that ended and hold a lock, those of equal source lines as one."""
    if LOCK_NAMES[0] not in log.ops:
        return []
    takes, gives = (log.ops.index(name) if name in log.ops else -1 for name in LOCK_NAMES)
    held: dict[tuple[int, int], int] = {}
    for record in ((columns["op"] == takes) | (columns["op"] == gives)).nonzero()[0].tolist():
        key = int(columns["task"][record]), int(columns["detail"][record]) >> SHIFT
        if columns["op"][record] == gives:
            held.pop(key, None)
        else:
            held[key] = record
    by_line: dict[tuple[int, int], list[int]] = {}
    for (task, number), record in held.items():
        if log.tasks[task].end_ps >= 0:
            by_line.setdefault((int(columns["line"][record]), number), []).append(record)
    found = []
    for (_, number), records in by_line.items():
        site = site_of(log, records[0], "takes", "sync")
        found.append(
            Finding(
                kind="hang",
                title=f"{site.task} ends and still holds lock {number}",
                sites=(site,),
                rule="a lock is held until its task gives it back; whoever takes it next waits for ever",
                remedy=f"{site.call(f'unlock({number})')} on every path behind {site.place}",
                times=len(records),
            )
        )
    return found

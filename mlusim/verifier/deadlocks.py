"""Deadlocks: tasks that wait for barriers or locks forever, and locks that a task still holds when it ends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.cores.synchronisation.locks import LOCK_NAMES, lock_number
from mlusim.log import NONE, Log
from mlusim.log_tables import task_names
from mlusim.units import plural
from mlusim.verifier.findings import Finding, Site
from mlusim.verifier.run import Run

# By barrier, the one that does not wait for memory cores.
_OF_CORES_ALONE = {"sync_cluster": "sync_all_ipu_within_cluster", "sync_all": "sync_all_ipu"}
# By barrier, and for locks, the rule that a hang breaks.
_WAITS_FOR = {
    "sync_cluster": "sync_cluster waits for every core of the cluster and its memory core, returned or not",
    "sync_all": "sync_all waits for every core and memory core of the union, returned or not",
    "sync_all_ipu": "sync_all_ipu waits for every core of the union, returned or not",
    "sync_all_mpu": "sync_all_mpu waits for every memory core of the union, returned or not",
    "sync_all_ipu_within_cluster": "sync_all_ipu_within_cluster waits for every core of the cluster, returned or not",
    "lock": "a lock is held until its task releases it, even if that task has ended",
}
_RELEASE = "release the lock on every path of the task that acquires it"


class _Awaited(NamedTuple):
    """A barrier, or a lock by its number, for which tasks wait."""

    operation: str
    lock: int = NONE

    def __str__(self) -> str:
        return self.operation if self.lock == NONE else f"lock {self.lock}"


def deadlock(run: Run) -> Finding | None:
    """Return the finding for a hang: the tasks that wait at each barrier and lock, and those that have returned."""
    log, order = run.log, run.order
    waiting = _waiting_positions(run)
    if not len(waiting):
        return None
    by_line: dict[int, list[int]] = {}
    tasks_of: dict[_Awaited, list[int]] = {}
    for position in waiting.tolist():
        operation = log.ops[int(order.op[position])]
        awaited = _Awaited(operation, int(order.lock[position]) if operation == "lock" else NONE)
        by_line.setdefault(int(order.line[position]), []).append(position)
        tasks_of.setdefault(awaited, []).append(int(order.task[position]))
    sites = tuple(
        replace(run.site(int(order.record[positions[0]]), "waits"), end_ps=-1) for positions in by_line.values()
    )
    jobs = {order.job[task] for tasks in tasks_of.values() for task in tasks}
    returned = [task for task, record in enumerate(log.tasks) if record.end_ps >= 0 and order.job[task] in jobs]
    kinds = [BARRIERS[awaited.operation] for awaited in tasks_of if awaited.operation in BARRIERS]
    missing = [] if all(kind.within_cluster for kind in kinds) else returned
    at = "; ".join(
        f"{site.location} {_names(log, order.task[positions].tolist())}"
        for site, positions in zip(sites, by_line.values(), strict=True)
    )
    locks = locks_in_use(run)
    waits_at = set(order.record[waiting].tolist())
    holders = {number: task for (task, number), record in locks.items() if record not in waits_at}
    locked = {number: locks[task, number] for number, task in holders.items()}
    title, remedy = _deadlock(log, tasks_of, holders, returned=bool(returned))
    repeated_lines = {int(run.columns["line"][record]) for record in locked.values()} & by_line.keys()
    # Tasks wait for a lock where they acquired one: in the next iteration of a loop, not in another order.
    remedies = [_RELEASE if repeated_lines else remedy]
    if returned and all(log.tasks[task].is_memory_core for task in returned):
        remedies = _without_memory_cores(sites[0], list(tasks_of)) or remedies
    return Finding(
        kind="hang",
        title=title,
        location=f"{at}; " + (f"returned: {_names(log, returned)}" if returned else "none has returned"),
        sites=(*sites, *_causes(run, tasks_of, locked, returned)),
        rule="; ".join(dict.fromkeys(_WAITS_FOR[awaited.operation] for awaited in tasks_of)),
        remedies=(*_barrier_passed_alone(run, waiting), *remedies),
        fields={
            "waiting": len(waiting),
            "returned": len(returned),
            "barriers": [str(awaited) for awaited in tasks_of],
            "clusters": sorted({log.tasks[task].cluster for tasks in (*tasks_of.values(), missing) for task in tasks}),
        },
    )


def _waiting_positions(run: Run) -> Integers:
    """Return the positions of the barriers and locks at which tasks that have not ended wait."""
    log, order = run.log, run.order
    has_begun = np.diff(order.first) > 0
    open_tasks = [task for task, record in enumerate(log.tasks) if record.end_ps < 0 and has_begun[task]]
    last = order.first[np.array(open_tasks, np.int64) + 1] - 1
    if not len(log):
        return last
    lock = log.ops.index("lock") if "lock" in log.ops else NONE
    return np.asarray(last[order.is_barrier[last] | (order.op[last] == lock)])


def _causes(
    run: Run, waiting: Collection[_Awaited], locked: Mapping[int, int], returned: list[int]
) -> tuple[Site, ...]:
    """Return where the locks that tasks wait for were acquired, or else the last operation of a task that returned.

    `locked`: by lock, the record with which a task acquired it.
    """
    order = run.order
    if locks := {awaited.lock for awaited in waiting} - {NONE}:
        return tuple(run.site(record, "locks") for number, record in locked.items() if number in locks)
    last = [int(order.first[task + 1]) - 1 for task in returned if order.first[task] < order.first[task + 1]]
    return tuple(run.site(int(order.record[position]), "last") for position in last[:1])


def _without_memory_cores(waits: Site, barriers: list[_Awaited]) -> list[str]:
    """Return the remedies for a barrier that only memory cores do not reach; none if it is one of the cores alone."""
    instead = _OF_CORES_ALONE.get(barriers[0].operation, "") if len(barriers) == 1 else ""
    if not instead:
        return []
    return [
        "let the memory cores reach it too, in every round, before they return",
        f"if they need not wait, {waits.call(f'{instead}()')} in its place",
    ]


def _barrier_passed_alone(run: Run, waiting: Integers) -> list[str]:
    """Return the remedy for a barrier of the cores alone, passed instead of the one in which a memory core waits."""
    log, order = run.log, run.order
    for position in waiting.tolist():
        name = log.ops[int(order.op[position])]
        memory_core = log.tasks[int(order.task[position])]
        if not memory_core.is_memory_core or name not in _OF_CORES_ALONE:
            continue
        codes = {code: other for code, other in enumerate(log.ops) if other in (name, *_OF_CORES_ALONE.values())}
        own_codes = [code for code, other in codes.items() if other == name]
        times_passed = np.count_nonzero(order.op[order.first[order.task[position]] : position] == own_codes[0])
        for task, record in enumerate(log.tasks):
            if record.is_memory_core or (record.launch, record.cluster) != (memory_core.launch, memory_core.cluster):
                continue
            of_task = order.of_task(task)
            barriers = of_task.start + np.flatnonzero(np.isin(order.op[of_task], list(codes)))
            barriers = barriers[~np.isin(barriers, waiting)]
            rounds = np.cumsum(order.op[barriers] == own_codes[0])
            # The barrier after as many, or else the last one before it.
            later, earlier = (
                barriers[(order.op[barriers] != own_codes[0]) & when]
                for when in (rounds == times_passed, rounds < times_passed)
            )
            for other in (*later[:1].tolist(), *earlier[-1:].tolist()):
                site = run.site(int(order.record[other]), "passed")
                return [f"{site.call(f'{name}()')} in place of {site.call(f'{site.operation}()')} at {site.location}"]
    return []


def _deadlock(
    log: Log, waiting: dict[_Awaited, list[int]], holders: dict[int, int], *, returned: bool
) -> tuple[str, str]:
    """Return title and remedy of a hang.

    Args:
        log: the log of the run.
        waiting: by barrier or lock, the tasks that wait there.
        holders: by lock, the task that holds it.
        returned: whether other tasks of the launch have returned.
    """
    texts = {awaited: f"{awaited}{_holders_text(log, awaited.lock, holders)}" for awaited in waiting}
    locks = [awaited for awaited in waiting if awaited.lock != NONE]
    if len(waiting) > 1:
        waits = "; ".join(
            f"{_names(log, tasks)} {'waits' if len(tasks) == 1 else 'wait'} "
            f"{'for' if awaited in locks else 'in'} {texts[awaited]}"
            for awaited, tasks in waiting.items()
        )
        if locks:
            return (
                f"deadlock: {waits}",
                "acquire locks in the same order in every task, and hold none while waiting at a barrier",
            )
        return (
            f"mismatched barriers: {waits}",
            f"make all of them reach one barrier, {' or '.join(map(str, texts))}, in the same order",
        )
    ((awaited, tasks),) = waiting.items()
    count = f"{plural(len(tasks), 'task')} wait{'s' if len(tasks) == 1 else ''}"
    if locks:
        return f"deadlock: {count} for {texts[awaited]}", _RELEASE
    remedy = "make all of them reach the same barriers" + (", and none return before the last" if returned else "")
    return f"deadlock: {count} in {awaited}, which not all of its participants reach", remedy


def _holders_text(log: Log, lock: int, holders: dict[int, int]) -> str:
    holder = holders.get(lock)
    if holder is None:
        return ""
    ended = " and did not release" if log.tasks[holder].end_ps >= 0 else " and does not release"
    return f", which {_names(log, [holder])} acquired{ended}"


def _names(log: Log, tasks: Iterable[int]) -> str:
    return task_names(log.tasks[task] for task in tasks)


def locks_in_use(run: Run) -> dict[tuple[int, int], int]:
    """By task and lock, return the record with which the task acquired the lock, or waits for it, if not released."""
    log, columns = run.log, run.columns
    if LOCK_NAMES[0] not in log.ops:
        return {}
    lock_op, unlock_op = (log.ops.index(name) if name in log.ops else -1 for name in LOCK_NAMES)
    in_use: dict[tuple[int, int], int] = {}
    locks = lock_number(columns["detail"])
    for record in ((columns["op"] == lock_op) | (columns["op"] == unlock_op)).nonzero()[0].tolist():
        key = int(columns["task"][record]), int(locks[record])
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

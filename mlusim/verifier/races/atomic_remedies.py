"""Remedies with atomics: flags that a task polls, stores that an atomic announces, and counts of tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.sets_and_atomics import ATOMIC_NAMES, FETCHING
from mlusim.log import Log
from mlusim.verifier.accesses.geometry import group_rows
from mlusim.verifier.accesses.table import Accesses
from mlusim.verifier.findings import Finding, Site
from mlusim.verifier.order.happens_before import Order

# A line at which a task reads the same bytes this often polls them.
_POLLS = 3
# A flag has at most this size.
_FLAG_BYTES = 64
USE_ATOMICS = "read and write the flag with atomics, which also order what comes before and after"


def is_polled(accesses: Accesses, order: Order, row: int) -> bool:
    """Return whether a task reads few bytes at the line of an access again and again, without a barrier in between."""
    record = accesses.record
    if accesses.write[row] or int(accesses.high[row] - accesses.low[row]) > _FLAG_BYTES:
        return False
    same = np.flatnonzero(
        (order.line_of[record] == order.line_of[record[row]])
        & (accesses.alloc == accesses.alloc[row])
        & (accesses.low == accesses.low[row])
        & ~accesses.write
    )
    segments = np.stack([order.task_of[record[same]], order.segment[order.position[record[same]]]])
    return bool(np.unique_counts(group_rows(*segments)[1]).counts.max() >= _POLLS)


def announced(log: Log, accesses: Accesses, order: Order, pair: tuple[int, int], store: Site) -> list[str]:
    """Return remedies for a write and a later access by another task, if atomics are meant to order them.

    The write may come after the last atomic of its task; it may be posted, and the atomic does not wait for it; or both
    tasks pass an atomic that orders them only for a task that waits for its number.
    """
    a, b = pair
    if not accesses.write[a]:
        return []
    begins, ends = (int(order.position[accesses.record[row]]) for row in (a, b))
    atomics = _of_task(log, order, begins, ATOMIC_NAMES)
    if not len(atomics):
        return []
    following = atomics[atomics > begins]
    if not len(following):
        last = _location(log, order, int(atomics[-1]))
        return [f"let {store.location} come before the atomic at {last}, if that tells the other task of it"]
    at = _location(log, order, int(following[0]))
    if order.done[begins] >= following[0]:
        return [
            f"{store.call('sync()')} between {store.location} and the atomic at {at}, which does not wait for stores"
        ]
    earlier = _of_task(log, order, ends, FETCHING)
    earlier = earlier[earlier < ends]
    flags, looks = _of_one_flag(accesses, order, atomics, earlier)
    if len(looks):
        return _flag_of_each_store(log, order, flags, looks, begins, store)
    if order.line[following[0]] not in order.line[earlier]:
        return []
    name = log.allocations[int(accesses.alloc[a])].name
    return [f"use {name} only in a task that the old value of the atomic at {at} tells that all others have passed it"]


def waits_for_flag(log: Log, accesses: Accesses, order: Order, pair: tuple[int, int]) -> bool:
    """Return whether the task of the second access of a pair polls a flag that the task of the first one changes."""
    begins, ends = (int(order.position[accesses.record[row]]) for row in pair)
    earlier = _of_task(log, order, ends, FETCHING)
    atomics = _of_task(log, order, begins, ATOMIC_NAMES)
    return bool(len(_of_one_flag(accesses, order, atomics, earlier[earlier < ends])[1]))


def _of_one_flag(accesses: Accesses, order: Order, atomics: Integers, looks: Integers) -> tuple[Integers, Integers]:
    """Return the atomics of one task and those of another that access the same flag, at lines of their own."""
    looks = looks[~np.isin(order.line[looks], order.line[atomics])]
    rows = np.flatnonzero(accesses.write & (accesses.high - accesses.low <= _FLAG_BYTES))
    at = order.position[accesses.record[rows]]
    changed, looked = (
        {(int(accesses.alloc[row]), int(accesses.low[row])): None for row in rows[np.isin(at, positions)].tolist()}
        for positions in (atomics, looks)
    )
    meeting = [
        row for row in rows.tolist() if (int(accesses.alloc[row]), int(accesses.low[row])) in changed.keys() & looked
    ]
    at = order.position[accesses.record[meeting]]
    return atomics[np.isin(atomics, at)], looks[np.isin(looks, at)]


def _flag_of_each_store(
    log: Log, order: Order, flags: Integers, looks: Integers, begins: int, store: Site
) -> list[str]:
    """Return the remedy for a task that announces its stores one by one, to a task that goes on before that of one."""
    own = order.line[order.first[order.task[begins]] :]
    first = int(order.first[order.task[begins]]) + int(np.flatnonzero(own == order.line[begins])[0])
    following = flags[flags > begins]
    if flags[0] < first or not len(following):
        last = _location(log, order, int(flags[flags < begins][-1]))
        return [f"let {store.location} come before the atomic at {last}, if that tells the other task of it"]
    after, look = (_location(log, order, int(position)) for position in (following[0], looks[-1]))
    return [f"wait at {look} for the atomic at {after} that follows {store.location}: the task goes on before it"]


def flags_first(findings: Iterable[Finding]) -> list[Finding]:
    """Put the race of a flag that a task polls before the races that it should prevent."""
    result = []
    for finding in findings:
        main, *others = sorted(
            (replace(finding, folded=()), *finding.folded), key=lambda race: not race.fields["polled"]
        )
        result.append(replace(main, folded=tuple(others)))
    return result


def _of_task(log: Log, order: Order, position: int, names: frozenset[str] | set[str]) -> Integers:
    """Return the positions of the operations with these names by the task of a position."""
    task = int(order.task[position])
    own = np.arange(order.first[task], order.first[task + 1])
    return own[np.isin(order.op[own], [code for code, name in enumerate(log.ops) if name in names])]


def _location(log: Log, order: Order, position: int) -> str:
    file, line, _ = log.lines[int(order.line[position])]
    return f"{Path(file).name}:{line}"

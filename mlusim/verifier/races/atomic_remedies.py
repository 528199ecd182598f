"""Remedies with atomics: flags that a task polls, stores that an atomic announces, and counts of tasks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.sets_and_atomics import ATOMIC_NAMES, FETCHING
from mlusim.verifier.accesses.geometry import group_rows
from mlusim.verifier.columns import ops_among
from mlusim.verifier.findings import Finding, Site
from mlusim.verifier.races.pair import Pair
from mlusim.verifier.run import Run

# A line at which a task reads the same bytes this often polls them.
_POLLS = 3
# A flag has at most this size.
_FLAG_BYTES = 64
USE_ATOMICS = "read and write the flag with atomics, which also order what comes before and after"


def is_polled(run: Run, row: int) -> bool:
    """Return whether a task reads few bytes at the line of an access again and again, without a barrier in between."""
    accesses, order = run.accesses, run.order
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


def announced(pair: Pair) -> list[str]:
    """Return remedies for a write and a later access by another task, if atomics are meant to order them.

    The write may come after the last atomic of its task; it may be posted, and the atomic does not wait for it; or both
    tasks pass an atomic that orders them only for a task that waits for its number.
    """
    if not pair.writes[0]:
        return []
    run, order, store = pair.run, pair.run.order, pair.sites[0]
    begins, ends = pair.positions
    atomics = _of_task(run, begins, ATOMIC_NAMES)
    if not len(atomics):
        return []
    following = atomics[atomics > begins]
    if not len(following):
        return [_before_atomic(run, store, int(atomics[-1]))]
    at = run.line_at(int(following[0])).location
    if order.done[begins] >= following[0]:
        return [
            f"{store.call('sync()')} between {store.location} and the atomic at {at}, which does not wait for stores"
        ]
    earlier = _of_task(run, ends, FETCHING)
    earlier = earlier[earlier < ends]
    flags, looks = _of_one_flag(run, atomics, earlier)
    if len(looks):
        return _flag_of_each_store(run, flags, looks, begins, store)
    if order.line[following[0]] not in order.line[earlier]:
        return []
    told = f"the old value of the atomic at {at} tells that all others have passed it"
    return [f"use {pair.buffer} only in a task that {told}"]


def waits_for_flag(pair: Pair) -> bool:
    """Return whether the task of the second access of a pair polls a flag that the task of the first one changes."""
    begins, ends = pair.positions
    earlier = _of_task(pair.run, ends, FETCHING)
    atomics = _of_task(pair.run, begins, ATOMIC_NAMES)
    return bool(len(_of_one_flag(pair.run, atomics, earlier[earlier < ends])[1]))


def _before_atomic(run: Run, store: Site, atomic: int) -> str:
    at = run.line_at(atomic).location
    return f"let {store.location} come before the atomic at {at}, if that tells the other task of it"


def _of_one_flag(run: Run, atomics: Integers, looks: Integers) -> tuple[Integers, Integers]:
    """Return the atomics of one task and those of another that access the same flag, at lines of their own."""
    accesses, order = run.accesses, run.order
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


def _flag_of_each_store(run: Run, flags: Integers, looks: Integers, begins: int, store: Site) -> list[str]:
    """Return the remedy for a task that announces its stores one by one, to a task that goes on before that of one."""
    order = run.order
    own = order.line[order.first[order.task[begins]] :]
    first = int(order.first[order.task[begins]]) + int(np.flatnonzero(own == order.line[begins])[0])
    following = flags[flags > begins]
    if flags[0] < first or not len(following):
        return [_before_atomic(run, store, int(flags[flags < begins][-1]))]
    after, look = (run.line_at(int(position)).location for position in (following[0], looks[-1]))
    return [f"wait at {look} for the atomic at {after} that follows {store.location}: the task goes on before it"]


def flags_first(findings: Iterable[Finding]) -> list[Finding]:
    """Put the race of a flag that a task polls before the races that it should prevent."""
    result = []
    for finding in findings:
        main, *others = sorted(finding.unfolded, key=lambda race: not race.fields["polled"])
        result.append(main.fold(*others))
    return result


def _of_task(run: Run, position: int, names: frozenset[str] | set[str]) -> Integers:
    """Return the positions of the operations with these names by the task of a position."""
    order = run.order
    own = order.of_task(int(order.task[position]))
    return np.asarray(own.start + np.flatnonzero(ops_among(run.log, names)[order.op[own]]))

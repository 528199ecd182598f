"""Remedies with atomics: flags that a task polls, stores that an atomic announces, and counts of tasks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.atomics import ATOMIC_NAMES, COMPARE_AND_SWAP, FETCHING, REDUCING
from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.log import NONE, SCALAR
from mlusim.verifier.accesses.geometry import group_rows
from mlusim.verifier.accesses.table import Accesses
from mlusim.verifier.columns import ops_among
from mlusim.verifier.core_names import core_at
from mlusim.verifier.findings import Finding, Site, Way, fixes_by, owner_of, wrong_part
from mlusim.verifier.races.pair import Pair
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import locations_of

# A line at which a task reads the same bytes this often polls them.
_POLLS = 3
# A flag has at most this size.
_FLAG_BYTES = 64
# In a kernel with atomics, a flag is one number.
_NUMBER_BYTES = 8
USE_ATOMICS = "read and write the flag with atomics, which also order what comes before and after"


def is_polled(run: Run, row: int) -> bool:
    """Return whether a task reads few bytes at the line of an access again and again, for its scalar code.

    In between, it passes no barrier and stores none of these bytes.
    """
    accesses, order = run.accesses, run.order
    record = accesses.record
    max_bytes = _FLAG_BYTES if ATOMIC_NAMES.isdisjoint(run.log.ops) else _NUMBER_BYTES
    if accesses.write[row] or int(accesses.high[row] - accesses.low[row]) > max_bytes:
        return False
    if not _reaches_scalar_code(run, int(record[row])):
        return False
    equal_reads = np.flatnonzero(
        (order.line_of[record] == order.line_of[record[row]])
        & (accesses.alloc == accesses.alloc[row])
        & (accesses.low == accesses.low[row])
        & ~accesses.write
    )
    atomic = ops_among(run.log, ATOMIC_NAMES)[order.op_of[record]]
    write_positions = np.sort(order.position[record[accesses.meeting(row) & accesses.write & ~atomic]])
    read_positions = order.position[record[equal_reads]]
    repeats = group_rows(
        order.task[read_positions], order.segment[read_positions], np.searchsorted(write_positions, read_positions)
    )
    return bool(np.unique_counts(repeats[1]).counts.max() >= _POLLS)


def _loaded_before_swap(pair: Pair) -> list[str]:
    """Return the remedy for a scalar load of a number that its task then compares and swaps."""
    run, order, accesses = pair.run, pair.run.order, pair.run.accesses
    for row, position, site, other in zip(pair.rows, pair.positions, pair.sites, pair.positions[::-1], strict=True):
        if accesses.write[row] or order.lane[position] != SCALAR or run.log.ops[order.op[other]] not in ATOMIC_NAMES:
            continue
        swaps = _positions_of(run, position, {f"atomic_{COMPARE_AND_SWAP}"})
        rows = np.flatnonzero(accesses.write & accesses.meeting(row))
        if np.isin(swaps[swaps > position], order.position[accesses.record[rows]]).any():
            add = "`__bang_atomic_add`" if site.is_compiled else f"`{core_at(site.at)}.atomic_add`"
            return [f"load {pair.buffer} at {site.location} by an atomic too: {add} of 0 returns the value"]
    return []


def _reaches_scalar_code(run: Run, record: int) -> bool:
    """Return whether scalar code gets what an operation reads, also through the buffer that this one copies it to."""
    pipe, result = run.columns["pipe"], run.columns["dst_alloc"]
    to_scalar = (pipe == SCALAR) | (result == NONE) | ops_among(run.log, ATOMIC_NAMES)[run.columns["op"]]
    return bool(to_scalar[record] or (to_scalar & (run.columns["a_alloc"] == result[record])).any())


def counted(count: Finding, other: Finding) -> str:
    """Return the remedy for tasks that race for a number between a write and a read by another task; else "".

    The number tells which task is the last.
    """
    updates = any(fixes_by(remedy, Way.LOCK) for remedy in count.remedies)
    if not updates or count.nbytes > _NUMBER_BYTES:
        return ""
    first, last = other.sites[0], other.sites[-1]
    in_one_file = {site.file for site in (*count.sites, *other.sites)} == {first.file}
    if first.role != "writes" or not (in_one_file and all(first.line < site.line < last.line for site in count.sites)):
        return ""
    atomic = "`__bang_atomic_add`" if first.is_compiled else f"`{core_at(first.at)}.atomic_add`"
    orders = "it returns the old value, and orders what comes before and after"
    return f"update {count.fields['buffer']} at {locations_of(count.lines)} by {atomic}: {orders}"


def announced(pair: Pair) -> list[str]:
    """Return remedies for an access and a later one by another task, if atomics are meant to order them.

    The first one may come after the last atomic of its task; it may be a posted store, for which the atomic does not
    wait; the other task may not wait for the atomic, or for that of a third task; or both tasks pass an atomic that
    orders them only for a task that waits for its number. Or one loads what both then swap.
    """
    if loaded := _loaded_before_swap(pair):
        return loaded
    run, order, (store, reader) = pair.run, pair.run.order, pair.sites
    position, reader_position = pair.positions
    atomics = _positions_of(run, position, ATOMIC_NAMES)
    if not len(atomics):
        return []
    following = atomics[atomics > position]
    if not len(following):
        announces = pair.writes[0] and store.at != reader.at
        return [_store_before_atomic(run, store, int(atomics[-1]))] if announces else []
    at = run.line_at(int(following[0])).location
    if order.done[position] >= following[0]:
        return [
            f"{store.call('sync()')} between {store.location} and the atomic at {at}, which does not wait for stores"
        ]
    earlier = _positions_of(run, reader_position, FETCHING)
    earlier = earlier[earlier < reader_position]
    flags, polls = _flag_accesses(run, atomics, earlier)
    if len(polls):
        return _wait_for_each_flag(run, flags, polls, position, store)
    known_tasks = run.handshakes.known_tasks(reader_position)
    if known_tasks and order.task[position] not in known_tasks:
        others = " and ".join(str(owner_of(run.log.tasks[task])["task"]) for task in sorted(known_tasks))
        waits = f"{reader.task} waits for an atomic of {others}, but not of {store.task}"
        return [wrong_part(pair.buffer, (store, reader), waits)]
    if order.line[following[0]] not in order.line[earlier]:
        if all(pair.writes) or not _announces(pair, int(following[0])):
            return []
        return [
            f"let {reader.task} wait for the atomic at {at}, which follows {store.location}, before {reader.location}"
        ]
    shows = f"the old value of the atomic at {at} shows that all others have passed it"
    return [f"use {pair.buffer} only in a task that {shows}"] if pair.writes[0] else []


def atomic_like_others(pair: Pair) -> list[str]:
    """Return the remedy for stores of several tasks at one line to a tensor that atomics update elsewhere."""
    run, accesses, (one, other) = pair.run, pair.run.accesses, pair.sites
    writes_tensor = accesses.write & (accesses.alloc == accesses.alloc[pair.rows[0]])
    records = accesses.record[writes_tensor & ops_among(run.log, ATOMIC_NAMES)[run.columns["op"][accesses.record]]]
    if one.at != other.at or not len(records):
        return []
    atomic = run.site(int(records[0]), "writes")
    return [f"update {pair.buffer} at {one.location} by {atomic.operation}, as at {atomic.location}"]


def _announces(pair: Pair, atomic: int) -> bool:
    """Return whether an atomic may be a flag: of few bytes, and both tasks pass no barrier at all.

    One that adds what its task has computed, and at which nothing looks, is a sum.
    """
    run, order = pair.run, pair.run.order
    rows = np.flatnonzero(run.accesses.record == order.record[atomic])
    flags = rows[run.accesses.write[rows]]
    are_small = bool((run.accesses.high[flags] - run.accesses.low[flags] <= _FLAG_BYTES).all())
    barriers = ops_among(run.log, BARRIERS)
    adds_computed_value = not np.isin(run.accesses.alloc[rows], run.accesses.alloc[flags]).all()
    adds = ops_among(run.log, REDUCING)[run.columns["op"]][run.accesses.record]
    is_sum = adds_computed_value and not (run.accesses.meeting(int(flags[0])) & ~run.accesses.write & ~adds).any()
    return are_small and not is_sum and not any(barriers[order.op[order.of_task(task)]].any() for task in pair.tasks)


def goes_by_flags(pair: Pair) -> bool:
    """Return whether the tasks of a pair wait for each other by flags: no barrier can stand where they do that."""
    run, order, (position, later_position) = pair.run, pair.run.order, pair.positions
    atomics, earlier = _positions_of(run, position, ATOMIC_NAMES), _positions_of(run, later_position, FETCHING)
    earlier = earlier[earlier < later_position]
    if len(_flag_accesses(run, atomics, earlier)[1]):
        return True
    following = atomics[atomics > position]
    if not len(following) or order.line[following[0]] in order.line[earlier]:
        return False
    known_tasks = run.handshakes.known_tasks(later_position)
    return bool(known_tasks and order.task[position] not in known_tasks) or _announces(pair, int(following[0]))


def _store_before_atomic(run: Run, store: Site, atomic: int) -> str:
    at = run.line_at(atomic).location
    return f"let {store.location} come before the atomic at {at}, if that tells the other task of it"


def _flag_accesses(run: Run, atomics: Integers, polls: Integers) -> tuple[Integers, Integers]:
    """Return the atomics of one task, and those of another that look at a flag which these change."""
    accesses, order = run.accesses, run.order
    polls = np.array([position for position in polls.tolist() if run.handshakes.is_used(position)], np.int64)
    rows = np.flatnonzero(accesses.write & (accesses.high - accesses.low <= _FLAG_BYTES))
    position_of = order.position[accesses.record[rows]]
    changed_lines, polled_lines = (
        _lines_by_flag(accesses, rows[np.isin(position_of, positions)], order.line_of) for positions in (atomics, polls)
    )
    flags = {flag: polled_lines[flag] - changed_lines[flag] for flag in changed_lines.keys() & polled_lines}
    meeting = [row for row in rows.tolist() if flags.get((int(accesses.alloc[row]), int(accesses.low[row])))]
    position_of = order.position[accesses.record[meeting]]
    of_same_line = np.isin(order.line[polls], [*set[int]().union(*flags.values())])
    return atomics[np.isin(atomics, position_of)], polls[np.isin(polls, position_of) & of_same_line]


def _lines_by_flag(accesses: Accesses, rows: Integers, line_of: Integers) -> dict[tuple[int, int], set[int]]:
    """Return the lines of accesses to flags, by allocation and offset of the flag."""
    lines: dict[tuple[int, int], set[int]] = {}
    for row in rows.tolist():
        flag = int(accesses.alloc[row]), int(accesses.low[row])
        lines.setdefault(flag, set()).add(int(line_of[accesses.record[row]]))
    return lines


def _wait_for_each_flag(run: Run, flags: Integers, polls: Integers, store_position: int, store: Site) -> list[str]:
    """Return the remedy for a task that announces its stores one by one, to a task that goes on before that of one."""
    order = run.order
    of_task = order.of_task(int(order.task[store_position]))
    first = of_task.start + int(np.flatnonzero(order.line[of_task] == order.line[store_position])[0])
    following = flags[flags > store_position]
    if flags[0] < first:
        return [_store_before_atomic(run, store, int(flags[flags < store_position][-1]))]
    if not len(following):
        lines = (run.line_at(int(polls[-1])), run.line_at(int(flags[-1])))
        name = run.log.allocations[int(run.columns["dst_alloc"][order.record[flags[-1]]])].name
        return [wrong_part(name, lines, f"what follows {store.location} is another flag")]
    at, poll_line = (run.line_at(int(position)).location for position in (following[0], polls[-1]))
    return [f"wait at {poll_line} for the atomic at {at} that follows {store.location}: the task goes on before it"]


def flags_first(findings: Iterable[Finding]) -> list[Finding]:
    """Put the race of a flag that a task polls before the races that it should prevent."""
    result = []
    for finding in findings:
        main, *others = sorted(finding.unfolded, key=lambda race: not race.fields["polled"])
        result.append(main.fold(*others))
    return result


def _positions_of(run: Run, position: int, names: frozenset[str] | set[str]) -> Integers:
    """Return the positions of the operations with these names by the task of a position."""
    order = run.order
    of_task = order.of_task(int(order.task[position]))
    return np.asarray(of_task.start + np.flatnonzero(ops_among(run.log, names)[order.op[of_task]]))

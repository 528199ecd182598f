"""Updates in place by several tasks: a sum that all of them add to, or a split that does some of the work twice."""

from __future__ import annotations

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.synchronisation.locks import LOCK_NAMES
from mlusim.verifier.accesses.cells import Cells
from mlusim.verifier.accesses.table import Accesses
from mlusim.verifier.columns import ops_among
from mlusim.verifier.core_names import core_at
from mlusim.verifier.findings import Remedy, Way
from mlusim.verifier.producer import Element, lineage_of
from mlusim.verifier.races.pair import Pair
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import location_of, source_file

# A counter that tasks share has at most this size.
COUNTER_BYTES = 8


def times_stored(run: Run, alloc: int) -> Integers:
    """Return, by cell of a tensor that is stored at all, how often it is stored."""
    count = Cells(_stores(run, alloc), run.log.allocations[alloc].nbytes).count()
    return np.asarray(count[count > 0])


def is_split_twice(pair: Pair) -> bool:
    """Return whether two tasks share rows of a split: a lock or a barrier would let both update them in turn.

    They store bytes once each between two barriers. One task alone stores most of the bytes, or each stores several
    parts, none of which all tasks share, as they would share a sum.
    """
    run, alloc = pair.run, pair.allocations[0]
    stores = _stores(run, alloc)
    if pair.segments[0] == pair.segments[1]:
        stores = stores.where(np.flatnonzero(run.order.segment[run.order.position[stores.record]] == pair.segments[0]))
    cells = Cells(stores, run.log.allocations[alloc].nbytes)
    task = run.order.task_of[stores.record]
    if any(cells.count(task == number).max() > 1 for number in pair.tasks):
        return False
    count = cells.count()
    several = all(np.count_nonzero(task == number) > 1 for number in pair.tasks)
    if several and count.max() < len(np.unique(task)):
        return True
    return 2 * cells.total(cells.mixed(task, count > 0)) < cells.total(count > 0)


def is_same_work(pair: Pair) -> bool:
    """Return whether tasks compute what they store from nothing but these bytes: each of them does the same.

    A counter is small.
    """
    run, alloc = pair.run, pair.allocations[0]
    row = pair.rows[pair.writes.index(True)]
    low, high = int(run.accesses.low[row]), int(run.accesses.high[row])
    if high - low <= COUNTER_BYTES:
        return False
    records = np.array(lineage_of(run, Element(alloc, low, high - low)).records)
    records_of_task = records[run.columns["task"][records] == run.columns["task"][records[0]]]
    loads = run.accesses.where(
        np.flatnonzero(
            np.isin(run.accesses.record, records_of_task) & ~run.accesses.write & run.space.shared[run.accesses.alloc]
        )
    )
    return bool(len(loads) and ((loads.alloc == alloc) & (loads.low >= low) & (loads.high <= high)).all())


def _stores(run: Run, alloc: int) -> Accesses:
    accesses = run.accesses
    return accesses.where(np.flatnonzero(accesses.write & (accesses.alloc == alloc)))


def lock_or_atomic(pair: Pair, racing: frozenset[int]) -> tuple[str, str]:
    """Return the remedies for a load and a store that other tasks must not interrupt: a lock, or an atomic.

    `racing`: the lines of races, as in the log.
    """
    first, second = pair.sites
    lock, unlock = (first.call(f"{name}(0)") for name in ("lock", "unlock"))
    begin, end = "the load", "the store"
    if first.line < second.line:
        lines = _update_lines(pair, racing)
        last = source_file(first.file).end_of_block(*lines) if first.file == second.file else lines[1]
        begin, end = location_of(first.file, lines[0]), location_of(second.file, last)
    lock_remedy = Remedy(f"hold the same lock in every task from {begin} to {end}: {lock}, {unlock}", Way.LOCK)
    atomic = "`__bang_atomic_reduce_add`" if first.is_compiled else f"`{core_at(first.at)}.atomic_reduce_add`"
    return (
        _other_lock(pair) or _move_lock(pair, begin, end) or lock_remedy,
        f"if it is a sum, a maximum or the like, update it with an atomic, such as {atomic}",
    )


def _other_lock(pair: Pair) -> str:
    """Return the remedy for two tasks that hold different locks during an update; else ""."""
    order, texts, lines = pair.run.order, [], []
    for position, site in zip(pair.positions, pair.sites, strict=True):
        positions = np.arange(order.first[order.task[position]], position)
        locks = positions[ops_among(pair.run.log, {"lock"})[order.op[positions]]]
        if not order.locks_held[position] or not len(locks):
            return ""
        texts.append(f"{site.task} holds {int(order.lock[locks[-1]])}")
        lines.append(pair.run.line_at(int(locks[-1])).location)
    return f"hold the same lock at {' and '.join(dict.fromkeys(lines))} in every task: {', and '.join(texts)}"


def _move_lock(pair: Pair, begin: str, end: str) -> str:
    """Return the remedy for a task that locks between the load and the store of its update, or unlocks; else "".

    `begin`, `end`: where the update begins and ends.
    """
    run, order = pair.run, pair.run.order
    if not {*LOCK_NAMES} & {*run.log.ops}:
        return ""
    accesses = run.accesses
    meeting = np.flatnonzero(accesses.meeting(pair.rows[0]))
    at = order.position[accesses.record[meeting]]
    for task, segment in zip(pair.tasks, pair.segments, strict=True):
        of_task = (order.task[at] == task) & (order.segment[at] == segment)
        loads, stores = at[of_task & ~accesses.write[meeting]], at[of_task & accesses.write[meeting]]
        for load, store in zip(loads.tolist(), stores.tolist(), strict=False):
            for name, location in (("lock", f"before {begin}"), ("unlock", f"after {end}")):
                between = np.arange(load + 1, store)
                between = between[ops_among(run.log, {name})[order.op[between]]]
                if len(between):
                    line = run.line_at(int(between[0])).location
                    return f"move the {name} at {line} {location}"
    return ""


def _update_lines(pair: Pair, racing: frozenset[int]) -> tuple[int, int]:
    """Return the first and the last line of the update that two accesses belong to.

    An update may load several parts of a tensor, and then store several.
    """
    one, other = pair.sources
    lines = [one[1], other[1]]
    if one[::2] == other[::2]:
        lines += [line for row in pair.rows for line in _neighbouring_lines(pair.run, row, racing)]
    return min(lines), max(lines)


def _neighbouring_lines(run: Run, row: int, racing: frozenset[int]) -> list[int]:
    """Return the lines of the racing loads just before a load, or of the racing stores just after a store.

    They are in its function, and no barrier, nor an access of the other kind, lies between.
    """
    accesses, order = run.accesses, run.order
    position = run.position(row)
    rows = np.flatnonzero((accesses.alloc == accesses.alloc[row]) & np.isin(order.line_of[accesses.record], [*racing]))
    at = order.position[accesses.record[rows]]
    rows = rows[(order.task[at] == run.task(row)) & (order.segment[at] == order.segment[position])]
    at = order.position[accesses.record[rows]]
    other = at[accesses.write[rows] != accesses.write[row]]
    if accesses.write[row]:
        with_it = (at > position) & (at < other[other > position].min(initial=len(order.task)))
    else:
        with_it = (at < position) & (at > other[other < position].max(initial=-1))
    sources = {run.source(access) for access in rows[with_it].tolist()}
    own_line = run.source(row)[::2]
    return [line for file, line, function in sources if (file, function) == own_line]

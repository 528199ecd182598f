"""Pairs of accesses that share bytes, of which one writes, and that nothing orders.

Within a task a window does it: an operation meets those that were issued before it was known to be complete, on other
lanes. Between tasks it is segments between barriers and, where none are, the parts of a tensor that more than one
task touches. Both are pruned by what later syncs have ordered, before any bytes are compared.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlusim.log import Log
from mlusim.verifier.accesses import Accesses
from mlusim.verifier.boxes import Integers, alike
from mlusim.verifier.cells import Cells
from mlusim.verifier.lanes import ASYNCHRONOUS_LANES, LANES, in_order
from mlusim.verifier.order import Order
from mlusim.verifier.overlaps import FEW_PAIRS, Pairs, chunks, disjoint, earlier_first, in_batches, touching

# Pairs for each access up to which the windows of a task are looked through pair by pair.
_WINDOWS = 16
# Accesses of tasks that are looked at together, at least.
_ROWS_AT_ONCE = 1 << 18
_SHARED_MEMORIES = ("gdram", "sram")


class Space:
    """The identity of bytes: for each allocation its space and the address of its first byte there.

    An allocation of GDRAM or SRAM is a space of its own. Within a task NRAM, WRAM and LDRAM are one each, because a
    scope gives addresses back while a copy may still use them.
    """

    def __init__(self, log: Log) -> None:
        private = {"nram": 0, "wram": 1, "ldram": 2}
        count = len(log.allocations)
        self.number = np.array(
            [private.get(record.memory, 3 + index) for index, record in enumerate(log.allocations)], np.int64
        )
        self.address = np.array([record.address for record in log.allocations], np.int64)
        self.address[self.number >= len(private)] = 0
        self.shared = np.array([record.memory in _SHARED_MEMORIES for record in log.allocations], bool)
        self.read_only = np.array([record.read_only for record in log.allocations], bool)
        self.count = count


def within_tasks(order: Order, accesses: Accesses, space: Space) -> Iterator[Pairs]:
    """Unordered conflicting pairs of rows of `accesses` of one task each, the earlier first.

    Of the pairs of an operation with equal ones, at least the first.
    """
    # Nothing is written to an input.
    writable = np.flatnonzero(~space.read_only[accesses.alloc]) if len(accesses) else np.empty(0, np.int64)
    writable = writable[np.argsort(order.place[accesses.record[writable]], kind="stable")]
    if not len(writable):
        return
    # Places are by task: some tasks at a time keep the memory of long logs low.
    task = order.task[order.place[accesses.record[writable]]]
    ends = [*(np.flatnonzero(task[1:] != task[:-1]) + 1).tolist(), len(writable)]
    begin = 0
    for end in ends:
        if end - begin >= _ROWS_AT_ONCE or end == len(writable):
            yield from _within(order, accesses, space, writable[begin:end])
            begin = end


def _within(order: Order, accesses: Accesses, space: Space, writable: Integers) -> Iterator[Pairs]:
    """As `within_tasks`, for all rows of some tasks, in program order."""
    some = accesses.where(writable)
    place = order.place[some.record]
    lane, done = order.lanes_of(some), order.done[place]
    mine = np.flatnonzero(np.isin(lane, list(ASYNCHRONOUS_LANES)) & (done > place))
    if not len(mine):
        return
    # What each meets until it is done: few where syncs are near, all that follows where there are none.
    first = np.searchsorted(place, place[mine], side="right")
    last = np.searchsorted(place, done[mine], side="right")
    found = _by_window(order, some, space, (mine, first, last))
    if int((last - first).sum()) > _WINDOWS * len(some) + FEW_PAIRS:
        found = _by_kind(order, some, space)
    for a, b in found:
        yield writable[a], writable[b]


def _by_window(
    order: Order, some: Accesses, space: Space, windows: tuple[Integers, Integers, Integers]
) -> Iterator[Pairs]:
    """As `within_tasks`, for rows in program order: each row of `windows` with all of its window [first, last)."""
    rows, first, last = windows
    lane = order.lanes_of(some)
    unordered = np.array([[not in_order(one, other) for other in range(len(LANES))] for one in range(len(LANES))])
    number, address = space.number[some.alloc], space.address[some.alloc]
    low, high = some.low + address, some.high + address
    for one, following in chunks(first, last):
        a, b = rows[one], following
        meet = (number[a] == number[b]) & (some.write[a] | some.write[b]) & unordered[lane[a], lane[b]]
        meet &= (low[a] < high[b]) & (low[b] < high[a])
        a, b = a[meet], b[meet]
        for exact in in_batches(some, a, b, address[a] - address[b]):
            yield a[exact], b[exact]


def _by_kind(order: Order, some: Accesses, space: Space) -> Iterator[Pairs]:
    """As `within_tasks`, for rows in program order: each row with the first of equal ones behind it."""
    place = order.place[some.record]
    lane, done = order.lanes_of(some), order.done[place]
    line = order.line[place]
    first, kind, times = alike(order.task[place], lane, line, some.alloc, some.offset, some.geometry, some.write)
    by_kind = np.argsort(kind, kind="stable")
    ends = np.cumsum(times)
    rows_of = [by_kind[end - count : end] for end, count in zip(ends.tolist(), times.tolist(), strict=True)]
    begins = place[[rows[0] for rows in rows_of]]
    last_place = place[[rows[-1] for rows in rows_of]]
    last_done = np.maximum.reduceat(done[by_kind], ends - times)
    for one, other in _overlapping(order.task[place][first], some.where(first), space, (begins, last_place, last_done)):
        for mine, theirs in ((one, other), (other, one)):
            apart = lane[first[mine]], lane[first[theirs]]
            if apart[0] not in ASYNCHRONOUS_LANES or in_order(int(apart[0]), int(apart[1])):
                continue
            a, b = rows_of[mine], rows_of[theirs]
            following = np.searchsorted(place[b], place[a], side="right")
            met = np.flatnonzero(following < len(b))
            met = met[place[b[following[met]]] <= done[a[met]]]
            if len(met):
                yield a[met], b[following[met]]


def _overlapping(
    task: Integers, kinds: Accesses, space: Space, when: tuple[Integers, Integers, Integers]
) -> Iterator[tuple[int, int]]:
    """Pairs of kinds of accesses of one task that share bytes, one of them a write, and whose times meet.

    Args:
        task: by kind, its task.
        kinds: an access of each.
        space: where bytes are the same.
        when: by kind the first and the last place, and the last place at which one of them is done.
    """
    number, address = space.number[kinds.alloc], space.address[kinds.alloc]
    # All memories of all tasks behind each other.
    _, memory, _ = alike(task, number)
    low, high = kinds.low + address, kinds.high + address
    length = int(high.max()) + 1
    low, high = low + memory * length, high + memory * length
    begin, last, done = when
    # By address or by time, whatever gives fewer pairs to look at.
    by_low = np.argsort(low, kind="stable")
    in_space = np.searchsorted(low[by_low], high[by_low], side="left") - np.arange(1, len(low) + 1)
    by_begin = np.argsort(begin, kind="stable")
    until = np.maximum(last, done)[by_begin]
    in_time = np.searchsorted(begin[by_begin], until, side="right") - np.arange(1, len(low) + 1)
    ordered, count = (by_low, in_space) if in_space.sum() <= in_time.sum() else (by_begin, in_time)
    following = np.arange(1, len(low) + 1)
    for one, index in chunks(following, following + count):
        a, b = ordered[one], ordered[index]
        meet = (memory[a] == memory[b]) & (kinds.write[a] | kinds.write[b])
        meet &= (low[a] < high[b]) & (low[b] < high[a])
        meet &= ((begin[a] < last[b]) & (begin[b] <= done[a])) | ((begin[b] < last[a]) & (begin[a] <= done[b]))
        a, b = a[meet], b[meet]
        for exact in in_batches(kinds, a, b, address[a] - address[b]):
            yield from zip(a[exact].tolist(), b[exact].tolist(), strict=True)


def between_tasks(order: Order, accesses: Accesses, space: Space) -> Iterator[Pairs]:
    """Unordered conflicting pairs of rows of `accesses` of two tasks each."""
    candidates = np.flatnonzero(space.shared[accesses.alloc] & ~space.read_only[accesses.alloc])
    if not len(candidates):
        return
    by_alloc = np.argsort(accesses.alloc[candidates], kind="stable")
    candidates = candidates[by_alloc]
    alloc = accesses.alloc[candidates]
    for rows in np.split(candidates, np.flatnonzero(alloc[1:] != alloc[:-1]) + 1):
        if accesses.write[rows].any():
            task = order.task[order.place[accesses.record[rows]]]
            if (task != task[0]).any():
                yield from _in_allocation(order, accesses, np.sort(rows))


def _in_allocation(order: Order, accesses: Accesses, rows: Integers) -> Iterator[Pairs]:
    place = order.place[accesses.record[rows]]
    task, segment = order.task[place], order.segment[place]
    # What a source line of a task does between two barriers with the same bytes is one access here.
    line = order.line[place]
    same = [task, segment, line, accesses.offset[rows], accesses.geometry[rows], accesses.write[rows]]
    if order.log.joined:
        # A shared copy orders those behind a call of it, and not those before.
        same.append(order.shared_calls[place])
    first, _, _ = alike(*same)
    rows, task, segment = rows[first], task[first], segment[first]
    group = order.group[task]
    for launches in order.cuts_launches():
        mine = np.flatnonzero(np.isin(order.launch[task], launches))
        if len(mine) and accesses.write[rows[mine]].any():
            yield from _across_groups(order, accesses, rows[mine], task[mine], group[mine])
    if len(order.groups) < len(order.log.tasks):
        for some in np.unique(group).tolist():
            mine = np.flatnonzero(group == some)
            if (task[mine] != task[mine[0]]).any() and accesses.write[rows[mine]].any():
                yield from _within_group(order, accesses, rows[mine], task[mine], segment[mine])


def _across_groups(
    order: Order, accesses: Accesses, rows: Integers, task: Integers, group: Integers
) -> Iterator[Pairs]:
    """Pairs of tasks that never meet at a barrier: in the parts that more than one group touches."""
    if (group == group[0]).all():
        return
    some = accesses.where(rows)
    if disjoint(some):
        return
    cells = Cells(some, int(some.high.max()))
    several = cells.count() > 1
    if not several.any():
        return
    contested = cells.mixed(group, several & (cells.count(some.write) > 0))
    kept = np.flatnonzero(cells.touching(contested))
    kept = kept[np.argsort(some.low[kept], kind="stable")]
    if not len(kept):
        return
    low, high = some.low[kept], some.high[kept]
    last = np.searchsorted(low, high, side="left")
    for one, index in chunks(np.arange(1, len(kept) + 1), last):
        a, b = kept[one], kept[index]
        meet = (group[a] != group[b]) & (some.write[a] | some.write[b])
        launch, other = order.launch[task[a]], order.launch[task[b]]
        meet &= (launch == other) | ~order.launches_in_order[launch, other]
        a, b = a[meet], b[meet]
        exact = touching(some, a, b)
        yield earlier_first(rows[a[exact]], rows[b[exact]])


def _within_group(
    order: Order, accesses: Accesses, rows: Integers, task: Integers, segment: Integers
) -> Iterator[Pairs]:
    """Pairs of tasks that meet at barriers: those of segments that no barrier orders."""
    some = accesses.where(rows)
    tasks = np.unique(task).tolist()
    of_task = {one: np.flatnonzero(task == one) for one in tasks}
    for position, one in enumerate(tasks):
        mine = of_task[one]
        for other in tasks[position + 1 :]:
            theirs = of_task[other]
            theirs = theirs[np.argsort(segment[theirs], kind="stable")]
            # Segments of the other that are over before mine begin, and the first one that begins when mine is over.
            over = order.clock_of(one, other)[segment[mine]]
            begins = np.searchsorted(order.clock_of(other, one), segment[mine], side="right")
            first = np.searchsorted(segment[theirs], over, side="left")
            last = np.searchsorted(segment[theirs], begins, side="left")
            for row, index in chunks(first, last):
                a, b = mine[row], theirs[index]
                meet = (some.write[a] | some.write[b]) & (some.low[a] < some.high[b]) & (some.low[b] < some.high[a])
                a, b = a[meet], b[meet]
                exact = touching(some, a, b)
                yield earlier_first(rows[a[exact]], rows[b[exact]])

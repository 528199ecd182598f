"""Pairs of accesses that share bytes, of which one writes, and that nothing orders.

Within a task a window does it: an operation meets those that were issued before it was known to be complete, on other
lanes. Between tasks it is segments between barriers and, where none are, the parts of a tensor that more than one
task touches. Both are pruned by what later syncs have ordered, before any bytes are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mlusim.log import SYNC, Log
from mlusim.verifier.accesses import Accesses
from mlusim.verifier.boxes import Integers, alike, expand, overlap, shared
from mlusim.verifier.cells import Cells
from mlusim.verifier.order import ASYNCHRONOUS_LANES, LANES, Order, in_order

Pairs = tuple[Integers, Integers]

_PAIRS_AT_ONCE = 1 << 21
_SHARED_MEMORIES = ("gdram", "sram")


class Space:
    """Where bytes are the same bytes: by allocation, its space and the address of its first byte there.

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
    """Unordered conflicting pairs of rows of `accesses` of one task each, the earlier first."""
    # Nothing is written to an input.
    some = accesses.where(~space.read_only[accesses.alloc]) if len(accesses) else accesses
    kept = np.flatnonzero(~space.read_only[accesses.alloc]) if len(accesses) else np.empty(0, np.int64)
    place = order.place[some.record]
    by_place = np.argsort(place, kind="stable")
    some, kept, place = some.where(by_place), kept[by_place], place[by_place]
    lane, done = order.lane[place], order.done[place]
    number, address = space.number[some.alloc], space.address[some.alloc]
    low, high = some.low + address, some.high + address
    rows_of = {code: np.flatnonzero(lane == code) for code in range(len(LANES)) if code != SYNC}
    for earlier in ASYNCHRONOUS_LANES:
        mine = rows_of[earlier]
        mine = mine[done[mine] > place[mine]]
        if not len(mine):
            continue
        for later, theirs in rows_of.items():
            if in_order(earlier, later) or not len(theirs):
                continue
            first = np.searchsorted(place[theirs], place[mine], side="right")
            last = np.searchsorted(place[theirs], done[mine], side="right")
            for one, index in _chunks(first, last):
                a, b = mine[one], theirs[index]
                meet = (number[a] == number[b]) & (some.write[a] | some.write[b])
                meet &= (low[a] < high[b]) & (low[b] < high[a])
                a, b = a[meet], b[meet]
                exact = touching(some, a, b, address[a] - address[b])
                yield kept[a[exact]], kept[b[exact]]


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
    first, _, _ = alike(task, segment, line, accesses.offset[rows], accesses.geometry[rows], accesses.write[rows])
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
    for one, index in _chunks(np.arange(1, len(kept) + 1), last):
        a, b = kept[one], kept[index]
        meet = (group[a] != group[b]) & (some.write[a] | some.write[b])
        launch, other = order.launch[task[a]], order.launch[task[b]]
        meet &= (launch == other) | ~order.launches_in_order[launch, other]
        a, b = a[meet], b[meet]
        exact = touching(some, a, b)
        yield _sorted(rows[a[exact]], rows[b[exact]])


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
            for row, index in _chunks(first, last):
                a, b = mine[row], theirs[index]
                meet = (some.write[a] | some.write[b]) & (some.low[a] < some.high[b]) & (some.low[b] < some.high[a])
                a, b = a[meet], b[meet]
                exact = touching(some, a, b)
                yield _sorted(rows[a[exact]], rows[b[exact]])


def touching(accesses: Accesses, a: Integers, b: Integers, delta: Any = 0) -> Integers:
    """Of pairs whose extents overlap, the numbers of those that share a byte.

    Args:
        accesses: the table.
        a, b: rows of it.
        delta: address of the allocation of each of `a` less that of `b`, where these differ.
    """
    if not len(a):
        return a
    one, other = accesses.geometry[a], accesses.geometry[b]
    apart = accesses.offset[a] - accesses.offset[b] + delta
    first, kind, _ = alike(one, other, apart)
    geometries = accesses.geometries
    places = zip(one[first].tolist(), other[first].tolist(), apart[first].tolist(), strict=True)
    hit = [overlap(geometries[mine], between, geometries[theirs], 0) for mine, theirs, between in places]
    return np.flatnonzero(np.array(hit, bool)[kind])


def shared_bytes(accesses: Accesses, a: int, b: int, delta: int = 0) -> Pairs:
    """Runs of bytes that two rows share, as offsets in the allocation of `a`; `delta` as in `touching`."""
    one, offset = accesses.of(a)
    other, other_offset = accesses.of(b)
    return shared(one, offset, other, other_offset - delta)


def _chunks(first: Integers, last: Integers) -> Iterator[Pairs]:
    """`boxes.expand`, a few million pairs at a time."""
    counts = np.maximum(last - first, 0)
    total = np.cumsum(counts)
    if not len(total) or not total[-1]:
        return
    begin = 0
    while begin < len(counts):
        before = int(total[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(total, before + _PAIRS_AT_ONCE, side="right")), begin + 1)
        rows, index = expand(first[begin:end], last[begin:end])
        if len(rows):
            yield rows + begin, index
        begin = end


def _sorted(a: Integers, b: Integers) -> Pairs:
    """The earlier row first."""
    return np.minimum(a, b), np.maximum(a, b)

"""The operations that a search through marked allocations examines, in log order.

Loops repeat the same calls on the same buffers. A call that has changed no marks changes none as long as the marks of
its operands stay the same. So the operations of an allocation are examined until all the distinct calls among them have
changed nothing, and again once its marks have changed.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterable

import numpy as np

from mlusim.arrays import Integers


class _Walk:
    """The operations of one allocation.

    Attributes:
        records, calls: the operations, and the number of the call that each of them is.
        is_last: whether it is the last one of its call.
        calls_left: the number of distinct calls after it.
        position: the operation that is examined next.
        settled: calls that have changed nothing since the marks of the allocation have last changed.
        asleep: whether none is examined until they change again.
    """

    __slots__ = ("asleep", "calls", "calls_left", "is_last", "position", "records", "settled")

    def __init__(self, records: Integers, calls: Integers) -> None:
        last = len(calls) - 1 - np.unique(calls[::-1], return_index=True)[1]
        is_last = np.zeros(len(calls), bool)
        is_last[last] = True
        # Memory views return Python integers, one at a time, at a tenth of the cost of array elements.
        self.records = records.data
        self.calls = calls.data
        self.is_last = is_last.data
        self.calls_left = (len(last) - np.cumsum(is_last)).data
        self.position = 0
        self.settled: set[int] = set()
        self.asleep = True


class Agenda:
    """The operations to be examined.

    Args:
        records: operations that are examined in any case.
        operations: returns the operations of an allocation, and the number of the call that each of them is.

    Attributes:
        present: the operation that is examined.
    """

    def __init__(self, records: Iterable[int], operations: Callable[[int], tuple[Integers, Integers]]) -> None:
        # The next operation of each allocation whose operations are examined; -1 stands for `records`.
        self._queue = [(record, -1) for record in records]
        heapq.heapify(self._queue)
        self._walks: dict[int, _Walk] = {}
        self._operations = operations
        self.present = -1
        self._allocs: list[int] = []

    def next(self) -> int | None:
        """Return the next operation, or None at the end."""
        while self._queue:
            self.present = self._queue[0][0]
            self._allocs.clear()
            while self._queue and self._queue[0][0] == self.present:
                alloc = heapq.heappop(self._queue)[1]
                if self._is_due(alloc) and alloc not in self._allocs:
                    self._allocs.append(alloc)
            if self._allocs:
                return self.present
        return None

    def _is_due(self, alloc: int) -> bool:
        """Return whether a walk is still at the present operation: it goes back when its marks change."""
        if alloc < 0:
            return True
        walk = self._walks[alloc]
        return not walk.asleep and walk.records[walk.position] == self.present

    def add(self, alloc: int) -> None:
        """Examine operations of an allocation: those after the present one."""
        records, calls = self._operations(alloc)
        begin = int(np.searchsorted(records, self.present, side="right"))
        self._walks[alloc] = walk = _Walk(records[begin:], calls[begin:])
        self._wake(alloc, walk)

    def changed(self, alloc: int) -> None:
        """Note that the present operation has changed marks of an allocation that was added."""
        walk = self._walks[alloc]
        walk.settled.clear()
        if alloc not in self._allocs:
            self._wake(alloc, walk)

    def examined(self, *, settled: bool) -> None:
        """Go on from the present operation; `settled` says whether the same call would change nothing again."""
        for alloc in self._allocs:
            if alloc < 0:
                continue
            walk = self._walks[alloc]
            position, walk.position = walk.position, walk.position + 1
            if settled and not walk.is_last[position]:
                walk.settled.add(walk.calls[position])
            else:
                walk.settled.discard(walk.calls[position])
            walk.asleep = len(walk.settled) == walk.calls_left[position]
            while not walk.asleep and walk.calls[walk.position] in walk.settled:
                if walk.is_last[walk.position]:
                    walk.settled.discard(walk.calls[walk.position])
                walk.position += 1
            if not walk.asleep:
                heapq.heappush(self._queue, (walk.records[walk.position], alloc))

    def _wake(self, alloc: int, walk: _Walk) -> None:
        position = bisect_right(walk.records, self.present)
        if position == walk.position and not walk.asleep:
            return
        walk.position = position
        walk.asleep = position == len(walk.records)
        if not walk.asleep:
            heapq.heappush(self._queue, (walk.records[walk.position], alloc))

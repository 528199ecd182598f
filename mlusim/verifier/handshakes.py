"""Handshakes: the order between tasks that atomics give where a task looks at what it got back.

A producer stores its data and then counts a flag up by an atomic; a consumer fetches the flag until it has the value
that it waits for, and then reads the data. Three rules make this an order. Atomics on the same bytes take effect one
after another. An atomic begins when everything before it in its core is done, but for posted stores. And where scalar
code reads the old value that an atomic gave back, the task knows which atomics came before.

The order of the atomics is that of the run, so a task that reads the old value and does not heed it is not seen. Where
nobody reads it, the atomic orders nothing. Knowledge passes on: through further handshakes, and through barriers before
the first atomic of a chain and behind the last.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np

from mlusim.cores.global_memory import ATOMIC_NAMES, FETCHING
from mlusim.log import NONE, SCALAR, Log
from mlusim.verifier.accesses import Accesses
from mlusim.verifier.boxes import Integers
from mlusim.verifier.lanes import in_order
from mlusim.verifier.order import Order

# By task, the place of the last atomic of it that is known to have taken effect.
Knowledge = dict[int, int]


@dataclass(slots=True)
class _Acquired:
    """What a task has learned from atomics: from each place on, all that it knows then."""

    places: list[int] = field(default_factory=list)
    known: list[Knowledge] = field(default_factory=list)

    def before(self, place: int) -> Knowledge:
        """What is known to operations that begin at a place."""
        count = bisect_left(self.places, place)
        return self.known[count - 1] if count else {}


class Handshakes:
    """The handshakes of one log.

    Args:
        log, columns, accesses, order: of the run.
    """

    def __init__(self, log: Log, columns: dict[str, Integers], accesses: Accesses, order: Order) -> None:
        self._order = order
        self._accesses = accesses
        self._columns = columns
        self._acquired: dict[int, _Acquired] = {}
        atomic = np.array([name in ATOMIC_NAMES for name in log.ops], bool)
        fetching = np.array([name in FETCHING for name in log.ops], bool)
        records = np.flatnonzero(atomic[columns["op"]] & (columns["end_ps"] >= 0))
        if not fetching[columns["op"][records]].any():
            return
        self._learn(log, records[np.lexsort((records, columns["end_ps"][records]))], fetching)

    def __bool__(self) -> bool:
        """Whether any task has learned anything."""
        return bool(self._acquired)

    def orders(self, first: int, second: int) -> bool:
        """Whether the operation at a place is complete before one of another task begins, by handshakes."""
        order = self._order
        for task, acquired in self._acquired.items():
            for other, atomic in acquired.before(self._last_known(task, second)).items():
                if other == order.task[first]:
                    done = order.done[first] < atomic or in_order(int(order.lane[first]), int(order.lane[atomic]))
                    if first < atomic and done:
                        return True
                elif order.before(first, atomic):
                    return True
        return False

    def _last_known(self, task: int, place: int) -> int:
        """The first place of a task that is not known to be over when the operation at `place` begins."""
        order = self._order
        mine = int(order.task[place])
        if task == mine:
            return place
        if order.group[task] != order.group[mine] or order.launch[task] != order.launch[mine]:
            return NONE
        over = int(order.clock_of(mine, task)[order.segment[place]])
        first, last = int(order.first[task]), int(order.first[task + 1])
        return first + int(np.searchsorted(order.segment[first:last], over, side="left"))

    def _learn(self, log: Log, atomics: Integers, fetching: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        """Follow the atomics in the order in which they took effect."""
        columns, order = self._columns, self._order
        # By target: what the atomics on it so far have told.
        told: dict[tuple[int, int, int], Knowledge] = {}
        waiting: dict[int, list[tuple[int, Knowledge]]] = {}
        for record in atomics.tolist():
            place = int(order.place[record])
            task = int(order.task[place])
            target = tuple(int(columns[f"dst_{part}"][record]) for part in ("alloc", "offset", "box"))
            before = told.setdefault(target, {})  # type: ignore[arg-type]
            # Places of one task rise, and so do those at which it has looked.
            looks = waiting.setdefault(task, [])
            while looks and looks[0][0] < place:
                self._acquire(task, *looks.pop(0))
            if before and fetching[columns["op"][record]]:
                look = self._look(log, record, place)
                if look != NONE:
                    looks.append((look, dict(before)))
            _join(before, self._acquired.get(task, _Acquired()).before(place))
            before[task] = max(before.get(task, NONE), place)
        for task, looks in waiting.items():
            for look, known in looks:
                self._acquire(task, look, known)

    def _acquire(self, task: int, look: int, known: Knowledge) -> None:
        acquired = self._acquired.setdefault(task, _Acquired())
        joined = dict(acquired.known[-1]) if acquired.known else {}
        _join(joined, known)
        acquired.places.append(look)
        acquired.known.append(joined)

    def _look(self, log: Log, record: int, place: int) -> int:
        """The place at which scalar code of its task reads what an atomic gave back; NONE where none does."""
        old = log.more_operands.get(record, [])
        if not old:
            # Given back to a register.
            return place
        accesses, order = self._accesses, self._order
        rows = np.flatnonzero(accesses.alloc == old[0][0])
        written = rows[(accesses.record[rows] == record) & accesses.write[rows]]
        if not len(written):
            return NONE
        places = order.place[accesses.record[rows]]
        later = (places > place) & (order.task[places] == order.task[place])
        later &= (accesses.low[rows] < accesses.high[written[0]]) & (accesses.high[rows] > accesses.low[written[0]])
        mine = rows[later]
        for row in mine[np.argsort(order.place[accesses.record[mine]], kind="stable")].tolist():
            if accesses.write[row]:
                return NONE
            if order.lane[order.place[accesses.record[row]]] == SCALAR:
                return int(order.place[accesses.record[row]])
        return NONE


def _join(one: Knowledge, other: Knowledge) -> None:
    for task, place in other.items():
        one[task] = max(one.get(task, NONE), place)

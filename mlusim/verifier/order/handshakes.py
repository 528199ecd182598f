"""Handshakes: the order between tasks established by atomics whose old value a task reads.

A producer stores its data and then increments a flag with an atomic; a consumer fetches the flag until it has the
expected value, and then reads the data. Three rules make this an order. Atomics on the same bytes take effect one after
another. An atomic starts when everything before it in its core has completed, except posted stores. Once scalar code
reads the old value returned by an atomic, the task knows which atomics came before.

Atomics are ordered as in the run, so a task that reads the old value but ignores it is not detected. If no task reads
the old value, the atomic orders nothing. The order is transitive: through further handshakes, and through barriers
before the first atomic of a chain and after the last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.cores.atomics import ATOMIC_NAMES, FETCHING
from mlusim.log import NONE, SCALAR
from mlusim.log_tables import Box
from mlusim.verifier.accesses.geometry import geometry_of
from mlusim.verifier.columns import ops_among
from mlusim.verifier.order.lanes import in_order

if TYPE_CHECKING:
    from mlusim.verifier.run import Run

# By task, the position of its last atomic that is known to have taken effect.
Knowledge = dict[int, int]


@dataclass(slots=True)
class _Acquired:
    """The knowledge that a task has acquired through atomics: cumulative, from each position on."""

    positions: list[int] = field(default_factory=list)
    known: list[Knowledge] = field(default_factory=list)

    def before(self, position: int) -> Knowledge:
        """Return the knowledge available to operations that start at a position."""
        count = bisect_left(self.positions, position)
        return self.known[count - 1] if count else {}


class Handshakes:
    """The handshakes of one run."""

    def __init__(self, run: Run) -> None:
        log, columns = run.log, run.columns
        self._run = run
        self._acquired: dict[int, _Acquired] = {}
        self._uses: dict[int, tuple[Integers, Integers]] = {}
        fetching = ops_among(log, FETCHING)
        records = np.flatnonzero(ops_among(log, ATOMIC_NAMES)[columns["op"]] & (columns["end_ps"] >= 0))
        if not fetching[columns["op"][records]].any():
            return
        self._learn(records[np.lexsort((records, columns["end_ps"][records]))], fetching)

    def __bool__(self) -> bool:
        """Return whether any task has acquired knowledge."""
        return bool(self._acquired)

    def orders(self, first: int, second: int) -> bool:
        """Return whether handshakes order the operation at `first` before one of another task at `second`."""
        order = self._run.order
        for task, acquired in self._acquired.items():
            for other, atomic in acquired.before(self._last_known(task, second)).items():
                if other == order.task[first]:
                    is_complete = order.done[first] < atomic or in_order(
                        int(order.lane[first]), int(order.lane[atomic])
                    )
                    if first == atomic or (first < atomic and is_complete):
                        return True
                elif order.before(first, atomic):
                    return True
        return False

    def known_tasks(self, position: int) -> set[int]:
        """Return the tasks whose atomics have told the task of a position something before."""
        task = int(self._run.order.task[position])
        return {*self._acquired.get(task, _Acquired()).before(position)} - {task}

    def is_used(self, position: int) -> bool:
        """Return whether scalar code reads the old value of an atomic."""
        return self._first_use(int(self._run.order.record[position]), position) != NONE

    def _last_known(self, task: int, position: int) -> int:
        """Return the first position of a task that may not be complete when the operation at `position` starts."""
        order = self._run.order
        own_task = int(order.task[position])
        if task == own_task:
            return position
        launch, own_launch = int(order.launch[task]), int(order.launch[own_task])
        if launch < own_launch and order.launches_in_order(launch, own_launch):
            return int(order.first[task + 1])
        if order.group[task] != order.group[own_task] or launch != own_launch:
            return NONE
        completed_segments = int(order.clock_of(own_task, task)[order.segment[position]])
        positions = order.of_task(task)
        return int(positions.start) + int(np.searchsorted(order.segment[positions], completed_segments, side="left"))

    def _learn(self, atomics: Integers, fetching: Flags) -> None:
        """Process the atomics in the order in which they took effect."""
        log, columns, order = self._run.log, self._run.columns, self._run.order
        # By target, the knowledge carried by the atomics on it so far.
        known_by_target: dict[tuple[Any, ...], Knowledge] = {}
        waiting: dict[int, deque[tuple[int, Knowledge]]] = {}
        for record in atomics.tolist():
            position = int(order.position[record])
            task = int(order.task[position])
            alloc, offset, box = (int(columns[f"dst_{part}"][record]) for part in ("alloc", "offset", "box"))
            # The same bytes may be an element, or a view of one.
            target = alloc, offset, _bytes_of(log.boxes[box])
            known_before = known_by_target.setdefault(target, {})
            # Positions within a task ascend, and so do those of its acquisitions.
            acquisitions = waiting.setdefault(task, deque())
            while acquisitions and acquisitions[0][0] < position:
                self._acquire(task, *acquisitions.popleft())
            if known_before and fetching[columns["op"][record]]:
                use = self._first_use(record, position)
                if use != NONE:
                    acquisitions.append((use, dict(known_before)))
            _join(known_before, self._acquired.get(task, _Acquired()).before(position))
            known_before[task] = max(known_before.get(task, NONE), position)
        for task, acquisitions in waiting.items():
            for use, known in acquisitions:
                self._acquire(task, use, known)

    def _acquire(self, task: int, use: int, known: Knowledge) -> None:
        acquired = self._acquired.setdefault(task, _Acquired())
        merged = dict(acquired.known[-1]) if acquired.known else {}
        _join(merged, known)
        acquired.positions.append(use)
        acquired.known.append(merged)

    def _first_use(self, record: int, position: int) -> int:
        """Return the position at which scalar code of the task reads an atomic's old value; NONE if none does."""
        old = self._run.log.more_operands.get(record, [])
        if not old:
            # The old value is returned in a register.
            return position
        accesses, order = self._run.accesses, self._run.order
        rows, positions = self._uses_of(int(old[0][0]))
        first, last = np.searchsorted(positions, [position, position + 1]).tolist()
        written_rows = [row for row in rows[first:last].tolist() if accesses.write[row]]
        if not written_rows:
            return NONE
        low, high = accesses.low[written_rows[0]], accesses.high[written_rows[0]]
        for index in range(last, len(rows)):
            row, use = int(rows[index]), int(positions[index])
            if order.task[use] != order.task[position]:
                return NONE
            if accesses.low[row] >= high or accesses.high[row] <= low:
                continue
            if accesses.write[row]:
                return NONE
            if order.lane[use] == SCALAR:
                return use
        return NONE

    def _uses_of(self, alloc: int) -> tuple[Integers, Integers]:
        """Return the accesses to an allocation by position, and their positions."""
        uses = self._uses.get(alloc)
        if uses is None:
            accesses = self._run.accesses
            rows = np.flatnonzero(accesses.alloc == alloc)
            positions = self._run.order.position[accesses.record[rows]]
            by_position = np.argsort(positions, kind="stable")
            uses = self._uses[alloc] = rows[by_position], positions[by_position]
        return uses


@lru_cache(maxsize=1 << 10)
def _bytes_of(box: Box) -> tuple[Any, ...]:
    geometry = geometry_of(box)
    return () if geometry is None else (geometry.start, geometry.run, geometry.loops)


def _join(one: Knowledge, other: Knowledge) -> None:
    for task, position in other.items():
        one[task] = max(one.get(task, NONE), position)

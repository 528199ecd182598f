"""Happens-before over a log: what is complete before what begins, by the hardware's rules and never by the clock.

The rules (HARDWARE: the machine, BANG C semantics):
- a task issues in program order; an operation begins after it was issued;
- each pipe is in order; pipes have no order among them; an asynchronous copy within NRAM is in the vector pipe;
- what an instruction waits for, whether it blocks its task and whether it is posted, `mlusim.cores.ordering` says;
- a sync completes, before what follows, everything on the pipes that it names; only the full one waits for posted
  stores;
- a barrier is a full sync of every participant, and orders what each did before it before what any does after it;
- a copy between GDRAM and SRAM runs on the memory core's engine, whoever issues it: in order with those of the same
  task, and complete for every task that takes part in it when that task's own call is;
- launches of one queue are in order, and so are those on both sides of a wait of the host;
- tasks of a launch have no order but through barriers: not BLOCK tasks that share a core, not the jobs of a grid.

Everything works on *places*: the records sorted by task, each task's in program order.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

import numpy as np

from mlusim.cores.locks import LOCK_NAMES, SHIFT
from mlusim.cores.ordering import MOVE_PIPE, VECTOR_PIPE
from mlusim.cores.syncs import BARRIERS
from mlusim.log import NONE, SCALAR, SYNC, VECTOR, Log
from mlusim.memory.kinds import DIRECTION_CODES, Direction
from mlusim.verifier.accesses import Accesses
from mlusim.verifier.boxes import Integers
from mlusim.verifier.lanes import ASYNCHRONOUS_LANES, POSTED, Flags, in_order, lanes_of, ordering_classes

# Instructions that take offsets and masks when they are issued (`mlusim.cores.row_copies`).
BY_OFFSETS = ("gather", "scatter")


class Order:
    """Happens-before over the records of a log.

    Args:
        log: of a run, complete or not.
        columns: `log.columns()`.
        without: source lines (numbers) of syncs to leave out: what would be ordered without them?

    Attributes:
        place: by record, where it stands.
        record: by place, the record.
        task, op, lane: by place.
        done: by place, the place behind which the operation is known to be complete; the task's last one where nothing
            but its end waits for it.
        awaited: by place, whether anything in its task waits for it.
        waiter: by place, the place of what waits for it: the first one that does not begin, or is complete, before it.
        segment: by place, barriers that its task has passed.
    """

    def __init__(self, log: Log, columns: dict[str, Integers], without: Collection[int] = ()) -> None:
        self.log = log
        self._columns = columns
        task = columns["task"]
        self.record: Integers = np.argsort(task, kind="stable")
        self.place: Integers = np.empty_like(self.record)
        self.place[self.record] = np.arange(len(task))
        self.task = task[self.record]
        tasks = len(log.tasks)
        self.first = np.searchsorted(self.task, np.arange(tasks + 1))
        self.line = columns["line"][self.record]
        op, pipe = columns["op"][self.record], columns["pipe"][self.record]
        self.op: Integers = op
        self.detail = columns["detail"][self.record]
        self.is_sync: Flags = pipe == SYNC
        self.left_out: Flags = self.is_sync & np.isin(self.line, list(without))
        launch_of_task = np.array([record.launch for record in log.tasks], np.int64)
        union = np.array([record.kind != "BLOCK" for record in log.launches], bool)
        barriers = [log.ops.index(name) for name in BARRIERS if name in log.ops]
        self.is_barrier: Flags = np.isin(op, barriers) & union[launch_of_task[self.task]] if len(task) else self.is_sync
        classes, kind = ordering_classes(log, columns)
        self.lane = lanes_of(log, columns, np.array([one.posted for one in classes], bool)[kind])[self.record]
        kind = kind[self.record]
        self.blocks: Flags = np.array([one.blocks for one in classes], bool)[kind] & ~self.is_sync
        self._waits_for: Integers = np.array([one.waits_for for one in classes], np.int64)[kind]
        self.awaited: Flags = self.is_sync | self.blocks
        self.done, self.waiter = self._done()

    def _done(self) -> tuple[Integers, Integers]:
        places = np.arange(len(self.task))
        last = self.first[self.task + 1] - 1
        done = np.where(self.is_sync | self.blocks, places, last)
        waiter = done.copy()
        waits = self.is_sync & ~self.left_out
        full = waits & self.is_barrier
        copies = self._columns["direction"][self.record] == DIRECTION_CODES[Direction.NRAM2NRAM]
        streamed = (self.lane == VECTOR) & copies
        for lane, bits, also in (
            *((lane, bits, 0) for lane, bits in ASYNCHRONOUS_LANES.items()),
            # Copies within NRAM: `sync_move` waits for them too.
            (VECTOR, VECTOR_PIPE, MOVE_PIPE),
        ):
            mine = np.flatnonzero((self.lane == lane) & ~self.is_sync & ~self.blocks & (streamed if also else True))
            if not len(mine):
                continue
            named = waits & ~self.is_barrier & (((self.detail & bits) == bits) | ((self.detail & also) != 0))
            for waiters, known in (
                (full | named | ((self.lane == lane) & self.blocks), 0),
                # What waits for pipes before it begins finds them idle, as the operation behind a sync does.
                (~self.is_sync & ((self._waits_for & bits) == bits) & (lane != POSTED), -1),
            ):
                there = np.flatnonzero(waiters)
                found = np.append(there, len(self.task))[np.searchsorted(there, mine, side="right")]
                done[mine] = np.minimum(done[mine], found + known)
                waiter[mine] = np.minimum(waiter[mine], found)
                self.awaited[mine] |= found <= last[mine]
        return done, waiter

    @cached_property
    def _calls(self) -> dict[tuple[int, int], int]:
        """By copy of the memory core and task: the place of the task's call that takes part in it."""
        places = {call: int(self.place[call]) for call in self.log.joined}
        return {(copy, int(self.task[places[call]])): places[call] for call, copy in self.log.joined.items()}

    def lanes_of(self, accesses: Accesses) -> Integers:
        """By access, the lane on which it happens: its operation's, or the scalar pipe's for what is taken at issue."""
        lane: Integers = self.lane[self.place[accesses.record]]
        codes = [code for code, name in enumerate(self.log.ops) if name in BY_OFFSETS]
        if codes:
            op, alloc, offset = (self._columns[name][accesses.record] for name in ("op", "a_alloc", "a_offset"))
            is_source = (accesses.alloc == alloc) & (accesses.offset == offset)
            lane = np.where(np.isin(op, codes) & ~accesses.write & ~is_source, SCALAR, lane)
        return lane

    @cached_property
    def locks_held(self) -> Integers:
        """By place, the locks that the task holds, a bit for each; of more than 63 numbers only the first."""
        held: Integers = np.zeros(len(self.task), np.int64)
        ops = [self.log.ops.index(name) if name in self.log.ops else NONE for name in LOCK_NAMES]
        calls = [np.flatnonzero(self.op == op) for op in ops]
        numbers = np.unique(self.detail[calls[0]] >> SHIFT)[:63]
        for bit, number in enumerate(numbers.tolist()):
            change: Integers = np.zeros(len(self.task) + 1, np.int64)
            for sign, places in zip((1, -1), calls, strict=True):
                change[places[self.detail[places] >> SHIFT == number]] += sign
            total = np.cumsum(change)[:-1]
            before = np.concatenate(([0], total))[self.first[self.task]]
            held |= ((total - before) > 0).astype(np.int64) << bit
        return held

    @cached_property
    def shared_calls(self) -> Integers:
        """By place, a number that places of a task have in common which no call of a shared copy parts, nor is one."""
        shared = np.zeros(len(self.task), np.int64)
        shared[self.place[sorted({*self.log.joined, *self.log.joined.values()})]] = 1
        counted: Integers = 2 * np.cumsum(shared) - shared
        return counted

    @cached_property
    def segment(self) -> Integers:
        """By place, barriers that its task has passed."""
        passed = np.concatenate(([0], np.cumsum(self.is_barrier & ~self.left_out)))
        return passed[:-1] - passed[self.first[self.task]]

    @cached_property
    def segment_row(self) -> Integers:
        """(tasks + 1,) first row of each task in `clock`: a row for each of its segments."""
        barriers = np.bincount(self.task[self.is_barrier & ~self.left_out], minlength=len(self.log.tasks))
        return np.concatenate(([0], np.cumsum(barriers + 1)))

    @cached_property
    def _groups(self) -> tuple[Integers, Integers, list[list[int]]]:
        """By task: its group of tasks that share barriers, and its number in it; and the groups."""
        tasks = len(self.log.tasks)
        root = list(range(tasks))

        def find(task: int) -> int:
            while root[task] != task:
                root[task] = root[root[task]]
                task = root[task]
            return task

        for _, places in self.rounds:
            first = find(int(self.task[places[0]]))
            for place in places[1:]:
                root[find(int(self.task[place]))] = first
        members: dict[int, list[int]] = {}
        for task in range(tasks):
            members.setdefault(find(task), []).append(task)
        group, number = np.empty(tasks, np.int64), np.empty(tasks, np.int64)
        for index, some in enumerate(members.values()):
            group[some] = index
            number[some] = np.arange(len(some))
        return group, number, list(members.values())

    @property
    def group(self) -> Integers:
        """By task, a number that tasks have in common which meet at barriers."""
        return self._groups[0]

    @property
    def groups(self) -> list[list[int]]:
        """Tasks by group."""
        return self._groups[2]

    @cached_property
    def rounds(self) -> list[tuple[int, Integers]]:
        """Barrier rounds: number and the places of those who met, in the order in which the rounds ended."""
        places = np.flatnonzero(self.is_barrier & ~self.left_out)
        if not len(places):
            return []
        number = self.detail[places]
        order = np.lexsort((self.record[places], number))
        places, number = places[order], number[order]
        starts = np.flatnonzero(np.concatenate(([True], number[1:] != number[:-1])))
        some = np.split(places, starts[1:])
        last = np.array([self.record[part[-1]] for part in some])
        return [(int(number[starts[index]]), some[index]) for index in np.argsort(last, kind="stable")]

    @cached_property
    def clocks(self) -> list[Integers]:
        """By group: (segments of all its tasks, tasks): how many segments of each task are over before one begins."""
        group, number, groups = self._groups
        clocks = []
        base: Integers = np.zeros(len(self.log.tasks), np.int64)
        lengths = np.diff(self.segment_row)
        for some in groups:
            base[some] = np.cumsum(lengths[some]) - lengths[some]
            clocks.append(np.zeros((int(lengths[some].sum()), len(some)), np.int64))
        self._base = base
        for _, places in self.rounds:
            tasks = self.task[places]
            clock = clocks[group[tasks[0]]]
            segments = self.segment[places]
            rows = base[tasks] + segments
            known = clock[rows].max(axis=0)
            known[number[tasks]] = segments + 1
            clock[rows + 1] = known
        return clocks

    def clock_of(self, task: int, of: int) -> Integers:
        """By segment of `task`: how many segments of the task `of`, of the same group, are over before it begins."""
        group, number, _ = self._groups
        clock = self.clocks[int(group[task])]
        begin = int(self._base[task])
        length = int(self.segment_row[task + 1] - self.segment_row[task])
        return clock[begin : begin + length, int(number[of])]

    @cached_property
    def launch(self) -> Integers:
        """By task, its launch."""
        return np.array([record.launch for record in self.log.tasks], np.int64)

    @cached_property
    def launches_in_order(self) -> Flags:
        """(launches, launches): whether one is over before the other begins, in either direction, or is the other."""
        queue = np.array([record.queue for record in self.log.launches], np.int64)
        waits = np.searchsorted(np.array(self.log.host_waits, np.int64), np.arange(len(queue)), side="right")
        ordered: Flags = (queue[:, None] == queue) | (waits[:, None] != waits)
        return ordered

    def before(self, one: int, other: int) -> bool:
        """Whether the operation at a place is complete before another begins, by the rules above."""
        first, second = int(self.task[one]), int(self.task[other])
        if first == second:
            return one < other and bool(self.done[one] < other or in_order(int(self.lane[one]), int(self.lane[other])))
        launches = int(self.launch[first]), int(self.launch[second])
        if launches[0] != launches[1]:
            return launches[0] < launches[1] and bool(self.launches_in_order[launches])
        call = self._calls.get((int(self.record[one]), second))
        # The call is as its own copy would be: complete for what waits for it, in order with those behind it.
        if (call is not None and call < other) and (
            self.done[call] < other or in_order(int(self.lane[call]), int(self.lane[other]))
        ):
            return True
        if self.group[first] != self.group[second]:
            return False
        return int(self.clock_of(second, first)[self.segment[other]]) > int(self.segment[one])

    def cuts_launches(self) -> list[list[int]]:
        """Launches in sets such that those of different sets are in order."""
        sets: list[list[int]] = []
        ordered = self.launches_in_order
        for launch in range(len(self.log.launches)):
            joined = [some for some in sets if not ordered[launch, some].all()]
            for some in joined:
                sets.remove(some)
            sets.append(sorted([launch, *(other for some in joined for other in some)]))
        return sets

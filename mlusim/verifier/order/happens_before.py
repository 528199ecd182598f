"""The happens-before relation of a log, by the rules of the hardware and never by the simulated clock.

The rules (docs/semantics.md):
- a task issues in program order; an operation starts after it was issued;
- each pipe is in order; pipes are unordered among each other; an asynchronous copy within NRAM is in the vector pipe;
- `cores.synchronisation.ordering` defines what an instruction waits for, whether it blocks its task and whether it is
  posted;
- a sync completes everything on the pipes that it names before anything after it; only the full sync waits for posted
  stores;
- a barrier is a full sync of every participant, and orders everything before it in any task before everything after it
  in any other;
- a copy between GDRAM and SRAM runs on the memory core's engine, whichever core issues it: in order with those of the
  same task, and complete for every participating task when that task's own call is;
- launches on one queue are in order, and so are launches before and after a wait by the host;
- tasks of a launch are unordered except through barriers, including BLOCK tasks that share a core and the jobs of a
  grid.

All computations use *positions*: indices into the records sorted by task, each task's records in program order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.cores.synchronisation.locks import LOCK_NAMES, lock_number
from mlusim.cores.synchronisation.ordering import MOVE_PIPE, VECTOR_PIPE
from mlusim.log import NONE, SCALAR, SYNC, VECTOR, Log
from mlusim.memory.kinds import DIRECTION_CODES, Direction
from mlusim.verifier.accesses.geometry import group_rows
from mlusim.verifier.accesses.table import Accesses
from mlusim.verifier.columns import joint, narrow, ops_among
from mlusim.verifier.order.lanes import ASYNCHRONOUS_LANES, POSTED, in_order, lanes_of, ordering_classes

# Instructions whose offsets and masks are read at issue (`mlusim.cores.counted.row_copies`).
BY_OFFSETS = ("gather", "scatter")


class Order:
    """The happens-before relation over the records of a log.

    Args:
        log: the log of a run, complete or not.
        columns: `log.columns()`.

    Attributes:
        position: by record, its position.
        record: by position, the record.
        task_of, op_of, line_of: by record, the columns of the log.
        task, op, line: by position, the columns of the log.
        pipes: by position, the pipes that a sync waits for, as bits.
        lane: by position, its lane (`mlusim.verifier.order.lanes`).
        first: (tasks + 1,) the first position of each task, and the number of positions.
        is_sync, is_barrier: by position, whether it is one; in BLOCK tasks, barriers are only syncs.
        blocks: by position, whether an instruction other than a sync blocks its task.
        left_out: by position, whether it is a sync that orders nothing here (`without`).
        done: by position, the position after which the operation is known to be complete; the task's last position if
            only its end waits for the operation.
        awaited: by position, whether anything in the task waits for it.
        waiter: by position, the position of the first operation that waits for it, before starting or before
            completing.
        segment: by position, the number of barriers that its task has passed.
    """

    def __init__(self, log: Log, columns: dict[str, Integers]) -> None:
        self.log = log
        self._columns = columns
        task = columns["task"]
        self.record: Integers = narrow(np.argsort(task, kind="stable"))
        self.position: Integers = np.empty_like(self.record)
        self.position[self.record] = np.arange(len(task), dtype=self.record.dtype)
        self.task = task[self.record]
        self.task_of, self.op_of, self.line_of = task, columns["op"], columns["line"]
        tasks = len(log.tasks)
        self.first = np.searchsorted(self.task, np.arange(tasks + 1))
        self.line = columns["line"][self.record]
        op, pipe = columns["op"][self.record], columns["pipe"][self.record]
        self.op: Integers = op
        self._detail = columns["detail"][self.record]
        self.pipes: Integers = self._detail
        self.is_sync: Flags = pipe == SYNC
        self.left_out: Flags = np.zeros(len(task), bool)
        launch_of_task = np.array([record.launch for record in log.tasks], np.int64)
        union = np.array([record.kind != "BLOCK" for record in log.launches], bool)
        barriers = ops_among(log, BARRIERS)
        self.is_barrier: Flags = barriers[op] & union[launch_of_task[self.task]] if len(task) else self.is_sync
        classes, kind = ordering_classes(log, columns)
        self.lane = lanes_of(log, columns, np.array([entry.posted for entry in classes], bool)[kind])[self.record]
        kind = kind[self.record]
        self.blocks: Flags = np.array([entry.blocks for entry in classes], bool)[kind] & ~self.is_sync
        self._waits_for: Integers = narrow(np.array([entry.waits_for for entry in classes], np.int64))[kind]
        self.awaited, self.done, self.waiter = self._waits()

    def without(self, lines: Collection[int]) -> Order:
        """Return the order without the syncs of some source lines (indices), to find out what they order."""
        order = copy(self)
        for name in [*vars(order)]:
            if isinstance(getattr(Order, name, None), cached_property):
                delattr(order, name)
        order.left_out = self.is_sync & np.isin(self.line, list(lines))
        order.awaited, order.done, order.waiter = order._waits()  # noqa: SLF001 - an order of its own
        return order

    def _waits(self) -> tuple[Flags, Integers, Integers]:
        """Return `awaited`, `done` and `waiter`."""
        awaited = self.is_sync | self.blocks
        last_of_task = narrow(self.first - 1)[1:][self.task]
        done = last_of_task.copy()
        done[awaited] = np.flatnonzero(awaited)
        waiter = done.copy()
        waits = self.is_sync & ~self.left_out
        full = waits & self.is_barrier
        copies = self._columns["direction"][self.record] == DIRECTION_CODES[Direction.NRAM2NRAM]
        streamed = (self.lane == VECTOR) & copies
        by_pipes = ops_among(self.log, ("sync_io_move_compute",))[self.op]
        for lane, bits, move_bits in (
            *((lane, bits, 0) for lane, bits in ASYNCHRONOUS_LANES.items()),
            # `sync_move` also waits for copies within NRAM.
            (VECTOR, VECTOR_PIPE, MOVE_PIPE),
        ):
            pending = np.flatnonzero(
                (self.lane == lane) & ~self.is_sync & ~self.blocks & (streamed if move_bits else True)
            )
            if not len(pending):
                continue
            syncs = waits & ~self.is_barrier & (((self.pipes & bits) == bits) | ((self.pipes & move_bits) != 0))
            if lane == POSTED:
                # Naming all pipes is not the full sync: posted stores are in none of them.
                syncs &= ~by_pipes
            for waiters, offset in (
                (full | syncs | ((self.lane == lane) & self.blocks), 0),
                # An operation that waits for a pipe before it starts finds the pipe idle, like one after a sync.
                (~self.is_sync & ((self._waits_for & bits) == bits) & (lane != POSTED), -1),
            ):
                candidates = np.flatnonzero(waiters)
                next_waiter = np.append(candidates, len(self.task))[np.searchsorted(candidates, pending, side="right")]
                done[pending] = np.minimum(done[pending], next_waiter + offset)
                waiter[pending] = np.minimum(waiter[pending], next_waiter)
                awaited[pending] |= next_waiter <= last_of_task[pending]
        return awaited, done, waiter

    def of_task(self, task: int) -> slice:
        """Return the positions of a task."""
        return slice(int(self.first[task]), int(self.first[task + 1]))

    @cached_property
    def _calls(self) -> dict[tuple[int, int], int]:
        """By copy of the memory core and task: the position of the task's call that participates in it."""
        positions = {call: int(self.position[call]) for call in self.log.joined}
        return {(copy, int(self.task[positions[call]])): positions[call] for call, copy in self.log.joined.items()}

    def lanes_of(self, accesses: Accesses) -> Integers:
        """By access, return its lane: that of the operation, or the scalar pipe for operands read at issue."""
        lane: Integers = self.lane[self.position[accesses.record]]
        by_offsets = ops_among(self.log, BY_OFFSETS)
        if by_offsets.any():
            op, alloc, offset = (self._columns[name][accesses.record] for name in ("op", "a_alloc", "a_offset"))
            is_source = (accesses.alloc == alloc) & (accesses.offset == offset)
            lane = np.where(by_offsets[op] & ~accesses.write & ~is_source, SCALAR, lane)
        return lane

    @cached_property
    def lock(self) -> Integers:
        """By position, the number of the lock that is acquired or released."""
        return np.asarray(lock_number(self._detail))

    @cached_property
    def _locks(self) -> tuple[Integers, list[frozenset[int]]]:
        """`locks_held`, and the sets of locks by number."""
        acquired, released = (ops_among(self.log, (name,))[self.op] for name in LOCK_NAMES)
        calls = np.flatnonzero(acquired | released)
        numbers = {frozenset[int](): 0}
        last_task, locks_held, held_after = NONE, frozenset[int](), []
        columns = (column[calls].tolist() for column in (self.task, self.lock, acquired))
        for task, lock, acquires in zip(*columns, strict=True):
            locks_held = locks_held if task == last_task else frozenset()
            locks_held = locks_held | {lock} if acquires else locks_held - {lock}
            last_task = task
            held_after.append(numbers.setdefault(locks_held, len(numbers)))
        # Each task begins without locks; what is held changes at its calls.
        changes = np.concatenate((self.first[:-1], calls))
        by_position = np.argsort(changes, kind="stable")
        values = np.concatenate((np.zeros(len(self.first) - 1, np.int64), np.array(held_after, np.int64)))[by_position]
        return np.repeat(values, np.diff(changes[by_position], append=len(self.task))), list(numbers)

    @property
    def locks_held(self) -> Integers:
        """By position, the locks that the task holds, as the number of a set of locks; 0 if it holds none."""
        return self._locks[0]

    def locks_of(self, *positions: int) -> frozenset[int]:
        """Return the locks that tasks hold at all of some positions."""
        return frozenset.intersection(*(self._locks[1][self.locks_held[position]] for position in positions))

    def have_a_common_lock(self, one: Integers, other: Integers) -> Flags:
        """By pair of positions, whether the tasks hold a common lock there."""
        locks_held = self.locks_held
        first, pair, _ = group_rows(locks_held[one], locks_held[other])
        pairs = zip(one[first].tolist(), other[first].tolist(), strict=True)
        return np.array([bool(self.locks_of(*positions)) for positions in pairs], bool)[pair]

    @cached_property
    def shared_calls(self) -> Integers:
        """By position, a number shared by positions of a task with no call of a shared copy at or between them."""
        shared = np.zeros(len(self.task), np.int64)
        shared[self.position[sorted({*self.log.joined, *self.log.joined.values()})]] = 1
        counted: Integers = 2 * np.cumsum(shared) - shared
        return counted

    @cached_property
    def segment(self) -> Integers:
        """By position, the number of barriers that its task has passed."""
        barriers_passed = np.concatenate(([0], np.cumsum(self.is_barrier & ~self.left_out)))
        return narrow(barriers_passed[:-1] - barriers_passed[self.first[self.task]])

    @cached_property
    def segment_row(self) -> Integers:
        """(tasks + 1,) first row of each task in its group's clock: a row per segment."""
        barriers = np.bincount(self.task[self.is_barrier & ~self.left_out], minlength=len(self.log.tasks))
        return np.concatenate(([0], np.cumsum(barriers + 1)))

    @cached_property
    def _groups(self) -> tuple[Integers, Integers, list[list[int]]]:
        """By task, its group (tasks connected by barriers) and its index in the group; and the groups."""
        tasks = len(self.log.tasks)
        meetings = (self.task[positions].tolist() for _, positions in self.rounds)
        links = ((first, other) for first, *others in meetings for other in others)
        members: dict[int, list[int]] = {}
        for task, label in enumerate(_connected(tasks, links)):
            members.setdefault(label, []).append(task)
        group, number = np.empty(tasks, np.int64), np.empty(tasks, np.int64)
        for index, members_of_group in enumerate(members.values()):
            group[members_of_group] = index
            number[members_of_group] = np.arange(len(members_of_group))
        return group, number, list(members.values())

    @property
    def group(self) -> Integers:
        """By task, its group: tasks that meet at barriers, directly or through others."""
        return self._groups[0]

    @property
    def groups(self) -> list[list[int]]:
        """Tasks by group."""
        return self._groups[2]

    @cached_property
    def rounds(self) -> list[tuple[int, Integers]]:
        """The barrier rounds: number and participants' positions, in the order in which the rounds ended."""
        positions = np.flatnonzero(self.is_barrier & ~self.left_out)
        if not len(positions):
            return []
        number = self._detail[positions]
        order = np.lexsort((self.record[positions], number))
        positions, number = positions[order], number[order]
        starts = np.flatnonzero(np.concatenate(([True], number[1:] != number[:-1])))
        groups = np.split(positions, starts[1:])
        last = np.array([self.record[part[-1]] for part in groups])
        return [(int(number[starts[index]]), groups[index]) for index in np.argsort(last, kind="stable")]

    @cached_property
    def clocks(self) -> list[Integers]:
        """By group, a vector clock (all segments, tasks): segments of each task that complete before one starts."""
        group, number, groups = self._groups
        base, segments_of = self._first_row_in_clock, np.diff(self.segment_row)
        clocks = [np.zeros((int(segments_of[members].sum()), len(members)), np.int64) for members in groups]
        for _, positions in self.rounds:
            tasks = self.task[positions]
            clock = clocks[group[tasks[0]]]
            segments = self.segment[positions]
            rows = base[tasks] + segments
            completed = clock[rows].max(axis=0)
            completed[number[tasks]] = segments + 1
            clock[rows + 1] = completed
        return clocks

    @cached_property
    def _first_row_in_clock(self) -> Integers:
        """By task, the row of its first segment in the clock of its group."""
        rows: Integers = np.zeros(len(self.log.tasks), np.int64)
        segments_of = np.diff(self.segment_row)
        for members in self.groups:
            rows[members] = np.cumsum(segments_of[members]) - segments_of[members]
        return rows

    def clock_of(self, task: int, other_task: int) -> Integers:
        """By segment of `task`, return how many of `other_task`, in the same group, complete before it starts."""
        group, number, _ = self._groups
        clock = self.clocks[int(group[task])]
        begin = int(self._first_row_in_clock[task])
        length = int(self.segment_row[task + 1] - self.segment_row[task])
        return clock[begin : begin + length, int(number[other_task])]

    @cached_property
    def launch(self) -> Integers:
        """By task, its launch."""
        return np.array([record.launch for record in self.log.tasks], np.int64)

    @cached_property
    def job(self) -> list[tuple[int, ...]]:
        """By task, its job: tasks of one job are placed on the chip together, and can wait for each other.

        The launch, and the position of the task's union in the grid or, for BLOCK, the task itself.
        """
        # By launch, the cores of a cluster that have begun: at least those before its later clusters.
        cores = dict.fromkeys(range(len(self.log.launches)), 1)
        for record in self.log.tasks:
            if not record.is_memory_core:
                cores[record.launch] = max(cores[record.launch], record.core + 1)
        jobs: list[tuple[int, ...]] = []
        for task, record in enumerate(self.log.tasks):
            launch = self.log.launches[record.launch]
            if launch.kind == "BLOCK":
                jobs.append((record.launch, task))
            else:
                row, x = divmod(record.task_id, launch.dim[0])
                jobs.append((record.launch, row, x // (int(launch.kind.removeprefix("UNION")) * cores[record.launch])))
        return jobs

    @cached_property
    def _queues(self) -> Integers:
        """By launch, its queue."""
        return np.array([record.queue for record in self.log.launches], np.int64)

    @cached_property
    def _host_waits(self) -> Integers:
        """By launch, how often the host has waited before it."""
        return np.searchsorted(np.array(self.log.host.waits, np.int64), np.arange(len(self._queues)), side="right")

    @cached_property
    def _unordered(self) -> Integers:
        """The pairs of launches that a host program has not ordered."""
        return np.array([int(self._pair_key(min(pair), max(pair))) for pair in self.log.host.unordered], np.int64)

    def _pair_key(self, one: Any, other: Any) -> Integers:
        return joint(one, other, len(self._queues))

    def launches_in_order(self, one: Integers | int, other: Integers | int) -> Flags:
        """By pair of launches, whether the two are ordered, in either direction, or identical."""
        ordered: Flags = (self._queues[one] == self._queues[other]) | (self._host_waits[one] != self._host_waits[other])
        if self.log.host.unordered:
            ordered &= ~np.isin(self._pair_key(np.minimum(one, other), np.maximum(one, other)), self._unordered)
        return ordered

    def before(self, one: int, other: int) -> bool:
        """Return whether the operation at one position completes before the operation at another starts."""
        first, second = int(self.task[one]), int(self.task[other])
        if first == second:
            return one < other and bool(self.done[one] < other or in_order(int(self.lane[one]), int(self.lane[other])))
        launches = int(self.launch[first]), int(self.launch[second])
        if launches[0] != launches[1]:
            return launches[0] < launches[1] and bool(self.launches_in_order(*launches))
        call = self._calls.get((int(self.record[one]), second))
        # The call counts like the copy itself: complete for operations that wait for it, in order with later copies.
        if (call is not None and call < other) and (
            self.done[call] < other or in_order(int(self.lane[call]), int(self.lane[other]))
        ):
            return True
        if self.group[first] != self.group[second]:
            return False
        return int(self.clock_of(second, first)[self.segment[other]]) > int(self.segment[one])

    @cached_property
    def unordered_launches(self) -> Integers:
        """By launch, a number for those that may be unordered: launches with different numbers are in order."""
        # Between two waits of the host, launches on several queues are unordered, directly or through others.
        links = [*self.log.host.unordered]
        changes = np.flatnonzero(np.diff(self._host_waits)) + 1
        for launches in np.split(np.arange(len(self._queues)), changes):
            if len(np.unique(self._queues[launches])) > 1:
                links += zip(launches[:-1].tolist(), launches[1:].tolist(), strict=True)
        return np.array(_connected(len(self._queues), links), np.int64)


def _connected(count: int, links: Iterable[tuple[int, int]]) -> list[int]:
    """Return a number for each of some elements, equal for those that links connect, directly or through others."""
    root = list(range(count))

    def find(element: int) -> int:
        while root[element] != element:
            root[element] = root[root[element]]
            element = root[element]
        return element

    for one, other in links:
        root[find(other)] = find(one)
    return [find(element) for element in range(count)]

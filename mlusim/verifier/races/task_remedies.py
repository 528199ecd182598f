"""Remedies of races between tasks: a barrier and where it belongs, a lock, an atomic, or other bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.sets_and_atomics import ATOMIC_NAMES, FETCHING
from mlusim.log import SCALAR, Log
from mlusim.verifier.accesses.table import Accesses
from mlusim.verifier.findings import Site, in_one_function
from mlusim.verifier.order.happens_before import Order
from mlusim.verifier.order.jobs import job_of
from mlusim.verifier.order.lanes import POSTED
from mlusim.verifier.races.atomic_remedies import USE_ATOMICS, announced, is_polled, waits_for_flag
from mlusim.verifier.races.source_loops import (
    Lines,
    exclude_each_other,
    is_passed_every_turn,
    line_passed_by_all,
    lines_of_loop,
    loops_around,
)
from mlusim.verifier.races.updates import is_split_twice, lock_or_atomic, times_stored

_OWN_BYTES = "give each task bytes of its own"


@dataclass(frozen=True, slots=True)
class TaskRemedies:
    """Finds what would order the two operations of a race between tasks.

    Attributes:
        log, accesses, order: the run.
        directions: the lines of the first and the second access of every race between tasks, as intended.
        across: whether tasks of different clusters of one union race.
        apart: whether tasks race in different iterations of a loop only.
    """

    log: Log
    accesses: Accesses
    order: Order
    directions: frozenset[tuple[int, int]] = frozenset()
    across: bool = False
    apart: bool = False

    def as_intended(self, a: int, b: int) -> tuple[int, int]:
        """Return a pair of accesses in the order that the kernel intends, as far as its log and its source tell.

        Their order in the log is accidental. Of two lines that every task passes in turn, or in turn between two
        barriers, the upper one comes first, unless tasks may wait for each other by atomics. A read of bytes that
        nothing has written yet comes after their write.
        """
        write = self.accesses.write
        fresh = bool(write[b] and not write[a]) and self.is_fresh(a)
        if FETCHING & set(self.log.ops):
            return (b, a) if fresh else (a, b)
        upper, lower = sorted((a, b), key=self._line)
        (file, first, function), (other_file, last, other_function) = self._source(upper), self._source(lower)
        if first and (file, function) == (other_file, other_function) and not exclude_each_other(file, first, last):
            loop = lines_of_loop(file, first, last)
            if self._barrier_in(loop, upper, lower) if loop[0] else self._in_turn(upper, lower):
                return upper, lower
        return (b, a) if fresh else (a, b)

    def of(self, a: int, b: int, first: Site, second: Site) -> tuple[str, str, str]:
        """Return the sync that would order two accesses, if any, with rule and remedy."""
        tasks = self._tasks(a, b)
        jobs = [job_of(self.log, task) for task in tasks]
        if jobs[0][0] != jobs[1][0]:
            remedy = "put both launches on one queue\nor call device.synchronize() between them"
            if second.is_compiled:
                remedy += (
                    "; in a program, cnrtQueueSync, or let the second queue wait for a notifier that the first one "
                    "places: cnrtQueueWaitNotifier"
                )
            return "synchronize", "launches on different queues are not ordered", remedy
        if self._update_in_turn(a, b):
            rule = "an update by another task between the load and the store is lost"
            lock, atomic = lock_or_atomic(first, second)
            if is_split_twice(self.log, self.accesses, self.order, int(self.accesses.alloc[a]), tasks):
                return "", rule, _any_of([_OWN_BYTES, f"if both updates are meant, {lock}", atomic])
            loop = lines_of_loop(first.file, *sorted((first.line, second.line)))
            if not self.apart or jobs[0] != jobs[1] or first.file != second.file or not loop[0]:
                return "", rule, _any_of([lock, atomic, _OWN_BYTES])
            sync, all_of = self._barrier(tasks)
            end = f"at the end of the loop at {Path(first.file).name}:{loop[0]}"
            return sync, rule, _any_of([f"{first.call(sync + '()')} in {all_of}, {end}", lock, atomic, _OWN_BYTES])
        special, general = self._other_order(a, b, first)
        if jobs[0] != jobs[1]:
            kind = self.log.launches[jobs[0][0]].kind
            choices = [*special, _OWN_BYTES, *general, "split the kernel into two launches on one queue"]
            if kind == "BLOCK":
                return "", "BLOCK tasks are not ordered, not even those that share a core", _any_of(choices)
            rule = f"the jobs of a {kind} grid are not ordered: no barrier spans two jobs"
            return "", rule, _any_of([*choices, "launch both tasks in one job: a union of more clusters"])
        sync, all_of = self._barrier(tasks)
        where, between_barriers = self._where(a, b, first, second)
        barrier = f"{first.call(sync + '()')} in {all_of}, {where}"
        rule = "cores run in parallel; only a barrier orders operations of different cores"
        if self.accesses.write[a] and self.accesses.write[b]:
            # With a barrier alone, one of the two writes would still be useless.
            choices = [*special, _OWN_BYTES, *general, f"if both writes are meant, {barrier}"]
            if first.location == second.location and "memory core" in (first.task, second.task):
                rule = "a union launch runs the kernel on the memory cores too"
                choices.insert(0, self._without_memory_cores(compiled=first.is_compiled))
        elif between_barriers:
            name = self.log.allocations[int(self.accesses.alloc[a])].name
            other = f"use another part of {name} in one of them: both run between the same two barriers of an iteration"
            choices = [*special, other, barrier, *general]
        elif special and (USE_ATOMICS in special or waits_for_flag(self.log, self.accesses, self.order, (a, b))):
            # No barrier can stand in the loop that polls.
            choices = [*special, *general]
        else:
            part = self._part_of_others(a, b, first, second)
            choices = [*special, *part, *self._barrier_moved(a, b, sync, second), barrier, _OWN_BYTES, *general]
        return sync, rule, _any_of(choices)

    def _barrier_moved(self, a: int, b: int, sync: str, second: Site) -> list[str]:
        """Return the remedy for a barrier that follows an access in its loop and would order it if it came before.

        Only if the two tasks do different things: then all of them pass the barriers that they should, too late.
        """
        order = self.order
        first, last = (int(order.position[self.accesses.record[row]]) for row in (a, b))
        one, other = (set(order.line[order.first[task] : order.first[task + 1]]) for task in self._tasks(a, b))
        if order.line[last] in one or order.line[first] in other:
            return []
        behind = np.arange(last + 1, order.first[int(order.task[last]) + 1])
        behind = behind[order.is_barrier[behind]][:1]
        if not len(behind) or behind[0] + 1 >= order.first[int(order.task[last]) + 1]:
            return []
        file, line, _ = self.log.lines[int(order.line[behind[0]])]
        in_loop = lines_of_loop(file, *sorted((line, second.line)))[0] and file == second.file
        if not in_loop or self.log.ops[int(order.op[behind[0]])] != sync or not order.before(first, int(behind[0]) + 1):
            return []
        return [f"move the barrier at {Path(file).name}:{line} before {second.location}"]

    def _tasks(self, a: int, b: int) -> list[int]:
        tasks: list[int] = self.order.task_of[self.accesses.record[[a, b]]].tolist()
        return tasks

    def _line(self, row: int) -> int:
        return self._source(row)[1]

    def _source(self, row: int) -> tuple[str, int, str]:
        """Return file, line and function of an access."""
        return self.log.lines[int(self.order.line_of[self.accesses.record[row]])]

    def _in_turn(self, upper: int, lower: int) -> bool:
        """Return whether a task passes both lines, and each passes that of the first access only before the other."""
        order = self.order
        lines = order.line_of[self.accesses.record[[upper, lower]]]
        in_turn = []
        for task in self._tasks(upper, lower):
            line = order.line[order.first[task] : order.first[task + 1]]
            before, after = (np.flatnonzero(line == number) for number in lines)
            if len(before) and len(after):
                in_turn.append(before[-1] < after[0])
        return bool(in_turn) and all(in_turn)

    def _barrier_in(self, loop: Lines, a: int, b: int) -> bool:
        """Return whether a task of the race passes a barrier in each iteration of a loop, outside of its two lines."""
        order, file = self.order, self._source(a)[0]
        upper, lower = sorted((self._line(a), self._line(b)))
        apart = exclude_each_other(file, upper, lower)
        for task in self._tasks(a, b):
            own = slice(order.first[task], order.first[task + 1])
            barriers = order.line[own][order.is_barrier[own]]
            turns = len(self._turns(task, file, loop))
            for code in np.unique(barriers).tolist():
                other_file, line, _ = self.log.lines[code]
                inside = other_file == file and loop[0] <= line <= loop[1]
                if inside and (apart or not upper <= line < lower) and np.count_nonzero(barriers == code) >= turns:
                    return True
        return False

    def _meet_between_barriers(self, a: int, b: int) -> bool:
        """Return whether two tasks pass the same barriers in loops of their own, and access the bytes between them."""
        segments = self.order.segment[self.order.position[self.accesses.record[[a, b]]]]
        in_turn = []
        for row in (a, b):
            file, line, _ = self._source(row)
            in_turn.append(any(self._barrier_in(loop, row, row) for loop in loops_around(file, line)))
        return all(in_turn) and int(segments[0]) == int(segments[1]) > 0

    def _turns(self, task: int, file: str, loop: Lines) -> Integers:
        """Return the positions at which a task is at the first line of its that each iteration of a loop passes."""
        order = self.order
        own = order.line[order.first[task] : order.first[task + 1]]
        lines = [(self.log.lines[code][1], code) for code in np.unique(own).tolist() if self.log.lines[code][0] == file]
        passed = [code for line, code in sorted(lines) if is_passed_every_turn(file, loop, line)]
        return order.first[task] + np.flatnonzero(own == passed[0]) if passed else np.empty(0, np.int64)

    def _next_turn(self, a: int, b: int, loop: Lines) -> bool:
        """Return whether the task of the second access is in a later iteration of a loop than that of the first."""
        turns = []
        for row, task in zip((a, b), self._tasks(a, b), strict=True):
            file, line, _ = self._source(row)
            begun = self._turns(task, file, loop)
            position = int(self.order.position[self.accesses.record[row]])
            if not len(begun):
                begun = self.order.first[task] + np.flatnonzero(
                    self.order.line[self.order.first[task] : self.order.first[task + 1]] == self.order.line[position]
                )
            above = self.log.lines[int(self.order.line[begun[0]])][1] <= line
            turns.append(np.count_nonzero(begun <= position) if above else np.count_nonzero(begun < position) + 1)
        return bool(turns[0] < turns[1])

    def in_other_turns(self, a: int, b: int) -> bool:
        """Return whether two accesses are in different iterations of a loop around both."""
        (file, one, _), (other_file, other, _) = self._source(a), self._source(b)
        loop = lines_of_loop(file, *sorted((one, other)))
        return file == other_file and loop[0] > 0 and (self._next_turn(a, b, loop) or self._next_turn(b, a, loop))

    def is_fresh(self, row: int) -> bool:
        """Return whether neither the host nor an earlier operation has written any byte of a read."""
        accesses, log = self.accesses, self.log
        alloc = int(accesses.alloc[row])
        if log.allocations[alloc].read_only or alloc in log.host_writes or alloc in log.host_parts:
            return False
        return not (self._meeting(row) & accesses.write & (accesses.record < accesses.record[row])).any()

    def _meeting(self, row: int) -> Integers:
        """Return a mask of the accesses whose first to last byte meet those of an access."""
        accesses = self.accesses
        meeting = (accesses.alloc == accesses.alloc[row]) & (accesses.low < accesses.high[row])
        return np.asarray(meeting & (accesses.high > accesses.low[row]))

    def _update_in_turn(self, a: int, b: int) -> bool:
        """Return whether both tasks update the bytes: they load them first, and store them as often as they load them.

        Of a line that stores and loads at once, such as an atomic, that is no update.
        """
        meeting = np.flatnonzero(self._meeting(a) & self._meeting(b))
        task = self.order.task_of[self.accesses.record[meeting]]
        for number in self._tasks(a, b):
            own = meeting[task == number]
            write, record = self.accesses.write[own], self.accesses.record[own]
            loads, stores = np.unique(record[~write]), np.unique(record[write])
            if not len(loads) or len(loads) != len(stores) or loads[0] >= stores[0]:
                return False
        return True

    def _part_of_others(self, a: int, b: int, first: Site, second: Site) -> list[str]:
        """Return the remedy for a loop over rows in place, without a barrier, that accesses the row of another task.

        Each byte is stored once, so no task needs what another has made, and a barrier would give wrong values.
        """
        positions = self.order.position[self.accesses.record[[a, b]]]
        alloc = int(self.accesses.alloc[a])
        given = alloc in self.log.host_writes or alloc in self.log.host_parts
        if not given or first.file != second.file or self.order.segment[positions].any():
            return []
        loop = lines_of_loop(first.file, *sorted((first.line, second.line)))
        if not loop[0] or times_stored(self.log, self.accesses, alloc).max() > 1:
            return []
        where = f"{first.location} or {second.location}"
        return [f"correct the part of {self.log.allocations[alloc].name} at {where}: it is that of another task"]

    def _other_order(self, a: int, b: int, first: Site) -> tuple[list[str], list[str]]:
        """Return further ways to order two tasks, which the kernel uses elsewhere: those to try first, and the others.

        A lock comes first if one of the two accesses holds one, atomics if a task loads the bytes again and again.
        """
        ops = set(self.log.ops)
        positions = self.order.position[self.accesses.record[[a, b]]]
        special: list[str] = []
        general: list[str] = []
        if "lock" in ops:
            (special if self.order.locks_held[positions].any() else general).append(
                "hold the same lock during both accesses"
            )
        write = self.accesses.write[[a, b]]
        if not write.all() and any(is_polled(self.accesses, self.order, row) for row in (a, b)):
            special.append(USE_ATOMICS)
        elif (
            not ATOMIC_NAMES & ops and set(self.order.lane[positions].tolist()) <= {SCALAR, POSTED} and not write.all()
        ):
            general.append("if one task polls a flag, read and write it with atomics")
        special += announced(self.log, self.accesses, self.order, (a, b), first)
        return special, general

    def _barrier(self, tasks: list[int]) -> tuple[str, str]:
        """Return the smallest barrier of two tasks that fits the kernel, and who must reach it."""
        one, other = (self.log.tasks[task] for task in tasks)
        if one.is_memory_core and other.is_memory_core:
            return "sync_all_mpu", "all memory cores of the union"
        memory_cores = self._memory_cores_work(one.launch)
        alike = one.cluster == other.cluster and not self.across
        if alike and memory_cores:
            return "sync_cluster", "all cores of the cluster and its memory core"
        if memory_cores:
            return "sync_all", "all cores and memory cores of the union"
        if alike and self.log.launches[one.launch].kind != "UNION1":
            return "sync_all_ipu_within_cluster", "all cores of the cluster"
        return "sync_all_ipu", "all cores of the union"

    def _memory_cores_work(self, launch: int) -> bool:
        """Return whether memory cores do anything in a launch."""
        first = self.order.first
        return any(
            record.is_memory_core and record.launch == launch and first[task] < first[task + 1]
            for task, record in enumerate(self.log.tasks)
        )

    def loop(self, a: int, b: int) -> int:
        """Return the first line of the loop at whose end a barrier would order two accesses; 0 if it belongs elsewhere.

        The next iteration begins between the two, or each of them is in a branch that the other task does not take.
        If these lines also race in the other order, a barrier between them would leave that race.
        """
        (file, first, _), (other_file, second, _) = self._source(a), self._source(b)
        upper, lower = sorted((first, second))
        if file != other_file or first == second:
            return 0
        loop = lines_of_loop(file, upper, lower)
        begins_again = second < first or exclude_each_other(file, upper, lower)
        if not begins_again and loop[0]:
            codes = self.order.line_of[self.accesses.record[[b, a]]].tolist()
            begins_again = tuple(codes) in self.directions and self._next_turn(a, b, loop)
        return loop[0] if begins_again else 0

    def _where(self, a: int, b: int, first: Site, second: Site) -> tuple[str, bool]:
        """Return where a barrier belongs, and whether both accesses are between the same barriers of an iteration."""
        if first.location == second.location:
            return "between the two accesses", False
        begin, end = in_one_function(first, second)
        loop = self.loop(a, b)
        if loop and self._barrier_in(lines_of_loop(first.file, *sorted((first.line, second.line))), a, b):
            return "between the two accesses", True
        if not loop and self._meet_between_barriers(a, b):
            return f"after {begin.location} and before {end.location}", True
        if loop:
            return f"at the end of the loop at {first.location.rpartition(':')[0]}:{loop}", False
        last = line_passed_by_all(end.file, begin.line, end.line) if begin.file == end.file else end.line
        return f"after {begin.location} and before {Path(end.file).name}:{last}", False

    def _without_memory_cores(self, *, compiled: bool) -> str:
        """Return how to leave out the memory cores, which the barriers of a union or cluster count."""
        if {"sync_cluster", "sync_all"} & set(self.log.ops):
            guard = "if (!__is_mpu())" if compiled else "if not core.is_memory_core:"
            return f"guard this line by `{guard}`; the memory core has to reach the barriers"
        leaves = "if (__is_mpu()) return;" if compiled else "if core.is_memory_core: return"
        return f"begin it with `{leaves}`"


def _any_of(choices: Iterable[str]) -> str:
    """Return alternatives, one per line."""
    first, *others = choices
    return first + "".join(f"\nor{',' if choice.startswith('if ') else ''} {choice}" for choice in others)

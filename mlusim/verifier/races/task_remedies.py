"""Remedies of races between tasks: a barrier and where it belongs, a lock, an atomic, or other bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlusim.cores.sets_and_atomics import ATOMIC_NAMES
from mlusim.log import SCALAR
from mlusim.verifier.findings import Site, in_one_function
from mlusim.verifier.order.lanes import POSTED
from mlusim.verifier.races.atomic_remedies import USE_ATOMICS, announced, is_polled, waits_for_flag
from mlusim.verifier.races.barrier_places import barrier_moved, on_both_paths, wider_barrier
from mlusim.verifier.races.iterations import are_as_many, barrier_in, is_later, meet_between_barriers
from mlusim.verifier.races.updates import is_split_twice, lines_of_update, lock_or_atomic, times_stored
from mlusim.verifier.run import Run
from mlusim.verifier.source_loops import exclude_each_other, line_passed_by_all, lines_of_loop, location_of

_OWN_BYTES = "give each task bytes of its own"


@dataclass(frozen=True, slots=True)
class TaskRemedies:
    """Finds what would order the two operations of a race between tasks.

    Attributes:
        run: the run.
        directions: the lines of the first and the second access of every race between tasks, in the intended order.
        across: whether tasks of different clusters of one union race.
        apart: whether tasks race in different iterations of a loop only.
    """

    run: Run
    directions: frozenset[tuple[int, int]]
    across: bool
    apart: bool

    def of(self, a: int, b: int, first: Site, second: Site) -> tuple[str, str, list[str]]:
        """Return the sync that would order two accesses, if any, with rule and remedies."""
        tasks = [self.run.task(a), self.run.task(b)]
        jobs = [self.run.order.job[task] for task in tasks]
        if jobs[0][0] != jobs[1][0]:
            return _between_launches([self.run.log.launches[number].launched_at for number, *_ in jobs])
        if self._update_in_turn(a, b):
            return self._of_update(a, b, first, second, tasks, one_job=jobs[0] == jobs[1])
        special, general = self._other_order(a, b, first)
        if jobs[0] != jobs[1]:
            return _between_jobs(self.run.log.launches[jobs[0][0]].kind, special, general)
        sync, all_of = self._barrier(tasks)
        where, between_barriers = self._where(a, b, first, second)
        barrier = f"{first.call(sync + '()')} in {all_of}, {where}"
        rule = "cores run in parallel; only a barrier orders operations of different cores"
        if self.run.accesses.write[a] and self.run.accesses.write[b]:
            # With a barrier alone, one of the two writes would still be useless.
            choices = [*special, _OWN_BYTES, *general, f"if both writes are meant, {barrier}"]
            if first.location == second.location and "memory core" in (first.task, second.task):
                rule = "a union launch runs the kernel on the memory cores too"
                choices.insert(0, self._without_memory_cores(compiled=first.is_compiled))
        elif between_barriers:
            name = self.run.buffer(a)
            other = f"use another part of {name} in one of them: both run between the same two barriers of an iteration"
            choices = [*special, other, barrier, *general]
        elif special and (USE_ATOMICS in special or waits_for_flag(self.run, a, b)):
            # No barrier can stand in the loop that polls.
            choices = [*special, *general]
        else:
            part = self._part_of_others(a, b, first, second)
            at = self.run.position(a), self.run.position(b)
            instead = wider_barrier(self.run, *at, sync, first) or barrier_moved(self.run, *at, sync, second)
            choices = [*special, *part, *instead, barrier, _OWN_BYTES, *general]
        return sync, rule, choices

    def _of_update(
        self, a: int, b: int, first: Site, second: Site, tasks: list[int], *, one_job: bool
    ) -> tuple[str, str, list[str]]:
        """Return what `of` does for updates in place by two tasks."""
        rule = "an update by another task between the load and the store is lost"
        racing = frozenset(line for lines in self.directions for line in lines)
        lock, atomic = lock_or_atomic(first, second, lines_of_update(self.run, a, b, racing))
        if is_split_twice(self.run, int(self.run.accesses.alloc[a]), tasks):
            return "", rule, [_OWN_BYTES, f"if both updates are meant, {lock}", atomic]
        loop = lines_of_loop(first.file, *sorted((first.line, second.line)))
        in_one_loop = one_job and first.file == second.file and loop[0] > 0
        if not (self.apart and in_one_loop and are_as_many(self.run, first.file, loop, tasks[0])):
            return "", rule, [lock, atomic, _OWN_BYTES]
        sync, all_of = self._barrier(tasks)
        end = f"at the end of the loop at {location_of(first.file, loop[0])}"
        return sync, rule, [f"{first.call(sync + '()')} in {all_of}, {end}", lock, atomic, _OWN_BYTES]

    def _update_in_turn(self, a: int, b: int) -> bool:
        """Return whether both tasks update the bytes: they load them first, and store them as often as they load them.

        What they do before and after the barriers around that does not count. Of a line that stores and loads at once,
        such as an atomic, that is no update.
        """
        meeting = np.flatnonzero(self.run.accesses.meeting(a) & self.run.accesses.meeting(b))
        at = self.run.order.position[self.run.accesses.record[meeting]]
        for row, number in zip((a, b), [self.run.task(a), self.run.task(b)], strict=True):
            segment = self.run.order.segment[self.run.position(row)]
            own = meeting[(self.run.order.task[at] == number) & (self.run.order.segment[at] == segment)]
            write, record = self.run.accesses.write[own], self.run.accesses.record[own]
            loads, stores = np.unique(record[~write]), np.unique(record[write])
            if not len(loads) or len(loads) != len(stores) or loads[0] >= stores[0]:
                return False
        return True

    def _part_of_others(self, a: int, b: int, first: Site, second: Site) -> list[str]:
        """Return the remedy for a loop over rows in place, without a barrier, that accesses the row of another task.

        Each byte is stored once, so no task needs what another has made, and a barrier would give wrong values.
        """
        positions = self.run.order.position[self.run.accesses.record[[a, b]]]
        alloc = int(self.run.accesses.alloc[a])
        given = alloc in self.run.log.host_writes or alloc in self.run.log.host_parts
        if not given or first.file != second.file or self.run.order.segment[positions].any():
            return []
        loop = lines_of_loop(first.file, *sorted((first.line, second.line)))
        if not loop[0] or times_stored(self.run, alloc).max() > 1:
            return []
        where = f"{first.location} or {second.location}"
        return [f"correct the part of {self.run.log.allocations[alloc].name} at {where}: it is that of another task"]

    def _other_order(self, a: int, b: int, first: Site) -> tuple[list[str], list[str]]:
        """Return further ways to order two tasks, which the kernel uses elsewhere: those to try first, and the others.

        A lock comes first if one of the two accesses holds one, atomics if a task loads the bytes again and again.
        """
        ops = set(self.run.log.ops)
        positions = self.run.order.position[self.run.accesses.record[[a, b]]]
        special: list[str] = []
        general: list[str] = []
        if "lock" in ops:
            (special if self.run.order.locks_held[positions].any() else general).append(
                "hold the same lock during both accesses"
            )
        write = self.run.accesses.write[[a, b]]
        if not write.all() and any(is_polled(self.run, row) for row in (a, b)):
            special.append(USE_ATOMICS)
        elif (
            not ATOMIC_NAMES & ops
            and set(self.run.order.lane[positions].tolist()) <= {SCALAR, POSTED}
            and not write.all()
        ):
            general.append("if one task polls a flag, read and write it with atomics")
        special += announced(self.run, a, b, first)
        return special, general

    def _barrier(self, tasks: list[int]) -> tuple[str, str]:
        """Return the smallest barrier of two tasks that fits the kernel, and who must reach it."""
        one, other = (self.run.log.tasks[task] for task in tasks)
        if one.is_memory_core and other.is_memory_core:
            return "sync_all_mpu", "all memory cores of the union"
        memory_cores = self._memory_cores_work(one.launch)
        alike = one.cluster == other.cluster and not self.across
        if alike and memory_cores:
            return "sync_cluster", "all cores of the cluster and its memory core"
        if memory_cores:
            return "sync_all", "all cores and memory cores of the union"
        if alike and self.run.log.launches[one.launch].kind != "UNION1":
            return "sync_all_ipu_within_cluster", "all cores of the cluster"
        return "sync_all_ipu", "all cores of the union"

    def _memory_cores_work(self, launch: int) -> bool:
        """Return whether memory cores do anything in a launch."""
        first = self.run.order.first
        return any(
            record.is_memory_core and record.launch == launch and first[task] < first[task + 1]
            for task, record in enumerate(self.run.log.tasks)
        )

    def loop(self, a: int, b: int) -> int:
        """Return the first line of the loop at whose end a barrier would order two accesses; 0 if it belongs elsewhere.

        The next iteration begins between the two, or each of them is in a branch that the other task does not take.
        If these lines also race in the other order, a barrier between them would leave that race.
        """
        (file, first, _), (other_file, second, _) = self.run.source(a), self.run.source(b)
        upper, lower = sorted((first, second))
        if file != other_file or first == second:
            return 0
        loop = lines_of_loop(file, upper, lower)
        begins_again = second < first or exclude_each_other(file, upper, lower)
        if not begins_again and loop[0]:
            codes = self.run.order.line_of[self.run.accesses.record[[b, a]]].tolist()
            begins_again = tuple(codes) in self.directions and is_later(self.run, a, b, loop)
        return loop[0] if begins_again else 0

    def _where(self, a: int, b: int, first: Site, second: Site) -> tuple[str, bool]:
        """Return where a barrier belongs, and whether both accesses are between the same barriers of an iteration."""
        if first.location == second.location:
            return "between the two accesses", False
        begin, end = in_one_function(first, second)
        loop = self.loop(a, b)
        if loop and barrier_in(self.run, lines_of_loop(first.file, *sorted((first.line, second.line))), a, b):
            return "between the two accesses", True
        if not loop and meet_between_barriers(self.run, a, b):
            return f"after {begin.location} and before {end.location}", True
        if loop:
            return f"at the end of the loop at {first.location.rpartition(':')[0]}:{loop}", False
        if paths := on_both_paths(self.run, self.run.position(a), self.run.position(b)):
            return paths, False
        last = line_passed_by_all(end.file, begin.line, end.line) if begin.file == end.file else end.line
        return f"after {begin.location} and before {location_of(end.file, last)}", False

    def _without_memory_cores(self, *, compiled: bool) -> str:
        """Return how to leave out the memory cores, which the barriers of a union or cluster count."""
        if {"sync_cluster", "sync_all"} & set(self.run.log.ops):
            guard = "if (!__is_mpu())" if compiled else "if not core.is_memory_core:"
            return f"guard this line by `{guard}`; the memory core has to reach the barriers"
        leaves = "if (__is_mpu()) return;" if compiled else "if core.is_memory_core: return"
        return f"begin it with `{leaves}`"


def _between_launches(launched_at: list[str]) -> tuple[str, str, list[str]]:
    """Return what `TaskRemedies.of` does for tasks of different launches, with the lines of the host for both."""
    first, second = launched_at
    lines = f", those at {first} and {second}" if first != second else f", those at {first}" if first else ""
    choices = [f"put both launches on one queue{lines}"]
    if Path(second.partition(":")[0]).suffix in ("", ".py"):
        choices.append("call device.synchronize() between them")
    else:
        choices.append(
            "let the queue of the second one wait for a notifier that is placed after the first one: "
            "cnrtPlaceNotifier, cnrtQueueWaitNotifier"
        )
        choices.append("wait for the first one: cnrtQueueSync")
    return "synchronize", "launches on different queues are not ordered", choices


def _between_jobs(kind: str, special: list[str], general: list[str]) -> tuple[str, str, list[str]]:
    """Return what `TaskRemedies.of` does for tasks of different jobs of a launch; `kind`: its task type."""
    choices = [*special, _OWN_BYTES, *general, "split the kernel into two launches on one queue"]
    if kind == "BLOCK":
        return "", "BLOCK tasks are not ordered, not even those that share a core", choices
    choices.append("launch both tasks in one job: a union of more clusters")
    return "", f"the jobs of a {kind} grid are not ordered: no barrier spans two jobs", choices

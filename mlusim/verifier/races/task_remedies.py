"""Remedies of races between tasks: a barrier and where it belongs, a lock, an atomic, or other bytes."""

from __future__ import annotations

import linecache
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlusim.cores.atomics import ATOMIC_NAMES
from mlusim.log import SCALAR
from mlusim.verifier.core_names import core_at
from mlusim.verifier.findings import Remedy, Site, Way, in_one_function, outermost_loop
from mlusim.verifier.order.lanes import POSTED
from mlusim.verifier.races.atomic_remedies import USE_ATOMICS, announced, atomic_like_others, goes_by_flags, is_polled
from mlusim.verifier.races.barrier_places import (
    Place,
    barrier_of_one_side,
    loop_without_memory_cores,
    memory_cores_pass,
    on_both_paths,
    wider_barrier,
)
from mlusim.verifier.races.iterations import (
    are_as_many,
    barrier_in,
    cores_skip,
    is_later,
    loop_apart,
    may_skip_unseen,
    meet_between_barriers,
    some_skip,
)
from mlusim.verifier.races.pair import Pair
from mlusim.verifier.races.updates import is_same_work, is_split_twice, lock_or_atomic
from mlusim.verifier.races.wrong_parts import accesses_other_part
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import SourceLine, location_of, locations_of, source_file

_ONE_TASK = "let one task alone write them"
_ONE_CORE = "let one core of each cluster write them"
_OWN_BYTES = "give each task bytes of its own"
_TELLS_MEMORY_CORES = re.compile(r"\b(?:is_memory_core|__is_mpu|__is_ipu|core_?[iI]d)\b")
# The number of a cluster within its job, and what numbers the tasks of the whole grid instead.
_CLUSTER_ID = re.compile(r"\b(?:cluster_id|clusterId)\b")
_TASK_IDS = {"cluster_id": "task_id and task_dim", "clusterId": "taskId and taskDim"}


@dataclass(frozen=True, slots=True)
class TaskRemedies:
    """Finds what would order the two operations of a race between tasks.

    Attributes:
        run: the run.
        times: how often two lines race, in either order.
        directions: the lines of the first and the second access of every race between tasks, in the intended order.
        across: the lines of races that need a barrier of several clusters.
        at_once: the lines of races that need a barrier within an iteration; the others race in different ones only.
    """

    run: Run
    times: Mapping[frozenset[int], int]
    directions: frozenset[tuple[int, int]]
    across: frozenset[frozenset[int]]
    at_once: frozenset[frozenset[int]]

    def of(self, pair: Pair) -> tuple[str, str, list[str]]:
        """Return the sync that would order two accesses, if any, with rule and remedies."""
        (first, second), jobs = pair.sites, [self.run.order.job[task] for task in pair.tasks]
        if jobs[0][0] != jobs[1][0]:
            return _between_launches([self.run.log.launches[number].launched_at for number, *_ in jobs])
        repeats = first.location == second.location and [first.task, second.task].count("memory core") == 1
        others = [self._without_memory_cores(compiled=first.is_compiled)] if repeats else []
        if self._update_in_turn(pair):
            sync, rule, choices = self._of_update(pair, one_job=jobs[0] == jobs[1])
            return sync, rule, [*others, *choices]
        special, general = self._other_order(pair)
        if jobs[0] != jobs[1]:
            return _between_jobs(pair, self.run.log.launches[jobs[0][0]].kind, special, general)
        place = self.where(pair)
        sync, all_of = self._barrier(pair, place.loop)
        wider = wider_barrier(pair, sync, max(self._firsts(pair), default=0))
        call = first.call(sync + "()", in_one_function(first, second)[0])
        barrier = Remedy(f"{call} in {all_of}, {place.text}", Way.BARRIER if place.is_below else None)
        rule = "cores run in parallel; only a barrier orders operations of different cores"
        if pair.writes == (True, True):
            # With a barrier alone, one of the two writes would still be useless.
            special = [*atomic_like_others(pair), *special]
            choices = [*others, *special, *_by_one_task(pair), _split_at(pair), *general]
            choices.append(f"if both writes are intended, {barrier}")
            if others:
                rule = "a union launch runs the kernel on the memory cores too"
        elif place.is_between_barriers and not wider:
            part = f"use another part of {pair.buffer} in one of them"
            skipped = some_skip(pair)
            if skipped:
                part += f", or let fewer tasks enter the branch at {skipped}"
            why = "both run between the same two barriers of an iteration"
            choices = [*special, Remedy(f"{part}: {why}", Way.ACCESS), *([] if skipped else [barrier]), *general]
        elif special and (USE_ATOMICS in special or goes_by_flags(pair)):
            # No barrier can stand where a task polls.
            choices = [*special, *general]
        else:
            other_part = accesses_other_part(pair)
            own = wider or barrier_of_one_side(pair, sync)
            choices = [*special, *other_part, *own, barrier, _OWN_BYTES, *general]
        return sync, rule, choices

    def _of_update(self, pair: Pair, *, one_job: bool) -> tuple[str, str, list[str]]:
        """Return what `of` does for updates in place by two tasks."""
        rule = "an update by another task between the load and the store is lost"
        first, second = pair.sites
        by_one = Remedy(f"{_by_task_0(first, second)}: it computes them from nothing else", Way.ONE_TASK)
        alone = [by_one] if is_same_work(pair) else []
        lock, atomic = lock_or_atomic(pair, frozenset(line for lines in self.directions for line in lines))
        if is_split_twice(pair):
            return "", rule, [_split_at(pair), f"if both updates are intended, {lock}", atomic]
        inner = loop_apart(pair) if pair.lines not in self.at_once and one_job else (0, 0)
        around = [loop for loop in source_file(first.file).loops_around(first.line) if loop[0] <= inner[0]]
        loops = [loop[0] for loop in around if are_as_many(self.run, first.file, loop, pair.tasks[0])]
        if not loops:
            return "", rule, [*alone, lock, atomic, _OWN_BYTES]
        sync, all_of = self._barrier(pair, max(loops))
        end = f"at the end of the loop at {location_of(first.file, max(loops))}"
        return sync, rule, [f"{first.call(sync + '()')} in {all_of}, {end}", lock, atomic, _OWN_BYTES]

    def _update_in_turn(self, pair: Pair) -> bool:
        """Return whether both tasks update the bytes: they load them first, and store them as often as they load them.

        Or as often as an `if` below the load lets them. What they do before and after the barriers around that does not
        count. Of a line that stores and loads at once, such as an atomic, that is no update.
        """
        accesses, order, lines = self.run.accesses, self.run.order, self.run.log.lines
        meeting = np.flatnonzero(accesses.meeting(pair.rows[0]) & accesses.meeting(pair.rows[1]))
        at = order.position[accesses.record[meeting]]
        decided, updates = set(), []
        for task, segment in zip(pair.tasks, pair.segments, strict=True):
            own = meeting[(order.task[at] == task) & (order.segment[at] == segment)]
            write, record = accesses.write[own], accesses.record[own]
            loads, stores = np.unique(record[~write]), np.unique(record[write])
            if not len(loads) or (len(stores) and loads[0] >= stores[0]):
                return False
            load = lines[order.line_of[loads[0]]]
            updates.append((load, len(loads), len(stores)))
            if len(stores) and source_file(load[0]).decides(load[1], lines[order.line_of[stores[0]]][1]):
                decided.add(load)
        return all(turns == times or (turns > times and load in decided) for load, turns, times in updates)

    def _other_order(self, pair: Pair) -> tuple[list[str], list[str]]:
        """Return further ways to order two tasks, which the kernel uses elsewhere: those to try first, and the others.

        A lock comes first if one of the two accesses holds one, atomics if a task loads the bytes again and again.
        """
        ops, order, positions = set(self.run.log.ops), self.run.order, [*pair.positions]
        special = [] if all(pair.writes) else _without_unmeant_memory_core(pair)
        general: list[str] = []
        if "lock" in ops:
            holds = order.locks_held[positions].any()
            (special if holds else general).append("hold the same lock during both accesses")
        if not all(pair.writes):
            if any(is_polled(self.run, row) for row in pair.rows):
                special.append(USE_ATOMICS)
            elif not ATOMIC_NAMES & ops and {*order.lane[positions].tolist()} <= {SCALAR, POSTED}:
                general.append("if one task polls a flag, read and write it with atomics")
        return [*special, *announced(pair)], general

    def _barrier(self, pair: Pair, loop: int) -> tuple[str, str]:
        """Return the smallest barrier of two tasks that fits the kernel, and who must reach it.

        `loop`: the first line of the loop at whose beginning or end it is, 0 if there is none.
        """
        one, other = (self.run.log.tasks[task] for task in pair.tasks)
        if one.is_memory_core and other.is_memory_core:
            return "sync_all_mpu", "all memory cores of the union"
        memory_cores = memory_cores_pass(pair, loop)
        alike = one.cluster == other.cluster and pair.lines not in self.across
        if memory_cores:
            apart = ", and as often in" if loop and loop_without_memory_cores(pair, loop) else " and"
            if alike:
                return "sync_cluster", f"all cores of the cluster{apart} its memory core"
            return "sync_all", f"all cores{apart} memory cores of the union"
        if alike and self.run.log.launches[one.launch].kind != "UNION1":
            return "sync_all_ipu_within_cluster", "all cores of the cluster"
        return "sync_all_ipu", "all cores of the union"

    def loop(self, pair: Pair) -> int:
        """Return the first line of the loop at whose end a barrier would order two accesses; 0 if it belongs elsewhere.

        The next iteration begins between the two, or each of them is in a branch that the other task does not take.
        If these lines also race in the other order, a barrier between them would leave that race, and so it would if
        they race in different iterations only.
        """
        (file, first, _), (other_file, second, _) = pair.sources
        if file != other_file or first == second:
            return 0
        source = source_file(file)
        loop = source.loop_around(first, second)
        begins_again = second < first or source.exclude_each_other(first, second)
        if not begins_again and loop[0]:
            codes = self.run.order.line[[*pair.swapped.positions]].tolist()
            begins_again = pair.lines not in self.at_once or (tuple(codes) in self.directions and is_later(pair, loop))
        return loop[0] if begins_again else 0

    def where(self, pair: Pair) -> Place:
        """Return where a barrier belongs."""
        first, second = pair.sites
        if first.location == second.location:
            return Place("between the two accesses")
        begin, end = in_one_function(first, second)
        loop = self.loop(pair)
        often = self._race_often(pair)
        if often and loop and barrier_in(pair, source_file(first.file).loop_around(first.line, second.line)):
            return Place("between the two accesses", is_between_barriers=True)
        if (often or some_skip(pair)) and not loop and meet_between_barriers(pair):
            return Place(f"after {begin.location} and before {end.location}", is_below=True, is_between_barriers=True)
        if outer := self._outer_loop(pair):
            return Place(f"at the end of the loop at {location_of(begin.file, outer)}", is_at_end=True, loop=outer)
        if loop:
            # A barrier at the end comes too late for what is written before the loop, and iterations may end earlier.
            around = source_file(first.file).loop_around(first.line, second.line)
            earlier = any(line < loop for line in (*self._firsts(pair), *self._firsts(pair.swapped)))
            side = "beginning" if earlier or source_file(first.file).continues_before(around[1], around) else "end"
            at = location_of(first.file, loop)
            return Place(f"at the {side} of the loop at {at}", is_at_end=side == "end", loop=loop)
        if begins := self._loop_that_continues(pair):
            return Place(f"at the beginning of the loop at {location_of(end.file, begins)}", loop=begins)
        if paths := on_both_paths(pair):
            return Place(paths)
        if begin.file != end.file:
            return Place(f"after {begin.location} and before {end.location}", is_below=True)
        source = source_file(end.file)
        last = source.line_passed_by_all(begin.line, end.line)
        begin = SourceLine(begin.file, self._last_before(begin, last))
        before = f"before {location_of(end.file, last)}"
        skipped_at = source.continues_before(last, source.loop_around(last, last)) if cores_skip(pair) else []
        around = source.loop_around(begin.line, last)
        if around[0] and not are_as_many(self.run, end.file, around, pair.tasks[0]):
            before += f", and as many iterations of the loop at {location_of(end.file, around[0])} in each"
        before += "".join(f", and before the `continue` at {location_of(end.file, at)}" for at in skipped_at)
        skipped = source.begin_of_outermost(begin.line, last) != begin.line
        if skipped and not source.on_separate_paths(begin.line, last):
            # The tasks that skip the first operation would skip a barrier next to it, too.
            return Place(before)
        return Place(f"after {begin.location} and {before}", is_below=True)

    def _race_often(self, pair: Pair) -> bool:
        """Return whether two lines race most of the times that they run: else only a few of these lack a barrier."""
        line = self.run.order.line
        return 2 * self.times[pair.lines] > min(int((line == number).sum()) for number in pair.lines)

    def _outer_loop(self, pair: Pair) -> int:
        """Return the first line of the innermost loop around both operations in which a barrier may stand; else 0.

        It is 0, too, if that is the innermost loop of all: then the barrier may stand between the two.
        """
        (file, first, _), (other_file, second, _) = pair.sources
        inner = source_file(file).loop_around(first, second)
        if file != other_file or not inner[0]:
            return 0
        around = [loop for loop in source_file(file).loops_around(first) if loop[0] < inner[0] and second <= loop[1]]
        if are_as_many(self.run, file, inner, pair.tasks[0]) and not may_skip_unseen(self.run, file, inner):
            return 0
        return max((loop[0] for loop in around if are_as_many(self.run, file, loop, pair.tasks[0])), default=0)

    def _loop_that_continues(self, pair: Pair) -> int:
        """Return the first line of a loop whose second access races with the first one before it, and with one in it.

        That of the iteration before comes later in the loop, so that only a barrier at its beginning orders both. It is
        0 if there is none.
        """
        (file, before, _), (other_file, line, _) = pair.sources
        source = source_file(file)
        loops = [source.loop_around(line, later) for later in self._firsts(pair) if later >= line]
        around = [begin for begin, end in loops if begin and not begin <= before <= end]
        return min(around, default=0) if file == other_file else 0

    def _last_before(self, begin: SourceLine, end: int) -> int:
        """Return the last line, from `begin` on, whose access races with one at or after line `end`, and precedes it.

        One barrier orders these, too.
        """
        sources = ([self.run.log.lines[code][:2] for code in lines] for lines in self.directions)
        firsts = (
            first
            for (file, first), (other_file, second) in sources
            if file == other_file == begin.file and begin.line <= first < end <= second
        )
        return max(firsts, default=begin.line)

    def _firsts(self, pair: Pair) -> list[int]:
        """Return the lines of the file of the first access that race with the second one, and come before it."""
        code = int(self.run.order.line[pair.positions[1]])
        sources = (self.run.log.lines[one] for one, other in self.directions if other == code)
        return [line for file, line, _ in sources if file == pair.sources[0][0]]

    def _without_memory_cores(self, *, compiled: bool) -> str:
        """Return how to leave out the memory cores, which the barriers of a union or cluster count."""
        if {"sync_cluster", "sync_all"} & set(self.run.log.ops):
            guard = "if (!__is_mpu())" if compiled else "if not core.is_memory_core:"
            return f"guard this line by `{guard}`; the memory core has to reach the barriers"
        leaves = "if (__is_mpu()) return;" if compiled else "if core.is_memory_core: return"
        return f"begin it with `{leaves}`"


def _without_unmeant_memory_core(pair: Pair) -> list[str]:
    """Return the remedy for a race with a memory core, if no line of the files tells these from others."""
    first, second = pair.sites
    texts = ["".join(linecache.getlines(file)) for file in {first.file, second.file}]
    if [first.task, second.task].count("memory core") != 1 or any(map(_TELLS_MEMORY_CORES.search, texts)):
        return []
    leaves = "if (__is_mpu()) return;" if first.is_compiled else "if core.is_memory_core: return"
    return [f"begin the kernel with `{leaves}`: a union launch runs it on the memory cores too"]


def _by_one_task(pair: Pair) -> list[str]:
    """Return the remedy for one line with which several tasks write the same bytes, and no others, of a tensor.

    Or those of each cluster the same.
    """
    run, (site, other) = pair.run, pair.sites
    accesses, codes = run.accesses, run.order.line[[*pair.positions]]
    if codes[0] != codes[1] or "memory core" in (site.task, other.task):
        return []
    alike = accesses.write & (accesses.alloc == pair.allocations[0]) & (run.order.line_of[accesses.record] == codes[0])
    jobs = run.order.job
    in_job = np.array([job == jobs[pair.tasks[0]] for job in jobs], bool)
    alike &= in_job[run.order.task_of[accesses.record]]
    clusters = np.array([task.cluster for task in run.log.tasks])[run.order.task_of[accesses.record[alike]]]
    parts = np.unique(np.stack([accesses.low[alike], accesses.high[alike], clusters]), axis=1)
    if len(np.unique(parts[:2], axis=1)[0]) > 1:
        in_one_cluster = len({run.log.tasks[task].cluster for task in pair.tasks}) == 1
        is_one_of_each = in_one_cluster and len(np.unique(parts[2])) == parts.shape[1]
        guard = "if (coreId == 0)" if site.is_compiled else f"if {core_at(site.at)}.core_id == 0:"
        return [Remedy(f"{_ONE_CORE}, at {site.location}: `{guard}`", Way.ONE_TASK)] if is_one_of_each else []
    add = "`__bang_atomic_reduce_add`" if site.is_compiled else f"`{core_at(site.at)}.atomic_reduce_add`"
    one = _by_task_0(site, other) if len({*jobs}) == 1 else f"{_ONE_TASK}, at {site.location}: that of core 0"
    return [Remedy(f"{one}; parts of a sum are added with {add}", Way.ONE_TASK)]


def _by_task_0(*sites: Site) -> str:
    first = sites[0]
    guard = "if (taskId == 0)" if first.is_compiled else f"if {core_at(first.at)}.task_id == 0:"
    return f"{_ONE_TASK}, at {locations_of({site.at for site in sites})}: `{guard}`"


def _split_at(pair: Pair) -> str:
    """Return the remedy for work that two tasks do, with the loop that divides a tensor if both writes are in it."""
    loops = {outermost_loop(site) for site in pair.sites}
    divides = len(loops) == 1 and "" not in loops and pair.run.log.allocations[pair.allocations[0]].memory == "gdram"
    return f"{_OWN_BYTES}: see the bounds of the loop at {loops.pop()}" if divides else _OWN_BYTES


def _by_task_id(pair: Pair, kind: str) -> list[str]:
    """Return the remedy for tasks at the same place of two jobs, in a kernel that numbers its work by cluster."""
    jobs = pair.run.order.job
    places = {sum(jobs[other] == jobs[task] for other in range(task)) for task in pair.tasks}
    file, line, _ = pair.sources[0]
    first, last = source_file(file).function(line)[0]
    for at in (SourceLine(file, number) for number in range(first, last + 1) if len(places) == 1):
        if found := _CLUSTER_ID.search(at.source):
            inside = f"{found[0]} at {at.location} counts within one {kind} job, so every job does the same work"
            return [f"number the work by {_TASK_IDS[found[0]]}: {inside}"]
    return []


def _between_launches(launched_at: list[str]) -> tuple[str, str, list[str]]:
    """Return what `TaskRemedies.of` does for tasks of different launches, with the lines of the host for both."""
    first, second = launched_at
    lines = f", those at {first} and {second}" if first != second else f", those at {first}" if first else ""
    choices = [f"put both launches on one queue{lines}"]
    if Path(second.partition(":")[0]).suffix in ("", ".py"):
        choices.append("call device.synchronize() between them")
    else:
        choices += [
            "place a notifier after the first one, and let the queue of the second wait for it: cnrtQueueWaitNotifier",
            "wait for the first one: cnrtQueueSync",
        ]
    return "synchronize", "launches on different queues are not ordered", choices


def _between_jobs(pair: Pair, kind: str, special: list[str], general: list[str]) -> tuple[str, str, list[str]]:
    """Return what `TaskRemedies.of` does for tasks of different jobs of a launch; `kind`: its task type."""
    by_cluster = _by_task_id(pair, kind)
    choices = [*special, *by_cluster, _split_at(pair), *general]
    two_launches = "split the kernel into two launches on one queue"
    both_write = all(pair.writes)  # work that is done twice remains so in another order
    choices.append(f"if both writes are intended, {two_launches}" if both_write else two_launches)
    if kind == "BLOCK":
        return "", "BLOCK tasks are not ordered, not even those that share a core", choices
    if by_cluster or not both_write:
        choices.append("launch both tasks in one job: a union of more clusters")
    return "", f"the jobs of a {kind} grid are not ordered: no barrier spans two jobs", choices

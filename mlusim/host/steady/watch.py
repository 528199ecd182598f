"""Watches a run, and skips repeats once its tasks are steady.

At intervals, all running tasks are examined. If each is in a loop, and their pace is known precisely enough, each skips
as many periods as pass in the same time (`FastForward`); where the operations wait in its pipe already, they leave the
pipe. The last periods of all tasks are simulated, so the end of the run is real.

Tasks meet the end with typical leads (`Pace.typical_changes`), and the bound includes what other leads would change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from mlusim.cores.locks import LOCK_NAMES
from mlusim.cores.sets_and_atomics import ATOMIC_NAMES, SET_NAMES
from mlusim.host.steady.courses import LEFT, MEASURED, WARM, Codes, Course, crews, loop_end
from mlusim.host.steady.fast_forward import FastForward
from mlusim.host.steady.loops import Loop
from mlusim.host.steady.pace import Pace, pace_of
from mlusim.host.steady.pattern import Pattern
from mlusim.log import NONE, SCALAR, Log
from mlusim.memory.kinds import Direction
from mlusim.records import INSTRUCTION

if TYPE_CHECKING:
    from mlusim.cores.chip import Chip
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.task import Task

Item = TypeVar("Item")
# Largest relative error of a run's time.
ALLOWED = 0.005
# Fraction of a run that has to be skipped for an extrapolation to pay off.
_MIN_SKIPPED = 0.25
# Part of the time in loops that counts as transient.
_UNMEASURED = 0.2
# Standard deviation of the changes of leads, in periods, from which on tasks are at any point of their loops.
_OUT_OF_STEP = 0.4
# Part of a period that a task takes alone, from which on a link is full by chance: it idles in rare episodes, such as
# those at the beginning of a loop.
_SELDOM_WAITS = 0.8
# Part of a task's operations that may follow its loop if cores share a link: they are simulated, but begin in another
# state than in the full run.
_FOLLOW = 0.05
# Part of a period by which the end of a run depends on when the skip takes place.
_PHASE = 0.25
# Part of that error that may be expected in advance.
_RESERVE = 0.9
# Events between two looks at the tasks: at first, then relative to the events so far; and the number of operations of
# each task below which a look is useless.
_FIRST_EVENTS, _MORE_EVENTS, _FEWEST = 500, 0.6, 2 * (WARM + MEASURED)
_NO_PACE = "its tasks do not settle at one pace"
_FOLLOWED = "what follows its loops depends on how its tasks overtake each other in them"
_DRIFT = "its tasks drift apart: the run could end more than 0.5 % earlier or later than extrapolated"
_BY_MEMORY_CORE = [code for code, direction in enumerate(Direction) if direction.by_memory_core]


class Cut(NamedTuple):
    """Operations that one task skipped.

    Attributes:
        position: index in the task's records of the last completed operation; in time, the skipped ones follow it.
        operations: number of skipped operations.
        period: operations of a period.
        forward: how they were issued; None if they were taken out of the pipe, two operations after `position`.
        most: number of operations of the task, at most: the bound does not account for what follows the loop.
    """

    position: int
    operations: int
    period: int
    forward: FastForward | None
    most: float


class Skip(NamedTuple):
    """Operations skipped by all tasks: in simulated time (without it) the start, its length, and its error bound."""

    now_ps: int
    length_ps: int
    bound_ps: float
    cuts: dict[int, Cut]


@dataclass(frozen=True)
class _Group:
    """Tasks in the same loop.

    Attributes:
        codes: the codes of the log.
        members: one task of each crew.
        pace: their pace.
        periods: mean number of periods left.
    """

    codes: Codes
    members: list[Course]
    pace: Pace
    periods: float

    @cached_property
    def alone_ps(self) -> int:
        """Time of a period without other tasks."""
        return max(map(self.codes.alone_ps, self.members))

    @cached_property
    def shares(self) -> bool:
        """Whether tasks share a full link, so that they overtake each other at random."""
        return len(self.members) > 1 and any(map(self.codes.waits, self.members))

    def in_step(self) -> bool:
        """Whether tasks that share a link are at the same points of their loops as at first.

        Such a state may last for hundreds of periods, and then dissolve within a few: the pace changes.
        """
        return self.pace.spread(self.pace.measured) < _OUT_OF_STEP and self.shares

    def may_slow_down(self, skipped_ps: float, allowed_ps: float) -> bool:
        """Whether the link may idle again as it did before the measured time, and what that would change."""
        return (
            self.pace.slower_before * skipped_ps > allowed_ps
            and self.shares
            and self.alone_ps > _SELDOM_WAITS * self.pace.period_ps
        )

    def most_skipped(self) -> float:
        """Return the time that can be skipped such that every task has some periods left."""
        most = float(self.pace.leads.max()) + 2 * self.pace.spread(self.periods)
        return (self.periods - LEFT - most) * self.pace.period_ps

    def errors(self, skipped_ps: float) -> tuple[float, float]:
        """Return bounds of the errors of a skip, in picoseconds: of the pace, and of the end of the run."""
        period_ps = self.pace.period_ps
        skipped = skipped_ps / period_ps
        return self.pace.skip_error(skipped) * period_ps, self.pace.end_error(skipped, self.alone_ps) * period_ps

    def least_errors(self) -> tuple[float, float]:
        """As `errors`, for a skip of a quarter of the run after a measurement of half of it."""
        period_ps = self.pace.period_ps
        half = (self.pace.progress + self.periods) / 2
        end_error = self.pace.end_error(half, self.alone_ps, exact=True)
        return self.pace.skip_error(half / 2, half) * period_ps, end_error * period_ps


class Watch:
    """Watches the run of a chip, and skips what repeats.

    Args:
        dry_log: returns the log of a dry run.

    Attributes:
        skips: what was skipped.
        why: why nothing more is skipped.
        waits_for: why an earlier look did not skip anything.
    """

    def __init__(self, dry_log: Callable[[], Log]) -> None:
        self._dry_log = dry_log
        self._dry: Log | None = None
        # By launch, the number of operations of its tasks when their loop ends, and the number of those that follow.
        self._loop_ends: dict[int, tuple[int, int]] = {}
        # By task, the loops declared so far, the innermost one last.
        self._loops: dict[int, list[Loop[Any]]] = {}
        self.skips: list[Skip] = []
        self.why = ""
        self.waits_for = ""

    def run(self, chip: Chip, step: Callable[[], None]) -> None:
        """Run a chip until nothing more can be skipped; raises `EmptySchedule` if that is its end."""
        self._chip = chip
        passed = 0
        more = _FIRST_EVENTS
        while more:
            for _ in range(more):
                step()
            passed += more
            more = round(passed * self._look())

    def loop(self, issuer: Issuer, items: Sequence[Item], along: Sequence[Any]) -> Iterator[Item]:
        """Return an iterator over the items of a declared loop, which may leave items out."""
        loop = Loop(issuer, items, along)
        self._loops.setdefault(issuer.task.index, []).append(loop)
        return iter(loop)

    def _loop_of(self, task: Task) -> Loop[Any] | None:
        """Return the declared loop that a task is in."""
        loops = self._loops.get(task.index, [])
        while loops and loops[-1].ended:
            loops.pop()
        return loops[-1] if loops else None

    def _look(self) -> float:
        """Skip repeats if all running tasks are steady.

        Returns the number of events until the next look, relative to the events so far; 0 if there need not be one.
        """
        tasks = [unit.task for unit in self._chip.units() if unit.task is not None]
        skipped = {number for skip in self.skips for number in skip.cuts}
        if any(task.index == NONE or task.index in skipped for task in tasks):
            return _MORE_EVENTS
        if not tasks or np.median([task.operations for task in tasks]) < _FEWEST:
            return _MORE_EVENTS
        self.why = unfit(self._chip.log)
        if self.why:
            return 0.0
        codes = Codes(self._chip.log)
        courses = self._courses(codes, tasks)
        if not courses:
            return 2 * _MORE_EVENTS
        begin = max(float(course.ends[WARM]) for course in courses)
        end = min(float(course.ends[-1]) for course in courses)
        since, begin = begin, begin + (end - begin) * _UNMEASURED
        if any(
            np.searchsorted(course.ends, end) - np.searchsorted(course.ends, begin) < MEASURED for course in courses
        ):
            return _MORE_EVENTS
        by_group: dict[Any, list[Course]] = {}
        for crew in crews(courses):
            by_group.setdefault(crew[0].group, []).append(crew[0])
        groups = []
        for members in by_group.values():
            pace = pace_of([one.ends for one in members], [one.progress for one in members], begin, end, since)
            periods = min(self._loop_end(one) for one in members) / members[0].period.operations - pace.progress
            groups.append(_Group(codes, members, pace, periods))
        return self._decide(courses, groups)

    def _courses(self, codes: Codes, tasks: list[Task]) -> list[Course]:
        """Return the loops of all tasks but those that wait at a barrier; empty if one is not in a loop."""
        now = self._chip.environment.now
        courses = []
        for task in tasks:
            course = codes.course_of(task, now)
            if course is not None:
                courses.append(course)
            elif not codes.waits_at_barrier(task):
                return []
        return courses

    def _decide(self, courses: list[Course], groups: list[_Group]) -> float:
        """Skip as much as the tasks' paces allow; returns as `_look`."""
        now = self._chip.environment.now
        skipped_ps = min(group.most_skipped() for group in groups)
        own_ps = now + max(group.periods * group.pace.period_ps for group in groups)
        if skipped_ps < _MIN_SKIPPED * own_ps:
            self.why = self.waits_for or f"its tasks repeat no loop much more than {WARM + MEASURED + LEFT} times"
            return 0.0
        total_ps = own_ps + sum(skip.length_ps for skip in self.skips)
        allowed_ps = _RESERVE * ALLOWED * total_ps - sum(skip.bound_ps for skip in self.skips)
        if any(group.in_step() or group.may_slow_down(skipped_ps, allowed_ps) for group in groups):
            self.waits_for = _NO_PACE
            return _MORE_EVENTS
        bound_ps = max(float(np.hypot(*group.errors(skipped_ps))) for group in groups)
        bound_ps += _PHASE * max(group.pace.period_ps for group in groups) * (len(courses) > len(crews(courses)[0]))
        if bound_ps <= allowed_ps:
            if any(group.shares for group in groups) and any(self._much_follows(course) for course in courses):
                self.waits_for = _FOLLOWED
                return _MORE_EVENTS
            return self._skip(courses, groups, skipped_ps, bound_ps, allowed_ps)
        pace_ps, end_ps = (max(errors) for errors in zip(*(group.least_errors() for group in groups), strict=True))
        self.waits_for = _NO_PACE if pace_ps > end_ps else _DRIFT
        if np.hypot(pace_ps, end_ps) <= allowed_ps:
            return _MORE_EVENTS
        self.why = self.waits_for
        return 0.0

    def _loop_end(self, course: Course) -> int:
        """Return the number of operations that a task has issued when its loop ends."""
        declared = self._loop_of(course.task)
        if declared is not None and (end := declared.end(course.period.operations)):
            return end
        end = course.position + 1 + course.period.after * course.period.operations
        if len(course.records) - end >= course.period.operations:
            return end
        # The loop may continue beyond what has been issued.
        return max(end, self._dry_loop_end(course)[0])

    def _dry_loop_end(self, course: Course) -> tuple[int, int]:
        """Return the number of operations of tasks when their loop ends, and the number of those that follow."""
        launch, issued = course.task.job.launch.index, course.position + 1
        if self._loop_ends.get(launch, (0, 0))[0] < issued:
            self._dry = self._dry_log() if self._dry is None else self._dry
            self._loop_ends[launch] = loop_end(self._dry, launch, issued)
        return self._loop_ends[launch]

    def _much_follows(self, course: Course) -> bool:
        """Whether other tasks, launches or loops follow the loop that a task is in, as far as that is known."""
        launch = course.task.job.launch
        if launch.waiting or len(launch.queue.launches) > 1:
            return True
        # What follows a declared loop is known at the end of the run only (`Cut.most`).
        return self._loop_of(course.task) is None and self._dry_loop_end(course)[1] > _FOLLOW * self._loop_end(course)

    def _skip(
        self, courses: list[Course], groups: list[_Group], length_ps: float, bound_ps: float, allowed_ps: float
    ) -> float:
        """Let every task skip what passes in that time; returns as `_look`."""
        own_periods: dict[int, int] = {}
        # The slowest group skips whole periods, which the other ones match as well as they can.
        for group in sorted(groups, key=lambda group: -group.pace.period_ps):
            pace = group.pace
            periods = length_ps / pace.period_ps
            each = (round(periods) if own_periods else int(periods)) + pace.typical_changes(periods, group.alone_ps)
            group_ps = float(each.mean()) * pace.period_ps
            if not own_periods:
                length_ps = group_ps
            bound_ps += abs(group_ps - length_ps)
            own_periods |= dict(zip((one.task.index for one in group.members), each.tolist(), strict=True))
        if bound_ps > allowed_ps / _RESERVE or min(own_periods.values()) < 1:
            return _MORE_EVENTS
        in_loops, pattern = self._pattern(courses)
        declared = [loop for course in courses if (loop := self._loop_of(course.task)) is not None]
        shorter = [loop.limit(pattern) for loop in declared]
        if any(shorter):
            return self._look()
        shares = any(group.shares for group in groups)
        cuts: dict[int, Cut] = {}
        queued = []
        for crew in crews(courses):
            periods_of = _periods_of(crew, own_periods[crew[0].task.index])
            if not periods_of:
                return _MORE_EVENTS
            for course, periods in zip(crew, periods_of, strict=True):
                length = course.period.operations
                most = (1 + _FOLLOW) * self._loop_end(course) + length if shares else np.inf
                cuts[course.task.index] = Cut(course.position, periods * length, length, None, most)
                queued.append(_waits_in_pipe(course, periods * length, self._chip.environment.now))
        if None in queued:
            return _MORE_EVENTS
        for course, in_pipe in zip(chain.from_iterable(crews(courses)), queued, strict=True):
            cut = cuts[course.task.index]
            if in_pipe:
                _take_out(course.task, cut.operations)
            else:
                loop, iterations = in_loops.get(course.task.index, (None, 0))
                forward = FastForward(course.task.issuer, cut.operations, iterations * cut.operations // cut.period)
                if loop is not None and pattern is not None:
                    loop.pass_by(forward, pattern)
                cuts[course.task.index] = cut._replace(forward=forward)
        self.skips.append(Skip(self._chip.environment.now, round(length_ps), bound_ps, cuts))
        return _MORE_EVENTS

    def _pattern(self, courses: list[Course]) -> tuple[dict[int, tuple[Loop[Any], int]], Pattern | None]:
        """Return the declared loops of tasks, with the iterations of a period, and what their iterations issue."""
        loops: dict[int, tuple[Loop[Any], int]] = {}
        operations = set()
        for course in courses:
            loop = self._loop_of(course.task)
            iterations = loop.iterations(course.period.operations) if loop is not None else 0
            if loop is not None and iterations and not course.rounds and len(loop.values):
                loops[course.task.index] = loop, iterations
                operations.add(course.period.operations / iterations)
        if len(operations) != 1 or (each := operations.pop()) % 1:
            return {}, None
        records = {course.task.index: course.records for course in courses}
        log, unit = self._chip.log, self._chip.board.dram_unit_bytes
        return loops, Pattern(log, {task: loop for task, (loop, _) in loops.items()}, records, int(each), unit)


def _periods_of(crew: list[Course], periods: int) -> list[int]:
    """Return the periods that each task of a crew skips if the first one skips `periods`; empty if that is impossible.

    All have to skip equally many rounds of each barrier.
    """
    each = []
    for course in crew:
        rounds = {divmod(periods * crew[0].rounds.get(name, 0), times) for name, times in course.rounds.items()}
        whole = [own for own, rest in rounds or {(periods, 0)} if not rest]
        if len(whole) != 1 or len(rounds) > 1:
            return []
        each.append(whole[0])
    return each


def _waits_in_pipe(course: Course, operations: int, now: int) -> bool | None:
    """Whether the next operations of a task, but the current one, wait in its pipe.

    None if some do and some do not, or if some are not ready yet: they do not begin earlier if others are skipped.
    """
    ahead = course.records[course.position + 2 : course.position + 2 + operations]
    if len(ahead) < operations:
        return False
    queue = [*islice(course.task.unit.io.queue, operations)]
    if not np.array_equal([transfer.record for transfer in queue], ahead):
        return None
    return True if course.task.now_ps + max(transfer.latency_ps for transfer in queue) <= now else None


def _take_out(task: Task, operations: int) -> None:
    queue = task.unit.io.queue
    for _ in range(operations):
        queue.popleft()
    task.pending_io -= operations


def unfit(log: Log) -> str:
    """Return why operations of a run cannot be skipped; empty if they can."""
    ops = set(log.ops)
    table, rows = log.records.instructions()
    of = {name: table[:, INSTRUCTION.index(name)] for name in ("direction", "pipe")}
    if log.loops or log.addresses:
        return "what its loops of rows or elements do depends on data"
    if ops & {*LOCK_NAMES, *ATOMIC_NAMES, *SET_NAMES}:
        return "it has locks or atomics, whose order is decided by time"
    if np.isin(of["direction"], _BY_MEMORY_CORE).any():
        return "it copies by memory cores, whose copies several calls share"
    scalar = np.flatnonzero((of["pipe"] == SCALAR)[rows])
    if (log.records.column("dst_alloc", scalar) != NONE).any():
        return "it has scalar stores, and loads may depend on them"
    return ""

"""Replay of a dry log that skips repeats once the tasks are steady.

Every task replays its operations in order. At intervals all running tasks are examined: if each is in a loop, has
simulated enough periods of it, and the pace of the last periods matches that of the ones before, every task skips as
many periods as pass in the same time, and continues after them. The simulated part is a run with shorter loops, and
nothing else.

Tasks that issue the same loop next to equally many neighbours share one pace: they differ only by arbitration, which
averages out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mlusim.cores.syncs import BARRIERS
from mlusim.errors import MlusimError
from mlusim.host.replay import Replay
from mlusim.host.steady.periods import Integers, Period, codes_of, period_at
from mlusim.log import ASYNCHRONOUS, IO, MOVE, NONE
from mlusim.records import INSTRUCTION

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.task import Task
    from mlusim.cores.waiting import Waiting
    from mlusim.hardware import Board
    from mlusim.host.device import Device
    from mlusim.log import Log

# Periods that a task simulates before it counts as steady, periods then measured, and periods simulated at its end.
WARM, MEASURED, LEFT = 4, 12, 4
# Largest relative difference in pace between the first and the second half of the measured periods.
AGREEMENT = 0.005
# Largest relative error of a run's time.
ALLOWED = 0.005
# Fraction of the operations after which a run without skips is better simulated in full.
_MAX_UNSKIPPED = 0.4
# Copies in flight that a task issues ahead: enough to keep its pipe busy.
AHEAD = 8
# Periods per block of compared sums: neighbouring periods may compensate each other.
_BLOCK = 4
# Tasks are examined again when the simulated part has grown by this factor.
_GROWTH = 1.2


class UnsteadyError(MlusimError):
    """Too little can be skipped. Caught by `mlusim.host.steady.steady`."""


class Cut(NamedTuple):
    """Repeats skipped by one task. A position is an index into its simulated operations, without gaps.

    Attributes:
        position: the last completed operation; in time, the skipped operations follow it.
        operations: number of skipped operations.
        measured: operations in the whole periods up to `position` that the skipped ones repeat.
    """

    position: int
    operations: int
    measured: int


class Skip(NamedTuple):
    """A stretch skipped by all tasks: its start in simulated time (without it), its length, and its error bound."""

    now_ps: int
    length_ps: int
    bound_ps: int
    cuts: dict[int, Cut]


class Course:
    """The progress of a task; `numbers` are the new log's records of its simulated operations."""

    def __init__(self, task: Task, codes: Integers, *, runs_ahead: bool) -> None:
        self.task = task
        self.codes = codes
        self.next = 0
        self.numbers: list[int] = []
        # (position, operations skipped before it), for all cuts.
        self.cuts: list[tuple[int, int]] = []
        self.runs_ahead = runs_ahead

    def simulated(self) -> Integers:
        """Return the simulated operations, as codes."""
        simulated = np.ones(self.next, bool)
        skipped = 0
        for position, operations in self.cuts:
            simulated[position + skipped : position + skipped + operations] = False
            skipped += operations
        return self.codes[: self.next][simulated]


class _Pace(NamedTuple):
    """The loop that a task is in: its period, the ends of its last complete periods, and its group."""

    position: int
    period: Period
    ends: Integers
    group: tuple[Any, ...]


class _Measured(NamedTuple):
    """The end times of a task's steady periods."""

    number: int
    ends: Integers

    @property
    def period_ps(self) -> float:
        return float(self.ends[-1] - self.ends[0]) / (len(self.ends) - 1)


class _Group:
    """Tasks that execute the same loop.

    Attributes:
        period_ps: mean time of a period over all of them.
        doubt: relative difference of that time between the first and the second half of the measured periods.
        error: relative standard error of that time.
        drift_ps: standard deviation of a task's lead over the mean after one period; it grows with the square root of
            the number of periods.
        ahead: by task, its expected lead after one period, in periods.
    """

    def __init__(self, members: list[_Measured]) -> None:
        halves = []
        for pace in members:
            half = len(pace.ends) // 2
            halves.append(
                (
                    (pace.ends[half] - pace.ends[0]) / half,
                    (pace.ends[-1] - pace.ends[half]) / (len(pace.ends) - 1 - half),
                )
            )
        first, second = np.mean(halves, axis=0).tolist()
        self.period_ps = float(np.mean([pace.period_ps for pace in members]))
        self.doubt = abs(first - second) / self.period_ps if self.period_ps else 0.0
        roots = {pace.number: (len(pace.ends) - 1) ** 0.5 for pace in members}
        ahead = {pace.number: self.period_ps - pace.period_ps for pace in members}
        # For few tasks their paces alone are unreliable, and so are the lengths of single periods.
        blocks = np.concatenate([np.diff(pace.ends[::_BLOCK]) for pace in members]) - _BLOCK * self.period_ps
        between = np.mean([(ahead[number] * roots[number]) ** 2 for number in roots])
        self.drift_ps = float(np.sqrt(max(between, np.mean(blocks**2) / _BLOCK)))
        self.error = self.drift_ps / (self.period_ps or 1) / sum(len(pace.ends) - 1 for pace in members) ** 0.5
        self.ahead = {number: ahead[number] * roots[number] / (self.period_ps or 1) for number in roots}


class CuttingReplay(Replay):
    """A replay that skips repeats, listed in `skips`."""

    def __init__(self, log: Log, board: Board, device: Device) -> None:
        super().__init__(log, board, device)
        self.codes = codes_of(log)
        self.skips: list[Skip] = []
        self.courses: dict[int, Course] = {}
        table, rows = log.records.instructions()
        of = {name: table[:, INSTRUCTION.index(name)][rows] for name in ("op", "pipe", "detail", "alone_ps")}
        self._alone_ps = of["alone_ps"]
        barriers = [number for number, name in enumerate(log.ops) if name in BARRIERS]
        self._is_barrier = np.isin(of["op"], barriers)
        copies = of["op"] == (log.ops.index("memcpy") if "memcpy" in log.ops else NONE)
        self._queues = copies & (of["pipe"] == IO) & (of["detail"] == ASYNCHRONOUS)
        self._moves = copies & (of["pipe"] == MOVE) & (of["detail"] == ASYNCHRONOUS)
        # Time skipped so far, and its error bound.
        self.added_ps = self.bound_ps = 0.0
        self._issued = 0
        self._next_check = 0

    def _positions(self, number: int, issuer: Issuer) -> Iterator[int]:
        records = self._records[number]
        # A task with a second pipe would have to wait for what the first one queues.
        runs_ahead = not self._moves[records].any()
        course = self.courses[number] = Course(issuer.task, self.codes[records], runs_ahead=runs_ahead)
        self._next_check = max(self._next_check, self._issued + 8 * len(self._running()))
        while course.next < len(records):
            self._issued += 1
            if self._issued >= self._next_check:
                self._try_to_skip()
                if not self.skips and self._issued > _MAX_UNSKIPPED * len(self._log):
                    raise UnsteadyError("its tasks do not settle at one pace")
                self._next_check = int(self._issued * _GROWTH) + 1
                if course.next >= len(records):
                    break
            position = course.next
            course.next += 1
            course.numbers.append(len(self._origin))
            yield position

    def _issue(self, issuer: Issuer, record: int) -> Waiting | None:
        waits = super()._issue(issuer, record)
        task = issuer.task
        if waits is None and self._queues[record] and task.pending_io >= AHEAD and self._course(issuer).runs_ahead:
            task.unawaited = len(self._origin) - 1
            task.resumes_below = AHEAD
            return task.suspending
        return waits

    def _course(self, issuer: Issuer) -> Course:
        return self.courses[
            self._task_of[issuer.task.job.launch.index, issuer.task.linear_id, issuer.unit.is_memory_core]
        ]

    def _running(self) -> dict[int, Course]:
        return {number: course for number, course in self.courses.items() if not course.task.finished}

    def _try_to_skip(self) -> None:
        """Skip repeats if all running tasks are steady."""
        if any(unit.task is not None and unit.task.index == NONE for unit in self._chip.units()):
            return
        running = self._running()
        paces: dict[int, _Pace] = {}
        for number, course in running.items():
            pace = self._pace(course)
            if pace is not None:
                paces[number] = pace
            elif not self._waits_at_barrier(number, course):
                return
        if not paces:
            return
        now = self._chip.environment.now
        begin = max(float(pace.ends[WARM * pace.period.operations]) for pace in paces.values())
        measured_by_group: dict[tuple[Any, ...], list[_Measured]] = {}
        for number, pace in paces.items():
            ends = pace.ends[::-1][:: pace.period.operations][::-1]
            ends = ends[ends >= begin]
            if len(ends) <= MEASURED:
                return
            measured_by_group.setdefault(pace.group, []).append(_Measured(number, ends))
        groups = {group: _Group(members) for group, members in measured_by_group.items()}
        if all(group.period_ps for group in groups.values()):
            self._skip(now, paces, groups)

    def _skip(self, now: int, paces: dict[int, _Pace], groups: dict[tuple[Any, ...], _Group]) -> None:
        """Skip as many periods as the error bound allows."""
        relative_error = max(max(group.doubt, group.error) for group in groups.values())
        if relative_error > AGREEMENT:
            return
        slowest = max(group.period_ps for group in groups.values())
        times = int(min((pace.period.after - LEFT) * groups[pace.group].period_ps for pace in paces.values()) / slowest)
        # Tasks drift apart with the square root of time; the expected drift has to stay within the allowed error.
        drift = max(group.drift_ps for group in groups.values())
        left_ps = ALLOWED * (now + self.added_ps + times * slowest) - self.bound_ps
        if drift * times**0.5 > left_ps * 0.8:
            possible, times = times, int(max(left_ps * 0.8 / drift, 0.0) ** 2)
            if times < possible / 2 and not self.skips:
                raise UnsteadyError(
                    "its tasks drift apart: the run could end more than 0.5 % earlier or later than extrapolated"
                )
        if times < MEASURED:
            return
        # Tasks that meet at barriers have to skip the same number of rounds.
        meetings = {self._barriers_in_period(number, pace) for number, pace in paces.items()}
        if meetings != {0} and len(meetings) > 1:
            return
        length_ps = times * slowest
        cuts = {}
        off_ps = unlike = 0.0
        for number, pace in paces.items():
            course, length, group = self.courses[number], pace.period.operations, groups[pace.group]
            even = length_ps / group.period_ps
            periods = round(even)
            if meetings == {0}:
                # Preserve the lead or lag that the task would have by then.
                periods = round(even + group.ahead[number] * even**0.5)
                off_ps = max(off_ps, abs(round(even) - even) * group.period_ps)
            periods = min(max(periods, MEASURED), pace.period.after - LEFT)
            cuts[number] = Cut(pace.position, periods * length, MEASURED * length)
            unlike = max(unlike, self._unlike(number, course, cuts[number]))
        bound_ps = (relative_error + unlike) * length_ps + off_ps + drift * times**0.5
        if bound_ps > left_ps:
            return
        for number, cut in cuts.items():
            course = self.courses[number]
            course.cuts.append((len(course.numbers), cut.operations))
            course.next += cut.operations
        self.skips.append(Skip(now, round(length_ps), round(bound_ps), cuts))
        self.added_ps += length_ps
        self.bound_ps += bound_ps

    def _unlike(self, number: int, course: Course, cut: Cut) -> float:
        """Return the relative difference in cost between the skipped operations and the measured ones they repeat."""
        cost = self._alone_ps[self._records[number]]
        first = course.next - cut.measured
        whole = cut.operations // cut.measured * cut.measured
        per_period = cost[first : course.next].sum() * (whole // cut.measured)
        return abs(float(cost[course.next : course.next + whole].sum() / per_period) - 1) if per_period else 0.0

    def _barriers_in_period(self, number: int, pace: _Pace) -> int:
        course = self.courses[number]
        last = self._records[number][course.next - pace.period.operations : course.next]
        return int(self._is_barrier[last].sum())

    def _waits_at_barrier(self, number: int, course: Course) -> bool:
        return bool(course.task.waits_for) and bool(self._is_barrier[self._records[number][course.next - 1]])

    def _pace(self, course: Course) -> _Pace | None:
        """Return the loop that a task is in, if it has simulated enough of it since its last cut."""
        now = self._chip.environment.now
        codes = course.simulated()
        numbers = np.array(course.numbers)
        if not len(numbers):
            return None
        ends = self._chip.log.records.column("end_ps", numbers)
        under_way = np.flatnonzero((ends < 0) | (ends > now))
        position = int(under_way[0]) - 1 if len(under_way) else len(ends) - 1
        begin = course.cuts[-1][0] if course.cuts else 0
        if position < begin:
            return None
        # Append the operations still to come.
        course_codes = np.concatenate([codes, course.codes[course.next :]])
        period = period_at(course_codes, position, WARM + MEASURED + 1, begin)
        if period is None:
            return None
        ahead = len(codes) - 1 - position
        after = period.after - -(-ahead // period.operations)
        if after <= LEFT:
            return None
        length = period.operations
        since = position - period.before * length + 1
        neighbours = sum(unit.task is not None and not unit.task.finished for unit in course.task.unit.cluster.cores)
        group = (length, neighbours, np.sort(codes[position + 1 - length : position + 1]).tobytes())
        return _Pace(position, period._replace(after=after), ends[since : position + 1], group)

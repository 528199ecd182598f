"""Watches a run, and skips repeats once its tasks are steady.

At intervals, all running tasks are examined. If each is in a loop, and their pace is known precisely enough, each skips
as many periods as pass in the same time (`FastForward`); where the operations wait in its pipe already, they leave the
pipe. The last periods of all tasks are simulated, so the end of the run is real.

Tasks meet the end with typical leads (`Pace.typical_changes`), and the bound includes what other leads would change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mlusim.host.steady.declared_loop import DeclaredLoop
from mlusim.host.steady.fast_forward import FastForward
from mlusim.host.steady.pace import pace_of
from mlusim.host.steady.predicted_iterations import PredictedIterations
from mlusim.host.steady.refusals import unfit
from mlusim.host.steady.skips import Skip, SkippedPart, periods_of_groups, periods_of_team, take_out, waits_in_pipe
from mlusim.host.steady.task_group import TaskGroup
from mlusim.host.steady.task_loops import LEFT, MEASURED, WARM, RunSoFar, TaskLoop, loop_end, teams
from mlusim.log import NONE, Log

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.machine.chip import Chip
    from mlusim.cores.tasks.task import Task

Item = TypeVar("Item")
# Largest relative error of a run's time.
ALLOWED = 0.005
# Fraction of a run that has to be skipped for an extrapolation to pay off.
_MIN_SKIPPED = 0.25
# Fraction of the time in loops that is left out of the measurement, as transient.
_UNMEASURED = 0.2
# Largest fraction of a task's operations that may follow its loop if cores share a link: they are simulated, but begin
# in a state other than that of the full run.
_FOLLOW = 0.05
# The end of a run depends on when the skip takes place, by up to this fraction of a period.
_PHASE = 0.25
# A skip is begun only if its expected error is at most this fraction of the allowed one.
_RESERVE = 0.9
# Events before the first look at the tasks, and between later ones, relative to the events so far.
_FIRST_EVENTS = 500
_MORE_EVENTS = 0.6
# A look is useless if most tasks have issued fewer operations.
_FEWEST = 2 * (WARM + MEASURED)
_NO_PACE = "its tasks do not settle at one pace"
_FOLLOWED = "the order in which its tasks leave their loops changes what follows"
_DRIFT = "its tasks drift apart: the run could end more than 0.5 % earlier or later than extrapolated"


class Watch:
    """Watches the run of a chip, and skips what repeats.

    Args:
        dry_log: returns the log of a dry run.

    Attributes:
        skips: the skipped parts of the run.
        why: why nothing more is skipped.
        waits_for: why an earlier look did not skip anything.
    """

    def __init__(self, dry_log: Callable[[], Log]) -> None:
        self._dry_log = dry_log
        self._dry: Log | None = None
        # By launch, the number of operations of its tasks when their loop ends, and the number of those that follow.
        self._loop_ends: dict[int, tuple[int, int]] = {}
        # By task, the loops declared so far, the innermost one last.
        self._declared: dict[int, list[DeclaredLoop[Any]]] = {}
        self.skips: list[Skip] = []
        self.why = ""
        self.waits_for = ""

    def run(self, chip: Chip, step: Callable[[], None]) -> None:
        """Run a chip until nothing more can be skipped; raises `EmptySchedule` if that is its end."""
        self._chip = chip
        events = 0
        more_events = _FIRST_EVENTS
        while more_events:
            for _ in range(more_events):
                step()
            events += more_events
            more_events = round(events * self._skip_if_steady())

    def loop(self, issuer: Issuer, items: Sequence[Item], along: Sequence[Any]) -> Iterator[Item]:
        """Return an iterator over the items of a declared loop, which may leave items out."""
        declared_loop = DeclaredLoop(issuer, items, along)
        self._declared.setdefault(issuer.task.index, []).append(declared_loop)
        return iter(declared_loop)

    def _declared_loop_of(self, task: Task) -> DeclaredLoop[Any] | None:
        """Return the declared loop that a task is in."""
        loops = self._declared.get(task.index, [])
        while loops and loops[-1].ended:
            loops.pop()
        return loops[-1] if loops else None

    def _skip_if_steady(self) -> float:
        """Skip repeats if all running tasks are steady.

        Returns the number of events until the next look, relative to the events so far; 0 if there need not be one.
        """
        tasks = [unit.task for unit in self._chip.units() if unit.task is not None]
        skipped = {number for skip in self.skips for number in skip.parts}
        if any(task.index == NONE or task.index in skipped for task in tasks):
            return _MORE_EVENTS
        if not tasks or np.median([task.operations for task in tasks]) < _FEWEST:
            return _MORE_EVENTS
        self.why = unfit(self._chip.log)
        if self.why:
            return 0.0
        run = RunSoFar(self._chip.log)
        loops = self._loops_of(run, tasks)
        if not loops:
            return 2 * _MORE_EVENTS
        begin = max(float(loop.ends[WARM]) for loop in loops)
        end = min(float(loop.ends[-1]) for loop in loops)
        begin += (end - begin) * _UNMEASURED
        if any(np.searchsorted(loop.ends, end) - np.searchsorted(loop.ends, begin) < MEASURED for loop in loops):
            return _MORE_EVENTS
        return self._decide(loops, self._groups_of(run, loops, begin, end))

    def _loops_of(self, run: RunSoFar, tasks: list[Task]) -> list[TaskLoop]:
        """Return the loops of all tasks but those that wait at a barrier; empty if one is not in a loop."""
        now = self._chip.environment.now
        loops = []
        for task in tasks:
            loop = run.loop_of(task, now)
            if loop is not None:
                loops.append(loop)
            elif not run.waits_at_barrier(task):
                return []
        return loops

    def _groups_of(self, run: RunSoFar, loops: list[TaskLoop], begin: float, end: float) -> list[TaskGroup]:
        """Return the groups of tasks in the same loop, with their pace from `begin` to `end`."""
        by_group: dict[Any, list[TaskLoop]] = {}
        for team in teams(loops):
            by_group.setdefault(team[0].group, []).append(team[0])
        groups = []
        for members in by_group.values():
            pace = pace_of([member.ends for member in members], [member.progress for member in members], begin, end)
            periods = min(self._loop_end(member) for member in members) / members[0].period.operations - pace.progress
            pace = pace._replace(links=run.links(members, pace.period_ps))
            groups.append(TaskGroup(run, members, pace, periods))
        return groups

    def _decide(self, loops: list[TaskLoop], groups: list[TaskGroup]) -> float:
        """Skip as much as the tasks' paces allow; returns as `_skip_if_steady`."""
        now = self._chip.environment.now
        skipped_ps = min(group.most_skipped() for group in groups)
        expected_ps = now + max(group.periods * group.pace.period_ps for group in groups)
        if skipped_ps < _MIN_SKIPPED * expected_ps:
            self.why = self.waits_for or f"no loop of its tasks has many more than {WARM + MEASURED + LEFT} iterations"
            return 0.0
        total_ps = expected_ps + sum(skip.length_ps for skip in self.skips)
        allowed_ps = _RESERVE * ALLOWED * total_ps - sum(skip.bound_ps for skip in self.skips)
        if any(group.in_step() or group.waits_by_chance() for group in groups):
            self.waits_for = _NO_PACE
            return _MORE_EVENTS
        bound_ps = max(float(np.hypot(*group.errors(skipped_ps))) for group in groups)
        bound_ps += _PHASE * max(group.pace.period_ps for group in groups) * (len(loops) > len(teams(loops)[0]))
        if bound_ps <= allowed_ps:
            if any(group.shares for group in groups) and any(self._much_follows(loop) for loop in loops):
                self.waits_for = _FOLLOWED
                return _MORE_EVENTS
            return self._skip(loops, groups, skipped_ps, bound_ps, allowed_ps)
        pace_ps, end_ps = (max(errors) for errors in zip(*(group.least_errors() for group in groups), strict=True))
        self.waits_for = _NO_PACE if pace_ps > end_ps else _DRIFT
        if np.hypot(pace_ps, end_ps) <= allowed_ps:
            return _MORE_EVENTS
        self.why = self.waits_for
        return 0.0

    def _loop_end(self, loop: TaskLoop) -> int:
        """Return the number of operations that a task has issued when its loop ends."""
        declared_loop = self._declared_loop_of(loop.task)
        if declared_loop is not None and (end := declared_loop.end(loop.period.operations)):
            return end
        end = loop.position + 1 + loop.period.after * loop.period.operations
        if len(loop.records) - end >= loop.period.operations:
            return end
        # The loop may continue beyond what has been issued.
        return max(end, self._dry_loop_end(loop)[0])

    def _dry_loop_end(self, loop: TaskLoop) -> tuple[int, int]:
        """Return the number of operations of tasks when their loop ends, and the number of those that follow."""
        launch, issued_operations = loop.task.job.launch.index, loop.position + 1
        if self._loop_ends.get(launch, (0, 0))[0] < issued_operations:
            self._dry = self._dry_log() if self._dry is None else self._dry
            self._loop_ends[launch] = loop_end(self._dry, launch, issued_operations)
        return self._loop_ends[launch]

    def _much_follows(self, loop: TaskLoop) -> bool:
        """Return whether other tasks, launches or loops follow the loop that a task is in, as far as that is known."""
        launch = loop.task.job.launch
        if launch.waiting or len(launch.queue.launches) > 1:
            return True
        # The operations after a declared loop are known only at the end of the run (`SkippedPart.max_operations`).
        if self._declared_loop_of(loop.task) is not None:
            return False
        return self._dry_loop_end(loop)[1] > _FOLLOW * self._loop_end(loop)

    def _skip(
        self, loops: list[TaskLoop], groups: list[TaskGroup], length_ps: float, bound_ps: float, allowed_ps: float
    ) -> float:
        """Let every task skip the operations of that time; returns as `_skip_if_steady`."""
        own_periods, length_ps, difference_ps = periods_of_groups(groups, length_ps)
        bound_ps += difference_ps
        if bound_ps > allowed_ps / _RESERVE or min(own_periods.values()) < 1:
            return _MORE_EVENTS
        by_task, predicted = self._predicted(loops)
        declared_loops = [self._declared_loop_of(loop.task) for loop in loops]
        shorter = [declared.limit(predicted) for declared in declared_loops if declared is not None]
        if any(shorter):
            return self._skip_if_steady()
        parts = self._parts(loops, own_periods, shares=any(group.shares for group in groups))
        if not parts:
            return _MORE_EVENTS
        now = self._chip.environment.now
        in_pipe = {loop.task.index: waits_in_pipe(loop, parts[loop.task.index].operations, now) for loop in loops}
        if None in in_pipe.values():
            return _MORE_EVENTS
        for task in (loop.task for loop in loops):
            part = parts[task.index]
            if in_pipe[task.index]:
                take_out(task, part.operations)
                continue
            assert task.issuer is not None
            declared, iterations = by_task.get(task.index, (None, 0))
            forward = FastForward(task.issuer, part.operations, iterations * part.operations // part.period)
            if declared is not None and predicted is not None:
                declared.skip(forward, predicted)
            parts[task.index] = part._replace(forward=forward)
        self.skips.append(Skip(now, round(length_ps), bound_ps, parts))
        return _MORE_EVENTS

    def _parts(self, loops: list[TaskLoop], own_periods: dict[int, int], *, shares: bool) -> dict[int, SkippedPart]:
        """By task, return the operations to skip, outside its pipe; empty if the tasks of a team cannot skip together.

        Args:
            loops: the loops of all tasks.
            own_periods: by first task of a team, the periods that it skips.
            shares: whether tasks share a link.
        """
        parts: dict[int, SkippedPart] = {}
        for team in teams(loops):
            periods_of = periods_of_team(team, own_periods[team[0].task.index])
            if not periods_of:
                return {}
            for loop, periods in zip(team, periods_of, strict=True):
                length = loop.period.operations
                max_operations = (1 + _FOLLOW) * self._loop_end(loop) + length if shares else np.inf
                parts[loop.task.index] = SkippedPart(loop.position, periods * length, length, None, max_operations)
        return parts

    def _predicted(
        self, loops: list[TaskLoop]
    ) -> tuple[dict[int, tuple[DeclaredLoop[Any], int]], PredictedIterations | None]:
        """Return the declared loops of tasks, with the iterations of a period, and what their iterations issue."""
        by_task: dict[int, tuple[DeclaredLoop[Any], int]] = {}
        operations = set()
        for loop in loops:
            declared = self._declared_loop_of(loop.task)
            iterations = declared.iterations(loop.period.operations) if declared is not None else 0
            if declared is not None and iterations and not loop.rounds and len(declared.values):
                by_task[loop.task.index] = declared, iterations
                operations.add(loop.period.operations / iterations)
        if len(operations) != 1 or (operations_each := operations.pop()) % 1:
            return {}, None
        records = {loop.task.index: loop.records for loop in loops}
        log, unit = self._chip.log, self._chip.board.dram_unit_bytes
        declared_loops = {task: declared for task, (declared, _) in by_task.items()}
        return by_task, PredictedIterations(log, declared_loops, records, int(operations_each), unit)

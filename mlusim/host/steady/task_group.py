"""Tasks in the same loop: their pace, and the error of skipping a part of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mlusim.host.steady.pace import Pace
from mlusim.host.steady.task_loops import LEFT, RunSoFar, TaskLoop

# If the changes of leads have at least this standard deviation, in periods, tasks may be anywhere in their loops.
_OUT_OF_STEP = 0.4
# If a period takes a task alone at least this fraction of its time, a shared link is full only by chance: it idles
# whenever a few tasks do something else.
_ALMOST_ALONE = 0.8


@dataclass(frozen=True)
class TaskGroup:
    """Tasks in the same loop.

    Attributes:
        run: the run so far.
        members: one task of each team.
        pace: their pace.
        periods: mean number of periods left.
    """

    run: RunSoFar
    members: list[TaskLoop]
    pace: Pace
    periods: float

    @cached_property
    def alone_ps(self) -> int:
        """Time of a period without other tasks."""
        return max(map(self.run.alone_ps, self.members))

    @cached_property
    def shares(self) -> bool:
        """Whether tasks share a full link, so that they overtake each other at random."""
        return len(self.members) > 1 and any(map(self.run.waits, self.members))

    def in_step(self) -> bool:
        """Return whether tasks that share a link are at the same points of their loops as at first.

        Such a state may last for hundreds of periods, and then dissolve within a few: the pace changes.
        """
        return self.pace.spread(self.pace.measured) < _OUT_OF_STEP and self.shares

    def waits_by_chance(self) -> bool:
        """Return whether tasks share a link that is not always full.

        How often they wait then depends on who overtakes whom, which changes slowly: the pace of one part of the run
        says little of that of the next one.
        """
        return self.shares and self.alone_ps > _ALMOST_ALONE * self.pace.period_ps

    def most_skipped(self) -> float:
        """Return the time that can be skipped such that every task has some periods left."""
        max_lead = float(self.pace.leads.max()) + 2 * self.pace.spread(self.periods)
        return (self.periods - LEFT - max_lead) * self.pace.period_ps

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

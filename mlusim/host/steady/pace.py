"""The pace of tasks in loops, how far they drift apart, and what both make uncertain about the end of a run.

Cores that share a full link overtake each other at random, but the link does the same work in any case. The pace of all
tasks together is therefore well known long before that of one task is. At the end, tasks run out of work at different
times; the others then speed up until each reaches the limit of its own port, and only from then on is time lost. Where
the ports of clusters are full, and not the DRAM, only the other cores of a cluster speed up: the last cluster decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mlusim.arrays import Integers, Numbers

# Standard deviations of a statistical bound.
_SURE = 3.0
# The measured time is divided into this many parts; the paces of 1, 2, 4 and 8 consecutive ones are compared.
_PARTS = 32
_LENGTHS = (1, 2, 4, 8)
_UNSURE_GROWTH = 0.2
# Numbers of consecutive parts in which the drift is measured.
_DRIFT_LENGTHS = (4, 8, 16, 32)
# Leads grow with the square root of the number of periods if these are independent, and in proportion to it if each
# task has a pace of its own, such as one whose rows are not aligned. The exponent in a run is measured.
_GROWTH = 0.5
_MAX_GROWTH = 1.0
# Simulated ends of a run.
_ENDS = 200


class Pace(NamedTuple):
    """The pace of tasks that execute the same loop.

    Attributes:
        period_ps: mean time of a period.
        error: bound of its relative error.
        progress: mean number of periods of a task at the end of the measured time.
        measured: mean number of periods in the measured time.
        leads: by task, the periods by which it is ahead of the mean.
        links: by task, the number of the full link that it shares with others.
        drift: standard deviation of the change of leads in a period, in periods, if all periods are independent.
        growth: upper limit of the exponent with which changes grow with the number of periods.
    """

    period_ps: float
    error: float
    progress: float
    measured: float
    leads: Numbers
    links: Integers
    drift: float
    growth: float

    def spread(self, periods: float) -> float:
        """Return the standard deviation by which leads change in that many periods."""
        return float(self.drift * max(periods, 0.0) ** _GROWTH)

    def _most_spread(self, periods: float) -> float:
        """Return the most that `spread` may be: the drift and its growth are themselves measured on a few tasks."""
        of_growth = float(max(periods / self.measured, 1.0) ** (self.growth - _GROWTH))
        unsure = float((4 * (len(self.leads) - 1)) ** -0.5)
        return self.spread(periods) * of_growth * (1 + unsure)

    def _changes(self, spread: float) -> Numbers:
        """Return (ends, tasks) random changes of the leads, with that standard deviation."""
        changes: Numbers = np.random.default_rng(0).standard_normal((_ENDS, len(self.leads))) * spread
        changes -= changes.mean(axis=1, keepdims=True)
        return changes

    def _lost_periods(self, changes: Numbers, alone_ps: float) -> Numbers:
        """By end, return the periods lost at the end of a run, when tasks run out of work at different times.

        Args:
            changes: (ends, tasks) by how much leads change until then.
            alone_ps: time of a period without other tasks.
        """
        leads = self.leads + changes
        ends = []
        for link in np.unique(self.links):
            of_link = leads[:, self.links == link]
            count = of_link.shape[1]
            # The task with the least work ends first; then the others share its part of the link.
            work = np.diff(np.sort(-of_link, axis=1), axis=1, prepend=0.0)
            slowdown = np.maximum(alone_ps / self.period_ps, np.arange(count, 0, -1) / count).clip(max=1.0)
            ends.append((work * slowdown).sum(axis=1))
        lost_periods: Numbers = np.max(ends, axis=0) + leads.mean(axis=1)
        return lost_periods

    def typical_changes(self, periods: float, alone_ps: float) -> Integers:
        """Return typical changes of the leads in that many periods, as whole periods.

        Of many possible ones, those that lose about the mean time at the end.
        """
        changes = self._changes(self.spread(periods))
        whole_periods: Numbers = np.rint(changes)
        deviations = self._lost_periods(whole_periods, alone_ps) - self._lost_periods(changes, alone_ps).mean()
        typical: Integers = whole_periods[int(np.argmin(np.abs(deviations)))].astype(np.int64)
        return typical

    def skip_error(self, periods: float, measured: float = 0.0) -> float:
        """Return a bound of the error, in periods, of the time of that many more periods.

        Args:
            periods: mean number of periods of a task that are skipped.
            measured: number of periods to measure, if not those measured here; then the least bound to hope for.

        Both the measured and the skipped periods are random. Where periods compensate each other, the error of their
        mean is inversely proportional to their number.
        """
        measured = measured or self.measured
        return self.error * self.measured / measured * float(np.sqrt(periods * (periods + measured)))

    def end_error(self, periods: float, alone_ps: float, *, exact: bool = False) -> float:
        """Return a bound of the error, in periods, of the time from now to the end of the last task.

        Args:
            periods: mean number of periods to that end.
            alone_ps: time of a period without other tasks.
            exact: the least bound, with an exactly known drift.

        The leads at the end are random: their effect is computed for many possible ends.
        """
        if len(self.leads) == 1:
            return 0.0
        spread = self.spread(periods)
        max_spread = spread if exact else self._most_spread(periods)
        expected_losses = self._lost_periods(self._changes(spread), alone_ps)
        losses = self._lost_periods(self._changes(max_spread), alone_ps)
        return float(abs(losses.mean() - expected_losses.mean()) + _SURE * losses.std())


def pace_of(ends: Sequence[Numbers], progress: Sequence[Numbers], begin: float, end: float) -> Pace:
    """Measure the pace of tasks that execute the same loop.

    Args:
        ends: by task, the end times of its periods.
        progress: by task, the number of periods that it has executed by each of these.
        begin, end: the time to measure, within the ends of every task.

    All tasks are taken to share one link.
    """
    grid = np.linspace(begin, end, _PARTS + 1)
    steps = np.array([np.interp(grid, *task) for task in zip(ends, progress, strict=True)])
    means = steps.mean(axis=0)
    measured = float(means[-1] - means[0])
    leads = steps - means
    drift, growth = _drift(leads, measured)
    return Pace(
        period_ps=(end - begin) / measured,
        error=_SURE * _error(means) / measured,
        progress=float(means[-1]),
        measured=measured,
        leads=leads[:, -1],
        links=np.zeros(len(leads), np.int64),
        drift=drift,
        growth=growth,
    )


def _drift(leads: Numbers, measured: float) -> tuple[float, float]:
    """Return drift and growth (see `Pace`) of leads of shape (tasks, parts + 1), in that many periods."""
    tasks = len(leads)
    if tasks == 1:
        return 0.0, _GROWTH
    lengths = np.array(_DRIFT_LENGTHS)
    variances = np.array([((leads[:, n:] - leads[:, :-n]) ** 2).mean() * tasks / (tasks - 1) for n in lengths])
    per_period = variances / (lengths * (measured / _PARTS))
    # The shorter the changes, the more of them are independent.
    drift = float(np.average(per_period, weights=1 / lengths)) ** 0.5
    ratio = np.log(lengths[-1] / lengths[0])
    growth = np.log(variances[-1] / variances[0]) / 2 / ratio if variances.all() else _GROWTH
    # The longest changes are known for each task only once.
    unsure = 1 / (2 * (tasks - 1)) ** 0.5 / ratio
    return drift, float(np.clip(growth + unsure, _GROWTH, _MAX_GROWTH))


def _error(means: Numbers) -> float:
    """Return the standard error of the progress in the measured time, given that in its parts.

    By how much the progress in parts of several lengths differs from the mean: if periods are independent, that grows
    with the square root of the length; if they compensate each other, it grows less. The growth is measured on few
    parts, so the square root is assumed unless it is clearly less.
    """
    deviations = []
    for length in _LENGTHS:
        deviation = means[length:] - means[:-length] - (means[-1] - means[0]) * length / _PARTS
        deviations.append(float((deviation**2).mean() / (1 - length / _PARTS)) ** 0.5)
    growth = 0.5
    if all(deviations):
        measured = np.polyfit(np.log(_LENGTHS), np.log(deviations), 1)[0]
        growth = float(np.clip(measured + _UNSURE_GROWTH, 0.25, 0.5))
    return max(
        float(error * (_PARTS / length) ** growth)
        for length, error in zip(_LENGTHS, deviations, strict=True)
        if length > 1
    )

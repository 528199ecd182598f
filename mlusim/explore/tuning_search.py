"""The search of `tune`: the plans it tries, and its stopping rule.

Every strategy is planned first with all available NRAM, then again and again with half of the NRAM that the previous
plan used, for smaller tiles. This stops when a plan does not fit, or when two in a row were slower. Then two more
limits next to the best one are tried. Repeated plans are not run again. The search ends early if a run is so close to
its lower bound that no split can be significantly faster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from mlusim.errors import AllocationError, PlanError
from mlusim.explore.axes import Axes
from mlusim.explore.point import Point, prepare_point
from mlusim.explore.runner import Runner
from mlusim.explore.store import DONE, Store
from mlusim.progress import Bar

if TYPE_CHECKING:
    from mlusim.planning.plan import Plan

_ROUNDS = 12
_MAX_WORSE = 2
# A run within this ratio of its lower bound cannot be improved significantly.
_LOWER_BOUND_RATIO = 1.01


class _PlanSeries:
    """The plans of one strategy, towards smaller tiles."""

    def __init__(self, strategy: str | None) -> None:
        self.strategy = strategy
        self.limit: int | None = None
        self.times: list[int] = []
        self.ended = False

    def record_time(self, time_ps: int) -> None:
        self.times.append(time_ps)
        last = self.times[-_MAX_WORSE - 1 :]
        if len(last) > _MAX_WORSE and min(last) == last[0]:
            self.ended = True


class _Trial(NamedTuple):
    """A point of a series, and the digest of its plan."""

    series: _PlanSeries
    point: Point
    signature: str


class Refusal(NamedTuple):
    """A strategy that does not fit with this NRAM, or settings of a kernel that cannot run, with the reason."""

    strategy: str
    nram_limit_bytes: int | None
    message: str


class Search:
    """One search; its results are in its attributes.

    Attributes:
        tried: every plan that ran, with its row.
        refused: the settings that do not fit.
        repeats: settings that led to a plan tried before.
        at_lower_bound: whether it ended because nothing can be significantly faster.
    """

    def __init__(self, axes: Axes, store: Store, runner: Runner, bar: Bar) -> None:
        self.axes = axes
        self.board = axes.boards[0]
        point = next(axes.points())
        assert isinstance(point, Point)  # of a board without changes, which is valid
        self._point = point
        self._store, self._runner, self._bar = store, runner, bar
        self.tried: list[tuple[Point, dict[str, Any]]] = []
        self.refused: list[Refusal] = []
        self.repeats = 0
        self._time_of_plan: dict[str, int] = {}
        self.at_lower_bound = False

    def run(self) -> None:
        """Run round by round; the points of a round run in parallel."""
        # "auto" comes last: a plan equal to another strategy's is attributed to that strategy.
        all_series = [_PlanSeries(name) for name in sorted(self.axes.strategies, key=lambda name: name == "auto")]
        for _ in range(_ROUNDS):
            alive = [series for series in all_series if not series.ended]
            if not alive or self.at_lower_bound:
                break
            self._round([(series, series.limit) for series in alive])
        if self.tried and not self.at_lower_bound:
            self._round([(_PlanSeries(self._fastest()[0].strategy), limit) for limit in self._around_the_best()])

    def _round(self, limits: list[tuple[_PlanSeries, int | None]]) -> None:
        planned = (self._next_trial(series, limit) for series, limit in limits)
        for (series, point, signature), row in self._simulate([trial for trial in planned if trial is not None]):
            if row["status"] == DONE:
                self._time_of_plan[signature] = row["time_ps"]
                self.tried.append((point, row))
                series.record_time(row["time_ps"])
                self.at_lower_bound |= row["time_us"] <= _LOWER_BOUND_RATIO * row["lower_bound_us"]
            else:
                series.ended = True
                self.refused.append(Refusal(point.strategy or "", point.nram_limit_bytes, row["message"]))

    def _next_trial(self, series: _PlanSeries, limit: int | None) -> _Trial | None:
        """Return the next point of a series whose plan is new; None if there is none."""
        while not series.ended:
            changed: dict[str, Any] = {"strategy": series.strategy, "nram_limit_bytes": limit}
            point = replace(self._point, **changed, columns={**self._point.columns, **changed})
            try:
                plan = prepare_point(point).plan
            except (PlanError, AllocationError) as error:
                series.ended = True
                self.refused.append(Refusal(series.strategy or "", limit, error.message))
                return None
            alignment = self.board.vector_alignment_bytes
            series.limit = plan.nram_bytes // 2 // alignment * alignment or None
            # The strategies that `auto` chooses from have series of their own.
            series.ended |= series.limit is None or series.strategy == "auto"
            signature = _signature(plan)
            if signature not in self._time_of_plan:
                self._time_of_plan[signature] = 0
                return _Trial(series, point, signature)
            self.repeats += 1
            if self._time_of_plan[signature]:
                series.record_time(self._time_of_plan[signature])
            limit = series.limit
        return None

    def _simulate(self, trials: list[_Trial]) -> Iterator[tuple[_Trial, dict[str, Any]]]:
        by_key = {trial.point.key(): trial for trial in trials}
        outcomes = self._store.read(self._store.known(by_key))
        fresh = [(key, trial.point) for key, trial in by_key.items() if key not in outcomes]
        self._bar.extend(len(fresh))
        for key, (status, message, figures, _) in self._runner.run(fresh):
            outcomes[key] = by_key[key].point.outcome(status, message, figures)
            self._store.add(key, outcomes[key])
            self._bar.step()
        # In the order of the strategies, independent of completion order.
        for key, trial in by_key.items():
            status, message, row = trial.point.as_requested(outcomes[key])
            yield trial, {**row, "status": status, "message": message}

    def _fastest(self) -> tuple[Point, dict[str, Any]]:
        return min(self.tried, key=lambda item: item[1]["time_ps"])

    def _around_the_best(self) -> list[int]:
        point, row = self._fastest()
        nram_bytes = row["plan_nram_bytes"]
        capacity = self.board.nram_usable_bytes
        alignment = self.board.vector_alignment_bytes
        limits = [nram_bytes * 3 // 4 // alignment * alignment, nram_bytes * 3 // 2 // alignment * alignment]
        return [limit for limit in limits if 0 < limit < capacity and limit != point.nram_limit_bytes]


def _signature(plan: Plan) -> str:
    """Return a digest that is equal for plans with equal runs."""
    from mlusim.results.saved import parameter_json

    digest = hashlib.sha256()
    for column in (plan.tiles.task, plan.tiles.start, plan.tiles.stop):
        digest.update(column.tobytes())
    # The strategy chosen by one such as auto is in its parameters, or is the plan's name.
    name = plan.named_parameters.get("strategy", plan.strategy)
    digest.update(
        repr((name, plan.tier, plan.kind, plan.dim, plan.nram_bytes, parameter_json(plan.named_parameters))).encode()
    )
    return digest.hexdigest()

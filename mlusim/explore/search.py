"""The search of `tune`: the plans it tries, and when it stops.

Every strategy is planned with all the NRAM there is, then with limits that make its tiles smaller: half of what the
last plan took, and so on, until it does not fit, or has become slower twice in a row. Between the limits around the
best one two more are tried. A plan that comes out the same as one before is not run again. It ends early where a run
is so near the floor that no split can be faster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlusim.errors import AllocationError, PlanError
from mlusim.explore.grid import Axes
from mlusim.explore.point import Point, prepare_point
from mlusim.explore.runner import Runner
from mlusim.explore.store import DONE, Store
from mlusim.hardware import Board
from mlusim.progress import Bar

if TYPE_CHECKING:
    from mlusim.planning.plan import Plan

_ROUNDS = 12
_WORSE_IN_A_ROW = 2
# A run this near its floor cannot be beaten by more.
_AT_THE_FLOOR = 1.01


class _Line:
    """One strategy's way down to smaller tiles."""

    def __init__(self, strategy: str | None) -> None:
        self.strategy = strategy
        self.limit: int | None = None
        self.times: list[int] = []
        self.ended = False

    def took(self, time_ps: int) -> None:
        self.times.append(time_ps)
        last = self.times[-_WORSE_IN_A_ROW - 1 :]
        if len(last) > _WORSE_IN_A_ROW and min(last) == last[0]:
            self.ended = True


class Search:
    """One search; what it tried and found is in its attributes.

    Attributes:
        tried: every plan that ran, with its row.
        refused: settings that do not fit, as (strategy, limit, message).
        repeats: settings that came to a plan that had been tried.
        at_floor: whether it ended because nothing can be faster.
    """

    def __init__(self, axes: Axes, store: Store, runner: Runner, bar: Bar) -> None:
        self.axes = axes
        self.board = axes.boards[0]
        (self._point,) = (point for point in [next(axes.points())] if isinstance(point, Point))
        self._store, self._runner, self._bar = store, runner, bar
        self.tried: list[tuple[Point, dict[str, Any]]] = []
        self.refused: list[tuple[str, int | None, str]] = []
        self.repeats = 0
        self._seen: dict[str, int] = {}
        self.at_floor = False

    def run(self) -> None:
        """Round by round; those of a round run side by side."""
        # One that chooses among the others comes last: a plan that is one of theirs bears their name.
        lines = [_Line(name) for name in sorted(self.axes.strategies, key=lambda name: name == "auto")]
        for _ in range(_ROUNDS):
            alive = [line for line in lines if not line.ended]
            if not alive or self.at_floor:
                break
            self._round([(line, line.limit) for line in alive])
        if self.tried and not self.at_floor:
            self._round([(_Line(self._fastest()[0].strategy), limit) for limit in self._around_the_best()])

    def _round(self, wanted: list[tuple[_Line, int | None]]) -> None:
        points: list[tuple[_Line, Point, str]] = []
        for line, limit in wanted:
            prepared = self._planned(line, limit)
            if prepared is not None:
                points.append((line, *prepared))
        for (line, point, signature), row in self._simulated(points):
            if row["status"] == DONE:
                self._seen[signature] = row["time_ps"]
                self.tried.append((point, row))
                line.took(row["time_ps"])
                self.at_floor |= row["time_us"] <= _AT_THE_FLOOR * row["floor_us"]
            else:
                line.ended = True
                self.refused.append((point.strategy or "", point.nram_limit_bytes, row["message"]))

    def _planned(self, line: _Line, limit: int | None) -> tuple[Point, str] | None:
        """The next point of a line whose plan is new; None where there is none."""
        while not line.ended:
            point = replace(self._point, strategy=line.strategy, nram_limit_bytes=limit)
            columns = {**self._point.columns, "strategy": line.strategy, "nram_limit_bytes": limit}
            point = replace(point, columns=columns)
            try:
                plan = prepare_point(point).plan
            except (PlanError, AllocationError) as error:
                line.ended = True
                self.refused.append((line.strategy or "", limit, error.message))
                return None
            line.limit = _next_limit(plan, self.board)
            # The ways that `auto` chooses among have lines of their own.
            line.ended |= line.limit is None or line.strategy == "auto"
            signature = _signature(plan)
            if signature not in self._seen:
                self._seen[signature] = 0
                return point, signature
            self.repeats += 1
            if self._seen[signature]:
                line.took(self._seen[signature])
            limit = line.limit
        return None

    def _simulated(
        self, points: list[tuple[_Line, Point, str]]
    ) -> Iterator[tuple[tuple[_Line, Point, str], dict[str, Any]]]:
        keys = {point.key(): item for item in points for point in [item[1]]}
        known = self._store.read(self._store.known(keys))
        fresh = [(key, item[1].payload(here=self._runner.local)) for key, item in keys.items() if key not in known]
        self._bar.more(len(fresh))
        for key, (status, message, figures, host_s) in self._runner.run(fresh):
            known[key] = keys[key][1].outcome(status, message, figures, host_s)
            self._store.add(key, known[key])
            self._bar.step()
        # In the order of the strategies, whichever process was faster.
        for key, item in keys.items():
            yield (
                item,
                {**item[1].columns, **known[key].row, "status": known[key].status, "message": known[key].message},
            )

    def _fastest(self) -> tuple[Point, dict[str, Any]]:
        return min(self.tried, key=lambda item: item[1]["time_ps"])

    def _around_the_best(self) -> list[int]:
        point, row = self._fastest()
        took = row["plan_nram_bytes"]
        most = self.board.nram_usable_bytes
        alignment = self.board.vector_alignment_bytes
        limits = [took * 3 // 4 // alignment * alignment, took * 3 // 2 // alignment * alignment]
        return [limit for limit in limits if 0 < limit < most and limit != point.nram_limit_bytes]


def _next_limit(plan: Plan, board: Board) -> int | None:
    """Half of what a plan took, in whole units of the alignment; None where that is nothing."""
    alignment = board.vector_alignment_bytes
    return plan.nram_bytes // 2 // alignment * alignment or None


def _signature(plan: Plan) -> str:
    """Equal for plans that run the same."""
    from mlusim.results.saved import plain as plain_parameters

    digest = hashlib.sha256()
    for column in (plan.tiles.task, plan.tiles.start, plan.tiles.stop):
        digest.update(column.tobytes())
    # Which of its ways a strategy such as auto has chosen is in its parameters, or the plan's name.
    way = plan.named_parameters.get("strategy", plan.strategy)
    digest.update(
        repr((way, plan.tier, plan.kind, plan.dim, plan.nram_bytes, plain_parameters(plan.named_parameters))).encode()
    )
    return digest.hexdigest()

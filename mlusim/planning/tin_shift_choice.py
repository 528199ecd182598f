"""Which of tin_shift's strategies is fastest on a board: what strategy "auto" does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from mlusim.errors import PlanError
from mlusim.hardware import Board
from mlusim.planning.plan import Plan
from mlusim.planning.prediction import TileCost, load_cost, predict_ps, store_cost
from mlusim.units import PS_PER_US

# Of the five these can be fastest: what one of them leaves out, the other three do for nothing.
CANDIDATES = ("batched", "pingpong")


def choose(plan_of: Callable[[str], Plan]) -> Plan:
    """The plan that the board's cost functions say is fastest, its reason saying so; the first one of equals.

    Args:
        plan_of: gives the plan of a strategy, or raises `PlanError` where it does not fit.

    Raises the `PlanError` of the first where none fits.
    """
    first, *others = CANDIDATES
    plans = {first: plan_of(first)}
    for name in others:
        # Two buffers may not fit where one does.
        with suppress(PlanError):
            plans[name] = plan_of(name)
    predicted = {name: predict_tin_shift_ps(plan) for name, plan in plans.items()}
    fastest = min(predicted, key=predicted.__getitem__)
    plan = plans[fastest]
    if not plan.tier:
        return plan
    times = ", ".join(f"{name} {time_ps / PS_PER_US:.2f} us" for name, time_ps in predicted.items())
    return replace(plan, reason=f"{plan.reason}; {times} predicted", predicted_ps=predicted[fastest])


def predict_tin_shift_ps(plan: Plan) -> int:
    """Time of a plan of tin_shift by its largest tile, as if no shift left rows to clear."""
    if not len(plan.tiles):
        return 0
    board: Board = plan.board
    _, _, channels, hw = plan.output_shape
    _, rows, wide, elements = (plan.tiles.stop - plan.tiles.start).max(axis=0).tolist()
    segment = wide * elements * plan.itemsize
    loops = ((rows, channels * hw * plan.itemsize),) if rows > 1 else ()
    per_shift = 1 if plan.tier < 3 else -(-hw // elements)  # noqa: PLR2004 - one load for all chunks of a row
    tile = TileCost(
        load=load_cost(board, segment, loops),
        store=store_cost(board, segment, loops),
        scalar_ps=board.scalar_gdram_latency_ps // per_shift,
    )
    tasks = int(plan.tiles.task.max()) + 1
    return predict_ps(board, tile, tiles=len(plan.tiles), tasks=tasks, overlapped=plan.parameters["buffers"] > 1)

"""Sensitivity of a run's time to the board parameters without a public source."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple

from mlusim.errors import BoardError
from mlusim.hardware import Board
from mlusim.ops.call import Call, run

_TIMING = ("_ps", "_cycles", "_bytes_per_s", "_efficiency", "_reach", "_spread", "_bytes_per_cycle")
_PART = 0.2
_NEAR = 1e-6


class Sensitivity(NamedTuple):
    """The effect of one parameter on the time.

    Attributes:
        field: field of `Board`.
        source: source of its value.
        less, more: relative change of the time with the parameter decreased and increased.
    """

    field: str
    source: str
    less: float
    more: float

    @property
    def swing(self) -> float:
        """The larger of the two changes, as an absolute value."""
        return max(abs(self.less), abs(self.more))


def sensitivity(call: Call) -> list[Sensitivity]:
    """Rerun a call, timing only, with each assumed or fitted parameter of its board 20 % smaller and larger.

    A whole number changes by at least 1. Parameters without effect are omitted: all, if the run takes no time. The
    others are sorted by their effect. The plan is unchanged. A value that would break a rule of the board (efficiencies
    keep their order and stay below 1) changes only as far as allowed.
    """
    return sensitivity_of(call.plan.board, partial(_time_ps, call))


def sensitivity_of(board: Board, time_ps_on: Callable[[Board], int]) -> list[Sensitivity]:
    """As `sensitivity`, for any time in picoseconds that depends on a board: `time_ps_on(board)`."""
    time_ps = time_ps_on(board)
    if not time_ps:
        return []
    sensitivities = []
    for field in uncertain_parameters(board):
        changes = [time_ps_on(scale_parameter(board, field, 1 + sign * _PART)) / time_ps - 1 for sign in (-1, 1)]
        if any(changes):
            sensitivities.append(Sensitivity(field, board.sources[field], *changes))
    return sorted(sensitivities, key=lambda sensitivity: -sensitivity.swing)


def uncertain_parameters(board: Board) -> list[str]:
    """Return the timing parameters that are assumed or fitted."""
    return [
        item.name
        for item in fields(Board)
        if item.name.endswith(_TIMING)
        and getattr(board, item.name)
        and board.sources[item.name].startswith(("ASSUMED", "fitted"))
    ]


def scale_parameter(board: Board, field: str, factor: float) -> Board:
    """Return the board with one parameter multiplied by `factor`, or by the nearest factor that the rules allow."""
    value = getattr(board, field)
    nearest_board = board
    allowed_part, step = 0.0, 1.0
    # Approach the allowed limit by bisection.
    while step > _NEAR and allowed_part < 1:
        change = value * (factor - 1) * (allowed_part + step)
        if isinstance(value, int):
            change = round(change) or round(math.copysign(1, change))
        try:
            nearest_board = board.replace(**{field: value + change})
            allowed_part += step
        except BoardError:
            step /= 2
    return nearest_board


def _time_ps(call: Call, board: Board) -> int:
    plan: Any = replace(call.plan, board=board)
    return run(replace(call, plan=plan), data=False, check=False).time_ps

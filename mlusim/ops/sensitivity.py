"""Sensitivity of a run's time to the parameters without a public source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple

from mlusim.errors import BoardError
from mlusim.hardware import Board
from mlusim.ops.common import Call, run

_TIMING = ("_ps", "_cycles", "_bytes_per_s", "_efficiency", "_growth", "_bytes_per_cycle")
_NEAR = 1e-6


class Sensitivity(NamedTuple):
    """The effect of one parameter on the time.

    Attributes:
        field: of `Board`.
        source: where its value comes from.
        less, more: time with the parameter that much smaller and larger, over the time as it is, less 1.
    """

    field: str
    source: str
    less: float
    more: float

    @property
    def swing(self) -> float:
        """The larger change of the two."""
        return max(abs(self.less), abs(self.more))


def sensitivity(call: Call, *, part: float = 0.2) -> list[Sensitivity]:
    """Run a call again, timing only, with each assumed or fitted parameter of its board moved by `part`.

    Those that change nothing are left out; the others come by how much they do. The plan stays as it is. A value that
    would break a rule of the board (efficiencies keep their order, and none is above 1) moves as far as it may.
    """
    return sensitivity_of(call.plan.board, partial(_time_ps, call), part=part)


def sensitivity_of(board: Board, time_ps_on: Callable[[Board], int], *, part: float = 0.2) -> list[Sensitivity]:
    """The same of anything that takes a time on a board, in ps: `time_ps_on`."""
    time_ps = time_ps_on(board)
    found = []
    for field in movable(board):
        changes = [time_ps_on(moved(board, field, 1 + sign * part)) / time_ps - 1 for sign in (-1, 1)]
        if any(changes):
            found.append(Sensitivity(field, board.sources[field], *changes))
    return sorted(found, key=lambda one: -one.swing)


def movable(board: Board) -> list[str]:
    """Parameters of time that rest on an assumption or a fit."""
    return [
        item.name
        for item in fields(Board)
        if item.name.endswith(_TIMING)
        and getattr(board, item.name)
        and board.sources[item.name].startswith(("ASSUMED", "fitted"))
    ]


def moved(board: Board, field: str, factor: float) -> Board:
    """The board with one parameter times `factor`, or as near to that as the board's rules allow."""
    value = getattr(board, field)
    wanted = value * factor
    if isinstance(value, int):
        return board.replace(**{field: round(wanted)})
    found = board
    allowed, step = 0.0, 1.0
    # As far as it may go, by halving.
    while step > _NEAR and allowed < 1:
        try:
            found = board.replace(**{field: value + (wanted - value) * (allowed + step)})
            allowed += step
        except BoardError:
            step /= 2
    return found


def _time_ps(call: Call, board: Board) -> int:
    plan: Any = replace(call.plan, board=board)
    return run(replace(call, plan=plan), data=False, check=False).time_ps

"""Fit the parameters to the measurements and write them down: `python -m mlusim.validation.calibrate`.

Least squares on the logarithm of simulated over measured time, one residual for each row (scipy, an extra of `dev`).
A result that hangs on the exact step of the cores is not to be trusted, so a row's simulated time is the geometric mean
over half, once and twice the board's launch skew. Every row that does not alone decide a parameter is then left out in
turn, the others are fitted again, and it is predicted.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlusim.hardware import Board, board
from mlusim.hardware.presets import ALIASES, preset
from mlusim.validation.measurements import BOUND, SINGLE, Measurement, measurements
from mlusim.validation.parameters import GROUPS, Group, Parameter
from mlusim.validation.recreate import recreate, simulated_us

CALIBRATED = Path(__file__).resolve().parent.parent / "hardware" / "calibrated.py"
_SKEWS = (0.5, 1.0, 2.0)
_LONG_US = 1000.0  # a launch's skew does not show in what takes longer
_DIFFERENCE = 0.02
_TOLERANCE = 1e-3

Values = dict[str, float]


class Fit:
    """The parameters of one group, and the simulated times that they give."""

    def __init__(self, group: Group, settled: Mapping[str, float]) -> None:
        self.group = group
        self.settled = dict(settled)
        self.rows = [row for row in measurements() if row.board in group.boards and row.use != BOUND]
        self._known: dict[Any, float] = {}

    def simulate(self, row: Measurement, values: Sequence[float]) -> float:
        """Simulated time of a row in microseconds, meaned over the skews."""
        key = (row.name, *values)
        found = self._known.get(key)
        if found is None:
            on = board_with(row.board, self.settled | fields_of(self.group, values))
            skews = _SKEWS if row.time_us < _LONG_US else (1.0,)
            logs = []
            for factor in skews:
                skewed = on.replace(core_start_skew_ps=round(on.core_start_skew_ps * factor))
                logs.append(math.log(simulated_us(row, recreate(row, skewed))))
            found = self._known[key] = math.exp(sum(logs) / len(logs))
        return found

    def solve(self, first: Sequence[float], without: str = "", rounds: int = 12) -> list[float]:
        """Least squares from `first`, leaving one row out; values rounded to their steps."""
        from scipy.optimize import least_squares

        parameters = self.group.parameters
        rows = [row for row in self.rows if row.name != without]

        def values_at(logs: Any) -> list[float]:
            return [float(math.exp(value)) for value in logs]

        def residuals(logs: Any) -> list[float]:
            values = values_at(logs)
            return [math.log(self.simulate(row, values) / row.time_us) for row in rows]

        low = [math.log(parameter.low) for parameter in parameters]
        high = [math.log(parameter.high) for parameter in parameters]
        start = [math.log(value) for value in first]
        solution = least_squares(
            residuals, start, bounds=(low, high), diff_step=_DIFFERENCE, xtol=_TOLERANCE, ftol=_TOLERANCE,
            max_nfev=rounds,
        )  # fmt: skip
        return [rounded(parameter, value) for parameter, value in zip(parameters, values_at(solution.x), strict=True)]


def rounded(parameter: Parameter, value: float) -> float:
    """A value on its step."""
    return round(round(value / parameter.step) * parameter.step, 6)


def fields_of(group: Group, values: Sequence[float]) -> Values:
    """Values of parameters as fields of a board."""
    return {
        field: value for parameter, value in zip(group.parameters, values, strict=True) for field in parameter.fields
    }


def board_with(name: str, values: Mapping[str, float]) -> Board:
    """A board, as it was before any calibration, with some fields set, each in the type of the field."""
    on = preset(ALIASES.get(name, name), fitted=False)
    return on.replace(
        **{field: value if isinstance(getattr(on, field), float) else round(value) for field, value in values.items()}
    )


def calibrate(*, leave_out: bool = True, say: Any = print) -> tuple[list[tuple[Parameter, float]], Values]:
    """Fit all groups; gives each parameter's value, and each row's time as predicted without it."""
    found: list[tuple[Parameter, float]] = []
    predicted: Values = {}
    everywhere: Values = {}
    for group in GROUPS:
        fit = Fit(group, everywhere)
        values = fit.solve([parameter.first for parameter in group.parameters])
        found += list(zip(group.parameters, values, strict=True))
        for parameter, value in zip(group.parameters, values, strict=True):
            say(f"{', '.join(parameter.fields)} = {value:g}")
        for row in fit.rows:
            time_us = fit.simulate(row, values)
            text = f"  {row.name}: {100 * (time_us / row.time_us - 1):+.1f} %"
            if leave_out and row.use != SINGLE:
                own = fit.solve(values, without=row.name, rounds=4)
                predicted[row.name] = fit.simulate(row, own)
                text += f", left out {100 * (predicted[row.name] / row.time_us - 1):+.1f} %"
            say(text)
        for parameter, value in zip(group.parameters, values, strict=True):
            if not parameter.families:
                everywhere |= dict.fromkeys(parameter.fields, value)
    return found, predicted


def module_text(found: Sequence[tuple[Parameter, float]], predicted: Mapping[str, float]) -> str:
    """`mlusim/hardware/calibrated.py`."""
    lines = [
        '"""Fitted parameters. Written by `python -m mlusim.validation.calibrate`: not to be edited by hand."""',
        "",
        "from mlusim.hardware.fitted import Fitted",
        "",
        "FITTED: tuple[Fitted, ...] = (",
    ]
    for parameter, value in found:
        source = f"{', '.join(parameter.rests_on)}: {parameter.why}"
        if parameter.single_source:
            source += "; a single source"
        for field in parameter.fields:
            integer = isinstance(getattr(board(parameter.known_on), field), int)
            lines += [
                "    Fitted(",
                f'        "{field}",',
                f"        {round(value):_}," if integer else f"        {value:g},",
                f"        {_tuple(parameter.families)},",
                f'        "{parameter.known_on}",',
                *_wrapped(source),
                "    ),",
            ]
    lines += [
        ")",
        "",
        "# Simulated time of each row in microseconds, by a fit to all the others.",
        "LEFT_OUT_US: dict[str, float] = {",
        *(f'    "{name}": {time_us:.3f},' for name, time_us in predicted.items()),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _tuple(names: Sequence[str]) -> str:
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"({quoted},)" if len(names) == 1 else f"({quoted})"


def _wrapped(text: str, width: int = 104) -> list[str]:
    import textwrap

    parts = textwrap.wrap(text, width)
    if len(parts) == 1:
        return [f'        "{text}",']
    quoted = [f'        "{part} "' for part in parts[:-1]]
    return [*quoted, f'        "{parts[-1]}",']


def main() -> None:
    """Fit, and write the file that the presets read."""
    parser = argparse.ArgumentParser(prog="python -m mlusim.validation.calibrate", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="print, and write nothing")
    parser.add_argument("--fit-only", action="store_true", help="leave no row out; writes nothing")
    options = parser.parse_args()
    found, predicted = calibrate(leave_out=not options.fit_only)
    if not (options.dry_run or options.fit_only):
        CALIBRATED.write_text(module_text(found, predicted), encoding="utf-8")


if __name__ == "__main__":
    main()

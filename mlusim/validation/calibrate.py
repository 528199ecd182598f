"""Fit the parameters to the measurements and save them: `python -m mlusim.validation.calibrate`.

Least squares on the logarithm of simulated over measured time, by Gauss-Newton steps on all parameters and rows at
once. The value of each parameter before calibration acts as an additional measurement, with the uncertainty stated in
`parameters`: without informative rows, the parameter stays there. A row's simulated time is the geometric mean over
0.5, 1 and 2 times the board's launch skew, so that no parameter adapts to the exact phase of the cores.

The values of the presets stay unless the fit lowers the cost clearly (`choose_values`). The minimum is flat: rounding
alone raises the cost by up to 3.4, so other values that fit about as well are not better.

Then measurements are left out, the parameters are fitted to the rest, and the omitted ones are predicted: row by row,
and kind by kind within each family. The errors of these predictions are the basis of the error bands of runs that were
not measured.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from mlusim.analysis.known_error import cores_at_work
from mlusim.analysis.log_columns import LogColumns
from mlusim.arrays import Numbers
from mlusim.hardware import Board, board
from mlusim.hardware.calibrated import PATH
from mlusim.hardware.presets import find_preset, preset
from mlusim.validation.measurements import FIT, Measurement, measurements
from mlusim.validation.parameters import PARAMETERS, Parameter
from mlusim.validation.recreate import recreate, simulated_us

_SKEWS = (0.5, 1.0, 2.0)
_LONG_US = 60.0  # above this time, the launch skew has no visible effect
_DIFFERENCE = 0.1  # relative change of a parameter for its finite difference
_ROUNDS = 6
_PARTS = (1.0, 0.5, 0.25, 0.125)  # of a step, tried in this order
_ROW_SIGMA = 0.05  # relative, of a measurement and its re-creation
_STEP = 0.5  # largest step of a parameter, as a logarithm
_TIE = 4.0  # of the cost, two standard deviations of a parameter: nearer values fit equally well

Values: TypeAlias = tuple[float, ...]


class Fit:
    """The parameters and rows of a fit, with a cache of simulated times."""

    def __init__(self, rows: Sequence[Measurement], parameters: Sequence[Parameter] = PARAMETERS) -> None:
        self.rows = list(rows)
        self.parameters = list(parameters)
        self.initial = tuple(float(getattr(uncalibrated(item.known_on), item.fields[0])) for item in self.parameters)
        self._simulated: dict[Any, float] = {}

    def simulate(self, row: Measurement, values: Sequence[float]) -> float:
        """Return the simulated time of a row in microseconds, averaged over the skews."""
        base = uncalibrated(row.board)
        fields = fields_for(base, self.parameters, values)
        key = (row.name, *sorted(fields.items()))
        simulated = self._simulated.get(key)
        if simulated is None:
            target = with_values(base, fields)
            logs = []
            for factor in _SKEWS if row.time_us < _LONG_US else (1.0,):
                skewed = target.replace(core_start_skew_ps=round(target.core_start_skew_ps * factor))
                logs.append(math.log(simulated_us(row, recreate(row, skewed))))
            simulated = self._simulated[key] = math.exp(sum(logs) / len(logs))
        return simulated

    def residuals(self, values: Sequence[float]) -> Numbers:
        """By row, return the logarithm of simulated over measured time."""
        return np.array([math.log(self.simulate(row, values) / row.time_us) for row in self.rows])

    def slopes(self, values: Sequence[float]) -> Numbers:
        """(rows, parameters) derivative of the residuals by the log of each parameter, for its informative rows."""
        base = self.residuals(values)
        slopes = np.zeros((len(self.rows), len(self.parameters)))
        for column, item in enumerate(self.parameters):
            part = min(_DIFFERENCE, item.prior_sigma / 3)
            factor = 1 + part if values[column] * (1 + part) <= item.high else 1 - part
            changed_values = (*values[:column], values[column] * factor, *values[column + 1 :])
            for index, row in enumerate(self.rows):
                if row.name.startswith(item.measurements) and item.applies_to(uncalibrated(row.board)):
                    change = math.log(self.simulate(row, changed_values) / row.time_us) - base[index]
                    slopes[index, column] = change / math.log(factor)
        return slopes

    def step(self, values: Values, slopes: Numbers, left_out_names: Collection[str] = ()) -> Values:
        """Make one Gauss-Newton step from `values`, within the bounds, omitting some rows."""
        row_indices = [index for index, row in enumerate(self.rows) if row.name not in left_out_names]
        sigmas = np.array([item.prior_sigma for item in self.parameters])
        pull = np.log(np.array(self.initial) / np.array(values)) / sigmas
        matrix = np.vstack([slopes[row_indices] / _ROW_SIGMA, np.diag(1 / sigmas)])
        targets = np.concatenate([-self.residuals(values)[row_indices] / _ROW_SIGMA, pull])
        change = np.clip(np.linalg.lstsq(matrix, targets, rcond=None)[0], -_STEP, _STEP)
        return tuple(
            float(np.clip(value * math.exp(part), item.low, item.high))
            for item, value, part in zip(self.parameters, values, change, strict=True)
        )

    def cost(self, values: Values) -> float:
        """Return the sum of squares that the fit minimises."""
        misses = self.residuals(values) / _ROW_SIGMA
        pulls = [
            math.log(value / initial) / item.prior_sigma
            for item, value, initial in zip(self.parameters, values, self.initial, strict=True)
        ]
        return float(misses @ misses) + sum(pull * pull for pull in pulls)

    def solve(self, report: Callable[[str], None]) -> Values:
        """Return the best values, rounded.

        The slopes are computed anew for each step. If a step does not lower the cost, a half of it is tried, then a
        quarter, then an eighth: the times are not linear in the parameters.
        """
        values, lowest_cost = self.initial, self.cost(self.initial)
        for _ in range(_ROUNDS):
            slopes = self.slopes(values)
            full_step = self.step(values, slopes)
            for part in _PARTS:
                stepped = part_of_step(values, full_step, part)
                cost = self.cost(stepped)
                if cost < lowest_cost:
                    break
            else:
                break
            report(f"cost {lowest_cost:.1f} -> {cost:.1f}")
            values, lowest_cost = stepped, cost
        return tuple(round_to_step(item, value) for item, value in zip(self.parameters, values, strict=True))

    def choose_values(self, present: Values, fitted: Values, report: Callable[[str], None]) -> Values:
        """Return the fitted values if they lower the cost of the present ones by at least `_TIE`, else the present."""
        old, new = self.cost(present), self.cost(fitted)
        adopted = old - new >= _TIE
        verdict = "adopted" if adopted else f"not adopted, as it is not lower by {_TIE:g}"
        report(f"cost of the present values {old:.1f}, of the fit {new:.1f}: {verdict}")
        return fitted if adopted else present


def part_of_step(values: Values, stepped: Values, part: float) -> Values:
    """Return the values after a part of a step, in logarithms like the step."""
    return tuple(
        value * (new / value) ** part if value else part * new for value, new in zip(values, stepped, strict=True)
    )


def uncalibrated(name: str) -> Board:
    """Return a board without any calibration."""
    return preset(find_preset(name).name, fitted=False)


def round_to_step(parameter: Parameter, value: float) -> float:
    """Round a value to the parameter's step."""
    return round(round(value / parameter.step) * parameter.step, 6)


def fields_for(target: Board, parameters: Sequence[Parameter], values: Sequence[float]) -> dict[str, float]:
    """Return the parameter values that apply to a board, by field."""
    return {
        field: value
        for item, value in zip(parameters, values, strict=True)
        if item.applies_to(target)
        for field in item.fields
    }


def with_values(target: Board, values: Mapping[str, float]) -> Board:
    """Return a board with some fields replaced, each converted to the type of the field."""
    return target.replace(
        **{
            field: value if isinstance(getattr(target, field), float) else round(value)
            for field, value in values.items()
        }
    )


def predict_left_out(
    fit: Fit, values: Values, slopes: Numbers, group_of: Callable[[Measurement], str]
) -> dict[str, float]:
    """Return the simulated time of each row in microseconds, by a fit to the rows of other groups."""
    groups: dict[str, list[Measurement]] = {}
    for row in fit.rows:
        groups.setdefault(group_of(row), []).append(row)
    time_of: dict[str, float] = {}
    for rows in groups.values():
        fitted_values = fit.step(values, slopes, [row.name for row in rows])
        time_of |= {row.name: fit.simulate(row, fitted_values) for row in rows}
    return time_of


def family_of(row: Measurement) -> str:
    """Return the family of the board that a row was measured on."""
    return board(row.board).family


def _core_fraction(row: Measurement) -> float:
    device = recreate(row)
    return cores_at_work(LogColumns(device.log, device.board)) / device.board.cores


def calibrate(report: Callable[[str], None] = print, *, keep: bool = False) -> dict[str, Any]:
    """Fit, or keep the values of the presets; predict what is left out; return the content of `calibrated.json`."""
    rows = [row for row in measurements() if row.use == FIT]
    fit = Fit(rows)
    values = tuple(float(getattr(board(item.known_on), item.fields[0])) for item in fit.parameters)
    if not keep:
        values = fit.choose_values(values, fit.solve(report), report)
    slopes = fit.slopes(values)
    for item, value in zip(fit.parameters, values, strict=True):
        report(f"{', '.join(item.fields)} {item.families or ''} = {value:g}")
    by_row = predict_left_out(fit, values, slopes, lambda row: row.name)
    by_kind = predict_left_out(fit, values, slopes, lambda row: f"{row.kind} on {family_of(row)}")
    for row in rows:
        row_times = fit.simulate(row, values), by_row[row.name], by_kind[row.name]
        errors = " ".join(f"{100 * (time / row.time_us - 1):+8.1f} %" for time in row_times)
        report(f"  {row.name:<26} {errors}")
    return {
        "parameters": [
            {
                "field": field,
                "value": value if isinstance(getattr(board(item.known_on), field), float) else round(value),
                "families": list(item.families),
                "known_on": item.known_on,
                "measurements": sorted({row.name for row in rows if row.name.startswith(item.measurements)}),
                "why": item.why,
            }
            for item, value in zip(fit.parameters, values, strict=True)
            for field in item.fields
        ],
        "rows": [
            {
                "name": row.name,
                "kind": row.kind,
                "family": family_of(row),
                "nbytes": row.bytes_read + row.bytes_written,
                "core_fraction": round(_core_fraction(row), 3),
                "time_us": row.time_us,
                "left_out": round(by_row[row.name], 3),
                "kind_in_family": round(by_kind[row.name], 3),
            }
            for row in rows
        ],
    }


def main() -> None:
    """Fit, and write the file that the presets read."""
    parser = argparse.ArgumentParser(prog="python -m mlusim.validation.calibrate", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="print, and write nothing")
    parser.add_argument("--keep", action="store_true", help="keep the present values without a fit")
    options = parser.parse_args()
    content = calibrate(keep=options.keep)
    if not options.dry_run:
        PATH.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

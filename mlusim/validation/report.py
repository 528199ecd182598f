"""How far the model is off: every measurement against its re-creation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.metrics import measure
from mlusim.hardware import board
from mlusim.hardware.calibrated import LEFT_OUT_US
from mlusim.host.device import Device
from mlusim.validation.measurements import BOUND, SINGLE, Measurement, measurements
from mlusim.validation.parameters import GROUPS
from mlusim.validation.recreate import recreate, simulated_us

AIM_MEAN, AIM_WORST, AIM_LEFT_OUT = 0.10, 0.25, 0.15


@dataclass(frozen=True, slots=True)
class Outcome:
    """One measurement and its simulation.

    Attributes:
        row: the measurement.
        simulated_us: by the board's preset.
        left_out_us: by a fit to all other rows; None where a parameter rests on this row alone.
        dominated_by: the cause of most time of the cores that had a task, as `where_time_went` names them.
        share: its part of that time.
    """

    row: Measurement
    simulated_us: float
    left_out_us: float | None
    dominated_by: str
    share: float

    @property
    def error(self) -> float:
        """Simulated over measured, less 1: positive where the model is too slow."""
        return self.simulated_us / self.row.time_us - 1

    @property
    def left_out_error(self) -> float | None:
        """The same of the prediction without this row."""
        return None if self.left_out_us is None else self.left_out_us / self.row.time_us - 1

    @property
    def one_source(self) -> bool:
        """Whether a parameter that it needs rests on one source, so that leaving this row out shows little."""
        return self.row.use == SINGLE or self.row.name in _ONE_SOURCE


_ONE_SOURCE = frozenset(
    name for group in GROUPS for parameter in group.parameters if parameter.single_source for name in parameter.rests_on
)


def validate(only: Sequence[str] = ()) -> Iterator[Outcome]:
    """Simulate the measurements, one by one; `only`: those whose name begins with one of these."""
    for row in measurements():
        if only and not row.name.startswith(tuple(only)):
            continue
        device = recreate(row)
        cause, share = _dominant(device)
        yield Outcome(row, simulated_us(row, device), LEFT_OUT_US.get(row.name), cause, share)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The figures that judge the model, as parts of 1.

    Attributes:
        rows: measurements that count: all but bounds.
        mean, worst: of the absolute errors.
        bias: mean of the errors with their sign.
        left_out_rows: rows that were left out in turn, with no parameter that rests on one source.
        left_out_mean, left_out_worst: of the absolute errors of these.
        all_left_out_mean: the same over all rows that were left out in turn.
    """

    rows: int
    mean: float
    worst: float
    bias: float
    left_out_rows: int
    left_out_mean: float
    left_out_worst: float
    all_left_out_mean: float


def accuracy(outcomes: Sequence[Outcome]) -> Accuracy:
    """The figures over some outcomes; nan where there is none."""
    errors = [outcome.error for outcome in outcomes if outcome.row.use != BOUND]
    several = [_left_out(outcome) for outcome in outcomes if outcome.left_out_us is not None and not outcome.one_source]
    every = [_left_out(outcome) for outcome in outcomes if outcome.left_out_us is not None]
    return Accuracy(
        rows=len(errors),
        mean=_mean(errors),
        worst=max(map(abs, errors), default=0.0),
        bias=sum(errors) / max(len(errors), 1),
        left_out_rows=len(several),
        left_out_mean=_mean(several),
        left_out_worst=max(map(abs, several), default=0.0),
        all_left_out_mean=_mean(every),
    )


def _dominant(device: Device) -> tuple[str, float]:
    """The cause of most time of the cores that had a task, and its share."""
    log, on = device.log, device.board
    busy = sorted({task.cluster * on.cores_per_cluster + task.core for task in log.tasks if not task.is_memory_core})
    spent = measure(log, on).core_causes_ps[busy].sum(axis=0)
    most = int(spent.argmax())
    return list(CAUSES)[most].replace("_", " "), float(spent[most] / spent.sum())


def to_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Rows and figures for programs; errors as parts of 1, positive where the model is too slow."""
    return {
        "model": "simulated by mlusim, not measured",
        "rows": [
            {
                "id": outcome.row.name,
                "board": board(outcome.row.board).name,
                "kernel": outcome.row.kernel,
                "use": outcome.row.use,
                "why": outcome.row.why,
                "grade": outcome.row.grade,
                "source": outcome.row.source,
                "measured_us": outcome.row.time_us,
                "simulated_us": outcome.simulated_us,
                "error": outcome.error,
                "left_out_error": outcome.left_out_error,
                "one_source": outcome.one_source,
                "dominated_by": outcome.dominated_by,
                "dominated_share": outcome.share,
            }
            for outcome in outcomes
        ],
        "accuracy": asdict(accuracy(outcomes)),
    }


def _left_out(outcome: Outcome) -> float:
    return outcome.left_out_error or 0.0


def _mean(errors: Sequence[float]) -> float:
    return sum(map(abs, errors)) / max(len(errors), 1)

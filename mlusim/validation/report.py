"""The validation report: every measurement compared with its simulation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from loky import cpu_count

from mlusim.errors import InputError, shown
from mlusim.hardware import board
from mlusim.hardware.calibrated import Row
from mlusim.hardware.calibrated import rows as fitted_rows
from mlusim.inputs import as_count, as_texts, check_flags
from mlusim.processes import without_interrupts, worker_pool
from mlusim.spelling import choose_one
from mlusim.validation.measurements import BOUND, READ_OFF, Measurement, measurements

if TYPE_CHECKING:
    from mlusim.host.device import Device

# Up to this many measurements are simulated without worker processes.
_MAX_IN_PROCESS = 4

AIM_MEAN, AIM_WORST, AIM_LEFT_OUT_MEAN, AIM_LEFT_OUT_WORST = 0.05, 0.15, 0.08, 0.25


@dataclass(frozen=True, slots=True)
class Outcome:
    """One measurement and its simulation.

    Attributes:
        row: the measurement.
        simulated_us: simulated time with the board's preset.
        left_out: its predictions by fits without it; None if it is a bound or determines a parameter directly.
        dominated_by: the main cause of time on cores with a task, as named in `where_time_went`; None if not asked for.
        share: fraction of that time with this cause.
    """

    row: Measurement
    simulated_us: float
    left_out: Row | None
    dominated_by: str | None = None
    share: float | None = None

    @property
    def error(self) -> float:
        """Simulated over measured time, minus 1: positive if the model is too slow."""
        return self.simulated_us / self.row.time_us - 1

    @property
    def left_out_error(self) -> float | None:
        """The error of the prediction without this row."""
        return None if self.left_out is None else self.left_out.left_out / self.row.time_us - 1

    @property
    def kind_left_out_error(self) -> float | None:
        """The error of the prediction without any row of its kind on its family of boards."""
        return None if self.left_out is None else self.left_out.kind_in_family / self.row.time_us - 1


def validate(only: Sequence[str] = (), workers: int | None = None, *, causes: bool = False) -> Iterator[Outcome]:
    """Simulate the measurements and yield them as they complete.

    Args:
        only: prefixes of the names to simulate; empty: all.
        workers: worker processes; 0 and 1: this process, as for a few measurements; by default one per core.
        causes: whether to compute what dominated each run, which takes a tenth of the time.
    """
    check_flags(causes=causes)
    rows = chosen(only)
    if workers is None:
        workers = cpu_count() if len(rows) > _MAX_IN_PROCESS else 1
    else:
        workers = as_count("workers", workers, minimum=0)
    if min(workers, len(rows)) < 2:
        yield from (_outcome(row, causes=causes) for row in rows)
    else:
        yield from _in_processes(rows, min(workers, len(rows)), causes=causes)


def _in_processes(rows: Sequence[Measurement], workers: int, *, causes: bool) -> Iterator[Outcome]:
    """Simulate rows in worker processes, the longest first."""
    with worker_pool(workers) as pool:
        try:
            with without_interrupts():
                longest_first = sorted(rows, key=lambda row: -(row.bytes_read + row.bytes_written))
                futures = [pool.submit(_outcome, row, causes=causes) for row in longest_first]
            for future in as_completed(futures):
                yield future.result()
        finally:
            # All results have arrived, or are no longer needed: do not wait for workers.
            pool.shutdown(kill_workers=True)


def chosen(only: Sequence[str]) -> list[Measurement]:
    """Return the measurements whose name has one of these prefixes; empty: all. Raises `InputError` for none."""
    prefixes = as_texts("only", only)
    names = [row.name for row in measurements()]
    for prefix in prefixes:
        if not any(name.startswith(prefix) for name in names):
            raise InputError(f"no measurement begins with {shown(prefix)}; {choose_one(prefix, names)}")
    return [row for row in measurements() if not prefixes or row.name.startswith(prefixes)]


def _outcome(row: Measurement, *, causes: bool) -> Outcome:
    # Imported here, so that workers start before this process loads the simulator.
    from mlusim.validation.recreate import recreate, simulated_us

    device = recreate(row)
    prediction = next((fitted for fitted in fitted_rows() if fitted.name == row.name), None)
    return Outcome(row, simulated_us(row, device), prediction, *(_dominant(device) if causes else ()))


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The accuracy of the model; errors are relative.

    Attributes:
        rows: number of measurements, without bounds.
        mean, worst: of the absolute errors.
        bias: mean of the signed errors.
        read_off: rows among these that determine a parameter directly, and so agree by construction.
        left_out_rows: rows that were left out in turn.
        left_out_mean, left_out_worst: of the absolute errors of these.
        kind_left_out_mean, kind_left_out_worst: the same with the row's kind left out on its family.
    """

    rows: int
    mean: float
    worst: float
    bias: float
    read_off: int
    left_out_rows: int
    left_out_mean: float
    left_out_worst: float
    kind_left_out_mean: float
    kind_left_out_worst: float


def accuracy(outcomes: Sequence[Outcome]) -> Accuracy:
    """Return the accuracy over some outcomes; figures without rows are 0."""
    errors = [outcome.error for outcome in outcomes if outcome.row.use != BOUND]
    one_by_one = [outcome.left_out_error for outcome in outcomes if outcome.left_out_error is not None]
    by_kind = [outcome.kind_left_out_error for outcome in outcomes if outcome.kind_left_out_error is not None]
    return Accuracy(
        rows=len(errors),
        mean=_mean(errors),
        worst=_worst(errors),
        bias=sum(errors) / max(len(errors), 1),
        read_off=sum(outcome.row.use == READ_OFF for outcome in outcomes),
        left_out_rows=len(one_by_one),
        left_out_mean=_mean(one_by_one),
        left_out_worst=_worst(one_by_one),
        kind_left_out_mean=_mean(by_kind),
        kind_left_out_worst=_worst(by_kind),
    )


def _dominant(device: Device) -> tuple[str, float]:
    """Return the main cause of time on cores with a task, and its share."""
    # Imported here, because a report without causes needs no analysis of a run.
    from mlusim.analysis.breakdown import CAUSES
    from mlusim.analysis.metrics import measure

    log, target = device.log, device.board
    busy = sorted(
        {task.cluster * target.cores_per_cluster + task.core for task in log.tasks if not task.is_memory_core}
    )
    spent = measure(log, target).core_causes_ps[busy].sum(axis=0)
    longest = int(spent.argmax())
    return list(CAUSES)[longest].replace("_", " "), float(spent[longest] / spent.sum())


def to_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return rows and figures as JSON types; errors are relative, positive if the model is too slow."""
    from mlusim.analysis.known_error import BEYOND, MEASURED, band_coverage
    from mlusim.analysis.provenance import MODEL

    return {
        "model": MODEL,
        "rows": [
            {
                "id": outcome.row.name,
                "board": board(outcome.row.board).name,
                "kernel": outcome.row.kernel,
                "dtype": outcome.row.dtype,
                "shape": outcome.row.shape,
                "launch": outcome.row.launch,
                "kind": outcome.row.kind,
                "use": outcome.row.use,
                "why": outcome.row.why,
                "grade": outcome.row.grade,
                "source": outcome.row.source,
                "measured_us": outcome.row.time_us,
                "simulated_us": outcome.simulated_us,
                "error": outcome.error,
                "left_out_error": outcome.left_out_error,
                "kind_left_out_error": outcome.kind_left_out_error,
                "dominated_by": outcome.dominated_by,
                "dominated_share": outcome.share,
            }
            for outcome in outcomes
        ],
        "accuracy": asdict(accuracy(outcomes)),
        "coverage": [asdict(band_coverage(level)) for level in (MEASURED, BEYOND)],
    }


def _mean(errors: Sequence[float]) -> float:
    return sum(map(abs, errors)) / max(len(errors), 1)


def _worst(errors: Sequence[float]) -> float:
    return max(map(abs, errors), default=0.0)

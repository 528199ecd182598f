"""The known error of the model for a run: the nearest measurements, and a 90 % band.

The kind of a run is derived from its log (`mlusim.analysis.run_kind`). Its neighbours are the measurements of that kind
on the board's family. Their errors are those of predictions made without them (`hardware/calibrated.json`); the
distance of the run to the measurements determines which predictions count:

- `measured`: the kind was measured on the family, at sizes and on a fraction of the cores within a factor of four of
  the run's. Rows were left out one by one.
- `beyond`: the kind was measured, but only on another family, at other sizes, or on more cores. All rows of a kind on a
  family were left out together.
- `not measured`: there are no measurements of the kind or the family, or the board is not a preset. There is no band.

The band is conformal: given n errors of a level, the ceil(0.9 (n + 1))-th smallest absolute log error, symmetric. It is
widened by the part of the run's time that depends on parameters assumed for its board: 20 % of that part, added in
quadrature. `band_coverage` leaves out each kind in turn, and counts its rows within the band of the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.log_parts import parts_of
from mlusim.analysis.lower_bound import LOSSES, PARAMETERS_OF_LOSS, LowerBound
from mlusim.analysis.metrics import Metrics
from mlusim.analysis.run_kind import described, kind_of
from mlusim.errors import BoardError
from mlusim.hardware import Board
from mlusim.hardware.calibrated import Row, rows
from mlusim.hardware.presets import find_preset
from mlusim.units import format_us, plural, short_bytes, signed

MEASURED, BEYOND, NOT_MEASURED = "measured", "beyond", "not measured"
COVERAGE = 0.9  # the fraction of runs whose true time the band should contain
_NEAR_FACTOR = 4  # sizes and fractions of cores within this factor of a measurement count as measured
_ASSUMED_UNCERTAINTY = 0.2  # relative, of a parameter that is assumed
# Kinds whose only measurements are those from which parameters are read off.
_READ_OFF = ("scalar loop", "access by index", "reading")


@dataclass(frozen=True, slots=True)
class ErrorEstimate:
    """The known error of one run.

    Attributes:
        kind: kind of kernel; see `kind_of`.
        level: "measured", "beyond" or "not measured".
        why: the features that were not measured; empty if all were.
        nearest: names of the neighbouring measurements.
        errors: their errors when left out: simulated over measured time, minus 1.
        half_width: half width of the band, as a logarithm; None without a band.
        low_ps, high_ps: the band; 0 without a band.
    """

    kind: str
    level: str
    why: str
    nearest: tuple[str, ...]
    errors: tuple[float, ...]
    half_width: float | None
    low_ps: int
    high_ps: int

    @property
    def text(self) -> str:
        """Format as one sentence for a summary."""
        if self.half_width is None:
            return f"not measured: {self.why}"
        low, high = (signed(100 * extreme(self.errors), 0) for extreme in (min, max))
        errors = f"{low} %" if low == high else f"{low} to {high} %"
        band = f"{100 * COVERAGE:.0f} % band {format_us(self.low_ps)} to {format_us(self.high_ps)}"
        measurements = f"{plural(len(self.nearest), 'measurement')} of the kind {described(self.kind)}"
        unmeasured = f"; not measured: {self.why}" if self.why else ""
        return f"{band}; off by {errors} on {measurements} that the fit did not use{unmeasured}"

    def to_json(self) -> dict[str, Any]:
        """Return the known error as JSON types."""
        return {
            "kind": self.kind,
            "level": self.level,
            "not_measured": self.why,
            "nearest": list(self.nearest),
            "left_out_errors": list(self.errors),
            "band_part": None if self.half_width is None else COVERAGE,
            "band_ps": None if self.half_width is None else [self.low_ps, self.high_ps],
        }


def known_error_of(records: LogColumns, metrics: Metrics, bound: LowerBound) -> ErrorEstimate:
    """Return the known error of a run's time, from measurements."""
    board = records.board
    kind = kind_of(records, metrics)
    level, why, neighbours = _neighbours(kind, board, sum(metrics.bus_bytes.values()), cores_at_work(records))
    if level == NOT_MEASURED:
        return ErrorEstimate(kind, level, why, (), (), None, 0, 0)
    # A board file with the values of a preset has sources of its own.
    preset = find_preset(board.name)
    half = math.hypot(half_width(level), _ASSUMED_UNCERTAINTY * assumed_part(preset, metrics, bound))
    factor = math.exp(half)
    return ErrorEstimate(
        kind,
        level,
        why,
        nearest=tuple(row.name for row in neighbours),
        errors=tuple(_predicted_us(row, level) / row.time_us - 1 for row in neighbours),
        half_width=half,
        low_ps=round(metrics.time_ps / factor),
        high_ps=round(metrics.time_ps * factor),
    )


def cores_at_work(records: LogColumns) -> int:
    """Return the number of MLU cores that issued an operation."""
    units: set[int] = set()
    for part in parts_of(records):
        units.update(np.unique(part.unit).tolist())
    return sum(unit < records.board.cores for unit in units)


def _neighbours(kind: str, board: Board, size: int, cores: int) -> tuple[str, str, list[Row]]:
    """Return the level, what was not measured, and the neighbouring measurements."""
    if why := _why_not_measured(kind, board):
        return NOT_MEASURED, why, []
    of_kind = [row for row in rows() if row.kind == kind]
    in_family = [row for row in of_kind if row.family == board.family]
    if not in_family:
        return BEYOND, f"the family {board.family}", of_kind
    sizes = [row.nbytes for row in in_family]
    if not min(sizes) / _NEAR_FACTOR <= size <= max(sizes) * _NEAR_FACTOR:
        span = " to ".join(map(short_bytes, sorted({min(sizes), max(sizes)})))
        return BEYOND, f"sizes other than {span} on the family {board.family}", in_family
    min_cores = math.ceil(min(row.core_fraction for row in in_family) * board.cores)
    if cores * _NEAR_FACTOR < min_cores:
        return BEYOND, f"fewer than {min_cores} of {board.cores} cores on the family {board.family}", in_family
    return MEASURED, "", in_family


def _why_not_measured(kind: str, board: Board) -> str:
    """Return why there are no measurements for a kind on a board; empty if there are."""
    if not kind:
        return "a run without operations"
    if edited := _why_no_preset(board):
        return f"a board that is not a preset ({edited})"
    if board.family not in {row.family for row in rows()}:
        return f"any kernel of this kind on the family {board.family}"
    if kind not in {row.kind for row in rows()}:
        exception = ", except for measurements from which parameters are read off" if kind in _READ_OFF else ""
        return f"the kind {kind!r}{exception}"
    return ""


def _why_no_preset(board: Board) -> str:
    """Return why a board is not a preset; empty if it is one."""
    try:
        preset = find_preset(board.name)
    except BoardError:
        return f"{board.name} is a board of your own"
    changed = board.differing(preset)
    return f"{', '.join(changed[:3])} changed" if changed else ""


def assumed_part(board: Board, metrics: Metrics, bound: LowerBound) -> float:
    """Return the fraction of a run's time whose most important parameter is assumed for its board.

    Idle cores wait for the others, so the time of those counts.
    """
    on_assumed_ps = sum(
        bound.losses_ps[name]
        for name in LOSSES
        if PARAMETERS_OF_LOSS[name] and board.sources[PARAMETERS_OF_LOSS[name][0]].startswith("ASSUMED")
    )
    busy_ps = metrics.core_time_ps - metrics.where_time_went["idle"]
    return on_assumed_ps / busy_ps if busy_ps else 0.0


@cache
def half_width(level: str) -> float:
    """Return the half width of a level's band, as a logarithm."""
    return quantile([abs(error) for _, error in scores(level)])


@cache
def scores(level: str) -> tuple[tuple[str, float], ...]:
    """Return (kind, log of predicted over measured time) of each measurement."""
    return tuple((row.kind, math.log(_predicted_us(row, level) / row.time_us)) for row in rows())


def _predicted_us(row: Row, level: str) -> float:
    """Return the prediction of a measurement without itself, or without its whole kind on the family."""
    return row.left_out if level == MEASURED else row.kind_in_family


def quantile(sizes: Sequence[float]) -> float:
    """Return the conformal quantile: the ceil(COVERAGE (n + 1))-th smallest value, or the largest if n is too small."""
    ascending = sorted(sizes)
    return ascending[min(math.ceil(COVERAGE * (len(ascending) + 1)), len(ascending)) - 1]


@dataclass(frozen=True, slots=True)
class BandCoverage:
    """The number of measurements within the bands derived from other kinds.

    Attributes:
        level: level of the bands.
        rows, held: number of measurements, and of those within the band.
        by_kind: [rows, held] by kind.
    """

    level: str
    rows: int
    held: int
    by_kind: dict[str, list[int]]


def band_coverage(level: str) -> BandCoverage:
    """Leave out each kind in turn, and count its rows within the band derived from the other kinds."""
    all_scores = scores(level)
    by_kind: dict[str, list[int]] = {}
    for kind in dict.fromkeys(kind for kind, _ in all_scores):
        limit = quantile([abs(error) for other, error in all_scores if other != kind])
        sizes = [abs(error) for other, error in all_scores if other == kind]
        by_kind[kind] = [len(sizes), sum(size <= limit for size in sizes)]
    return BandCoverage(level, len(all_scores), sum(within_band for _, within_band in by_kind.values()), by_kind)

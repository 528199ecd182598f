"""Time spans of each unit's pipes, exact or summed in bins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from mlusim.analysis.intervals import intervals, no_intervals, union
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.log_parts import windows
from mlusim.analysis.style import BLACK, GREEN, ORANGE, PURPLE, READ, SKY, WRITE, YELLOW
from mlusim.arrays import Integers, Numbers
from mlusim.log import IO, MOVE, SCALAR, SYNC, TENSOR, VECTOR

# In drawing order, from the top of a core's row.
LANES: dict[int, str] = {IO: "io", MOVE: "move", VECTOR: "vector", TENSOR: "tensor", SCALAR: "scalar", SYNC: "sync"}

KINDS: tuple[tuple[str, str], ...] = (
    ("io read", READ),
    ("io write", WRITE),
    ("DMA start-up", YELLOW),
    ("move", GREEN),
    ("vector", PURPLE),
    ("tensor", BLACK),
    ("scalar", ORANGE),
    ("waiting in a sync", SKY),
)
# If a unit does several things at once, its share of a bin goes to the first of these.
_PRECEDENCE: tuple[tuple[str, ...], ...] = (
    ("io read",),
    ("io write",),
    ("move",),
    ("vector", "tensor"),
    ("scalar",),
    ("DMA start-up",),
    ("waiting in a sync",),
)
_READ, _WRITE, _START_UP, _MOVE, _VECTOR, _TENSOR, _SCALAR, _WAIT = range(len(KINDS))


@dataclass(frozen=True, eq=False)
class Spans:
    """Time spans on the lanes of units, by column; spans of one lane do not overlap.

    Attributes:
        unit, lane, kind: by span, indices for `LogColumns.unit_name`, `mlusim.log.PIPES` and `KINDS`.
        start_ps, end_ps: by span, its start and end.
        record: by span, the index of its record in the log.
    """

    unit: Integers
    lane: Integers
    kind: Integers
    start_ps: Integers
    end_ps: Integers
    record: Integers

    def __len__(self) -> int:
        return len(self.unit)

    def where(self, chosen: Any) -> Spans:
        """Return the spans selected by a boolean array."""
        return Spans(*(column[chosen] for column in vars(self).values()))


def spans(records: LogColumns) -> Spans:
    """Return every record as a span; a copy as two, start-up and transfer. Empty spans are left out."""
    kind_of_pipe = np.full(max(LANES) + 1, _WAIT)
    kind_of_pipe[[IO, MOVE, VECTOR, TENSOR, SCALAR]] = [_READ, _MOVE, _VECTOR, _TENSOR, _SCALAR]
    kind = kind_of_pipe[records.pipe]
    kind[(records.pipe == IO) & records.is_write] = _WRITE
    is_io = records.pipe == IO
    starting = is_io & (records.latency_ps > 0)
    number = np.arange(len(records))
    start = np.where(is_io, records.moving_ps, records.start_ps)
    columns = [
        np.concatenate([whole, part[starting]])
        for whole, part in (
            (records.engine, records.engine),
            (records.pipe, records.pipe),
            (kind, np.full(len(kind), _START_UP)),
            (start, records.start_ps),
            (records.free_ps, records.moving_ps),
            (number, number),
        )
    ]
    every = Spans(*columns)
    return every.where(every.end_ps > every.start_ps)


class RunSpans:
    """The spans of a run, in parts: a long log is never expanded as a whole.

    Attributes:
        records: records of the whole run.
        counts: (parts, units) number of spans.
        lanes: lanes with spans.
        kinds: (units, kinds) whether a unit has spans of a kind.
    """

    def __init__(self, records: LogColumns) -> None:
        self.records = records
        self.lanes: set[int] = set()
        self.kinds = np.zeros((records.units, len(KINDS)), bool)
        counts = []
        for _, every in self.parts():
            counts.append(np.bincount(every.unit, minlength=records.units))
            self.lanes |= set(np.unique(every.lane).tolist())
            self.kinds[every.unit, every.kind] = True
        self.counts = np.array(counts)

    def parts(self, units: Integers | None = None) -> Iterator[tuple[LogColumns, Spans]]:
        """Yield the parts in time order: records, and the spans of some units, clipped to the part."""
        for window in windows(self.records):
            every = spans(window)
            if window is not self.records:
                start = np.maximum(every.start_ps, window.start_of_run_ps)
                end = np.minimum(every.end_ps, window.end_of_run_ps)
                every = replace(every, start_ps=start, end_ps=end).where(end > start)
            yield window, every if units is None else every.where(np.isin(every.unit, units))

    def at(self, part: int, units: Integers) -> tuple[LogColumns, Spans]:
        """Return one part by its index."""
        return next(islice(self.parts(units), part, None))


def bin_edges(start_ps: int, end_ps: int, bins: int) -> Integers:
    """Return the edges of equal time bins in whole picoseconds; fewer if the time is shorter than that."""
    return np.unique(np.linspace(start_ps, end_ps, bins + 1).round().astype(np.int64))


def covered_fraction(row: Integers, start: Integers, end: Integers, rows: int, edges: Integers) -> Numbers:
    """(rows, bins) fraction of each time bin that is covered on each row.

    Args:
        row, start, end: by span; spans of a row do not overlap.
        rows: number of rows.
        edges: by bin, its start; last, the end of the last bin.
    """
    covered = np.zeros((rows, len(edges) - 1))
    for sign, at in ((1.0, start), (-1.0, end)):
        # The time from a moment to the end of each later bin, as a step in its own bin and a ramp after it.
        inside = np.clip(at, edges[0], edges[-1])
        cell = np.clip(np.searchsorted(edges, inside, side="right") - 1, 0, len(edges) - 2)
        width = (edges[cell + 1] - edges[cell]).astype(np.float64)
        part = (edges[cell + 1] - inside) / width
        np.add.at(covered, (row, cell), sign * part)
        later = cell + 1 < len(edges) - 1
        np.add.at(covered, (row[later], cell[later] + 1), sign * (1 - part[later]))
    return np.clip(np.cumsum(covered, axis=1), 0.0, 1.0)


def shares(spans: Spans, row: Integers, rows: int, edges: Integers) -> Numbers:
    """(rows, bins, kinds) fraction of each time bin that a unit spent on each kind, in the order of `KINDS`.

    If several pipes are busy, transfers take precedence over compute, and work over waiting, so that the fractions of a
    bin sum to at most 1.
    """
    names = [name for name, _ in KINDS]
    share = np.zeros((rows, len(edges) - 1, len(KINDS)))
    covered = no_intervals()
    before = np.zeros((rows, len(edges) - 1))
    for group in _PRECEDENCE:
        kinds = [names.index(name) for name in group]
        chosen = np.isin(spans.kind, kinds)
        if not chosen.any():
            continue
        covered = union(covered, intervals(row[chosen], spans.start_ps[chosen], spans.end_ps[chosen]))
        after = covered_fraction(covered[:, 0], covered[:, 1], covered[:, 2], rows, edges)
        share[:, :, kinds[0]] = np.maximum(after - before, 0.0)
        before = after
    return share

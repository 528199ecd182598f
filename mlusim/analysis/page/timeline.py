"""Data of the timeline, on the page and as a picture: the time of each core by cause, and the spans of its pipes.

The causes are those of `breakdown`. Each unit has one lane on which every picosecond belongs to one cause, and below it
a lane per pipe with work; loads and stores of the io pipe have separate lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mlusim.analysis.breakdown import CAUSES, layers
from mlusim.analysis.intervals import clip, gaps, intervals, no_intervals, union
from mlusim.analysis.log_columns import DIRECTION_NAMES, LogColumns
from mlusim.analysis.log_parts import max_windows, windows
from mlusim.analysis.page.embed import pack
from mlusim.analysis.style import CAUSE_COLOURS, time_unit
from mlusim.arrays import Integers
from mlusim.log import IO, MOVE, NONE, SCALAR, SYNC, TENSOR, VECTOR
from mlusim.source_code import source_name

# More spans than this result in a page of several megabytes.
MAX_SPANS = 120_000
_MAX_BINS = 1 << 15
# Fields of `CauseSpans` by span, besides its lane.
_COLUMNS = ("start_ps", "length_ps", "cause", "label", "line", "nbytes", "times")
_STRIP = "all its time"
# From top to bottom.
LANE_NAMES = (_STRIP, "io load", "io store", "move", "vector", "tensor", "scalar", "sync")
_LOAD, _STORE, _MOVE, _VECTOR, _TENSOR, _SCALAR, _SYNC = range(1, len(LANE_NAMES))
_LANE_OF_PIPE = {IO: _LOAD, MOVE: _MOVE, VECTOR: _VECTOR, TENSOR: _TENSOR, SCALAR: _SCALAR, SYNC: _SYNC}


class Lane(NamedTuple):
    """A row of the timeline: its unit, and an index into `LANE_NAMES`."""

    unit: int
    kind: int


@dataclass(frozen=True, eq=False)
class CauseSpans:
    """Spans on lanes, sorted by lane and start; spans of one lane do not overlap.

    Attributes:
        lanes: the rows, unit by unit.
        lane: by span, the index of its lane.
        start_ps, length_ps: by span, its start since the first launch, and its length.
        cause: by span, an index into `breakdown.CAUSES`.
        label: by span, an index into `labels`; NONE for a cause only, or several operations.
        line: by span, the number of the log's source line; NONE for none or several.
        nbytes: by span, the bytes of its operations.
        times: by span, the number of its operations.
        labels: operations and directions of copies.
        merged: number of spans before operations were merged; 0 if none were.
        within_ps: operations within this time were merged.
    """

    lanes: list[Lane]
    lane: Integers
    start_ps: Integers
    length_ps: Integers
    cause: Integers
    label: Integers
    line: Integers
    nbytes: Integers
    times: Integers
    labels: list[str]
    merged: int = 0
    within_ps: int = 0

    def __len__(self) -> int:
        return len(self.lane)


class _SpanColumns(NamedTuple):
    """Parts of records that one cause covers, on the lanes of units."""

    unit: Integers
    lane: Integers
    start: Integers
    stop: Integers
    cause: Integers
    record: Integers


def cause_spans(records: LogColumns, max_spans: int = MAX_SPANS, units: Integers | None = None) -> CauseSpans:
    """Return all spans of a run, or of some of its units, merged if there would be more than `max_spans`.

    A long log is read in windows: an operation cut by a window's edge is a span in each window, and counts in the
    first.
    """
    count = max_windows(records)
    parts = [
        (window.start_of_run_ps - records.start_of_run_ps, _spans(window, max_spans // count, units))
        for window in windows(records)
    ]
    return parts[0][1] if len(parts) == 1 else _concatenated(parts)


def timeline_data(records: LogColumns, spans: CauseSpans) -> dict[str, Any]:
    """Return the spans in columns, with the names that their numbers refer to, for page.js."""
    unit, scale = time_unit(records.time_ps)
    first = np.searchsorted(spans.lane, np.arange(len(spans.lanes) + 1))
    units = sorted({lane.unit for lane in spans.lanes})
    return {
        "end_ps": records.time_ps,
        "unit": unit,
        "unit_ps": scale,
        "causes": list(CAUSES.values()),
        "colours": [CAUSE_COLOURS[name] for name in CAUSES],
        "lane_names": list(LANE_NAMES),
        "lanes": [[units.index(lane.unit), lane.kind] for lane in spans.lanes],
        "units": [records.unit_name(unit) for unit in units],
        "first": first.tolist(),
        **{name: pack(getattr(spans, name)) for name in _COLUMNS},
        "labels": spans.labels,
        "lines": [f"{source_name(file)}:{number}" for file, number, _ in records.log.lines],
        "within_ps": spans.within_ps,
    }


def _concatenated(parts: list[tuple[int, CauseSpans]]) -> CauseSpans:
    """Concatenate the spans of windows; each window is given with its start time."""

    def column(name: str) -> Integers:
        return np.concatenate([getattr(part, name) for _, part in parts])

    kinds = len(LANE_NAMES)
    row = np.concatenate([np.array([unit * kinds + kind for unit, kind in part.lanes])[part.lane] for _, part in parts])
    rows, lane = np.unique(row, return_inverse=True)
    start = np.concatenate([part.start_ps + low for low, part in parts])
    order = np.lexsort((start, lane))
    merged = any(part.merged for _, part in parts)
    return CauseSpans(
        lanes=[Lane(*divmod(row, kinds)) for row in rows.tolist()],
        lane=lane[order],
        start_ps=start[order],
        **{name: column(name)[order] for name in _COLUMNS[1:]},
        labels=parts[0][1].labels,
        merged=sum(part.merged or len(part) for _, part in parts) if merged else 0,
        within_ps=max(part.within_ps for _, part in parts),
    )


def _spans(records: LogColumns, max_spans: int, units: Integers | None) -> CauseSpans:
    parts = [*_strips(records), *_pipes(records)]
    unit, kind, start, stop, cause, record = (
        np.concatenate([np.empty(0, np.int64), *columns]) for columns in zip(*parts, strict=True)
    )
    low, high = records.start_of_run_ps, records.end_of_run_ps
    begins = start >= low  # operations that began before this window count in another one
    start, stop = np.clip(start, low, high), np.clip(stop, low, high)
    selected = (stop > start) & (True if units is None else np.isin(unit, units))
    unit, kind, start, stop, cause, record = (part[selected] for part in (unit, kind, start, stop, cause, record))
    row = unit * len(LANE_NAMES) + kind
    rows, lane = np.unique(row, return_inverse=True)
    order = np.lexsort((start, lane))
    lane, start, stop, cause, record = (part[order] for part in (lane, start, stop, cause, record))
    has_record = record != NONE
    counts = has_record & begins[selected][order]
    label = np.where(has_record, _labels(records)[record], NONE)
    spans = CauseSpans(
        lanes=[Lane(*divmod(row, len(LANE_NAMES))) for row in rows.tolist()],
        lane=lane,
        start_ps=start - low,
        length_ps=stop - start,
        cause=cause,
        label=label,
        line=np.where(has_record, records.line[record], NONE) if len(records) else record,
        nbytes=np.where(counts, records.bytes_requested[record], 0) if len(records) else record * 0,
        times=np.where(counts, records.count[record], 0) if len(records) else record * 0,
        labels=[*DIRECTION_NAMES, *records.log.ops],
    )
    return spans if len(spans) <= max_spans else _merge_short(spans, records.time_ps, max_spans)


def _labels(records: LogColumns) -> Integers:
    """By record, return the index of its label; the last entry is for none."""
    code = np.where(records.direction >= 0, records.direction, len(DIRECTION_NAMES) + records.op)
    return np.concatenate([code, [NONE]])


def _strips(records: LogColumns) -> list[_SpanColumns]:
    """Each unit's time by cause: the part of each layer that no earlier layer covers."""
    low, high, causes = records.start_of_run_ps, records.end_of_run_ps, list(CAUSES)
    units = np.unique(np.concatenate([np.arange(records.board.cores), records.engine, records.unit]))
    if not records.time_ps:
        return [_strip(no_intervals(), 0)]
    earlier, strips = no_intervals(), []
    for layer in layers(records):
        spans = clip(union(intervals(layer.track, layer.start_ps, layer.stop_ps)), low, high)
        spans = spans[np.isin(spans[:, 0], units)]
        # The difference of `spans` and `earlier`: the complement of (complement of `spans`, or `earlier`).
        visible = gaps(union(gaps(spans, records.units, low, high), earlier), records.units, low, high)
        strips.append(_strip(visible, causes.index(layer.cause)))
        earlier = union(earlier, spans)
    idle = gaps(earlier, records.units, low, high)
    strips.append(_strip(idle[np.isin(idle[:, 0], units)], causes.index("idle")))
    return strips


def _strip(spans: Integers, cause: int) -> _SpanColumns:
    count = len(spans)
    of_no_record = np.full(count, NONE, np.int64)
    return _SpanColumns(
        spans[:, 0], np.zeros(count, np.int64), spans[:, 1], spans[:, 2], np.full(count, cause), of_no_record
    )


def _pipes(records: LogColumns) -> list[_SpanColumns]:
    """The spans of the pipes; a copy is split into its start-up, its time alone, and the time added by sharing."""
    pipe, start, moving = records.pipe, records.start_ps, records.moving_ps
    alone_end = moving + records.moving_alone_ps
    shares_link = records.is_copy & (records.moving_alone_ps > 0)
    is_io, is_move = pipe == IO, pipe == MOVE
    lane = np.array([_LANE_OF_PIPE[code] for code in range(max(_LANE_OF_PIPE) + 1)], np.int64)[pipe]
    lane = np.where(is_io & records.is_write, _STORE, lane)
    causes = list(CAUSES)

    def columns(cause: str, selected: Any, from_ps: Integers, to_ps: Integers) -> _SpanColumns:
        rows = np.flatnonzero(selected)
        cause_index = np.full(len(rows), causes.index(cause))
        return _SpanColumns(records.engine[rows], lane[rows], from_ps[rows], to_ps[rows], cause_index, rows)

    # Without a shared part, all of a copy's time is its time alone.
    own_end = np.where(shares_link, alone_end, records.end_ps)
    return [
        columns("dma_latency", is_io, start, moving),
        columns("transfer", is_io, moving, own_end),
        columns("on_chip_copy", is_move, start, own_end),
        columns("bandwidth_wait", shares_link, own_end, records.end_ps),
        columns("vector", (pipe == VECTOR) | (pipe == TENSOR), start, records.end_ps),
        columns("scalar", pipe == SCALAR, start, records.free_ps),
        columns("sync", pipe == SYNC, start, records.end_ps),
    ]


def _merge_short(every: CauseSpans, time_ps: int, max_spans: int) -> CauseSpans:
    """Merge short spans that begin in one bin of a lane, by cause; total times are preserved exactly.

    Spans as long as a bin are unchanged. Merged spans are placed at the first of them, so that nothing overlaps: no
    long span lies between short spans of one bin.
    """
    bins = _MAX_BINS
    while True:
        width = -(-time_ps // bins)
        is_short = every.length_ps < width
        key = ((every.lane * bins) + every.start_ps // width) * len(CAUSES) + every.cause
        groups, group = np.unique(key[is_short], return_inverse=True)
        count = len(groups) + int((~is_short).sum())
        if count <= max_spans or bins == 1:
            break
        # The number of groups is about that of bins.
        bins = max(min(int(0.95 * bins * max_spans / count), bins - 1), 1)

    def by_group(operation: np.ufunc, values: Integers, initial: int) -> Integers:
        result = np.full(len(groups), initial, np.int64)
        operation.at(result, group, values[is_short])
        return result

    def first(values: Integers) -> Integers:
        return by_group(np.minimum, values, np.iinfo(np.int64).max)

    def total(values: Integers) -> Integers:
        return by_group(np.add, values, 0)

    def common(values: Integers) -> Integers:
        lowest = first(values)
        return np.where(lowest == by_group(np.maximum, values, NONE), lowest, NONE)

    lane_bin, cause = np.divmod(groups, len(CAUSES))
    length = total(every.length_ps)
    columns = {
        "lane": lane_bin // bins,
        "start_ps": _starts_in_sequence(lane_bin, first(every.start_ps), length),
        "length_ps": length,
        "cause": cause,
        "label": common(every.label),
        "line": common(every.line),
        "nbytes": total(every.nbytes),
        "times": total(every.times),
    }
    merged = {name: np.concatenate([getattr(every, name)[~is_short], column]) for name, column in columns.items()}
    order = np.lexsort((merged["start_ps"], merged["lane"]))
    return CauseSpans(
        lanes=every.lanes,
        labels=every.labels,
        merged=len(every),
        within_ps=width,
        **{name: column[order] for name, column in merged.items()},
    )


def _starts_in_sequence(lane_bin: Integers, first: Integers, length: Integers) -> Integers:
    """Return the starts of the groups in each bin of a lane, one after another from the first start in the bin."""
    order = np.lexsort((first, lane_bin))
    length_before = np.cumsum(length[order]) - length[order]
    head = np.concatenate([[True], np.diff(lane_bin[order]) != 0])
    head_index = np.maximum.accumulate(np.where(head, np.arange(len(order)), 0))
    start = np.empty(len(order), np.int64)
    start[order] = first[order][head_index] + length_before - length_before[head_index]
    return start

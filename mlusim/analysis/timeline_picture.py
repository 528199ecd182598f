"""The picture of the timeline: the time of each core by cause, and the spans of its pipes, as on the page.

A second panel magnifies a part of one core, so that single operations are visible even in long runs.
"""

from __future__ import annotations

from functools import reduce
from itertools import islice

import numpy as np

from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.canvas import Canvas, rgb, text_on, width_of
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.log_parts import parts_of
from mlusim.analysis.page.timeline import LANE_NAMES, CauseSpans, cause_spans
from mlusim.analysis.plot import Plot, left_of
from mlusim.analysis.style import CAUSE_COLOURS, time_unit
from mlusim.arrays import Integers
from mlusim.inputs import as_text, check_is
from mlusim.log import NONE
from mlusim.units import format_ns

# Cores in a timeline, and in each of two below each other.
MAX_UNITS, _UNITS_OF_TWO = 16, 8
# With more spans than this, short ones are summed up: an SVG containing each of them would be slow to open.
MAX_SPANS = 12_000
_MAGNIFIED = 12  # operations
_LANE_PX, _DETAIL_LANE_PX, _UNIT_GAP = 11.5, 31.0, 0.6
_NAME_SIZE = 8
_COLOURS = np.array([CAUSE_COLOURS[name] for name in CAUSES])
_START_UP = list(CAUSES).index("dma_latency")


def draw_timeline(records: LogColumns, title: str, about: str = "") -> Canvas:
    """Draw the timeline of at most `MAX_UNITS` cores and memory cores, evenly selected from the active ones."""
    check_is("records", records, LogColumns, "pass LogColumns(result.log, result.board)")
    title, about = as_text("title", title), as_text("about", about)
    counts = _counts(records)
    active = _active(counts)
    if not len(active):
        canvas = Canvas(title, about)
        canvas.message("no operation ran" if records.log.tasks else "nothing was launched")
        return canvas
    units = _evenly_spaced(active, MAX_UNITS)
    spans = cause_spans(records, MAX_SPANS, units)
    lanes = ", ".join(LANE_NAMES[kind] for kind in _kinds(spans))
    subtitle = f"one row per core, from top to bottom: {lanes}"
    if len(units) < len(active):
        subtitle += f"; {len(units)} of {len(active)} active cores shown"
    if spans.merged:
        subtitle += f"; spans shorter than {format_ns(spans.within_ps)} are summed up"
    canvas = Canvas(title, about, subtitle)
    plot = _overview(canvas, records, spans, records.time_ps)
    part = _busiest_part(records, counts, units)
    if 0 < part.time_ps < records.time_ps // 2:
        _detail(canvas, plot.left, part, records.start_of_run_ps)
        _, scale = time_unit(records.time_ps)
        low = (part.start_of_run_ps - records.start_of_run_ps) / scale
        plot.frame(low, low + part.time_ps / scale, 2)
    _legend(canvas, spans.cause)
    return canvas


def draw_two_timelines(runs: list[tuple[LogColumns, str]]) -> Canvas:
    """Draw the timelines of several runs below each other, on a common time axis: at most eight cores of each.

    If the boards have equally many cores, the same cores are shown, provided that some were active in all runs.
    """
    longest_ps = max((records.time_ps for records, _ in runs), default=0)
    canvas = Canvas()
    actives = [_active(_counts(records)) for records, _ in runs]
    same_units = len({records.units for records, _ in runs}) == 1
    common = reduce(np.intersect1d, actives) if same_units else np.empty(0, np.int64)
    spans_of_runs = [
        cause_spans(records, MAX_SPANS, _evenly_spaced(common if len(common) else active, _UNITS_OF_TWO))
        for (records, _), active in zip(runs, actives, strict=True)
    ]
    # Equal times are below each other.
    names = [name for (records, _), spans in zip(runs, spans_of_runs, strict=True) for name in _names(records, spans)]
    left = left_of(names, _NAME_SIZE)
    for (records, title), active, spans in zip(runs, actives, spans_of_runs, strict=True):
        if len(active):
            head = f"{title}: {len(_units(spans))} of {len(active)} active cores"
            _overview(canvas, records, spans, longest_ps, head, left)
        else:
            canvas.text(16, canvas.height + 9, title, 12, "l", bold=True)
            canvas.message("nothing was launched")
    _legend(canvas, np.concatenate([spans.cause for spans in spans_of_runs]))
    return canvas


def _counts(records: LogColumns) -> Integers:
    """(parts of the log, units) number of operations executed by each unit."""
    return np.array([np.bincount(part.engine, minlength=records.units) for part in parts_of(records)])


def _active(counts: Integers) -> Integers:
    """Return the units that executed an operation: a memory core that only started and returned is an empty row."""
    return np.flatnonzero(counts.any(axis=0))


def _evenly_spaced(active: Integers, max_units: int) -> Integers:
    """Return at most `max_units` of the active units."""
    return np.asarray(
        active[np.unique(np.linspace(0, len(active) - 1, min(len(active), max_units)).round().astype(int))]
    )


def _units(spans: CauseSpans) -> list[int]:
    return list(dict.fromkeys(lane.unit for lane in spans.lanes))


def _names(records: LogColumns, spans: CauseSpans) -> list[str]:
    return [records.unit_name(unit) for unit in _units(spans)]


def _kinds(spans: CauseSpans) -> list[int]:
    """Return the lanes that any unit has, as indices into `LANE_NAMES`, in drawing order."""
    return sorted({lane.kind for lane in spans.lanes})


def _legend(canvas: Canvas, causes: Integers) -> None:
    names = [name for number, name in enumerate(CAUSES) if number in causes]
    canvas.legend([(CAUSES[name], CAUSE_COLOURS[name], "box") for name in names])


def _overview(
    canvas: Canvas, records: LogColumns, spans: CauseSpans, end_ps: int, title: str = "", left: float = 0.0
) -> Plot:
    """Draw all rows over the whole run, on an axis of `end_ps`.

    left: left end of the axis, in pixels; by default that which the names of the units need.
    """
    unit, scale = time_unit(end_ps)
    units, kinds, names = _units(spans), _kinds(spans), _names(records, spans)
    pitch = len(kinds) + _UNIT_GAP
    height = len(units) * pitch
    plot = Plot(
        canvas,
        left or left_of(names, _NAME_SIZE),
        max(height * _LANE_PX, 40),
        x=(0, end_ps / scale),
        y=(-0.3, height - _UNIT_GAP + 0.3),
        title=title,
        title_size=12,
    )
    plot.x_grid()
    tops = [units.index(lane.unit) * pitch + kinds.index(lane.kind) for lane in spans.lanes]
    _draw_spans(plot, spans, tops, 0, scale)
    plot.y_names([row * pitch + len(kinds) / 2 for row in range(len(units))], names, _NAME_SIZE)
    plot.x_axis(f"time since the first launch [{unit}]")
    return plot


def _draw_spans(plot: Plot, spans: CauseSpans, tops: list[float], begin_ps: int, scale: int) -> None:
    """Draw spans that are `begin_ps` later than their own times, on lanes with these tops."""
    left = (spans.start_ps + begin_ps) / scale
    top = np.array(tops, np.float64)[spans.lane]
    colours = _COLOURS[spans.cause].tolist()
    plot.rectangles(left, left + spans.length_ps / scale, top + 0.06, top + 0.94, colours)


def _busiest_part(records: LogColumns, counts: Integers, units: Integers) -> LogColumns:
    """Return a readable number of operations of the busiest core shown, from the middle of them, and their time."""
    core = units[counts[:, units].sum(axis=0).argmax()]
    busy = np.flatnonzero(counts[:, core])
    part = next(islice(parts_of(records), int(busy[len(busy) // 2]), None))
    of_core = np.flatnonzero(part.engine == core)
    start, end = part.start_ps[of_core], part.end_ps[of_core]
    order = np.argsort(start, kind="stable")
    middle = order[max(len(order) - _MAGNIFIED, 0) // 2 :][:_MAGNIFIED]
    low, high = int(start[middle].min()), int(end[middle].max())
    return records.part(part.number[of_core[(start < high) & (end > low)]], low, high)


def _detail(canvas: Canvas, left: float, part: LogColumns, begin_ps: int) -> None:
    """Draw a part of one core's time with named lanes, and operations labelled if there is room."""
    spans = cause_spans(part, units=np.unique(part.engine))
    kinds = _kinds(spans)
    unit, scale = time_unit(part.time_ps)
    low = part.start_of_run_ps - begin_ps
    plot = Plot(
        canvas,
        left,
        _DETAIL_LANE_PX * len(kinds),
        x=(low / scale, (low + part.time_ps) / scale),
        y=(-0.05, len(kinds) + 0.05),
        title=f"{_names(part, spans)[0]}, magnified: the frame above",
    )
    plot.x_grid()
    tops = [float(kinds.index(lane.kind)) for lane in spans.lanes]
    _draw_spans(plot, spans, tops, low, scale)
    plot.y_names([index + 0.5 for index in range(len(kinds))], [LANE_NAMES[kind] for kind in kinds], _NAME_SIZE)
    plot.x_axis(f"time since the first launch [{unit}]")
    width_px = (spans.length_ps / part.time_ps * (plot.right - plot.left)).tolist()
    for span in np.flatnonzero(spans.label != NONE).tolist():
        cause = int(spans.cause[span])
        name = "start-up" if cause == _START_UP else spans.labels[int(spans.label[span])]
        if width_px[span] > width_of(name, 7) + 6:
            middle = low + float(spans.start_ps[span] + spans.length_ps[span] / 2)
            plot.text(middle / scale, tops[int(spans.lane[span])] + 0.5, name, 7, colour=text_on(rgb(_COLOURS[cause])))

"""The picture of the timeline: the operations of each core's pipes over time. The page has its own, `page.timeline`.

A run with few spans is drawn span by span. With more, spans are summed in bins, and the colour intensity of a pipe
shows how busy it was; if bins contain whole iterations, each core is one row of stacked shares. A second panel
magnifies a part of one core, so that single operations are visible even in long runs.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from mlusim.analysis.canvas import Canvas, Pixels, rgb, width_of
from mlusim.analysis.log_columns import DIRECTION_NAMES, LogColumns
from mlusim.analysis.plot import Plot, left_of
from mlusim.analysis.spans import KINDS, LANES, RunSpans, Spans, bin_edges, covered_fraction, shares
from mlusim.analysis.style import INK, PAPER, time_unit
from mlusim.arrays import Integers, Numbers
from mlusim.inputs import as_text, check_is

# Cores in a timeline, and in each of two below each other.
MAX_UNITS, _UNITS_OF_TWO = 16, 8
# With more spans than this, they are summed in bins: an SVG containing each of them would be slow to open.
MAX_SPANS = 3000
_BINS = 1500
# With more spans per core row than this, lanes would just be grey.
_MAX_ROW_SPANS = 1000
_SPANS_PER_BIN = 25
_SHARE_LEVELS = 48
_MAGNIFIED = 28
_TASK_PAPER = "#F2F2F2"
_LANE_PX, _DETAIL_LANE_PX, _UNIT_GAP = 11.5, 31.0, 0.6
_MIN_LABEL = 0.02
_BRIGHT = 1.5
_NAME_SIZE = 8
_COLOURS = np.array([colour for _, colour in KINDS])
_START_UP, _WAITING = ([name for name, _ in KINDS].index(waits) for waits in ("DMA start-up", "waiting in a sync"))


class _Rows:
    """The units of a run that are drawn: a row each, with a lane for each pipe.

    Attributes:
        run: the spans of the run.
        shown: by row, its unit.
        names: by row, the name of its unit.
        lanes: the pipes with spans, in drawing order.
        counts: by row, its number of spans.
        summed: whether a row shows shares of time instead of lanes.
    """

    def __init__(self, run: RunSpans, shown: Integers) -> None:
        self.run, self.records, self.shown = run, run.records, shown
        self.names = [run.records.unit_name(int(unit)) for unit in shown]
        self.lanes = [lane for lane in LANES if lane in run.lanes]
        self.counts = run.counts[:, shown].sum(axis=0)
        self.summed = bool((self.counts > _MAX_ROW_SPANS).any())

    def __len__(self) -> int:
        return len(self.shown)

    def of(self, unit: Integers) -> Integers:
        """Return the rows of units."""
        return np.searchsorted(self.shown, unit)

    def lane_of(self, spans: Spans) -> Integers:
        """By span, return the index of its lane."""
        numbers = {lane: number for number, lane in enumerate(self.lanes)}
        return np.array([numbers.get(lane, 0) for lane in range(max(LANES) + 1)])[spans.lane]

    def kinds(self) -> list[int]:
        """Return the kinds of spans in these rows."""
        kinds: list[int] = np.flatnonzero(self.run.kinds[self.shown].any(axis=0)).tolist()
        return kinds


def draw_timeline(records: LogColumns, title: str, about: str = "") -> Canvas:
    """Draw the timeline of at most `MAX_UNITS` cores and memory cores, evenly selected from the active ones."""
    check_is("records", records, LogColumns, "pass LogColumns(result.log, result.board)")
    title, about = as_text("title", title), as_text("about", about)
    run = RunSpans(records)
    # A memory core that only started and returned would be an empty row.
    active = np.flatnonzero(run.counts.any(axis=0))
    if not len(active):
        canvas = Canvas(title, about)
        canvas.message("no operation ran" if records.log.tasks else "nothing was launched")
        return canvas
    rows = _Rows(run, _evenly(active, MAX_UNITS))
    if rows.summed:
        subtitle = "one row per core: its share of time by activity, work before waiting; grey: issuing"
    else:
        pipes = ", ".join(LANES[lane] for lane in rows.lanes)
        subtitle = f"one row per core, its pipes from top to bottom: {pipes}"
    if len(rows) < len(active):
        subtitle += f"; {len(rows)} of {len(active)} active cores shown"
    canvas = Canvas(title, about, subtitle)
    plot = _overview(canvas, rows, records.time_ps)
    part, spans, (low, high) = _magnified(rows)
    if high - low < records.time_ps // 2:
        _detail(canvas, plot.left, rows, part, spans, low, high)
        begin, (_, scale) = records.start_of_run_ps, time_unit(records.time_ps)
        plot.frame((low - begin) / scale, (high - begin) / scale, 2)
    canvas.legend([(*KINDS[kind], "box") for kind in rows.kinds()])
    return canvas


def draw_two_timelines(runs: list[tuple[LogColumns, str]]) -> Canvas:
    """Draw the timelines of several runs below each other, on a common time axis: at most eight cores of each.

    If the boards have equally many cores, the same cores are shown, provided that some were active in all runs.
    """
    longest_ps = max((records.time_ps for records, _ in runs), default=0)
    canvas = Canvas()
    used: set[int] = set()
    everything = [RunSpans(records) for records, _ in runs]
    alike = len({records.units for records, _ in runs}) == 1
    active_units = [np.flatnonzero(run.counts.any(axis=0)) for run in everything]
    common = reduce(np.intersect1d, active_units) if alike else np.empty(0, np.int64)
    rows_of_runs = [
        _Rows(run, _evenly(common if len(common) else active, _UNITS_OF_TWO))
        for run, active in zip(everything, active_units, strict=True)
    ]
    # Equal times are below each other.
    left = max(left_of(rows.names, _NAME_SIZE) for rows in rows_of_runs)
    for (_, title), active, rows in zip(runs, active_units, rows_of_runs, strict=True):
        if len(rows):
            _overview(canvas, rows, longest_ps, f"{title}: {len(rows)} of {len(active)} active cores", left)
            used.update(rows.kinds())
        else:
            canvas.text(16, canvas.height + 9, title, 12, "l", bold=True)
            canvas.message("nothing was launched")
    canvas.legend([(*KINDS[kind], "box") for kind in sorted(used)])
    return canvas


def _evenly(active: Integers, most: int) -> Integers:
    """Return at most so many of the active units."""
    return np.asarray(active[np.unique(np.linspace(0, len(active) - 1, min(len(active), most)).round().astype(int))])


def _overview(canvas: Canvas, rows: _Rows, end_ps: int, title: str = "", left: float = 0.0) -> Plot:
    """Draw all rows over the whole run, on an axis of `end_ps`.

    left: left end of the axis, in pixels; by default that which the names of the units need.
    """
    records = rows.records
    unit, scale = time_unit(end_ps)
    pitch = len(rows.lanes) + _UNIT_GAP
    height = len(rows) * pitch
    plot = Plot(
        canvas,
        left or left_of(rows.names, _NAME_SIZE),
        max(height * _LANE_PX, 40),
        x=(0, end_ps / scale),
        y=(-0.3, height - _UNIT_GAP + 0.3),
        title=title,
        title_size=12,
    )
    plot.x_grid()
    if rows.counts.sum() <= MAX_SPANS:
        _draw_each_span(plot, rows, pitch, scale)
    else:
        right = (records.end_of_run_ps - records.start_of_run_ps) / scale
        for row, pixels in enumerate(_images(rows)):
            plot.image(pixels, 0.0, right, row * pitch, row * pitch + len(rows.lanes))
    plot.y_names([row * pitch + len(rows.lanes) / 2 for row in range(len(rows))], rows.names, _NAME_SIZE)
    first_ps = int(records.task_start_ps.min()) - records.start_of_run_ps
    if first_ps > _MIN_LABEL * end_ps and plot.bottom - plot.top > width_of("launch", 9):
        plot.text(first_ps / scale / 2, (height - _UNIT_GAP) / 2, "launch", 9, colour=INK, upward=True)
    plot.x_axis(f"time since the first launch [{unit}]")
    return plot


def _draw_each_span(plot: Plot, rows: _Rows, pitch: float, scale: int) -> None:
    """Draw every span on its lane, on grey paper for a task; white is a core without one."""
    records, begin = rows.records, rows.records.start_of_run_ps
    inside = np.isin(records.task_unit, rows.shown)
    left = (records.task_start_ps[inside] - begin) / scale
    right = (records.task_end_ps[inside] - begin) / scale
    top = rows.of(records.task_unit[inside]) * pitch
    plot.rectangles(left, right, top - 0.1, top + len(rows.lanes) + 0.1, _TASK_PAPER)
    for _, spans in rows.run.parts(rows.shown):
        _draw_spans(plot, spans, rows.of(spans.unit) * pitch + rows.lane_of(spans), begin, scale)


def _images(rows: _Rows) -> list[Pixels]:
    """Return an image for each row, with its spans summed in bins of time."""
    # Shares need several iterations per bin, or aliasing appears.
    bins = int(rows.counts.max()) // _SPANS_PER_BIN if rows.summed else _BINS
    edges = bin_edges(rows.records.start_of_run_ps, rows.records.end_of_run_ps, min(bins, _BINS))
    image = _share_image(rows, edges) if rows.summed else _lane_image(rows, edges)
    return np.split((255 * image).round().astype(np.uint8), len(rows))


def _task_image(rows: _Rows, edges: Integers) -> Numbers:
    """(rows, bins, 3) background: white for a unit without a task, slightly darker with one."""
    records = rows.records
    inside = np.isin(records.task_unit, rows.shown)
    unit, start, end = (column[inside] for column in (records.task_unit, records.task_start_ps, records.task_end_ps))
    at_work = covered_fraction(rows.of(unit), start, end, len(rows), edges)
    paper = np.array(_rgb(PAPER))
    return np.asarray(paper - at_work[:, :, None] * (paper - np.array(_rgb(_TASK_PAPER))))


def _lane_image(rows: _Rows, edges: Integers) -> Numbers:
    """(rows * lanes, bins, 3): colours of the active kinds in each bin, weighted by their activity."""
    lanes = len(rows.lanes)
    cells = len(rows) * lanes
    busy = np.zeros((len(KINDS), cells, len(edges) - 1))
    for _, spans in rows.run.parts(rows.shown):
        cell = rows.of(spans.unit) * lanes + rows.lane_of(spans)
        for kind in np.unique(spans.kind).tolist():
            chosen = spans.kind == kind
            busy[kind] += covered_fraction(cell[chosen], spans.start_ps[chosen], spans.end_ps[chosen], cells, edges)
    image = np.repeat(_task_image(rows, edges), lanes, axis=0)
    for (_, colour), part in zip(KINDS, busy, strict=True):
        image -= part[:, :, None] * (np.array(_rgb(_TASK_PAPER)) - np.array(_rgb(colour)))
    return np.clip(image, 0.0, 1.0)


def _share_image(rows: _Rows, edges: Integers) -> Numbers:
    """(rows * levels, bins, 3): stacked shares of each bin, transfers at the bottom."""
    parts = (shares(spans, rows.of(spans.unit), len(rows), edges) for _, spans in rows.run.parts(rows.shown))
    share = reduce(np.add, parts)
    working = [kind for kind in range(len(KINDS)) if kind not in (_START_UP, _WAITING)]
    order = [*working, _START_UP, _WAITING]
    reach = np.cumsum(share[:, :, order], axis=2)
    level = (np.arange(_SHARE_LEVELS)[::-1] + 0.5) / _SHARE_LEVELS
    which = (reach[:, None] <= level[None, :, None, None]).sum(axis=3)
    colours = np.array([_rgb(KINDS[kind][1]) for kind in order] + [_rgb(_TASK_PAPER)])
    image = colours[which]
    paper = np.broadcast_to(_task_image(rows, edges)[:, None], image.shape)
    free = which == len(order)
    image[free] = paper[free]
    return np.asarray(image.reshape(-1, len(edges) - 1, 3))


def _draw_spans(plot: Plot, spans: Spans, top: Any, begin: int, scale: int) -> None:
    left, right = (spans.start_ps - begin) / scale, (spans.end_ps - begin) / scale
    plot.rectangles(left, right, top + 0.06, top + 0.94, _COLOURS[spans.kind].tolist())


def _magnified(rows: _Rows) -> tuple[LogColumns, Spans, tuple[int, int]]:
    """Select a core and a time window with a readable number of operations, from the middle of a task.

    Returns the part of the run that contains it, the spans of the core in that part, and the window.
    """
    run, records = rows.run, rows.records
    core = int(rows.shown[rows.counts.argmax()])
    blocks = np.flatnonzero(run.counts[:, core])
    part, every = run.at(int(blocks[len(blocks) // 2]) if len(blocks) else 0, np.array([core]))
    tasks = np.flatnonzero(records.task_unit == core)
    longest = tasks[np.argmax(records.task_end_ps[tasks] - records.task_start_ps[tasks])] if len(tasks) else 0
    spans = every.where(part.task[every.record] == longest)
    spans = spans if len(spans) else every
    order = np.argsort(spans.start_ps, kind="stable")
    first = max(len(order) // 2 - _MAGNIFIED // 2, 0)
    window = order[first : first + _MAGNIFIED]
    return part, every, (int(spans.start_ps[window].min()), int(spans.end_ps[window].max()))


def _detail(canvas: Canvas, left: float, rows: _Rows, records: LogColumns, every: Spans, low: int, high: int) -> None:
    """Draw a part of one core's time with named lanes, and operations labelled if there is room.

    `records` and `every` are those of a part of the run; `low` and `high` its ends.
    """
    begin = rows.records.start_of_run_ps
    unit, scale = time_unit(high - low)
    spans = every.where((every.end_ps > low) & (every.start_ps < high))
    top = rows.lane_of(spans)
    plot = Plot(
        canvas,
        left,
        _DETAIL_LANE_PX * len(rows.lanes),
        x=((low - begin) / scale, (high - begin) / scale),
        y=(-0.05, len(rows.lanes) + 0.05),
        title=f"{records.unit_name(int(every.unit[0]))}, magnified: the frame above",
    )
    plot.x_grid()
    _draw_spans(plot, spans, top, begin, scale)
    plot.y_names([index + 0.5 for index in range(len(rows.lanes))], [LANES[lane] for lane in rows.lanes], _NAME_SIZE)
    plot.x_axis(f"time since the first launch [{unit}]")
    ops = records.log.ops
    shown_ps = np.stack([np.maximum(spans.start_ps, low), np.minimum(spans.end_ps, high)], axis=1)
    for (start, end), row, record, kind in zip(
        shown_ps.tolist(), top.tolist(), spans.record.tolist(), spans.kind.tolist(), strict=True
    ):
        direction = int(records.direction[record])
        name = DIRECTION_NAMES[direction] if direction >= 0 else ops[records.op[record]]
        if kind == _START_UP:
            name = "start-up"
        if (end - start) / (high - low) * (plot.right - plot.left) > width_of(name, 7) + 6:
            colour = "#000000" if sum(_rgb(KINDS[kind][1])) > _BRIGHT else "#FFFFFF"
            plot.text(((start + end) / 2 - begin) / scale, row + 0.5, name, 7, colour=colour)


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = rgb(colour)
    return red / 255, green / 255, blue / 255

"""The picture of the timeline: the operations of each core's pipes over time. The page has its own, `page.timeline`.

A run with few spans is drawn span by span. With more, spans are summed in bins, and the colour intensity of a pipe
shows how busy it was; if bins contain whole iterations, each core is one row of stacked shares. A second panel
magnifies a part of one core, so that single operations are visible even in long runs.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from mlusim.analysis.canvas import Canvas, rgb, width_of
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
    shown = _evenly(active, MAX_UNITS)
    lanes = [lane for lane in LANES if lane in run.lanes]
    unit, scale = time_unit(records.time_ps)
    pipes = ", ".join(LANES[lane] for lane in lanes)
    subtitle = (
        "one row per core: its share of time by activity, work before waiting; grey: issuing"
        if _summed(run, shown)
        else f"one row per core, its pipes from top to bottom: {pipes}"
    )
    if len(shown) < len(active):
        subtitle += f"; {len(shown)} of {len(active)} active cores shown"
    canvas = Canvas(title, about, subtitle)
    plot = _overview(canvas, run, shown, lanes, scale, records.time_ps)
    plot.x_axis(f"time since the first launch [{unit}]")
    records_of_part, spans, core, (low, high) = _magnified(run, shown)
    if high - low < records.time_ps // 2:
        _detail(canvas, plot.left, records_of_part, spans, core, lanes, (low, high, records.start_of_run_ps))
        plot.frame((low - records.start_of_run_ps) / scale, (high - records.start_of_run_ps) / scale, 2)
    canvas.legend([(*KINDS[kind], "box") for kind in np.flatnonzero(run.kinds[shown].any(axis=0)).tolist()])
    return canvas


def draw_two_timelines(runs: list[tuple[LogColumns, str]]) -> Canvas:
    """Draw the timelines of several runs below each other, on a common time axis: at most eight cores of each.

    If the boards have equally many cores, the same cores are shown, provided that some were active in all runs.
    """
    longest_ps = max((records.time_ps for records, _ in runs), default=0)
    unit, scale = time_unit(longest_ps)
    canvas = Canvas()
    used: set[int] = set()
    everything = [RunSpans(records) for records, _ in runs]
    alike = len({records.units for records, _ in runs}) == 1
    active_units = [np.flatnonzero(run.counts.any(axis=0)) for run in everything]
    common = reduce(np.intersect1d, active_units) if alike else np.empty(0, np.int64)
    shown_units = [_evenly(common if len(common) else active, _UNITS_OF_TWO) for active in active_units]
    # Equal times are below each other.
    left = max(left_of(_names(run, shown), _NAME_SIZE) for run, shown in zip(everything, shown_units, strict=True))
    for (_, title), run, active, shown in zip(runs, everything, active_units, shown_units, strict=True):
        heading = f"{title}: {len(shown)} of {len(active)} active cores" if len(active) else title
        if not len(shown):
            canvas.text(16, canvas.height + 9, heading, 12, "l", bold=True)
            canvas.message("nothing was launched")
            continue
        lanes = [lane for lane in LANES if lane in run.lanes]
        plot = _overview(canvas, run, shown, lanes, scale, longest_ps, heading, left)
        plot.x_axis(f"time since the first launch [{unit}]")
        used |= set(np.flatnonzero(run.kinds[shown].any(axis=0)).tolist())
    canvas.legend([(*KINDS[kind], "box") for kind in sorted(used)])
    return canvas


def _evenly(active: Integers, most: int) -> Integers:
    """Return at most so many of the active units."""
    return np.asarray(active[np.unique(np.linspace(0, len(active) - 1, min(len(active), most)).round().astype(int))])


def _names(run: RunSpans, shown: Integers) -> list[str]:
    return [run.records.unit_name(int(unit)) for unit in shown]


def _summed(run: RunSpans, shown: Integers) -> bool:
    """Return whether a row shows shares of time instead of lanes."""
    return int(run.counts[:, shown].sum(axis=0).max()) > _MAX_ROW_SPANS


def _overview(
    canvas: Canvas,
    run: RunSpans,
    shown: Integers,
    lanes: list[int],
    scale: int,
    end_ps: int,
    title: str = "",
    plot_left: float = 0.0,
) -> Plot:
    """Draw all shown units over the whole run, on an axis of `end_ps`; `scale`: picoseconds per axis unit.

    plot_left: left end of the axis, in pixels; by default that which the names of the units need.
    """
    records = run.records
    pitch = len(lanes) + _UNIT_GAP
    begin, end = records.start_of_run_ps, records.end_of_run_ps
    names = _names(run, shown)
    rows = len(shown) * pitch
    plot = Plot(
        canvas,
        plot_left or left_of(names, _NAME_SIZE),
        max(rows * _LANE_PX, 40),
        x=(0, end_ps / scale),
        y=(-0.3, rows - _UNIT_GAP + 0.3),
        title=title,
        title_size=12,
    )
    plot.x_grid()
    counts = run.counts[:, shown].sum(axis=0)
    if counts.sum() <= MAX_SPANS:
        inside = np.isin(records.task_unit, shown)
        left = (records.task_start_ps[inside] - begin) / scale
        right = (records.task_end_ps[inside] - begin) / scale
        top = np.searchsorted(shown, records.task_unit[inside]) * pitch
        # Grey paper for a task; white for a core without one.
        plot.rectangles(left, right, top - 0.1, top + len(lanes) + 0.1, _TASK_PAPER)
        for _, spans in run.parts(shown):
            _draw_spans(
                plot, spans, np.searchsorted(shown, spans.unit) * pitch + _lane_index(lanes, spans), begin, scale
            )
    else:
        # Shares need several iterations per bin, or aliasing appears.
        summed = _summed(run, shown)
        bins = int(counts.max()) // _SPANS_PER_BIN if summed else _BINS
        edges = bin_edges(begin, end, min(bins, _BINS))
        image = _share_image(run, shown, edges) if summed else _lane_image(run, shown, lanes, edges)
        pixels = (255 * image).round().astype(np.uint8)
        for unit, picture in enumerate(np.split(pixels, len(shown))):
            plot.image(picture, 0.0, (end - begin) / scale, unit * pitch, unit * pitch + len(lanes))
    plot.y_names([index * pitch + len(lanes) / 2 for index in range(len(shown))], names, _NAME_SIZE)
    first_ps = int(records.task_start_ps.min()) - begin
    if first_ps > _MIN_LABEL * end_ps and plot.bottom - plot.top > width_of("launch", 9):
        plot.text(first_ps / scale / 2, (rows - _UNIT_GAP) / 2, "launch", 9, colour=INK, upward=True)
    return plot


def _task_image(records: LogColumns, shown: Integers, edges: Integers) -> Numbers:
    """(units, bins, 3) background: white for a unit without a task, slightly darker with one."""
    inside = np.isin(records.task_unit, shown)
    at_work = covered_fraction(
        np.searchsorted(shown, records.task_unit[inside]),
        records.task_start_ps[inside],
        records.task_end_ps[inside],
        len(shown),
        edges,
    )
    paper = np.array(_rgb(PAPER))
    return np.asarray(paper - at_work[:, :, None] * (paper - np.array(_rgb(_TASK_PAPER))))


def _lane_index(lanes: list[int], spans: Spans) -> Integers:
    """By span, return the index of its lane among those shown."""
    return np.array([lanes.index(lane) if lane in lanes else 0 for lane in range(max(LANES) + 1)])[spans.lane]


def _lane_image(run: RunSpans, shown: Integers, lanes: list[int], edges: Integers) -> Numbers:
    """(units * lanes, bins, 3): colours of the active kinds in each bin, weighted by their activity."""
    rows = len(shown) * len(lanes)
    busy = np.zeros((len(KINDS), rows, len(edges) - 1))
    for _, spans in run.parts(shown):
        cell = np.searchsorted(shown, spans.unit) * len(lanes) + _lane_index(lanes, spans)
        for kind in np.unique(spans.kind).tolist():
            chosen = spans.kind == kind
            busy[kind] += covered_fraction(cell[chosen], spans.start_ps[chosen], spans.end_ps[chosen], rows, edges)
    image = np.repeat(_task_image(run.records, shown, edges), len(lanes), axis=0)
    for (_, colour), part in zip(KINDS, busy, strict=True):
        image -= part[:, :, None] * (np.array(_rgb(_TASK_PAPER)) - np.array(_rgb(colour)))
    return np.clip(image, 0.0, 1.0)


def _share_image(run: RunSpans, shown: Integers, edges: Integers) -> Numbers:
    """(units * levels, bins, 3): stacked shares of each bin, transfers at the bottom."""
    parts = (shares(spans, np.searchsorted(shown, spans.unit), len(shown), edges) for _, spans in run.parts(shown))
    share = reduce(np.add, parts)
    working = [kind for kind in range(len(KINDS)) if kind not in (_START_UP, _WAITING)]
    order = [*working, _START_UP, _WAITING]
    reach = np.cumsum(share[:, :, order], axis=2)
    level = (np.arange(_SHARE_LEVELS)[::-1] + 0.5) / _SHARE_LEVELS
    which = (reach[:, None] <= level[None, :, None, None]).sum(axis=3)
    colours = np.array([_rgb(KINDS[kind][1]) for kind in order] + [_rgb(_TASK_PAPER)])
    image = colours[which]
    paper = np.broadcast_to(_task_image(run.records, shown, edges)[:, None], image.shape)
    free = which == len(order)
    image[free] = paper[free]
    return np.asarray(image.reshape(-1, len(edges) - 1, 3))


def _draw_spans(plot: Plot, spans: Spans, top: Any, begin: int, scale: int) -> None:
    left, right = (spans.start_ps - begin) / scale, (spans.end_ps - begin) / scale
    plot.rectangles(left, right, top + 0.06, top + 0.94, _COLOURS[spans.kind].tolist())


def _magnified(run: RunSpans, shown: Integers) -> tuple[LogColumns, Spans, int, tuple[int, int]]:
    """Select a core and a time window with a readable number of operations, from the middle of a task.

    Returns the part of the run that contains it, the spans of that part, the core, and the window.
    """
    records = run.records
    core = int(shown[run.counts[:, shown].sum(axis=0).argmax()])
    blocks = np.flatnonzero(run.counts[:, core])
    part, every = run.at(int(blocks[len(blocks) // 2]) if len(blocks) else 0, shown)
    tasks = np.flatnonzero(records.task_unit == core)
    longest = tasks[np.argmax(records.task_end_ps[tasks] - records.task_start_ps[tasks])] if len(tasks) else 0
    spans = every.where((every.unit == core) & (part.task[every.record] == longest))
    if not len(spans):
        spans = every.where(every.unit == core)
    order = np.argsort(spans.start_ps, kind="stable")
    first = max(len(order) // 2 - _MAGNIFIED // 2, 0)
    window = order[first : first + _MAGNIFIED]
    return part, every, core, (int(spans.start_ps[window].min()), int(spans.end_ps[window].max()))


def _detail(
    canvas: Canvas,
    left: float,
    records: LogColumns,
    every: Spans,
    core: int,
    lanes: list[int],
    window: tuple[int, int, int],
) -> None:
    """Draw a part of one core's time with named lanes, and operations labelled if there is room.

    `records` and `every` belong to a part of the run; `window`: start, end, and start of the run.
    """
    low, high, begin = window
    unit, scale = time_unit(high - low)
    spans = every.where((every.unit == core) & (every.end_ps > low) & (every.start_ps < high))
    top = np.array([lanes.index(lane) for lane in spans.lane.tolist()])
    plot = Plot(
        canvas,
        left,
        _DETAIL_LANE_PX * len(lanes),
        x=((low - begin) / scale, (high - begin) / scale),
        y=(-0.05, len(lanes) + 0.05),
        title=f"{records.unit_name(core)}, magnified: the frame above",
    )
    plot.x_grid()
    _draw_spans(plot, spans, top, begin, scale)
    plot.y_names([index + 0.5 for index in range(len(lanes))], [LANES[lane] for lane in lanes], _NAME_SIZE)
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

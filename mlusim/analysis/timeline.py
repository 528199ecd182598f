"""The timeline: the operations of each core's pipes over time.

A run with few spans is drawn span by span. With more, spans are summed in bins, and the colour intensity of a pipe
shows how busy it was; if bins contain whole iterations, each core is one row of stacked shares. A second panel
magnifies a part of one core, so that single operations are visible in long runs, too.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.analysis.log_columns import DIRECTION_NAMES, Integers, Records
from mlusim.analysis.spans import KINDS, LANES, Fractions, RunSpans, Spans, coverage, shares
from mlusim.analysis.style import BLACK, INK, PAPER, legend_below, new_figure, nothing_ran, time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_UNITS = 16
# With more spans than this, they are summed in bins: an SVG containing each of them would be slow to open.
MAX_SPANS = 3000
_BINS = 1500
# With more spans per core row than this, lanes would just be grey.
_MAX_ROW_SPANS = 1000
_SPANS_PER_BIN = 25
_SHARE_LEVELS = 48
_MAGNIFIED = 28
_TASK_PAPER = "#F2F2F2"
_LANE_IN, _UNIT_GAP = 0.085, 0.6
_MIN_LABEL = 0.02
_BRIGHT = 1.5
_PANEL_IN, _LETTER_IN = 10.3, 0.063
_START_UP, _WAITING = ([name for name, _ in KINDS].index(waits) for waits in ("DMA start-up", "waiting in a sync"))


def draw_timeline(records: Records, title: str = "Timeline", about: str = "") -> Figure:
    """Draw the timeline of at most `MAX_UNITS` cores and memory cores, evenly selected from the active ones."""
    run = RunSpans(records)
    # A memory core that only started and returned would be an empty row.
    active = np.flatnonzero(run.counts.any(axis=0))
    if not len(active):
        figure = new_figure(2.2, title, about)
        nothing_ran(figure.subplots(), "no operation ran" if records.log.tasks else "nothing was launched")
        return figure
    shown = active[np.unique(np.linspace(0, len(active) - 1, min(len(active), MAX_UNITS)).round().astype(int))]
    lanes = [lane for lane in LANES if lane in run.lanes]
    unit, scale = time_unit(records.time_ps)
    pipes = ", ".join(LANES[lane] for lane in lanes)
    subtitle = (
        "one row a core: the share of its time on each of these, work before waiting; grey: in a task, issuing"
        if _summed(run, shown)
        else f"one row a core, its pipes from top to bottom: {pipes}"
    )
    if len(shown) < len(active):
        subtitle += f"; {len(shown)} of {len(active)} active cores shown"
    height = len(shown) * (len(lanes) + _UNIT_GAP) * _LANE_IN + 1.4
    records_of_part, spans, core, (low, high) = _magnified(run, shown)
    magnify = high - low < records.time_ps // 2
    extra = 0.24 * len(lanes) + 0.9 if magnify else 0.0
    figure = new_figure(height + extra, title, about, subtitle)
    grid = figure.add_gridspec(1 + magnify, 1, height_ratios=[height - 1.0, *([extra - 0.5] if magnify else [])])
    axes = figure.add_subplot(grid[0])
    _overview(axes, run, shown, lanes)
    axes.set_xlabel(f"time since the first launch [{unit}]")
    if magnify:
        _detail(figure.add_subplot(grid[1]), records_of_part, spans, core, lanes, (low, high, records.start_of_run_ps))
        x_low, x_high = ((at - records.start_of_run_ps) / scale for at in (low, high))
        axes.axvspan(x_low, x_high, facecolor="none", edgecolor=BLACK, lw=1.2, zorder=5)
    used = np.flatnonzero(run.kinds[shown].any(axis=0)).tolist()
    legend_below(figure, [_patch(*KINDS[kind]) for kind in used])
    return figure


def draw_two_timelines(runs: list[tuple[Records, str]], units: int = 8) -> Figure:
    """Draw the timelines of several runs below each other, on a common time axis: at most `units` cores of each.

    If the boards have equally many cores, the same cores are shown, provided that some were active in all runs.
    """
    longest_ps = max((records.time_ps for records, _ in runs), default=0)
    unit, scale = time_unit(longest_ps)
    figure = new_figure(1.2 + 3.4 * len(runs), "", "")
    used: set[int] = set()
    everything = [RunSpans(records) for records, _ in runs]
    alike = len({records.units for records, _ in runs}) == 1
    active_units = [np.flatnonzero(run.counts.any(axis=0)) for run in everything]
    common = reduce(np.intersect1d, active_units) if alike else np.empty(0, np.int64)
    rows = figure.subplots(len(runs), 1, squeeze=False)[:, 0]
    for axes, (_, title), run, working in zip(rows, runs, everything, active_units, strict=True):
        active = common if len(common) else working
        axes.set_title(f"{title}: {min(len(active), units)} of {len(working)} active cores" if len(working) else title)
        if not len(active):
            nothing_ran(axes, "nothing was launched")
            continue
        shown = active[np.unique(np.linspace(0, len(active) - 1, min(len(active), units)).round().astype(int))]
        _overview(axes, run, shown, [lane for lane in LANES if lane in run.lanes], scale=scale)
        axes.set_xlim(0, longest_ps / scale)
        axes.set_xlabel(f"time since the first launch [{unit}]")
        used |= set(np.flatnonzero(run.kinds[shown].any(axis=0)).tolist())
    legend_below(figure, [_patch(*KINDS[kind]) for kind in sorted(used)])
    return figure


def _summed(run: RunSpans, shown: Integers) -> bool:
    """Return whether a row shows shares of time instead of lanes."""
    return int(run.counts[:, shown].sum(axis=0).max()) > _MAX_ROW_SPANS


def _overview(axes: Axes, run: RunSpans, shown: Integers, lanes: list[int], *, scale: int = 0) -> None:
    """Draw all shown units over the whole run; `scale`: picoseconds per axis unit, by default to suit the run."""
    records = run.records
    scale = scale or time_unit(records.time_ps)[1]
    pitch = len(lanes) + _UNIT_GAP
    begin, end = records.start_of_run_ps, records.end_of_run_ps
    counts = run.counts[:, shown].sum(axis=0)
    if counts.sum() <= MAX_SPANS:
        inside = np.isin(records.task_unit, shown)
        left = (records.task_start_ps[inside] - begin) / scale
        right = (records.task_end_ps[inside] - begin) / scale
        top = np.searchsorted(shown, records.task_unit[inside]) * pitch
        # Grey paper for a task; white for a core without one.
        axes.add_collection(_boxes(left, right, top - 0.1, top + len(lanes) + 0.1, _TASK_PAPER))
        for _, spans in run.parts(shown):
            _draw_spans(axes, spans, np.searchsorted(shown, spans.unit) * pitch + _place_of(lanes, spans), begin, scale)
    else:
        # Shares need several iterations per bin, or aliasing appears.
        summed = _summed(run, shown)
        bins = int(counts.max()) // _SPANS_PER_BIN if summed else _BINS
        edges = np.unique(np.linspace(begin, end, min(bins, _BINS) + 1).round().astype(np.int64))
        image = _share_image(run, shown, edges) if summed else _lane_image(run, shown, lanes, edges)
        for unit, picture in enumerate(np.split(image, len(shown))):
            extent = (0.0, (end - begin) / scale, unit * pitch + len(lanes), unit * pitch)
            axes.imshow(picture, extent=extent, aspect="auto", zorder=2)
    axes.set_xlim(0, (end - begin) / scale)
    axes.set_ylim(len(shown) * pitch - _UNIT_GAP + 0.3, -0.3)
    axes.set_yticks(
        [index * pitch + len(lanes) / 2 for index in range(len(shown))],
        [records.unit_name(int(unit)) for unit in shown],
        fontsize=8,
    )
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    first_ps = int(records.task_start_ps.min()) - begin
    if first_ps > _MIN_LABEL * records.time_ps:
        middle = (len(shown) * pitch - _UNIT_GAP) / 2
        axes.text(first_ps / scale / 2, middle, "launch", rotation=90, ha="center", va="center", color=INK, fontsize=9)


def _task_image(records: Records, shown: Integers, edges: Integers) -> Fractions:
    """(units, bins, 3) background: white for a unit without a task, slightly darker with one."""
    inside = np.isin(records.task_unit, shown)
    at_work = coverage(
        np.searchsorted(shown, records.task_unit[inside]),
        records.task_start_ps[inside],
        records.task_end_ps[inside],
        len(shown),
        edges,
    )
    paper = np.array(_rgb(PAPER))
    return np.asarray(paper - at_work[:, :, None] * (paper - np.array(_rgb(_TASK_PAPER))))


def _place_of(lanes: list[int], spans: Spans) -> Integers:
    """(spans,) the index of each span's lane among those shown."""
    return np.array([lanes.index(lane) if lane in lanes else 0 for lane in range(max(LANES) + 1)])[spans.lane]


def _lane_image(run: RunSpans, shown: Integers, lanes: list[int], edges: Integers) -> Fractions:
    """(units * lanes, bins, 3): colours of the active kinds in each bin, weighted by their activity."""
    rows = len(shown) * len(lanes)
    busy = np.zeros((len(KINDS), rows, len(edges) - 1))
    for _, spans in run.parts(shown):
        cell = np.searchsorted(shown, spans.unit) * len(lanes) + _place_of(lanes, spans)
        for kind in np.unique(spans.kind).tolist():
            chosen = spans.kind == kind
            busy[kind] += coverage(cell[chosen], spans.start_ps[chosen], spans.end_ps[chosen], rows, edges)
    image = np.repeat(_task_image(run.records, shown, edges), len(lanes), axis=0)
    for (_, colour), part in zip(KINDS, busy, strict=True):
        image -= part[:, :, None] * (np.array(_rgb(_TASK_PAPER)) - np.array(_rgb(colour)))
    return np.clip(image, 0.0, 1.0)


def _share_image(run: RunSpans, shown: Integers, edges: Integers) -> Fractions:
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


def _draw_spans(axes: Axes, spans: Spans, top: Any, begin: int, scale: int) -> None:
    left, right = (spans.start_ps - begin) / scale, (spans.end_ps - begin) / scale
    colours = np.array([_rgb(colour) for _, colour in KINDS])[spans.kind]
    axes.add_collection(_boxes(left, right, top + 0.06, top + 0.94, colours))


def _boxes(left: Any, right: Any, top: Any, bottom: Any, colours: Any) -> Any:
    from matplotlib.collections import PolyCollection

    corners = np.stack([left, top, right, top, right, bottom, left, bottom], axis=1).reshape(-1, 4, 2)
    return PolyCollection(list(corners), facecolors=colours, linewidths=0, zorder=2)


def _magnified(run: RunSpans, shown: Integers) -> tuple[Records, Spans, int, tuple[int, int]]:
    """Select a core and a time window with a readable number of operations, from the middle of a task.

    Returns the part of the run that contains it, the spans of that part, the core, and the window.
    """
    records = run.records
    core = int(shown[run.counts[:, shown].sum(axis=0).argmax()])
    own = np.flatnonzero(run.counts[:, core])
    part, every = run.at(int(own[len(own) // 2]) if len(own) else 0, shown)
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
    axes: Axes, records: Records, every: Spans, core: int, lanes: list[int], window: tuple[int, int, int]
) -> None:
    """Draw a part of one core's time with named lanes, and operations labelled if there is room.

    `records` and `every` belong to a part of the run; `window`: start, end, and start of the run.
    """
    low, high, begin = window
    unit, scale = time_unit(high - low)
    spans = every.where((every.unit == core) & (every.end_ps > low) & (every.start_ps < high))
    top = np.array([lanes.index(lane) for lane in spans.lane.tolist()])
    _draw_spans(axes, spans, top, begin, scale)
    axes.set_xlim((low - begin) / scale, (high - begin) / scale)
    axes.set_ylim(len(lanes) + 0.05, -0.05)
    axes.set_yticks([index + 0.5 for index in range(len(lanes))], [LANES[lane] for lane in lanes], fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_title(f"{records.unit_name(core)}, magnified: the frame above", fontsize=10)
    axes.set_xlabel(f"time since the first launch [{unit}]")
    ops = records.log.ops
    shown_ps = np.stack([np.maximum(spans.start_ps, low), np.minimum(spans.end_ps, high)], axis=1)
    for (start, end), row, record, kind in zip(
        shown_ps.tolist(), top.tolist(), spans.record.tolist(), spans.kind.tolist(), strict=True
    ):
        direction = int(records.direction[record])
        name = DIRECTION_NAMES[direction] if direction >= 0 else ops[records.op[record]]
        if kind == _START_UP:
            name = "start-up"
        if (end - start) * _PANEL_IN > (high - low) * _LETTER_IN * (len(name) + 1):
            colour = "black" if sum(_rgb(KINDS[kind][1])) > _BRIGHT else "white"
            x = ((start + end) / 2 - begin) / scale
            axes.text(x, row + 0.5, name, ha="center", va="center", fontsize=7, color=colour, clip_on=True)


def _rgb(colour: str) -> tuple[float, float, float]:
    return (int(colour[1:3], 16) / 255, int(colour[3:5], 16) / 255, int(colour[5:7], 16) / 255)


def _patch(label: str, colour: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=colour, label=label)

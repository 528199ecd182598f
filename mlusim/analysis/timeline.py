"""The timeline: what each pipe of each core did when.

A run with few spans is drawn span by span. One with many is summed up: the colour of a bin is as strong as the pipe
was busy in it. A second panel magnifies a piece of one core, so that single operations show in long runs too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.analysis.records import DIRECTION_NAMES, Integers, Records
from mlusim.analysis.spans import KINDS, LANES, Spans, coverage, spans
from mlusim.analysis.style import BLACK, INK, PAPER, legend_below, new_figure, nothing_ran, time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_UNITS = 16
# More spans than this are summed up in bins: an SVG with each of them would be slow to open.
MAX_SPANS = 3000
_BINS = 1500
_MAGNIFIED = 28
_TASK_PAPER = "#F2F2F2"
_LANE_IN, _UNIT_GAP = 0.085, 0.6
_MIN_LABEL = 0.035


def draw_timeline(records: Records, title: str = "Timeline", about: str = "") -> Figure:
    """A figure of the timeline; at most `MAX_UNITS` cores and memory cores, evenly chosen from those that worked."""
    every = spans(records)
    active = np.unique(np.concatenate([records.task_unit, every.unit]))
    # A memory core that only started and returned would be an empty row.
    works = np.isin(active, every.unit)
    active = active[works] if works.any() else active
    if not len(active) or not records.time_ps:
        figure = new_figure(2.2, title, about)
        nothing_ran(figure.subplots(), "nothing was launched: there is nothing to do")
        return figure
    shown = active[np.unique(np.linspace(0, len(active) - 1, min(len(active), MAX_UNITS)).round().astype(int))]
    lanes = [lane for lane in LANES if (every.lane == lane).any()]
    some = every.where(np.isin(every.unit, shown))
    unit, scale = time_unit(records.time_ps)
    subtitle = f"one row a core, its pipes from top to bottom: {', '.join(LANES[lane] for lane in lanes)}"
    if len(shown) < len(active):
        subtitle += f"; {len(shown)} of {len(active)} active cores, evenly chosen (all are in trace.json)"
    height = len(shown) * (len(lanes) + _UNIT_GAP) * _LANE_IN + 1.4
    core, low, high = _magnified(every, shown)
    magnify = high - low < records.time_ps // 2
    extra = 0.24 * len(lanes) + 0.9 if magnify else 0.0
    figure = new_figure(height + extra, title, about, subtitle)
    grid = figure.add_gridspec(1 + magnify, 1, height_ratios=[height - 1.0, *([extra - 0.5] if magnify else [])])
    axes = figure.add_subplot(grid[0])
    _overview(axes, records, some, shown, lanes, scale)
    axes.set_xlabel(f"time since the launch [{unit}]")
    if magnify:
        _detail(figure.add_subplot(grid[1]), records, every, core, lanes, (low, high))
        x_low, x_high = ((at - records.start_of_run_ps) / scale for at in (low, high))
        axes.axvspan(x_low, x_high, facecolor="none", edgecolor=BLACK, lw=1.2, zorder=5)
    used = [kind for kind in range(len(KINDS)) if (some.kind == kind).any()]
    legend_below(figure, [_patch(*KINDS[kind]) for kind in used])
    return figure


def _overview(
    axes: Axes, records: Records, some: Spans, shown: Integers, lanes: list[int], scale: int
) -> None:
    """All shown units over the whole run."""
    pitch = len(lanes) + _UNIT_GAP
    row = np.searchsorted(shown, some.unit)
    lane = np.array([lanes.index(lane) if lane in lanes else 0 for lane in range(max(LANES) + 1)])[some.lane]
    begin, end = records.start_of_run_ps, records.end_of_run_ps
    inside = np.isin(records.task_unit, shown)
    for unit, start, stop in zip(
        records.task_unit[inside], records.task_start_ps[inside], records.task_end_ps[inside], strict=True
    ):
        # The paper of a task; white beside it is a core without one.
        top = np.searchsorted(shown, unit) * pitch
        x = (start - begin) / scale
        axes.add_patch(_rectangle(x, top - 0.1, (stop - start) / scale, len(lanes) + 0.2))
    if len(some) <= MAX_SPANS:
        _draw_spans(axes, some, row * pitch + lane, begin, scale)
    else:
        _draw_bins(axes, records, some, (row, lane), shown, len(lanes), scale)
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
        axes.text(first_ps / scale / 2, middle, "launch", ha="center", va="center", color=INK, fontsize=9)


def _draw_bins(
    axes: Axes, records: Records, some: Spans, place: tuple[Any, Any], shown: Integers, lanes: int, scale: int
) -> None:
    """One picture for all spans: each bin has the colours of what was busy, as strong as it was."""
    (row, lane), units = place, len(shown)
    begin, end = records.start_of_run_ps, records.end_of_run_ps
    inside = np.isin(records.task_unit, shown)
    edges = np.unique(np.linspace(begin, end, _BINS + 1).round().astype(np.int64))
    paper, task_paper = np.array(_rgb(PAPER)), np.array(_rgb(_TASK_PAPER))
    at_work = coverage(
        np.searchsorted(shown, records.task_unit[inside]),
        records.task_start_ps[inside],
        records.task_end_ps[inside],
        len(shown),
        edges,
    )
    image = paper - np.repeat(at_work, lanes, axis=0)[:, :, None] * (paper - task_paper)
    for kind, (_, colour) in enumerate(KINDS):
        chosen = some.kind == kind
        if chosen.any():
            part = coverage(
                (row * lanes + lane)[chosen], some.start_ps[chosen], some.end_ps[chosen], units * lanes, edges
            )
            image -= part[:, :, None] * (task_paper - np.array(_rgb(colour)))
    image = np.clip(image, 0.0, 1.0)
    pitch = lanes + _UNIT_GAP
    for unit in range(units):
        axes.imshow(
            image[unit * lanes : (unit + 1) * lanes],
            extent=(0.0, (end - begin) / scale, unit * pitch + lanes, unit * pitch),
            aspect="auto",
            zorder=2,
        )


def _draw_spans(axes: Axes, some: Spans, top: Any, begin: int, scale: int) -> None:
    from matplotlib.collections import PolyCollection

    left, right = (some.start_ps - begin) / scale, (some.end_ps - begin) / scale
    low, high = top + 0.06, top + 0.94
    corners = np.stack([left, low, right, low, right, high, left, high], axis=1).reshape(-1, 4, 2)
    colours = np.array([_rgb(colour) for _, colour in KINDS])[some.kind]
    axes.add_collection(PolyCollection(list(corners), facecolors=colours, linewidths=0, zorder=2))


def _magnified(every: Spans, shown: Integers) -> tuple[int, int, int]:
    """A core and a window of its time that holds a readable number of operations, from the middle of its work."""
    counts = np.bincount(every.unit[np.isin(every.unit, shown)])
    core = int(counts.argmax())
    mine = every.where(every.unit == core)
    order = np.argsort(mine.start_ps, kind="stable")
    first = max(len(order) // 2 - _MAGNIFIED // 2, 0)
    window = order[first : first + _MAGNIFIED]
    return core, int(mine.start_ps[window].min()), int(mine.end_ps[window].max())


def _detail(
    axes: Axes, records: Records, every: Spans, core: int, lanes: list[int], window: tuple[int, int]
) -> None:
    """A piece of one core's time, with its lanes named and its operations where there is room for the name."""
    low, high = window
    unit, scale = time_unit(high - low)
    mine = every.where((every.unit == core) & (every.end_ps > low) & (every.start_ps < high))
    top = np.array([lanes.index(lane) for lane in mine.lane.tolist()])
    begin = records.start_of_run_ps
    _draw_spans(axes, mine, top, begin, scale)
    axes.set_xlim((low - begin) / scale, (high - begin) / scale)
    axes.set_ylim(len(lanes) + 0.05, -0.05)
    axes.set_yticks([index + 0.5 for index in range(len(lanes))], [LANES[lane] for lane in lanes], fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_title(f"{records.unit_name(core)}, magnified: the frame above", fontsize=10)
    axes.set_xlabel(f"time since the launch [{unit}]")
    ops = records.log.ops
    for start, end, row, record, kind in zip(
        mine.start_ps.tolist(), mine.end_ps.tolist(), top.tolist(), mine.record.tolist(), mine.kind.tolist(), strict=True
    ):
        start, end = max(start, low), min(end, high)
        direction = int(records.direction[record])
        name = DIRECTION_NAMES[direction] if direction >= 0 else ops[records.op[record]]
        if KINDS[kind][0] == "DMA start-up":
            name = "start-up"
        if end - start > _MIN_LABEL * (high - low) * max(len(name) / 7, 1):
            bright = sum(_rgb(KINDS[kind][1])) > 1.5  # noqa: PLR2004
            axes.text(
                ((start + end) / 2 - begin) / scale,
                row + 0.5,
                name,
                ha="center",
                va="center",
                fontsize=7,
                color="black" if bright else "white",
                clip_on=True,
            )


def _rgb(colour: str) -> tuple[float, float, float]:
    return (int(colour[1:3], 16) / 255, int(colour[3:5], 16) / 255, int(colour[5:7], 16) / 255)


def _rectangle(left: float, top: float, width: float, height: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((left, top), width, height, facecolor=_TASK_PAPER, edgecolor="none", zorder=1)


def _patch(label: str, colour: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=colour, label=label)

"""The picture of a sweep: a line per combination of the other axes, with tier boundaries.

If all lines change tier at the same value, tiers are labelled bands of the background; otherwise each change is a line
in its colour. Markers show the tier of each point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mlusim.analysis.provenance import MODEL
from mlusim.analysis.style import GREY, INK, SERIES_COLOURS, drawing, legend_below, new_figure, save
from mlusim.analysis.sweep_scale import Scale, axis_value_label, axis_words, is_number
from mlusim.errors import InputError, shown
from mlusim.planning.plan_text import TIER_NAMES
from mlusim.units import GIGA

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = Sequence[dict[str, Any]]

_DASHES: tuple[Any, ...] = ("-", "--", ":", "-.")
MAX_LINES = len(SERIES_COLOURS) * len(_DASHES)
_COINCIDENCE = 0.01
# Points added to the width of a line by the lines that coincide with it, at most.
_WIDEST = 6.0
_MARKERS = {1: "o", 2: "s", 3: "^", 0: "D"}
_BANDS = {1: "#F7F7F7", 2: "#E4EEF6", 3: "#FBEBDD", 0: "#EEEEEE"}

SHORT_NAMES = {
    "nram": "nram_usable_bytes",
    "nram_bytes": "nram_usable_bytes",
    "nram_limit": "nram_limit_bytes",
    "bandwidth": "dram_bandwidth_bytes_per_s",
    "board": "device",
}


class _Metric(NamedTuple):
    column: str
    label: str
    factor: float = 1.0


METRICS = {
    "time": _Metric("time_us", "time by the model [us]"),
    "bandwidth": _Metric("achieved_bytes_per_s", "compulsory bytes over time\nby the model [GB/s]", 1 / GIGA),
    "efficiency": _Metric("io_efficiency", "io_efficiency [%]", 100.0),
    "traffic": _Metric("traffic_ratio", "bytes on the DRAM bus,\nx the compulsory bytes"),
}


_UNITS = {"_us": "us", "_ps": "ps", "_bytes": "B"}


class _Line(NamedTuple):
    """One combination of the other axes: its label, and x, tier and row of each point, sorted by x."""

    label: str
    points: list[tuple[float, int | None, dict[str, Any]]]
    impossible_at: list[float]


def plot_sweep(
    rows: Rows,
    axes: Sequence[str],
    metrics: Sequence[str],
    against: str | None,
    path: Path | None,
    title: str,
) -> Figure:
    """Draw a panel per metric, and write it as PNG or SVG if a path is given; see `Sweep.plot`."""
    column = check_plot(rows, axes, metrics, against)
    if path is not None and path.suffix.lower() not in (".png", ".svg"):
        raise InputError(f"{path}: a picture is a .png or .svg file: use one of these suffixes")
    with drawing():
        figure = draw_sweep(rows, axes, metrics, column, title)
        if path is not None:
            save(figure, path)
    return figure


def check_plot(
    rows: Rows, axes: Sequence[str], metrics: Sequence[str], against: str | None, figures: Sequence[str] = ()
) -> str:
    """Return the column of the x axis. Raises `InputError` if the rows cannot be drawn.

    figures: columns that the rows will have later.
    """
    if not rows:
        raise InputError("there are no points to draw")
    varied = [axis for axis in axes if len({row.get(axis) for row in rows}) > 1] or list(axes)
    column = SHORT_NAMES.get(against or "", against or "")
    if not column:
        numeric = [axis for axis in varied if all(is_number(row.get(axis)) for row in rows)] or varied
        column = max(numeric, key=lambda axis: len({row.get(axis) for row in rows}), default="")
        if not column:
            raise InputError("the sweep has one point: give an axis several values to draw figures against it")
    if not any(column in row for row in rows):
        raise InputError(f"against {against}: no such axis; the sweep has {', '.join(varied) or 'none'}")
    if len(rows) > 1 and len({row.get(column) for row in rows}) == 1:
        raise InputError(f"against {column}: all points have the same value; choose one of {', '.join(varied)}")
    if not metrics:
        raise InputError(f"nothing to draw: name {', '.join(METRICS)} or columns of the table")
    for name in metrics:
        if name not in METRICS and name not in figures and not any(is_number(row.get(name)) for row in rows):
            known_figures = f": {', '.join(figures)}" if figures else ""
            raise InputError(
                f"{shown(name)} is not a figure: choose {', '.join(METRICS)}, or a column of numbers{known_figures}"
            )
    count = len({_combination(row, _others(varied, column)) for row in rows})
    if count > MAX_LINES:
        raise InputError(
            f"against {column} there would be {count} lines, one for each combination of "
            f"{', '.join(_others(varied, column))}; more than {MAX_LINES} cannot be told apart: sweep fewer of them"
        )
    return column


def draw_sweep(rows: Rows, axes: Sequence[str], metrics: Sequence[str], column: str, title: str = "") -> Figure:
    """Return the figure; call it inside `style.drawing()`."""
    from matplotlib.lines import Line2D

    done_rows = [row for row in rows if row.get("status", "done") == "done" and column in row]
    if not done_rows:
        raise InputError(f"nothing to draw: no point is done; the first: {rows[0].get('message', '')}")
    panels = [_panel(name) for name in metrics]
    scale = Scale(column, [row[column] for row in rows if row.get(column) is not None])
    others = _others([axis for axis in axes if len({row.get(axis) for row in rows}) > 1], column)
    lines = _lines(rows, column, others, scale)
    figure = new_figure(0.9 + 2.5 * len(panels), title or _title(rows, column, panels), _about(rows, axes))
    panel_axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    common = _common_boundaries(lines)
    changes = has_hidden_lines = False
    for number, (axes_, panel) in enumerate(zip(panel_axes, panels, strict=True)):
        has_hidden_lines |= _draw_panel(axes_, panel, lines, scale)
        if common is not None:
            _bands(axes_, common, scale, has_names=number == 0)
        else:
            changes = _own_boundaries(axes_, lines, scale, has_names=number == 0)
    scale.label(panel_axes[-1])
    handles: list[Any] = []
    if len(lines) > 1:
        handles += [
            Line2D([], [], color=_colour(n), linestyle=_dash(n), label=line.label) for n, line in enumerate(lines)
        ]
    if has_hidden_lines:
        handles.append(Line2D([], [], color=INK, linewidth=5, label="wide: others coincide with it"))
    tiers = sorted({tier for line in lines for _, tier, _ in line.points if tier is not None})
    handles += [
        Line2D([], [], color=INK, linestyle="", marker=_MARKERS[tier], label=f"tier {tier}: {TIER_NAMES[tier]}")
        for tier in tiers
    ]
    if changes:
        label = "lines of that colour, several if black, change tier, from | to"
        handles.append(Line2D([], [], color=INK, linewidth=1, linestyle=(0, (2, 2)), label=label))
    if any(line.impossible_at for line in lines):
        handles.append(Line2D([], [], color=INK, linestyle="", marker="x", label="no result: does not fit, or failed"))
    if handles:
        legend_below(figure, handles, columns=4)
    return figure


def _panel(name: str) -> _Metric:
    """Return how a metric, or a column of the table, is drawn: a column with a metric of its own as that."""
    of_column = {metric.column: metric for metric in METRICS.values()}
    metric = METRICS.get(name) or of_column.get(name)
    if metric is not None:
        return metric
    suffix = next((suffix for suffix in _UNITS if name.endswith(suffix)), "")
    return _Metric(name, name.removesuffix(suffix).replace("_", " ") + (f" [{_UNITS[suffix]}]" if suffix else ""))


def _others(varied: Sequence[str], column: str) -> list[str]:
    """Return the axes that distinguish lines."""
    if column in ("shape", "elements"):
        return [axis for axis in varied if axis != column and not axis.startswith("shape")]
    if column == "cores":
        return [axis for axis in varied if axis not in ("cores", "clusters")]
    return [axis for axis in varied if axis != column]


def _combination(row: dict[str, Any], others: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row.get(axis) for axis in others)


def _lines(rows: Rows, column: str, others: Sequence[str], scale: Scale) -> list[_Line]:
    lines: dict[tuple[Any, ...], _Line] = {}
    for row in rows:
        key = _combination(row, others)
        label = ", ".join(axis_value_label(axis, value) for axis, value in zip(others, key, strict=True))
        line = lines.setdefault(key, _Line(label, [], []))
        if row.get(column) is None:
            continue
        x = scale.position(row[column])
        if row.get("status", "done") == "done":
            line.points.append((x, row.get("tier"), row))
        else:
            line.impossible_at.append(x)
    for line in lines.values():
        line.points.sort(key=lambda point: point[0])
    return list(lines.values())


def _hidden_by(lines: list[dict[Any, float]], *, logarithmic: bool) -> list[int]:
    """By line, count later lines that coincide with it: within 1 % of the panel's height at two points, or at all."""
    heights = [{x: log(y) if logarithmic else y for x, y in line.items() if y > 0 or not logarithmic} for line in lines]
    values = [value for line in heights for value in line.values()]
    height = max(values, default=0.0) - (min(values, default=0.0) if logarithmic else 0.0)

    def coincide(first: dict[Any, float], second: dict[Any, float]) -> bool:
        common_x = first.keys() & second.keys()
        equal_values = sum(abs(first[x] - second[x]) <= _COINCIDENCE * height for x in common_x)
        return bool(common_x) and equal_values >= min(2, len(common_x))

    return [sum(coincide(line, other) for other in heights[number + 1 :]) for number, line in enumerate(heights)]


def _draw_panel(axes: Axes, panel: _Metric, lines: list[_Line], scale: Scale) -> bool:
    """Draw the lines of a panel; returns whether some of them coincide."""
    points = [
        [
            (x, tier, row[panel.column] * panel.factor)
            for x, tier, row in line.points
            if row.get(panel.column) is not None
        ]
        for line in lines
    ]
    values = [y for of_line in points for _, _, y in of_line]
    logarithmic = _is_logarithmic(panel, values)
    hidden_by = _hidden_by([{x: y for x, _, y in of_line} for of_line in points], logarithmic=logarithmic)
    # A line hidden by coinciding ones is wider, so that it shows at their sides.
    step = min(2.5, _WIDEST / max(*hidden_by, 1))
    for number, of_line in enumerate(points):
        if of_line:
            _draw_line(axes, number, of_line, scale, wider=step * hidden_by[number], of_lines=len(lines))
    marks_at: Counter[float] = Counter()
    for number, line in enumerate(lines):
        # At the bottom of the panel, those at one x one above another.
        for x in line.impossible_at:
            y = 0.04 + min(0.06, 0.9 / len(lines)) * marks_at[x]
            marks_at[x] += 1
            axes.plot(
                [x], [y], transform=axes.get_xaxis_transform(), color=_colour(number), marker="x", markersize=6,
                clip_on=False, zorder=5,
            )  # fmt: skip
    axes.set_ylabel(panel.label)
    axes.grid(axis="y")
    _scale_values(axes, values, logarithmic=logarithmic)
    scale.apply(axes)
    return any(hidden_by)


def _draw_line(
    axes: Axes, number: int, points: list[tuple[Any, Any, float]], scale: Scale, *, wider: float, of_lines: int
) -> None:
    """Draw a line with its markers, by tier; `wider`: points added to its width."""
    colour = _colour(number)
    # For named values, the line only connects points of one combination, so it is faint.
    faint = 1.0 if scale.numeric else 0.35
    width, order = 1.5 + wider, 3 + number / of_lines
    # A single line between named values connects nothing.
    dash = _dash(number) if scale.numeric or of_lines > 1 else ""
    axes.plot(
        [x for x, _, _ in points], [y for _, _, y in points], color=colour, linestyle=dash, alpha=faint,
        linewidth=width, zorder=order, solid_capstyle="butt",
    )  # fmt: skip
    for tier in {tier for _, tier, _ in points}:
        tier_points = [(x, y) for x, other, y in points if other == tier]
        marker = "o" if tier is None else _MARKERS[tier]
        size = 6 + 1.4 * wider
        axes.plot(
            *zip(*tier_points, strict=True), color=colour, linestyle="", marker=marker, markersize=size, zorder=order
        )


def _is_logarithmic(panel: _Metric, values: list[float]) -> bool:
    """Whether the axis of a panel's values is logarithmic: for amounts over more than a factor of 10."""
    positive = [value for value in values if value > 0]
    is_amount = panel.column.endswith(("_us", "_ps", "cycles", "_bytes"))
    return is_amount and bool(positive) and max(positive) > 10 * min(positive)


def _scale_values(axes: Axes, values: list[float], *, logarithmic: bool) -> None:
    """Scale the axis of a panel's values, from 0 unless logarithmic."""
    if logarithmic:
        from matplotlib.ticker import FuncFormatter, NullFormatter

        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        positive = [value for value in values if value > 0]
        if max(positive) < 100 * min(positive):
            # Only 2 and 5 of each decade: all would overlap.
            axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" * (f"{value:e}"[0] in "25")))
        else:
            axes.yaxis.set_minor_formatter(NullFormatter())
    elif values:
        axes.set_ylim(0, 1.08 * max([*values, 1e-12]))


def _common_boundaries(lines: list[_Line]) -> list[tuple[float, float, int]] | None:
    """Return bands (from, to, tier) if at each x all lines have the same tier; else None."""
    tier_at: dict[float, int | None] = {}
    for line in lines:
        for x, tier, _ in line.points:
            if tier_at.setdefault(x, tier) != tier:
                return None
    if any(tier is None for tier in tier_at.values()):
        return []
    bands: list[tuple[float, float, int]] = []
    for x in sorted(tier_at):
        tier = tier_at[x]
        if tier is None:
            continue
        if bands and bands[-1][2] == tier:
            bands[-1] = (bands[-1][0], x, tier)
        else:
            bands.append((x, x, tier))
    return bands


def _bands(axes: Axes, bands: list[tuple[float, float, int]], scale: Scale, *, has_names: bool) -> None:
    """Colour the background by tier, with a line at each boundary, halfway between the neighbouring points."""
    if not bands:
        return
    low, high = scale.limits
    edges = [low, *(scale.between(band[1], following[0]) for band, following in pairwise(bands)), high]
    for (_, _, tier), (low, high) in zip(bands, pairwise(edges), strict=True):
        axes.axvspan(low, high, color=_BANDS[tier], linewidth=0, zorder=0)
        if has_names:
            axes.text(
                scale.between(low, high), 1.02, f"tier {tier}", transform=axes.get_xaxis_transform(), ha="center",
                va="bottom", fontsize=9, color=INK,
            )  # fmt: skip
    for edge in edges[1:-1]:
        axes.axvline(edge, color=GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=1)


def _own_boundaries(axes: Axes, lines: list[_Line], scale: Scale, *, has_names: bool) -> bool:
    """Mark each change of tier of a line in its colour, or in grey for several lines, labelled with the two tiers.

    Returns whether there are any.
    """
    changes: dict[float, tuple[set[int], set[str]]] = {}
    for number, line in enumerate(lines):
        for (x, tier, _), (other_x, other, _) in pairwise(line.points):
            if tier != other:
                line_numbers, texts = changes.setdefault(scale.between(x, other_x), (set(), set()))
                line_numbers.add(number)
                texts.add(f"{tier} | {other}")
    for edge, (line_numbers, texts) in changes.items():
        colour = _colour(min(line_numbers)) if len(line_numbers) == 1 else INK
        axes.axvline(edge, color=colour, linewidth=1, linestyle=(0, (2, 2)), zorder=1)
        if has_names:
            axes.text(
                edge, 1.02, ", ".join(sorted(texts)), transform=axes.get_xaxis_transform(), ha="center", va="bottom",
                fontsize=9, color=colour,
            )  # fmt: skip
    return bool(changes)


def _title(rows: Rows, column: str, panels: list[_Metric]) -> str:
    names = {metric.column: name for name, metric in METRICS.items()}
    quantities = [names.get(panel.column, panel.label) for panel in panels]
    quantity_list = " and ".join([", ".join(quantities[:-1]), quantities[-1]] if len(quantities) > 1 else quantities)
    return f"{rows[0].get('operator', '')}: {quantity_list} against {axis_words(column)}"


def _about(rows: Rows, axes: Sequence[str]) -> str:
    """Describe the settings that all points share, and the origin of the figures."""
    fixed_values = []
    for name in ("shape", "dtype", "input_dtype", "device", "strategy"):
        values = {row.get(name) for row in rows}
        if len(values) == 1 and name not in axes and (value := values.pop()) is not None:
            fixed_values.append(f"{'strategy ' if name == 'strategy' else ''}{value}")
    return "; ".join([*filter(None, [", ".join(fixed_values)]), MODEL])


def _colour(number: int) -> str:
    return SERIES_COLOURS[number % len(SERIES_COLOURS)]


def _dash(number: int) -> Any:
    return _DASHES[number // len(SERIES_COLOURS) % len(_DASHES)]

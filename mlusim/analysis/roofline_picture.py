"""The roofline of a run as a picture, on logarithmic axes: the same lines and points as in report.html."""

from __future__ import annotations

import math

import numpy as np

from mlusim.analysis.canvas import WIDTH, Canvas, width_of
from mlusim.analysis.page.roofline import Roofline
from mlusim.analysis.plot import GRID, Plot, left_of
from mlusim.analysis.style import BOUND, BUS, ROOF

_HEIGHT_PX = 520
_POINT_PX = 9.0
# Lines are drawn in upright slices of this width; of those with dashes, ten are drawn and five left out in turn.
_SLICE_PX, _DASH, _GAP = 2.0, 10, 5
_LINE_PX = 3.0
_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def draw_roofline(roof: Roofline | None, title: str, about: str) -> Canvas:
    """Draw the roofs of a board and the points of a run."""
    if roof is None:
        canvas = Canvas(title, about)
        canvas.message("no roofline: the run took no time, or had nothing to move")
        return canvas
    canvas = Canvas(title, about, *roof.about)
    lines = [line for line in roof.roofs if line.x]
    x = _decades([value for line in lines for value in line.x] + [point.x for point in roof.points])
    y = _decades([value for line in lines for value in line.y] + [point.y for point in roof.points])
    names = [_name(decade) for decade in range(y[0], y[1] + 1)]
    plot = Plot(canvas, left_of(names, 10, label=True), _HEIGHT_PX, x=(x[0], x[1]), y=(y[1], y[0]))
    _draw_axes(plot, roof)
    entries = []
    for line in lines:
        dashes = line.is_bar or line.colour == ROOF
        _draw_line(plot, line.x, line.y, line.colour, dashes=dashes)
        entries.append((line.name, line.colour, "dashes" if dashes else "line"))
    for point, colour in zip(roof.points, (BOUND, BUS), strict=False):
        centre_x, centre_y = float(plot.at_x(math.log10(point.x))), float(plot.at_y(math.log10(point.y)))
        for size, fill in ((_POINT_PX + 2, "#FFFFFF"), (_POINT_PX, colour)):
            canvas.rectangles(centre_x - size, centre_y - size, centre_x + size, centre_y + size, fill)
        entries.append((f"{point.name}: {point.y:.4g} {roof.unit}", colour, "box"))
    canvas.legend(entries)
    return canvas


def _decades(values: list[float]) -> tuple[int, int]:
    """Return the powers of ten around positive values."""
    logs = [math.log10(value) for value in values if value > 0]
    low = math.floor(min(logs))
    return low, max(math.ceil(max(logs)), low + 1)


def _name(decade: int) -> str:
    """Return a power of ten, from 1000 on with a unit prefix, such as 100k."""
    group = min(max(decade // 3, 0), len(_PREFIXES) - 1)
    return f"{10.0 ** (decade - 3 * group):g}{_PREFIXES[group]}"


def _draw_axes(plot: Plot, roof: Roofline) -> None:
    canvas, (x_low, x_high), (y_high, y_low) = plot.canvas, plot.x, plot.y
    for decade in range(int(x_low), int(x_high) + 1):
        position = float(plot.at_x(decade))
        canvas.rectangles(position - 0.75, plot.top, position + 0.75, plot.bottom, GRID)
        name = _name(decade)
        canvas.text(min(position, WIDTH - width_of(name, 10) / 2 - 2), plot.bottom + 20, name)
    for decade in range(int(y_low), int(y_high) + 1):
        position = float(plot.at_y(decade))
        canvas.rectangles(plot.left, position - 0.75, plot.right, position + 0.75, GRID)
        canvas.text(plot.left - 12, position, _name(decade), anchor="r")
    canvas.text((plot.left + plot.right) / 2, plot.bottom + 46, roof.x_label)
    canvas.text(16, (plot.top + plot.bottom) / 2, roof.y_label, upward=True)
    canvas.height = plot.bottom + 62


def _draw_line(plot: Plot, x: list[float], y: list[float], colour: str, *, dashes: bool) -> None:
    """Draw a line between points, straight on logarithmic axes."""
    x_px, y_px = plot.at_x(np.log10(x)), plot.at_y(np.log10(y))
    edges = np.arange(x_px[0], x_px[-1] + _SLICE_PX, _SLICE_PX)
    heights = np.interp(edges, x_px, y_px)
    top, bottom = np.minimum(heights[:-1], heights[1:]), np.maximum(heights[:-1], heights[1:])
    is_drawn = np.arange(len(top)) % (_DASH + _GAP) < _DASH if dashes else np.ones(len(top), bool)
    left_px, half = edges[:-1][is_drawn], _LINE_PX / 2
    plot.canvas.rectangles(left_px, top[is_drawn] - half, left_px + _SLICE_PX, bottom[is_drawn] + half, colour)

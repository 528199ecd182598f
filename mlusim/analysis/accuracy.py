"""The accuracy picture: simulated against measured times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlusim.analysis.style import BLUE, GREY, PALE, VERMILION, drawing, legend_below, new_figure, save
from mlusim.inputs import as_path
from mlusim.units import signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Name, error in the fit, error when left out of it (None: never left out), use.
Point = tuple[str, float, float | None, str]

_TICK_LIMIT = 25.0
_AXIS_LIMIT = 30.0


def draw_accuracy(points: Sequence[Point]) -> Figure:
    """Draw the error of each measurement: a bar for the fit, a cross for the prediction without it.

    Bars beyond the axis are cut and labelled with their value. Call it inside `style.drawing()`.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure = new_figure(
        1.5 + 0.3 * len(points),
        "Simulated against measured",
        "simulated over measured time, minus 1; the shaded band is within 10 %. A model, not a measurement",
    )
    axes = figure.subplots()
    rows = range(len(points))
    axes.axvspan(-10, 10, color=PALE, alpha=0.5, linewidth=0)
    axes.axvline(0, color=GREY, linewidth=0.8)
    for y, (_, error, left_out, use) in zip(rows, points, strict=True):
        percent = 100 * error
        width = max(-_AXIS_LIMIT, min(_AXIS_LIMIT, percent))
        axes.barh(y, width, height=0.6, color=BLUE if use == "fit" else GREY)
        if width != percent:
            axes.text(width / 2, y, f"{signed(percent, 0)} %", ha="center", va="center", fontsize=9, color="white")
        if left_out is not None:
            axes.plot(max(-_AXIS_LIMIT, min(_AXIS_LIMIT, 100 * left_out)), y, "x", color=VERMILION)
    axes.set_yticks(list(rows), [name for name, *_ in points])
    axes.invert_yaxis()
    axes.set_xlim(-_AXIS_LIMIT, _AXIS_LIMIT)
    axes.set_xticks([-_TICK_LIMIT, -10, 0, 10, _TICK_LIMIT])
    axes.set_xlabel("error in percent: positive where the model is too slow")
    legend_below(
        figure,
        [
            Patch(color=BLUE, label="fit"),
            Patch(color=GREY, label="a parameter is read off it, or it is a bound"),
            Line2D([], [], color=VERMILION, marker="x", linestyle="", label="left out of the fit"),
        ],
    )
    return figure


def save_accuracy(path: str, points: Sequence[Point]) -> None:
    """Draw the picture and write it as .svg or .png. Raises `InputError` if the file cannot be written."""
    with drawing():
        save(draw_accuracy(points), as_path(path), f"--plot {path}")

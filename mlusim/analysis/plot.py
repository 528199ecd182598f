"""Linear axes on a `Canvas`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.analysis.canvas import WIDTH, shorten, width_of
from mlusim.analysis.style import BLACK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlusim.analysis.canvas import Canvas, Pixels

GRID = "#E5E5E5"
RIGHT = WIDTH - 5.0
# Space for an axis in addition to its numbers: for its marks, and for a label along it.
_MARK_PX, _LABEL_PX = 12.0, 28.0
_LINE = 1.5
_STEPS, _WHOLE_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0), (1.0, 2.0, 4.0, 5.0, 8.0, 10.0)


def ticks(low: float, high: float, max_ticks: int = 9, *, integers: bool = False) -> tuple[list[float], list[str]]:
    """Return at most about `max_ticks` round numbers from low to high, and their text, with equally many decimals.

    `integers`: integers only.
    """
    if not high > low:
        return [low], [f"{low:g}"]
    step_at_least = (high - low) / max_ticks
    power = 10.0 ** math.floor(math.log10(step_at_least))
    if integers:
        power = max(power, 1.0)
    steps = _WHOLE_STEPS if integers and power == 1 else _STEPS
    factor = next((factor for factor in steps if factor * power >= step_at_least * (1 - 1e-9)), 10.0)
    step = factor * power
    decimals = max(-math.floor(math.log10(step) + 1e-9) + (factor == 2.5), 0)
    numbers = [count * step for count in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    return numbers, [f"{number:.{decimals}f}" for number in numbers]


def left_of(names: Sequence[str], size: float, *, label: bool = False) -> float:
    """Return the left end of a plot with these names, or numbers, on its vertical axis."""
    widest = max((width_of(name, size) for name in names), default=0.0)
    return widest + _MARK_PX + 5 + (_LABEL_PX if label else 0.0)


class Plot:
    """A part of a canvas, below what is drawn there, with linear axes.

    Args:
        canvas: drawn on.
        left, right: its ends, in pixels.
        height: in pixels.
        x: values at the left and right end.
        y: values at the top and bottom.
        title: above it.
        top: its top, in pixels, beside another plot.
    """

    def __init__(
        self,
        canvas: Canvas,
        left: float,
        height: float,
        *,
        x: tuple[float, float],
        y: tuple[float, float],
        right: float = RIGHT,
        title: str = "",
        title_size: float = 10,
        top: float | None = None,
    ) -> None:
        self.canvas = canvas
        top = canvas.height if top is None else top
        if title:
            title = shorten(title, right - left, title_size, bold=True)
            canvas.text(left, top + 9, title, title_size, "l", bold=True)
            top += 27
        self.left, self.right, self.top, self.bottom = left, right, top, top + height
        self.x, self.y = x, y
        canvas.height = max(canvas.height, self.bottom)

    def at_x(self, x: Any) -> Any:
        """Return pixels of values, within the plot."""
        low, high = self.x
        part = (np.asarray(x, np.float64) - low) / ((high - low) or 1)
        return self.left + np.clip(part, 0, 1) * (self.right - self.left)

    def at_y(self, y: Any) -> Any:
        """Return pixels of values, within the plot."""
        top, bottom = self.y
        part = (np.asarray(y, np.float64) - top) / ((bottom - top) or 1)
        return self.top + np.clip(part, 0, 1) * (self.bottom - self.top)

    def rectangles(self, left: Any, right: Any, top: Any, bottom: Any, colours: str | Sequence[str]) -> None:
        """Fill rectangles, by values."""
        self.canvas.rectangles(self.at_x(left), self.at_y(top), self.at_x(right), self.at_y(bottom), colours)

    def image(self, pixels: Pixels, left: float, right: float, top: float, bottom: float) -> None:
        """Draw pixels in a rectangle, by values."""
        self.canvas.image(
            pixels, (float(self.at_x(left)), float(self.at_y(top)), float(self.at_x(right)), float(self.at_y(bottom)))
        )

    def text(self, x: float, y: float, text: str, size: float, **style: Any) -> None:
        """Write words at values; `style` as for `Canvas.text`."""
        self.canvas.text(float(self.at_x(x)), float(self.at_y(y)), text, size, **style)

    def x_grid(self) -> None:
        """Draw the vertical lines of the grid; what is drawn later covers them."""
        pixels = self.at_x(self._x_ticks()[0])
        self.canvas.rectangles(pixels - 0.75, self.top, pixels + 0.75, self.bottom, GRID)

    def x_axis(self, label: str, *, integers: bool = False) -> None:
        """Draw the horizontal axis, its numbers and its label; `integers`: integers only."""
        numbers, names = self._x_ticks(integers=integers)
        pixels = self.at_x(numbers)
        self._line(self.left, self.bottom, self.right, self.bottom)
        self.canvas.rectangles(pixels - _LINE / 2, self.bottom, pixels + _LINE / 2, self.bottom + 6, "#000000")
        for x, name in zip(pixels.tolist(), names, strict=True):
            self.canvas.text(min(x, WIDTH - width_of(name, 10) / 2 - 2), self.bottom + 20, name)
        if label:
            self.canvas.text((self.left + self.right) / 2, self.bottom + 46, label)
        self.canvas.height = max(self.canvas.height, self.bottom + (62 if label else 42))

    def _x_ticks(self, *, integers: bool = False) -> tuple[list[float], list[str]]:
        return ticks(*self.x, max_ticks=8 if integers else 9, integers=integers)

    def y_grid(self) -> None:
        """Draw the horizontal lines of the grid; what is drawn later covers them."""
        pixels = self.at_y(self.y_ticks(self.y)[0])
        self.canvas.rectangles(self.left, pixels - 0.75, self.right, pixels + 0.75, GRID)

    def y_axis(self, label: str, *, integers: bool = False, numbered: bool = True) -> None:
        """Draw the vertical axis with its label and, if it is to be `numbered`, its numbers."""
        numbers, names = self.y_ticks(self.y, integers=integers)
        pixels = self.at_y(numbers)
        self._line(self.left, self.top, self.left, self.bottom)
        self.canvas.rectangles(self.left - 6, pixels - _LINE / 2, self.left, pixels + _LINE / 2, "#000000")
        if numbered:
            for y, name in zip(pixels.tolist(), names, strict=True):
                self.canvas.text(self.left - _MARK_PX, y, name, anchor="r")
        if label:
            x = self.left - left_of(names, 10, label=True) + _LABEL_PX / 2 + 3
            self.canvas.text(x, (self.top + self.bottom) / 2, label, upward=True)

    @staticmethod
    def y_ticks(y: tuple[float, float], *, integers: bool = False) -> tuple[list[float], list[str]]:
        """Return the numbers on a vertical axis, and their text."""
        return ticks(min(y), max(y), 8, integers=integers)

    def y_names(self, y: Sequence[float], names: Sequence[str], size: float) -> None:
        """Draw the vertical axis with names at values."""
        self._line(self.left, self.top, self.left, self.bottom)
        for pixel, name in zip(self.at_y(y).tolist(), names, strict=True):
            self.canvas.text(self.left - 7, pixel, name, size, "r")

    def horizontal_line(self, y: float, width: float, colour: str, *, dashes: bool = False) -> None:
        """Draw a horizontal line at a value."""
        self.canvas.line(self.left, float(self.at_y(y)), self.right, colour, width, dashes=dashes)

    def frame(self, left: float, right: float, width: float) -> None:
        """Draw a frame around a part of the x axis, by values, as high as the plot."""
        x, x_end = float(self.at_x(left)), float(self.at_x(right))
        self.canvas.rectangles(
            [x - width, x - width, x - width, x_end],
            [self.top, self.top - width, self.bottom, self.top],
            [x, x_end + width, x_end + width, x_end + width],
            [self.bottom, self.top, self.bottom + width, self.bottom],
            BLACK,
        )

    def close_frame(self) -> None:
        """Draw the upper and the right border, which are absent by default."""
        self._line(self.left, self.top, self.right, self.top)
        self._line(self.right, self.top, self.right, self.bottom)

    def _line(self, left: float, top: float, right: float, bottom: float) -> None:
        half = _LINE / 2
        self.canvas.rectangles(left - half, top - half, right + half, bottom + half, "#000000")

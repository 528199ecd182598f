"""The x axis of a sweep's picture: positions and labels of its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mlusim.quantities import text_of
from mlusim.units import ceil_div

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOG_FROM = 8.0  # an axis that spans this factor is logarithmic
_MANY = 12  # values of an axis that still get a tick each


class Scale:
    """The x axis: logarithmic for a wide range, evenly spaced for names."""

    def __init__(self, column: str, values: Sequence[Any]) -> None:
        self._column = column
        self._values = list(dict.fromkeys(values))
        self.numeric = all(is_number(value) for value in self._values)
        if self.numeric:
            self._values.sort()
        low, high = (self._values[0], self._values[-1]) if self._values else (0, 0)
        self.log = self.numeric and low > 0 and high >= _LOG_FROM * low
        self._positions = {value: float(value if self.numeric else index) for index, value in enumerate(self._values)}
        first, last = min(self._positions.values(), default=0.0), max(self._positions.values(), default=1.0)
        if self.log:
            margin = (last / first) ** 0.06
            self.limits = (first / margin, last * margin)
        else:
            margin = 0.06 * (last - first) or 0.5
            self.limits = (first - margin, last + margin)

    def position(self, value: Any) -> float:
        """Return the position of a value."""
        return self._positions[value]

    def between(self, first: float, second: float) -> float:
        """Return the visual midpoint of two positions."""
        return float((first * second) ** 0.5 if self.log else (first + second) / 2)

    def apply(self, axes: Axes) -> None:
        """Set limits, scale and ticks; the ticks are the values themselves if these are few."""
        from matplotlib.ticker import NullLocator

        if self.log:
            axes.set_xscale("log")
        axes.set_xlim(*self.limits)
        values = self._values
        if self.log and len(values) > _MANY:
            values = values[:: ceil_div(len(values), _MANY)]
        if len(values) <= _MANY or not self.numeric:
            axes.set_xticks(
                [self._positions[value] for value in values],
                [text_of(self._column, value, space=" ") for value in values],
            )
            axes.xaxis.set_minor_locator(NullLocator())

    def label(self, axes: Axes) -> None:
        """Set the axis label."""
        axes.set_xlabel(axis_words(self._column))
        if not self.numeric and sum(len(str(value)) for value in self._values) > 90:
            axes.tick_params(axis="x", labelrotation=20)


_AXIS_WORDS: dict[str, str] = {
    "nram_usable_bytes": "NRAM of a core that a kernel may use",
    "nram_limit_bytes": "NRAM of a core that the plan may use",
    "dram_bandwidth_bytes_per_s": "nominal DRAM bandwidth",
    "cores": "MLU cores",
    "device": "board",
    "elements": "elements of the input",
    "shape": "shape of the input",
}


def axis_words(column: str) -> str:
    """Return the label of an axis."""
    if column.startswith("shape_"):
        return f"extent of axis {column.removeprefix('shape_')} of the shape"
    return _AXIS_WORDS.get(column, column.replace("_", " "))


_BARE = ("strategy", "device", "dtype", "shape")


def axis_value_label(axis: str, value: Any) -> str:
    """Format a value of a distinguishing axis for the label of a line."""
    text = "as the board" if value is None and axis.startswith("nram") else text_of(axis, value, space=" ")
    if axis in _BARE:
        return text
    name = axis.removesuffix("_bytes_per_s").removesuffix("_usable_bytes").removesuffix("_bytes").replace("_", " ")
    return f"{name.replace('nram', 'NRAM')} {text}"


def is_number(value: Any) -> bool:
    """Return whether a value is a number other than a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)

"""Bytes by direction, compared with the compulsory bytes."""

from __future__ import annotations

from mlusim.analysis.canvas import Canvas
from mlusim.analysis.metrics import Metrics
from mlusim.analysis.plot import Plot, left_of
from mlusim.analysis.style import BOUND, BUS, REQUESTED
from mlusim.units import binary_unit, ratio, short_bytes

_COMPULSORY, _REQUESTED, _BUS = "compulsory: inputs and outputs, once", "requested by the kernel", "on the DRAM bus"
_MIN_RATIO = 0.01
_BAR_PX = 42
_COLOURS = {_COMPULSORY: BOUND, _REQUESTED: REQUESTED, _BUS: BUS}


def draw_traffic(metrics: Metrics, title: str, about: str) -> Canvas:
    """Draw bars of compulsory, requested and bus bytes for reads and for writes, then of on-chip copies."""
    bars = traffic_bars(metrics)
    largest = max((nbytes for _, _, nbytes, _ in bars), default=0)
    unit, size = binary_unit(largest)
    canvas = Canvas(
        title,
        about,
        "x: relative to the compulsory bytes of that side: every input read once, every output written once",
    )
    heights = _heights(bars)
    names = [label for label, _, _, _ in bars]
    plot = Plot(
        canvas,
        left_of(names, 10),
        _BAR_PX * (heights[-1] + 1.2),
        x=(0, 1.18 * largest / size if largest else 1),
        y=(-0.6, heights[-1] + 0.6),
    )
    plot.x_grid()
    for y, (_, role, nbytes, compulsory) in zip(heights, bars, strict=True):
        plot.rectangles(0, nbytes / size, y - 0.4, y + 0.4, _COLOURS[role])
        label = short_bytes(nbytes)
        if compulsory and role != _COMPULSORY and nbytes > _MIN_RATIO * compulsory:
            label += f"   {ratio(nbytes, compulsory)}"
        canvas.text(float(plot.at_x(nbytes / size)) + 9, float(plot.at_y(y)), label, 9, "l")
    plot.y_names(heights, names, 10)
    plot.x_axis(f"bytes [{unit}]")
    roles = {role for _, role, _, _ in bars}
    canvas.legend([(role, colour, "box") for role, colour in _COLOURS.items() if role in roles])
    return canvas


def _heights(bars: list[tuple[str, str, int, int]]) -> list[float]:
    """Return the vertical positions of the bars, with a gap before each side."""
    heights: list[float] = []
    height = 0.0
    for position, (label, _, _, compulsory) in enumerate(bars):
        if position and (label.endswith("compulsory") or (not compulsory and bars[position - 1][3])):
            height += 0.5
        heights.append(height)
        height += 1
    return heights


def traffic_bars(metrics: Metrics) -> list[tuple[str, str, int, int]]:
    """Return (label, role, bytes, compulsory bytes of that side) of each bar: reads, writes, the rest."""
    bars: list[tuple[str, str, int, int]] = []
    off_chip: set[str] = set()
    for side, verb in (("read", "load"), ("write", "store")):
        compulsory = metrics.compulsory_bytes[side]
        bars.append((f"{side}: compulsory", _COMPULSORY, compulsory, compulsory))
        for name, nbytes in metrics.bytes_requested.items():
            if _is_side(name, side, verb):
                bars.append((name, _REQUESTED, nbytes, compulsory))
                off_chip.add(name)
        bars.append((f"{side} on the bus", _BUS, metrics.bus_bytes[side], compulsory))
    bars += [(name, _REQUESTED, nbytes, 0) for name, nbytes in metrics.bytes_requested.items() if name not in off_chip]
    return bars


def _is_side(name: str, side: str, verb: str) -> bool:
    """Return whether bytes of a direction come from (read) or go to (write) off-chip memory."""
    if name.startswith("scalar"):
        return name.endswith(verb)
    source, _, destination = name.partition("2")
    return (source if side == "read" else destination) in {"GDRAM", "LDRAM"}

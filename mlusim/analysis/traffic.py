"""Bytes by direction, compared with the compulsory bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlusim.analysis.metrics import Metrics
from mlusim.analysis.style import BUS, FLOOR, REQUESTED, legend_below, new_figure
from mlusim.units import binary_unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COMPULSORY, _REQUESTED, _BUS = "compulsory: inputs and outputs, once", "requested by the kernel", "on the DRAM bus"
_MIN_RATIO = 0.01
_COLOURS = {_COMPULSORY: FLOOR, _REQUESTED: REQUESTED, _BUS: BUS}


def draw_traffic(metrics: Metrics, title: str = "Bytes by direction", about: str = "") -> Figure:
    """Draw bars of compulsory, requested and bus bytes for reads and for writes, then of on-chip copies."""
    from matplotlib.patches import Patch

    bars = traffic_bars(metrics)
    largest = max((nbytes for _, _, nbytes, _ in bars), default=0)
    unit, size = binary_unit(largest)
    figure = new_figure(
        1.3 + 0.34 * len(bars),
        title,
        about,
        "x: relative to the compulsory bytes of that side: every input read once, every output written once",
    )
    axes = figure.subplots()
    heights = _heights(bars)
    for y, (_, role, nbytes, compulsory) in zip(heights, bars, strict=True):
        axes.barh(y, nbytes / size, color=_COLOURS[role], height=0.8)
        own_unit, own_size = binary_unit(nbytes)
        label = f"{nbytes / own_size:.4g} {own_unit}"
        if compulsory and role != _COMPULSORY and nbytes > _MIN_RATIO * compulsory:
            label += f"   {nbytes / compulsory:.2f} x"
        axes.annotate(label, (nbytes / size, y), xytext=(5, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(heights, [label for label, _, _, _ in bars])
    axes.set_ylim(heights[-1] + 0.6, -0.6)
    axes.set_xlim(0, 1.18 * largest / size if largest else 1)
    axes.set_xlabel(f"bytes [{unit}]")
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    used = {role for _, role, _, _ in bars}
    legend_below(figure, [Patch(facecolor=colour, label=role) for role, colour in _COLOURS.items() if role in used])
    return figure


def _heights(bars: list[tuple[str, str, int, int]]) -> list[float]:
    """Return the vertical positions of the bars, with a gap before each side."""
    heights: list[float] = []
    at = 0.0
    for position, (label, _, _, compulsory) in enumerate(bars):
        if position and (label.endswith("compulsory") or (not compulsory and bars[position - 1][3])):
            at += 0.5
        heights.append(at)
        at += 1
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

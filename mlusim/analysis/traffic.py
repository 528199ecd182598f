"""Bytes by direction, against the least that any implementation must move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlusim.analysis.metrics import Metrics
from mlusim.analysis.style import BLUE, GREY, SKY, legend_below, new_figure
from mlusim.units import GIB, KIB, MIB

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COMPULSORY, _REQUESTED, _BUS = "compulsory: inputs and outputs, once", "requested by the kernel", "on the DRAM bus"
_COLOURS = {_COMPULSORY: GREY, _REQUESTED: SKY, _BUS: BLUE}


def draw_traffic(metrics: Metrics, title: str = "Bytes by direction") -> Figure:
    """Bars: compulsory, requested and bus bytes of reads and of writes, then what moved on chip."""
    from matplotlib.patches import Patch

    bars = traffic_bars(metrics)
    largest = max((nbytes for _, _, nbytes, _ in bars), default=0)
    unit, size = next(((name, size) for name, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)) if largest >= 2 * size), ("B", 1))
    figure = new_figure(
        1.5 + 0.34 * len(bars), title, "ratios: to the compulsory bytes of the same direction; shorter bars are better"
    )
    axes = figure.subplots()
    for place, (_, role, nbytes, least) in enumerate(bars):
        axes.barh(place, nbytes / size, color=_COLOURS[role], height=0.78)
        ratio = f"   {nbytes / least:.3g} x" if least and role != _COMPULSORY else ""
        number = f"{nbytes / size:.4g} {unit}"
        axes.annotate(
            number + ratio, (nbytes / size, place), xytext=(5, 0), textcoords="offset points", va="center", fontsize=9
        )
    axes.set_yticks(range(len(bars)), [label for label, _, _, _ in bars])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0, 1.18 * largest / size if largest else 1)
    axes.set_xlabel(f"bytes [{unit}]")
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    used = {role for _, role, _, _ in bars}
    legend_below(figure, [Patch(facecolor=colour, label=role) for role, colour in _COLOURS.items() if role in used])
    return figure


def traffic_bars(metrics: Metrics) -> list[tuple[str, str, int, int]]:
    """(label, role, bytes, compulsory bytes of that side) of each bar: reads, writes, the rest."""
    bars: list[tuple[str, str, int, int]] = []
    rest = dict(metrics.bytes_requested)
    for side, verb in (("read", "load"), ("write", "store")):
        least = metrics.compulsory_bytes[side]
        bars.append((f"{side}: compulsory", _COMPULSORY, least, least))
        for name in list(rest):
            if _is_side(name, side, verb):
                bars.append((name, _REQUESTED, rest.pop(name), least))
        bars.append((f"{side} on the bus", _BUS, metrics.bus_bytes[side], least))
    bars += [(name, _REQUESTED, nbytes, 0) for name, nbytes in rest.items()]
    return bars


def _is_side(name: str, side: str, verb: str) -> bool:
    """Whether bytes of a direction come from (read) or go to (write) off-chip memory."""
    if name.startswith("scalar"):
        return name.endswith(verb)
    source, _, destination = name.partition("2")
    return (source if side == "read" else destination) in {"GDRAM", "LDRAM"}

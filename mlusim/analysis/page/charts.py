"""The charts of the page as plotly figures.

Dictionaries instead of plotly's classes, which take longer to import than the charts to create. The tests check them
against plotly's own schema.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import numpy as np

from mlusim.analysis.bandwidth import bandwidth_of
from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.lower_bound import LOSSES, LowerBound
from mlusim.analysis.metrics import Metrics
from mlusim.analysis.page.occupancy import Occupancy
from mlusim.analysis.page.roofline import Roofline
from mlusim.analysis.page.tensors import TensorTraffic
from mlusim.analysis.style import (
    BLACK,
    BOUND,
    BUFFER_COLOURS,
    BUS,
    CAUSE_COLOURS,
    INK,
    LOSS_COLOURS,
    READ,
    REQUESTED,
    ROOF,
    WRITE,
    time_unit,
)
from mlusim.units import PS_PER_US, group_digits, percent, ratio

Figure = dict[str, Any]

_BINS = 400
_ROW_PX, _AXIS_PX = 50, 90
_LITTLE = 0.3
_LEGEND = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.01, "yanchor": "bottom", "traceorder": "normal"}


def limit_digits(values: Any, digits: int = 6) -> list[float]:
    """Return numbers as JSON with a limited number of digits."""
    return [float(f"{value:.{digits}g}") for value in np.asarray(values, float).tolist()]


def text(name: str) -> str:
    """Escape a name chosen by the user: plotly interprets some HTML in its labels."""
    return html.escape(name, quote=False)


def axis(title: str, **settings: Any) -> dict[str, Any]:
    """Return an axis with its title."""
    return {"title": {"text": title, "standoff": 8}, "automargin": True, "zeroline": False} | settings


def _time_axis(unit: str, end: float) -> dict[str, Any]:
    """Return the axis of a chart over the time of a run, whose hover begins with a time in its unit."""
    title = f"time since the first launch [{unit}]"
    return axis(title, range=[0, end], unifiedhovertitle={"text": f"%{{x:.4~g}} {unit}"})


# All series at a time, from their nearest points: the steps of a series may be far apart.
_HOVER_AT_A_TIME = {"hovermode": "x unified", "hoverdistance": -1}


def figure(traces: list[dict[str, Any]], height_px: int, **layout: Any) -> Figure:
    """Return a figure of traces with the common layout of all charts."""
    common = {
        "height": height_px,
        "margin": {"l": 60, "r": 16, "t": 34, "b": 50},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "paper_bgcolor": "#FFFFFF",
        "plot_bgcolor": "#FFFFFF",
        "hoverlabel": {"align": "left", "bgcolor": "#FFFFFF", "font": {"color": "#202020"}},
        "legend": _LEGEND,
    }
    return {"data": traces, "layout": common | layout}


def _line(name: str, x: list[float], y: list[float], style: dict[str, Any], hover: str = "") -> dict[str, Any]:
    """Return a trace of a line, with the text shown on hovering; by default it has none."""
    text_of_point = {"hovertemplate": f"{hover}<extra></extra>"} if hover else {"hoverinfo": "skip"}
    return {"type": "scatter", "name": name, "x": x, "y": y, "mode": "lines", "line": style} | text_of_point


def _area(name: str, x: list[float], y: list[float], colour: str, stack: str, hover: str) -> dict[str, Any]:
    """Return a trace of an area with steps, stacked on those before it."""
    style = {"shape": "hv", "width": 0.5, "color": colour}
    return _line(name, x, y, style, hover) | {"stackgroup": stack, "fillcolor": colour}


def bandwidth(records: LogColumns, bound: LowerBound) -> Figure:
    """Bytes on the DRAM bus over time, read and write stacked, with the peak, the mean and the bound."""
    series = bandwidth_of(records, _BINS)
    unit, scale = time_unit(records.time_ps)
    times = limit_digits((series.edges_ps - series.edges_ps[0]) / scale)
    ends = [times[0], times[-1]]
    traces = []
    for name, rates, colour in (("read", series.read, READ), ("write", series.write, WRITE)):
        heights = limit_digits(rates, 5)
        traces.append(_area(name, times, [*heights, heights[-1]], colour, "bus", f"{name} %{{y:.1f}} GB/s"))
    for name, rate, dash in (("peak of the board", series.peak, "solid"), ("mean of the run", series.mean, "dash")):
        style = {"color": BLACK, "width": 1.5, "dash": dash}
        traces.append(_line(f"{name}, {rate:.1f} GB/s", ends, limit_digits([rate, rate]), style))
    stop = min(bound.io_ps / scale, times[-1])
    traces.append(
        _line(
            "lower bound: the compulsory bytes at the peak",
            limit_digits([0, 0, stop, stop]),
            limit_digits([0, series.peak, series.peak, 0]),
            {"color": BOUND, "width": 2, "dash": "dot"},
        )
    )
    top = 1.06 * max(series.peak, float((series.read + series.write).max()))
    return figure(
        traces,
        360,
        xaxis=_time_axis(unit, times[-1]),
        yaxis=axis("on the DRAM bus [GB/s]", range=[0, float(f"{top:.6g}")], gridcolor="#E5E5E5"),
        **_HOVER_AT_A_TIME,
    )


def losses(bound: LowerBound, cores: int) -> Figure:
    """The time above the lower bound by cause, per core on average, with the bound itself on top."""
    losses = sorted(((total, name) for name, total in bound.losses_ps.items() if total), reverse=True)
    names = ["lower bound", *(LOSSES[name] for _, name in losses)]
    times_us = [bound.time_ps / PS_PER_US, *(total / cores / PS_PER_US for total, _ in losses)]
    total = sum(times_us) or 1.0
    time_texts = [f"{time:.2f} us ({percent(time / total)})" for time in times_us]
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": names,
        "x": limit_digits(times_us),
        "marker": {
            "color": [BOUND, *(LOSS_COLOURS[name] for _, name in losses)],
            "line": {"color": INK, "width": 0.5},
        },
        "hovertext": time_texts,
        "hovertemplate": "%{y}: %{hovertext}<extra></extra>",
    }
    # The figures are below the names: beside the bars, a narrow window has no room for both.
    tick_texts = ["<br>".join([*wrap(name, 24), text]) for name, text in zip(names, time_texts, strict=True)]
    labels = {"tickmode": "array", "tickvals": names, "ticktext": tick_texts}
    return figure(
        [bars],
        _AXIS_PX + _ROW_PX * len(names),
        xaxis=axis("time per core [us]", range=[0, float(f"{1.05 * max(times_us):.6g}")], gridcolor="#E5E5E5"),
        yaxis=axis("", autorange="reversed", ticks="outside", tickcolor="#FFFFFF", ticklen=6, **labels),
        showlegend=False,
    )


def per_core(records: LogColumns, metrics: Metrics, bound: LowerBound) -> Figure:
    """Each core's time by cause."""
    cores = records.board.cores
    names = [records.unit_name(unit) for unit in range(cores)]
    spent = metrics.core_causes_ps / PS_PER_US
    traces = [
        {
            "type": "bar",
            "name": CAUSES[cause],
            "x": list(range(cores)),
            "y": limit_digits(spent[:, index]),
            "customdata": names,
            "marker": {"color": CAUSE_COLOURS[cause]},
            "hovertemplate": f"%{{customdata}}<br>{CAUSES[cause]}: %{{y:.2f}} us<extra></extra>",
        }
        for index, cause in enumerate(CAUSES)
        if spent[:, index].any()
    ]
    bound_us = bound.time_ps / PS_PER_US
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": bound_us, "y1": bound_us}
    return figure(
        traces,
        340,
        barmode="stack",
        bargap=0.15,
        xaxis=axis("core", dtick=records.board.cores_per_cluster),
        yaxis=axis("time [us]", gridcolor="#E5E5E5"),
        showlegend=False,
        shapes=[  # on paper, since it crosses bars of every colour
            line | {"line": {"color": "#FFFFFF", "width": 4}},
            line | {"line": {"color": BOUND, "width": 2, "dash": "dot"}},
        ],
        annotations=[
            {"xref": "paper", "x": 1, "xanchor": "right", "y": bound_us, "yanchor": "bottom", "showarrow": False}
            | {"text": f"lower bound, {bound_us:.2f} us", "bgcolor": "rgba(255,255,255,0.8)"}
        ],
    )


def occupancy(memory: Occupancy, time_ps: int) -> Figure:
    """Allocated bytes of one memory over time, by buffer."""
    unit, scale = time_unit(time_ps)
    times = limit_digits(memory.at_ps / scale)
    traces = [
        _area(text(name), times, nbytes.tolist(), colour, "buffers", f"{text(name)}: %{{y:,}} B")
        for name, nbytes, colour in zip(memory.names, memory.nbytes, BUFFER_COLOURS, strict=False)
    ]
    end = max(times[-1], float(f"{time_ps / scale:.6g}"))
    # Small peaks would be invisible on the scale of all usable bytes.
    is_little = memory.peak_bytes <= _LITTLE * memory.usable_bytes
    top = memory.peak_bytes if is_little else max(memory.usable_bytes, memory.peak_bytes)
    axis_note = ", beyond the axis" if is_little else ""
    usable = f"usable, {group_digits(memory.usable_bytes)} B{axis_note}"
    traces.append(_line(usable, [0, end], [memory.usable_bytes] * 2, {"color": BLACK, "width": 1.5}))
    return figure(
        traces,
        330,
        xaxis=_time_axis(unit, end),
        yaxis=axis("allocated [B]", range=[0, 1.08 * top or 1], gridcolor="#E5E5E5", tickformat="~s"),
        **_HOVER_AT_A_TIME,
    )


def roofline(chart: Roofline) -> Figure:
    """Roofs and the run, on logarithmic axes."""
    traces: list[dict[str, Any]] = []
    bars = iter(("dot", "dashdot"))
    for roof in chart.roofs:
        # At small sizes the total time is the fixed time: a dashed line leaves the line beneath it visible.
        dash = next(bars) if roof.is_bar else "dash" if roof.colour == ROOF else "solid"
        style = {"color": roof.colour, "width": 1.5 if roof.is_bar else 2, "dash": dash}
        traces.append(
            _line(
                roof.name, limit_digits(roof.x), limit_digits(roof.y), style, f"{roof.name}: %{{y:.4g}} {chart.y_label}"
            )
        )
    for point, symbol, colour in zip(chart.points, ("circle", "diamond-open"), (BOUND, BUS), strict=False):
        traces.append(
            {
                "type": "scatter",
                "name": point.name,
                "x": limit_digits([point.x]),
                "y": limit_digits([point.y]),
                "mode": "markers",
            }
            | {"marker": {"color": colour, "size": 13, "symbol": symbol, "line": {"width": 2, "color": colour}}}
            | {"hovertemplate": f"{point.name}: %{{y:.4g}} {chart.y_label}<extra></extra>"}
        )
    return figure(
        traces,
        440,
        xaxis=axis(chart.x_label, type="log", gridcolor="#E5E5E5", exponentformat="SI", dtick=1),
        yaxis=axis(chart.y_label, type="log", gridcolor="#E5E5E5", exponentformat="none", dtick=1),
    )


def traffic(tensors: Sequence[TensorTraffic]) -> Figure:
    """Compulsory bytes, bytes requested by kernels, and bytes on the bus, per tensor."""
    names = [
        f"{text(tensor.name)} {'x'.join(map(str, tensor.shape))} {tensor.dtype}".rstrip()
        + ("" if names_before.count(tensor.name) == 0 else f" #{names_before.count(tensor.name) + 1}")
        for index, tensor in enumerate(tensors)
        for names_before in [[tensor.name for tensor in tensors[:index]]]
    ]
    series = (
        ("compulsory: once", BOUND, [tensor.compulsory_bytes for tensor in tensors]),
        ("requested by kernels", REQUESTED, [tensor.read_bytes + tensor.written_bytes for tensor in tensors]),
        ("on the DRAM bus", BUS, [tensor.bus_read_bytes + tensor.bus_write_bytes for tensor in tensors]),
    )
    traces = []
    for name, colour, nbytes in series:
        ratios = [ratio(amount, tensor.compulsory_bytes) for amount, tensor in zip(nbytes, tensors, strict=True)]
        traces.append(
            {"type": "bar", "orientation": "h", "name": name, "y": names, "x": nbytes, "marker": {"color": colour}}
            | {"text": ratios if colour != BOUND else [""] * len(tensors), "textposition": "outside"}
            | {"cliponaxis": False, "hovertemplate": f"%{{y}}<br>{name}: %{{x:,}} B %{{text}}<extra></extra>"}
        )
    maximum = max((max(nbytes) for _, _, nbytes in series if nbytes), default=0)
    return figure(
        traces,
        _AXIS_PX + 40 + 70 * len(names),
        barmode="group",
        bargap=0.25,
        xaxis=axis("moved [B]", range=[0, 1.4 * maximum or 1], gridcolor="#E5E5E5", tickformat="~s"),
        yaxis=axis("", autorange="reversed", ticks="outside", tickcolor="#FFFFFF", ticklen=6),
    )

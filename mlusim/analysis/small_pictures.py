"""Small pictures of a run, as SVG without scripts: for notebooks and tables of runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from mlusim.analysis.bandwidth import bandwidth_of
from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.style import CAUSE_COLOURS, READ, WRITE
from mlusim.units import percent

if TYPE_CHECKING:
    from mlusim.analysis.metrics import Metrics

CURVE_PX = 70  # height of a bandwidth curve
_BINS = 160


def bandwidth_areas(records: LogColumns, width: float) -> Iterator[str]:
    """Yield the areas of writes stacked on reads, the larger area first."""
    series = bandwidth_of(records, _BINS)
    edges_ps = series.edges_ps
    x_edges = (edges_ps - edges_ps[0]) / (edges_ps[-1] - edges_ps[0]) * width
    for rates, colour in ((series.read + series.write, WRITE), (series.read, READ)):
        heights = CURVE_PX * (1 - np.minimum(rates / series.peak, 1))
        points = "".join(f"H{x:.1f}V{y:.1f}" for x, y in zip(x_edges[:-1], heights, strict=True))
        yield f'<path d="M0 {CURVE_PX}{points}H{x_edges[-1]:.1f}V{CURVE_PX}Z" fill="{colour}"/>'


def share_bar(metrics: Metrics, longest_ps: int, width: int = 160, height: int = 12) -> str:
    """Render the causes of a run's time as an SVG bar; its length is proportional to the share of `longest_ps`."""
    if not metrics.core_time_ps or not longest_ps:
        return ""
    shares = (f"{CAUSES[name]} {percent(share)}" for name, share in _shares(metrics))
    label = escape(f"where the time went: {', '.join(shares)}")
    rectangles = "".join(cause_rectangles(metrics, width * metrics.time_ps / longest_ps, height))
    return (
        f'<svg role="img" aria-label="{label}" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f"{rectangles}</svg>"
    )


def _shares(metrics: Metrics) -> list[tuple[str, float]]:
    return [(name, spent / metrics.core_time_ps) for name, spent in metrics.where_time_went.items() if spent]


def cause_rectangles(metrics: Metrics, width: float, height: int) -> Iterator[str]:
    """Yield a rectangle for each cause of a run's time, side by side."""
    x = 0.0
    for name, share in _shares(metrics):
        tooltip = escape(f"{CAUSES[name]} {percent(share)}")
        yield (
            f'<rect x="{x:.1f}" y="0" width="{width * share:.1f}" height="{height}" fill="{CAUSE_COLOURS[name]}">'
            f"<title>{tooltip}</title></rect>"
        )
        x += width * share


def swatches(runs: Iterable[Metrics]) -> str:
    """Render the legend of the causes that took time in any of the runs."""
    names = {name for metrics in runs for name, _ in _shares(metrics)}
    items = "".join(
        f'<span style="white-space:nowrap;margin-right:14px"><span style="display:inline-block;width:11px;height:11px;'
        f'border:1px solid #666;background:{CAUSE_COLOURS[name]};margin-right:5px"></span>'
        f"{escape(text)}</span> "
        for name, text in CAUSES.items()
        if name in names
    )
    return f'<div style="font-size:12px;margin:2px 0 8px">{items}</div>'

"""Small pictures of a run, as SVG without scripts: for notebooks, tables of runs, and the gallery."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from mlusim.analysis.bandwidth import bandwidth_of
from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.style import BLACK, CAUSE_COLOURS, INK, PAPER, READ, WRITE, time_unit
from mlusim.analysis.summary import percent, us_text

if TYPE_CHECKING:
    from mlusim.analysis.metrics import Metrics
    from mlusim.results.result import Result

CURVE_PX = 70  # height of a bandwidth curve
_BAR_PX, _BINS = 18, 160
# Margins of a picture, and the maximum number of time ticks.
_LEFT, _RIGHT, _TOP, _TICKS, _MAX_TICKS = 72, 16, 8, 20, 6


def small_picture(result: Result, longest_ps: int, width: int = 420) -> str:
    """Render a run as a standalone SVG: DRAM bandwidth in GB/s under the board's peak, above the time by cause.

    The width is proportional to the run's share of `longest_ps`. The output is reproducible.
    """
    metrics, records = result.metrics, LogColumns(result.log, result.board)
    name = f"{result.operator} on {result.board.name}"
    label = escape(f"{name}: DRAM bandwidth over {us_text(metrics.time_ps)}, and where the time went")
    body = f'<text x="0" y="20" font-family="sans-serif" font-size="13" fill="{INK}">nothing ran: no byte moved</text>'
    if metrics.time_ps:
        part = (width - _LEFT - _RIGHT) * metrics.time_ps / longest_ps
        peak = f'<path d="M0 0H{part:.1f}" stroke="{BLACK}" stroke-width="1.5"/>'
        areas = "".join(bandwidth_areas(records, part))
        body = f'<g transform="translate({_LEFT} {_TOP})">{areas}{peak}{_axes(result, longest_ps, part)}</g>'
        bar = "".join(_pieces(metrics, part, _BAR_PX))
        body += f'<g transform="translate({_LEFT} {_TOP + CURVE_PX + _TICKS})">{bar}</g>'
    height = _TOP + CURVE_PX + _TICKS + _BAR_PX + 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><title>{label}</title>'
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>{body}</svg>\n'
    )


def _axes(result: Result, longest_ps: int, width: float) -> str:
    """Render the peak in GB/s, and time ticks at round values, which are the same for all runs of one `longest_ps`."""
    unit, scale = time_unit(longest_ps)
    exact = longest_ps / scale / _MAX_TICKS
    power = 10.0 ** math.floor(math.log10(exact))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= exact)
    peak = result.metrics.peak_bandwidth_bytes_per_s / 1e9
    parts = [f'<text x="-6" y="4">{peak:.4g} GB/s</text>', f'<text x="-6" y="{CURVE_PX}">0</text>']
    ticks = []
    for number in range(int(result.time_ps / scale / step) + 1):
        at = width * number * step * scale / result.time_ps
        ticks.append(f'<path d="M{at:.1f} {CURVE_PX}v3" stroke="{INK}"/>')
        ticks.append(
            f'<text x="{at:.1f}" y="{CURVE_PX + 13}">{number * step:.4g}{f" {unit}" if not number else ""}</text>'
        )
    look = f'font-family="sans-serif" font-size="10" fill="{INK}"'
    return f'<g {look} text-anchor="end">{"".join(parts)}</g><g {look} text-anchor="middle">{"".join(ticks)}</g>'


_PEAK, _FRAME = "peak of the board", ' stroke="#666"'


def legend_picture() -> str:
    """Render the colours of all causes, of reads and writes and of the peak as a standalone SVG."""
    columns, step, width = 5, 18, 172
    names = [(CAUSE_COLOURS[name], text) for name, text in CAUSES.items()]
    names += [(READ, "read"), (WRITE, "write"), (BLACK, _PEAK)]
    items = "".join(
        f'<rect x="{index % columns * width + 1}" y="{index // columns * step + (8 if text == _PEAK else 3)}" '
        f'width="11" height="{2 if text == _PEAK else 11}" fill="{colour}"'
        f'{"" if text == _PEAK else _FRAME}/><text x="{index % columns * width + 17}" '
        f'y="{index // columns * step + 13}">{escape(text)}</text>'
        for index, (colour, text) in enumerate(names)
    )
    size = f'width="{columns * width}" height="{(len(names) + columns - 1) // columns * step + 4}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="Colours of the causes" {size}>'
        f'<rect width="100%" height="100%" fill="{PAPER}"/>'
        f'<g font-family="sans-serif" font-size="11" fill="{INK}">{items}</g></svg>\n'
    )


def bandwidth_areas(records: LogColumns, width: float) -> Iterator[str]:
    """Yield the areas of writes stacked on reads, the larger area first."""
    series = bandwidth_of(records, _BINS)
    edges_ps = series.edges_ps
    at = (edges_ps - edges_ps[0]) / (edges_ps[-1] - edges_ps[0]) * width
    for rates, colour in ((series.read + series.write, WRITE), (series.read, READ)):
        heights = CURVE_PX * (1 - np.minimum(rates / series.peak, 1))
        points = "".join(f"H{x:.1f}V{y:.1f}" for x, y in zip(at[:-1], heights, strict=True))
        yield f'<path d="M0 {CURVE_PX}{points}H{at[-1]:.1f}V{CURVE_PX}Z" fill="{colour}"/>'


def share_bar(metrics: Metrics, longest_ps: int, width: int = 160, height: int = 12) -> str:
    """Render the causes of a run's time as an SVG bar; its length is proportional to the share of `longest_ps`."""
    if not metrics.core_time_ps or not longest_ps:
        return ""
    shares = (f"{CAUSES[name]} {percent(share)}" for name, share in _shares(metrics))
    label = escape(f"where the time went: {', '.join(shares)}")
    pieces = "".join(_pieces(metrics, width * metrics.time_ps / longest_ps, height))
    return (
        f'<svg role="img" aria-label="{label}" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f"{pieces}</svg>"
    )


def _shares(metrics: Metrics) -> list[tuple[str, float]]:
    return [(name, spent / metrics.core_time_ps) for name, spent in metrics.where_time_went.items() if spent]


def _pieces(metrics: Metrics, width: float, height: int) -> Iterator[str]:
    x = 0.0
    for name, share in _shares(metrics):
        words = escape(f"{CAUSES[name]} {percent(share)}")
        yield (
            f'<rect x="{x:.1f}" y="0" width="{width * share:.1f}" height="{height}" fill="{CAUSE_COLOURS[name]}">'
            f"<title>{words}</title></rect>"
        )
        x += width * share


def swatches(names: Iterable[str]) -> str:
    """Render the legend of the causes."""
    items = "".join(
        f'<span style="white-space:nowrap;margin-right:14px"><span style="display:inline-block;width:11px;height:11px;'
        f'border:1px solid #666;background:{CAUSE_COLOURS[name]};margin-right:5px"></span>'
        f"{escape(CAUSES[name])}</span> "
        for name in names
    )
    return f'<div style="font-size:12px;margin:2px 0 8px">{items}</div>'

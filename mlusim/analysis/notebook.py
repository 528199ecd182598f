"""Results in a notebook: key figures and two small charts, as HTML and SVG without scripts."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mlusim.analysis.bandwidth import bus_bytes_over_time
from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.spans import bin_edges
from mlusim.analysis.style import BLACK, CAUSE_COLOURS, INK, PAPER, READ, WRITE, time_unit
from mlusim.analysis.summary import percent, us_text
from mlusim.units import PS_PER_S, format_bytes

if TYPE_CHECKING:
    from mlusim.analysis.metrics import Metrics
    from mlusim.results.result import Result
    from mlusim.verifier.report import Report

_WIDTH, _BAR, _CURVE, _BINS = 640, 18, 70, 160
# Margins of a small picture, and the maximum number of time ticks.
_LEFT, _RIGHT, _TOP, _TICKS, _MAX_TICKS = 72, 16, 8, 20, 6
# Characters of a cell that are not broken into lines.
_MOST_UNBROKEN = 32
# Notebooks may have a dark theme; these charts do not adapt to it.
_BOX = f"background:{PAPER};color:{INK};padding:8px 12px;max-width:680px;font:13px/1.45 system-ui,sans-serif"
_CELL = "padding:1px 12px 1px 0;text-align:left;background:none;color:" + INK


def result_html(result: Result) -> str:
    """Render a run for a notebook."""
    metrics, bound, board = result.metrics, result.lower_bound, result.board
    bus, compulsory = sum(metrics.bus_bytes.values()), sum(metrics.compulsory_bytes.values())
    facts = [
        ("time", f"{us_text(metrics.time_ps)}, by the model ({result.known.text})"),
        (
            "lower bound",
            us_text(bound.time_ps)
            + (f", the run takes {result.time_ps / bound.time_ps:.3g} x" if bound.time_ps else ""),
        ),
        ("io_efficiency", f"{percent(metrics.io_efficiency)}; {metrics.verdict}"),
        ("DRAM bus", format_bytes(bus) + (f", {bus / compulsory:.2f} x the compulsory bytes" if compulsory else "")),
        ("peak NRAM", format_bytes(metrics.peak_nram_bytes)),
    ]
    if result.plan is not None:
        plan = result.plan
        facts.insert(0, ("split", f"strategy {plan.strategy}, tier {plan.tier}; {plan.tasks} tasks"))
    if result.stopped:
        facts.insert(0, ("stopped", result.stopped))
    if result.output is not None:
        facts.append(("output", f"{result.output.dtype} {list(result.output.shape)}"))
    body = _table(facts)
    if metrics.time_ps:
        names = [name for name, total in metrics.where_time_went.items() if total]
        body += (
            f"<div>where the time went, per core on average</div>{share_bar(metrics, metrics.time_ps, _WIDTH, _BAR)}"
        )
        body += swatches(names) + _bandwidth(LogColumns(result.log, board), result.operator)
    return _box(f"{result.operator} on {board.name}", body)


def small_picture(result: Result, longest_ps: int, width: int = 420) -> str:
    """Render a run as a standalone SVG: DRAM bandwidth in GB/s under the board's peak, above the time by cause.

    The width is proportional to the run's share of `longest_ps`. The output is reproducible.
    """
    metrics, records = result.metrics, LogColumns(result.log, result.board)
    name = f"{result.operator} on {result.board.name}"
    label = _esc(f"{name}: DRAM bandwidth over {us_text(metrics.time_ps)}, and where the time went")
    body = f'<text x="0" y="20" font-family="sans-serif" font-size="13" fill="{INK}">nothing ran: no byte moved</text>'
    if metrics.time_ps:
        part = (width - _LEFT - _RIGHT) * metrics.time_ps / longest_ps
        peak = f'<path d="M0 0H{part:.1f}" stroke="{BLACK}" stroke-width="1.5"/>'
        areas = "".join(_bandwidth_areas(records, part))
        body = f'<g transform="translate({_LEFT} {_TOP})">{areas}{peak}{_axes(result, longest_ps, part)}</g>'
        body += (
            f'<g transform="translate({_LEFT} {_TOP + _CURVE + _TICKS})">{"".join(_pieces(metrics, part, _BAR))}</g>'
        )
    height = _TOP + _CURVE + _TICKS + _BAR + 2
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
    parts = [f'<text x="-6" y="4">{peak:.4g} GB/s</text>', f'<text x="-6" y="{_CURVE}">0</text>']
    ticks = []
    for number in range(int(result.time_ps / scale / step) + 1):
        at = width * number * step * scale / result.time_ps
        ticks.append(f'<path d="M{at:.1f} {_CURVE}v3" stroke="{INK}"/>')
        ticks.append(
            f'<text x="{at:.1f}" y="{_CURVE + 13}">{number * step:.4g}{f" {unit}" if not number else ""}</text>'
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
        f'y="{index // columns * step + 13}">{_esc(text)}</text>'
        for index, (colour, text) in enumerate(names)
    )
    size = f'width="{columns * width}" height="{(len(names) + columns - 1) // columns * step + 4}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="Colours of the causes" {size}>'
        f'<rect width="100%" height="100%" fill="{PAPER}"/>'
        f'<g font-family="sans-serif" font-size="11" fill="{INK}">{items}</g></svg>\n'
    )


def report_html(report: Report) -> str:
    """Render a verification report for a notebook, as text."""
    colour = "#00664a" if report.ok else "#b00020"
    style = f"{_BOX};max-width:none;border-left:4px solid {colour};white-space:pre-wrap;font-family:monospace"
    return f'<pre style="{style}">{_esc(report.text())}</pre>'


def table_html(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """Render a table for a notebook, with a note below it."""
    look = f"{_CELL};font-variant-numeric:tabular-nums"

    def line(tag: str, texts: Iterable[str]) -> str:
        cells = (
            f'<{tag} style="{look}{"" if len(text) > _MOST_UNBROKEN else ";white-space:nowrap"}">{_esc(text)}</{tag}>'
            for text in texts
        )
        return f"<tr>{''.join(cells)}</tr>"

    lines = "".join(line("td", row) for row in rows)
    below = f"<div>{_esc(note)}</div>" if note else ""
    return _box(
        title, f'<div style="overflow-x:auto"><table>{line("th", heads)}{lines}</table></div>{below}', "max-width:none"
    )


def share_bar(metrics: Metrics, longest_ps: int, width: int = 160, height: int = 12) -> str:
    """Render the causes of a run's time as an SVG bar; its length is proportional to the share of `longest_ps`."""
    if not metrics.core_time_ps or not longest_ps:
        return ""
    shares = (f"{CAUSES[name]} {percent(share)}" for name, share in _shares(metrics))
    label = _esc(f"where the time went: {', '.join(shares)}")
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
        words = _esc(f"{CAUSES[name]} {percent(share)}")
        yield (
            f'<rect x="{x:.1f}" y="0" width="{width * share:.1f}" height="{height}" fill="{CAUSE_COLOURS[name]}">'
            f"<title>{words}</title></rect>"
        )
        x += width * share


def swatches(names: Iterable[str]) -> str:
    """Render the legend of the causes."""
    items = "".join(
        f'<span style="white-space:nowrap;margin-right:14px"><span style="display:inline-block;width:11px;height:11px;'
        f'border:1px solid #666;background:{CAUSE_COLOURS[name]};margin-right:5px"></span>{_esc(CAUSES[name])}</span> '
        for name in names
    )
    return f'<div style="font-size:12px;margin:2px 0 8px">{items}</div>'


def _bandwidth(records: LogColumns, name: str) -> str:
    """Render bus bandwidth over time, under the board's peak."""
    peak = records.board.dram_bandwidth_bytes_per_s
    label = f"DRAM bandwidth of {name} over time, of a peak of {peak / 1e9:g} GB/s"
    return (
        f"<div>DRAM bandwidth over {us_text(records.time_ps)}: read dark, write above it; the line is the peak, "
        f"{peak / 1e9:g} GB/s</div>"
        f'<svg role="img" aria-label="{_esc(label)}" width="{_WIDTH}" height="{_CURVE + 2}" '
        f'viewBox="0 -2 {_WIDTH} {_CURVE + 2}" style="max-width:100%">{"".join(_bandwidth_areas(records, _WIDTH))}'
        f'<path d="M0 0H{_WIDTH}" stroke="{BLACK}" stroke-width="1.5"/></svg>'
    )


def _bandwidth_areas(records: LogColumns, width: float) -> Iterator[str]:
    """Yield the areas of writes stacked on reads, the larger area first."""
    edges = bin_edges(records.start_of_run_ps, records.end_of_run_ps, _BINS)
    read, write = bus_bytes_over_time(records, edges)
    peak = np.diff(edges) / PS_PER_S * records.board.dram_bandwidth_bytes_per_s
    at = (edges - edges[0]) / (edges[-1] - edges[0]) * width
    for nbytes, colour in ((read + write, WRITE), (read, READ)):
        yield _steps(at, nbytes / peak, colour)


def _steps(at: object, rate: object, colour: str) -> str:
    points = "".join(
        f"H{x:.1f}V{_CURVE * (1 - min(y, 1)):.1f}" for x, y in zip(np.asarray(at)[:-1], np.asarray(rate), strict=True)
    )
    return f'<path d="M0 {_CURVE}{points}H{np.asarray(at)[-1]:.1f}V{_CURVE}Z" fill="{colour}"/>'


def _table(facts: Iterable[tuple[str, str]]) -> str:
    rows = "".join(
        f'<tr style="background:none"><th style="{_CELL};font-weight:600;vertical-align:top">{_esc(name)}</th>'
        f'<td style="{_CELL}">{_esc(value)}</td></tr>'
        for name, value in facts
    )
    return f'<table style="border-collapse:collapse;margin:4px 0 8px;font-size:13px">{rows}</table>'


def _box(title: str, body: str, style: str = "") -> str:
    return f'<div style="{_BOX};{style}"><strong style="font-size:15px">{_esc(title)}</strong>{body}</div>'


def _esc(text: object) -> str:
    return html.escape(str(text), quote=True)

"""Results in a notebook: key figures and two small pictures, as HTML without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.small_pictures import CURVE_PX, bandwidth_areas, share_bar, swatches
from mlusim.analysis.style import BLACK, INK, PAPER
from mlusim.analysis.summary import figures, split_rows
from mlusim.units import GIGA, format_us

if TYPE_CHECKING:
    from mlusim.results.result import Result
    from mlusim.verifier.report import Report

_WIDTH, _BAR = 640, 18
# Rows of the summary.
_SHOWN = ("time", "known error", "lower bound", "DRAM bus, read", "DRAM bus, write", "io_efficiency", "strategy")
# Characters of a cell that are not broken into lines.
_MOST_UNBROKEN = 32
# Notebooks may have a dark theme; these charts do not adapt to it.
_BOX = f"background:{PAPER};color:{INK};padding:8px 12px;max-width:680px;font:13px/1.45 system-ui,sans-serif"
_CELL = "padding:1px 12px 1px 0;text-align:left;background:none;color:" + INK


def result_html(result: Result) -> str:
    """Render a run for a notebook."""
    metrics, board = result.metrics, result.board
    facts = [("stopped", result.stopped)] if result.stopped else []
    rows = [row for row in (*figures(result), *split_rows(result)) if row.label in _SHOWN]
    facts += [(row.label, "; ".join(filter(None, (row.value, row.note)))) for row in rows]
    outputs = result.outputs or ({} if result.output is None else {"output": result.output})
    for name, array in outputs.items():
        facts.append((name if len(outputs) > 1 else "output", f"{array.dtype} {list(array.shape)}"))
    body = _table(facts)
    if metrics.time_ps:
        body += (
            f"<div>where the time went, per core on average</div>{share_bar(metrics, metrics.time_ps, _WIDTH, _BAR)}"
        )
        body += swatches([metrics]) + _bandwidth(LogColumns(result.log, board), result.operator)
    return _box(f"{result.operator} on {board.name}", body)


def report_html(report: Report) -> str:
    """Render a verification report for a notebook, as text."""
    colour = "#00664a" if report.ok else "#b00020"
    style = f"{_BOX};max-width:none;border-left:4px solid {colour};white-space:pre-wrap;font-family:monospace"
    return f'<pre style="{style}">{escape(report.text())}</pre>'


def table_html(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """Render a table for a notebook, with a note below it."""
    style = f"{_CELL};font-variant-numeric:tabular-nums"

    def line(tag: str, texts: Iterable[str]) -> str:
        cells = (
            f'<{tag} style="{style}{"" if len(text) > _MOST_UNBROKEN else ";white-space:nowrap"}">'
            f"{escape(text)}</{tag}>"
            for text in texts
        )
        return f"<tr>{''.join(cells)}</tr>"

    lines = "".join(line("td", row) for row in rows)
    note_html = f"<div>{escape(note)}</div>" if note else ""
    return _box(
        title,
        f'<div style="overflow-x:auto"><table>{line("th", heads)}{lines}</table></div>{note_html}',
        "max-width:none",
    )


def _bandwidth(records: LogColumns, name: str) -> str:
    """Render bus bandwidth over time, under the board's peak."""
    peak = records.board.dram_bandwidth_bytes_per_s
    label = f"DRAM bandwidth of {name} over time, of a peak of {peak / GIGA:g} GB/s"
    return (
        f"<div>DRAM bandwidth over {format_us(records.time_ps)}: read dark, write above it; the line is the peak, "
        f"{peak / GIGA:g} GB/s</div>"
        f'<svg role="img" aria-label="{escape(label)}" width="{_WIDTH}" height="{CURVE_PX + 2}" '
        f'viewBox="0 -2 {_WIDTH} {CURVE_PX + 2}" style="max-width:100%">{"".join(bandwidth_areas(records, _WIDTH))}'
        f'<path d="M0 0H{_WIDTH}" stroke="{BLACK}" stroke-width="1.5"/></svg>'
    )


def _table(facts: Iterable[tuple[str, str]]) -> str:
    rows = "".join(
        f'<tr style="background:none"><th style="{_CELL};font-weight:600;vertical-align:top">{escape(name)}</th>'
        f'<td style="{_CELL}">{escape(value)}</td></tr>'
        for name, value in facts
    )
    return f'<table style="border-collapse:collapse;margin:4px 0 8px;font-size:13px">{rows}</table>'


def _box(title: str, body: str, style: str = "") -> str:
    return f'<div style="{_BOX};{style}"><strong style="font-size:15px">{escape(title)}</strong>{body}</div>'

"""Elements of a page: its head, escaped text, tables, the legend of the causes, annotated source, findings."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from textwrap import dedent
from typing import TYPE_CHECKING

from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.page.embed import asset
from mlusim.analysis.page.source import SourceBlock
from mlusim.analysis.page.tensors import TensorTraffic
from mlusim.analysis.style import CAUSE_COLOURS
from mlusim.analysis.summary import percent
from mlusim.units import group_digits

if TYPE_CHECKING:
    from mlusim.verifier.report import Report

_MIN_NAMED_SHARE = 0.001


def esc(text: object) -> str:
    """Escape text for HTML, also within a quoted attribute."""
    return html.escape(str(text), quote=True)


def head(title: str) -> str:
    """Return the beginning of a document, up to its body, with the styles."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta name="generator" content="mlusim">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{esc(title)} - mlusim</title>
<link rel="icon" href="data:,">
<style>
{asset("page.css")}</style>
</head>
"""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    """Return a table of cells that are already HTML; `numbers` are numeric columns, the first column is a heading."""
    right = set(numbers)
    kind = [' class="number"' if index in right else "" for index in range(len(heads))]
    named = any(heads)
    top = "".join(f'<th scope="col"{look}>{esc(name)}</th>' for look, name in zip(kind, heads, strict=True))
    lines = [
        f'<tr><th scope="row">{first}</th>'
        + "".join(f"<td{look}>{cell}</td>" for look, cell in zip(kind[1:], rest, strict=True))
        + "</tr>"
        for first, *rest in rows
    ]
    first_row = f"<thead><tr>{top}</tr></thead>" if named else ""
    return f'<div class="wide"><table>{first_row}<tbody>{"".join(lines)}</tbody></table></div>'


def legend(names: Sequence[str]) -> str:
    """Return the colours of the causes."""
    items = "".join(f'<li><i style="background:{CAUSE_COLOURS[name]}"></i>{esc(CAUSES[name])}</li>' for name in names)
    return f'<ul class="legend" aria-label="Colours of the causes">{items}</ul>'


def tensor_row(tensor: TensorTraffic) -> list[str]:
    """Return the cells of a tensor: bytes, and the ratio to the compulsory bytes."""
    bus = tensor.bus_read_bytes + tensor.bus_write_bytes
    shape = f"{tensor.dtype} {list(tensor.shape)}, {'input' if tensor.is_input else 'output'}" if tensor.dtype else ""
    ratio = f"{bus / tensor.compulsory_bytes:.2f} x" if tensor.compulsory_bytes else ""
    amounts = (
        tensor.compulsory_bytes,
        tensor.read_bytes,
        tensor.written_bytes,
        tensor.bus_read_bytes,
        tensor.bus_write_bytes,
    )
    about = f"<br><small>{esc(shape)}</small>" if shape else ""
    return [f"{esc(tensor.name)}{about}", *map(group_digits, amounts), ratio]


def source_table(block: SourceBlock, total_ps: int, most_ps: int) -> str:
    """Return a function with the cost of each line, of `total_ps` core-picoseconds; the largest is `most_ps`."""
    texts = dedent("\n".join(line.text for line in block.lines)).split("\n")
    names = list(CAUSES)
    rows = []
    for line, code in zip(block.lines, texts, strict=True):
        spent = line.spent_ps.tolist()
        share = sum(spent) / total_ps
        pieces = "".join(
            f'<i style="background:{CAUSE_COLOURS[name]};width:{100 * part / most_ps:.1f}%"></i>'
            for name, part in zip(names, spent, strict=True)
            if part
        )
        causes = "; ".join(
            f"{CAUSES[name]} {percent(part / total_ps)}"
            for name, part in zip(names, spent, strict=True)
            if part > _MIN_NAMED_SHARE * total_ps
        )
        bar = f'<span class="bar" title="{esc(causes)}">{pieces}</span>' if share else ""
        silent = "" if line.times else ' class="silent"'
        cells = (
            percent(share) if share else "",
            group_digits(line.times) if line.times else "",
            group_digits(line.requested_bytes) if line.requested_bytes else "",
            group_digits(line.bus_bytes) if line.bus_bytes else "",
        )
        numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
        rows.append(
            f'<tr{silent}><td class="number">{line.number}</td><td>{bar}</td>{numbers}'
            f'<td class="code">{esc(code)}</td></tr>'
        )
    heads = "".join(
        f'<th scope="col"{look}>{head}</th>'
        for head, look in (
            ("line", ' class="number"'),
            ("time by cause", ""),
            ("share", ' class="number"'),
            ("times", ' class="number"'),
            ("requested B", ' class="number"'),
            ("bus B", ' class="number"'),
            ("source" if block.known else "source not available", ""),
        )
    )
    return (
        f"<h3>{esc(block.function)} <small>({esc(block.file)})</small></h3>"
        f'<div class="wide"><table class="source"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody>'
        "</table></div>"
    )


def verification(report: Report | None) -> str:
    """Return the findings of the verification, and the split proof."""
    if report is None:
        return (
            "<p>This run was not checked. <code>--check</code>, or <code>check=True</code>, proves the split and looks "
            "for races and for bytes that are read before they are written.</p>"
        )
    verdict, *_ = report.text(hints=False).split("\n")
    good = "good" if report.ok else "bad"
    parts = [f'<p class="{good}">{esc(verdict)}</p>']
    for finding in report.findings:
        look = "finding" if finding.severity == "error" else "hint"
        parts.append(f'<pre class="{look}">{esc(finding.text())}</pre>')
    _, _, proof = report.text(hints=False).partition("split proof")
    if proof:
        parts.append(f"<h3>Split proof</h3><pre>{esc('split proof' + proof)}</pre>")
    return "\n".join(parts)

"""Elements of all pages: the head, escaped text, tables, the legend of the causes."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.page.embed import asset
from mlusim.analysis.style import CAUSE_COLOURS

_WITHIN_NUMBERS = re.compile(r"(?<=\d) (?=\d{3}\b|%)")


def esc(text: object) -> str:
    """Escape text for HTML, also within a quoted attribute; numbers are not broken before their digits or `%`."""
    return _WITHIN_NUMBERS.sub("\N{NO-BREAK SPACE}", html.escape(str(text), quote=True))


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
    """Return a table of cells that are already HTML; `numbers` are numeric columns, the first column is a heading.

    Without the text of any head, it is a list of terms, which is stacked in a narrow window.
    """
    number_columns = set(numbers)
    kind = [' class="number"' if index in number_columns else "" for index in range(len(heads))]
    top = "".join(f'<th scope="col"{attribute}>{esc(name)}</th>' for attribute, name in zip(kind, heads, strict=True))
    lines = [
        f'<tr><th scope="row">{first}</th>'
        + "".join(f"<td{attribute}>{cell}</td>" for attribute, cell in zip(kind[1:], cells, strict=True))
        + "</tr>"
        for first, *cells in rows
    ]
    start = f"<table><thead><tr>{top}</tr></thead>" if any(heads) else '<table class="terms">'
    return f'<div class="wide">{start}<tbody>{"".join(lines)}</tbody></table></div>'


def legend(names: Sequence[str]) -> str:
    """Return the colours of the causes."""
    items = "".join(f'<li><i style="background:{CAUSE_COLOURS[name]}"></i>{esc(CAUSES[name])}</li>' for name in names)
    return f'<ul class="legend" aria-label="Colours of the causes">{items}</ul>'

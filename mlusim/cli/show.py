"""Console output: tables by rich, colour on a terminal only, JSON for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from mlusim.analysis.table import Row
    from mlusim.results.result import Result

# A list of numbers only, over several lines. No string of JSON has a line's end in it.
_NUMBERS = re.compile(r"\[\n[\s\d.,eE+-]+\]")
# Where there is no terminal to ask for its width: a file, a pipe.
_WIDTH = 120


def console() -> Console:
    """Standard output, plain and of one width where it is no terminal."""
    from rich.console import Console

    found = Console(highlight=False, markup=False, emoji=False)
    if not found.is_terminal:
        found.width = _WIDTH
    return found


def print_text(text: str) -> None:
    """Lines as they are."""
    click.echo(text)


def print_json(value: Any) -> None:
    """A value as JSON: numbers as they are, no NaN; a list of numbers in one line."""
    text = json.dumps(value, indent=2, allow_nan=False)
    click.echo(_NUMBERS.sub(lambda found: " ".join(found[0].split()).replace("[ ", "[").replace(" ]", "]"), text))


def print_summary(result: Result, rows: Iterable[Row]) -> None:
    """The summary of a run, with the verdict in colour."""
    from rich.text import Text

    from mlusim.analysis.metrics import ANY_SHAPE_BAR, NETWORK_BAR

    metrics = result.metrics
    judged = "green" if metrics.io_efficiency >= NETWORK_BAR else "yellow"
    if metrics.io_efficiency < ANY_SHAPE_BAR:
        judged = "red"
    table = _table()
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True, justify="right")
    table.add_column()
    for row in rows:
        style = judged if row.label == "io_efficiency" else ""
        table.add_row(Text(row.label), Text(row.value, style), Text(row.note, style))
    _print(table)


def print_columns(heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> None:
    """A table with heads; `right` are the columns of numbers."""
    from rich.text import Text

    table = _table()
    table.show_header = True
    numbers = set(right)
    for position, head in enumerate(heads):
        last = position == len(heads) - 1
        justify: Any = "right" if position in numbers else "left"
        table.add_column(Text(head), no_wrap=not last, justify=justify, header_style="bold")
    for row in rows:
        table.add_row(*map(Text, row))
    _print(table)


def _table() -> Table:
    from rich.table import Table

    return Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))


def _print(table: Table) -> None:
    """Without the blanks that fill up each line: a file has no use for them."""
    target = console()
    if target.is_terminal:
        target.print(table)
        return
    with target.capture() as captured:
        target.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))

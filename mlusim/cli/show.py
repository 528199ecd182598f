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
_GAP = 2  # blanks between columns
_LEAST_TEXT = 30  # a column of text is never narrower


def console() -> Console:
    """Standard output, plain and of one width where it is not a terminal."""
    from rich.console import Console

    found = Console(highlight=False, markup=False, emoji=False)
    if not found.is_terminal:
        found.width = _WIDTH
    return found


def print_exact(text: str) -> None:
    """Lines as they are: commands and paths, which are copied."""
    click.echo(text)


def print_text(text: str) -> None:
    """Lines; on a terminal, those that are wider than it go on below, indented further than they begin."""
    target = console()
    lines = text.split("\n")
    if target.is_terminal:
        lines = [fitted(line, target.width) for line in lines]
    click.echo("\n".join(lines))


def fitted(line: str, width: int) -> str:
    """A line, wrapped at words where it is wider than that."""
    import textwrap

    if len(line) <= width:
        return line
    hang = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.fill(line, width, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False)


def print_wrapped(text: str) -> None:
    """A sentence or a list, wrapped at the terminal's width; the lines after the first are indented."""
    import textwrap

    click.echo(
        textwrap.fill(text, console().width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    )


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


def print_columns(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = (), keys: int = 1
) -> None:
    """A table with heads. One that is wider than the terminal is printed in several parts, below each other.

    Args:
        heads: of the columns.
        rows: texts; that of the last column may be long.
        right: the columns of numbers.
        keys: the number of columns at the left that identify a row; every part begins with them.
    """
    from rich.cells import cell_len
    from rich.text import Text

    lines = [tuple(row) for row in rows]
    numbers = set(right)
    widths = [max(map(cell_len, column)) for column in zip(heads, *lines, strict=True)]
    if widths and len(heads) - 1 not in numbers:
        widths[-1] = min(widths[-1], _LEAST_TEXT)  # the rest of it wraps
    for number, part in enumerate(parts_of(widths, keys, console().width)):
        table = _table()
        table.show_header = True
        for position in part:
            justify: Any = "right" if position in numbers else "left"
            last = position == len(heads) - 1
            table.add_column(Text(heads[position]), no_wrap=not last, justify=justify, header_style="bold")
        for line in lines:
            table.add_row(*(Text(line[position]) for position in part))
        if number:
            print_text("")
        _print(table)


def parts_of(widths: Sequence[int], keys: int, room: int) -> list[list[int]]:
    """The columns of each part of a table: those that fit in `room`, at least one beside the keys.

    Args:
        widths: of the columns.
        keys: columns at the left that each part has.
        room: columns of the terminal.
    """
    first = list(range(min(keys, len(widths))))
    found, taken = [[*first]], sum(widths[:keys]) + _GAP * len(first)
    left = room - taken
    for position in range(len(first), len(widths)):
        if widths[position] > left and len(found[-1]) > len(first):
            found.append([*first])
            left = room - taken
        found[-1].append(position)
        left -= widths[position] + _GAP
    return found


def _table() -> Table:
    from rich.table import Table

    return Table(box=None, show_header=False, pad_edge=False, padding=(0, _GAP, 0, 0))


def _print(table: Table) -> None:
    """Without the blanks that fill up each line: a file has no use for them."""
    target = console()
    if target.is_terminal:
        target.print(table)
        return
    with target.capture() as captured:
        target.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))

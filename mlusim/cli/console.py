"""Console output: tables by rich, colour only on a terminal, JSON for programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli import standard_output
from mlusim.cli.local_paths import without_local_folders
from mlusim.units import format_us, percent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from mlusim.analysis.summary import Row
    from mlusim.explore.suggestions import Suggestion
    from mlusim.results.result import Result
    from mlusim.verifier.report import Report

# A list of numbers over several lines. JSON strings contain no line breaks.
_NUMBERS = re.compile(r"\[\n[\s\d.,eE+-]+\]")
# Width if the output is not a terminal: a file, a pipe.
_WIDTH = 120
_GAP = 2  # blanks between columns
MIN_TEXT_WIDTH = 30  # minimum width of a column of text


def console() -> Console:
    """Return standard output, plain and with a fixed width if it is not a terminal."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDTH
    return console


def print_command(command: str) -> None:
    """A command line to paste; one that is wider than the terminal continues below, by the shell's own rule."""
    _print_pasted(re.split(r" (?=--)", command), mark=" \\")


def print_call(call: str) -> None:
    """A call of Python to paste; one that is wider than the terminal continues below, between two arguments."""
    _print_pasted(re.split(r"(?<=,) ", call), mark="")


def _print_pasted(parts: Sequence[str], *, mark: str) -> None:
    """Print parts in as few lines as fit; all lines but the last end with a mark."""
    width = console().width
    lines = [f"  {parts[0]}"]
    for number, part in enumerate(parts[1:], 2):
        available = width - (len(mark) if number < len(parts) else 0)
        if len(lines[-1]) + 1 + len(part) <= available:
            lines[-1] += f" {part}"
        else:
            lines[-1] += mark
            lines.append(f"      {part}")
    click.echo("\n".join(lines))


def print_text(text: str) -> None:
    """Print lines; on a terminal, wider lines continue below with a larger indent."""
    target = console()
    lines = text.split("\n")
    if target.is_terminal:
        lines = [wrap_line(line, target.width) for line in lines]
    click.echo("\n".join(lines))


def wrap_line(line: str, width: int) -> str:
    """Wrap a line at words if it is wider than `width`."""
    import textwrap

    if len(line) <= width:
        return line
    hang = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.fill(line, width, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False)


def print_errors(report: Report) -> None:
    """Print the errors of a report where nothing else is printed, with --quiet: they are why a command fails."""
    for finding in report.errors:
        click.echo(finding.text(), err=True)


def print_json(value: Any) -> None:
    """Print a value as JSON: exact numbers, no NaN; a list of numbers on one line; no folders of this machine."""
    import json

    standard_output.release()
    text = json.dumps(without_local_folders(value), indent=2, allow_nan=False)
    click.echo(_NUMBERS.sub(lambda match: " ".join(match[0].split()).replace("[ ", "[").replace(" ]", "]"), text))


def print_summary(result: Result, rows: Iterable[Row]) -> None:
    """Print the summary of a run, with the verdict in colour."""
    from rich.text import Text

    from mlusim.analysis.metrics import ANY_SHAPE_BAR, NETWORK_BAR

    metrics = result.metrics
    efficiency = metrics.io_efficiency
    if efficiency is None:
        judged = ""
    elif efficiency >= NETWORK_BAR:
        judged = "green"
    else:
        judged = "yellow" if efficiency >= ANY_SHAPE_BAR else "red"
    table = _table()
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True, justify="right")
    table.add_column()
    for row in rows:
        style = judged if row.label == "io_efficiency" else ""
        table.add_row(Text(row.label), Text(row.value, style), Text(row.note, style))
    _print(table)


def print_suggestions(title: str, suggestions: Sequence[Suggestion], result: Result) -> None:
    """Print what to try for a run."""
    if suggestions:
        print_text(f"\n{title}. Predictions, with one loss removed:")
    for suggestion in suggestions:
        saving = percent(1 - suggestion.time_ps / result.time_ps)
        print_text(
            f"  {format_us(suggestion.time_ps)} ({saving} less) if {suggestion.assumption}:\n      {suggestion.change}"
        )
    # The kernel of an operator is not the user's: its plan is chosen.
    if suggestions and result.plan is not None:
        print_text("  `mlusim tune` compares the operator's strategies and tiles.")


def print_columns(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Iterable[int] = (),
    keys: int = 1,
    cut: bool = False,
) -> None:
    """Print a table with headers. A table wider than the terminal is printed in several parts, one below another.

    Args:
        heads: headers of the columns.
        rows: texts; those of the last column may be long.
        right: the columns of numbers.
        keys: number of columns at the left that identify a row; they are repeated in every part.
        cut: end texts of the last column in "..." where the line is full, instead of wrapping them.
    """
    from rich.cells import cell_len
    from rich.text import Text

    lines = [tuple(row) for row in rows]
    numbers = set(right)
    if cut:
        used_width = sum(max(map(cell_len, column)) + _GAP for column in list(zip(heads, *lines, strict=True))[:-1])
        available = max(console().width - used_width, MIN_TEXT_WIDTH)
        lines = [
            (*line[:-1], line[-1] if len(line[-1]) <= available else f"{line[-1][: available - 3]}...")
            for line in lines
        ]
    widths = [max(map(cell_len, column)) for column in zip(heads, *lines, strict=True)]
    if widths and len(heads) - 1 not in numbers:
        widths[-1] = min(widths[-1], MIN_TEXT_WIDTH)  # longer text wraps
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


def parts_of(widths: Sequence[int], keys: int, width: int) -> list[list[int]]:
    """Return the columns of each part of a table: those that fit in `width`, at least one in addition to the keys.

    Args:
        widths: widths of the columns.
        keys: number of columns at the left that are in each part.
        width: columns of the terminal.
    """
    first = list(range(min(keys, len(widths))))
    parts, used = [[*first]], sum(widths[:keys]) + _GAP * len(first)
    available = width - used
    for position in range(len(first), len(widths)):
        if widths[position] > available and len(parts[-1]) > len(first):
            parts.append([*first])
            available = width - used
        parts[-1].append(position)
        available -= widths[position] + _GAP
    return parts


def _table() -> Table:
    from rich.table import Table

    return Table(box=None, show_header=False, pad_edge=False, padding=(0, _GAP, 0, 0))


def _print(table: Table) -> None:
    """Print without trailing blanks, which a file does not need."""
    target = console()
    if target.is_terminal:
        target.print(table)
        return
    with target.capture() as captured:
        target.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))

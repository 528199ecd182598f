"""The kernel's source with the cost of each line: time by cause, bytes requested, bytes on the bus."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from textwrap import dedent
from typing import NamedTuple

import numpy as np

from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.by_line import LineTime
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.log_parts import parts_of
from mlusim.analysis.page.parts import esc
from mlusim.analysis.style import CAUSE_COLOURS
from mlusim.arrays import Integers
from mlusim.source_code import source_name, syntax_tree
from mlusim.units import group_digits, percent

# Longer functions show only the lines with figures.
_MAX_LINES = 400
_MIN_NAMED_SHARE = 0.001
_NUMBER = ' class="number"'


class LineFigures(NamedTuple):
    """What the log has for one line.

    Attributes:
        spent_ps: core-picoseconds by cause.
        operations: how often its operations were executed.
        requested_bytes, bus_bytes: bytes of its operands, and bytes that they moved on the DRAM bus.
    """

    spent_ps: Integers
    operations: int
    requested_bytes: int
    bus_bytes: int

    def plus(self, other: LineFigures) -> LineFigures:
        """Return the sums of the figures of two lines."""
        return LineFigures(
            self.spent_ps + other.spent_ps,
            self.operations + other.operations,
            self.requested_bytes + other.requested_bytes,
            self.bus_bytes + other.bus_bytes,
        )


_NOTHING = LineFigures(np.zeros(len(CAUSES), np.int64), 0, 0, 0)


class SourceLine(NamedTuple):
    """One line of a source file; all figures are 0 if nothing is logged for it."""

    number: int
    text: str
    figures: LineFigures


class SourceBlock(NamedTuple):
    """A function with lines in the log; lines have no text if the source is not available."""

    file: str
    function: str
    has_source: bool
    lines: list[SourceLine]

    @property
    def spent_ps(self) -> int:
        """Core-picoseconds of all its lines."""
        return int(sum(int(line.figures.spent_ps.sum()) for line in self.lines))


def source_blocks(records: LogColumns, lines: Sequence[LineTime], sources: Mapping[str, str]) -> list[SourceBlock]:
    """Return the functions in the log, the most expensive first."""
    log = records.log
    spent = {(line.file, line.line, line.function): line.spent_ps for line in lines if line.line}
    count = len(log.lines)
    sums = np.zeros((count, 3), np.int64)
    for part in parts_of(records):
        bus = part.bus_read_bytes + part.bus_write_bytes
        has_line = part.line >= 0
        for column, amount in enumerate((part.count, part.bytes_requested, bus)):
            np.add.at(sums[:, column], part.line[has_line], amount[has_line])
    figures: dict[str, dict[int, LineFigures]] = {}
    names: dict[str, dict[int, str]] = {}
    for location, amounts in zip(log.lines, sums.tolist(), strict=True):
        file, number, function = location
        by_line = figures.setdefault(file, {})
        of_function = LineFigures(spent.get(location, _NOTHING.spent_ps), *amounts)
        by_line[number] = by_line.get(number, _NOTHING).plus(of_function)
        names.setdefault(file, {})[number] = function
    blocks = []
    for file, by_line in figures.items():
        text = sources.get(file)
        for function, first, last in _logged_functions(text, names[file]):
            blocks.append(_block(file, function, (first, last), by_line, text))
    return sorted(blocks, key=lambda block: -block.spent_ps)


def _block(
    file: str,
    function: str,
    bounds: tuple[int, int],
    by_line: Mapping[int, LineFigures],
    text: str | None,
) -> SourceBlock:
    numbers: Sequence[int] = range(bounds[0], bounds[1] + 1)
    source = text.splitlines() if text is not None else []
    has_source = bounds[1] <= len(source)
    if not has_source or len(numbers) > _MAX_LINES:
        numbers = [number for number in numbers if number in by_line]
    lines = [
        SourceLine(number, source[number - 1] if has_source else "", by_line.get(number, _NOTHING))
        for number in numbers
    ]
    return SourceBlock(source_name(file), function, has_source, lines)


def _logged_functions(text: str | None, names: Mapping[int, str]) -> list[tuple[str, int, int]]:
    """Return the functions that contain the logged lines: name, first and last line; without source, from the log."""
    spans = _functions(text) if text is not None else []
    functions: dict[tuple[str, int, int], None] = {}
    without_text: dict[str, list[int]] = {}
    for number, function in sorted(names.items()):
        holders = [span for span in spans if span[1] <= number <= span[2]]
        if holders:
            # The outermost function, which shows nested ones in place.
            functions[min(holders, key=lambda span: span[1])] = None
        else:
            without_text.setdefault(function, []).append(number)
    return [*functions, *((function, min(lines), max(lines)) for function, lines in without_text.items())]


def _functions(text: str) -> list[tuple[str, int, int]]:
    try:
        tree = syntax_tree(text)
    except (SyntaxError, ValueError):
        return []
    return [
        (node.name, node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def source_table(block: SourceBlock, total_ps: int, most_ps: int) -> str:
    """Return a function with the cost of each line, of `total_ps` core-picoseconds; the largest is `most_ps`."""
    texts = dedent("\n".join(line.text for line in block.lines)).split("\n")
    rows = [_row(line, code, total_ps, most_ps) for line, code in zip(block.lines, texts, strict=True)]
    numbers = {"line", "share", "times", "requested B", "bus B"}
    source = "source" if block.has_source else "source not available"
    heads = "".join(
        f'<th scope="col"{_NUMBER if head in numbers else ""}>{head}</th>'
        for head in ("line", "time by cause", "share", "times", "requested B", "bus B", source)
    )
    return (
        f"<h3>{esc(block.function)} <small>({esc(block.file)})</small></h3>"
        f'<div class="wide"><table class="source"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody>'
        "</table></div>"
    )


def _row(line: SourceLine, code: str, total_ps: int, most_ps: int) -> str:
    """Return a line of the table; a line without operations has the class `silent`."""
    figures = line.figures
    spent = {name: part for name, part in zip(CAUSES, figures.spent_ps.tolist(), strict=True) if part}
    segments = "".join(
        f'<i style="background:{CAUSE_COLOURS[name]};width:{100 * part / most_ps:.1f}%"></i>'
        for name, part in spent.items()
    )
    causes = "; ".join(
        f"{CAUSES[name]} {percent(part / total_ps)}"
        for name, part in spent.items()
        if part > _MIN_NAMED_SHARE * total_ps
    )
    bar = f'<span class="bar" title="{esc(causes)}">{segments}</span>' if spent else ""
    share = percent(sum(spent.values()) / total_ps) if spent else ""
    amounts = (group_digits(amount) if amount else "" for amount in figures[1:])
    numbers = "".join(f"<td{_NUMBER}>{cell}</td>" for cell in (share, *amounts))
    silent = "" if figures.operations else ' class="silent"'
    return f'<tr{silent}><td{_NUMBER}>{line.number}</td><td>{bar}</td>{numbers}<td class="code">{esc(code)}</td></tr>'

"""Columns of the compiler's messages: the compiler counts them in the rewritten text, the user in the file."""

from __future__ import annotations

import re
from collections.abc import Callable

_LOCATION = re.compile(r"(?P<file>[^:\n]+):(?P<line>\d+):(?P<column>\d+):")
_MARKER = re.compile(r'# (\d+) "([^"]*)"')
# The lines below a quoted line, with marks and with what the compiler would insert.
_MARKS = re.compile(r" +\| ")
_TOKEN = re.compile(r"\w+|\S")


def with_own_columns(lines: list[str], text: str, lines_of: Callable[[str], list[str]]) -> list[str]:
    """Return messages with the columns of the user's lines, and marks below these.

    What is not in the user's line has no marks, and the column of the line's first word.

    Args:
        lines: the compiler's output.
        text: what it compiled.
        lines_of: returns the lines of a file.
    """
    compiled = _compiled_lines(text)
    result: list[str] = []
    shift: int | None = 0
    for line in lines:
        marks = _MARKS.match(line)
        location = _LOCATION.match(line)
        if marks is not None:
            if shift is not None:
                result.append(_shifted(line, marks.end(), shift))
            continue
        if location is None:
            result.append(line)
            continue
        file, number, column = location["file"], int(location["line"]), int(location["column"])
        user_lines = lines_of(file)
        user_line, rewritten = (
            user_lines[number - 1] if 0 < number <= len(user_lines) else "",
            compiled.get((file, number), ""),
        )
        own_column = _own_column(user_line, rewritten, column) if user_line and rewritten else column
        shift = None if own_column is None else own_column - column
        first = len(user_line) - len(user_line.lstrip()) + 1
        result.append(f"{file}:{number}:{first if own_column is None else own_column}:{line[location.end() :]}")
    return result


def _compiled_lines(text: str) -> dict[tuple[str, int], str]:
    """Return the lines of preprocessed text by file and number."""
    lines: dict[tuple[str, int], str] = {}
    file, number = "", 0
    for line in text.splitlines():
        if marker := _MARKER.match(line):
            file, number = marker[2], int(marker[1])
            continue
        lines.setdefault((file, number), line)
        number += 1
    return lines


def _own_column(user_line: str, rewritten: str, column: int) -> int | None:
    """Return the column in the user's line of the token that the rewritten one has at a column.

    Tokens are counted from the end of the line: insertions repeat those before them. None for what the user's has not.
    """
    if user_line.rstrip() == rewritten.rstrip():
        return column
    tokens = list(_TOKEN.finditer(rewritten))
    at = next((token for token in tokens if token.start() <= column - 1 < token.end()), None)
    if at is None:
        return None
    tokens_after = sum(token[0] == at[0] for token in tokens if token.start() >= at.start())
    same_tokens = [token for token in _TOKEN.finditer(user_line) if token[0] == at[0]]
    if tokens_after > len(same_tokens) != 1:
        return None
    return same_tokens[-min(tokens_after, len(same_tokens))].start() + column - at.start()


def _shifted(line: str, start: int, distance: int) -> str:
    """Return a line with what follows `start` moved to the right, or to the left over blanks."""
    marks = line[start:].rstrip()
    blanks = len(marks) - len(marks.lstrip())
    return line[:start] + " " * max(blanks + distance, 0) + marks.lstrip()

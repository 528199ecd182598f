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
    shown: list[str] = []
    shift: int | None = 0
    for line in lines:
        marks = _MARKS.match(line)
        location = _LOCATION.match(line)
        if marks is not None:
            if shift is not None:
                shown.append(_shifted(line, marks.end(), shift))
            continue
        if location is None:
            shown.append(line)
            continue
        file, number, column = location["file"], int(location["line"]), int(location["column"])
        own = lines_of(file)
        users, rewritten = own[number - 1] if 0 < number <= len(own) else "", compiled.get((file, number), "")
        found = _own_column(users, rewritten, column) if users and rewritten else column
        shift = None if found is None else found - column
        first = len(users) - len(users.lstrip()) + 1
        shown.append(f"{file}:{number}:{first if found is None else found}:{line[location.end() :]}")
    return shown


def _compiled_lines(text: str) -> dict[tuple[str, int], str]:
    """Return the lines of preprocessed text by file and number."""
    found: dict[tuple[str, int], str] = {}
    file, number = "", 0
    for line in text.splitlines():
        if marker := _MARKER.match(line):
            file, number = marker[2], int(marker[1])
            continue
        found.setdefault((file, number), line)
        number += 1
    return found


def _own_column(users: str, rewritten: str, column: int) -> int | None:
    """Return the column in the user's line of the token that the rewritten one has at a column.

    Tokens are counted from the end of the line: insertions repeat those before them. None for what the user's has not.
    """
    if users.rstrip() == rewritten.rstrip():
        return column
    tokens = list(_TOKEN.finditer(rewritten))
    at = next((token for token in tokens if token.start() <= column - 1 < token.end()), None)
    if at is None:
        return None
    after = sum(token[0] == at[0] for token in tokens if token.start() >= at.start())
    same = [token for token in _TOKEN.finditer(users) if token[0] == at[0]]
    if after > len(same) != 1:
        return None
    return same[-min(after, len(same))].start() + column - at.start()


def _shifted(line: str, start: int, by: int) -> str:
    """Return a line with what follows `start` moved to the right, or to the left over blanks."""
    marks = line[start:].rstrip()
    blanks = len(marks) - len(marks.lstrip())
    return line[:start] + " " * max(blanks + by, 0) + marks.lstrip()

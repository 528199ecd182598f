"""The loops of a source file, in Python or C++: where a sync could stand at the end of a loop body."""

from __future__ import annotations

import ast
import linecache
import re
from functools import lru_cache

Lines = tuple[int, int]

_NOT_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_LOOP = re.compile(r"\b(?:for|while|do)\b")
_ELSE = re.compile(r"\s*else\b")


def loop_around(file: str, first: int, last: int) -> int:
    """Return the first line of the innermost loop around both lines; 0 if there is none, or no source."""
    around = [loop for loop in _loops(file) if loop[0] <= first and last <= loop[1]]
    return max(around, default=(0, 0))[0]


@lru_cache(maxsize=64)
def _loops(file: str) -> tuple[Lines, ...]:
    """Return the first and the last line of every loop of a file."""
    text = "".join(linecache.getlines(file))
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return _loops_of_c(text)
    loops = (node for node in ast.walk(tree) if isinstance(node, ast.For | ast.AsyncFor | ast.While))
    return tuple((loop.lineno, loop.end_lineno or loop.lineno) for loop in loops)


def _loops_of_c(text: str) -> tuple[Lines, ...]:
    # Comments and strings become spaces; their lines stay.
    code = _NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
    loops = []
    for found in _LOOP.finditer(code):
        start = found.end() if found.group() == "do" else _behind_brackets(code, found.end())
        end = _end_of_statement(code, start)
        loops.append((code.count("\n", 0, found.start()) + 1, code.count("\n", 0, end) + 1))
    return tuple(loops)


def _behind_brackets(code: str, at: int) -> int:
    """Return the position behind the brackets that open next."""
    depth = 0
    for place in range(at, len(code)):
        depth += (code[place] == "(") - (code[place] == ")")
        if code[place] == ")" and depth <= 0:
            return place + 1
    return len(code)


def _end_of_statement(code: str, at: int) -> int:
    """Return the position of the last character of a statement: its semicolon, or the brace that closes it."""
    depth = 0
    for place in range(at, len(code)):
        letter = code[place]
        depth += (letter in "([{") - (letter in ")]}")
        closes = letter == "}" and not _ELSE.match(code, place + 1)
        if depth < 0 or (depth == 0 and (letter == ";" or closes)):
            return place
    return len(code)

"""The text of C++ source: comments, brackets, blocks and statements, by their positions."""

from __future__ import annotations

import re

_NOT_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
ELSE = re.compile(r"\s*else\b")
BRACE = re.compile(r"\s*\{")
_IN_BRACKETS = r"\((?:[^()]|\([^()]*\))*\)"
# What may stand between the parameters of a function and its body.
_BODY = re.compile(
    rf"\s*(?:(?:const|volatile|override|final|mutable|&&?|noexcept(?:\s*{_IN_BRACKETS})?)\s*)*"
    rf"(?:->(?:[^;{{}}=()]|{_IN_BRACKETS})*|:\s*(?!(?:if|for|while|switch)\b)\w[^;{{}}?]*\)\s*)?\{{"
)


def without_comments(text: str) -> str:
    """Return a text with spaces for its comments and strings; the lines stay."""
    return _NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def body_of(code: str, at: int) -> int:
    """Return the position of the brace that opens the body of a function, after its parameters; -1 if it has none."""
    match = _BODY.match(code, at)
    return match.end() - 1 if match else -1


def end_of_branch(code: str, at: int) -> int:
    """Return the position of the last character of the statement after the brackets of an `if`, before its `else`."""
    opening = BRACE.match(code, at)
    return end_of_block(code, opening.end() - 1) if opening else end_of_statement(code, at)


def end_of_block(code: str, at: int) -> int:
    """Return the position of the brace that closes the one at a position."""
    depth = 0
    for position in range(at, len(code)):
        depth += (code[position] == "{") - (code[position] == "}")
        if not depth:
            return position
    return len(code)


def after_brackets(code: str, at: int) -> int:
    """Return the position after the brackets that open next."""
    depth = 0
    for position in range(at, len(code)):
        depth += (code[position] == "(") - (code[position] == ")")
        if code[position] == ")" and depth <= 0:
            return position + 1
    return len(code)


def end_of_statement(code: str, at: int) -> int:
    """Return the position of the last character of a statement: its semicolon, or the brace that closes it."""
    depth = 0
    for position in range(at, len(code)):
        letter = code[position]
        depth += (letter in "([{") - (letter in ")]}")
        closes = letter == "}" and not ELSE.match(code, position + 1)
        if depth < 0 or (depth == 0 and (letter == ";" or closes)):
            return position
    return len(code)

"""The tokens of a preprocessed BANG C file, and the edits that are made to its text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_MARKER = re.compile(r'^# (\d+) "([^"]*)"([ \d]*)\n', re.MULTILINE)
_TOKEN = re.compile(
    r"""(?P<raw>(?:u8|[uUL])?R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)")
    |(?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
    |(?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
    |(?P<number>\.?\d(?:[eEpP][+-]|['\w.])*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<launch><<<)
    |(?P<directive>^[ \t]*\#[^\n]*)
    |(?P<blank>\s+)
    |(?P<other>::|->|.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_OPENING, _CLOSING = "([{", ")]}"
_ATTRIBUTES = ("__attribute__", "alignas", "__attribute", "__declspec")


@dataclass(slots=True)
class Token:
    """One token of the user's text: where it stands, and at which line of which file."""

    kind: str
    text: str
    start: int
    stop: int
    line: int
    file: str


@dataclass(slots=True)
class Source:
    """A preprocessed text, the tokens of the user's own files, and the edits so far."""

    text: str
    tokens: list[Token]
    edits: list[tuple[int, int, str]] = field(default_factory=list)

    def replace(self, first: int, last: int, new: str) -> None:
        """Put other text in place of the tokens from `first` to `last`; later lines stay where they were."""
        start, stop = self.tokens[first].start, self.tokens[last].stop
        missing = self.text[start:stop].count("\n") - new.count("\n")
        self.edits.append((start, stop, new + "\n" * missing))

    def insert(self, before: int, new: str) -> None:
        """Put text before a token."""
        self.edits.append((self.tokens[before].start, self.tokens[before].start, new))

    def edited(self) -> str:
        """The text with all edits made."""
        parts, position = [], 0
        for start, stop, new in sorted(self.edits, key=lambda edit: (edit[0], edit[1])):
            if start < position:
                continue
            parts += [self.text[position:start], new]
            position = stop
        parts.append(self.text[position:])
        return "".join(parts)

    def next_text(self, position: int) -> str:
        """The token after `position`, or an empty string."""
        return self.tokens[position + 1].text if position + 1 < len(self.tokens) else ""

    def matching(self, position: int) -> int:
        """The token that closes the bracket at `position`."""
        return matching(self.tokens, position)

    def opening(self, position: int) -> int:
        """The token that opens what the bracket at `position` closes, angle brackets too; -1 for none."""
        angle = self.tokens[position].text == ">"
        depth = 0
        for index in range(position, -1, -1):
            token = self.tokens[index]
            if token.kind != "other":
                continue
            if token.text in _CLOSING or (angle and token.text == ">"):
                depth += 1
            elif token.text in _OPENING or (angle and token.text == "<"):
                depth -= 1
                if depth == 0:
                    return index
            elif token.text == ";":
                return -1
        return -1

    def start_of_statement(self, position: int) -> int:
        """The first token of the statement, or of the parameter, that a token is in."""
        depth = 0
        index = position
        while index > 0:
            before = self.tokens[index - 1]
            if before.kind == "other":
                if before.text in ")]":
                    depth += 1
                elif before.text in "([":
                    if depth == 0:
                        return index
                    depth -= 1
                elif before.text in ";{}" and depth == 0:
                    return index
            index -= 1
        return 0

    def end_of_declaration(self, position: int) -> int:
        """The semicolon that ends a declaration; the number of tokens where a bracket around it closes first."""
        depth = 0
        for index in range(position, len(self.tokens)):
            token = self.tokens[index]
            if token.kind != "other":
                continue
            if token.text in _OPENING:
                depth += 1
            elif token.text in _CLOSING:
                depth -= 1
                if depth < 0:
                    break
            elif token.text == ";" and depth == 0:
                return index
        return len(self.tokens)


def source_of(text: str, own: tuple[str, ...]) -> Source:
    """The tokens of the user's files in the output of a preprocessor.

    Args:
        text: with line markers.
        own: folders whose headers are left as they are, beside the compiler's own.
    """
    found: list[Token] = []
    markers = list(_MARKER.finditer(text))
    # The marker that enters a file tells whose it is: later ones also tell whose macro stands there.
    users: dict[str, bool] = {}
    for marker in markers:
        users.setdefault(marker[2], " 3" not in marker[3])
    for index, marker in enumerate(markers):
        if not users[marker[2]] or marker[2].startswith((*own, "<")):
            continue
        start, stop = marker.end(), markers[index + 1].start() if index + 1 < len(markers) else len(text)
        line, file = int(marker[1]), marker[2]
        for match in _TOKEN.finditer(text, start, stop):
            kind = match.lastgroup or "other"
            kind = "raw" if kind == "tag" else kind
            if kind not in ("blank", "directive"):
                found.append(Token(kind, match[0], match.start(), match.end(), line, file))
            line += match[0].count("\n")
    return Source(text, found)


def matching(tokens: list[Token], position: int) -> int:
    """The token that closes the bracket at `position`; the last one where none does."""
    depth = 0
    for index in range(position, len(tokens)):
        if tokens[index].kind != "other":
            continue
        if tokens[index].text in _OPENING:
            depth += 1
        elif tokens[index].text in _CLOSING:
            depth -= 1
            if depth == 0:
                return index
    return len(tokens) - 1


def without_attributes(tokens: list[Token]) -> list[Token]:
    """The tokens without `__attribute__((...))` and `alignas(...)`."""
    found: list[Token] = []
    index = 0
    while index < len(tokens):
        if tokens[index].text in _ATTRIBUTES:
            index = matching(tokens, index + 1) + 1
            continue
        found.append(tokens[index])
        index += 1
    return found


def split_at_commas(tokens: list[Token]) -> list[list[Token]]:
    """What stands between the commas that are in no bracket."""
    parts: list[list[Token]] = [[]]
    depth = angle = 0
    for token in tokens:
        if token.kind == "other":
            depth += (token.text in _OPENING) - (token.text in _CLOSING)
            if not depth:
                angle = max(angle + (token.text == "<") - (token.text == ">"), 0)
        if token.text == "," and not depth and not angle:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def joined(tokens: Iterable[Token]) -> str:
    """Their text, with a blank where tokens did not touch: `<<` is two of them."""
    parts: list[str] = []
    before = -1
    for token in tokens:
        parts.append(token.text if token.start == before else f" {token.text}")
        before = token.stop
    return "".join(parts).lstrip()


def spaced(tokens: Iterable[Token]) -> str:
    """Their text, with a blank between any two."""
    return " ".join(token.text for token in tokens)


def quoted(text: str) -> str:
    """A string literal of C++."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

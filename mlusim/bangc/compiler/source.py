"""The tokens of a preprocessed BANG C file, and the edits of its text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mlusim.bangc.compiler.cache import INCLUDE, cache_folder

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
    |(?P<other>::|->|<=>|[=!<>]=|<<|.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_OPENING, _CLOSING = "([{", ")]}"
_ATTRIBUTES = ("__attribute__", "alignas", "__attribute", "__declspec")
CLASSES = frozenset(("class", "struct", "union", "enum"))
# Words that take brackets, and are not names of functions.
NOT_FUNCTION_NAMES = frozenset(
    (
        *(*_ATTRIBUTES, "__launch_bounds__", "decltype", "typeof", "__typeof__", "typeid", "noexcept", "explicit"),
        *("requires", "sizeof", "alignof", "operator", "__mlusim_func", "__mlusim_host", "__mlusim_entry"),
    )
)

# What follows an argument of a template that ends in braces, such as `Size{64}`.
_AFTER_BRACES = ([">"], [","])

# Kinds of blocks, and the name of `extern "C" {`, which opens no namespace.
NAMESPACE, CLASS, CODE = "namespace", "class", "code"
LINKAGE = '"C"'


@dataclass(slots=True)
class Token:
    """One token of the user's text, with its position, line and file."""

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
        """Replace the tokens from `first` to `last` by other text; later lines keep their numbers."""
        start, stop = self.tokens[first].start, self.tokens[last].stop
        missing = self.text[start:stop].count("\n") - new.count("\n")
        self.edits.append((start, stop, new + "\n" * missing))

    def insert(self, position: int, new: str) -> None:
        """Insert text before a token."""
        self.edits.append((self.tokens[position].start, self.tokens[position].start, new))

    def edited(self) -> str:
        """Return the text with all edits applied."""
        parts, position = [], 0
        for start, stop, new in sorted(self.edits, key=lambda edit: (edit[0], edit[1])):
            if start < position:
                continue
            parts += [self.text[position:start], new]
            position = stop
        parts.append(self.text[position:])
        return "".join(parts)

    def next_text(self, position: int) -> str:
        """Return the token after `position`, or an empty string."""
        return self.tokens[position + 1].text if position + 1 < len(self.tokens) else ""

    def matching(self, position: int) -> int:
        """Return the token that closes the bracket at `position`."""
        return matching(self.tokens, position)

    def opening(self, position: int) -> int:
        """Return the token that opens the bracket closed at `position`; -1 for none."""
        for index, text, depth in _brackets(self.tokens, range(position, -1, -1), _CLOSING, _OPENING):
            if text == ";":
                break
            if not depth and text in _OPENING:
                return index
        return -1

    def start_of_statement(self, position: int) -> int:
        """Return the first token of the statement or parameter that contains a token."""
        for index, text, depth in _brackets(self.tokens, range(position - 1, -1, -1), ")]", "(["):
            if depth < 0 or (not depth and text in ";{}"):
                return index + 1
        return 0

    def scope(self, position: int) -> tuple[str, str]:
        """Return what the brace at `position` opens: a namespace with its name, a class, or code."""
        tokens = without_attributes(self.tokens[self.start_of_statement(position) : position])
        texts = [token.text for token in tokens]
        if "namespace" in texts:
            return NAMESPACE, "".join(text for text in texts[texts.index("namespace") + 1 :] if text != "inline")
        if texts[:1] == ["extern"] and len(texts) == 2 and texts[1].startswith('"'):
            return NAMESPACE, LINKAGE
        kind = CODE
        for index in outside_brackets(tokens):
            if texts[index] in CLASSES:
                kind = CLASS
            elif texts[index] == ":" and kind == CLASS:
                break
            elif texts[index] == "=" or (texts[index] == "(" and texts[index - 1] not in NOT_FUNCTION_NAMES):
                return CODE, ""
        return kind, ""

    def parameters_of(self, position: int) -> int:
        """Return the bracket that opens the parameters of the function declared from `position` on; -1 for none."""
        # Such as `operator()`, and `f<float>` of a specialisation.
        any_name = [token.text for token in self.tokens[position : position + 3]] == ["template", "<", ">"]
        for index in outside_brackets(self.tokens, position):
            text, previous = self.tokens[index].text, self.tokens[index - 1]
            if text in ";{}" or (text == "=" and not any_name):
                break
            if text == "(" and previous.text not in NOT_FUNCTION_NAMES and (any_name or previous.kind == "word"):
                # In `float (*name)(float)`, no parameters follow the word.
                return -1 if self.next_text(index) in ("*", "&") else index
            any_name |= text == "operator"
        return -1

    def body_of(self, parameters: int) -> int:
        """Return the brace that opens the body of the function with these parameters; -1 for a declaration."""
        is_constructor = False
        for index in outside_brackets(self.tokens, self.matching(parameters) + 1):
            text, previous = self.tokens[index].text, self.tokens[index - 1]
            if text == "{" and not (is_constructor and (previous.kind == "word" or previous.text == ">")):
                return index
            if text in ";=}" or (text == "," and not is_constructor):
                break
            is_constructor |= text == ":"
        return -1

    def end_of_declaration(self, position: int) -> int:
        """Return the semicolon that ends a declaration; the number of tokens if an enclosing bracket closes first."""
        for index, text, depth in _brackets(self.tokens, range(position, len(self.tokens))):
            if depth < 0:
                break
            if not depth and text == ";":
                return index
        return len(self.tokens)


def source_of(text: str) -> Source:
    """Return the tokens of the user's files in the output of a preprocessor; blanks of any script become ASCII ones.

    Headers of the compiler and of this package are left unchanged.
    """
    tokens: list[Token] = []
    edits: list[tuple[int, int, str]] = []
    for start, stop, marker in _user_parts(text):
        line, file = int(marker[1]), marker[2]
        for match in _TOKEN.finditer(text, start, stop):
            kind = match.lastgroup or "other"
            kind = "raw" if kind == "tag" else kind
            if kind == "blank" and not match[0].isascii():
                edits.append((match.start(), match.end(), "".join(c if c.isascii() else " " for c in match[0])))
            if kind not in ("blank", "directive"):
                tokens.append(Token(kind, match[0], match.start(), match.end(), line, file))
            line += match[0].count("\n")
    return Source(text, tokens, edits)


def text_of_user(text: str) -> str:
    """Return the text of the user's files in the output of a preprocessor; it does not depend on our folders."""
    return "".join(text[start:stop] for start, stop, _ in _user_parts(text))


def _user_parts(text: str) -> Iterator[tuple[int, int, re.Match[str]]]:
    """Yield start and stop of each part of a text that is of the user's files, and the marker before it."""
    own_prefixes = (str(INCLUDE), str(cache_folder()), "<")
    markers = list(_MARKER.finditer(text))
    # The first marker of a file determines its owner: later ones also mark macros of other files.
    users: dict[str, bool] = {}
    for marker in markers:
        users.setdefault(marker[2], " 3" not in marker[3])
    for index, marker in enumerate(markers):
        if users[marker[2]] and not marker[2].startswith(own_prefixes):
            yield marker.end(), markers[index + 1].start() if index + 1 < len(markers) else len(text), marker


def matching(tokens: list[Token], position: int) -> int:
    """Return the token that closes the bracket at `position`; the last one if none does."""
    for index, text, depth in _brackets(tokens, range(position, len(tokens))):
        if not depth and text in _CLOSING:
            return index
    return len(tokens) - 1


def _brackets(
    tokens: list[Token], positions: Iterable[int], inward: str = _OPENING, outward: str = _CLOSING
) -> Iterator[tuple[int, str, int]]:
    """Yield the position and text of each punctuator, and how many brackets are open after it.

    Backwards, closing brackets lead inward, and opening ones outward.
    """
    depth = 0
    for position in positions:
        token = tokens[position]
        if token.kind == "other":
            depth += (token.text in inward) - (token.text in outward)
            yield position, token.text, depth


def without_attributes(tokens: list[Token]) -> list[Token]:
    """Return the tokens without `__attribute__((...))`, `alignas(...)` and `[[...]]`."""
    result: list[Token] = []
    index = 0
    while index < len(tokens):
        is_attribute = tokens[index].text in _ATTRIBUTES
        if is_attribute or [token.text for token in tokens[index : index + 2]] == ["[", "["]:
            index = matching(tokens, index + is_attribute) + 1
            continue
        result.append(tokens[index])
        index += 1
    return result


def split_at_commas(tokens: list[Token]) -> list[list[Token]]:
    """Split at commas outside brackets."""
    commas = [index for index in outside_brackets(tokens) if tokens[index].text == ","]
    starts, stops = [0, *(comma + 1 for comma in commas)], [*commas, len(tokens)]
    return [tokens[start:stop] for start, stop in zip(starts, stops, strict=True)]


def outside_brackets(tokens: list[Token], position: int = 0) -> Iterator[int]:
    """Yield the positions of tokens outside brackets and lists of template arguments, and of those that open them."""
    while position < len(tokens):
        yield position
        token = tokens[position]
        if token.kind == "other" and token.text in _OPENING:
            position = matching(tokens, position)
        elif token.text == "<" and position and tokens[position - 1].kind == "word":
            position = closing_angle(tokens, position)
        position += 1


def closing_angle(tokens: list[Token], position: int) -> int:
    """Return the `>` of the template's list that `<` opens after a name; `position` itself if it compares.

    In `A<n < 4>` no `>` is left for the first `<`: the list then ends at the last one.
    """
    if tokens[position - 1].text == "operator":
        return position
    depth, last, index = 0, position, position
    while index < len(tokens):
        token = tokens[index]
        if token.kind == "other":
            if token.text in ";)]}":
                break
            if token.text in _OPENING:
                close = matching(tokens, index)
                if (
                    token.text == "{"
                    and [next_token.text for next_token in tokens[close + 1 : close + 2]] not in _AFTER_BRACES
                ):
                    break
                index = close
            elif token.text == ">":
                depth, last = depth - 1, index
                if not depth:
                    break
            else:
                depth += token.text == "<" and tokens[index - 1].kind == "word"
        index += 1
    return last


def joined(tokens: Iterable[Token]) -> str:
    """Return their text, with a blank between tokens that were separate: `<<` is two tokens."""
    parts: list[str] = []
    previous_stop = -1
    for token in tokens:
        parts.append(token.text if token.start == previous_stop else f" {token.text}")
        previous_stop = token.stop
    return "".join(parts).lstrip()


def spaced(tokens: Iterable[Token]) -> str:
    """Return their text, with a blank between any two."""
    return " ".join(token.text for token in tokens)


def quoted(text: str) -> str:
    """Return a string literal of C++."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

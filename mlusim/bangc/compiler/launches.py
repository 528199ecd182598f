"""Rewriting of `name<<<dim, type, queue>>>(arguments)` to an object that launches."""

from __future__ import annotations

from mlusim.bangc.compiler.entries import Entry
from mlusim.bangc.compiler.source import Source, Token, quoted
from mlusim.bangc.compiler.undeclared_names import OWN

_OPENING, _CLOSING = "([{", ")]}"
_JOINTS = ("::", ".", "->")
_ACCESS = ("public", "protected", "private")
# Words that precede a statement, or the condition of one.
_KEYWORDS = ("return", "else", "do", "if", "constexpr", "while", "for", "switch")


def rewrite_launch(source: Source, position: int, entries: list[Entry], with_defaults: set[str]) -> None:
    """Rewrite a launch.

    Args:
        source: the file.
        position: the token `<<<`.
        entries: the entries before it.
        with_defaults: names of entries of which a parameter has a default value.
    """
    tokens = source.tokens
    start = _start_of_callee(source, position)
    close = _end_of_configuration(tokens, position)
    if start < 0 or close < 0:
        return
    name = " ".join(source.text[tokens[start].start : tokens[position].start].split())
    plain_name = name.split("<", maxsplit=1)[0].rsplit("::", maxsplit=1)[-1].strip()
    supplied = arguments_of_template(tokens[start:position])
    named_entries = [entry for entry in entries if entry.name.removeprefix(OWN) == plain_name]
    # A pointer to a function has neither its overloads nor its default values.
    has_defaults = plain_name in with_defaults or OWN + plain_name in with_defaults
    deduced = has_defaults or len(named_entries) > 1 or any(entry.template > supplied for entry in named_entries)
    head = f"::mlusim::launcher({quoted(name.replace(OWN, ''))}, "
    middle = ", "
    if deduced:
        head += "[](auto... mlusim_a) { "
        middle = "(mlusim_a...); }, "
    source.insert(start, head)
    source.replace(position, position, middle)
    source.replace(close, close + 2, ")")


def keep_function(source: Source, body: int) -> None:
    """Keep the code of a function that launches, even if only the host's side calls it.

    Else the binary of the board would lack the instances of templates that the function launches.
    """
    tokens = source.tokens
    start = source.start_of_statement(body)
    if start + 1 < body and tokens[start].text in _ACCESS and tokens[start + 1].text == ":":
        start += 2
    is_plain = tokens[start].kind == "word" and tokens[start].text not in ("template", "extern")
    if is_plain and source.parameters_of(start) >= 0:
        source.insert(start, "__attribute__((used)) ")


def _start_of_callee(source: Source, position: int) -> int:
    """Return the start of the expression before `<<<`: a name, `name<...>`, `table[i]`, `(a ? b : c)`; -1 for none."""
    tokens = source.tokens
    index = position - 1
    start = -1
    while index >= 0:
        if tokens[index].kind == "other" and tokens[index].text in (">", ")", "]"):
            closing = tokens[index].text
            opening = _opening_angle(source, index) if closing == ">" else source.opening(index)
            if opening < 0:
                break
            index = opening - 1
            if not _ends_an_operand(source, index):
                start = opening if closing == ")" else -1
                break
            continue
        if tokens[index].kind != "word":
            break
        start = index
        if tokens[index - 1].text == "template" and index:
            index -= 1
        if not index or tokens[index - 1].text not in _JOINTS:
            break
        start = index - 1  # a leading ::, if nothing else precedes it
        index -= 2
        if index < 0 or not _ends_an_operand(source, index):
            break
    return start


def _opening_angle(source: Source, position: int) -> int:
    """Return the `<` of the template arguments that end at `position`, which may contain comparisons; -1 for none."""
    tokens = source.tokens
    depth, opening, index = 0, -1, position
    while index >= 0 and tokens[index].text not in (";", "(", "[", "{"):
        text = tokens[index].text
        if text in (")", "]", "}"):
            index = source.opening(index)
            if index < 0:
                break
        elif text == ">":
            depth += 1
        elif text == "<" and _opens_arguments(tokens, index):
            depth = max(depth - 1, 0)
            if not depth:
                opening = index
                if tokens[index - 2].text != ",":
                    break
                # In `name<int, n < 4>`, the list may begin before `n`.
                depth = 1
        index -= 1
    return opening


def _opens_arguments(tokens: list[Token], index: int) -> bool:
    """Return whether a `<` follows a name."""
    return index > 0 and tokens[index - 1].kind == "word"


def _ends_an_operand(source: Source, index: int) -> bool:
    """Return whether a token ends an operand, so that a bracket or an operator may follow, as after a name."""
    if index < 0:
        return False
    token = source.tokens[index]
    if token.kind == "word":
        return token.text not in _KEYWORDS
    if token.text == ")":
        opening = source.opening(index)  # -1 for the three parts of a `for`
        return opening > 0 and source.tokens[opening - 1].text not in _KEYWORDS
    return token.text in (">", "]")


def arguments_of_template(tokens: list[Token]) -> int:
    """Return the number of arguments between the first angle brackets; 0 without any."""
    depth = count = 0
    for index, token in enumerate(tokens):
        if token.text == "<" and _opens_arguments(tokens, index):
            depth += 1
            count = max(count, 1)
        elif token.text == ">":
            depth -= 1
        elif token.text == "," and depth == 1:
            count += 1
    return count


def _end_of_configuration(tokens: list[Token], position: int) -> int:
    """Return the first token of the `>>>`, or -1."""
    depth = 0
    for index in range(position + 1, len(tokens) - 2):
        text = tokens[index].text
        if tokens[index].kind != "other":
            continue
        if text in _OPENING:
            depth += 1
        elif text in _CLOSING:
            depth -= 1
        elif text == ";":
            return -1
        elif text == ">" and depth == 0 and tokens[index + 1].text == ">" and tokens[index + 2].text == ">":
            return index
    return -1

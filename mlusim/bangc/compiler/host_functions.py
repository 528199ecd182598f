"""Functions of the host that code for the board calls: functions without `__mlu_func__`.

ASSUMED: the vendor's compiler refuses such a call, as compilers with a host and a device side do; in all public kernels
of the vendor, functions that kernels call have the word. Here, the call runs.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlusim.bangc.compiler.device_functions import FUNCTION_WORD, HOST_WORD
from mlusim.bangc.compiler.entries import ENTRY_WORD
from mlusim.bangc.compiler.source import CLASS, CODE, Source
from mlusim.errors import CompileError

_OF_BOARD = frozenset((FUNCTION_WORD, ENTRY_WORD, "__mlusim_device"))
# Words of a function that either side may call, and of a statement that declares none.
_EITHER = frozenset(("constexpr", "consteval"))
_STREAMS = frozenset(("cout", "cerr", "clog", "cin"))
_NONE = frozenset(("typedef", "using", "operator", "="))
# Words that take brackets, and are no names of functions.
_OPERATORS = frozenset(("decltype", "noexcept", "sizeof", "alignof", "explicit", "requires"))
# Words after which a name and a bracket are a call.
_BEFORE_CALLS = frozenset(("return", "else", "do", "case", "throw", "co_return"))


def host_functions_called(source: Source) -> dict[str, tuple[str, int]]:
    """Return functions of the host that functions of the board call, with file and line of the first call.

    Raises `CompileError` for a stream of the host in a function that only the board calls.
    """
    of_host: set[str] = set()
    others: set[str] = set()
    bodies: list[tuple[int, int, int]] = []
    for position, is_method in _functions(source):
        tokens = source.tokens
        start, name = source.start_of_statement(position), tokens[position - 1].text
        words = {token.text for token in tokens[start:position]}
        body = _body(source, position)
        if words & _OF_BOARD and body:
            bodies.append((start, body, source.matching(body)))
            if HOST_WORD not in words:
                _refuse_streams(source, body, source.matching(body))
        if is_method or words & (_OF_BOARD | _EITHER):
            others.add(name)
        elif body and not words & _NONE:
            of_host.add(name)
    wanted = of_host - others
    found: dict[str, tuple[str, int]] = {}
    for start, body, end in bodies if wanted else ():
        for position in _calls(source, start, body, end, wanted):
            token = source.tokens[position]
            found.setdefault(token.text, (token.file, token.line))
    return found


def _refuse_streams(source: Source, body: int, end: int) -> None:
    for token, after in zip(source.tokens[body:end], source.tokens[body + 1 : end + 1], strict=True):
        if token.text in _STREAMS and after.text in ("<", ">"):
            raise CompileError(
                f"{token.file}:{token.line}: {token.text} in code for the board: kernels have no streams of C++; print "
                "with printf or __bang_printf"
            )


def _functions(source: Source) -> Iterator[tuple[int, bool]]:
    """Yield the opening bracket of the parameters of each function, outside of bodies, and whether it is a method."""
    tokens = source.tokens
    closing: list[int] = []
    position = 0
    while position < len(tokens):
        token = tokens[position]
        while closing and position >= closing[-1]:
            closing.pop()
        if token.kind == "other" and token.text == "{":
            kind, _ = source.scope(position)
            if kind == CLASS:
                closing.append(source.matching(position))
            elif kind == CODE:
                position = source.matching(position)
        elif token.text == "(" and token.kind == "other":
            before = tokens[position - 1]
            if position and before.kind == "word" and before.text not in _OPERATORS:
                yield position, bool(closing)
            position = source.matching(position)
        position += 1


def _body(source: Source, position: int) -> int:
    """Return the brace that opens the body of the function with these parameters; 0 for a declaration."""
    index = source.matching(position) + 1
    while index < len(source.tokens) and source.tokens[index].text not in ("{", ";", "=", "}", ","):
        index = source.matching(index) + 1 if source.tokens[index].text in ("(", "[") else index + 1
    return index if index < len(source.tokens) and source.tokens[index].text == "{" else 0


def _calls(source: Source, start: int, body: int, end: int, wanted: set[str]) -> Iterator[int]:
    """Yield calls of these functions by name, unless the function has a variable or a parameter of that name."""
    tokens = source.tokens
    calls: list[int] = []
    own: set[str] = set()
    for position in range(start, end):
        token, before = tokens[position], tokens[position - 1]
        if token.kind != "word" or token.text not in wanted:
            continue
        is_after_word = before.kind == "word" and before.text not in _BEFORE_CALLS
        if is_after_word or position < body:
            own.add(token.text)
        elif source.next_text(position) == "(" and before.text not in (".", "->", "::"):
            calls.append(position)
    yield from (position for position in calls if tokens[position].text not in own)

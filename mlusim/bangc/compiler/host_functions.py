"""Functions of the host that code for the board calls: functions, methods and `operator()` without `__mlu_func__`.

ASSUMED: the vendor's compiler refuses such a call, as compilers with a host and a device side do; in all public kernels
of the vendor, functions that kernels call have the word. Here, the call runs, and a call at the beginning of each such
function reports it, so templates, policies and objects need no analysis.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from mlusim.bangc.compiler.device_functions import FUNCTION_WORD, HOST_WORD
from mlusim.bangc.compiler.entries import ENTRY_WORD
from mlusim.bangc.compiler.source import CLASS, CLASSES, CODE, Source, Token, joined, outside_brackets
from mlusim.errors import CompileError

_OF_BOARD = frozenset((FUNCTION_WORD, ENTRY_WORD, "__mlusim_device"))
# Words of a function that either side may call.
_EITHER = frozenset(("constexpr", "consteval"))
_STREAMS = frozenset(("cout", "cerr", "clog", "cin"))
_ENDS = (";", "{", "}")


def report_host_functions(source: Source) -> None:
    """Insert a call at the beginning of each function of the host, but for constructors and destructors.

    Raises `CompileError` for a stream of the host in a function that only the board calls.
    """
    declared: set[str] = set()
    bodies: list[tuple[int, str]] = []
    for position, first, of_class in functions(source):
        tokens = source.tokens
        name = joined(tokens[first:position])
        texts = {token.text for token in tokens[source.start_of_statement(position) : position]}
        body = source.body_of(position)
        if body < 0 and texts & _OF_BOARD:
            declared.add(name)
        elif body >= 0 and texts & _OF_BOARD and HOST_WORD not in texts:
            _refuse_streams(source, body, source.matching(body))
        elif body >= 0 and not texts & (_OF_BOARD | _EITHER) and of_class != name and tokens[first - 1].text != "~":
            bodies.append((body, name))
    for body, name in bodies:
        if name not in declared:
            hint = f'::__mlusim_hint("host-function", "{name}")'
            source.insert(body + 1, f"{{ static char mlusim_seen; if (::mlusim_enters_host(&mlusim_seen)) {hint}; }} ")


def _start_of_name(tokens: list[Token], parameters: int) -> int:
    """Return the first token of the name of the function whose parameters open there: `f`, `operator()`."""
    positions = range(parameters - 1, max(parameters - 5, -1), -1)
    last = parameters - 1
    if tokens[last].text == ">":
        last = _before_arguments(tokens, last)
    return next((index for index in positions if tokens[index].text == "operator"), last)


def _refuse_streams(source: Source, body: int, end: int) -> None:
    for token, next_token in zip(source.tokens[body:end], source.tokens[body + 1 : end + 1], strict=True):
        if token.text in _STREAMS and next_token.text in ("<<", ">"):
            raise CompileError(
                f"{token.file}:{token.line}: {token.text} in code for the board: kernels have no streams of C++; print "
                "with printf or __bang_printf"
            )


def functions(source: Source) -> Iterator[tuple[int, int, str]]:
    """Yield, of each function outside of bodies, where its parameters open and its name begins, and its class or ""."""
    tokens = source.tokens
    classes: list[tuple[int, str]] = []
    position = 0
    while position < len(tokens):
        while classes and position >= classes[-1][0]:
            classes.pop()
        parameters = source.parameters_of(position)
        if parameters >= 0:
            first = _start_of_name(tokens, parameters)
            class_name = _class_before(tokens, first - 1) if tokens[first - 1].text == "::" else ""
            yield parameters, first, class_name or (classes[-1][1] if classes else "")
            body = source.body_of(parameters)
            position = source.matching(parameters if body < 0 else body) + 1
            continue
        position = next((at for at in outside_brackets(tokens, position) if tokens[at].text in _ENDS), len(tokens))
        if position < len(tokens) and tokens[position].text == "{":
            kind, _ = source.scope(position)
            if kind == CLASS:
                classes.append((source.matching(position), _class_name(source, position)))
            elif kind == CODE:
                position = source.matching(position)
        position += 1


def _class_name(source: Source, position: int) -> str:
    """Return the name of the class that the brace at `position` opens; "" for none."""
    texts = [token.text for token in source.tokens[source.start_of_statement(position) : position]]
    keyword = max(index for index, word in enumerate(texts) if word in CLASSES)
    return "".join(texts[keyword + 1 : keyword + 2])


def _class_before(tokens: list[Token], position: int) -> str:
    """Return the name of the class, perhaps with the arguments of a template, that ends before `::`."""
    last = position - 1
    return tokens[_before_arguments(tokens, last) if tokens[last].text == ">" else last].text


def _before_arguments(tokens: list[Token], position: int) -> int:
    """Return the name before the template arguments that `>` ends."""
    return max((index for index in range(position) if tokens[index].text == "<"), default=1) - 1


def is_parameter(tokens: list[Token], name: str) -> bool:
    """Return whether a function of these tokens is a template with a parameter `class Name`."""
    return any(
        token.text in {"class", "typename"} and next_token.text == name for token, next_token in pairwise(tokens)
    )

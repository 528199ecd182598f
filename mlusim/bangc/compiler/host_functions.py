"""Functions of the host that code for the board calls: functions, methods and `operator()` without `__mlu_func__`.

ASSUMED: the vendor's compiler refuses such a call, as compilers with a host and a device side do; in all public kernels
of the vendor, functions that kernels call have the word. Here, the call runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from mlusim.bangc.compiler.device_functions import FUNCTION_WORD, HOST_WORD
from mlusim.bangc.compiler.entries import ENTRY_WORD
from mlusim.bangc.compiler.source import CLASS, CLASSES, CODE, Source, Token, closing_angle, outside_brackets
from mlusim.errors import CompileError

_OF_BOARD = frozenset((FUNCTION_WORD, ENTRY_WORD, "__mlusim_device"))
# Words of a function that either side may call, and of a statement that declares none.
_EITHER = frozenset(("constexpr", "consteval"))
_STREAMS = frozenset(("cout", "cerr", "clog", "cin"))
_NONE = frozenset(("typedef", "using", "operator", "="))
# The name here of `operator()`.
_CALL = "()"
# The class that a template's parameter stands for.
_PARAMETER = "typename"
# What a declaration may have between a class and a variable.
_AFTER_CLASS = frozenset(("&", "*", "const"))
_ENDS = (";", "{", "}")
# Words after which a name and a bracket are a call.
_BEFORE_CALLS = frozenset(("return", "else", "do", "case", "throw", "co_return"))


def host_functions_called(source: Source) -> dict[str, tuple[str, int]]:
    """Return functions of the host that functions of the board call, with file and line of the first call.

    Raises `CompileError` for a stream of the host in a function that only the board calls.
    """
    # By class, empty for a function that is no method, and by name.
    of_host: set[tuple[str, str]] = set()
    others: set[tuple[str, str]] = set()
    bodies: list[tuple[int, int, int]] = []
    for position, of_class in functions(source):
        tokens = source.tokens
        start, name = source.start_of_statement(position), (of_class, _name(tokens, position))
        words = {token.text for token in tokens[start:position]}
        body = source.body_of(position)
        if words & _OF_BOARD and body >= 0:
            bodies.append((start, body, source.matching(body)))
            if HOST_WORD not in words:
                _refuse_streams(source, body, source.matching(body))
        if words & (_OF_BOARD | _EITHER):
            others.add(name)
        elif body >= 0 and (not words & _NONE or name[1] == _CALL):
            of_host.add(name)
    # Inside a class, `f(...)` may be a method; `f` of a namespace may be defined as `space::f`.
    methods = {name for of_class, name in of_host | others if of_class}
    wanted = {key for key in of_host - others if (key[1] not in methods if not key[0] else ("", key[1]) not in others)}
    # Of a template's parameter, which may be any of the classes.
    of_board = {name for _, name in others}
    wanted |= {(_PARAMETER, name) for of_class, name in wanted if of_class and name not in of_board}
    aliases = _aliases(source.tokens) if wanted else {}
    wanted |= {(alias, name) for alias, aliased in aliases.items() for of_class, name in wanted if of_class == aliased}
    found: dict[str, tuple[str, int]] = {}
    for start, body, end in bodies if wanted else ():
        for position in _calls(source, start, body, end, wanted):
            token = source.tokens[position]
            called = token.text if any(token.text == name for _, name in wanted) else "operator()"
            found.setdefault(called, (token.file, token.line))
    return found


def _name(tokens: list[Token], parameters: int) -> str:
    """Return the name of the function whose parameters open there."""
    is_call = [token.text for token in tokens[parameters - 3 : parameters]] == ["operator", "(", ")"]
    return _CALL if is_call else tokens[parameters - 1].text


def _aliases(tokens: list[Token]) -> dict[str, str]:
    """Return the other names of classes, and the class of each: `using Name = Class<T>;`, `typedef Class Name;`."""
    found: dict[str, str] = {}
    for position, token in enumerate(tokens[:-4]):
        if token.text not in {"using", "typedef"}:
            continue
        end = next((at for at in outside_brackets(tokens, position) if tokens[at].text == ";"), position)
        words = [tokens[at].text for at in outside_brackets(tokens[:end], position + 1) if tokens[at].kind == "word"]
        if token.text == "typedef":
            words = [*words[-1:], *words[:-1]]
        if len(words) > 1:
            found[words[0]] = words[-1]
    return found


def _refuse_streams(source: Source, body: int, end: int) -> None:
    for token, after in zip(source.tokens[body:end], source.tokens[body + 1 : end + 1], strict=True):
        if token.text in _STREAMS and after.text in ("<<", ">"):
            raise CompileError(
                f"{token.file}:{token.line}: {token.text} in code for the board: kernels have no streams of C++; print "
                "with printf or __bang_printf"
            )


def functions(source: Source) -> Iterator[tuple[int, str]]:
    """Yield the opening bracket of the parameters of each function, outside of bodies, and its class; "" for none."""
    tokens = source.tokens
    classes: list[tuple[int, str]] = []
    position = 0
    while position < len(tokens):
        while classes and position >= classes[-1][0]:
            classes.pop()
        parameters = source.parameters_of(position)
        if parameters >= 0:
            if tokens[parameters - 1].kind == "word" or _name(tokens, parameters) == _CALL:
                first = parameters - (1 if tokens[parameters - 1].kind == "word" else 3)
                is_outside = tokens[first - 1].text == "::"
                yield parameters, tokens[first - 2].text if is_outside else classes[-1][1] if classes else ""
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
    words = [token.text for token in source.tokens[source.start_of_statement(position) : position]]
    keyword = max(index for index, word in enumerate(words) if word in CLASSES)
    return "".join(words[keyword + 1 : keyword + 2])


def _calls(source: Source, start: int, body: int, end: int, wanted: set[tuple[str, str]]) -> Iterator[int]:
    """Yield calls of these functions by name, unless the function has a variable of that name, and of these objects."""
    tokens, names = source.tokens, {name for _, name in wanted}
    calls: list[int] = []
    own: set[str] = set()
    for position in range(start, end):
        token, before = tokens[position], tokens[position - 1]
        if token.kind != "word":
            continue
        if _CALL in names and position > body and (_class_of_object(source, start, position), _CALL) in wanted:
            calls.append(position)
        if token.text not in names:
            continue
        is_after_word = before.kind == "word" and before.text not in _BEFORE_CALLS
        if is_after_word or position < body:
            own.add(token.text)
        elif source.next_text(position) == "(" and (_class_of_call(source, start, position), token.text) in wanted:
            calls.append(position)
    yield from (position for position in calls if tokens[position].text not in own)


def _class_of_object(source: Source, start: int, position: int) -> str | None:
    """Return the class of an object that is called: in `Class()(...)`, and in `x(...)` if the function declares `x`."""
    tokens = source.tokens
    before, after = tokens[position - 1].text, position + 1
    if before in {".", "->", "::"}:
        return None
    if tokens[after].text == "<":
        after = closing_angle(tokens, after) + 1
    if tokens[after].text not in {"(", "{"}:
        return None
    if source.next_text(source.matching(after)) == "(":
        return tokens[position].text
    return _class_of_variable(source, start, position) if tokens[after].text == "(" else None


def _class_of_call(source: Source, start: int, position: int) -> str | None:
    """Return the class in `Class::f(...)`, or in `x.f(...)` if the function declares `x`; "" for `f(...)`."""
    before = source.tokens[position - 1].text
    if before == "::":
        return _class_before(source, start, position - 1)
    return _class_of_variable(source, start, position - 2) if before in {".", "->"} else ""


def _class_of_variable(source: Source, start: int, position: int) -> str | None:
    """Return the class of a variable or a parameter that the function declares before `position`."""
    tokens = source.tokens
    name = tokens[position].text
    end = next((index for index in range(start, position) if tokens[index].text == name), 0)
    while end > start and tokens[end - 1].text in _AFTER_CLASS:
        end -= 1
    return _class_before(source, start, end)


def _class_before(source: Source, start: int, position: int) -> str | None:
    """Return the class whose name, with the arguments of a template, ends before `position`."""
    tokens, owner = source.tokens, position - 1
    if tokens[owner].text == ">":
        owner = max((index for index in range(start, owner) if tokens[index].text == "<"), default=0) - 1
    if owner <= start:
        return None
    return _PARAMETER if is_parameter(tokens[start:owner], tokens[owner].text) else tokens[owner].text


def is_parameter(tokens: list[Token], name: str) -> bool:
    """Return whether a function of these tokens is a template with a parameter `class Name`."""
    return any(one.text in {"class", "typename"} and other.text == name for one, other in pairwise(tokens))

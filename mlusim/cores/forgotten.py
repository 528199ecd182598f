"""Detection of coroutines that a kernel creates and never awaits.

Methods of the core look after themselves (`mlusim.cores.waiting`). For a kernel's own coroutine functions there are two
checks, and neither changes the state of the process: before a launch, calls in the kernel's code whose result is
dropped at once, also in coroutine functions that it refers to; and when a task ends, coroutines that its variables
still hold. Not found: a coroutine that dies in a container, in a helper's variable, or behind a name that only a run
knows; Python itself warns about those.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from functools import lru_cache, partial
from inspect import CO_COROUTINE, CORO_CREATED, getcoroutinestate, isclass, iscoroutinefunction, ismodule, unwrap
from itertools import pairwise
from pathlib import Path
from types import CodeType, CoroutineType, FrameType, FunctionType
from typing import Any, NamedTuple

from mlusim.errors import AwaitError

_NOTHING = object()


class Call(NamedTuple):
    """A call whose result is dropped: the callee's name with its attributes, and where it stands."""

    names: tuple[str, ...]
    file: str
    line: int


def check_calls(kernel: Any) -> None:
    """Raise `AwaitError` where a kernel, or a coroutine function that it refers to, drops a coroutine it has made."""
    todo: list[Any] = [kernel]
    known = set()
    while todo:
        candidate = todo.pop()
        while isinstance(candidate, partial):
            candidate = candidate.func
        function = unwrap(getattr(candidate, "__func__", candidate))
        if not isinstance(function, FunctionType) or function.__code__ in known:
            continue
        known.add(function.__code__)
        for code in _codes(function.__code__):
            for call in dropped_calls(code):
                if _is_coroutine_function(call.names, function, code):
                    raise forgotten(".".join(call.names), call.file, call.line)
            named = [_value(name, function) for name in (*code.co_names, *code.co_freevars)]
            todo += [found for found in named if iscoroutinefunction(found)]


def forgotten(name: str, file: str, line: int) -> AwaitError:
    """The error about a coroutine that was made at a line."""
    return AwaitError(
        f"`{name}(...)` was never awaited, so it never happened: write `await {name}(...)`",
        f"{Path(file).name}:{line}",
    )


def held(frame: FrameType | None) -> CoroutineType[Any, Any, Any] | None:
    """A coroutine that was never begun and that a variable of a frame holds, if any."""
    variables = frame.f_locals.values() if frame is not None else ()
    return next((v for v in variables if isinstance(v, CoroutineType) and getcoroutinestate(v) == CORO_CREATED), None)


@lru_cache(maxsize=512)
def dropped_calls(code: CodeType) -> tuple[Call, ...]:
    """The calls of a piece of code, by plain names, whose result nobody takes."""
    instructions = list(dis.get_instructions(code))
    found = []
    for number, (call, following) in enumerate(pairwise(instructions)):
        if not call.opname.startswith("CALL") or following.opname != "POP_TOP" or call.positions is None:
            continue
        start = (call.positions.lineno, call.positions.col_offset)
        names: list[str] = []
        for earlier in instructions[:number]:
            at = earlier.positions
            if at is None or (at.lineno, at.col_offset) != start:
                continue
            if earlier.opname.startswith("CALL"):
                # What is called is itself a result.
                names = []
                break
            if earlier.opname.startswith("LOAD"):
                names.append(str(earlier.argval))
        if names and start[0] is not None:
            found.append(Call(tuple(names), code.co_filename, start[0]))
    return tuple(found)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of all functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _is_coroutine_function(names: tuple[str, ...], function: FunctionType, code: CodeType) -> bool:
    first, *attributes = names
    if not attributes:
        inner = [each for each in _codes(function.__code__) if each.co_name == first]
        if inner and first in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            return all(each.co_flags & CO_COROUTINE for each in inner)
    found = _value(first, function)
    for attribute in attributes:
        if not (ismodule(found) or isclass(found)):
            return False
        found = getattr(found, attribute, _NOTHING)
    return iscoroutinefunction(found)


def _value(name: str, function: FunctionType) -> Any:
    """The value of a name that is not local to a function."""
    if name in function.__code__.co_freevars and function.__closure__:
        try:
            return function.__closure__[function.__code__.co_freevars.index(name)].cell_contents
        except ValueError:
            return _NOTHING
    return function.__globals__.get(name, _NOTHING)

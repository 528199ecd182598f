"""Detection of coroutines that a kernel creates and never awaits.

Methods of the core have their own check (`cores.tasks.waiting`). For a kernel's own coroutine functions there are
three: before a launch, calls in the kernel's code whose result is discarded, also in coroutine functions that it refers
to; while a kernel runs, coroutines of which Python warns that they were never awaited, as it discards them; and when a
task ends, coroutines in its variables that were never started. Not found: a coroutine in a reference cycle.
"""

from __future__ import annotations

import dis
import gc
import warnings
from collections.abc import Iterator
from functools import lru_cache, partial
from inspect import CO_COROUTINE, CORO_CREATED, getcoroutinestate, isclass, iscoroutinefunction, ismodule, unwrap
from itertools import pairwise
from sys import _getframe
from types import CodeType, CoroutineType, FrameType, FunctionType
from typing import Any, NamedTuple

from mlusim.errors import NOTED, AwaitError
from mlusim.files import source_name

_NOTHING = object()
# The function of `warnings` that Python calls for a coroutine that was never awaited.
_WARN = "_warn_unawaited_coroutine"


class Call(NamedTuple):
    """A call whose result is discarded: the callee's dotted name, and its location."""

    names: tuple[str, ...]
    file: str
    line: int


def check_calls(kernel: Any) -> None:
    """Raise `AwaitError` if a kernel, or a coroutine function that it refers to, discards a coroutine."""
    pending: list[Any] = [kernel]
    visited = set()
    while pending:
        candidate = pending.pop()
        while isinstance(candidate, partial):
            candidate = candidate.func
        function = unwrap(getattr(candidate, "__func__", candidate))
        if not isinstance(function, FunctionType) or function.__code__ in visited:
            continue
        visited.add(function.__code__)
        for code in _codes(function.__code__):
            for call in dropped_calls(code):
                if _is_coroutine_function(call.names, function, code):
                    raise forgotten(".".join(call.names), call.file, call.line)
            references = [_value(name, function) for name in (*code.co_names, *code.co_freevars)]
            pending += [reference for reference in references if iscoroutinefunction(reference)]


def forgotten(name: str, file: str, line: int) -> AwaitError:
    """Return the error about a coroutine created at a line."""
    error = AwaitError(
        f"`{name}(...)` was never awaited, so it never ran: write `await {name}(...)`",
        f"{source_name(file)}:{line}",
    )
    error.source = file, line
    return error


class _Discarded:
    """Python's function that warns of a coroutine that was never awaited, replaced: kernels make an error of it.

    Python calls it where the coroutine ends, and nothing can be raised there: the error is only created, and so noted
    (`NOTED`). Coroutines that the garbage collector finds may belong to an earlier run.
    """

    def __init__(self) -> None:
        self.warn: Any = None
        self.collecting = False

    def watch(self) -> None:
        """Replace the function, once per process; without effect on coroutines outside a run."""
        if self.warn is None:
            self.warn = vars(warnings).get(_WARN)
            vars(warnings)[_WARN] = self.found
            gc.callbacks.append(self.collects)

    def collects(self, phase: str, _: object) -> None:
        """Called when the garbage collector starts and stops."""
        self.collecting = phase == "start"

    def found(self, coroutine: CoroutineType[Any, Any, Any]) -> None:
        """Called for a coroutine that ends before it was started."""
        if NOTED.get() is None or self.collecting:
            if self.warn is not None:
                self.warn(coroutine)
            return
        frame = _getframe(1)
        forgotten(coroutine.__name__, frame.f_code.co_filename, frame.f_lineno).dropped = True


watch_discarded = _Discarded().watch


def unstarted(frame: FrameType | None) -> list[CoroutineType[Any, Any, Any]]:
    """Return the coroutines in variables of a frame that were never started."""
    variables = frame.f_locals.values() if frame is not None else ()
    return [v for v in variables if isinstance(v, CoroutineType) and getcoroutinestate(v) == CORO_CREATED]


@lru_cache(maxsize=512)
def dropped_calls(code: CodeType) -> tuple[Call, ...]:
    """Return the calls in a code object, by dotted names, whose result is discarded."""
    instructions = list(dis.get_instructions(code))
    calls = []
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
                # The callee is itself the result of a call.
                names = []
                break
            if earlier.opname.startswith("LOAD"):
                names.append(str(earlier.argval))
        if names and start[0] is not None:
            calls.append(Call(tuple(names), code.co_filename, start[0]))
    return tuple(calls)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of all functions nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _is_coroutine_function(names: tuple[str, ...], function: FunctionType, code: CodeType) -> bool:
    first, *attributes = names
    if not attributes:
        inner = [code for code in _codes(function.__code__) if code.co_name == first]
        if inner and first in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            return all(code.co_flags & CO_COROUTINE for code in inner)
    value = _value(first, function)
    for attribute in attributes:
        if not (ismodule(value) or isclass(value)):
            return False
        value = getattr(value, attribute, _NOTHING)
    return iscoroutinefunction(value)


def _value(name: str, function: FunctionType) -> Any:
    """Return the value of a name that is not local to a function."""
    if name in function.__code__.co_freevars and function.__closure__:
        try:
            return function.__closure__[function.__code__.co_freevars.index(name)].cell_contents
        except ValueError:
            return _NOTHING
    return function.__globals__.get(name, _NOTHING)

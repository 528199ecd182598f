"""The one seam between compiled kernels and the core: operations issued at a line of a C++ file.

The core logs the Python frame that called it. So an operation of a compiled kernel is issued through a function that
is compiled at the C++ file's name and line: logs, errors and reports then name that line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from types import CodeType
from typing import Any

_SOURCE = """\
def {name}(function, *arguments, **options): return function(*arguments, **options)
"""
_WAITING = """\
async def {name}(function, *arguments, **options): return await function(*arguments, **options)
"""


_ENTRY = """\
async def {name}(core, *arguments): await task(core, *arguments)
"""


def entry_function(file: str, line: int, name: str, task: Callable[..., Any]) -> Any:
    """A kernel whose own file and line are those of a C++ entry; `task` does the work."""
    function = _function(_ENTRY, file, line, name)
    function.__globals__["task"] = task
    return function


class Site:
    """A line of a kernel's source: `call` issues there, `wait` issues there and waits."""

    __slots__ = ("call", "file", "line", "wait")

    def __init__(self, file: str, line: int, function: str) -> None:
        self.file = file
        self.line = line
        self.call: Callable[..., Any] = _function(_SOURCE, file, line, function)
        self.wait: Callable[..., Awaitable[Any]] = _function(_WAITING, file, line, function)


def _function(source: str, file: str, line: int, name: str) -> Callable[..., Any]:
    word = name if name.isidentifier() else "kernel"
    code = _code(source.format(name=word), file)
    scope: dict[str, Any] = {}
    exec(code, scope)  # noqa: S102 - two lines of our own
    function = scope[word]
    shifted = _moved(function.__code__, line, name)
    function.__code__ = shifted
    return function  # type: ignore[no-any-return]


@lru_cache(maxsize=4096)
def _code(text: str, file: str) -> CodeType:
    return compile(text, file, "exec")


def _moved(code: CodeType, line: int, name: str) -> CodeType:
    return code.replace(co_firstlineno=line, co_name=name, co_qualname=name)

"""Python frames located at lines of C++ files, so that errors name the line of the kernel's author.

The simulator locates an error at the innermost frame in a file of the author. So the function of a compiled kernel, and
the function that raises its errors, are compiled with the C++ file's name and line.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from keyword import iskeyword
from types import CodeType
from typing import Any, NoReturn

_ENTRY = """\
async def {name}(core, *arguments): await task(core, *arguments)
"""
_RAISE = """\
def {name}(error): raise error
"""


def entry_function(file: str, line: int, name: str, task: Callable[..., Any]) -> Any:
    """Return a kernel with the file and line of a C++ entry; it calls `task`."""
    function = _function(_ENTRY, file, line, name)
    function.__globals__["task"] = task
    return function


def raise_at(file: str, line: int, function: str, error: BaseException) -> NoReturn:
    """Raise an error at a line of a C++ file."""
    _function(_RAISE, file, line, function)(error)
    raise AssertionError


def _function(source: str, file: str, line: int, name: str) -> Any:
    word = name if name.isidentifier() and not iskeyword(name) else "kernel"
    scope: dict[str, Any] = {}
    exec(_code(source.format(name=word), file), scope)  # noqa: S102 - two lines of our own
    function = scope[word]
    function.__code__ = function.__code__.replace(co_firstlineno=line, co_name=name, co_qualname=name)
    return function


@lru_cache(maxsize=1024)
def _code(text: str, file: str) -> CodeType:
    return compile(text, file, "exec")

"""The source line of a kernel that issued an operation, for records and messages.

Tracebacks contain frames of the simulator and of libraries that the kernel calls; messages name the innermost line in
the author's own code.
"""

from __future__ import annotations

import ast
import linecache
import sys
from functools import lru_cache
from types import FrameType, TracebackType
from typing import Any

from mlusim.files import written_by_author

# Packages whose frames are between a program and its kernel, or between the kernel and an error; those of `functools`
# are of cached properties, such as `core.nram`.
INTERNAL = frozenset({"mlusim", "simpy", "functools"})
# Calls over which a loop ends, with `core.loop`.
_FINITE = frozenset({"range", "enumerate", "reversed", "sorted", "zip", "list", "tuple", "loop"})


def kernel_line(error: BaseException, kernel_file: str) -> tuple[str, int]:
    """Return file and line of an exception, line 0 if it is unknown; `kernel_file` is the file of the kernel."""
    source = _innermost(error.__traceback__, kernel_file)
    if not source[1] and error.__cause__ is not None:
        # Python converts a StopIteration in a coroutine to a RuntimeError without the line.
        source = _innermost(error.__cause__.__traceback__, kernel_file)
    return source


def awaiting_line(coroutine: Any, kernel_file: str) -> tuple[str, int]:
    """Return file and line where a suspended coroutine waits."""
    source = "", 0
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        file = frame.f_code.co_filename
        if not source[1] or written_by_author(file, kernel_file):
            source = file, frame.f_lineno
        coroutine = coroutine.cr_await
    return source


def _innermost(traceback: TracebackType | None, kernel_file: str) -> tuple[str, int]:
    source = "", 0
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if written_by_author(file, kernel_file):
            source = file, traceback.tb_lineno
        traceback = traceback.tb_next
    return source


def is_in_open_loop(kernel: FrameType) -> bool:
    """Return whether a kernel, or what it calls, is in a loop that may never end; also if its source cannot be read."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - there is no public way to the calling frame
    is_python = False
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in INTERNAL:
            is_python, loops = True, _open_loops(frame.f_code.co_filename)
            if loops is None or any(begin <= frame.f_lineno <= end for begin, end in loops):
                return True
        frame = None if frame is kernel else frame.f_back
    return not is_python


@lru_cache(maxsize=64)
def _open_loops(file: str) -> list[tuple[int, int]] | None:
    """Return the first and the last line of every loop of a file that may never end; None if it cannot be read."""
    text = "".join(linecache.getlines(file))
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    return (
        None
        if not text
        else [
            (node.lineno, node.end_lineno or 0)
            for node in ast.walk(tree)
            if isinstance(node, ast.stmt) and _is_open(node)
        ]
    )


def _is_open(node: ast.stmt) -> bool:
    """Return whether a statement is a `while` loop, or one over what a call returns, other than a range or the like."""
    if not (isinstance(node, ast.For) and isinstance(node.iter, ast.Call)):
        return isinstance(node, ast.While | ast.AsyncFor)
    called = node.iter.func
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) not in _FINITE


def hide_internals(error: BaseException) -> None:
    """Remove the frames of the simulator from the tracebacks of an error and its causes: they say nothing to authors.

    `python -X dev` keeps all frames.
    """
    cause: BaseException | None = error
    # An exception may be its own cause.
    visited: set[int] = set()
    while cause is not None and id(cause) not in visited and not sys.flags.dev_mode:
        visited.add(id(cause))
        visible: TracebackType | None = None
        for entry in reversed(_entries(cause.__traceback__)):
            if str(entry.tb_frame.f_globals.get("__name__")).partition(".")[0] not in INTERNAL:
                visible = TracebackType(visible, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
        cause.__traceback__ = visible
        cause = cause.__cause__


def _entries(traceback: TracebackType | None) -> list[TracebackType]:
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    return entries

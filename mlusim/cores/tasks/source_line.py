"""The source line of a kernel that issued an operation, for records and messages.

Tracebacks contain frames of the simulator and of libraries that the kernel calls; messages name the innermost line in
the author's own code.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Sized
from functools import lru_cache
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from mlusim.source_code import line_of, package_of, syntax_tree, written_by_author

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
            source = file, line_of(frame)
        coroutine = coroutine.cr_await
    return source


def _innermost(traceback: TracebackType | None, kernel_file: str) -> tuple[str, int]:
    source = "", 0
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if written_by_author(file, kernel_file):
            source = file, line_of(traceback)
        traceback = traceback.tb_next
    return source


def open_loop_state(kernel: FrameType) -> tuple[Any, ...] | None:
    """Return the values on which the current loops of a kernel decide; None if all of these loops end.

    Only loops that may never end count, in the kernel and in what it calls, and only numbers and lengths. If the source
    cannot be read, the kernel may be in such a loop, and there are no values.
    """
    frames = _frames_of(kernel)
    values: list[Any] = []
    is_open = not frames
    for frame in frames:
        loops = _open_loops(frame.f_code.co_filename)
        is_open |= loops is None
        for begin, end, names in loops or ():
            if begin <= line_of(frame) <= end:
                is_open = True
                values += (_number(frame.f_locals.get(name)) for name in names)
    return tuple(values) if is_open else None


def _frames_of(kernel: FrameType) -> list[FrameType]:
    """Return the frames on the stack of a kernel and of what it calls, without the simulator's, innermost first."""
    frames = []
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - there is no public way to the calling frame
    while frame is not None:
        if package_of(frame) not in INTERNAL:
            frames.append(frame)
        frame = None if frame is kernel else frame.f_back
    return frames


def _number(value: Any) -> Any:
    """Return a number, or the length of a container; None for other values."""
    if isinstance(value, int | float | np.number):
        return value
    return len(value) if isinstance(value, Sized) else None


@lru_cache(maxsize=64)
def _open_loops(file: str) -> list[tuple[int, int, list[str]]] | None:
    """Return the lines of every loop of a file that may never end, and the names by which it, or its `if`s, decide.

    None if the file cannot be read.
    """
    text = "".join(linecache.getlines(file))
    try:
        tree = syntax_tree(text)
    except SyntaxError:
        return None
    loops = (node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _is_open(node))
    return [(node.lineno, node.end_lineno or 0, _decides_by(node)) for node in loops] if text else None


def _is_open(node: ast.stmt) -> bool:
    """Return whether a statement is a `while` loop, or one over what a call returns, other than a range or the like."""
    return isinstance(node, ast.While | ast.AsyncFor) or (isinstance(node, ast.For) and _is_endless(node.iter))


def _is_endless(iterable: ast.expr) -> bool:
    """Return whether a call may return an iterable without an end. `zip` ends with the first of its arguments."""
    if not isinstance(iterable, ast.Call):
        return False
    function = iterable.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in ("zip", "enumerate") and iterable.args:
        return all(map(_is_endless, iterable.args[: 1 if name == "enumerate" else None]))
    return name not in _FINITE


def _decides_by(loop: ast.stmt) -> list[str]:
    tests = [node.test for node in ast.walk(loop) if isinstance(node, ast.While | ast.If)]
    return sorted({name.id for test in tests for name in ast.walk(test) if isinstance(name, ast.Name)})


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
            if package_of(entry.tb_frame) not in INTERNAL:
                visible = TracebackType(visible, entry.tb_frame, entry.tb_lasti, line_of(entry))
        cause.__traceback__ = visible
        cause = cause.__cause__


def _entries(traceback: TracebackType | None) -> list[TracebackType]:
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    return entries

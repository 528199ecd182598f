"""The source line of a kernel that issued an operation, for records and messages.

Tracebacks contain frames of the simulator and of libraries that the kernel calls; messages name the innermost line in
the author's own code.
"""

from __future__ import annotations

import sys
import sysconfig
from os import sep
from pathlib import Path
from types import TracebackType
from typing import Any

# Packages whose frames are between a program and its kernel, or between the kernel and an error; those of `functools`
# are of cached properties, such as `core.nram`.
INTERNAL = frozenset({"mlusim", "simpy", "functools"})
_PACKAGE = Path(__file__).resolve().parents[2]
_KERNELS = f"{_PACKAGE / 'kernels'}{sep}"
_LIBRARIES = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
# Frames of compiled modules have the path that `hatch_build.py` compiled: "mlusim/cores/copies/memcpy.py".
_INSIDE = tuple(f"{folder}{sep}" for folder in (_PACKAGE, *sorted(_LIBRARIES), _PACKAGE.name))


def kernel_line(error: BaseException, own: str) -> tuple[str, int]:
    """Return file and line of an exception, line 0 if it is unknown; `own` is the file of the kernel."""
    source = _innermost(error.__traceback__, own)
    if not source[1] and error.__cause__ is not None:
        # Python converts a StopIteration in a coroutine to a RuntimeError without the line.
        source = _innermost(error.__cause__.__traceback__, own)
    return source


def awaiting_line(coroutine: Any, own: str) -> tuple[str, int]:
    """Return file and line where a suspended coroutine waits."""
    source = "", 0
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        file = frame.f_code.co_filename
        if not source[1] or written_by_author(file, own):
            source = file, frame.f_lineno
        coroutine = coroutine.cr_await
    return source


def _innermost(traceback: TracebackType | None, own: str) -> tuple[str, int]:
    source = "", 0
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if written_by_author(file, own):
            source = file, traceback.tb_lineno
        traceback = traceback.tb_next
    return source


def hide_internals(error: BaseException) -> None:
    """Remove the frames of the simulator from the tracebacks of an error and its causes: they say nothing to authors.

    `python -X dev` keeps all frames.
    """
    cause: BaseException | None = error
    # An exception may be its own cause.
    visited: set[int] = set()
    while cause is not None and id(cause) not in visited and not sys.flags.dev_mode:
        visited.add(id(cause))
        kept: TracebackType | None = None
        for entry in reversed(_entries(cause.__traceback__)):
            if str(entry.tb_frame.f_globals.get("__name__")).partition(".")[0] not in INTERNAL:
                kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
        cause.__traceback__ = kept
        cause = cause.__cause__


def _entries(traceback: TracebackType | None) -> list[TracebackType]:
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    return entries


def written_by_author(file: str, own: str = "") -> bool:
    """Whether a file is `own`, or belongs neither to the simulator, apart from its kernels, nor to a library."""
    # "<string>" and the like are methods that Python generates, such as those of dataclasses.
    return file == own or file.startswith(_KERNELS) or not file.startswith(("<", *_INSIDE))

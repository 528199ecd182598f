"""Source code: names of kernels in files, who wrote a file, lines and packages of frames, syntax trees."""

from __future__ import annotations

import ast
import os
import sys
import sysconfig
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path, PurePath
from types import FrameType, TracebackType
from typing import Any

# Before CPython 3.13, threads that make syntax trees at the same time share one count of recursions, and corrupt it.
_parsing = threading.RLock()
KERNEL_SUFFIXES = (".py", ".mlu")
_PACKAGE = Path(__file__).resolve().parent
_KERNELS = f"{_PACKAGE / 'kernels'}{os.sep}"
_LIBRARIES = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
# Frames of compiled modules have the path that `hatch_build.py` compiled: "mlusim/cores/copies/memcpy.py".
_INSIDE = tuple(f"{folder}{os.sep}" for folder in (_PACKAGE, *sorted(_LIBRARIES), _PACKAGE.name))


def is_kernel_name(text: str) -> bool:
    """Return whether a text names a kernel in a file, as `add.py:add` or `add.mlu`, rather than an operator."""
    return text.endswith(KERNEL_SUFFIXES) or any(f"{suffix}:" in text for suffix in KERNEL_SUFFIXES)


def file_and_kernel(text: str) -> tuple[str, str]:
    """Split `add.py:add` into the file and the name in it, which is empty for a file alone."""
    for suffix in KERNEL_SUFFIXES:
        stem, colon, name = text.partition(f"{suffix}:")
        if colon and not Path(text).exists():
            return f"{stem}{suffix}", name
    return text, ""


def source_name(file: str) -> str:
    """Return the name of a source file in messages and reports: `add.py`, or `In[6]` for a cell of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    # ("Cell", "In[6]"), or None for a file that is not a cell.
    cell = None if shell is None else shell.compile.format_code_name(file)
    return PurePath(file).name if cell is None else str(cell[1])


def line_of(frame: FrameType | TracebackType) -> int:
    """Return the line of a frame or of an entry of a traceback.

    Some instructions that Python adds have none, and an error of another thread may arrive there; nor has code that a
    program generated without lines. They get the line where their function begins.
    """
    if isinstance(frame, TracebackType):
        line, code = frame.tb_lineno, frame.tb_frame.f_code
    else:
        line, code = frame.f_lineno, frame.f_code
    return line or code.co_firstlineno


def package_of(frame: FrameType) -> str:
    """Return the package of the function that a frame executes."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def in_own_kernels(file: str) -> bool:
    """Return whether a file is one of mlusim's own kernels."""
    return file.startswith(_KERNELS)


@cache
def written_by_author(file: str, kernel_file: str = "") -> bool:
    """Return whether a file is `kernel_file`, one of mlusim's own kernels, or outside mlusim and all libraries."""
    # "<string>" and the like are methods that Python generates, such as those of dataclasses.
    return file == kernel_file or in_own_kernels(file) or not file.startswith(("<", *_INSIDE))


def syntax_tree(text: str) -> ast.Module:
    """Return the syntax tree of Python source, in any thread. Raises `SyntaxError`, and `ValueError` for null bytes."""
    with _parsing:
        return ast.parse(text)


def tree_of_function(function: Callable[..., Any]) -> tuple[ast.Module, int] | None:
    """Return the syntax tree of a function's source and its first line; None without source in Python."""
    import inspect
    from textwrap import dedent
    from tokenize import TokenError

    try:
        lines, first = inspect.getsourcelines(function)
        return syntax_tree(dedent("".join(lines))), first
    except (OSError, SyntaxError, TokenError, TypeError, ValueError):
        # A kernel of another language may have brackets in its comments that Python would have to close.
        return None

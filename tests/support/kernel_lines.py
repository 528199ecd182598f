"""The lines of a kernel that errors and findings name, found by their text."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any


def line_of(function: Callable[..., Any], text: str) -> int:
    """The number of the first line of a function that contains the text."""
    lines, first = inspect.getsourcelines(function)
    return next(number for number, line in enumerate(lines, first) if text in line)


def at(function: Callable[..., Any], text: str) -> str:
    """The same, as findings name it: `test_file.py:12`."""
    return f"{Path(inspect.getfile(function)).name}:{line_of(function, text)}"

"""Standard output is for JSON alone with `--json`: what the user's own code prints goes to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import TextIO

_STDOUT, _STDERR = 1, 2
# Undoes the redirection, if there is one.
_redirected = ExitStack()


@contextmanager
def reserved_for_json() -> Iterator[None]:
    """Send what kernels and host programs print to standard error, until the JSON is printed."""
    with _redirected:
        if _is_descriptor(sys.stdout, _STDOUT) and _is_descriptor(sys.stderr, _STDERR):
            # Host programs in C++ and other processes write to the descriptor.
            sys.stdout.flush()
            original = os.dup(_STDOUT)
            os.dup2(_STDERR, _STDOUT)
            _redirected.callback(_restore, original)
        _redirected.enter_context(redirect_stdout(sys.stderr))
        yield


def release() -> None:
    """Print to standard output again."""
    _redirected.close()


def _restore(original: int) -> None:
    os.dup2(original, _STDOUT)
    os.close(original)


def _is_descriptor(stream: TextIO, number: int) -> bool:
    try:
        return stream.fileno() == number
    except (AttributeError, OSError, ValueError):  # a stream of a test or a notebook
        return False

"""Silence of one thread, for runs of a kernel whose output its user has seen before."""

from __future__ import annotations

import io
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

# What is redirected belongs to the process: threads that end in another order would restore each other's.
_one_at_a_time = threading.RLock()


@contextmanager
def silent() -> Iterator[None]:
    """Drop what this thread prints, and warnings. What other threads print is printed."""
    with (
        _one_at_a_time,
        warnings.catch_warnings(action="ignore"),
        redirect_stdout(_OfOtherThreads(sys.stdout)),
    ):
        yield


class _OfOtherThreads(io.TextIOBase):
    """A stream that drops what the thread that made it writes."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._silent = threading.get_ident()

    def write(self, text: str) -> int:
        if self._stream is None or threading.get_ident() == self._silent:
            return len(text)
        return self._stream.write(text)

    def flush(self) -> None:
        if self._stream is not None and threading.get_ident() != self._silent:
            self._stream.flush()

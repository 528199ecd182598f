"""Worker processes: they leave Ctrl-C to their parent, and end with it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from loky.process_executor import ProcessPoolExecutor

_POLL_S = 0.2  # polling interval for the end of the parent


def worker_pool(workers: int) -> ProcessPoolExecutor:
    """Return a pool, whose first task should be submitted inside `without_interrupts()`."""
    return ProcessPoolExecutor(workers, initializer=_begin, initargs=(os.getpid(),))


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Ignore SIGINT while workers start: they inherit this, so that Ctrl-C reaches only this process."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may change what signals do
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _begin(parent: int) -> None:
    """Initialise a worker: ignore SIGINT, and exit with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "getppid"):
        threading.Thread(target=_exit_with_parent, args=(parent,), name="mlusim-follow", daemon=True).start()


def _exit_with_parent(parent: int, leave: Callable[[int], Any] = os._exit) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    leave(1)

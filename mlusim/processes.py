"""Worker processes: they leave Ctrl-C to their parent, and end with it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

from loky.process_executor import ProcessPoolExecutor

from mlusim.errors import IN_COMMAND

_POLL_S = 0.2  # polling interval for the end of the parent


def worker_pool(workers: int) -> ProcessPoolExecutor:
    """Return a pool, whose first task should be submitted inside `without_interrupts()`."""
    return ProcessPoolExecutor(workers, initializer=_begin, initargs=(os.getpid(), IN_COMMAND.get()))


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back while workers start, so that it ends this process once they can be stopped, and not them.

    Workers inherit the mask of signals of the thread that starts them. Another thread of this process may still get the
    signal, so its handler waits, too. Windows has no such mask; there, a worker that is starting may get it.
    """
    mask: set[int | signal.Signals] | None = None
    if hasattr(signal, "pthread_sigmask"):
        resource_tracker.ensure_running()  # which, as it starts, clears the mask
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # Only the main thread may change what signals do, and gets them.
    is_main = threading.current_thread() is threading.main_thread()
    interrupts: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number)) if is_main else None
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGINT, handler)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if interrupts:
            signal.raise_signal(signal.SIGINT)


def _begin(parent: int, in_command: bool) -> None:  # noqa: FBT001 - an argument of an initialiser
    """Initialise a worker: ignore SIGINT, exit with the parent, and name options in errors as the parent does."""
    IN_COMMAND.set(in_command)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "getppid"):
        threading.Thread(target=_exit_with_parent, args=(parent,), name="mlusim-follow", daemon=True).start()


def _exit_with_parent(parent: int, exit_process: Callable[[int], Any] = os._exit) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    exit_process(1)

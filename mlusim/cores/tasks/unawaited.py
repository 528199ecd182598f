"""Coroutines that a kernel creates and never awaits: errors while it runs; after an error, they are closed.

Methods of the core have their own check (`cores.tasks.waiting`). For a kernel's own coroutine functions there are
two: while a kernel runs, coroutines of which Python warns that they were never awaited, as it discards them; and when a
task ends, coroutines in its variables that were never started. Not found: a coroutine in a reference cycle.
"""

from __future__ import annotations

import gc
import warnings
from inspect import CORO_CREATED, getcoroutinestate
from sys import _getframe
from types import CoroutineType, FrameType
from typing import Any

from mlusim.errors import NOTED, AwaitError
from mlusim.source_code import line_of, source_name

# The function of `warnings` that Python calls for a coroutine that was never awaited.
_WARN = "_warn_unawaited_coroutine"
# Each `await` in a `finally` survives one `close`.
_CLOSING_ATTEMPTS = 100


def never_awaited(name: str, file: str, line: int, *, dropped: bool = False) -> AwaitError:
    """Return the error about a coroutine created at a line, which may have ended already."""
    error = AwaitError(
        f"`{name}(...)` was never awaited, so it never ran: write `await {name}(...)`",
        f"{source_name(file)}:{line}",
        dropped=dropped,
    )
    error.source = file, line
    return error


class _DiscardWatch:
    """Python's function that warns of a coroutine that was never awaited, replaced: kernels make an error of it.

    Python calls it where the coroutine ends, and nothing can be raised there: the error is only created, and so noted
    (`NOTED`), and the next operation of its task raises it. Coroutines that the garbage collector finds may belong to
    an earlier run.
    """

    def __init__(self) -> None:
        self.warn: Any = None
        self.collecting = False

    def watch(self) -> None:
        """Replace the function, once per process; without effect on coroutines outside a run."""
        if self.warn is None:
            self.warn = vars(warnings).get(_WARN)
            vars(warnings)[_WARN] = self.warn_or_note
            gc.callbacks.append(self.collects)

    def collects(self, phase: str, _: object) -> None:
        """Called when the garbage collector starts and stops."""
        self.collecting = phase == "start"

    def warn_or_note(self, coroutine: CoroutineType[Any, Any, Any]) -> None:
        """Called for a coroutine that ends before it was started."""
        if NOTED.get() is None or self.collecting:
            if self.warn is not None:
                self.warn(coroutine)
            return
        frame = _getframe(1)
        never_awaited(coroutine.__name__, frame.f_code.co_filename, line_of(frame), dropped=True)


watch_discarded = _DiscardWatch().watch


def unstarted(frame: FrameType | None) -> list[CoroutineType[Any, Any, Any]]:
    """Return the coroutines in variables of a frame that were never started."""
    variables = frame.f_locals.values() if frame is not None else ()
    return [v for v in variables if isinstance(v, CoroutineType) and getcoroutinestate(v) == CORO_CREATED]


def close_forgotten(error: BaseException) -> None:
    """Close coroutines in the frames of an error that were created and never awaited.

    Otherwise Python would warn about them when the error is deleted, far from the run.
    """
    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in visited:
        visited.add(id(current))
        traceback = current.__traceback__
        while traceback is not None:
            _close_unstarted(traceback.tb_frame)
            traceback = traceback.tb_next
        current = current.__cause__ or current.__context__


def close_task(coroutine: Any) -> None:
    """Close a suspended kernel, even if it catches the exception."""
    suspended = coroutine
    while (frame := getattr(suspended, "cr_frame", None)) is not None:
        _close_unstarted(frame)
        suspended = suspended.cr_await
    for _ in range(_CLOSING_ATTEMPTS):
        try:
            coroutine.close()
        except Exception:  # noqa: BLE001, S112 - a `finally` on a board that has stopped must not hide why it stopped
            continue
        return


def _close_unstarted(frame: FrameType) -> None:
    for coroutine in unstarted(frame):
        coroutine.close()

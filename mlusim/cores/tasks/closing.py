"""Closing the coroutines of a run that an error has ended: kernels that wait, and calls that were never awaited."""

from __future__ import annotations

from types import FrameType
from typing import Any

from mlusim.cores.tasks.unawaited import unstarted

# Each `await` in a `finally` survives one `close`.
_CLOSING_ATTEMPTS = 100


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

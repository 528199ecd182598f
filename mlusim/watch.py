"""Watches a run from a second thread: stops a kernel that loops without issuing anything, shows progress."""

from __future__ import annotations

import ctypes
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from mlusim.errors import OperationLimitError
from mlusim.progress import Progress

if TYPE_CHECKING:
    from mlusim.cores.chip import Chip

_PERIOD_S = 0.25
_QUIET_PERIODS = 5


class _StallError(OperationLimitError):
    """Raised in the running thread, where Python gives no chance for arguments."""

    def __init__(self) -> None:
        super().__init__(
            "no operation issued for too long: a loop that neither issues nor awaits anything? "
            "Where the kernel's own Python needs more time, raise stall_s"
        )


class Watch:
    """A context manager around a run.

    Args:
        chip: what runs.
        stall_s: seconds without any event or operation after which the run is stopped.
        progress: show a bar on a terminal once the run has taken a second or two.
    """

    def __init__(self, chip: Chip, *, stall_s: float, progress: bool) -> None:
        self._chip = chip
        self._stall_s = stall_s
        self._progress = progress
        self._bar: Progress | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        self._stop.clear()
        self._bar = Progress(self._chip) if self._progress else None
        self._thread = threading.Thread(
            target=self._run, args=(threading.get_ident(),), name="mlusim-watch", daemon=True
        )
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, runner: int) -> None:
        seen: tuple[int, int] = (-1, -1)
        quiet_s = 0.0
        periods = 0
        try:
            while not self._stop.wait(_PERIOD_S):
                periods += 1
                now = (len(self._chip.log), self._chip.environment.now)
                quiet_s = quiet_s + _PERIOD_S if now == seen else 0.0
                seen = now
                if quiet_s >= self._stall_s:
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(runner), ctypes.py_object(_StallError))
                    # Once more, should the kernel catch it.
                    quiet_s = 0.0
                if self._bar is not None and periods >= _QUIET_PERIODS:
                    self._bar.show()
        finally:
            if self._bar is not None:
                self._bar.close()

"""The watchdog of a run, a second thread: it stops a kernel that issues nothing, and shows progress."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from sys import _current_frames
from typing import TYPE_CHECKING, Any

from mlusim.cores.tasks.kernel_errors import Abandoned
from mlusim.errors import OperationLimitError
from mlusim.host.run_progress import RunProgress
from mlusim.host.stall_errors import errors_arrived, in_run, raise_in, stall_errors, stop_raising
from mlusim.source_code import package_of

if TYPE_CHECKING:
    from mlusim.cores.machine.chip import Chip

_PERIOD_S = 0.25
_QUIET_PERIODS = 5
_AGAIN_S = 1.0
# Packages whose functions wait for the author: debuggers, and prompts of Python.
_PROMPTS = frozenset(
    {"bdb", "pdb", "ipdb", "pudb", "debugpy", "pydevd", "_pydevd_bundle", "_pydevd_frame_eval"}
    | {"code", "IPython", "bpython", "ptpython"}
)


def _at_prompt(thread: int) -> bool:
    """Return whether a kernel waits for its author: a function of a debugger or a prompt is above SimPy's on the stack.

    Those below SimPy's, such as IPython's in a notebook, do not wait.
    """
    frame = _current_frames().get(thread)
    while frame is not None and (package := package_of(frame)) != "simpy":
        if package in _PROMPTS:
            return True
        frame = frame.f_back
    return False


class Watchdog:
    """A context manager around a run.

    Args:
        chip: the chip that runs.
        stall_s: seconds without any event or operation after which the run is stopped.
        progress: show a progress bar on a terminal once the run has taken a second or two.
    """

    def __init__(self, chip: Chip, *, stall_s: float, progress: bool) -> None:
        self._chip = chip
        self._stall_s = stall_s
        self._progress = progress
        self._bar: RunProgress | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._trace: Any = None

    def __enter__(self) -> None:
        self._trace = sys.gettrace()
        self._stop.clear()
        self._bar = RunProgress(self._chip) if self._progress else None
        self._thread = threading.Thread(
            target=self._run, args=(threading.get_ident(),), name="mlusim-watch", daemon=True
        )
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        has_arrived = False
        while not has_arrived:
            # An error that was raised while the kernel ended arrives here. It must arrive: withdrawn, it would leave
            # CPython 3.11 in search of it for good, slowly, and without end under a profiler.
            with suppress(OperationLimitError, Abandoned):
                self._stop.set()
                if self._thread is not None:
                    self._thread.join()
                has_arrived = errors_arrived()
        stop_raising(self._trace)

    def _run(self, runner: int) -> None:
        # The errors to raise, made when the run stalls: classes cost as much as a small run.
        stalls: list[type[BaseException]] = []
        progress: tuple[int, int, int] = (-1, -1, -1)
        quiet_s = 0.0
        periods = 0
        try:
            while not self._stop.wait(_PERIOD_S):
                periods += 1
                now = (len(self._chip.log), self._chip.skipped, self._chip.environment.now)
                # Time at a prompt does not count; the full `stall_s` starts over when the kernel continues.
                quiet_s = quiet_s + _PERIOD_S if now == progress and not _at_prompt(runner) else 0.0
                progress = now
                if quiet_s >= self._stall_s and in_run(_current_frames().get(runner)):
                    stalls = stalls or list(stall_errors(self._stall_s))
                    stall = stalls.pop(0) if len(stalls) > 1 else stalls[0]
                    raise_in(runner, stall)
                    # A kernel that goes on regardless gets the next one soon.
                    quiet_s = max(quiet_s - _AGAIN_S, 0.0)
                if self._bar is not None and periods >= _QUIET_PERIODS:
                    self._bar.show()
        finally:
            if self._bar is not None:
                self._bar.close()

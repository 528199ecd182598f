"""The watchdog of a run, a second thread: it stops a kernel that issues nothing, and shows progress."""

from __future__ import annotations

import ctypes
import sys
import threading
from contextlib import suppress
from sys import _current_frames, _getframe
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from mlusim.cores.kernel_errors import Abandoned
from mlusim.errors import OperationLimitError
from mlusim.host.run_progress import RunProgress

if TYPE_CHECKING:
    from mlusim.cores.chip import Chip

_PERIOD_S = 0.25
_QUIET_PERIODS = 5
_AGAIN_S = 1.0
# Packages whose functions wait for the author: debuggers, and prompts of Python.
_PROMPTS = frozenset(
    {"bdb", "pdb", "ipdb", "pudb", "debugpy", "pydevd", "_pydevd_bundle", "_pydevd_frame_eval"}
    | {"code", "IPython", "bpython", "ptpython"}
)

# Python 3.12's way to call a function before the lines of some functions. Our number is one without an assigned
# purpose.
_monitoring: Any = getattr(sys, "monitoring", None)
_TOOL, _NAME = 4, "mlusim"
# By thread: what its kernel, which has stalled and goes on, meets at each line. The functions that are followed for it.
_stalled: dict[int, type[BaseException]] = {}
_monitored: list[CodeType] = []


def _stall_errors(stall_s: float) -> tuple[type[BaseException], type[BaseException]]:
    """Return the exceptions to raise in the running thread: the second one is used if the kernel catches the first.

    `PyThreadState_SetAsyncExc` needs a class, which is instantiated without arguments.
    """

    class StallError(OperationLimitError):
        def __init__(self) -> None:
            super().__init__(
                f"no operation issued for {stall_s:g} s: a loop that neither issues nor awaits anything? "
                "If the kernel's own Python needs more time, raise stall_s"
            )

    class StallAbandoned(Abandoned):
        error = StallError()

        def __init__(self) -> None:
            # Runs in the kernel's thread. A kernel that catches everything meets the next one at its next line, also in
            # its handlers, until it ends.
            _raise_at_lines(StallAbandoned)

    return StallError, StallAbandoned


def _raise_at_lines(error: type[BaseException]) -> None:
    """Raise `error` before each next line of the kernel's functions: those above SimPy's on the stack."""
    frame: FrameType | None = _getframe(1)
    if not _in_run(frame):
        return
    frames = []
    while frame is not None and (module := _package(frame)) != "simpy":
        if module != "mlusim":
            frames.append(frame)
        frame = frame.f_back
    if _monitoring is not None and _monitoring.get_tool(_TOOL) in {None, _NAME}:
        _monitor(error, frames)
        return

    def again(*event: Any) -> None:
        del event
        raise error

    sys.settrace(_ignore)
    for frame in frames:
        frame.f_trace = again


def _monitor(error: type[BaseException], frames: list[FrameType]) -> None:
    """As `_raise_at_lines`, for Python 3.12 and later, which stops tracing once a tracing function raises."""
    _stalled[threading.get_ident()] = error
    if _monitoring.get_tool(_TOOL) is None:
        _monitoring.use_tool_id(_TOOL, _NAME)
        _monitoring.register_callback(_TOOL, _monitoring.events.LINE, _at_line)
    for frame in frames:
        _monitored.append(frame.f_code)
        _monitoring.set_local_events(_TOOL, frame.f_code, _monitoring.events.LINE)


def _at_line(*line: Any) -> None:
    del line
    # The same function may be running in another thread.
    error = _stalled.get(threading.get_ident())
    if error is not None:
        raise error


def _stop_raising() -> None:
    """Undo `_raise_at_lines` in the thread whose run has ended."""
    if _stalled.pop(threading.get_ident(), None) is None or _stalled:
        return
    while _monitored:
        _monitoring.set_local_events(_TOOL, _monitored.pop(), 0)
    _monitoring.free_tool_id(_TOOL)


def _in_run(frame: FrameType | None) -> bool:
    """Return whether a kernel is running: SimPy's loop of events is on the stack."""
    while frame is not None:
        if _package(frame) == "simpy":
            return True
        frame = frame.f_back
    return False


def _errors_arrived() -> bool:
    """Return True, unless an error is on its way: it arrives when a function is called."""
    return True


def _ignore(*event: Any) -> None:
    """Trace no further functions."""
    del event


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _at_prompt(thread: int) -> bool:
    """Return whether a kernel waits for its author: a function of a debugger or a prompt is above SimPy's on the stack.

    Those below SimPy's, such as IPython's in a notebook, do not wait.
    """
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - Python has no other way to the frames
    while frame is not None and (package := _package(frame)) != "simpy":
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        ended = False
        while not ended:
            # An error that was raised while the kernel ended arrives here. It must arrive: withdrawn, it would leave
            # CPython 3.11 in search of it for good, slowly, and without end under a profiler.
            with suppress(OperationLimitError, Abandoned):
                self._stop.set()
                if self._thread is not None:
                    self._thread.join()
                ended = _errors_arrived()
        _stop_raising()
        if sys.gettrace() is _ignore:
            sys.settrace(self._trace)

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
                if quiet_s >= self._stall_s and _in_run(_current_frames().get(runner)):
                    stalls = stalls or list(_stall_errors(self._stall_s))
                    stall = stalls.pop(0) if len(stalls) > 1 else stalls[0]
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(runner), ctypes.py_object(stall))
                    # A kernel that goes on regardless gets the next one soon.
                    quiet_s = max(quiet_s - _AGAIN_S, 0.0)
                if self._bar is not None and periods >= _QUIET_PERIODS:
                    self._bar.show()
        finally:
            if self._bar is not None:
                self._bar.close()

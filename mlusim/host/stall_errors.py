"""The errors that end a kernel which issues nothing, raised in its thread by another one.

A kernel that catches everything meets the next error at its next line, also in its handlers, until it ends.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from sys import _getframe
from types import CodeType, FrameType
from typing import Any

from mlusim.cores.tasks.kernel_errors import Abandoned
from mlusim.errors import OperationLimitError
from mlusim.source_code import line_of, package_of, source_name

# Python 3.12's way to call a function before the lines of some functions. Our number is one without an assigned
# purpose.
_monitoring: Any = getattr(sys, "monitoring", None)
_TOOL, _NAME = 4, "mlusim"
# By thread, the error that its stalled kernel gets at each line; and the functions whose lines are watched for that.
_stalled: dict[int, type[BaseException]] = {}
_monitored: list[CodeType] = []


def stall_errors(stall_s: float) -> tuple[type[BaseException], type[BaseException]]:
    """Return the exceptions to raise in the running thread: the second one is used if the kernel catches the first.

    `raise_in` needs a class, which is instantiated without arguments.
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
            # Runs in the kernel's thread.
            _raise_at_lines(StallAbandoned)

    return StallError, StallAbandoned


def _raise_at_lines(error: type[BaseException]) -> None:
    """Raise `error` before each next line of the kernel's functions: those above SimPy's on the stack."""
    frame: FrameType | None = _getframe(1)
    if not in_run(frame):
        return
    frames = []
    while frame is not None and (module := package_of(frame)) != "simpy":
        if module != "mlusim":
            frames.append(frame)
        frame = frame.f_back
    if _monitoring is not None and _monitoring.get_tool(_TOOL) in {None, _NAME}:
        _monitor(error, frames)
        return

    def raise_error(*event: Any) -> None:
        del event
        raise error

    sys.settrace(_ignore)
    for frame in frames:
        frame.f_trace = raise_error


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


def stop_raising(trace: Any) -> None:
    """Undo `_raise_at_lines` in the thread whose run has ended; `trace`: its tracing function before the run."""
    if sys.gettrace() is _ignore:
        sys.settrace(trace)
    if _stalled.pop(threading.get_ident(), None) is None or _stalled:
        return
    while _monitored:
        _monitoring.set_local_events(_TOOL, _monitored.pop(), 0)
    _monitoring.free_tool_id(_TOOL)


def raise_in(thread: int, error: type[BaseException]) -> None:
    """Raise an error in a thread, at its next call of a function or its next iteration of a loop."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


def errors_arrived() -> bool:
    """Return True, unless an error is on its way: it arrives when a function is called."""
    return True


def in_run(frame: FrameType | None) -> bool:
    """Return whether a kernel is running: SimPy's loop of events is on the stack."""
    while frame is not None:
        if package_of(frame) == "simpy":
            return True
        frame = frame.f_back
    return False


def _ignore(*event: Any) -> None:
    """Trace no further functions."""
    del event


def line_of_the_host() -> str:
    """Return the line of the program that calls mlusim, such as `main.py:31`; empty if there is none."""
    frame: FrameType | None = _getframe(1)
    while frame is not None and package_of(frame) == "mlusim":
        frame = frame.f_back
    return "" if frame is None else f"{source_name(frame.f_code.co_filename)}:{line_of(frame)}"

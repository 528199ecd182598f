"""Running a program in a separate process, so that memory errors do not affect the calling process.

The process is forked after the program is loaded, so addresses are the same in both.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mlusim.errors import MlusimError

if TYPE_CHECKING:
    from mlusim.bangc.host.program import Program


# Not the number of a signal.
_NONE = (1 << 64) - 1


def run_apart(program: Program, work: Callable[[], int]) -> int:
    """Call `work`, which runs the program, in a separate process; returns its result.

    Raises the exception that it raises, or an error at the program's line if a signal ends the process.
    """
    runtime = program.module.runtime
    # Shared with the other process, which writes the cause of its end there.
    runtime.fault.number, runtime.fault.pc = _NONE, 0
    sys.stdout.flush()
    sys.stderr.flush()
    receiving, sending = os.pipe()
    with warnings.catch_warnings():
        # Library threads of this process are idle; none of them holds a lock that the other process needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        os.close(receiving)
        runtime.library.mlusim_fault(1)
        _work(work, sending)
    os.close(sending)
    with os.fdopen(receiving, "rb") as stream:
        content = stream.read()
    status = _wait(child)
    if content:
        outcome = pickle.loads(content)  # noqa: S301 - from our own process
        if isinstance(outcome, int):
            return outcome
        raise outcome
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise program.ended_by(number)
    if runtime.fault.number != _NONE:
        raise program.fault_error()
    return os.WEXITSTATUS(status)


def _work(work: Callable[[], int], sending: int) -> None:
    """In the new process: call it, send the result, and exit."""
    outcome: Any
    try:
        outcome = work()
    except (MlusimError, KeyboardInterrupt) as error:
        outcome = error
    except BaseException as error:  # noqa: BLE001 - it crosses to the other process
        outcome = (
            error if isinstance(error, OSError | MemoryError) else RuntimeError(f"{type(error).__name__}: {error}")
        )
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    with os.fdopen(sending, "wb") as pipe:
        pipe.write(_pickled(outcome))
    # Exit through C, which flushes the streams of the program.
    ctypes.CDLL(None).exit(0)


def _pickled(outcome: Any) -> bytes:
    try:
        content = pickle.dumps(outcome)
        pickle.loads(content)  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - an error that carries what cannot cross, or of a class made for this run
        base = next(base_class for base_class in type(outcome).__mro__ if "<locals>" not in base_class.__qualname__)
        content = pickle.dumps(base(*outcome.args))
    return content


def _wait(child: int) -> int:
    while True:
        try:
            return os.waitpid(child, 0)[1]
        except InterruptedError:
            continue

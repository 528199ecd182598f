"""Test loads of compiled files: static initializers run on loading, and may end the process."""

from __future__ import annotations

import os
import signal
import warnings
from pathlib import Path

from mlusim.bangc.execution.image import Image, Room, Runtime, load_runtime
from mlusim.bangc.runtime_layout import KINDS
from mlusim.errors import CompileError

_LIMIT_S = 20
_REFUSED, _EXITED = 90, 91


def check_that_it_loads(path: Path, binary: Path, runtime: Path) -> None:
    """Load a new binary once in a separate process. Raises `CompileError` if that process does not survive."""
    library = load_runtime(runtime)
    with warnings.catch_warnings():
        # The other process only loads and ends: it needs no lock that a thread of this one may hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        _load(library, binary)
    status = os.waitpid(child, 0)[1]
    initializers = "static initializers run when a file is loaded, and those of this one"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        died = (
            f"do not end within {_LIMIT_S} s" if number == signal.SIGALRM else f"end with {signal.Signals(number).name}"
        )
        raise CompileError(
            f"{path.name}: {initializers} {died}: check the constructors of objects outside functions; each core has "
            "such objects of its own, whose constructors call CNRT without effect; call it in main"
        )
    if os.WEXITSTATUS(status) not in (0, _REFUSED):
        raise CompileError(f"{path.name}: {initializers} call exit or abort: only main may")


def _load(library: Runtime, binary: Path) -> None:
    """Run in the other process: silent, with an alarm; does not return."""
    status = _EXITED
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGBUS, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(_LIMIT_S)
        Image(library, binary, [Room(1) for _ in KINDS], Room(1))
        status = 0
    except CompileError:
        status = _REFUSED  # the parent process gets the same error, with its message
    finally:
        os._exit(status)

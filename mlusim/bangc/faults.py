"""What ends a kernel before its time: wild addresses, signals, loops without end, `abort`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mlusim.bangc.image import ARENA_BYTES, LEFT, PLACED, SIGNAL, WILD
from mlusim.bangc.lines import raise_at
from mlusim.errors import AccessError, KernelError, MissingDataError, OperationLimitError
from mlusim.units import group_digits

if TYPE_CHECKING:
    from mlusim.bangc.bridge import Bridge
    from mlusim.bangc.image import Runtime
    from mlusim.cores.core import Core

_LIMIT_S = 20


def limit_ticks(core: Core) -> int:
    """Seconds of processor time that C++ may run without a word."""
    del core
    return _LIMIT_S


@contextmanager
def guarded(runtime: Runtime) -> Iterator[None]:
    """Take the signals of faults while a kernel runs."""
    runtime.library.mlusim_guard(1)
    try:
        yield
    finally:
        runtime.library.mlusim_guard(0)


def print_text(bridge: Bridge) -> None:
    """What the kernel prints."""
    sys.stdout.write(bridge.text(bridge.image.words[5 + 32]))


def raise_fault(bridge: Bridge, why: int, function: str) -> NoReturn:
    """Raise the error of a fault at the C++ line."""
    first, second, third = (bridge.image.words[5 + 32 + k] for k in range(3))
    file, line, name = str(bridge.module.path), 1, function
    if why == WILD:
        file, line, name = bridge.module.line_of(second - bridge.image.base) or (file, line, name)
        error: Exception = _wild(bridge, first, third)
    elif why == SIGNAL:
        file, line, name = bridge.module.line_of(third - bridge.image.base) or (file, line, name)
        error = _signal(bridge, first, second)
    elif why == LEFT:
        kind, line = first & 0xFF, first >> 8
        file = bridge.text(third) if third else file
        error = KernelError(f"assertion failed: {bridge.text(second)}" if kind else "the kernel called abort()")
    elif why == PLACED:
        error = KernelError(f"{bridge.text(second)}: an array with a memory space in a function that the host calls")
    else:
        error = KernelError(f"the kernel ended with {why}")
    del name
    raise_at(file, line, function, error)


def _wild(bridge: Bridge, address: int, flags: int) -> Exception:
    write, size = flags & 1, flags >> 1
    verb = "writes" if write else "reads"
    for kind, base in enumerate(bridge.bases):
        if 0 <= address - base < ARENA_BYTES:
            memory = ("NRAM", "WRAM", "SRAM", "LDRAM")[kind]
            room = bridge.image.rooms[kind]
            used = room.arena.used if room else 0
            return AccessError(
                f"plain C++ {verb} {size} B at byte {group_digits(address - base)} of the {memory} of this core, whose "
                f"arrays end at byte {group_digits(used)}"
            )
    try:
        allocation, offset = bridge.locate(address)
    except AccessError as error:
        return AccessError(f"plain C++ {verb} {size} B: {error.message}")
    if allocation.buffer is None:
        return MissingDataError(
            f"plain C++ {verb} {allocation.name} at byte {group_digits(offset)}, which has a size but no bytes in a "
            "timing-only run: upload it with its bytes (keep_data=True), or run with data"
        )
    if write and allocation.read_only and offset + size <= allocation.nbytes:
        return AccessError(
            f"plain C++ writes {allocation.name}, which is an input and inputs are never written; write to an output "
            "or a buffer of your own"
        )
    return AccessError(
        f"plain C++ {verb} {size} B at byte {group_digits(offset)} of {allocation.name}, which has "
        f"{group_digits(allocation.nbytes)} B"
    )


def _signal(bridge: Bridge, number: int, address: int) -> Exception:
    record: Any = bridge.image.record
    if number == signal.SIGVTALRM:
        return OperationLimitError(
            f"the kernel's C++ ran {record.limit_ticks} s of processor time without calling the simulator: an endless "
            "loop?"
        )
    if number in (signal.SIGSEGV, signal.SIGBUS):
        stack, size = bridge.stack()
        if stack <= address < stack + (1 << 16):
            return AccessError(
                f"stack overflow: the stack of a task has {group_digits(size)} B; make local arrays smaller, or give "
                "them a memory space"
            )
        return AccessError(f"segmentation fault: the kernel touches {bridge.wild_text(address)}")
    if number == signal.SIGFPE:
        return KernelError("division by zero, or of the least integer by -1: the board gives no defined result")
    if number == signal.SIGABRT:
        return KernelError("the kernel called abort()")
    name = signal.Signals(number).name
    return KernelError(f"the kernel stopped with {name}: {Path(bridge.module.path).name} did what C++ leaves undefined")

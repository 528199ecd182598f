"""Abnormal ends of compiled code: wild addresses, signals, endless loops, `abort`, exceptions."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from mlusim.bangc.calls.call_record import file_at, text_at
from mlusim.bangc.debug_lines import HEADERS, SourceLine, is_system
from mlusim.bangc.execution.file_variables import undefined_text
from mlusim.bangc.execution.image import too_many_arrays
from mlusim.bangc.lines import raise_at
from mlusim.bangc.runtime_layout import (
    ARENA_BYTES,
    GAP_BYTES,
    GUARD_BYTES,
    KINDS,
    LEFT,
    PLACED,
    SIGNAL,
    VALUES_WORD,
    WILD,
    Leave,
)
from mlusim.errors import AccessError, KernelError, MissingDataError, MlusimError, OperationLimitError
from mlusim.memory.allocation import input_rule
from mlusim.units import group_digits

if TYPE_CHECKING:
    from mlusim.bangc.execution.compiled_task import CompiledTask
    from mlusim.bangc.execution.image import Image, Runtime
    from mlusim.bangc.module import Module

# Limit in seconds of processor time of a kernel's C++, or of a program, between two calls.
KERNEL_LIMIT_S = 20
PROGRAM_LIMIT_S = 600
# Index of the first value in a call record.
FIRST = VALUES_WORD
# The distance below its stack that one function's local data may reach.
_FARTHEST = 1 << 30


@contextmanager
def guarded(runtime: Runtime) -> Iterator[None]:
    """Handle the signals of faults while compiled code runs."""
    runtime.library.mlusim_guard(1)
    try:
        yield
    finally:
        runtime.library.mlusim_guard(0)


def print_text(image: Image) -> None:
    """Print the output of compiled code."""
    sys.stdout.write(text_at(image.words[FIRST]))
    sys.stdout.flush()


def raise_fault(task: CompiledTask, why: int, function: str) -> NoReturn:
    """Raise the error of a kernel's fault at the C++ line."""
    raise_at(*fault_of(task, why, function))


def fault_of(task: CompiledTask, why: int, function: str) -> tuple[str, int, str, MlusimError]:
    """Return file, line, function and error of the last fault of any task, which is the kernel's, for `raise_at`."""
    image, module = task.image, task.module
    first, second, third = (image.words[FIRST + k] for k in range(3))
    location: SourceLine | None = None
    if why == WILD:
        location = fault_location(module, image)
        error: MlusimError = _wild_access_error(task, first, third)
        if _below_stack(image):
            error = AccessError(_overflow(image, "the kernel"))
    elif why == SIGNAL:
        location = fault_location(module, image)
        error = signal_error(image, "the kernel", KERNEL_LIMIT_S, task.wild_text)
    elif why == LEFT:
        error, location = leave_error(module, image, "the kernel")
    elif why == PLACED:
        error = KernelError(f"{text_at(second)}: an array with a memory space in a function that the host calls")
    else:
        error = KernelError(f"the kernel ended with {why}")
    # Without a line of its own, such as that of a call to address 0: the line of the launch, or of the entry.
    entry = task.issuer.task.job.launch.kernel.__code__
    file, line = location or (entry.co_filename, entry.co_firstlineno)
    return file, line, function, task.explained(error, faults=why in (WILD, SIGNAL, LEFT))


def exit_on_memory_core(task: CompiledTask, function: str) -> bool:
    """Return whether what a memory core calls is `exit`; if so, add a hint.

    ASSUMED: it ends only the memory core's task, whatever its status, because shipped kernels of the vendor do it when
    they compare values that a memory core does not have.
    """
    kind, text, file = (task.image.words[FIRST + k] for k in range(3))
    if kind & 0xFF != Leave.EXIT:
        return False
    task.note_exit(text_at(text), task.line(file, kind >> 8, function))
    return True


def leave_error(module: Module, image: Image, who: str) -> tuple[MlusimError, SourceLine | None]:
    """Return the error of a call of `mlusim_leave`, and its line."""
    first, second, third = (image.words[FIRST + k] for k in range(3))
    kind, line = first & 0xFF, first >> 8
    text = text_at(second)
    location = (file_at(third), line) if line else fault_location(module, image)
    if kind == Leave.CALLED:
        lines = dict.fromkeys(place for place in active_lines(module, image) if not is_system(place[0]))
        # The entry's own line comes first, then that of its caller.
        location = next(iter([*lines][1:]), location)
    words = {
        Leave.ABORT: f"{who} called abort()",
        Leave.ASSERTION: f"assertion failed: {text}",
        Leave.EXIT: f"{who} called exit({text}): only a program's main may",
        Leave.EXCEPTION: f"{who} threw an exception that nothing caught: {text}",
        Leave.UNDEFINED: f"{who} called {text}, which no file defines: name its source file too",
        Leave.HEAP: f"{who} calls {text}: a kernel has no heap, nor what needs one, as std::vector; declare an array",
        Leave.TOO_MANY: too_many_arrays(text),
        Leave.CALLED: f"{who} calls {text}, which is a kernel: launch it with {text}<<<dim, type, queue>>>(...)",
        Leave.INVOKED: f"{who} invokes {text}",
        Leave.OTHER_MEMORY: f"{who} calls {text}",
        Leave.UNREACHABLE: f"{who} reached code that is marked as unreachable",
        Leave.STACK: f"{who} wrote beyond a local array and over its own stack, in the function of this line or below",
    }
    if kind == Leave.HEAP and text == "throw":
        return KernelError(f"{who} throws an exception: kernels have none; return, or write a status"), location
    if kind == Leave.OUTSIDE:
        return AccessError(f"{who} {text}; check the index"), location
    return KernelError(words[Leave(kind)]), location


def fault_location(module: Module, image: Image) -> SourceLine | None:
    """Return the line of the fault: of the instruction, or of the innermost active call in the user's code."""
    lines = active_lines(module, image)
    return next((line for line in lines if not is_system(line[0])), lines[0] if lines else None)


def active_lines(module: Module, image: Image) -> list[SourceLine]:
    """Return the line of the fault and those of the active calls, outside our headers, the innermost first."""
    fault = image.runtime.fault
    # The runtime's own code runs on behalf of an access of the user's code.
    last = fault.accessed if image.runtime.has(fault.pc) else fault.pc
    # Active calls, then words of the stack that may be return addresses; only these if it was overwritten.
    returns = (word - image.base - 1 for word in fault.words[: fault.count] if 0 < word - image.base < image.size)
    places = (location_of(module, offset) for offset in ((last - image.base) if last else -1, *returns))
    return [place for place in places if place is not None]


def location_of(module: Module, offset: int) -> SourceLine | None:
    """Return the line of an address of the binary outside our headers; preferably in the user's code."""
    location = module.line_of(offset)
    return None if location is None or location[0].startswith(HEADERS) else location[:2]


def _wild_access_error(task: CompiledTask, address: int, flags: int) -> MlusimError:
    write, size = flags & 1, flags >> 1
    verb = "writes" if write else "reads"
    for kind, base in enumerate(task.arrays.bases):
        if 0 <= address - base < ARENA_BYTES:
            return AccessError(
                f"plain C++ {verb} {size} B{in_memory(task.image, kind, address - base)}; check the index"
            )
    try:
        allocation, offset = task.locate(address)
    except AccessError as error:
        wild = AccessError(f"plain C++ {verb} {size} B: {error.message}")
        wild.__context__ = error  # raised later, and then instead of the other
        return wild
    if allocation.buffer is None:
        return MissingDataError(
            f"plain C++ {verb} {allocation.name} at byte {group_digits(offset)}, which has a size but no bytes in a "
            "timing-only run: upload it with its bytes (keep_data=True), or run with data"
        )
    if write and allocation.read_only and offset + size <= allocation.nbytes:
        return AccessError(f"plain C++ writes {allocation.name}, which is an input: {input_rule(allocation.name)}")
    return AccessError(
        f"plain C++ {verb} {size} B at byte {group_digits(offset)} of {allocation.name}, which has "
        f"{group_digits(allocation.nbytes)} B; check the index"
    )


def in_memory(image: Image, kind: int, offset: int) -> str:
    """Describe a byte of an arena outside all arrays, relative to the array before it, or the first one."""
    room, memory = image.rooms[kind], KINDS[kind].value.upper()
    arrays = room.arena.arrays[: room.arena.count] if room else []
    if not arrays:
        return f" of the {memory} of this core, where the file has no array"
    nearest = min(arrays, key=lambda array: max(array.offset - offset, offset - array.offset - array.size))
    name, size = f"{nearest.name.decode()} ({memory})", group_digits(nearest.size)
    if offset < nearest.offset:
        return f", {group_digits(nearest.offset - offset)} B before {name}"
    if offset - nearest.offset < 2 * nearest.size + GAP_BYTES:
        return f" at byte {group_digits(offset - nearest.offset)} of {name}, which has {size} B"
    return f", {group_digits(offset - nearest.offset - nearest.size)} B beyond {name}, the last array before it"


def signal_error(image: Image, who: str, limit_s: int, describe: Callable[[int], str]) -> MlusimError:
    """Return the error of a signal.

    Args:
        image: the image that received it.
        who: description of the running code.
        limit_s: seconds of processor time that it may run without a call.
        describe: describes an address.
    """
    fault = image.runtime.fault
    number, address, pc = int(fault.number), int(fault.address), int(fault.pc)
    if number == 0:
        return KernelError(
            f"{who} calls the board's runtime from a thread of its own: only main's thread may; prepare data in the "
            "thread, and call CNRT after its join"
        )
    if number == signal.SIGVTALRM:
        return OperationLimitError(
            f"{who} ran {limit_s} s of processor time without a call of the simulator: an endless loop?"
        )
    if number in (signal.SIGSEGV, signal.SIGBUS):
        return AccessError(_segmentation(image, who, address, pc, describe))
    words = {
        signal.SIGFPE: "division by zero, or of the least integer by -1: the board's result is undefined; test for it",
        signal.SIGILL: f"{who} reached undefined behaviour: a division by zero that the compiler saw",
        signal.SIGABRT: f"{who} was aborted by the C or C++ library, which says why on the terminal",
    }
    name = signal.Signals(number).name
    return KernelError(words.get(signal.Signals(number), f"{who} stopped with {name}: undefined behaviour"))


def _below_stack(image: Image) -> bool:
    """Return whether the stack's pointer was below the stack: a function has more local data than fits."""
    return image.stack - _FARTHEST < int(image.runtime.fault.sp) < image.stack + GUARD_BYTES


def _overflow(image: Image, who: str) -> str:
    return (
        f"stack overflow: {who} has a stack of {group_digits(image.stack_size)} B; make local arrays smaller, "
        "declare them with a memory space, or end a recursion"
    )


def _segmentation(image: Image, who: str, address: int, pc: int, describe: Callable[[int], str]) -> str:
    undefined = undefined_text(image.binary, address)
    if undefined:
        return f"{who} uses {undefined}"
    top = image.stack + image.stack_size
    if image.stack <= address < image.stack + GUARD_BYTES or _below_stack(image):
        return _overflow(image, who)
    if top - GUARD_BYTES <= address < top:
        return f"{who} wrote beyond a local array, and past the end of its stack"
    if address == pc or not pc:
        return (
            f"{who} jumped to address {pc:#x}, where there is no code: a function pointer that was never set, or "
            "a write beyond a local array over the stack"
        )
    return f"segmentation fault: {describe(address)}"

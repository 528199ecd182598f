"""Host programs: a file with `main` runs as on a host with a board, with CNRT on the simulated one.

The program's own code is native and takes no simulated time.
"""

from __future__ import annotations

import ctypes
import re
import signal
import struct
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlusim.bangc.calls.call_record import decode_call, file_at, set_result, text_at
from mlusim.bangc.calls.host_calls import ADDRESSES, FUNCTION_TYPES, OF_FLOATS
from mlusim.bangc.calls.intrinsics import intrinsics
from mlusim.bangc.compiler.undeclared_names import OWN
from mlusim.bangc.execution import faults
from mlusim.bangc.execution.file_variables import demangled, function_addresses, function_symbols
from mlusim.bangc.execution.image import Image, Room
from mlusim.bangc.execution.kernel import execute, gdram_map
from mlusim.bangc.host.argument_types import check_addresses
from mlusim.bangc.host.cnrt import Cnrt
from mlusim.bangc.lines import entry_function
from mlusim.bangc.runtime_layout import (
    ARENA_BYTES,
    FINISHED,
    KINDS,
    LEFT,
    NULL_BYTES,
    PRINT,
    SIGNAL,
    UNSYNCED,
    WILD,
    Leave,
)
from mlusim.errors import AccessError, InputError, KernelError, MlusimError
from mlusim.host.device import Device
from mlusim.units import group_digits

if TYPE_CHECKING:
    from mlusim.bangc.execution.entry_points import EntryPoint
    from mlusim.bangc.module import Module
    from mlusim.cores.core import Core

_LAUNCH = "__mlusim_launch"
_UNKNOWN = "__mlusim_unknown"
_MAIN = "main"
_SLOT = 16


class Program:
    """One run of a file's `main`.

    Attributes:
        module: the file as compiled for the host.
        device: the board that it used; its log contains everything that ran.
        status: return value of `main`.
    """

    def __init__(self, module: Module, device: Device, arguments: tuple[str, ...] = ()) -> None:
        self.module = module.host
        self.device = device
        self._of_board = module
        self.status = 0
        self._words = [text.encode() for text in (module.path.stem, *arguments)]
        self._cnrt = Cnrt(device, module.runtime)
        self._names = [intrinsic.name for intrinsic in intrinsics()]
        rooms: list[Room | None] = [Room(module.board.vector_alignment_bytes) for _ in KINDS]
        self._image = Image(module.runtime, self.module.binary, rooms, module.variables.room, host=True)

    def run(self) -> int:
        """Run `main`; returns its status. Raises the errors of kernels, and an error for a fault of the program."""
        point = self.module.points().get(_MAIN)
        if point is None:
            raise InputError(f"{self.module.path.name} has no main: name a kernel with --entry")
        with faults.guarded(self.module.runtime):
            why = self._initialize()
            if why == FINISHED:
                arguments = self._start(point)
                why = self._drive()
                del arguments
        if why == LEFT:
            self.status = int(text_at(self._image.words[faults.FIRST + 1]))
        self.device.synchronize()
        self._cnrt.waits.ended()
        return self.status

    def _initialize(self) -> int:
        """Run the static initializers; returns why they ended, as `_drive`."""
        image, library = self._image, self.module.runtime.library
        first, count = image.initializers
        image.record.limit_ticks = faults.PROGRAM_LIMIT_S
        self._set_ranges()
        library.mlusim_start(image.address, library.mlusim_initialize, first, count)
        with image.loading():
            return self._drive()

    def _drive(self) -> int:
        """Run the fibre until it ends: FINISHED, or LEFT by exit. Raises the error of another end."""
        image, runtime = self._image, self.module.runtime
        while True:
            why: int = runtime.resume(image.address)
            if why >= 0:
                self._call(why)
            elif why == PRINT:
                faults.print_text(image)
            elif why == UNSYNCED:
                self._touched()
            elif why == FINISHED or (why == LEFT and image.words[faults.FIRST] & 0xFF == Leave.EXIT):
                return why
            else:
                raise self._fault(why)

    def _start(self, point: EntryPoint) -> Any:
        """Prepare the fibre to call `main` with its arguments; returns objects that must live as long as it runs."""
        image = self._image
        texts = [ctypes.create_string_buffer(word) for word in self._words]
        vector = (ctypes.c_void_p * (len(texts) + 1))(*[ctypes.addressof(text) for text in texts], None)
        content = struct.pack("<i12xQ8x", len(texts), ctypes.addressof(vector))
        blob = ctypes.create_string_buffer(len(content) + _SLOT)
        start = (ctypes.addressof(blob) + _SLOT - 1) // _SLOT * _SLOT
        ctypes.memmove(start, content, len(content))
        library = self.module.runtime.library
        library.mlusim_start(image.address, image.base + point.body, image.base + point.function, start)
        return texts, vector, blob

    def _fault(self, why: int) -> BaseException:
        """Return the error that ended the program."""
        image, module = self._image, self.module
        first, second, third = (image.words[faults.FIRST + k] for k in range(3))
        if why == SIGNAL and first == signal.SIGINT:
            return KeyboardInterrupt()
        if why == SIGNAL:
            return self.fault_error()
        if why == LEFT:
            error: MlusimError
            error, location = faults.leave_error(module, image, _MAIN)
        elif why == WILD:
            location = faults.fault_location(module, image)
            error = AccessError(f"{'writes' if third & 1 else 'reads'} {self._address_text(first)}")
        else:
            name = text_at(second)
            remedy = "launch the kernel with name<<<dim, type, queue>>>(...) instead of calling it"
            error = KernelError(f"host code uses the array {name}, which is in a core's memory: {remedy}")
            location = faults.fault_location(module, image)
        return self._located(error, location)

    def _address_text(self, address: int) -> str:
        """Describe an address that the program must not use directly, and what to do instead."""
        for kind, room in enumerate(self._image.rooms):
            if room is not None and 0 <= address - room.base < ARENA_BYTES:
                place = faults.in_memory(self._image, kind, address - room.base)
                return f"memory of a core{place}: only kernels can; pass the values to a kernel in memory of cnrtMalloc"
        memory = self._cnrt.at(address)
        place = f"byte {group_digits(memory[1])} of {memory[0].allocation.name}" if memory else f"address {address:#x}"
        return f"{place} directly: it is on the board; copy it with cnrtMemcpy"

    def fault_error(self) -> MlusimError:
        """Return the error of the signal that ended it, in this process or a separate one."""
        error = faults.signal_error(self._image, _MAIN, faults.PROGRAM_LIMIT_S, _host_address)
        return self._located(error, faults.fault_location(self.module, self._image))

    def ended_by(self, number: int) -> MlusimError:
        """Return the error of a signal outside the program's code, with the line of its last call."""
        why = (
            " outside its own code: it has overwritten memory of the process, at this line or before, such as that "
            "beyond a block of the heap; check the sizes of malloc and new"
        )
        is_fault = number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)
        error = KernelError(f"{_MAIN} was ended by {signal.Signals(number).name}{why if is_fault else ''}")
        fault = self.module.runtime.fault
        return self._located(error, (file_at(fault.pc), int(fault.address)) if fault.pc else None)

    def _located(self, error: MlusimError, location: tuple[str, int] | None) -> MlusimError:
        file, line = location or (str(self.module.path), 0)
        error.locate(f"{_MAIN}, {Path(file).name}{f':{line}' if line else ''}", (file, line))
        return error

    def _call(self, number: int) -> None:
        """Call a function of the runtime, or launch a kernel."""
        image, name = self._image, self._names[number]
        file, line, values, codes = decode_call(image.words)
        # Shared with the other process, if a signal ends this one.
        fault = self.module.runtime.fault
        fault.pc, fault.address = values[10:12] if name == _LAUNCH else (file, line)
        location = (file_at(file) if file else str(self.module.path), line)
        try:
            if name == _LAUNCH:
                location = (file_at(values[10]), values[11])
                status = self._launch(*values)
            elif name == _UNKNOWN:
                location = (file_at(values[1]), values[2])
                raise KernelError(self.module.unknown_text(text_at(values[0])))
            else:
                addresses = ADDRESSES.get(name, ())
                count = len(values) - len(addresses)
                values, rooms = values[:count], values[count:]
                self._cnrt.rooms = [(values[k], room) for k, room in zip(addresses, rooms, strict=True)]
                function = self._cnrt.function(name)
                check_addresses(name, function, values, codes)
                if name not in OF_FLOATS:
                    values = [_as_integer(value) for value in values]
                self._cnrt.call = name, {values[k]: (k, codes[k]) for k in range(count)}
                self._cnrt.note(name, location, values)
                status = function(*values)
        except MlusimError as error:
            raise self._located(error, location) from error.__cause__
        set_result(image.words, status)
        self._set_ranges()

    def _touched(self) -> None:
        """Note that the program uses host memory that an asynchronous copy may still use."""
        address, counter, write = (self._image.words[faults.FIRST + k] for k in range(3))
        location = faults.location_of(self.module, counter - self._image.base) or (str(self.module.path), 0)
        self._cnrt.waits.touched(address, write=bool(write), location=location)
        self._set_ranges()

    def _set_ranges(self) -> None:
        record, in_flight = self._image.record, self._cnrt.waits.in_flight()
        cores = [(room.base, ARENA_BYTES, 0) for room in self._image.rooms if room is not None]
        ranges, record.range_count = self._cnrt.ranges([*cores, *in_flight])
        record.in_flight = len(in_flight)
        record.ranges, self._ranges = ctypes.cast(ranges, type(record.ranges)), ranges

    def _launch(  # noqa: PLR0917 - the call's own arguments
        self,
        name: int,
        function: int,
        body: int,
        x: int,
        y: int,
        z: int,
        kind: int,
        queue: int,
        content: int,
        size: int,
        file: int,
        line: int,
    ) -> int:
        module, base = self._of_board, self._image.base
        blob = ctypes.string_at(content, size)
        callee = self._kernel_name(text_at(name), function)
        plain_name = _plain_name(callee)
        if not body:
            raise InputError(f"{callee}<<<...>>> launches a null pointer: set it to a kernel first")
        if function and not self.module.is_kernel(function - base):
            raise InputError(
                f"{callee}<<<...>>>: {plain_name} is not a kernel of these files: define it with __mlu_entry__, or "
                "name its source file, too"
            )
        offset = self._on_board(callee, function - base) if function else 0
        caller = self._on_board(callee, body - base)

        async def task(core: Core) -> None:
            image, gdram = module.image(core), gdram_map(core.issuer.chip)
            gdram.freed = self._cnrt.freed
            await execute(core, module, plain_name, image, gdram, offset, caller, blob)

        kernel = entry_function(file_at(file), line, plain_name, task)
        kernel.__name__ = kernel.__qualname__ = callee
        if kind not in FUNCTION_TYPES:
            names = ", ".join(f"{name.capitalize()} ({number})" for number, name in FUNCTION_TYPES.items())
            problem = f"{callee}<<<...>>> with the function type {kind}"
            raise InputError(f"{problem}: choose one of cnrtFuncType{names}")
        launch = self.device.launch(kernel, dim=(x, y, z), kind=FUNCTION_TYPES[kind], queue=self._cnrt.queue(queue))
        self.device.log.launches[launch.index].launched_at = f"{Path(file_at(file)).name}:{line}"
        self._cnrt.queued.setdefault(queue, []).append(launch)
        self._cnrt.host_time.launched()
        self._cnrt.waits.launched(callee, (file_at(file), line), queue, blob, self._cnrt.regions(), launch.index)
        return 0

    def _on_board(self, callee: str, address: int) -> int:
        """Return the address in the board's binary of a function of the host's. Raises `InputError` for none."""
        if self.module is self._of_board:
            return address
        symbol = function_symbols(self.module.binary).get(address, "")
        if (other := function_addresses(self._of_board.binary).get(symbol)) is not None:
            return other
        raise InputError(
            f"{callee}<<<...>>>: only host code instantiates or defines it, so the board has no code for it: move the "
            "launch, or the kernel, out of `#ifndef __BANG_ARCH__`"
        )

    def _kernel_name(self, callee: str, function: int) -> str:
        """Return the name of what a launch calls; of a pointer, the name of the entry that it points to.

        The types of a template's instance are those of its symbol: `kernel<T>` may be launched by a template.
        """
        if not function:
            return callee
        address = function - self._image.base
        if instance := _instance(function_symbols(self.module.binary).get(address, "")):
            return instance
        names = {point.function: point.name for point in self.module.points().values()}
        entry = names.get(address, callee)
        return callee if _plain_name(entry) == _plain_name(callee) else entry


def _instance(symbol: str) -> str:
    """Return the name of a template's instance by its symbol, such as `kernel<float, 4>`; "" for another function."""
    text = demangled(symbol).replace("(anonymous namespace)::", "").replace(OWN, "")
    # Arguments such as `(Op)0` are in brackets too.
    match = re.match(r"void ([\w:]+<.+?>)\(", text)
    return match[1] if match else ""


def _plain_name(name: str) -> str:
    return name.split("<", maxsplit=1)[0].rsplit("::", maxsplit=1)[-1].strip()


def _host_address(address: int) -> str:
    if address < NULL_BYTES:
        return f"main uses address {address:#x}, a null pointer or near it"
    return f"main uses address {address:#x}, which is not memory of the program's; check the pointer and the index"


def run_program(module: Module, device: Device, arguments: tuple[str, ...] = ()) -> int:
    """Run the `main` of a compiled file on a device, in this process; returns its status."""
    return Program(module, device, arguments).run()


def _as_integer(value: Any) -> Any:
    """Return a float as C converts it to an integer, such as the size `n * 1.5`; what is not finite becomes 0."""
    return (int(value) if isfinite(value) else 0) if isinstance(value, float) else value

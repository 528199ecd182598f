"""Host programs: a file with `main` runs as it would on a host with a board, CNRT on the simulated one.

The program's own code is native and takes no simulated time. Copies and `cnrtQueueSync` first run what is queued.
"""

from __future__ import annotations

import ctypes
import signal
import struct
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlusim.bangc import faults
from mlusim.bangc.bridge import call_of, text_at, word_of
from mlusim.bangc.host_calls import ATTRIBUTES, STATUS
from mlusim.bangc.image import FINISHED, KINDS, LEFT, PRINT, SIGNAL, Image, Room
from mlusim.bangc.intrinsics import intrinsics
from mlusim.bangc.kernel import execute, gdram_map
from mlusim.bangc.lines import entry_function, raise_at
from mlusim.errors import AllocationError, InputError, KernelError, MlusimError
from mlusim.host.device import Device
from mlusim.units import PS_PER_US, group_digits

if TYPE_CHECKING:
    from mlusim.bangc.module import Module
    from mlusim.cores.core import Core
    from mlusim.memory.view import View

_KINDS = {1: "BLOCK", 4: "UNION1", 8: "UNION2", 16: "UNION4", 32: "UNION8", 64: "UNION16"}
_HANDLE = 0x10000
# Functions that do what another one does.
_SAME = {
    "cnrtQueueSync": "synchronized",
    "cnrtSyncDevice": "synchronized",
    "cnrtQueueQuery": "synchronized",
    "cnrtSyncQueue": "synchronized",
    "cnrtQueryQueue": "synchronized",
    "cnrtCreateQueue": "cnrtQueueCreate",
    "cnrtDestroyQueue": "cnrtQueueDestroy",
    "cnrtCreateNotifier": "cnrtNotifierCreate",
    "cnrtMallocHost": "cnrtHostMalloc",
    "cnQueueSync": "synchronized",
    "cnrtWaitNotifier": "synchronized",
    "cnrtQueryNotifier": "synchronized",
    "cnrtNotifierCreateWithFlags": "cnrtNotifierCreate",
    "cnDeviceGetCount": "cnrtGetDeviceCount",
    "cnCtxGetDevice": "cnrtGetDevice",
    "cnDeviceGetAttribute": "cnrtDeviceGetAttribute",
    "cnrtGetErrorName": "cnrtGetErrorStr",
}
_EXIT = 2


class Program:
    """One run of a file's `main`.

    Attributes:
        device: the board that it used; its log has everything that ran.
        status: what `main` returned.
    """

    def __init__(self, module: Module, device: Device, arguments: tuple[str, ...] = ()) -> None:
        self.module = module
        self.device = device
        self.status = 0
        self._arguments = arguments
        self._memory: dict[int, View] = {}
        self._host_memory: dict[int, Any] = {}
        self._queues: dict[int, Any] = {}
        self._queued: dict[int, list[Any]] = {}
        self._notifiers: dict[int, int | None] = {}
        self._handles = _HANDLE
        self._names = [one.name for one in intrinsics()]
        rooms: list[Room | None] = [Room(module.board.vector_alignment_bytes) for _ in KINDS]
        self._image = Image(module.runtime, module.binary, rooms, host=True)
        self._last_error = 0

    def run(self) -> int:
        """Run `main`; returns its status. Raises what a kernel raises, `KernelError` for a fault of the program."""
        point = self.module.points().get("main")
        if point is None:
            raise InputError(f"{self.module.path.name} has no main: name a kernel with --entry")
        image, runtime = self._image, self.module.runtime
        words = [self.module.path.stem, *self._arguments]
        texts = [ctypes.create_string_buffer(word.encode()) for word in words]
        vector = (ctypes.c_void_p * (len(words) + 1))(*[ctypes.addressof(text) for text in texts], None)
        blob = ctypes.create_string_buffer(struct.pack("<i12xQ8x", len(words), ctypes.addressof(vector)), 64)
        start = (ctypes.addressof(blob) + 15) // 16 * 16
        ctypes.memmove(start, bytes(blob)[:32], 32)
        image.record.limit_ticks = 1 << 40
        runtime.library.mlusim_start(image.address, image.base + point.body, image.base + point.function, start)
        with faults.guarded(runtime):
            while True:
                why = runtime.resume(image.address)
                if why >= 0:
                    self._call(why)
                elif why == PRINT:
                    sys.stdout.write(text_at(image.words[5 + 32]))
                elif why == FINISHED:
                    break
                elif why == LEFT:
                    self._left()
                    break
                else:
                    self._fault(why)
        self.device.synchronize()
        sys.stdout.flush()
        return self.status

    def _left(self) -> None:
        first, second, third = (self._image.words[5 + 32 + k] for k in range(3))
        kind, line = first & 0xFF, first >> 8
        if kind == _EXIT:
            self.status = int(text_at(second))
            return
        file = text_at(third) if third else str(self.module.path)
        raise_at(
            file,
            max(line, 1),
            "main",
            KernelError(f"main: {f'assertion failed: {text_at(second)}' if kind else 'abort()'}"),
        )

    def _fault(self, why: int) -> None:
        first, second, third = (self._image.words[5 + 32 + k] for k in range(3))
        if why != SIGNAL:
            raise KernelError(f"main stopped with {why}: an array with a memory space is used on the host")
        found = self.module.line_of(third - self._image.base)
        place = f" at {found[0]}:{found[1]}" if found else ""
        name = signal.Signals(first).name
        raise KernelError(f"main of {self.module.path.name} stopped with {name}{place}, address {second:#x}")

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _call(self, number: int) -> None:
        name = self._names[number]
        file, line, _, values = call_of(self._image.words)
        handler: Callable[..., int | float | None] | None = getattr(self, f"_{_SAME.get(name, name)}", None)
        place = (text_at(file) if file else str(self.module.path), line, "main")
        if name == "__mlusim_launch":
            handler, place = self._launch, (text_at(values[10]), values[11], "main")
        elif handler is None and name.startswith("cn"):
            handler = self._done
        if handler is None:
            raise_at(*place, KernelError(f"{name} in host code: it is an instruction of the board, for kernels"))
        try:
            given = handler(*values)
        except MlusimError as error:
            if error.where:
                raise
            raise_at(*place, error)
        self._image.words[4] = word_of(0 if given is None else given)

    def _done(self, *_: Any) -> int:
        return STATUS["cnrtSuccess"]

    def _write(self, address: int, content: bytes) -> None:
        if address:
            ctypes.memmove(address, content, len(content))

    def _handle(self) -> int:
        self._handles += 16
        return self._handles

    def _launch(  # noqa: PLR0913, PLR0917 - the call's own arguments
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
    ) -> None:
        module, base = self.module, self._image.base
        blob = ctypes.string_at(content, size)
        called = text_at(name)
        word = called.split("<")[0].split("::")[-1].strip()

        async def task(core: Core) -> None:
            gdram = gdram_map(core.issuer.chip)
            offset = function - base if function else 0
            await execute(core, module, word, module.image(core), gdram, offset, body - base, blob)

        kernel = entry_function(text_at(file), line, word, task)
        kernel.__name__ = kernel.__qualname__ = called
        if kind not in _KINDS:
            raise InputError(f"{called}<<<...>>> with function type {kind}: choose one of {sorted(_KINDS)}")
        made = self.device.launch(kernel, dim=(x, y, z), kind=_KINDS[kind], queue=self._queue(queue))
        self._queued.setdefault(queue, []).append(made)

    def _queue(self, handle: int) -> Any:
        if not handle:
            return None
        if handle not in self._queues:
            raise InputError(f"queue {handle:#x}: it is none that cnrtQueueCreate gave")
        return self._queues[handle]

    # -- memory

    def _cnrtMalloc(self, target: int, size: int) -> int:  # noqa: N802 - CNRT's names
        if size <= 0:
            return self._failed("cnrtErrorArgsInvalid")
        try:
            view = self.device.alloc(size, "uint8", f"device memory {len(self._memory)}", workspace=True)
        except AllocationError:
            return self._failed("cnrtErrorNoMem")
        address = int(view.allocation.bytes().ctypes.data)
        self._memory[address] = view
        self._write(target, struct.pack("<Q", address))
        return 0

    def _cnrtFree(self, address: int) -> int:  # noqa: N802
        if address:
            view = self._memory.pop(address, None)
            if view is None:
                raise InputError(f"cnrtFree of {address:#x}: it is no address that cnrtMalloc gave, or was freed")
            self.device.synchronize()
            self.device.free(view)
        return 0

    def _cnrtHostMalloc(self, target: int, size: int) -> int:  # noqa: N802
        memory = ctypes.create_string_buffer(max(size, 1))
        self._host_memory[ctypes.addressof(memory)] = memory
        self._write(target, struct.pack("<Q", ctypes.addressof(memory)))
        return 0

    def _cnrtFreeHost(self, address: int) -> int:  # noqa: N802
        self._host_memory.pop(address, None)
        return 0

    def _device_side(self, address: int, size: int, call: str) -> View | None:
        for base, view in self._memory.items():
            if base <= address < base + view.nbytes:
                if address + size > base + view.nbytes:
                    raise InputError(
                        f"{call} of {group_digits(size)} B at byte {group_digits(address - base)} of "
                        f"{view.allocation.name}, which has {group_digits(view.nbytes)} B"
                    )
                return view
        return None

    def _cnrtMemcpy(self, dst: int, src: int, size: int, direction: int) -> int:  # noqa: N802
        self.device.synchronize()
        target, source = self._device_side(dst, size, "cnrtMemcpy"), self._device_side(src, size, "cnrtMemcpy")
        sides = {0: (True, False), 1: (False, True), 2: (True, True), 3: (False, False)}.get(direction)
        if sides is not None and sides != (target is not None, source is not None):
            where = " from ".join("device memory" if one is not None else "host memory" for one in (target, source))
            words = ("HostToDev", "DevToHost", "DevToDev", "HostToHost")[direction]
            raise InputError(f"cnrtMemcpy says {words} but copies to {where}: correct the direction or the pointers")
        if size > 0:
            ctypes.memmove(dst, src, size)
        if target is not None:
            self.device.log.host_writes.add(target.allocation.identity)
        return 0

    def _cnrtMemcpyAsync(self, dst: int, src: int, size: int, queue: int, direction: int) -> int:  # noqa: N802
        del queue
        return self._cnrtMemcpy(dst, src, size, direction)

    def _cnrtMemcpyAsync_V2(self, dst: int, src: int, size: int, queue: int, direction: int) -> int:  # noqa: N802
        return self._cnrtMemcpyAsync(dst, src, size, queue, direction)

    def _cnrtMemset(self, dst: int, value: int, size: int) -> int:  # noqa: N802
        self.device.synchronize()
        target = self._device_side(dst, size, "cnrtMemset")
        if target is None:
            raise InputError(f"cnrtMemset of {dst:#x}: it is no device memory")
        ctypes.memset(dst, value & 0xFF, size)
        self.device.log.host_writes.add(target.allocation.identity)
        return 0

    def _cnrtMemsetAsync(self, dst: int, value: int, size: int, queue: int) -> int:  # noqa: N802
        del queue
        return self._cnrtMemset(dst, value, size)

    def _cnrtMemsetD8(self, dst: int, value: int, size: int) -> int:  # noqa: N802
        return self._cnrtMemset(dst, value, size)

    def _cnrtMemGetInfo(self, free: int, total: int) -> int:  # noqa: N802
        board = self.device.board
        used = sum(view.nbytes for view in self._memory.values())
        self._write(free, struct.pack("<Q", board.gdram_bytes - used))
        self._write(total, struct.pack("<Q", board.gdram_bytes))
        return 0

    # -- queues and notifiers

    def _cnrtQueueCreate(self, target: int) -> int:  # noqa: N802
        handle = self._handle()
        self._queues[handle] = self.device.queue()
        self._write(target, struct.pack("<Q", handle))
        return 0

    def _cnrtQueueCreateWithPriority(self, target: int, *_: Any) -> int:  # noqa: N802
        return self._cnrtQueueCreate(target)

    def _cnrtQueueDestroy(self, handle: int) -> int:  # noqa: N802
        self.device.synchronize()
        self._queue(handle)
        self._queues.pop(handle, None)
        return 0

    def _synchronized(self, *_: Any) -> int:
        self.device.synchronize()
        return 0

    def _cnrtNotifierCreate(self, target: int, *_: Any) -> int:  # noqa: N802
        handle = self._handle()
        self._notifiers[handle] = None
        self._write(target, struct.pack("<Q", handle))
        return 0

    def _cnrtPlaceNotifier(self, notifier: int, queue: int) -> int:  # noqa: N802
        """Note when what the queue holds by now has ended; so it runs first, and simulated time is known."""
        self.device.synchronize()
        ends = [self.device.log.launches[one.index].end_ps for one in self._queued.get(queue, [])]
        self._notifiers[notifier] = max(ends, default=0)
        return 0

    def _cnrtNotifierDuration(self, start: int, end: int, target: int) -> int:  # noqa: N802
        first, last = self._notifiers.get(start), self._notifiers.get(end)
        if first is None or last is None:
            return self._failed("cnrtErrorNotReady")
        self._write(target, struct.pack("<f", (last - first) / PS_PER_US))
        return 0

    def _cnrtNotifierElapsedTime(self, start: int, end: int, target: int) -> int:  # noqa: N802
        status = self._cnrtNotifierDuration(start, end, target)
        if not status:
            milliseconds = struct.unpack("<f", ctypes.string_at(target, 4))[0] / 1000
            self._write(target, struct.pack("<f", milliseconds))
        return status

    # -- the device

    def _cnrtGetDevice(self, target: int) -> int:  # noqa: N802
        self._write(target, struct.pack("<i", 0))
        return 0

    def _cnrtGetDeviceCount(self, target: int) -> int:  # noqa: N802
        self._write(target, struct.pack("<i", 1))
        return 0

    def _cnDeviceGet(self, target: int, _: int) -> int:  # noqa: N802
        return self._cnrtGetDevice(target)

    def _cnCtxGetCurrent(self, target: int) -> int:  # noqa: N802
        self._write(target, struct.pack("<Q", _HANDLE))
        return 0

    def _cnrtDeviceGetAttribute(self, target: int, attribute: int, _: int) -> int:  # noqa: N802
        value = ATTRIBUTES.get(attribute)
        if value is None:
            return self._failed("cnrtErrorArgsInvalid")
        self._write(target, struct.pack("<i", value(self.device.board)))
        return 0

    def _cnrtGetDeviceProperties(self, target: int, _: int) -> int:  # noqa: N802
        board = self.device.board
        name = board.name.upper().encode()[:63].ljust(64, b"\0")
        self._write(target, name + struct.pack("<3i", board.clusters, board.cores_per_cluster, board.max_union))
        return 0

    def _cnGetCtxMaxParallelUnionTasks(self, _: int, kind: int, target: int) -> int:  # noqa: N802
        board = self.device.board
        clusters = max(kind // 4, 1)
        count = board.cores if kind == 1 else board.clusters // clusters
        self._write(target, struct.pack("<i", count))
        return 0

    def _failed(self, name: str) -> int:
        self._last_error = STATUS[name]
        return self._last_error

    def _cnrtGetLastError(self) -> int:  # noqa: N802
        found, self._last_error = self._last_error, 0
        return found

    def _cnrtPeekAtLastError(self) -> int:  # noqa: N802
        return self._last_error

    def _cnrtGetErrorStr(self, status: int) -> int:  # noqa: N802
        names = {value: key for key, value in STATUS.items()}
        text = ctypes.create_string_buffer(names.get(status, f"status {status}").encode())
        self._host_memory[-status - 1] = text
        return ctypes.addressof(text)


def run_program(module: Module, device: Device, arguments: tuple[str, ...] = ()) -> int:
    """Run the `main` of a compiled file on a device; returns its status."""
    return Program(module, device, arguments).run()

"""CNRT and CNDRV for a program: each method is the function of that name, on the simulated board.

Copies, notifiers and `cnrtQueueSync` first run the queued launches. Accesses that would crash a real program, such as a
copy beyond device memory, are errors here; conditions that it would be informed of, such as exhausted memory, are
statuses.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple

from mlusim.bangc.calls.call_record import text_at
from mlusim.bangc.calls.host_calls import ATTRIBUTES, FUNCTION_TYPE_UNION1, NOTHING_TO_DO, SAME, STATUS
from mlusim.bangc.debug_lines import SourceLine
from mlusim.bangc.host.host_time import HostTime
from mlusim.bangc.host.memory import ProgramMemory
from mlusim.bangc.host.missing_waits import MissingWaits
from mlusim.errors import InputError, KernelError
from mlusim.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlusim.bangc.execution.image import Runtime
    from mlusim.host.device import Device

_HANDLE = 0x10000
_VALUES_OF_2D_ASYNC = 8
# `CN_ERROR_NOT_READY`
_CN_NOT_READY = 100005
# As in `cnrt.h`: libraries refuse a runtime that is older than the header that they were compiled with.
_CNRT_VERSION, _CNDRV_VERSION = (6, 7, 0), (2, 7, 0)


class _Placed(NamedTuple):
    """A notifier that was placed.

    Attributes:
        order: number of placements before it.
        time_ps: when it took effect, without the host's time.
        launches: number of launches of the program whose delay by the host it shares.
    """

    order: int
    time_ps: int
    launches: int


class Cnrt(ProgramMemory):
    """The runtime of one program.

    Attributes:
        queued: the launches of each queue, by its handle; 0 is the default queue.
        waits: what the program has not waited for.
        host_time: the host's time for launches.
    """

    def __init__(self, device: Device, runtime: Runtime) -> None:
        super().__init__(device, runtime)
        self.queued: dict[int, list[Any]] = {}
        self.waits = MissingWaits(device.log)
        self.host_time = HostTime(device.board)
        self._queues: dict[int, Any] = {}
        self._notifiers: dict[int, _Placed | None] = {}
        self._placements = 0
        # For each queue, the number of its launches that the host has waited for.
        self._waited: dict[int, int] = {}
        self._handles = _HANDLE
        self._texts: dict[str, Any] = {}

    def function(self, name: str) -> Callable[..., int]:
        """Return the function with a name. Raises `KernelError` if it is not simulated."""
        if name in NOTHING_TO_DO:
            return _succeed
        function: Callable[..., int] | None = getattr(self, SAME.get(name, name), None)
        if function is None:
            reason = (
                "it is not simulated" if name.startswith("cn") else "it is an instruction of the board, for kernels"
            )
            raise KernelError(f"{name} in host code: {reason}")
        return function

    def note(self, name: str, location: SourceLine, values: list[Any]) -> None:
        """Note a call, before it takes effect."""
        self.location = location
        self.waits.called(name, location, values, self._queues, self.regions())

    def _handle(self) -> int:
        self._handles += 16
        return self._handles

    # -- queues and notifiers ------------------------------------------------------------------------------------------

    def queue(self, handle: int) -> Any:
        """Return the queue of a handle; None for the default one."""
        if not handle:
            return None
        if handle not in self._queues:
            raise InputError(f"queue {handle:#x}: cnrtQueueCreate did not return it, or it was destroyed")
        return self._queues[handle]

    def cnrtQueueCreate(self, target: int, *_: Any) -> int:
        handle = self._handle()
        self._queues[handle] = self.device.queue()
        self.write(target, "<Q", handle)
        return 0

    def cnrtMemcpy(self, dst: int, src: int, size: int, direction: int) -> int:
        if "Async" not in self.call[0]:
            self.cnrtQueueSync(0)
        return super().cnrtMemcpy(dst, src, size, direction)

    def cnrtMemcpyAsync(self, dst: int, src: int, size: int, queue: int, direction: int) -> int:
        if direction in self._queues:
            raise InputError(
                f"cnrtMemcpyAsync with the queue {direction:#x} as its direction: the queue is the argument before it"
            )
        return super().cnrtMemcpyAsync(dst, src, size, queue, direction)

    def cnrtMemcpy2D(self, *values: int) -> int:
        """Copy rows; the asynchronous form has a queue before or after the direction."""
        return self.copy_rows(*(values if len(values) < _VALUES_OF_2D_ASYNC else self._without_queue(*values)))

    def _without_queue(self, *values: int) -> tuple[int, ...]:
        *others, first, second = values
        # The default queue is 0.
        is_queue = second in self._queues or (not second and first not in self._queues)
        return (*others, first if is_queue else second)

    def cnrtQueueDestroy(self, handle: int) -> int:
        self.cnrtQueueSync(handle)
        self._queues.pop(handle, None)
        return 0

    def cnrtQueueSync(self, handle: int) -> int:
        self.queue(handle)
        self.device.synchronize()
        launches = self.queued.get(handle, [])
        self.host_time.waited(launch.index for launch in launches[self._waited.get(handle, 0) :])
        self._waited[handle] = len(launches)
        return 0

    def cnrtQueueQuery(self, handle: int) -> int:
        self.queue(handle)
        return self._busy or self.cnrtQueueSync(handle)

    @property
    def _busy(self) -> int:
        """The status of a query that found what it asks for unfinished; 0 if it did not."""
        not_ready = _CN_NOT_READY if self.call[0].startswith("cnQ") else STATUS["cnrtErrorNotReady"]
        return not_ready if self.waits.is_busy else 0

    def mlusim_host_function(self, handle: int, *_: int) -> int:
        """Run what the queue has before a function of the host (`cnrtInvokeHostFunc`), or continue after it."""
        self.queue(handle)
        self.device.synchronize()
        return 0

    def mlusim_hint(self, kind: int, name: int) -> int:
        """Raise the error of a variable that the program uses before it sets it."""
        if text_at(kind) == "unset":
            remedy = "set it on each path to this line, or where it is declared"
            raise InputError(f"{text_at(name)} is used, and was never set: {remedy}")
        return 0

    def cnrtSyncDevice(self) -> int:
        for handle in (0, *self._queues):
            self.cnrtQueueSync(handle)
        return 0

    def cnrtNotifierCreate(self, target: int, *_: Any) -> int:
        handle = self._handle()
        self._notifiers[handle] = None
        self.write(target, "<Q", handle)
        return 0

    def cnrtNotifierDestroy(self, notifier: int) -> int:
        self._check_notifier(notifier)
        del self._notifiers[notifier]
        return 0

    def cnrtWaitNotifier(self, notifier: int) -> int:
        self._check_notifier(notifier)
        return self.cnrtSyncDevice()

    def cnrtQueryNotifier(self, notifier: int) -> int:
        self._check_notifier(notifier)
        return self._busy or self.cnrtSyncDevice()

    def cnrtPlaceNotifier(self, notifier: int, queue: int) -> int:
        """Record when all launches of the queue have ended; runs them first, so that simulated time is known."""
        self._check_notifier(notifier)
        self.queue(queue)
        self.device.synchronize()
        queued, launches = self.queued.get(queue, []), self.device.log.launches
        idle = self._waited.get(queue, 0) == len(queued)
        # On an idle queue it takes effect at once, after what other queues have done.
        last = len(launches) if idle else queued[-1].index + 1
        ends_ps = (
            [launch.end_ps for launch in launches] if idle else [launches[launch.index].end_ps for launch in queued]
        )
        self._notifiers[notifier] = _Placed(self._placements, max(ends_ps, default=0), last)
        self._placements += 1
        return 0

    def cnrtQueueWaitNotifier(self, notifier: int, queue: int, _: int) -> int:
        """Nothing to wait for: the launches before the notifier have run."""
        self._check_notifier(notifier)
        self.queue(queue)
        return 0

    def cnrtNotifierDuration(self, start: int, end: int, target: int) -> int:
        """Microseconds between two notifiers."""
        return self._duration(start, end, target, 1)

    def cnrtNotifierElapsedTime(self, start: int, end: int, target: int) -> int:
        """Milliseconds between two notifiers."""
        return self._duration(start, end, target, 1000)

    def _duration(self, start: int, end: int, target: int, microseconds: int) -> int:
        self._check_notifier(start)
        self._check_notifier(end)
        first, last = self._notifiers[start], self._notifiers[end]
        if first is None or last is None or last.order < first.order:
            missing = "first" if first is None else "second"
            problem = "the second was placed before the first" if first and last else f"the {missing} was never placed"
            raise InputError(
                f"{self.call[0]} between two notifiers: {problem}; call cnrtPlaceNotifier for the first before the "
                "launch, and for the second after it"
            )
        launches = self.device.log.launches
        before_ps, host_ps = (self.host_time.delay_ps(launches, notifier.launches) for notifier in (first, last))
        self.write(target, "<f", (last.time_ps - first.time_ps + host_ps - before_ps) / PS_PER_US / microseconds)
        return 0

    def _check_notifier(self, handle: int) -> None:
        if handle not in self._notifiers:
            raise InputError(f"notifier {handle:#x}: cnrtNotifierCreate did not return it, or it was destroyed")

    # -- the device ----------------------------------------------------------------------------------------------------

    def cnrtSetDevice(self, number: int) -> int:
        return 0 if number == 0 else self.failed("cnrtErrorArgsInvalid", f"device {number}: there is one device, 0")

    def cnrtGetDevice(self, target: int, *_: Any) -> int:
        """Also the flags of the device, and the access of one device to another: none."""
        self.write(target, "<i", 0)
        return 0

    def cnrtGetDeviceCount(self, target: int) -> int:
        self.write(target, "<i", 1)
        return 0

    def cnrtRuntimeGetVersion(self, target: int) -> int:
        """The version in one number, as `CNRT_VERSION` of the header. ASSUMED: the function encodes it likewise."""
        return self._version((target,), (_encoded(_CNRT_VERSION),))

    def cnGetVersion(self, target: int) -> int:
        return self._version((target,), (_encoded(_CNDRV_VERSION),))

    def cnrtGetLibVersion(self, *targets: int) -> int:
        return self._version(targets, _CNRT_VERSION)

    def cnGetLibVersion(self, *targets: int) -> int:
        return self._version(targets, _CNDRV_VERSION)

    def _version(self, targets: tuple[int, ...], version: tuple[int, ...]) -> int:
        for target, number in zip(targets, version, strict=True):
            self.write(target, "<i", number)
        return 0

    def cnrtDeviceGetAttribute(self, target: int, attribute: int, _: int) -> int:
        value = ATTRIBUTES.get(attribute)
        if value is None:
            return self.failed("cnrtErrorArgsInvalid", f"attribute {attribute} is not known")
        self.write(target, "<i", value(self.device.board))
        return 0

    def mlusim_device_name(self, target: int, size: int, device: int) -> int:
        if device:
            return self.failed("cnrtErrorDeviceInvalid", f"device {device}: there is one device, 0")
        return self.cnDeviceGetName(target, size, device)

    def cnrtDeviceGetPCIBusId(self, target: int, size: int, _: int) -> int:
        text = b"0000:00:00.0"[: max(size - 1, 0)]
        self.write(target, f"<{len(text) + 1}s", text)
        return 0

    def cnrtDeviceGetQueuePriorityRange(self, least: int, greatest: int) -> int:
        """Queues have no priorities here: launches run in the order of their queues."""
        self.write(least, "<i", 0)
        self.write(greatest, "<i", 0)
        return 0

    def cnrtQueueGetPriority(self, queue: int, target: int) -> int:
        self.queue(queue)
        self.write(target, "<i", 0)
        return 0

    def cnDeviceTotalMem(self, target: int, _: int) -> int:
        self.write(target, "<Q", self.device.board.gdram_bytes)
        return 0

    def cnQueueGetContext(self, queue: int, target: int) -> int:
        self.queue(queue)
        return self.cnCtxGetCurrent(target)

    def cnDeviceGetName(self, target: int, size: int, _: int) -> int:
        name = self.device.board.name.upper().encode()[: max(size - 1, 0)]
        self.write(target, f"<{len(name) + 1}s", name)
        return 0

    def cnCtxGetCurrent(self, target: int, *_: Any) -> int:
        self.write(target, "<Q", _HANDLE)
        return 0

    def cnGetCtxConfigParam(self, _: int, kind: int, target: int) -> int:
        board = self.device.board
        value = {1: board.max_union * FUNCTION_TYPE_UNION1, 2: (1 << board.clusters) - 1, 3: board.clusters}.get(kind)
        if value is None:
            return self.failed("cnrtErrorArgsInvalid", f"parameter {kind} is not known")
        self.write(target, "<Q", value)
        return 0

    def cnGetCtxMaxParallelUnionTasks(self, _: int, kind: int, target: int) -> int:
        board = self.device.board
        self.write(target, "<i", board.cores if kind == 1 else board.clusters // max(kind // FUNCTION_TYPE_UNION1, 1))
        return 0

    def cnQueueIsCapturing(self, _: int, target: int) -> int:
        self.write(target, "<i", 0)
        return 0

    # -- statuses ------------------------------------------------------------------------------------------------------

    def cnrtGetLastError(self) -> int:
        error, self.last_error = self.last_error, 0
        return error

    def cnrtPeekAtLastError(self) -> int:
        return self.last_error

    def cnrtGetErrorStr(self, status: int) -> int:
        name = next((name for name, value in STATUS.items() if value == status), f"status {status}")
        return ctypes.addressof(self._texts.setdefault(name, ctypes.create_string_buffer(name.encode())))

    def cnGetErrorString(self, status: int, target: int) -> int:
        self.write(target, "<Q", self.cnrtGetErrorStr(status))
        return 0


def _encoded(version: tuple[int, int, int]) -> int:
    major, minor, patch = version
    return major * 10_000 + minor * 100 + patch


def _succeed(*_: Any) -> int:
    return STATUS["cnrtSuccess"]

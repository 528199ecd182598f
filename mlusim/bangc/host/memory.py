"""The memory functions of CNRT: a program's device memory, copies, sets, and conversions on the host."""

from __future__ import annotations

import ctypes
import logging
import mmap
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.bangc.calls.host_calls import STATUS
from mlusim.bangc.execution.file_variables import is_unset
from mlusim.bangc.host.argument_types import check_result
from mlusim.bangc.host.copies_3d import volume_copy
from mlusim.bangc.host.spans import Region
from mlusim.bangc.runtime_layout import Range
from mlusim.cores.convert import ROUND
from mlusim.dtypes import BFLOAT16
from mlusim.errors import AllocationError, InputError
from mlusim.units import group_digits, round_up

if TYPE_CHECKING:
    from mlusim.bangc.execution.image import Runtime
    from mlusim.host.device import Device
    from mlusim.memory.view import View

_LOGGER = logging.getLogger("mlusim.cnrt")
# Alignment of memory of the host, that of a vector register.
_HOST_ALIGNMENT = 64
_DIRECTIONS = ("HostToDev", "DevToHost", "DevToDev", "HostToHost", "PeerToPeer", "NoDirection")
# `cnrtDataType_V2_t`, as in `cnrt.h`.
_DTYPES: dict[int, Any] = {
    0x12: np.float16,
    0x13: np.float32,
    0x14: np.float64,
    0x18: BFLOAT16,
    0x21: np.int8,
    0x22: np.int16,
    0x23: np.int32,
    0x24: np.int64,
    0x31: np.uint8,
    0x32: np.uint16,
    0x33: np.uint32,
    0x34: np.uint64,
    0x41: np.bool_,
}
# `cnrtRoundingMode_t`: half up, to zero, away from zero, up, down, to nearest even.
_ROUNDINGS = tuple(ROUND[mode] for mode in ("rm", "tz", "oz", "up", "dn", "rn"))


class ProgramMemory:
    """The memory of a program: on the device, and what it allocates on the host.

    Args:
        device: the simulated board.
        block: returns address and size of the block on the host's heap that contains an address; None for none.

    Attributes:
        device: the simulated board.
        last_error: the status of the last function that failed.
        freed: device memory after `cnrtFree`: its name, by first address and end.
        call: the name of the present call; the position and the type code of each of its arguments, by value.
        location: file and line of the present call.
        rooms: addresses that the present call passes, and the bytes from each to the end of its object, as far as the
            compiler knows.
    """

    def __init__(self, device: Device, runtime: Runtime) -> None:
        self.device = device
        self.call: tuple[str, dict[Any, tuple[int, int]]] = "", {}
        self.location: tuple[str, int] = "", 0
        self.rooms: list[tuple[int, int]] = []
        self._runtime = runtime
        self.last_error = 0
        self.freed: dict[tuple[int, int], str] = {}
        self._memory: dict[int, View] = {}
        # Memory of cnrtHostMalloc by address: what keeps it, and its size.
        self._host: dict[int, tuple[Any, int]] = {}
        self._count = 0

    def failed(self, name: str, reason: str) -> int:
        """Return a status, store it as the last error, and log the reason, which a status does not state."""
        file, line = self.location
        _LOGGER.error("[%s] %s, %s:%d: %s", self.call[0], name, Path(file).name, line, reason)
        self.last_error = STATUS[name]
        return self.last_error

    def write(self, target: int, layout: str, *values: Any) -> None:
        """Write values to an address passed by the program; does nothing for a null pointer.

        Raises `InputError` for device memory and for a pointer without a value.
        """
        if is_unset(target):
            raise InputError(
                f"{self.call[0]} would store its result at a pointer that has no value yet: pass the address of a "
                "variable, as in cnrtMalloc((void **)&pointer, size)"
            )
        if target:
            on_device = self.at(target)
            if on_device is not None:
                raise InputError(
                    f"the result would be stored at byte {group_digits(on_device[1])} of "
                    f"{on_device[0].allocation.name}, which is on the board: pass the address of a variable of the "
                    "program, as in cnrtMalloc(&pointer, size)"
                )
            name, arguments = self.call
            if target in arguments and len(values) == 1 and isinstance(values[0], int | float):
                check_result(name, *arguments[target], layout)
            content = struct.pack(layout, *values)
            self._store(target, content)

    def _move(self, target: int, source: int, size: int) -> None:
        """Copy bytes. Raises `InputError` for memory that the program may not access."""
        wrong = self._runtime.library.mlusim_move(target, source, size)
        if wrong:
            address = source if source <= wrong < source + size else target
            raise InputError(
                f"{self.call[0]} uses {group_digits(size)} B at {address:#x}: the program has no memory there, or may "
                "not write it; pass the address of a variable or of allocated memory, and check the size"
            )

    def _store(self, target: int, content: bytes) -> None:
        buffer = ctypes.create_string_buffer(content, len(content))
        self._move(target, ctypes.addressof(buffer), len(content))

    def _load(self, source: int, size: int) -> bytes:
        buffer = ctypes.create_string_buffer(size)
        self._move(ctypes.addressof(buffer), source, size)
        return buffer.raw

    def ranges(self, more: list[tuple[int, int, int]]) -> tuple[Any, int]:
        """Return device memory, and more ranges, sorted by address."""
        blocks = sorted([*((base, view.nbytes, 0) for base, view in self._memory.items()), *more])
        return (Range * max(len(blocks), 1))(*[Range(*block) for block in blocks]), len(blocks)

    def regions(self) -> list[Region]:
        """All device memory."""
        return [Region(base, view.nbytes, view.allocation.identity) for base, view in self._memory.items()]

    def at(self, address: int) -> tuple[View, int] | None:
        """Return the device memory that contains an address, and the byte in it."""
        for base, view in self._memory.items():
            if base <= address < base + view.nbytes:
                return view, address - base
        return None

    def cnrtMalloc(self, target: int, size: int, *_: Any) -> int:
        if size <= 0 or not target:
            reason = f"a size of {group_digits(size)} B" if target else "a null pointer for the address of the memory"
            return self.failed("cnrtErrorArgsInvalid", reason)
        try:
            view = self.device.alloc(size, "uint8", f"device memory {self._count}", workspace=True)
        except AllocationError as error:
            return self.failed("cnrtErrorNoMem", str(error))
        self._count += 1
        address = int(view.allocation.bytes().ctypes.data)
        self._memory[address] = view
        self.write(target, "<Q", address)
        return 0

    def cnrtFree(self, address: int, *_: Any) -> int:
        if address:
            view = self._memory.pop(address, None)
            if view is None:
                self._check_not_freed(address, "cnrtFree")
                raise InputError(f"cnrtFree of {address:#x}: cnrtMalloc did not return this address")
            self.device.synchronize()
            self.freed[address, address + view.nbytes] = view.allocation.name
            self.device.free(view)
        return 0

    def _check_not_freed(self, address: int, call: str) -> None:
        """Raise `InputError` for an address in device memory that the program has freed."""
        for (first, end), name in self.freed.items():
            if first <= address < end:
                raise InputError(
                    f"{call} of {address:#x}: {name} was there until cnrtFree; call cnrtFree after this call, and "
                    "only once"
                )

    def cnrtHostMalloc(self, target: int, size: int, *_: Any) -> int:
        address, memory = _guarded(size)
        self._host[address] = memory, size
        self.write(target, "<Q", address)
        return 0

    def cnrtFreeHost(self, address: int) -> int:
        if address and self._host.pop(address, None) is None:
            raise InputError(
                f"cnrtFreeHost of {address:#x}: cnrtHostMalloc did not return this address, or it was freed"
            )
        return 0

    def _locked(self, address: int) -> int | None:
        """Return the beginning of the memory of cnrtHostMalloc that contains an address; None for none."""
        return next((base for base, (_, size) in self._host.items() if base <= address < base + size), None)

    def _side(self, address: int, size: int, call: str) -> View | None:
        """Return the device memory at an address; None for host memory. Raises `InputError` beyond its end."""
        allocation = self.at(address)
        if allocation is None:
            if size > 0 and (not address or is_unset(address)):
                what = "a pointer that has no value yet" if address else "a null pointer"
                raise InputError(
                    f"{call} of {group_digits(size)} B at {what}: pass allocated memory, and check the status of its "
                    "allocation"
                )
            self._check_host_block(address, size, call)
            return None
        view, offset = allocation
        if offset + size > view.nbytes:
            raise InputError(
                f"{call} of {group_digits(size)} B at byte {group_digits(offset)} of {view.allocation.name}, which has "
                f"{group_digits(view.nbytes)} B: {'set' if 'Memset' in call else 'copy'} less, or allocate more; "
                "sizes are in bytes"
            )
        return view

    def _check_host_block(self, address: int, size: int, call: str) -> None:
        """Raise `InputError` for bytes beyond the end of host memory: an allocated block, or a variable."""
        own = self._locked(address)
        block = self._runtime.block(address) if own is None else (own, self._host[own][1])
        for base, room in [*([] if block is None else [block]), *self.rooms]:
            if base <= address <= base + room < address + size:
                raise InputError(
                    f"{call} of {group_digits(size)} B at byte {group_digits(address - base)} of host memory, which "
                    f"has {group_digits(room)} B: copy less, or allocate more; sizes are in bytes"
                )

    def _written(self, target: View, address: int, size: int) -> None:
        """Log that the host has written bytes of device memory."""
        log, identity = self.device.log, target.allocation.identity
        first = address - int(target.allocation.bytes().ctypes.data)
        log.host.writes.add(identity)
        log.host.written_parts.setdefault(identity, set()).add((first, first + size))

    def cnrtMemcpy(self, dst: int, src: int, size: int, direction: int) -> int:
        if size < 0:
            return self.failed("cnrtErrorArgsInvalid", f"a size of {group_digits(size)} B")
        if not 0 <= direction < len(_DIRECTIONS):
            names = ", ".join(_DIRECTIONS)
            raise InputError(f"{self.call[0]} with the direction {direction}: choose one of cnrtMemcpy{names}")
        self.device.synchronize()
        call = self.call[0]
        target, source = self._side(dst, size, call), self._side(src, size, call)
        sides = {0: (True, False), 1: (False, True), 2: (True, True), 3: (False, False)}.get(direction)
        if sides is not None and sides != (target is not None, source is not None):
            for address, view, on_board in zip((dst, src), (target, source), sides, strict=True):
                if on_board and view is None:
                    self._check_not_freed(address, call)
            where = " from ".join("device memory" if side is not None else "host memory" for side in (target, source))
            raise InputError(
                f"{call} says {_DIRECTIONS[direction]} but copies to {where}: correct the direction or the pointers"
            )
        if size:
            self._move(dst, src, size)
        if source is not None and target is None:
            first = src - int(source.allocation.bytes().ctypes.data)
            self.device.log.host.reads.add(source.allocation.identity)
            self.device.log.copy_back(source.allocation.identity, first, first + size)
        if target is not None:
            self._written(target, dst, size)
        return 0

    def cnrtMemcpyAsync(self, dst: int, src: int, size: int, _: int, direction: int) -> int:
        return self.cnrtMemcpy(dst, src, size, direction)

    def cnrtMemcpyAsync_V3(self, dst: int, src: int, size: int, direction: int, _: int) -> int:
        return self.cnrtMemcpy(dst, src, size, direction)

    def cnrtMemcpyPeer(self, dst: int, to: int, src: int, of: int, size: int, *_: Any) -> int:
        """Copy between devices, of which there is one; the last argument of the asynchronous form is a queue."""
        if to or of:
            return self.failed("cnrtErrorDeviceInvalid", f"device {to or of}: there is one device, 0")
        return self.cnrtMemcpy(dst, src, size, _DIRECTIONS.index("DevToDev"))

    def copy_rows(
        self, dst: int, dst_pitch: int, src: int, src_pitch: int, width: int, height: int, direction: int
    ) -> int:
        """Copy rows of `width` bytes: `cnrtMemcpy2D`."""
        for row in range(max(height, 0)):
            status = self.cnrtMemcpy(dst + row * dst_pitch, src + row * src_pitch, width, direction)
            if status:
                return status
        return 0

    def cnrtMemcpy3D(self, parameters: int) -> int:
        copy = volume_copy(parameters)
        if not copy.is_valid:
            return self.failed("cnrtErrorArgsInvalid", "extents, positions and pitches that do not describe a copy")
        for side in (copy.target, copy.source):
            self._side(side.first, copy.end(side) - side.first, self.call[0])
        for target, source in copy.rows():
            self.cnrtMemcpy(target, source, copy.width, copy.direction)
        return 0

    def cnMemcpy(self, dst: int, src: int, size: int, *_: Any) -> int:
        return self.cnrtMemcpy(dst, src, size, _DIRECTIONS.index("NoDirection"))

    def cnMemcpyHtoD(self, dst: int, src: int, size: int, *_: Any) -> int:
        return self.cnrtMemcpy(dst, src, size, _DIRECTIONS.index("HostToDev"))

    def cnMemcpyDtoH(self, dst: int, src: int, size: int, *_: Any) -> int:
        return self.cnrtMemcpy(dst, src, size, _DIRECTIONS.index("DevToHost"))

    def cnMemcpyDtoD(self, dst: int, src: int, size: int, *_: Any) -> int:
        return self.cnrtMemcpy(dst, src, size, _DIRECTIONS.index("DevToDev"))

    def cnrtPointerGetAttributes(self, target: int, address: int) -> int:
        """Return the memory of an address: `cnrtPointerAttributes_t`."""
        on_device = self.at(address) is not None
        locked = self._locked(address) is not None
        kind = 2 if on_device else 3 if locked else 1
        self.write(target, "<3i4xQQ", kind, 0, 0, 0 if on_device else address, address if on_device else 0)
        return 0

    def cnrtMemset(self, dst: int, value: int, size: int, *_: Any) -> int:
        if not size and value:
            raise InputError(
                f"{self.call[0]} of 0 B with the value {value}: the arguments are the address, the value and the size"
            )
        return self._set(dst, struct.pack("<B", value & 0xFF), size)

    def cnrtMemsetD32(self, dst: int, value: int, count: int, *_: Any) -> int:
        return self._set(dst, struct.pack("<I", value & 0xFFFFFFFF), count)

    def _set(self, dst: int, element: bytes, count: int) -> int:
        self.device.synchronize()
        target = self._side(dst, count * len(element), self.call[0])
        if target is None:
            raise InputError(f"{self.call[0]} of {dst:#x}, which is not device memory")
        content = element * max(count, 0)
        ctypes.memmove(dst, content, len(content))
        self._written(target, dst, len(content))
        return 0

    def cnrtMemGetInfo(self, free: int, total: int) -> int:
        board = self.device.board
        self.write(free, "<Q", board.gdram_bytes - sum(view.nbytes for view in self._memory.values()))
        self.write(total, "<Q", board.gdram_bytes)
        return 0

    # -- conversions on the host ---------------------------------------------------------------------------------------

    def cnrtCastDataType(
        self, src: int, src_type: int, dst: int, dst_type: int, count: int, parameter: int, rounding: int = 5
    ) -> int:
        """Convert elements. An integer i with quantisation parameters represents i * 2^position / scale.

        One of the two types is such an integer.
        """
        if src_type not in _DTYPES or dst_type not in _DTYPES or not 0 <= rounding < len(_ROUNDINGS) or count < 0:
            reason = f"{count} elements from type {src_type} to type {dst_type}, rounding {rounding}"
            return self.failed("cnrtErrorArgsInvalid", reason)
        source, target = np.dtype(_DTYPES[src_type]), np.dtype(_DTYPES[dst_type])
        values = np.frombuffer(self._load(src, count * source.itemsize), source)
        with np.errstate(all="ignore"):
            if parameter:
                position, scale, offset = struct.unpack("<ifi", self._load(parameter, 12))
                factor = 2.0**position / scale
                wide = values.astype(np.float64)
                values = wide / factor + offset if target.kind in "iu" else (wide - offset) * factor
            if target.kind in "iu" and values.dtype.kind not in "iub":
                limits = np.iinfo(target)
                values = np.clip(_ROUNDINGS[rounding](values.astype(np.float64)), limits.min, limits.max)
            content = values.astype(target).tobytes()
        self._store(dst, content)
        return 0

    def cnrtConvertFloatToHalf(self, target: int, value: float) -> int:
        with np.errstate(all="ignore"):
            self.write(target, "<2s", np.float16(value).tobytes())
        return 0

    def cnrtConvertHalfToFloat(self, target: int, half: float) -> int:
        """Convert a half, or the bits of one as an integer."""
        number = half if isinstance(half, float) else float(np.array(half & 0xFFFF, np.uint16).view(np.float16))
        self.write(target, "<f", number)
        return 0


def _guarded(size: int) -> tuple[int, Any]:
    """Return the address of new memory, and what keeps it.

    A page that must not be touched begins at most 63 B behind its end, so a program that writes beyond it stops there.
    """
    room = round_up(max(size, 1), mmap.PAGESIZE)
    memory = ctypes.c_char.from_buffer(mmap.mmap(-1, room + mmap.PAGESIZE))
    end = ctypes.addressof(memory) + room
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(end), mmap.PAGESIZE, 0)
    return end - round_up(size, _HOST_ALIGNMENT), memory

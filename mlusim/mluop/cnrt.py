"""Memory of the simulated board with CNRT's interface: cnrtMalloc, cnrtMemcpy, cnrtFree, and pointers.

CNRT uses the thread's current device. Here there is no global state: `cnrtMalloc` has a device argument, and a pointer
refers to its device. Values that C returns through an argument are returned with the status:

    status, d_input = cnrtMalloc(device, input.nbytes)
    status = cnrtMemcpy(d_input, input, input.nbytes, cnrtMemTransDir_t.cnrtMemcpyHostToDev)

As in CNRT, copies and `cnrtFree` come after the launches queued before them, such as those of `Device.launch`: they run
these first. Not modelled: the host link (copies take no simulated time), queues, peer-to-peer copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from mlusim.dtypes import UINT8, Dtype
from mlusim.errors import AllocationError, InputError, MlusimError
from mlusim.host.device import Device
from mlusim.memory.allocation import Allocation
from mlusim.memory.view import View
from mlusim.mluop.refusals import first_refusal, refuse
from mlusim.mluop.types import c_integer, cnrtMemTransDir_t, cnrtRet_t, is_member
from mlusim.units import group_digits

_HOST, _DEVICE = "host", "device"
# On a timing-only device, allocations up to this size have bytes, which scalar code of kernels may read.
_MAX_BYTES_WITH_DATA = 1 << 20
# Sides of destination and source.
_SIDES = {
    cnrtMemTransDir_t.cnrtMemcpyHostToDev: (_DEVICE, _HOST),
    cnrtMemTransDir_t.cnrtMemcpyDevToDev: (_DEVICE, _DEVICE),
    cnrtMemTransDir_t.cnrtMemcpyDevToHost: (_HOST, _DEVICE),
    cnrtMemTransDir_t.cnrtMemcpyHostToHost: (_HOST, _HOST),
}
_Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True)
class DevicePointer:
    """An address in the GDRAM of a simulated board. `pointer + n` and `pointer - n` advance by n bytes, like `char *`.

    Attributes:
        device: the device of the memory.
        allocation: the allocation made by `cnrtMalloc`.
        offset: bytes from its start.
    """

    device: Device
    allocation: Allocation
    offset: int = 0

    def __add__(self, nbytes: int) -> DevicePointer:
        return DevicePointer(self.device, self.allocation, self.offset + index(nbytes))

    def __sub__(self, nbytes: int) -> DevicePointer:
        return self + -index(nbytes)

    def __repr__(self) -> str:
        offset = f" + {self.offset}" if self.offset else ""
        return f"<pointer to {self.allocation.name}{offset} of {self.device.board.name}>"

    def view(self, shape: tuple[int, ...], dtype: Dtype) -> View:
        """Return the contiguous tensor that begins here."""
        return View.of(self.allocation, shape, dtype, self.offset)


def cnrtMalloc(
    device: Device | None, nbytes: int, name: str = "device memory"
) -> tuple[cnrtRet_t, DevicePointer | None]:
    """Allocate GDRAM of a board. Fresh memory contains 0xFF bytes.

    On a timing-only device (`data=False`) memory has a size but no bytes, except allocations of up to 1 MiB: values
    that the host copies there can be read by scalar code of kernels, such as the shifts of tin_shift.

    Args:
        device: the simulated board.
        nbytes: at least 1; the vendor does not document 0, which is rejected here.
        name: name in messages and reports.

    Returns (cnrtSuccess, pointer), or a status and None: cnrtErrorArgsInvalid, cnrtErrorNoMem.
    """
    if not isinstance(device, Device):
        reason = f"the first argument is {_kind(device)}, not a mlusim.Device: cnrtMalloc(device, nbytes)"
        return refuse("cnrtMalloc", cnrtRet_t.cnrtErrorArgsInvalid, reason), None
    size = c_integer(nbytes)
    if size is None or size < 1:
        reason = f"nbytes = {nbytes!r}: a size is an integer of at least 1 byte"
        return refuse("cnrtMalloc", cnrtRet_t.cnrtErrorArgsInvalid, reason), None
    try:
        view = device.alloc((size,), UINT8, name, keep_data=not device.data and size <= _MAX_BYTES_WITH_DATA)
    except InputError as error:
        return refuse("cnrtMalloc", cnrtRet_t.cnrtErrorArgsInvalid, error.message), None
    except AllocationError as error:
        reason = f"{error.message}; free memory that is no longer needed with cnrtFree"
        return refuse("cnrtMalloc", cnrtRet_t.cnrtErrorNoMem, reason), None
    return cnrtRet_t.cnrtSuccess, DevicePointer(device, view.allocation)


def cnrtFree(pointer: Any) -> cnrtRet_t:
    """Free memory, given a pointer returned by `cnrtMalloc`. NULL (None) does nothing.

    Returns cnrtSuccess, cnrtErrorArgsInvalid for any other pointer, cnrtErrorCndrvFuncCall if it is already freed, or
    a queued launch fails.
    """
    if not isinstance(pointer, DevicePointer):
        if pointer is None:
            return cnrtRet_t.cnrtSuccess
        reason = f"pointer is {_kind(pointer)}: free what cnrtMalloc returned"
        return refuse("cnrtFree", cnrtRet_t.cnrtErrorArgsInvalid, reason)
    if pointer.allocation.freed:
        return refuse("cnrtFree", cnrtRet_t.cnrtErrorCndrvFuncCall, f"{pointer!r} is freed already: free it once")
    if pointer.offset:
        reason = f"{pointer!r} is {pointer.offset} B from the start of its allocation: free the pointer to its start"
        return refuse("cnrtFree", cnrtRet_t.cnrtErrorArgsInvalid, reason)
    failure = _run_queued("cnrtFree", pointer)
    pointer.device.free(pointer.view((pointer.allocation.nbytes,), UINT8))
    return failure or cnrtRet_t.cnrtSuccess


def cnrtMemcpy(dst: Any, src: Any, nbytes: int, direction: cnrtMemTransDir_t) -> cnrtRet_t:
    """Copy bytes and wait until the copy is complete.

    Args:
        dst, src: a `DevicePointer` on a device's side; on the host's a NumPy array in C order, or any other object with
            a buffer (bytes, bytearray, memoryview).
        nbytes: bytes, from the start of both.
        direction: cnrtMemcpyHostToDev, DevToHost, DevToDev (within one board), HostToHost, or NoDirection: inferred
            from the arguments. On the board a direction that does not match its pointers is undefined; here it is
            rejected.

    Returns cnrtSuccess, cnrtErrorMemcpyDirectionInvalid, cnrtErrorArgsInvalid, cnrtErrorNotSupport (peer to peer;
    results of a timing-only device, which computes none), or cnrtErrorCndrvFuncCall if a queued launch fails.
    """
    refusal = first_refusal("cnrtMemcpy", _copy_checks(dst, src, nbytes, direction))
    refusal = refusal or _run_queued("cnrtMemcpy", dst) or _run_queued("cnrtMemcpy", src)
    if refusal is not None:
        return refusal
    if not isinstance(dst, DevicePointer) or dst.allocation.buffer is not None:
        # The two may overlap: NumPy assigns as if the source were read first.
        _bytes_of(dst, nbytes)[:] = _bytes_of(src, nbytes)
    if isinstance(dst, DevicePointer):
        dst.device.log.host.writes.add(dst.allocation.identity)
    elif isinstance(src, DevicePointer):
        src.device.log.host.reads.add(src.allocation.identity)
    return cnrtRet_t.cnrtSuccess


def _run_queued(function: str, pointer: Any) -> cnrtRet_t | None:
    """Run the queued launches of the device of a pointer, if it is one of a device; return the status of an error."""
    if isinstance(pointer, DevicePointer) and pointer.device.pending:
        try:
            pointer.device.synchronize()
        except MlusimError as error:
            return refuse(function, cnrtRet_t.cnrtErrorCndrvFuncCall, f"{type(error).__name__}: {error}")
    return None


def _copy_checks(dst: Any, src: Any, nbytes: Any, direction: Any) -> Iterator[tuple[Any, cnrtRet_t, str]]:
    """Yield (fails, status, reason) of each check of a copy; each relies on the previous ones."""
    reason = f"direction = {direction!r}: it must be a cnrtMemTransDir_t, such as cnrtMemcpyHostToDev"
    yield not is_member(direction, cnrtMemTransDir_t), cnrtRet_t.cnrtErrorMemcpyDirectionInvalid, reason
    reason = "a link between boards is not modelled: copy through the host"
    yield direction == cnrtMemTransDir_t.cnrtMemcpyPeerToPeer, cnrtRet_t.cnrtErrorNotSupport, reason
    size = c_integer(nbytes)
    reason = f"nbytes = {nbytes!r}: a size is an integer of at least 0 bytes"
    yield size is None or size < 0, cnrtRet_t.cnrtErrorArgsInvalid, reason

    sides = _SIDES.get(direction) or (_location(dst), _location(src))
    for pointer, name, side in zip((dst, src), ("dst", "src"), sides, strict=True):
        fault_of = device_fault if side is _DEVICE else _host_fault
        fault = fault_of(pointer, name, nbytes)
        yield fault, cnrtRet_t.cnrtErrorArgsInvalid, fault
    devices = [pointer.device for pointer in (dst, src) if isinstance(pointer, DevicePointer)]
    reason = "dst and src are memory of two boards: copy through the host"
    yield len({id(device) for device in devices}) > 1, cnrtRet_t.cnrtErrorArgsInvalid, reason
    reason = "the device is timing-only and computes no results to copy: make it with data=True"
    yield isinstance(src, DevicePointer) and not src.device.data, cnrtRet_t.cnrtErrorNotSupport, reason
    reason = "dst is read-only memory of the host: pass memory that can be written"
    read_only = not isinstance(dst, DevicePointer) and not _bytes_of(dst).flags.writeable
    yield read_only, cnrtRet_t.cnrtErrorArgsInvalid, reason


def device_fault(pointer: Any, name: str, nbytes: int, device: Device | None = None) -> str:
    """Return why a pointer is not `nbytes` of device memory (of `device`, if not None); "" if it is."""
    if pointer is None:
        return f"{name} is NULL"
    if not isinstance(pointer, DevicePointer):
        return (
            f"{name} is {_kind(pointer)}, not a device pointer: allocate with cnrtMalloc, and copy to it with "
            "cnrtMemcpy(..., cnrtMemcpyHostToDev)"
        )
    allocation = pointer.allocation
    if allocation.freed:
        return f"{name} points into {allocation.name}, which was freed: use it before cnrtFree, or allocate again"
    if device is not None and pointer.device is not device:
        return (
            f"{name} is memory of another board ({pointer.device.board.name}) than the handle's ({device.board.name}): "
            "allocate it on the handle's device"
        )
    bytes_left = allocation.nbytes - pointer.offset
    if pointer.offset < 0 or bytes_left < nbytes:
        return (
            f"{name} needs {group_digits(nbytes)} B at byte {group_digits(pointer.offset)} of {allocation.name}, which "
            f"has {group_digits(allocation.nbytes)} B: allocate more, or correct the pointer"
        )
    return ""


def _host_fault(pointer: Any, name: str, nbytes: int) -> str:
    """Return why an argument is not `nbytes` of host memory; "" if it is."""
    if isinstance(pointer, DevicePointer):
        return f"{name} is a device pointer, and the direction says memory of the host: correct the direction"
    try:
        content = _bytes_of(pointer)
    except (AttributeError, BufferError, TypeError, ValueError):
        return f"{name} is {_kind(pointer)}: pass a NumPy array in C order or a buffer (np.ascontiguousarray makes one)"
    if content.size < nbytes:
        return f"{name} has {group_digits(content.size)} B and {group_digits(nbytes)} B are to be copied"
    return ""


def _bytes_of(pointer: Any, nbytes: int | None = None) -> _Bytes:
    """Return the first bytes of a valid side."""
    if isinstance(pointer, DevicePointer):
        content = pointer.allocation.bytes()[pointer.offset :]
    elif isinstance(pointer, np.ndarray):
        if not pointer.flags.c_contiguous:
            raise ValueError("its bytes are not in C order")
        content = np.asarray(pointer).reshape(-1).view(np.uint8)  # a matrix keeps two axes
    else:
        content = np.frombuffer(memoryview(pointer).cast("B"), np.uint8)
    return content[:nbytes]


def _location(pointer: Any) -> str:
    return _DEVICE if isinstance(pointer, DevicePointer) else _HOST


def _kind(pointer: Any) -> str:
    """Return a description of an argument for a message."""
    if pointer is None:
        return "NULL"
    memory = ", memory of the host" if isinstance(pointer, np.ndarray | bytes | bytearray | memoryview) else ""
    return f"of type {type(pointer).__name__}{memory}"

"""The tensors of a device's GDRAM by the addresses that compiled code uses."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from mlusim.bangc.runtime_layout import Range
from mlusim.memory.allocation import Allocation
from mlusim.memory.reused import ADDRESS_BYTES, aligned_bytes
from mlusim.units import group_digits

# An address outside all memories is described by the nearest tensor, if it is nearer than this.
_NEAR_BYTES = 1 << 30
# An address outside all memories belongs to a pointer that the launch passed, if it is no further behind it than this.
_PASSED_BYTES = 1 << 20


class _Tensor(NamedTuple):
    """A tensor at its host address; `flags`: those of `Range`."""

    address: int
    nbytes: int
    flags: int
    allocation: Allocation


class GdramMap:
    """The tensors of a device's GDRAM by host address, for one state of its allocations.

    Attributes:
        bases, allocations: the tensors, in order of their first addresses.
        address: the first address, by identity of the allocation.
        packed: the number of the latest launch, and its arguments in the layout that the entry reads.
        ranges: the tensors in the layout of the runtime.
        freed: the name of memory that a program has freed, by first address and end.
    """

    def __init__(self, allocations: tuple[Allocation, ...], reserve: int) -> None:
        tensors: list[_Tensor] = []
        for allocation in allocations:
            if not allocation.nbytes:
                continue
            if allocation.buffer is None:
                tensors.append(_Tensor(reserve + allocation.address, allocation.nbytes, 2, allocation))
                continue
            address = int(allocation.buffer.ctypes.data)
            if address % ADDRESS_BYTES and allocation.read_only:
                # An array of the user, which was not copied when it was uploaded.
                copy = aligned_bytes(allocation.nbytes)
                copy[:] = allocation.buffer
                allocation.buffer, address = copy, int(copy.ctypes.data)
            tensors.append(_Tensor(address, allocation.nbytes, int(allocation.read_only), allocation))
        tensors.sort(key=lambda tensor: tensor.address)
        self.bases = [tensor.address for tensor in tensors]
        self.allocations = [tensor.allocation for tensor in tensors]
        self.address = {tensor.allocation.identity: tensor.address for tensor in tensors}
        self.packed = -1, b""
        self.freed: Mapping[tuple[int, int], str] = {}
        self.ranges = (Range * max(len(tensors), 1))(*[Range(*tensor[:3]) for tensor in tensors])

    def passed_from_host(self, address: int, arguments: bytes) -> int:
        """Return the pointer among a launch's arguments, to no tensor, that an address belongs to; 0 for none."""
        values = (struct.unpack_from("<Q", arguments, at)[0] for at in range(0, len(arguments) - 7, 8))
        pointers = [
            value
            for value in values
            if value and 0 <= address - value < _PASSED_BYTES and not self._is_of_tensor(value)
        ]
        return max(pointers, default=0)

    def _is_of_tensor(self, address: int) -> bool:
        number = bisect_right(self.bases, address) - 1
        return number >= 0 and address <= self.bases[number] + self.allocations[number].nbytes

    def nearest(self, address: int) -> str:
        """Describe an address by the nearest tensor, as `4 B after the end of out (256 B)`; "" if none is near."""
        descriptions = [
            (distance, f"{group_digits(distance)} B {side} of {allocation.name} ({group_digits(allocation.nbytes)} B)")
            for base, allocation in zip(self.bases, self.allocations, strict=True)
            for distance, side in (
                (address - base - allocation.nbytes, "after the end"),
                (base - address, "before the start"),
            )
            if 0 <= distance < _NEAR_BYTES
        ]
        return min(descriptions, default=(0, ""))[1]

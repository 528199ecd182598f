"""Allocations at fixed addresses, as a linker places a kernel's arrays, and tensors by their host addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mlusim.log import AllocationRecord
from mlusim.memory.allocation import Allocation, Bytes, Memory
from mlusim.units import group_digits

if TYPE_CHECKING:
    from mlusim.cores.chip import Chip
    from mlusim.cores.task import Task

# An address outside all memories is described by the nearest tensor, if it is nearer than this.
_NEAR_BYTES = 1 << 30


def nearest_tensor(address: int, bases: Sequence[int], allocations: Sequence[Allocation]) -> str:
    """Describe an address by the nearest tensor, such as `4 B behind the end of out (256 B)`; "" if none is near."""
    near = [
        (distance, f"{group_digits(distance)} B {where} of {allocation.name} ({group_digits(allocation.nbytes)} B)")
        for base, allocation in zip(bases, allocations, strict=True)
        for distance, where in (
            (address - base - allocation.nbytes, "behind the end"),
            (base - address, "before the start"),
        )
        if 0 <= distance < _NEAR_BYTES
    ]
    return min(near, default=(0, ""))[1]


def place(chip: Chip, memory: Memory, task: Task, name: str, address: int, buffer: Bytes) -> Allocation:
    """Place an array with its own bytes at an address of a memory, and log it.

    An array placed by the compiler may use the part that is reserved for the compiler, so the limit is the memory's
    total size.
    """
    log = chip.log
    held: Any = buffer if chip.data else None
    allocation = memory.place(address, buffer.nbytes, name, len(log.allocations), held)
    log.allocations.append(
        AllocationRecord(
            memory.kind.value,
            memory.name,
            name,
            address,
            buffer.nbytes,
            task.index,
            task.now_ps,
            "uint8",
            (buffer.nbytes,),
            read_only=False,
        )
    )
    return allocation

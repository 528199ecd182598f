"""Allocations at given places: what a linker does with a kernel's arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlusim.log import AllocationRecord
from mlusim.memory.allocation import Allocation, Bytes, Memory

if TYPE_CHECKING:
    from mlusim.cores.chip import Chip
    from mlusim.cores.task import Task


def place(chip: Chip, memory: Memory, task: Task, name: str, address: int, buffer: Bytes) -> Allocation:
    """Put an array at an address of a memory, on bytes of its own, and log it.

    An array that the compiler places may use what kernels leave to it by convention, so the limit is the memory's
    whole size.
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

"""Allocations at fixed addresses, as a linker places a kernel's arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlusim.log_tables import AllocationRecord
from mlusim.memory.allocation import Allocation, Memory
from mlusim.memory.reused import Bytes

if TYPE_CHECKING:
    from mlusim.cores.machine.chip import Chip
    from mlusim.cores.tasks.task import Task


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

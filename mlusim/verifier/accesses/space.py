"""The identity of bytes: allocations that share addresses, and memories that tasks share."""

from __future__ import annotations

import numpy as np

from mlusim.log import Log
from mlusim.verifier.columns import narrow

_SHARED_MEMORIES = ("gdram", "sram")


class Space:
    """For each allocation its address space, and the address of its first byte in it.

    An allocation in GDRAM or SRAM is an address space by itself. NRAM, WRAM and LDRAM are one space each per task,
    because a scope frees addresses while a copy may still use them.

    Attributes:
        number, address: by allocation, its address space, and its address there.
        shared: by allocation, whether several tasks may access it.
        read_only: by allocation, whether no kernel writes it.
    """

    def __init__(self, log: Log) -> None:
        private = {"nram": 0, "wram": 1, "ldram": 2}
        numbers = [private.get(record.memory, len(private) + index) for index, record in enumerate(log.allocations)]
        self.number = narrow(np.array(numbers, np.int64))
        address = np.array([record.address for record in log.allocations], np.int64)
        self.address = narrow(np.where(self.number < len(private), address, 0))
        self.shared = np.array([record.memory in _SHARED_MEMORIES for record in log.allocations], bool)
        self.read_only = np.array([record.read_only for record in log.allocations], bool)

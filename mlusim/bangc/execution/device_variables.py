"""Variables of a file in GDRAM, `__mlu_device__` and `__mlu_const__`: one for all cores and launches of a device."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, ref

from mlusim.bangc.execution.image import Room
from mlusim.bangc.lines import raise_at
from mlusim.bangc.runtime_layout import ARENA_BYTES, EXTERN
from mlusim.errors import AllocationError, KernelError
from mlusim.units import group_digits

if TYPE_CHECKING:
    from mlusim.cores.machine.chip import Chip


class DeviceVariables:
    """The variables in GDRAM of one binary, whose copies all refer to the same bytes.

    Attributes:
        room: the bytes that compiled code uses.
    """

    def __init__(self, name: str, alignment: int) -> None:
        self.room = Room(alignment)
        self._name = name
        self._chip: ref[Chip] | None = None
        self._earlier: WeakSet[Chip] = WeakSet()

    def undefined_at(self, address: int) -> str:
        """Return the name of the variable at an address that no file defines; "" for another address."""
        variables = self.room.arena.arrays[: self.room.arena.count]
        starts = ((address - self.room.base - int(variable.offset), variable) for variable in variables)
        return next((entry.name.decode() for at, entry in starts if 0 <= at < entry.size and entry.kind & EXTERN), "")

    def place(self, chip: Chip) -> None:
        """Allocate them on a device that has not run the file before, with their initial values or zeros.

        Raises `KernelError` if another device has run it since, and `AllocationError` if they do not fit.
        """
        if not self.room.arena.count or (self._chip is not None and self._chip() is chip):
            return
        if chip in self._earlier:
            raise KernelError(
                f"another device has run {self._name} meanwhile, and has its variables in GDRAM (__mlu_device__): "
                "compile the file once for each device"
            )
        self._chip = ref(chip)
        self._earlier.add(chip)
        for array in self.room.arena.arrays[: self.room.arena.count]:
            if not array.kind & EXTERN:
                self._allocate(chip, array)

    def _allocate(self, chip: Chip, array: Any) -> None:
        """Allocate one variable with its initial value or zeros."""
        name, start, size = array.name.decode(), int(array.offset), int(array.size)
        if start + size > ARENA_BYTES:
            text = (
                f"the variables in GDRAM of {self._name} take more than {group_digits(ARENA_BYTES)} B: allocate "
                "large ones by cnrtMalloc"
            )
            raise_at(os.fsdecode(array.file), int(array.line), name, AllocationError(text))
        content = self.room.bytes[start : start + size]
        content.fill(0)
        if array.initial:
            ctypes.memmove(int(content.ctypes.data), array.initial, size)
        allocation = chip.allocate(
            chip.gdram,
            size,
            name,
            dtype="uint8",
            shape=(size,),
            now=chip.environment.now,
            adopt=content,
            workspace=True,
        )
        # Also in a timing-only run: compiled code accesses these bytes.
        allocation.buffer = content
        chip.log.host.writes.add(allocation.identity)
        chip.log.of_file.add(allocation.identity)

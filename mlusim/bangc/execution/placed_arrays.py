"""The arrays with a memory space of one task: allocations of the simulated memories, on the bytes that C++ accesses."""

from __future__ import annotations

import ctypes
import os
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Array
from mlusim.bangc.execution.file_variables import undefined_variable
from mlusim.bangc.execution.image import Image, Room
from mlusim.bangc.lines import raise_at
from mlusim.bangc.runtime_layout import ARENA_BYTES, EXTERN, KINDS, SRAM
from mlusim.errors import AccessError, AllocationError
from mlusim.log_tables import AllocationRecord
from mlusim.memory.allocation import Allocation, Memory
from mlusim.memory.reused import Bytes
from mlusim.memory.sizes import MemorySize
from mlusim.memory.view import View
from mlusim.units import group_digits

if TYPE_CHECKING:
    from mlusim.bangc.module import Module
    from mlusim.cores.copies.effect import Place
    from mlusim.cores.core import Core
    from mlusim.cores.machine.chip import Cluster

_UINT8 = np.dtype(np.uint8)
# Identity of an array in a memory that the memory core lacks: it is never used or logged.
_NO_RECORD = -1
_IN_USE = (
    "{name} in {memory} is in use by another BLOCK task on a core of the same cluster: each task runs by itself there, "
    "and they have one SRAM, with the same addresses; launch it as UNION1, whose tasks share {name}, or declare it "
    "__nram__"
)


class PlacedArrays:
    """The arrays of a task; numbers of arrays are those of the image, by memory.

    Attributes:
        bases: by memory, the address at which its arrays begin in the image; -1 for none.
        lacks_memory: whether arrays may lie in memories that the core lacks, as on a memory core.
    """

    def __init__(self, core: Core, module: Module, image: Image) -> None:
        self._core = core
        self._module = module
        self._image = image
        self._task = core.issuer.task
        self._log = core.issuer.log
        self.bases = [room.base if room is not None else -1 for room in image.rooms]
        # By memory and number: the allocation, None before the first use; the byte in the room.
        self._placed: list[list[Allocation | None]] = [[] for _ in KINDS]
        self._offsets: list[list[int]] = [[] for _ in KINDS]
        # Whether the arrays known at the start of the task have been placed.
        self._begun = False
        unit = self._task.unit
        lacks = [unit.nram is None, unit.wram is None, False, False]
        self._absent = {kind: _no_memory(unit.cluster.index, kind) for kind, is_absent in enumerate(lacks) if is_absent}
        self.lacks_memory = bool(self._absent)
        image.record.absent = sum(1 << kind for kind in self._absent)

    def at(self, address: int) -> Place | None:
        """Return the array at an address, allocated on first use, and the byte in it; None if there is none."""
        for kind, base in enumerate(self.bases):
            offset = address - base
            if 0 <= offset < ARENA_BYTES:
                number = bisect_right(self._offsets[kind], offset) - 1
                if number >= 0:
                    allocation = self._placed[kind][number] or self._allocate(kind, number, fresh=False)
                    return allocation, offset - self._offsets[kind][number]
        return None

    def in_cluster(self, array: Allocation, cluster: Cluster) -> Allocation:
        """Return an array of `__mlu_shared__` in another cluster of the union, allocated on first use.

        On a board its address is known before the kernel starts, so no task of that cluster need have reached the
        function that declares it.
        """
        shared = self._task.job.sram_buffers
        key = next(key for key, view in shared[self._task.unit.cluster.index].items() if view.allocation is array)
        if key in shared.get(cluster.index, ()):
            return shared[cluster.index][key].allocation
        room = self._module.sram_of(self._core.issuer.chip, cluster.index)
        if cluster.index not in shared:
            shared[cluster.index] = {}
            for number in range(room.arena.count):
                self._fill(SRAM, room, room.arena.arrays[number])
        for number in range(room.arena.count):
            if _declaration(room.arena.arrays[number]) == key:
                return self._allocate_shared(cluster, room, number, fresh=False)
        own_room = self._image.rooms[SRAM]
        assert own_room is not None
        array_there = next(
            declared_array
            for declared_array in own_room.arena.arrays[: own_room.arena.count]
            if _declaration(declared_array) == key
        )
        return self._allocate_shared(cluster, room, room.declare(array_there), fresh=True)

    def in_absent_memory(self, address: int) -> bool:
        """Return whether an address lies in an array of a memory that the core lacks."""
        if not self._absent:
            return False
        return any(0 <= address - self.bases[kind] < ARENA_BYTES for kind in self._absent)

    def place_new(self) -> None:
        """Register the arrays of the image that are new to this task, and allocate those it has reached.

        Arrays at file scope are allocated when the task starts; those of functions that earlier launches ran, when this
        task first uses them, so that the entries of one file need not fit in a memory together. So are those at file
        scope in a program of several files: each may fill a memory with arrays of its own. A BLOCK task allocates
        SRAM on first use: kernels of one file may need none, and other tasks of the launch run in the same cluster.
        """
        starts, self._begun = not self._begun, True
        is_block = not self._core.cluster_dim
        shared = self._task.job.sram_buffers
        fills_shared = self._task.unit.cluster.index not in shared
        shared.setdefault(self._task.unit.cluster.index, {})
        for kind, room in enumerate(self._image.rooms):
            if room is None:
                continue
            arena, placed = room.arena, self._placed[kind]
            for number in range(len(placed), arena.count):
                array = arena.arrays[number]
                self._offsets[kind].append(int(array.offset))
                placed.append(None)
                at_start = (number < (room.at_file_scope or 0) and not self._module.sources) or not starts
                if at_start and not (is_block and kind == SRAM) and not array.kind & EXTERN:
                    self._allocate(kind, number)
                elif kind != SRAM or fills_shared:
                    self._fill(kind, room, array)

    def _fill(self, kind: int, room: Room, array: Any) -> Array:
        """Return fresh bytes of an array: poison, or its initial value; zeros if the core lacks the memory."""
        buffer = room.bytes[int(array.offset) : int(array.offset) + int(array.size)]
        buffer.fill(0 if kind in self._absent else self._task.unit.ldram.fresh_byte)
        if array.initial:
            ctypes.memmove(int(buffer.ctypes.data), array.initial, buffer.nbytes)
        return buffer

    def _allocate(self, kind: int, number: int, *, fresh: bool = True) -> Allocation:
        """Return an array of this task, which it allocates unless another task of its cluster has."""
        room = self._image.rooms[kind]
        assert room is not None
        array = room.arena.arrays[number]
        if array.kind & EXTERN:
            raise AccessError(f"it uses {undefined_variable(array.name.decode())}")
        unit, placed = self._task.unit, self._placed[kind]
        if kind == SRAM:
            allocation = self._allocate_shared(unit.cluster, room, number, fresh=fresh)
        else:
            memory = self._absent.get(kind) or getattr(unit, KINDS[kind].value)
            others = [other for other in placed if other is not None]
            allocation = self._allocate_after(others, kind, memory, room, number, fresh=fresh)
            if kind not in self._absent:
                getattr(self._core, KINDS[kind].value).adopt(allocation)
        placed[number] = allocation
        return allocation

    def _allocate_shared(self, cluster: Cluster, room: Room, number: int, *, fresh: bool) -> Allocation:
        """Return an array in the SRAM of a cluster, which its first use allocates."""
        shared = self._task.job.sram_buffers[cluster.index]
        key = _declaration(room.arena.arrays[number])
        if key not in shared:
            others = [view.allocation for view in shared.values()]
            allocation = self._allocate_after(others, SRAM, cluster.sram, room, number, fresh=fresh)
            shared[key] = View.of(allocation, (allocation.nbytes,), _UINT8)
        return shared[key].allocation

    def _allocate_after(
        self, others: list[Allocation], kind: int, memory: Memory, room: Room, number: int, *, fresh: bool
    ) -> Allocation:
        """Allocate an array after others, at an address within the simulated memory."""
        array = room.arena.arrays[number]
        name, size, start = array.name.decode(), int(array.size), int(array.offset)
        alignment = int(room.arena.alignment)
        offset = max((-(-(other.address + other.nbytes) // alignment) * alignment for other in others), default=0)
        declared = os.fsdecode(array.file), int(array.line), name
        if kind in self._absent and start + size > ARENA_BYTES:
            # An error on the cores that have the memory.
            return memory.place(offset, 1, name, _NO_RECORD, None)
        if offset + size > memory.size.total_bytes or start + size > ARENA_BYTES:
            raise_at(*declared, AllocationError(self._too_large_text(kind, number, memory)))
        if kind == SRAM and not self._core.cluster_dim and _is_in_use(memory, offset, size):
            raise_at(*declared, AllocationError(_IN_USE.format(name=name, memory=memory.name)))
        buffer = self._fill(kind, room, array) if fresh else room.bytes[start : start + size]
        if kind in self._absent:
            return memory.place(offset, size, name, _NO_RECORD, None)
        allocation = self._place(memory, name, offset, buffer)
        if array.initial:
            self._log.host.writes.add(allocation.identity)
        if number < (room.at_file_scope or 0) and len(self._module.entries) > 1:
            self._log.of_file.add(allocation.identity)
        return allocation

    def _place(self, memory: Memory, name: str, address: int, buffer: Bytes) -> Allocation:
        """Place an array with its own bytes at an address of a memory, as a linker does, and log it.

        It may use the part that is reserved for the compiler, so the limit is the memory's total size.
        """
        log = self._log
        data: Any = buffer if self._core.issuer.chip.data else None
        allocation = memory.place(address, buffer.nbytes, name, len(log.allocations), data)
        log.allocations.append(
            AllocationRecord(
                memory.kind.value,
                memory.name,
                name,
                address,
                buffer.nbytes,
                self._task.index,
                self._task.now_ps,
                "uint8",
                (buffer.nbytes,),
                read_only=False,
            )
        )
        return allocation

    def _too_large_text(self, kind: int, number: int, memory: Any) -> str:
        """Describe the arrays of the task, up to one that does not fit and with those at file scope that follow it."""
        room = self._image.rooms[kind]
        assert room is not None
        known, placed, at_file_scope = room.arena.arrays, self._placed[kind], room.at_file_scope or 0
        arrays = [(allocation.name, allocation.nbytes) for allocation in placed if allocation is not None]
        # They are placed together at the start of the task, but in a program of several files.
        following = range(len(placed), 0 if self._module.sources else at_file_scope)
        indices = [number, *(index for index in following if not known[index].kind & EXTERN)]
        arrays += [(known[index].name.decode(), int(known[index].size)) for index in indices]
        alignment = int(room.arena.alignment)
        total = sum(-(-size // alignment) * alignment for _, size in arrays[:-1]) + arrays[-1][1]
        in_memory, file = f"the {KINDS[kind].value.upper()} array", self._module.path.name
        has = f"and {memory.name} has {group_digits(memory.size.total_bytes)} B"
        others = "" if number < at_file_scope else "; arrays that its function declares further on need room, too"
        if len(arrays) == 1:
            return f"{in_memory} {arrays[0][0]} of {file} takes {group_digits(total)} B {has}: make it smaller{others}"
        parts = " + ".join(f"{name} {group_digits(size)}" for name, size in arrays)
        return (
            f"{in_memory}s of {file} take {group_digits(total)} B ({parts}, each from a multiple of {alignment} B on) "
            f"{has}: make an array smaller, or let functions share one{others}"
        )


def _declaration(array: Any) -> str:
    """Describe the declaration of an array, which identifies it in the SRAM of every cluster."""
    name, file, owner = (os.fsdecode(text or b"") for text in (array.name, array.file, array.owner))
    return f"{name} of {owner}, {file}:{array.line}, {array.size} B"


def _is_in_use(memory: Memory, address: int, nbytes: int) -> bool:
    """Return whether another BLOCK task of the cluster has an array at these addresses of SRAM."""
    return any(other.address < address + nbytes and address < other.address + other.capacity for other in memory.live)


def _no_memory(cluster: int, kind: int) -> Memory:
    """Return a stand-in memory for arrays in NRAM and WRAM on a memory core, which have addresses but no use."""
    name = f"the {KINDS[kind].value.upper()} that the memory core of cluster {cluster} does not have"
    return Memory(KINDS[kind], name, MemorySize(ARENA_BYTES, alignment_bytes=1))

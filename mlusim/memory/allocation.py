"""Memories and their allocations: capacity, alignment, bytes, peak use.

A memory allocates first fit. An on-chip memory has one byte buffer; each off-chip allocation has its own, created
with it, because a laptop does not have 24 GB to spare. In a timing-only run there are no buffers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from mlusim.arrays import Array
from mlusim.errors import AccessError, AllocationError, for_caller
from mlusim.memory.deferred import MIN_BYTES, DeferredWrite, DeferredWrites
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.reused import MIN_REUSED_BYTES, Bytes, aligned_bytes, on_chip_bytes, recycle, reused_bytes
from mlusim.memory.sizes import MemorySize
from mlusim.units import MIB, format_bytes, group_digits

# Every byte of fresh memory has this value: NaN as a float, -1 as a signed integer, and rarely a correct result.
POISON = 0xFF
# Filling a large tensor costs the host as much as copying it. Larger off-chip allocations are not poisoned, nor is
# reused memory; the verifier finds the bytes that a kernel left unwritten.
_POISONED_BYTES = 16 * MIB


class Allocation:
    """A range of one memory, allocated by a kernel or the host.

    `address` is its offset in the memory in bytes; `buffer` contains its bytes, or is None in a timing-only run.
    `is_poisoned`: its bytes were poisoned when it was fresh; those of large tensors in GDRAM are not.
    """

    __slots__ = (
        "address",
        "buffer",
        "capacity",
        "freed",
        "identity",
        "is_poisoned",
        "memory",
        "name",
        "nbytes",
        "read_only",
    )

    def __init__(self, memory: Memory, identity: int, address: int, nbytes: int, capacity: int, name: str) -> None:
        self.memory = memory
        self.identity = identity
        self.address = address
        self.nbytes = nbytes
        self.capacity = capacity
        self.name = name
        self.buffer: Bytes | None = None
        self.read_only = False
        self.freed = False
        self.is_poisoned = not memory.kind.off_chip or nbytes <= _POISONED_BYTES

    def __repr__(self) -> str:
        return f"<{self.name} in {self.memory.name}: {group_digits(self.nbytes)} B at {self.address}>"

    def bytes(self) -> Bytes:
        """Return the bytes. Raises an error if they were freed or the run is timing-only."""
        if self.buffer is None:
            check_usable(self, write=False)
            raise AccessError(f"{self.name} has a size but no bytes: this run is timing-only; run it with data=True")
        return self.buffer


class Memory:
    """One memory of the machine: a core's NRAM, a cluster's SRAM, the GDRAM.

    `data`: with bytes. `fresh_byte`: the value of each fresh byte.

    Allocation identities are unique within a device.
    """

    def __init__(
        self, kind: MemoryKind, name: str, size: MemorySize, *, data: bool = True, fresh_byte: int = POISON
    ) -> None:
        self.kind = kind
        self.name = name
        self.size = size
        self.usable_bytes = size.usable_bytes
        self.data = data
        self.fresh_byte = fresh_byte
        self.peak_bytes = 0
        self.used_bytes = 0
        # Bytes that large loads have not written yet; None if every load writes its bytes at once.
        self.deferred: DeferredWrites | None = None
        self._live: list[Allocation] = []
        self._buffer: Bytes | None = None
        # Its address on the host.
        self._begin = 0
        # Allocations placed at a fixed address, with buffers of their own.
        self._placed_allocations: list[Allocation] = []
        # Ranges that were freed while transfers were in flight: fresh buffers there are not poisoned.
        self._in_flight: list[tuple[int, int]] = []

    @property
    def live(self) -> tuple[Allocation, ...]:
        """Allocations that are not freed, by address."""
        return tuple(self._live)

    def largest_free_bytes(self) -> int:
        """Return the length in bytes of the longest free range."""
        return max((stop - start for start, stop in self._holes()), default=0)

    def allocate(
        self, nbytes: int, name: str, identity: int, *, adopt: Bytes | None = None, overwritten: bool = False
    ) -> Allocation:
        """Allocate `nbytes`, first fit.

        `adopt`: bytes to use for an off-chip allocation instead of fresh ones. `overwritten`: see `Device.alloc`.

        Raises `AllocationError`, with the arithmetic, if they do not fit.
        """
        capacity = self.size.allocated_bytes(nbytes)
        holes = enumerate(self._holes())
        position, start = next(((k, start) for k, (start, stop) in holes if stop - start >= capacity), (-1, -1))
        if position < 0:
            raise AllocationError(self._does_not_fit(nbytes, capacity))
        allocation = Allocation(self, identity, start, nbytes, capacity, name)
        if self.data:
            allocation.buffer = self._bytes(allocation, overwritten=overwritten) if adopt is None else adopt
        self._add(allocation, position)
        return allocation

    def _add(self, allocation: Allocation, position: int) -> None:
        self._live.insert(position, allocation)
        self.used_bytes += allocation.capacity
        self.peak_bytes = max(self.peak_bytes, self.used_bytes)

    def transfers_ended(self) -> None:
        """Called when no transfer is in flight any more."""
        self._in_flight.clear()

    def place(self, address: int, nbytes: int, name: str, identity: int, buffer: Bytes | None) -> Allocation:
        """Allocate the `nbytes` at `address`, as a linker does, with the bytes of `buffer`.

        The range may lie in the part reserved for the compiler. Before the buffer is read directly, deferred loads must
        be written (`Unit.flush`). Raises `AllocationError` if the range leaves the memory or overlaps another
        allocation.
        """
        capacity = self.size.allocated_bytes(nbytes)
        if address < 0 or address + nbytes > self.size.total_bytes:
            raise AllocationError(
                f"{name} of {format_bytes(nbytes)} at byte {group_digits(address)} of {self.name}, which has "
                f"{group_digits(self.size.total_bytes)} B"
            )
        position = 0
        for neighbour in self._live:
            if neighbour.address < address + capacity and address < neighbour.address + neighbour.capacity:
                raise AllocationError(
                    f"{name} at byte {group_digits(address)} of {self.name} overlaps {neighbour.name}"
                )
            position += neighbour.address < address
        allocation = Allocation(self, identity, address, nbytes, capacity, name)
        allocation.buffer = buffer
        self._placed_allocations.append(allocation)
        self._add(allocation, position)
        return allocation

    def free(self, allocation: Allocation, *, in_flight: bool = False) -> None:
        """Free a range. `in_flight`: a transfer may still use its bytes, which stay intact until `transfers_ended`.

        Raises `AllocationError` if it is already freed.
        """
        if allocation.freed or allocation.memory is not self:
            raise AllocationError(f"{allocation.name} is freed already; free each allocation of {self.name} once")
        self._live.remove(allocation)
        if allocation in self._placed_allocations:
            self._placed_allocations.remove(allocation)
        allocation.freed = True
        # A reference to a freed allocation must not keep its bytes alive.
        allocation.buffer = None
        self.used_bytes -= allocation.capacity
        if in_flight:
            self._in_flight.append((allocation.address, allocation.address + allocation.capacity))

    def disown(self) -> None:
        """Drop all allocations without freeing their bytes: existing views stay valid."""
        self._live = []
        self._placed_allocations = []

    def close(self) -> None:
        """Free all allocations and their bytes."""
        for allocation in self._live:
            allocation.freed = True
            allocation.buffer = None
        self._live = []
        self._placed_allocations = []
        self.deferred = None
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            recycle(buffer)

    def _holes(self) -> list[tuple[int, int]]:
        """Return the free ranges by address: hole k lies before live allocation k."""
        holes, start = [], 0
        for allocation in self._live:
            holes.append((start, allocation.address))
            start = allocation.address + allocation.capacity
        holes.append((start, self.usable_bytes))
        return holes

    def _bytes(self, allocation: Allocation, *, overwritten: bool) -> Bytes:
        if self.kind.off_chip:
            if overwritten and allocation.nbytes >= MIN_REUSED_BYTES:
                allocation.is_poisoned = False
                return reused_bytes(allocation.nbytes)
            fresh = aligned_bytes(allocation.nbytes)
            if allocation.is_poisoned:
                fresh.fill(self.fresh_byte)
            return fresh
        # The padding belongs to the allocation: vector units of old boards work on whole 128 B.
        first, last = allocation.address, allocation.address + allocation.capacity
        content = self.bytes_between(first, last)
        if not any(first < stop and start < last for start, stop in self._in_flight):
            if self.deferred is not None and allocation.capacity >= MIN_BYTES:
                self.deferred.put(DeferredWrite(first, last, np.array(self.fresh_byte, np.uint8), fresh=True))
            else:
                if self.deferred is not None:
                    self.deferred.discard(first, last)
                content.fill(self.fresh_byte)
        return content[: allocation.nbytes]

    def bytes_between(self, first: int, last: int) -> Bytes:
        """Return bytes [first, last) of an on-chip memory, from an array placed there or from the memory's buffer."""
        for allocation in self._placed_allocations:
            if (
                allocation.buffer is not None
                and allocation.address <= first
                and last <= allocation.address + allocation.nbytes
            ):
                return allocation.buffer[first - allocation.address : last - allocation.address]
        if self._buffer is None:
            self._buffer = on_chip_bytes(self.usable_bytes)
            self._begin = self._buffer.__array_interface__["data"][0]
        return self._buffer[first:last]

    def span_of(self, array: Array) -> tuple[int, int] | None:
        """Return the range [first, last) of an on-chip memory that an array spans, or None if it lies elsewhere."""
        if array.flags.c_contiguous:
            # As `byte_bounds`, which takes as long as a copy.
            low = array.__array_interface__["data"][0]
            high = low + array.nbytes
        else:
            low, high = byte_bounds(array)
        if self._buffer is not None and self._begin <= low and high <= self._begin + self._buffer.nbytes:
            return low - self._begin, high - self._begin
        for allocation in self._placed_allocations:
            if allocation.buffer is not None:
                begin = allocation.buffer.__array_interface__["data"][0]
                if begin <= low and high <= begin + allocation.buffer.nbytes:
                    return allocation.address + low - begin, allocation.address + high - begin
        return None

    def _does_not_fit(self, nbytes: int, capacity: int) -> str:
        rounding_text = f" (rounded up to {group_digits(capacity)} B)" if capacity != nbytes else ""
        total, reserved = group_digits(self.size.total_bytes), group_digits(self.size.reserved_bytes)
        reserved_text = f" ({total} B less {reserved} B reserved for the compiler)" if self.size.reserved_bytes else ""
        return (
            f"{self.kind.value}.alloc of {format_bytes(nbytes)}{rounding_text} does not fit: "
            f"{group_digits(self.usable_bytes)} B usable in {self.name}{reserved_text}, "
            f"{group_digits(self.used_bytes)} B in use, largest free range {group_digits(self.largest_free_bytes())} B"
        )


def check_usable(allocation: Allocation, *, write: bool) -> None:
    """Raise if an access uses freed memory or writes to an input."""
    if allocation.freed:
        remedy = (
            "upload or allocate it again"
            if allocation.memory.kind is MemoryKind.GDRAM
            else "use it before its scope ends or allocate again"
        )
        raise AllocationError(f"{allocation.name} in {allocation.memory.name} was freed; {remedy}")
    if write and allocation.read_only:
        raise AccessError(f"{allocation.name} is an input, and {input_rule(allocation.name)}")


def input_rule(name: str) -> str:
    """Return the rule and the remedy for a kernel that writes to an input."""
    argument = for_caller(
        f"give --arg {name}=DTYPE:SHAPE, or --arg {name}=inout:FILE.npy for values before the run",
        "pass Output(shape, dtype), or InOut(array) for values before the run",
    )
    return f"inputs are never written; {argument}, or write to a buffer of your own"


def fits_message(shape: tuple[int, ...], itemsize: int, free_bytes: int) -> str:
    """Advise on the largest tile of this shape, cut along its first axis, that fits in `free_bytes`."""
    if not shape or free_bytes < itemsize:
        return "free other buffers first: allocate before the loop, or inside `with core.nram.scope()`"
    row: Any = itemsize
    for extent in shape[1:]:
        row *= extent
    rows = free_bytes // row if row else 0
    if rows >= 1:
        fitting = f"{group_digits(rows)} of {group_digits(shape[0])} rows"
        return f"split axis 0 of {shape}: {fitting} of {group_digits(row)} B fit"
    fitting = f"{group_digits(free_bytes // itemsize)} elements"
    return f"not one row of {group_digits(row)} B fits: split an inner axis, {fitting} fit"

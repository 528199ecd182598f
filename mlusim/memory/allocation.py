"""Memories and their allocations: capacity, alignment, bytes, peak use.

A memory hands out `Allocation`s first fit. On-chip memories hold one byte buffer; off-chip allocations hold one
each, made when they are, because nobody's laptop has 24 GB to give. In a timing-only run nothing holds bytes.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from mlusim.errors import AccessError, AllocationError
from mlusim.memory.deferred import Deferred
from mlusim.memory.kinds import MemoryKind
from mlusim.units import MIB, format_bytes, group_digits, round_up

Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]

# Fresh memory holds this in every byte: NaN as a float, -1 as a signed integer, and seldom a right answer.
POISON = 0xFF
# Filling a large tensor costs the host as much as moving it does. Beyond this size off-chip memory holds what the host
# gives; that a kernel left bytes of it unwritten is for the verifier to find.
_POISONED_BYTES = 16 * MIB

# On-chip buffers that no device uses, by size. For the host to find that memory anew takes longer than a small run: a
# block is many buffers, and those of closed devices serve the devices after them. Pages are small: a core that uses
# 1 KB of its NRAM costs the host one of them, where a large page takes 2 MB and, on some hosts, a millisecond. Whoever
# gets a buffer sees nothing of it but poison.
_BLOCK_BYTES = 32 * MIB
_BLOCK_BUFFERS = 64
_PAGE_BYTES = 4096
_KEPT_BYTES = 64 * MIB
_KEPT_SIZES = 4
_kept: dict[int, list[Bytes]] = {}


class Allocation:
    """A range of one memory that a kernel or the host allocated.

    `address` is the offset in the memory in bytes; `buffer` the bytes themselves, or None in a timing-only run.
    """

    __slots__ = ("address", "buffer", "capacity", "freed", "identity", "memory", "name", "nbytes", "read_only")

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

    def __repr__(self) -> str:
        return f"<{self.name} in {self.memory.name}: {group_digits(self.nbytes)} B at {self.address}>"

    def bytes(self) -> Bytes:
        """The bytes; an error where they were freed, or the run is timing-only."""
        if self.buffer is None:
            check_usable(self, write=False)
            raise AccessError(f"{self.name} has a size but no bytes: this run is timing-only; run it with data=True")
        return self.buffer


class Memory:
    """One memory of the machine: a core's NRAM, a cluster's SRAM, the GDRAM.

    `total_bytes` is what the hardware has, `reserved_bytes` what the compiler keeps, `alignment_bytes` what every
    allocation is rounded up to. `identities` numbers the allocations of the whole device.
    """

    def __init__(
        self,
        kind: MemoryKind,
        name: str,
        total_bytes: int,
        *,
        reserved_bytes: int = 0,
        alignment_bytes: int = 128,
        data: bool = True,
    ) -> None:
        self.kind = kind
        self.name = name
        self.total_bytes = total_bytes
        self.reserved_bytes = reserved_bytes
        self.alignment_bytes = alignment_bytes
        self.data = data
        self.peak_bytes = 0
        self.used_bytes = 0
        # What large loads left unwritten; None where every load writes its bytes.
        self.deferred: Deferred | None = None
        self._live: list[Allocation] = []
        self._buffer: Bytes | None = None
        # Allocations on bytes of their own.
        self._placed: list[Allocation] = []
        # Ranges that were given back while transfers were in flight: fresh buffers there are not poisoned.
        self._in_flight: list[tuple[int, int]] = []

    @property
    def usable_bytes(self) -> int:
        """Bytes that allocations may take."""
        return self.total_bytes - self.reserved_bytes

    @property
    def live(self) -> tuple[Allocation, ...]:
        """Allocations that are not freed, by address."""
        return tuple(self._live)

    def largest_free_bytes(self) -> int:
        """The longest range that one more allocation could take, in bytes."""
        return max((stop - start for start, stop in self._holes()), default=0)

    def allocate(self, nbytes: int, name: str, identity: int, *, adopt: Bytes | None = None) -> Allocation:
        """Take `nbytes`, first fit; `adopt` gives an off-chip allocation its bytes instead of fresh ones.

        Raises `AllocationError` with the arithmetic where it does not fit.
        """
        capacity = max(round_up(nbytes, self.alignment_bytes), self.alignment_bytes)
        holes = enumerate(self._holes())
        position, start = next(((k, start) for k, (start, stop) in holes if stop - start >= capacity), (-1, -1))
        if position < 0:
            raise AllocationError(self._does_not_fit(nbytes, capacity))
        allocation = Allocation(self, identity, start, nbytes, capacity, name)
        if self.data:
            allocation.buffer = self._bytes(allocation) if adopt is None else adopt
        self._live.insert(position, allocation)
        self.used_bytes += capacity
        self.peak_bytes = max(self.peak_bytes, self.used_bytes)
        return allocation

    def settle(self) -> None:
        """No transfer is in flight any more."""
        self._in_flight.clear()

    def place(self, address: int, nbytes: int, name: str, identity: int, buffer: Bytes | None) -> Allocation:
        """Take the `nbytes` at `address`, as a linker does, on the bytes of `buffer`.

        They may lie in what is reserved for the compiler. Whoever looks at the buffer without this memory has what
        loads left out written first (`Unit.settle`). Raises `AllocationError` where they leave the memory or are taken.
        """
        capacity = max(round_up(nbytes, self.alignment_bytes), self.alignment_bytes)
        if address < 0 or address + nbytes > self.total_bytes:
            raise AllocationError(
                f"{name} of {format_bytes(nbytes)} at byte {group_digits(address)} of {self.name}, which has "
                f"{group_digits(self.total_bytes)} B"
            )
        position = 0
        for one in self._live:
            if one.address < address + capacity and address < one.address + one.capacity:
                raise AllocationError(f"{name} at byte {group_digits(address)} of {self.name} overlaps {one.name}")
            position += one.address < address
        allocation = Allocation(self, identity, address, nbytes, capacity, name)
        allocation.buffer = buffer
        self._placed.append(allocation)
        self._live.insert(position, allocation)
        self.used_bytes += capacity
        self.peak_bytes = max(self.peak_bytes, self.used_bytes)
        return allocation

    def free(self, allocation: Allocation, *, in_flight: bool = False) -> None:
        """Give a range back; `in_flight`: a transfer may still use its bytes, which stay until `settle`.

        Raises `AllocationError` where it was given back before.
        """
        if allocation.freed or allocation.memory is not self:
            raise AllocationError(f"{allocation.name} is freed already; free each allocation of {self.name} once")
        self._live.remove(allocation)
        if allocation in self._placed:
            self._placed.remove(allocation)
        allocation.freed = True
        # Whoever still holds the allocation must not hold its bytes.
        allocation.buffer = None
        self.used_bytes -= allocation.capacity
        if in_flight:
            self._in_flight.append((allocation.address, allocation.address + allocation.capacity))

    def disown(self) -> None:
        """Hold no allocation any more: who has a view of one still has its bytes."""
        self._live = []
        self._placed = []

    def close(self) -> None:
        """Give up all allocations and their bytes."""
        for allocation in self._live:
            allocation.freed = True
            allocation.buffer = None
        self._live = []
        self._placed = []
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            _keep(buffer)

    def _holes(self) -> list[tuple[int, int]]:
        """Free ranges by address: hole k lies before live allocation k."""
        holes, start = [], 0
        for allocation in self._live:
            holes.append((start, allocation.address))
            start = allocation.address + allocation.capacity
        holes.append((start, self.usable_bytes))
        return holes

    def _bytes(self, allocation: Allocation) -> Bytes:
        if self.kind.off_chip:
            if allocation.nbytes > _POISONED_BYTES:
                return np.empty(allocation.nbytes, np.uint8)
            return np.full(allocation.nbytes, POISON, np.uint8)
        # The rounding belongs to the allocation: vector units of old boards work on whole 128 B.
        first, last = allocation.address, allocation.address + allocation.capacity
        held = self.held_bytes(first, last)
        if not any(first < stop and start < last for start, stop in self._in_flight):
            if self.deferred is not None:
                self.deferred.forget(first, last)
            held.fill(POISON)
        return held[: allocation.nbytes]

    def held_bytes(self, first: int, last: int) -> Bytes:
        """The bytes [first, last) of an on-chip memory: those of the array that was placed there, or its own."""
        for one in self._placed:
            if one.buffer is not None and one.address <= first and last <= one.address + one.nbytes:
                return one.buffer[first - one.address : last - one.address]
        if self._buffer is None:
            self._buffer = _buffer(self.usable_bytes)
        return self._buffer[first:last]

    def span_of(self, array: np.ndarray[Any, Any]) -> tuple[int, int] | None:
        """The bytes [first, last) of an on-chip memory between which an array lies; None for one of other memory."""
        low, high = byte_bounds(array)
        own = [] if self._buffer is None else [(0, self._buffer)]
        for address, buffer in [(one.address, one.buffer) for one in self._placed] + own:
            if buffer is not None:
                begin = buffer.__array_interface__["data"][0]
                if begin <= low and high <= begin + buffer.nbytes:
                    return address + low - begin, address + high - begin
        return None

    def _does_not_fit(self, nbytes: int, capacity: int) -> str:
        rounded = f" (rounded up to {group_digits(capacity)} B)" if capacity != nbytes else ""
        total, reserved = group_digits(self.total_bytes), group_digits(self.reserved_bytes)
        less = f" ({total} B less {reserved} B reserved for the compiler)" if self.reserved_bytes else ""
        return (
            f"{self.kind.value}.alloc of {format_bytes(nbytes)}{rounded} does not fit: "
            f"{group_digits(self.usable_bytes)} B usable in {self.name}{less}, "
            f"{group_digits(self.used_bytes)} B in use, largest free range {group_digits(self.largest_free_bytes())} B"
        )


def _buffer(nbytes: int) -> Bytes:
    """Bytes for one on-chip memory, whatever they hold."""
    kept = _kept.get(nbytes)
    if not kept:
        if kept is None and len(_kept) >= _KEPT_SIZES:
            _kept.clear()
        step = round_up(nbytes, _PAGE_BYTES)
        block = _small_pages(max(min(_BLOCK_BYTES // step, _BLOCK_BUFFERS), 1) * step).reshape(-1, step)
        kept = _kept[nbytes] = [row[:nbytes] for row in block[::-1]]
    return kept.pop()


def _small_pages(nbytes: int) -> Bytes:
    """Bytes that the host finds page by page as they are written."""
    pages = mmap.mmap(-1, nbytes)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        # A system without large pages refuses: nothing to do.
        with suppress(OSError):
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, np.uint8)


def _keep(buffer: Bytes) -> None:
    kept = _kept.get(buffer.nbytes)
    if kept is not None and len(kept) * buffer.nbytes < _KEPT_BYTES:
        kept.append(buffer)


def check_usable(allocation: Allocation, *, write: bool) -> None:
    """Refuse a use of freed memory and a write to an input."""
    if allocation.freed:
        raise AllocationError(
            f"{allocation.name} in {allocation.memory.name} was freed; use it before its scope ends or allocate again"
        )
    if write and allocation.read_only:
        raise AccessError(
            f"{allocation.name} is an input and inputs are never written; write to an output (on the command line "
            f"--arg {allocation.name}=DTYPE:SHAPE) or a buffer of your own"
        )


def fits_message(shape: tuple[int, ...], itemsize: int, free_bytes: int) -> str:
    """The largest tile of the same shape, cut along its first axis, that `free_bytes` hold."""
    if not shape:
        return "free other buffers first"
    row: Any = itemsize
    for extent in shape[1:]:
        row *= extent
    rows = free_bytes // row if row else 0
    if rows >= 1:
        return f"split axis 0 of {shape}: {rows} of {shape[0]} rows of {group_digits(row)} B fit"
    return f"not one row of {group_digits(row)} B fits: split an inner axis, {free_bytes // itemsize} elements fit"

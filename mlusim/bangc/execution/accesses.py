"""Plain C++ accesses to device memory, recorded as counted scalar loads and stores at their C++ lines.

The fibre library delivers runs: accesses of one instruction at equal steps. Consecutive runs at equal steps become one
record of two loops; irregular accesses become one record with their addresses.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Awaitable
from typing import TYPE_CHECKING

import numpy as np

from mlusim.arrays import Array
from mlusim.bangc.lines import raise_at
from mlusim.bangc.runtime_layout import RUN_COUNT_WORD
from mlusim.cores.scalar import access, arithmetic
from mlusim.errors import AccessError
from mlusim.memory.layout import layout_of
from mlusim.memory.view import View
from mlusim.units import group_digits

if TYPE_CHECKING:
    from mlusim.bangc.execution.compiled_task import CompiledTask
    from mlusim.cores.issuer import Issuer
    from mlusim.memory.allocation import Allocation
    from mlusim.memory.bus import Loops

# Up to this many runs are recorded one by one, without grouping.
_FEW = 16
# Any two accesses are a run. Accesses whose runs are shorter than this on average are irregular.
_SHORT = 4
# Ordinary operations of a loop for each of its accesses, as thirds: address, arithmetic, branch. Read off the scalar
# matmul in NRAM on MLU370 (30 cycles an iteration of two loads and a store, of 6 cycles each; 12 remain for four
# operations of 3). ASSUMED of other loops: assembly listings of MLU270 have 13 and 17 operations for two loads.
_ORDINARY_THIRDS = 4
# Flags of a run: some loaded values were those of fresh memory; stores of a memory core that are taken back.
_FRESH = 1 << 15
_DROPPED = 1 << 14
# A run as written by the fibre: RUN of `mlusim.bangc.runtime_layout`.
_RUN = struct.Struct("<QQqQQ")
_DTYPES = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
_BYTE = np.dtype(np.uint8)


def drain(task: CompiledTask, function: str) -> Awaitable[None] | None:
    """Charge and log the accesses counted by the fibre; returns None if there is nothing to wait for."""
    image = task.image
    count = image.words[RUN_COUNT_WORD]
    image.words[RUN_COUNT_WORD] = 0
    if count > 1:
        return _record_runs(task, function, image.runs[:count])
    pc, address, stride, times, meta = _RUN.unpack_from(image.run_bytes)
    task.accessed_since_ps = -1
    # With nothing else in between, the order of records says what was written first.
    return _record_access(task, function, pc, address, ((times, stride),), meta | _FRESH)


async def _record_runs(task: CompiledTask, function: str, runs: Array) -> None:
    count = len(runs)
    task.accessed_since_ps = task.issuer.task.now_ps
    if count <= _FEW:
        for pc, address, stride, times, meta in runs.tolist():
            waits = _record_access(task, function, pc, address, ((times, stride),), meta)
            if waits is not None:
                await waits
        return
    runs = runs.copy()
    order = np.lexsort((np.arange(count), runs["meta"], runs["pc"]))
    grouped = runs[order]
    edges = np.flatnonzero((np.diff(grouped["pc"]) != 0) | (np.diff(grouped["meta"]) != 0)) + 1
    for group in np.split(grouped, edges):
        await _record_group(task, function, group)


async def _record_group(task: CompiledTask, function: str, runs: Array) -> None:
    """Record runs of one instruction on one tensor."""
    pc, meta = int(runs["pc"][0]), int(runs["meta"][0])
    if len(runs) > _FEW and int(runs["count"].sum()) < _SHORT * len(runs):
        await _scattered(task, function, pc, _run_addresses(runs), meta)
        return
    starts = runs["address"].astype(np.int64)
    equal = (np.diff(runs["count"].astype(np.int64)) == 0) & (np.diff(runs["stride"]) == 0)
    position = 0
    while position < len(runs):
        stop = position + 1
        if stop < len(runs) and equal[position]:
            step = starts[stop] - starts[position]
            while stop < len(runs) and equal[stop - 1] and starts[stop] - starts[stop - 1] == step:
                stop += 1
        times, stride = int(runs["count"][position]), int(runs["stride"][position])
        loops: Loops = ((times, stride),)
        if stop - position > 1:
            loops = ((stop - position, int(starts[position + 1] - starts[position])), *loops)
        waits = _record_access(task, function, pc, int(starts[position]), loops, meta)
        if waits is not None:
            await waits
        position = stop


def _run_addresses(runs: Array) -> Array:
    """Return the address of each access of some runs."""
    count = runs["count"].astype(np.int64)
    step = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    addresses: Array = np.repeat(runs["address"].astype(np.int64), count)
    addresses += np.repeat(runs["stride"], count) * step
    return addresses


def _size_and_write(meta: int) -> tuple[int, bool]:
    """Return the bytes of each access of a run, and whether it writes."""
    return meta & 0xFF, bool(meta >> 8 & 1)


class _AccessPattern:
    """Accesses of one instruction in at most two loops, without their start address."""

    __slots__ = ("below", "dtype", "layout", "line", "name", "reach", "total", "write")

    def __init__(self, task: CompiledTask, function: str, pc: int, loops: Loops, meta: int) -> None:
        size, self.write = _size_and_write(meta)
        self.line = task.line_at(pc, function)
        self.dtype = _DTYPES.get(size, _BYTE)
        self.total = math.prod(count for count, _ in loops)
        self.below = -sum(min((count - 1) * stride, 0) for count, stride in loops)
        self.reach = self.below + size + sum(max((count - 1) * stride, 0) for count, stride in loops)
        # Count each byte once: a stride of 0 repeats the same element.
        extents: tuple[int, ...] = tuple(1 if stride == 0 else count for count, stride in loops)
        strides: tuple[int, ...] = tuple(stride for _, stride in loops)
        if self.dtype.itemsize != size:
            extents, strides = (*extents, size), (*strides, 1)
        self.layout = layout_of(extents, strides, self.dtype)
        name = "store" if self.write else "load"
        self.name = name if self.total == 1 else f"{name}_array"


def _record_access(
    task: CompiledTask, function: str, pc: int, address: int, loops: Loops, meta: int
) -> Awaitable[None] | None:
    """Record accesses in at most two loops."""
    if task.arrays.lacks_memory and _is_skipped(task, function, pc, address, meta):
        return None
    order_known, meta = not meta & _FRESH, meta & ~_FRESH
    key = (pc, meta, loops)
    pattern = task.access_patterns.get(key)
    if pattern is None:
        pattern = task.access_patterns[key] = _AccessPattern(task, function, pc, loops, meta)
    allocation, offset = _locate_within(task, pattern.line, address - pattern.below, pattern.reach, write=pattern.write)
    issuer: Issuer = task.issuer
    if pattern.total > 1:
        _charge_ordinary(issuer, pattern.line, pattern.total)
    if order_known and not pattern.write and allocation.is_poisoned:
        issuer.log.seen.add(issuer.log.records.count)
    view = View(allocation, offset + pattern.below, pattern.layout)
    since_ps = task.accessed_since_ps
    return access(issuer, pattern.line, pattern.name, view, pattern.total, write=pattern.write, since_ps=since_ps)


def _is_skipped(task: CompiledTask, function: str, pc: int, address: int, meta: int) -> bool:
    """Return whether accesses of a memory core have no effect: on memory that it lacks, or stores that depend on it."""
    if meta & _DROPPED:
        task.note_dropped("store", task.line_at(pc, function))
    return bool(meta & _DROPPED) or task.in_absent_memory(address)


def _charge_ordinary(issuer: Issuer, line: int, accesses: int) -> None:
    """Charge the scalar operations that surround the accesses of a loop."""
    arithmetic(issuer, line, count=accesses * _ORDINARY_THIRDS // 3)


async def _scattered(task: CompiledTask, function: str, pc: int, addresses: Array, meta: int) -> None:
    """Record irregular accesses with an array of their addresses."""
    if _is_skipped(task, function, pc, int(addresses[0]), meta):
        return
    size, write = _size_and_write(meta)
    distinct = np.unique(addresses.astype(np.int64))
    line = task.line_at(pc, function)
    allocation, offset = _locate_within(
        task, line, int(distinct[0]), int(distinct[-1] - distinct[0]) + size, write=write
    )
    offsets = distinct - distinct[0]
    dtype = _DTYPES.get(size, _BYTE)
    if (offsets % dtype.itemsize).any() or dtype.itemsize != size:
        dtype = _BYTE
        offsets = np.unique((offsets[:, None] + np.arange(size)).reshape(-1))
    rows = offsets // dtype.itemsize
    view = View.strided(allocation, offset, (int(rows[-1]) + 1,), (dtype.itemsize,), dtype)
    _charge_ordinary(task.issuer, line, len(addresses))
    log = task.issuer.log
    record = log.count
    name = "store_rows" if write else "load_rows"
    since_ps = task.accessed_since_ps
    waiting = access(task.issuer, line, name, view, len(addresses), write=write, since_ps=since_ps)
    if not (write or meta & _FRESH) and allocation.is_poisoned:
        log.seen.add(record)
    log.addresses[record] = {"dst" if write else "src": rows}
    if waiting is not None:
        await waiting


def _locate_within(task: CompiledTask, line: int, address: int, nbytes: int, *, write: bool) -> tuple[Allocation, int]:
    try:
        allocation, offset = task.locate_cached(address)
    except AccessError as error:
        raise_at(*task.issuer.log.lines[line], task.explained(error))
    if offset + nbytes > allocation.nbytes:
        verb = "writes" if write else "reads"
        span = f"{group_digits(offset)}..{group_digits(offset + nbytes)} of {allocation.name}"
        beyond = AccessError(
            f"plain C++ {verb} bytes {span}, which has {group_digits(allocation.nbytes)} B; check the index"
        )
        raise_at(*task.issuer.log.lines[line], beyond)
    return allocation, offset

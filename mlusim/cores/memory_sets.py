"""Sets of a memory: instructions that write one number to all elements of a view.

A set uses the pipe of a copy to the same memory, and so do atomics (`mlusim.cores.atomics`): the source of both is the
core itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.cores.machine.pipe import Transfer
from mlusim.cores.operands import Passed, check_view, number
from mlusim.errors import CopyError, OperandError
from mlusim.log import ASYNCHRONOUS, BLOCKING, IO, MOVE, NONE
from mlusim.memory.allocation import check_usable
from mlusim.memory.bus import write_bus_bytes
from mlusim.memory.copy_cost import CopyCost, copy_cost
from mlusim.memory.copy_shape import CopyShape
from mlusim.memory.kinds import DIRECTION_CODES, DIRECTIONS, MemoryKind
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.tasks.waiting import Waiting
    from mlusim.hardware.board_record import Board

SET_NAMES = ("gdramset", "sramset", "ldramset", "nramset", "nramset_async")


def set_memory(
    issuer: Issuer, line: int, name: str, dst: Passed, value: Any, *, blocking: bool = True
) -> Waiting | None:
    """Write a number to every element of a view with contiguous rows, by an instruction such as `gdramset`.

    Raises `CopyError` for a memory out of reach, `AllocationError` for memory that was freed or is an input,
    `OperandError` for rows with gaps.
    """
    check_view(name, dst)
    element = number(name, value, dst.dtype)
    effect = partial(np.copyto, dst.typed(), element) if issuer.has_data else None
    return transfer_from_core(issuer, line, name, dst, (), effect, blocking=blocking)


def check_row(name: str, view: View, remedy: str) -> None:
    """Raise `OperandError` for a view whose last axis has gaps, repeats an element, or runs backwards."""
    if view.size and view.shape[-1:] != (1,) and view.strides[-1:] not in ((), (view.itemsize,)):
        raise OperandError(f"{name} with {view!r}: the elements of a row must be contiguous; {remedy}")


def transfer_from_core(
    issuer: Issuer,
    line: int,
    name: str,
    dst: View,
    sources: tuple[View, ...],
    effect: Callable[[], None] | None,
    *,
    old: View | None = None,
    is_atomic: bool = False,
    fetches: bool = False,
    blocking: bool,
) -> Waiting | None:
    """Issue a set or an atomic: a transfer to `dst` whose source is the core itself.

    Args:
        sources: operands of an atomic.
        effect: called when the transfer is complete; None without data.
        old: receives the old values of an atomic, if they go to memory.
        is_atomic: whether it reads every bus unit that it writes.
        fetches: whether it returns the old values, to memory or registers.
    """
    issuer.check_reach(dst.allocation.memory)
    check_row(name, dst, "call it for each contiguous part")
    for view in sources:
        check_usable(view.allocation, write=False)
    for view in (dst,) if old is None else (dst, old):
        check_usable(view.allocation, write=True)
    unit, task = issuer.unit, issuer.task
    origin = MemoryKind.SRAM if unit.is_memory_core else MemoryKind.NRAM
    direction = DIRECTIONS.get((origin, dst.memory))
    if direction is None or not dst.size:
        raise CopyError(f"{name} of {dst!r}: it needs at least one element, in a memory that this core can write")
    key = (name, dst.allocation.memory, dst.layout, (dst.allocation.address + dst.offset) % issuer.dram_unit_bytes)
    geometry = issuer.copy_geometries.get(key)
    if geometry is None:
        shape = _shape(issuer, dst, direction, rereads=is_atomic)
        cost = copy_cost(issuer.board, shape, memory_core=unit.is_memory_core)
        geometry = shape, _cost_with_answer(issuer.board, cost) if fetches else cost
        issuer.copy_geometries[key] = geometry
    shape, cost = geometry
    issuer.begin()
    off_chip = dst.memory.off_chip
    views: tuple[View | None, ...] = (dst, *sources)
    if old is not None:
        # It comes after the three of a record, also if there are fewer.
        views = (*views, *[None] * (2 - len(sources)), old)
    record = issuer.record(
        name,
        IO if off_chip else MOVE,
        line,
        task.now_ps,
        task.now_ps,
        NONE,
        views,
        nbytes=shape.nbytes,
        detail=BLOCKING if blocking else ASYNCHRONOUS,
        alone_ps=cost.alone_ps,
        bus_read=shape.bus_read_bytes,
        bus_write=shape.bus_write_bytes,
        direction=DIRECTION_CODES[direction],
    )
    pipe = unit.io if off_chip else unit.move
    transfer = Transfer(pipe, task, record, task.now_ps, cost, effect, BLOCKING if blocking else ASYNCHRONOUS)
    if not blocking:
        pipe.submit(transfer)
        return None
    task.unawaited = record
    task.when_idle(partial(pipe.submit_after_wait, transfer))
    return issuer.suspending


def _cost_with_answer(board: Board, cost: CopyCost) -> CopyCost:
    """Return the cost of an atomic that waits for the old value: it starts up as a load does, if that takes longer."""
    more_ps = max(board.dma_read_latency_ps - cost.latency_ps, 0)
    return CopyCost(
        cost.work, cost.limit, cost.work_per_byte, cost.traffic, cost.latency_ps + more_ps, cost.alone_ps + more_ps
    )


def _shape(issuer: Issuer, dst: View, direction: Any, *, rereads: bool) -> CopyShape:
    """Return the traffic of the transfer: each row of `dst` is a segment; an atomic reads every unit that it writes."""
    flat = dst.is_contiguous
    loops = () if flat else tuple(zip(dst.shape[:-1], dst.strides[:-1], strict=True))
    segment = dst.nbytes if flat else dst.shape[-1] * dst.itemsize
    segments = dst.nbytes // segment
    bus_read = bus_write = 0
    if dst.memory.off_chip:
        unit = issuer.dram_unit_bytes
        bus_read, bus_write = write_bus_bytes((dst.allocation.address + dst.offset) % unit, segment, loops, unit)
        bus_read = bus_write if rereads else bus_read
    return CopyShape(direction, dst.nbytes, segment, segments, loops, (), bus_read, bus_write, segments > 1)

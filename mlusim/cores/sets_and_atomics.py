"""Instructions on memory other than copies: sets of any memory, and atomics on GDRAM.

A set writes one value to all elements; an atomic reads, combines and writes each element of GDRAM without interference
from other cores. Both use the pipe of a copy to the same memory. ASSUMED: an atomic is ordered on its core like a
blocking copy (the vendor's kernels reuse its operand without a sync), and costs a store that reads every bus unit
first. Not modelled: contention of cores on one bus unit beyond its bandwidth.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.instructions.record import INTEGERS, NUMBERS
from mlusim.cores.machine.pipe import Transfer
from mlusim.cores.operands import Passed, check_view, number
from mlusim.dtypes import dtype_name
from mlusim.errors import CopyError, OperandError
from mlusim.log import ASYNCHRONOUS, BLOCKING, IO, MOVE, NONE
from mlusim.memory.allocation import check_usable
from mlusim.memory.bus import write_bus_bytes
from mlusim.memory.copy_cost import CopyCost, copy_cost
from mlusim.memory.copy_shape import CopyShape
from mlusim.memory.kinds import DIRECTION_CODES, DIRECTIONS, MemoryKind
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.instructions.limits import Value
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.tasks.waiting import Waiting
    from mlusim.hardware.board_record import Board


def _wrap_up(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, 0, old + 1)


def _wrap_down(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - 1)


# The new value of an element, from its old value and the operand, by the formulas of the vendor's header: the operand
# replaces NaN, because a comparison with NaN is false.
ATOMICS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "max": lambda old, operand: np.where(old > operand, old, operand),
    "min": lambda old, operand: np.where(old < operand, old, operand),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, operand: np.broadcast_to(operand, old.shape),
    "inc": _wrap_up,
    "dec": _wrap_down,
}
COMPARE_AND_SWAP = "cas"
# Names in the log: atomics that return the old value, and those that do not.
FETCHING = frozenset(f"atomic_{name}" for name in (*ATOMICS, COMPARE_AND_SWAP))
REDUCING = frozenset(f"atomic_reduce_{name}" for name in (*ATOMICS, COMPARE_AND_SWAP))
ATOMIC_NAMES = FETCHING | REDUCING
# An exchange that does not return the old value reads nothing.
BLIND_ATOMICS = frozenset({"atomic_reduce_exch"})
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
    return _transfer(issuer, line, name, dst, (), effect, blocking=blocking)


def atomic(
    issuer: Issuer,
    line: int,
    operation: str,
    target: Passed,
    operand: Value,
    *,
    old: Passed | None = None,
    compare: Value | None = None,
    register: Array | None = None,
) -> Waiting | None:
    """An atomic on GDRAM: `__bang_atomic_add` and related with `old` or `register`, else `__bang_atomic_reduce_add`.

    Args:
        operation: add, max, min, and, or, xor, exch, inc, dec or cas.
        target: elements in GDRAM.
        operand: elements in this core's NRAM, as many as `target` has, or a number; rows are contiguous.
        old: receives the old values of the target, in NRAM; None if they are not needed.
        register: array that receives the old values if they go to registers instead.
        compare: for cas: the value that the target must have to be replaced by `operand`.

    inc: 0 if the old value is at least the operand, else one more. dec: the operand if the old value is 0 or above it,
    else one less. Raises `OperandError` for other memories, types, sizes or alignment.
    """
    fetches = old is not None or register is not None
    name = f"atomic_{operation}" if fetches else f"atomic_reduce_{operation}"
    _check_atomic(issuer, name, operation, target, (operand, compare, old))
    sources = tuple(value for value in (operand, compare) if isinstance(value, View))
    effect = None
    if issuer.has_data:
        values = _values(name, operand, target.dtype)
        compared = None if compare is None else _values(name, compare, target.dtype)
        old_values = register if old is None else old.typed()
        combine = _combine if target.is_contiguous else _combine_rows
        effect = partial(combine, issuer, operation, target.typed(), values, compared, old_values)
    else:
        issuer.chip.changed_by_atomic = issuer.log.count  # without data it may have changed
    return _transfer(issuer, line, name, target, sources, effect, old=old, blocking=True)


def reissue(issuer: Issuer, line: int, name: str, views: list[View], *, blocking: bool) -> Waiting | None:
    """Issue a set or an atomic again from a log: its target, sources and old value; nothing is computed."""
    target, *sources = views
    # The old value of an atomic on a number may have gone to a register.
    old = sources.pop() if name in FETCHING and sources else None
    return _transfer(issuer, line, name, target, tuple(sources), None, old=old, blocking=blocking)


def _combine(
    issuer: Issuer, operation: str, target: Array, operand: Array, compare: Array | None, old: Array | None
) -> None:
    shaped = operand.reshape(target.shape) if operand.ndim else operand
    with np.errstate(all="ignore"):
        if compare is not None:
            compared = compare.reshape(target.shape) if compare.ndim else compare
            new_values = np.where(target == compared, shaped, target)
        else:
            new_values = ATOMICS[operation](target, shaped)
    if new_values.tobytes() != target.tobytes():
        issuer.chip.changed_by_atomic = issuer.log.count
    if old is not None:
        np.copyto(old, target.reshape(old.shape))
    np.copyto(target, new_values)


def _combine_rows(
    issuer: Issuer, operation: str, target: Array, operand: Array, compare: Array | None, old: Array | None
) -> None:
    """Combine row by row: rows of the target may overlap, and each adds to the result of the one before."""
    others = [
        value.reshape(target.shape) if value is not None and value.ndim else value for value in (operand, compare)
    ]
    old_rows = np.empty(target.shape, target.dtype)
    for row in np.ndindex(target.shape[:-1]):
        operand_row, compare_row = (value[row] if value is not None and value.ndim else value for value in others)
        assert operand_row is not None
        _combine(issuer, operation, target[row], operand_row, compare_row, old_rows[row])
    if old is not None:
        np.copyto(old, old_rows.reshape(old.shape))


def _values(name: str, value: Value, dtype: np.dtype[Any]) -> Array:
    """Return a view's current elements, or a number in the element type."""
    return value.typed() if isinstance(value, View) else number(name, value, dtype)


def _check_atomic(
    issuer: Issuer, name: str, operation: str, target: Passed, others: tuple[Passed, Passed, Passed]
) -> None:
    """Raise `OperandError` for a target, or an operand, compared or old value, that the atomic does not take."""
    old = others[-1]
    for view in (target, *(() if old is None else (old,))):
        check_view(name, view)
    if target.memory is not MemoryKind.GDRAM:
        raise OperandError(f"{name} of {target!r}: atomics work on GDRAM only; elsewhere, use a vector instruction")
    types = INTEGERS if operation in {"and", "or", "xor", "inc", "dec"} else NUMBERS
    if target.dtype not in types:
        takes = ", ".join(map(dtype_name, types))
        raise OperandError(f"{name} of {dtype_name(target.dtype)} elements: it takes {takes}; convert them first")
    address = target.allocation.address + target.offset
    if address % target.itemsize:
        raise OperandError(
            f"{name} of {target!r} at byte {address}: the address must be a multiple of {target.itemsize} B"
        )
    for view in others:
        if not isinstance(view, View):
            continue
        if view.allocation.memory is not issuer.unit.nram:
            use = "stores the old value in" if view is old else "takes its operand from"
            raise OperandError(f"{name} with {view!r}: an atomic {use} this core's NRAM; pass a buffer there")
        _check_row(name, view, "memcpy it to a buffer")
        if view.dtype != target.dtype or view.size != target.size:
            raise OperandError(
                f"{name} of {target!r} with {view!r}: both must have the same number of elements and the same type"
            )


def _check_row(name: str, view: View, remedy: str) -> None:
    """Raise `OperandError` for a view whose last axis has gaps, repeats an element, or runs backwards."""
    if view.size and view.shape[-1:] != (1,) and view.strides[-1:] not in ((), (view.itemsize,)):
        raise OperandError(f"{name} with {view!r}: the elements of a row must be contiguous; {remedy}")


def _transfer(
    issuer: Issuer,
    line: int,
    name: str,
    dst: View,
    sources: tuple[View, ...],
    effect: Callable[[], None] | None,
    *,
    old: View | None = None,
    blocking: bool,
) -> Waiting | None:
    """Issue a transfer to `dst` whose source is the core itself."""
    issuer.check_reach(dst.allocation.memory)
    _check_row(name, dst, "call it for each contiguous part")
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
        shape = _shape(issuer, dst, direction, rereads=name in ATOMIC_NAMES)
        cost = copy_cost(issuer.board, shape, memory_core=unit.is_memory_core)
        geometry = shape, _cost_with_answer(issuer.board, cost) if name in FETCHING else cost
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

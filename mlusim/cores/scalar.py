"""The scalar pipe: loads, stores and arithmetic, one element at a time or counted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.cores.operands import Passed, check_convertible, check_view, number
from mlusim.cores.synchronisation.ordering import store_ordering
from mlusim.cores.tasks.waiting import Waiting
from mlusim.errors import MissingDataError, OperandError, shown
from mlusim.log import COUNTERS, NONE, SCALAR
from mlusim.memory.allocation import check_usable
from mlusim.memory.bus import read_bus_bytes, write_bus_bytes
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlusim.cores.issuer import Issuer
    from mlusim.cores.machine.unit import Unit


def load(issuer: Issuer, line: int, source: Passed) -> Waiting:
    """Load one element to a register, as `Core.load`.

    Costs the board's scalar latency for that memory; from GDRAM one bus unit. Raises `OperandError` for more than one
    element or WRAM, `CopyError` for a memory out of the core's reach, `AllocationError` for freed memory, and
    `MissingDataError` in a timing-only run if the bytes are not available.
    """
    view: View = source if type(source) is View else check_view("load", source)
    if view.layout.size != 1:
        raise OperandError(
            f"load takes one element, not {view!r}: index it fully, copy it to NRAM by memcpy, or use load_array"
        )
    return read(issuer, line, "load", view, view.first_number)


def load_array(issuer: Issuer, line: int, source: Passed, origin: Passed = None) -> Waiting:
    """Load every element to registers, as `Core.load_array`.

    Costs `source.size` scalar loads of the memory's latency. Raises as `load`, `OperandError` for an origin of another
    shape or element type.
    """
    check_view("load_array", source)
    if origin is not None:
        check_view("load_array", origin)
        if (origin.shape, origin.dtype) != (source.shape, source.dtype):
            raise OperandError(f"load_array of {source!r} from {origin!r}: both must have the same shape and type")
    known = source if issuer.has_data or origin is None else origin
    return read(issuer, line, "load_array", source, lambda: known.typed().copy(), known)


def read(
    issuer: Issuer, line: int, name: str, source: View, value: Callable[[], Any], origin: View | None = None
) -> Waiting:
    """Issue scalar loads of every element of a view. `value` reads them at their end, from `origin` if it is given."""
    has_bytes = (source if origin is None else origin).allocation.buffer is not None
    record, end_ps, suspends = _access(issuer, line, name, source, source.layout.size, write=False, has_bytes=has_bytes)
    task, unit = issuer.task, issuer.unit
    task.unawaited = record
    if source.allocation.memory is unit.nram:
        value = partial(_value_at, unit, end_ps, source, value)
    elif unit.posted:
        value = partial(_value_after_stores, unit, value)
    if suspends:
        return Waiting(task, suspends=True, finish=value)
    # It is awaited before the next load, so a task needs only one.
    issuer.loaded.finish = value
    return issuer.loaded


def _value_at(unit: Unit, end_ps: int, source: View, value: Callable[[], Any]) -> Any:
    unit.prepare(end_ps, (source,))
    return value()


def _value_after_stores(unit: Unit, value: Callable[[], Any]) -> Any:
    """Scalar code sees the earlier stores of its own core, complete or not."""
    unit.complete_stores()
    return value()


def store(issuer: Issuer, line: int, target: Passed, value: Any) -> None:
    """Store one element from a register, as `Core.store`: a fraction is truncated, an integer wraps.

    A store of less than a bus unit to GDRAM is a read-modify-write (G 5.3). Raises as `load`, and `OperandError`
    for NaN, an infinity or a float beyond the range of an integer type.
    """
    check_view("store", target)
    if target.size != 1:
        raise OperandError(f"store takes one element, not {target!r}: index it fully, or copy a buffer to it by memcpy")
    end_ps = write(issuer, line, "store", target)
    element = number("store", value, target.dtype)
    if target.allocation.buffer is None:
        # A timing-only run stores only to tensors that keep their bytes.
        return
    _write_later(issuer, target, end_ps, partial(np.copyto, target.typed().reshape(()), element))


def store_array(issuer: Issuer, line: int, target: Passed, values: Any) -> None:
    """Store an array from registers, as `Core.store_array`; to a target that keeps its bytes also in a timing-only run.

    Costs `target.size` scalar stores. Raises as `store`, `OperandError` for another shape.
    """
    check_view("store_array", target)
    array = np.asarray(values)
    if array.shape != target.shape:
        raise OperandError(f"store_array of shape {list(array.shape)} to {target!r}: both must have the same shape")
    if array.dtype.kind in "OSUMm" or (array.dtype.kind == "c" and target.dtype.kind != "c"):
        raise OperandError(f"store_array of {shown(values)} to {target!r}: the elements must be real numbers")
    check_convertible("store_array", array, target.dtype)
    end_ps = write(issuer, line, "store_array", target)
    if target.allocation.buffer is not None:
        if array.dtype.kind in "biu":
            elements = array.astype(target.dtype)
        else:
            with np.errstate(all="ignore"):
                elements = array.astype(target.dtype)
        _write_later(issuer, target, end_ps, partial(np.copyto, target.typed(), elements))


def write(issuer: Issuer, line: int, name: str, target: View) -> int:
    """Issue scalar stores of every element of a view, without their values; returns the time when they are complete."""
    return _access(issuer, line, name, target, target.size, write=True, has_bytes=True)[1]


def access(
    issuer: Issuer, line: int, name: str, view: View, count: int, *, write: bool, since_ps: int = -1
) -> Waiting | None:
    """Charge `count` scalar accesses to the elements of a view; returns None if there is nothing to wait for.

    An element may be accessed more than once. Used by compiled kernels, which access memory directly. Posted stores of
    a loop that was charged from `since_ps` on were issued since then, between its other accesses.
    """
    has_bytes = view.allocation.buffer is not None
    record, _, suspends = _access(issuer, line, name, view, count, write=write, has_bytes=has_bytes, since_ps=since_ps)
    if not suspends:
        return None
    issuer.task.unawaited = record
    return Waiting(issuer.task, suspends=True)


# Far below the limit of 64-bit picoseconds.
_MAX_CYCLES = 1 << 48


def arithmetic(issuer: Issuer, line: int, cycles: Any = None, count: Any = 1, *, counters: bool = False) -> None:
    """Charge scalar arithmetic: `count` operations of `cycles` each, by default of the board's ordinary operation.

    `counters`: the cycles are the board's, too: those of the counters of bins.

    Raises `OperandError` for numbers that are negative or not integers.
    """
    cycles_each = issuer.board.scalar_op_cycles if cycles is None else cycles
    numbers = all(isinstance(value, int | np.integer) and not isinstance(value, bool) for value in (cycles_each, count))
    if not (numbers and min(cycles_each, count) >= 0):
        raise OperandError(
            f"scalar of {shown(count)} operations of {shown(cycles_each)} cycles: both must be integers of at least 0, "
            "such as core.board.scalar_add_cycles"
        )
    if int(cycles_each) * int(count) > _MAX_CYCLES or count > _MAX_CYCLES:
        raise OperandError(
            f"scalar of {count} operations of {cycles_each} cycles: at most {_MAX_CYCLES} cycles in all, "
            "days at any clock"
        )
    issuer.begin()
    task = issuer.task
    start_ps = task.now_ps
    task.now_ps += _after_issue(issuer, issuer.board.cycles_ps(int(cycles_each) * int(count)))
    own_cycles = COUNTERS if counters else NONE if cycles is None else int(cycles)
    issuer.record("scalar", SCALAR, line, start_ps, start_ps, task.now_ps, count=int(count), detail=own_cycles)


def _after_issue(issuer: Issuer, time_ps: int) -> int:
    """Return what is left of the time of scalar code after its issue, which the times of the board's record include."""
    return max(time_ps - issuer.issue_ps, 0)


def _write_later(issuer: Issuer, target: View, end_ps: int, effect: Callable[[], None]) -> None:
    if target.memory is MemoryKind.NRAM:
        issuer.unit.add_scalar_effect(end_ps, effect)
    else:
        issuer.unit.post_store(end_ps, effect)


def _access(
    issuer: Issuer, line: int, op: str, view: View, count: int, *, write: bool, has_bytes: bool, since_ps: int = -1
) -> tuple[int, int, bool]:
    """Log scalar accesses to a view; returns their record, their end and whether the kernel must suspend for them."""
    allocation, unit, task, offset = view.allocation, issuer.unit, issuer.task, view.offset
    memory = allocation.memory
    phase = (allocation.address + offset) % issuer.dram_unit_bytes
    key = (op, memory, view.layout, phase, count, write)
    cached = unit.scalar_accesses.get(key)
    if cached is None or write or allocation.freed or not has_bytes:
        _check_access(issuer, op, view, write=write, has_bytes=has_bytes)
    if cached is None:
        cached = unit.scalar_accesses[key] = _cost_of(issuer, op, view, count, write=write)
    code, cost_ps = cached
    issuer.begin()
    issue_ps = start_ps = task.now_ps
    waited_for = NONE
    if memory is unit.nram and unit.vector_free_ps > start_ps:
        # In order with earlier vector instructions (`mlusim.cores.synchronisation.ordering`).
        start_ps, waited_for = unit.vector_free_ps, unit.vector_record
    end_ps = start_ps + cost_ps
    add, identity = issuer.records.add, allocation.identity
    if write:
        if not store_ordering(memory.kind).posted:
            task.now_ps = end_ps
        else:
            # ASSUMED: in order, each begins when the one before it is complete, whether counted or not.
            first_ps = start_ps if since_ps < 0 else since_ps
            last_ps = start_ps + issuer.board.scalar_gdram_latency_ps
            end_ps = unit.stored_ps = max(max(first_ps, unit.stored_ps) + cost_ps, last_ps)
        record = add(code, task.index, line, issue_ps, start_ps, end_ps, 0, waited_for, identity, offset)
        return record, end_ps, False
    record = add(code, task.index, line, issue_ps, start_ps, end_ps, 0, waited_for, NONE, NONE, identity, offset)
    private = allocation.read_only or (memory is unit.nram and not task.pending_io + task.pending_move)
    if private:
        # No other core can change these bytes meanwhile, so there is no need to wait for the board's time.
        task.now_ps = end_ps
        return record, end_ps, False
    return record, end_ps, task.until(end_ps)


def _check_access(issuer: Issuer, op: str, view: View, *, write: bool, has_bytes: bool) -> None:
    """Raise an error if scalar code of this core cannot access a view, or there are no bytes to load."""
    allocation = view.allocation
    issuer.check_reach(allocation.memory)
    if allocation.freed or write:
        check_usable(allocation, write=write)
    if allocation.memory.kind is MemoryKind.WRAM:
        raise OperandError(f"scalar {op} of {view!r}: scalar code cannot reach WRAM (B); move it to NRAM first")
    if not write and not has_bytes:
        upload = "upload it with its bytes (keep_data=True), or " if allocation.memory.kind is MemoryKind.GDRAM else ""
        raise MissingDataError(
            f"scalar load of {view!r}, which has a size but no bytes in a timing-only run: {upload}run with data"
        )


def _cost_of(issuer: Issuer, op: str, view: View, count: int, *, write: bool) -> tuple[int, int]:
    """Return the number in the log and the time of accesses to a view, which depend on its layout and phase."""
    board, memory = issuer.board, view.memory
    bus_read = bus_write = 0
    if memory.off_chip:
        cost_ps = count * board.scalar_gdram_latency_ps
        phase = (view.allocation.address + view.offset) % issuer.dram_unit_bytes
        loops = tuple(zip(view.shape, view.strides, strict=True)) if view.shape else ()
        if write:
            # A store is posted: the task pays for the issue, the DRAM for the read-modify-write.
            bus_read, bus_write = write_bus_bytes(phase, view.itemsize, loops, issuer.dram_unit_bytes)
        else:
            bus_read = read_bus_bytes(phase, view.itemsize, loops, issuer.dram_unit_bytes)
    else:
        cycles = board.scalar_sram_cycles if memory is MemoryKind.SRAM else board.scalar_nram_cycles
        cost_ps = board.cycles_ps(count * cycles)
    if not (write and store_ordering(memory).posted):
        cost_ps = _after_issue(issuer, cost_ps)
    log = issuer.log
    box = log.box(view.shape, view.strides, view.itemsize)
    code = log.instruction(
        op,
        SCALAR,
        count=count,
        nbytes=count * view.itemsize,
        bus_read=bus_read,
        bus_write=bus_write,
        alone_ps=cost_ps,
        dst_box=box if write else NONE,
        a_box=NONE if write else box,
    )
    return code, cost_ps

"""Copies: `__memcpy` and `__memcpy_async`.

`copy_and_wait` and `copy_async` accept views or the documented byte form (`byte_copies`). Both look up the cached
`geometry`, record the copy, and submit it to a DMA pipe (`mlusim.cores.machine.pipe`) or to the compute pipe.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.cores.copies.byte_copies import ByteForm, as_pointers, byte_form
from mlusim.cores.copies.effect import Place, large_copy_effect
from mlusim.cores.copies.geometry import CopyGeometry, copy_geometry
from mlusim.cores.copies.shared_copy import SharedCopy
from mlusim.cores.machine.pipe import Transfer
from mlusim.cores.operands import Passed, check_view
from mlusim.cores.tasks.endless import check_end
from mlusim.errors import CopyError
from mlusim.log import ASYNCHRONOUS, BLOCKING, IO, NONE
from mlusim.memory.allocation import check_usable
from mlusim.memory.copy_limits import check_apart
from mlusim.memory.copy_shape import view_copy_shape
from mlusim.memory.kinds import Direction, MemoryKind
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.tasks.waiting import Waiting


def copy_and_wait(
    issuer: Issuer,
    line: int,
    dst: Passed,
    src: Passed,
    size: Any = 0,
    direction: Direction | str | None = None,
    strides: tuple[Any, ...] = (),
) -> Waiting:
    """A blocking copy, as `Core.memcpy`.

    Not modelled: an SRAM2SRAM copy loads only the SRAM of its source cluster, and one from DRAM to DRAM only the read
    port of its cluster.
    """
    _copy(issuer, line, dst, src, size, direction, strides, BLOCKING)
    return issuer.blocked


def copy_async(
    issuer: Issuer,
    line: int,
    dst: Passed,
    src: Passed,
    size: Any = 0,
    direction: Direction | str | None = None,
    strides: tuple[Any, ...] = (),
) -> None:
    """An asynchronous copy, as `Core.memcpy_async`."""
    _copy(issuer, line, dst, src, size, direction, strides, ASYNCHRONOUS)


def copy_bytes(issuer: Issuer, line: int, form: ByteForm, to: Place, origin: Place, *, blocking: bool) -> Waiting:
    """Copy between two places in a cached form (`byte_form`); the result is to be awaited if `blocking`."""
    task = issuer.task
    task.operations += 1
    if task.operations > issuer.next_check or task.unawaited >= 0:
        check_end(issuer)
    geometry, effect = form.copy(issuer, to, origin)
    _check_and_issue(issuer, line, to, origin, geometry, effect, BLOCKING if blocking else ASYNCHRONOUS)
    return issuer.blocked


def move(issuer: Issuer, line: int, dst: Passed, src: Passed) -> None:
    """An asynchronous move within NRAM, on the Move pipe. Raises `CopyError` for other memories."""
    for view in (dst, src):
        check_view("move", view)
    if dst.memory is not MemoryKind.NRAM or src.memory is not MemoryKind.NRAM:
        raise CopyError(f"move from {src!r} to {dst!r}: it stays in NRAM; use memcpy or memcpy_async")
    _copy(issuer, line, dst, src, 0, None, (), ASYNCHRONOUS, by_move_pipe=True)


def _copy(
    issuer: Issuer,
    line: int,
    dst: Passed,
    src: Passed,
    size: Any,
    direction: Direction | str | None,
    strides: tuple[Any, ...],
    blocking: int,
    *,
    by_move_pipe: bool = False,
) -> None:
    # The hottest path of the simulator: everything that depends on the geometry is cached.
    task = issuer.task
    task.operations += 1
    if task.operations > issuer.next_check or task.unawaited >= 0:
        check_end(issuer)
    has_size = type(size) is not int or size
    if direction is not None or has_size or type(dst) is not View or type(src) is not View:
        dst, src = as_pointers(dst, src)
        to, origin = (dst.allocation, dst.offset), (src.allocation, src.offset)
        geometry, effect = byte_form(issuer, size, direction, strides).copy(issuer, to, origin, (dst, src))
    else:
        to_view: View = dst
        from_view: View = src
        geometry, effect = _view_copy(issuer, to_view, from_view)
        to, origin = (to_view.allocation, to_view.offset), (from_view.allocation, from_view.offset)
        if to[0] is origin[0]:
            check_apart(to_view, from_view)
    _check_and_issue(issuer, line, to, origin, geometry, effect, blocking, by_move_pipe)


def _check_and_issue(
    issuer: Issuer,
    line: int,
    to: Place,
    origin: Place,
    geometry: CopyGeometry,
    effect: Any,
    blocking: int,
    by_move_pipe: bool = False,  # noqa: FBT001, FBT002 - a keyword costs each copy more
) -> None:
    """Check the memories of a copy, and issue it to its pipe or to the compute pipe."""
    if to[0].freed or origin[0].freed or to[0].read_only:
        check_usable(origin[0], write=False)
        check_usable(to[0], write=True)
    if not (blocking or geometry.asynchronous):
        raise CopyError(f"memcpy_async has no {geometry.direction.name}: use `await core.memcpy(...)`")
    if geometry.compute_instruction >= 0 and not (blocking or by_move_pipe):
        _issue_to_compute_pipe(issuer, line, to, origin, geometry, effect)
    elif geometry.by_memory_core:
        _issue_to_memory_core(issuer, line, to, origin, geometry, effect, blocking)
    else:
        _issue(issuer, line, to, origin, geometry, effect, blocking)


def _view_copy(issuer: Issuer, dst: View, src: View) -> tuple[CopyGeometry, Any]:
    """Return the geometry of a copy between views, and its effect (None without data)."""
    dst_allocation, src_allocation = dst.allocation, src.allocation
    key = (
        dst_allocation.memory,
        src_allocation.memory,
        dst.layout,
        src.layout,
        (dst_allocation.address + dst.offset) % issuer.dram_unit_bytes,
        (src_allocation.address + src.offset) % issuer.dram_unit_bytes,
    )
    geometry = issuer.copy_geometries.get(key)
    if geometry is None:
        geometry = issuer.copy_geometries[key] = _new_view_copy(issuer, dst, src)
    if not issuer.has_data or dst_allocation.freed or src_allocation.freed:
        return geometry, None
    if geometry.as_typed:
        # `View.typed`, inlined for performance: neither side is freed, so a cached array is up to date.
        to, origin = dst.elements, src.elements
        if to is None:
            to = dst.typed()
        if origin is None:
            origin = src.typed()
    else:
        to, origin = dst.raw(), src.raw()
    if not geometry.is_large:
        return geometry, (to, origin)
    places = (dst_allocation, dst.offset), (src_allocation, src.offset)
    return geometry, large_copy_effect(issuer, *places, to, origin)


def _new_view_copy(issuer: Issuer, dst: View, src: View) -> CopyGeometry:
    """Return the geometry of a copy that this unit has not issued yet."""
    to, origin = dst.allocation.memory, src.allocation.memory
    geometries = issuer.chip.copy_geometries
    key = None
    if to is issuer.chip.gdram and origin is issuer.unit.nram:
        key = (dst.layout, src.layout, (dst.allocation.address + dst.offset) % issuer.dram_unit_bytes, "store")
    elif origin is issuer.chip.gdram and to is issuer.unit.nram:
        key = (dst.layout, src.layout, (src.allocation.address + src.offset) % issuer.dram_unit_bytes, "load")
    geometry: CopyGeometry | None = geometries.get(key)
    if geometry is None:
        geometry = copy_geometry(
            issuer,
            dst,
            src,
            view_copy_shape(dst, src, issuer.board.arch, issuer.dram_unit_bytes),
            issuer.log.box(dst.shape, dst.strides, dst.itemsize),
            issuer.log.box(src.shape, src.strides, src.itemsize),
            as_typed=dst.dtype == src.dtype and dst.dtype.isbuiltin == 1,
        )
        if key is not None:
            # Loads and stores of all cores: neither the core nor the address in NRAM matters.
            geometries[key] = geometry
    return geometry


def _issue(
    issuer: Issuer,
    line: int,
    to: Place,
    origin: Place,
    geometry: CopyGeometry,
    effect: Any,
    blocking: int,
) -> None:
    """Record a copy and submit it to the DMA pipe of this core."""
    task, unit = issuer.task, issuer.unit
    pipe = unit.io if geometry.pipe == IO else unit.move
    issue_ps = start_ps = task.now_ps = task.now_ps + issuer.issue_ps
    waited_for = NONE
    waits: object = False
    if blocking and not issuer.dry:
        waits = task.pending_io or task.pending_move or unit.late_effects
        if unit.vector_free_ps > issue_ps and not waits:
            # Only the compute pipe is busy, and its end is known.
            start_ps = task.now_ps = unit.vector_free_ps
            waited_for = unit.vector_record
    # A copy on an idle pipe starts immediately; `pipe.start` handles the others.
    starts = not pipe.engine.busy and geometry.has_work and not waits
    record = issuer.records.add(
        geometry.instructions[blocking],
        task.index,
        line,
        issue_ps,
        start_ps,
        NONE,
        geometry.cost.latency_ps if starts else 0,
        waited_for,
        to[0].identity,
        to[1],
        origin[0].identity,
        origin[1],
    )
    if blocking:
        task.unawaited = record
    if issuer.dry:
        return
    transfer = Transfer(pipe, task, record, start_ps, geometry.cost, effect, blocking)
    if starts:
        if pipe is unit.io:
            task.pending_io += 1
        else:
            task.pending_move += 1
        pipe.engine.busy = True
        pipe.link.join(transfer, start_ps + transfer.latency_ps, issuer.chip.environment.now)
    elif waits:
        task.when_idle(partial(pipe.submit_after_wait, transfer))
    else:
        pipe.submit(transfer, waited_for)


def _issue_to_memory_core(
    issuer: Issuer,
    line: int,
    to: Place,
    origin: Place,
    geometry: CopyGeometry,
    effect: Any,
    blocking: int,
) -> None:
    """Record a copy and submit it to the engine of the cluster's memory core, which other cores may join."""
    task, engine = issuer.task, issuer.unit.cluster.memory_core
    pipe = engine.io if geometry.pipe == IO else engine.move
    issue_ps = task.now_ps = task.now_ps + issuer.issue_ps
    operands = (to[0].identity, to[1], origin[0].identity, origin[1])
    instruction = geometry.instructions[blocking]
    record = issuer.records.add(instruction, task.index, line, issue_ps, issue_ps, NONE, 0, NONE, *operands)
    if blocking:
        task.unawaited = record
    if issuer.dry:
        return
    call = (*operands, geometry.dst_box, geometry.src_box, blocking)
    shared_copy = SharedCopy(pipe, task, record, issue_ps, geometry.cost, effect, blocking, call)
    if blocking and not task.is_idle():
        task.when_idle(shared_copy.begin)
    else:
        shared_copy.begin()


def _issue_to_compute_pipe(
    issuer: Issuer, line: int, to: Place, origin: Place, geometry: CopyGeometry, effect: Any
) -> None:
    """Issue an asynchronous NRAM2NRAM copy to the compute pipe, in order with vector instructions (B).

    `sync_compute` waits for it. ASSUMED: `sync_move` does too; the vendor's kernels use either.
    """
    task, unit = issuer.task, issuer.unit
    task.now_ps += issuer.issue_ps
    start_ps, waited_for = task.now_ps, NONE
    if unit.vector_free_ps > start_ps:
        start_ps, waited_for = unit.vector_free_ps, unit.vector_record
    end_ps = start_ps + geometry.cost.alone_ps
    unit.vector_record = unit.compute_copy_record = issuer.records.add(
        geometry.compute_instruction,
        task.index,
        line,
        task.now_ps,
        start_ps,
        end_ps,
        0,
        waited_for,
        to[0].identity,
        to[1],
        origin[0].identity,
        origin[1],
    )
    unit.vector_free_ps = unit.compute_copied_ps = end_ps
    if effect is not None:
        unit.add_effect(end_ps, partial(np.copyto, *effect) if type(effect) is tuple else effect)

"""Copies: `__memcpy` and `__memcpy_async`, by views or in the documented byte form."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from sys import _getframe
from typing import Any

import numpy as np

from mlusim.cores.operations import Operations
from mlusim.cores.pipe import Transfer
from mlusim.errors import CopyError
from mlusim.log import ASYNCHRONOUS, BLOCKING, IO, MOVE, NONE, RECORD_BYTES, pack_record
from mlusim.memory.allocation import check_usable
from mlusim.memory.copy import CopyShape, pointer_copy_shape, view_copy_shape
from mlusim.memory.kinds import DIRECTION_CODES, Direction, MemoryKind
from mlusim.memory.timing import copy_cost
from mlusim.memory.view import Pointer, View


class CopyOperations(Operations):
    """Copies of a core, over its IO and Move pipes.

    Not modelled: an SRAM2SRAM copy loads the SRAM of the cluster it comes from only, and one from DRAM to DRAM the read
    port of its cluster only.
    """

    def memcpy(
        self, dst: View | Pointer, src: View | Pointer, size: int = 0, direction: Direction | None = None, *strides: int
    ) -> Awaitable[None]:
        """Copy, and wait until it is done: `__memcpy`.

        By views: `memcpy(dst, src)`, equal shapes and element sizes; direction, segments and strides are derived.
        In the documented byte form: `memcpy(dst, src, size, direction, dst_stride, src_stride, segnum)` with
        pointers, sizes and strides in bytes and segnum the number of segments MINUS ONE; without strides 1-D, with
        eight 3-D (see `mlusim.memory.copy.pointer_copy_shape`).

        Raises `CopyError`, `AccessError`, `AllocationError` as the hardware forbids.
        """
        self._copy(dst, src, size, direction, strides, BLOCKING, _getframe(1))
        return self._task.suspending

    def memcpy_async(
        self, dst: View | Pointer, src: View | Pointer, size: int = 0, direction: Direction | None = None, *strides: int
    ) -> None:
        """Issue a copy and go on: `__memcpy_async`. A sync must come before its data is used or its buffer reused.

        Arguments and errors as `memcpy`. Not from LDRAM and not between SRAMs (B).
        """
        self._copy(dst, src, size, direction, strides, ASYNCHRONOUS, _getframe(1))

    def move(self, dst: View, src: View) -> None:
        """On-chip NRAM to NRAM move, issued to the Move pipe; asynchronous. Raises `CopyError` for other memories."""
        if dst.memory is not MemoryKind.NRAM or src.memory is not MemoryKind.NRAM:
            raise CopyError(f"move from {src!r} to {dst!r}: it stays in NRAM; use memcpy or memcpy_async")
        self._copy(dst, src, 0, None, (), ASYNCHRONOUS, _getframe(1))

    def _copy(
        self,
        dst: View | Pointer,
        src: View | Pointer,
        size: int,
        direction: Direction | None,
        strides: tuple[int, ...],
        blocking: int,
        frame: Any,
    ) -> None:
        # The hottest function of the simulator: geometry is worked out once per shape, look-ups are few.
        task = self._task
        task.operations += 1
        if task.operations > self._max_operations or task.unawaited >= 0:
            raise task.refusal()
        if direction is not None or size or dst.__class__ is not View or src.__class__ is not View:
            dst, src, effect, form = self._byte_form(dst, src, size, direction, strides)
            dst_allocation, src_allocation = dst.allocation, src.allocation
        else:
            dst_allocation, src_allocation = dst.allocation, src.allocation
            key = (
                dst_allocation.memory,
                src_allocation.memory,
                dst.shape,
                src.shape,
                dst.strides,
                src.strides,
                dst.itemsize,
                src.itemsize,
                (dst_allocation.address + dst.offset) % self._unit_bytes,
                (src_allocation.address + src.offset) % self._unit_bytes,
            )
            known = self._copy_forms.get(key)
            if known is not None:
                form = known
            else:
                shape = view_copy_shape(dst, src, self.board.arch, self._unit_bytes)
                form = self._copy_forms[key] = self._form(
                    dst,
                    src,
                    shape,
                    self._log.box(dst.shape, dst.strides, dst.itemsize),
                    self._log.box(src.shape, src.strides, src.itemsize),
                )
            effect = (dst.raw(), src.raw()) if self._has_data else None
        if dst_allocation.freed or src_allocation.freed or dst_allocation.read_only:
            check_usable(src_allocation, write=False)
            check_usable(dst_allocation, write=True)
        if not (blocking or form.asynchronous):
            raise CopyError(f"memcpy_async has no {form.direction.name}: use `await core.memcpy(...)`")
        unit = self._unit
        if form.pipe == MOVE:
            pipe = unit.move
            task.pending_move += 1
        else:
            pipe = unit.cluster.memory_core.io if form.by_memory_core else unit.io
            task.pending_io += 1
        issue_ps = task.now_ps = task.now_ps + self._issue_ps
        log = self._log
        record = log.count
        if record == log.room:
            log.grow()
        # As `log.line`, inlined for performance.
        line = log.line_codes.get((id(frame.f_code), frame.f_lasti))
        if line is None:
            line = log.line(frame)
        # A pipe that has nothing to do starts at once; `pipe.start` does the rest for the others.
        starts = pipe.current is None and form.has_work and pipe.twin is None
        op, nbytes, bus_read, bus_write, direction_code, alone_ps = form.columns
        pack_record(
            log.data,
            record * RECORD_BYTES,
            op,
            task.index,
            form.pipe,
            line,
            issue_ps,
            issue_ps,
            NONE,
            form.cost.latency_ps if starts else 0,
            alone_ps,
            1,
            nbytes,
            bus_read,
            bus_write,
            direction_code,
            NONE,
            blocking,
            dst_allocation.identity,
            dst.offset,
            form.dst_box,
            src_allocation.identity,
            src.offset,
            form.src_box,
            NONE,
            NONE,
            NONE,
        )
        log.count = record + 1
        transfer = Transfer(pipe, task, record, issue_ps, form.cost, effect, blocking)
        if blocking:
            task.unawaited = record
        if starts:
            pipe.current = transfer
            pipe.link.join(transfer, issue_ps + transfer.latency_ps, self._environment.now)
        elif pipe.current is None:
            pipe.start(transfer, issue_ps, self._environment.now)
        else:
            pipe.queue.append(transfer)

    def _form(self, dst: View | Pointer, src: View | Pointer, shape: CopyShape, dst_box: int, src_box: int) -> CopyForm:
        """Everything about a copy that its geometry decides."""
        self._check_reach(src.allocation.memory)
        to = dst.allocation.memory
        # Between SRAMs the target is any cluster of the union.
        if shape.direction is not Direction.SRAM2SRAM or all(to is not c.sram for c in self._task.job.clusters):
            self._check_reach(to)
        key = (shape, dst_box, src_box, self._unit.is_memory_core)
        form: CopyForm | None = self._chip.copy_forms.get(key)
        if form is None:
            form = self._chip.copy_forms[key] = CopyForm(self._chip, self._unit, shape, dst_box, src_box)
        return form

    def _byte_form(
        self,
        dst: View | Pointer,
        src: View | Pointer,
        size: int,
        direction: Direction | None,
        strides: tuple[int, ...],
    ) -> tuple[Pointer, Pointer, Any, CopyForm]:
        """The documented byte form: pointers, sizes and strides in bytes."""
        dst = dst.pointer if isinstance(dst, View) else dst
        src = src.pointer if isinstance(src, View) else src
        if not isinstance(dst, Pointer) or not isinstance(src, Pointer):
            raise CopyError(f"memcpy copies between views or pointers of the device, not {dst!r} and {src!r}")
        if direction is None:
            raise CopyError(
                "memcpy between pointers, or of a size, needs its direction: "
                "memcpy(dst, src, size, Direction.GDRAM2NRAM); between views their shape says the size"
            )
        shape = pointer_copy_shape(dst, src, size, direction, strides, self.board.arch, self._unit_bytes)
        dst_view, src_view = (
            View(
                end.allocation,
                end.offset,
                (*(count for count, _ in loops), size),
                (*(stride for _, stride in loops), 1),
                np.dtype(np.uint8),
            )
            for end, loops in ((dst, shape.dst_loops), (src, shape.src_loops))
        )
        form = self._form(
            dst,
            src,
            shape,
            self._log.box(dst_view.shape, dst_view.strides, 1),
            self._log.box(src_view.shape, src_view.strides, 1),
        )
        self._log.byte_copies.append(self._log.count)
        effect = None
        if self._has_data:
            to, origin = dst_view.raw(), src_view.raw()
            effect = partial(_copy_reshaped, to, origin)
        return dst, src, effect, form


class CopyForm:
    """A copy's geometry as the pipes and the log need it."""

    __slots__ = (
        "asynchronous",
        "by_memory_core",
        "columns",
        "cost",
        "direction",
        "dst_box",
        "has_work",
        "pipe",
        "src_box",
    )

    def __init__(self, chip: Any, unit: Any, shape: CopyShape, dst_box: int, src_box: int) -> None:
        direction = shape.direction
        self.direction = direction
        self.cost = copy_cost(chip.board, shape, memory_core=unit.is_memory_core)
        self.has_work = self.cost.work > 0
        self.by_memory_core = direction is Direction.GDRAM2SRAM
        self.pipe = IO if direction.source.off_chip or direction.destination.off_chip else MOVE
        self.asynchronous = direction.asynchronous
        self.columns = (
            chip.log.op("memcpy"),
            shape.nbytes,
            shape.bus_read_bytes,
            shape.bus_write_bytes,
            DIRECTION_CODES[direction],
            self.cost.alone_ps,
        )
        self.dst_box = dst_box
        self.src_box = src_box


def _copy_reshaped(to: np.ndarray[Any, Any], origin: np.ndarray[Any, Any]) -> None:
    to[...] = origin.reshape(to.shape)

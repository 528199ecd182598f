"""`Core`: what a kernel gets as its first argument. BANG C's names, without the underscores.

Plain methods issue and never suspend. `async` methods are where the task may stop, exactly where BANG C stops.
"""

from __future__ import annotations

import sys
from functools import partial
from operator import setitem
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.cores.counted import CountedOperations
from mlusim.cores.pipe import Transfer
from mlusim.cores.scratch import Scratch
from mlusim.cores.task import ALL_PIPES, SUSPEND, Task
from mlusim.cores.vector import VectorOperations
from mlusim.errors import CopyError, KernelError, MissingDataError, OperandError
from mlusim.log import ASYNCHRONOUS, BLOCKING, IO, MOVE, NO_OPERAND, NONE, RECORD_BYTES, SCALAR, SYNC, VECTOR, pack_record
from mlusim.memory.allocation import Memory, check_usable
from mlusim.memory.bus import read_bus_bytes, write_bus_bytes
from mlusim.memory.copy import CopyShape, pointer_copy_shape, view_copy_shape
from mlusim.memory.kinds import DIRECTION_CODES, Direction, MemoryKind
from mlusim.memory.timing import copy_cost
from mlusim.memory.view import Pointer, View

if TYPE_CHECKING:
    from mlusim.hardware.board import Board

_VECTOR_PIPE = 1 << VECTOR
_IO_PIPE = 1 << IO
_MOVE_PIPE = 1 << MOVE


class Core(VectorOperations, CountedOperations):
    """One task's handle on its core.

    Attributes:
        task_id, task_dim: `taskId` and `taskDim`, linear over the grid.
        task_id_x, task_id_y, task_id_z, task_dim_x, task_dim_y, task_dim_z: the same by axis.
        core_id: 0 to 3, or 0x80 on the memory core.
        core_dim: cores of a cluster.
        cluster_id, cluster_dim: the cluster within the union, and n of UNIONn (0 for BLOCK).
        is_memory_core: `__is_mpu()`. A UNION launch runs the kernel on the memory cores too.
        nram, wram, sram, ldram: on-chip memories and LDRAM, to allocate from. A memory core has no NRAM or WRAM.
        board: the board's record.

    Not modelled: the instruction cache, a limit on instructions in flight, branches and loop overhead of the scalar
    pipe (charge them with `scalar`).
    """

    def __init__(self, task: Task) -> None:
        unit, job, chip = task.unit, task.job, task.chip
        launch = job.launch
        self._task = task
        self._unit = unit
        self._chip = chip
        self._has_data = chip.data
        self._max_operations = chip.max_operations
        self._log = chip.log
        self._issue_ps = chip.board.cycles_ps(chip.board.issue_cycles)
        self._forms: dict[Any, _Form] = chip.forms[unit.is_memory_core]
        self._unit_bytes = chip.board.dram_unit_bytes
        self.board: Board = chip.board
        self.is_memory_core = unit.is_memory_core
        self.core_id = unit.core_id
        self.core_dim = chip.board.cores_per_cluster
        self.cluster_dim = launch.union
        self.cluster_id = job.clusters.index(unit.cluster) if launch.union else 0
        self.task_id = task.linear_id
        self.task_id_x, self.task_id_y, self.task_id_z = task.task_id
        self.task_dim_x, self.task_dim_y, self.task_dim_z = launch.dim
        self.task_dim = launch.dim[0] * launch.dim[1] * launch.dim[2]
        self.ldram = self._scratch(unit.ldram)

    def __repr__(self) -> str:
        return f"<core of {self._task.name}>"

    @property
    def nram(self) -> Scratch:
        """The core's NRAM."""
        return self._own("nram")

    @property
    def wram(self) -> Scratch:
        """The core's WRAM."""
        return self._own("wram")

    @property
    def sram(self) -> Scratch:
        """The SRAM of the cluster; a BLOCK task has none."""
        if not self.cluster_dim:
            raise KernelError("a BLOCK task has no cluster to share SRAM with: launch as UNION1 or larger")
        scratch = self.__dict__.get("_sram")
        if scratch is None:
            scratch = self.__dict__["_sram"] = Scratch(self._task, self._unit.cluster.sram)
        return scratch

    def _own(self, name: str) -> Scratch:
        scratch = self.__dict__.get(f"_{name}")
        if scratch is None:
            memory: Memory | None = getattr(self._unit, name)
            if memory is None:
                raise KernelError(
                    f"the memory core has no {name.upper()}: return early, `if core.is_memory_core: return`, or stage "
                    "through core.sram"
                )
            scratch = self.__dict__[f"_{name}"] = self._scratch(memory)
        return scratch

    def _scratch(self, memory: Memory) -> Scratch:
        scratch = Scratch(self._task, memory)
        self._task.scratches.append(scratch)
        return scratch

    # Copies

    async def memcpy(
        self, dst: View | Pointer, src: View | Pointer, size: int = 0, direction: Direction | None = None, *strides: int
    ) -> None:
        """Copy, and wait until it is done: `__memcpy`.

        By views: `memcpy(dst, src)`, equal shapes and element sizes; direction, segments and strides are derived.
        In the documented byte form: `memcpy(dst, src, size, direction, dst_stride, src_stride, segnum)` with
        pointers, sizes and strides in bytes and segnum the number of segments MINUS ONE; without strides 1-D, with
        eight 3-D (see `mlusim.memory.copy.pointer_copy_shape`).

        Raises `CopyError`, `AccessError`, `AllocationError` as the hardware forbids.
        """
        self._copy(dst, src, size, direction, strides, BLOCKING, sys._getframe(1))
        await SUSPEND

    def memcpy_async(
        self, dst: View | Pointer, src: View | Pointer, size: int = 0, direction: Direction | None = None, *strides: int
    ) -> None:
        """Issue a copy and go on: `__memcpy_async`. A sync must come before its data is used or its buffer reused.

        Arguments and errors as `memcpy`. Not from LDRAM and not between SRAMs (B).
        """
        self._copy(dst, src, size, direction, strides, ASYNCHRONOUS, sys._getframe(1))

    def move(self, dst: View, src: View) -> None:
        """On-chip NRAM to NRAM move, issued to the Move pipe; asynchronous."""
        self._copy(dst, src, 0, None, (), ASYNCHRONOUS, sys._getframe(1))

    def _copy(  # noqa: PLR0913, PLR0917
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
        if task.operations > self._max_operations:
            raise task.too_many_operations()
        if direction is not None or dst.__class__ is not View or src.__class__ is not View:
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
            form = self._forms.get(key)
            if form is None:
                shape = view_copy_shape(dst, src, self.board.arch, self._unit_bytes)
                form = self._forms[key] = self._form(
                    dst,
                    src,
                    shape,
                    self._log.box(dst.shape, dst.strides, dst.itemsize),
                    self._log.box(src.shape, src.strides, src.itemsize),
                )
            effect = partial(setitem, dst.raw(), ..., src.raw()) if self._has_data else None
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
        op, nbytes, bus_read, bus_write, direction_code, alone_ps = form.columns
        pack_record(
            log.data,
            record * RECORD_BYTES,
            op,
            task.index,
            form.pipe,
            log.line(frame),
            issue_ps,
            issue_ps,
            NONE,
            0,
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
        pipe.submit(Transfer(pipe, task, record, issue_ps, form.cost, effect, blocking))

    def _form(self, dst: View | Pointer, src: View | Pointer, shape: CopyShape, dst_box: int, src_box: int) -> _Form:
        """Everything about a copy that its geometry decides."""
        for end in (dst, src):
            self._check_reach(end.allocation.memory)
        return _Form(self._chip, self._unit, shape, dst_box, src_box)

    def _check_reach(self, memory: Memory) -> None:
        """Only its own on-chip memories, the cluster's SRAM and the GDRAM are within a core's reach."""
        unit = self._unit
        if memory.kind is MemoryKind.GDRAM or memory in (unit.nram, unit.wram, unit.ldram, unit.cluster.sram):
            return
        raise CopyError(f"{self._task.name} cannot reach {memory.name}: stage the bytes through SRAM or GDRAM")

    def _byte_form(
        self,
        dst: View | Pointer,
        src: View | Pointer,
        size: int,
        direction: Direction | None,
        strides: tuple[int, ...],
    ) -> tuple[Pointer, Pointer, Any, _Form]:
        """The documented byte form: pointers, sizes and strides in bytes."""
        dst = dst.pointer if isinstance(dst, View) else dst
        src = src.pointer if isinstance(src, View) else src
        if not isinstance(dst, Pointer) or not isinstance(src, Pointer):
            raise CopyError(f"memcpy copies between views or pointers of the device, not {dst!r} and {src!r}")
        if direction is None:
            raise CopyError(
                "memcpy between pointers needs its size and direction: memcpy(dst, src, size, Direction.GDRAM2NRAM)"
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
        effect = None
        if self._has_data:
            to, origin = dst_view.raw(), src_view.raw()
            effect = partial(_copyto, to, origin) if to.shape == origin.shape else partial(_copy_reshaped, to, origin)
        return dst, src, effect, form

    # Scalar pipe

    async def load(self, source: View) -> Any:
        """Load one element to a register and wait for it: a scalar load.

        Args:
            source: a view of one element in GDRAM, LDRAM, SRAM or NRAM.

        Returns the element as a Python number. Costs the board's scalar latency for that memory; from GDRAM one bus
        unit. Raises `OperandError` for more than one element, WRAM or an NRAM of another core, and `MissingDataError`
        in a timing-only run where the bytes are not there.
        """
        if source.size != 1:
            raise OperandError(f"load takes one element, not {source!r}: index it fully, or use load_array")
        end_ps, waits = self._scalar_access("load", source, 1, sys._getframe(1), write=False)
        if waits:
            await SUSPEND
        self._unit.apply_until(end_ps)
        return source.typed().reshape(()).item()

    def store(self, target: View, value: Any) -> None:
        """Store one element from a register; the task goes on.

        Args:
            target: a view of one element in GDRAM, LDRAM, SRAM or NRAM.
            value: a number; converted to the element type.

        A store of less than a bus unit to GDRAM is a read-modify-write (G 5.3). Raises as `load`.
        """
        if target.size != 1:
            raise OperandError(f"store takes one element, not {target!r}: index it fully, or use a vector operation")
        end_ps, _ = self._scalar_access("store", target, 1, sys._getframe(1), write=True)
        if not self._chip.data:
            return
        cell = target.typed().reshape(())
        element = np.asarray(value).astype(target.dtype)
        if target.memory is MemoryKind.NRAM:
            self._unit.later_scalar(end_ps, partial(_copyto, cell, element))
        else:
            timer = self._chip.environment.timeout(end_ps - self._chip.environment.now)
            timer.callbacks.append(lambda _: np.copyto(cell, element))

    def scalar(self, cycles: int | None = None, *, count: int = 1) -> None:
        """Charge scalar arithmetic: `count` operations of `cycles` each (default: the board's ordinary operation)."""
        each = self.board.scalar_op_cycles if cycles is None else cycles
        self._begin()
        task = self._task
        start_ps = task.now_ps
        task.now_ps += self.board.cycles_ps(each * count)
        self._record("scalar", SCALAR, sys._getframe(1), start_ps, task.now_ps, count=count)

    # Syncs and barriers

    async def sync(self) -> None:
        """Wait for all pipes of this core: `__sync`."""
        if self._sync("sync", ALL_PIPES, sys._getframe(1)):
            await SUSPEND

    async def sync_io(self) -> None:
        """Wait for the IO pipe: `__sync_io`."""
        if self._sync("sync_io", _IO_PIPE, sys._getframe(1)):
            await SUSPEND

    async def sync_move(self) -> None:
        """Wait for the Move pipe: `__sync_move`."""
        if self._sync("sync_move", _MOVE_PIPE, sys._getframe(1)):
            await SUSPEND

    async def sync_compute(self) -> None:
        """Wait for the vector and tensor pipes: `__sync_compute`."""
        if self._sync("sync_compute", _VECTOR_PIPE, sys._getframe(1)):
            await SUSPEND

    async def sync_io_move_compute(self, *, io: bool = True, move: bool = True, compute: bool = True) -> None:
        """Wait for the pipes named: `__sync_io_move_compute`."""
        mask = _IO_PIPE * io | _MOVE_PIPE * move | _VECTOR_PIPE * compute
        if self._sync("sync_io_move_compute", mask, sys._getframe(1)):
            await SUSPEND

    async def sync_cluster(self) -> None:
        """Barrier of the cluster's cores and its memory core; for a BLOCK task just `sync`: `__sync_cluster`.

        The count is fixed: where one of them has returned, the others wait for ever, and the run ends in `HangError`.
        """
        frame = sys._getframe(1)
        if self.cluster_dim:
            self._arrive("sync_cluster", self._task.job.cluster_barriers[self._unit.cluster.index], frame)
            await SUSPEND
        elif self._sync("sync_cluster", ALL_PIPES, frame):
            await SUSPEND

    async def sync_all(self) -> None:
        """Barrier of all cores and memory cores of the union; for a BLOCK task just `sync`: `__sync_all`."""
        frame = sys._getframe(1)
        if self.cluster_dim:
            self._arrive("sync_all", self._task.job.all_barrier, frame)
            await SUSPEND
        elif self._sync("sync_all", ALL_PIPES, frame):
            await SUSPEND

    async def sync_all_ipu(self) -> None:
        """Barrier of all cores of the union without memory cores; for a BLOCK task just `sync`: `__sync_all_ipu`.

        Raises `KernelError` on a memory core, which takes no part in it.
        """
        frame = sys._getframe(1)
        if self.is_memory_core:
            raise KernelError("sync_all_ipu on the memory core: it is the barrier without them; use sync_all")
        if self.cluster_dim:
            self._arrive("sync_all_ipu", self._task.job.all_ipu_barrier, frame)
            await SUSPEND
        elif self._sync("sync_all_ipu", ALL_PIPES, frame):
            await SUSPEND

    def _sync(self, name: str, mask: int, frame: Any) -> bool:
        task = self._task
        self._begin()
        record = self._record(name, SYNC, frame, task.now_ps, task.now_ps, detail=mask)
        return task.drain(mask, record, self._synced)

    def _synced(self) -> None:
        # The task's own time may lie ahead of the board's; it goes on issuing from there.
        self._task.resume()

    def _arrive(self, name: str, barrier: Any, frame: Any) -> None:
        task = self._task
        self._begin()
        record = self._record(name, SYNC, frame, task.now_ps, NONE, detail=barrier.number())
        task.waits_for = task.here(frame, name)

        def arrive() -> None:
            task.arrive_at(barrier, record)

        if not task.drain(ALL_PIPES, record, arrive):
            arrive()

    # Shared by all operations

    def _begin(self) -> None:
        """Count an operation and charge its issue."""
        task = self._task
        task.operations += 1
        if task.operations > self._chip.max_operations:
            raise task.too_many_operations()
        task.now_ps += self._issue_ps

    def _record(  # noqa: PLR0913
        self,
        op: str,
        pipe: int,
        frame: Any,
        start_ps: int,
        end_ps: int,
        *,
        issue_ps: int = NONE,
        latency_ps: int = 0,
        alone_ps: int = 0,
        count: int = 1,
        nbytes: int = 0,
        bus_read: int = 0,
        bus_write: int = 0,
        direction: int = NONE,
        waited_for: int = NONE,
        detail: int = 0,
        dst: tuple[int, int, int] = NO_OPERAND,
        a: tuple[int, int, int] = NO_OPERAND,
        b: tuple[int, int, int] = NO_OPERAND,
    ) -> int:
        """Append a record; gives its number."""
        log = self._log
        log.append(
            log.op(op),
            self._task.index,
            pipe,
            log.line(frame),
            start_ps if issue_ps == NONE else issue_ps,
            start_ps,
            end_ps,
            latency_ps,
            alone_ps or end_ps - start_ps,
            count,
            nbytes,
            bus_read,
            bus_write,
            direction,
            waited_for,
            detail,
            *dst,
            *a,
            *b,
        )
        return log.count - 1

    def _operand(self, view: View) -> tuple[int, int, int]:
        return view.allocation.identity, view.offset, self._log.box(view.shape, view.strides, view.itemsize)

    def _scalar_access(self, op: str, view: View, count: int, frame: Any, *, write: bool) -> tuple[int, bool]:
        """Log a scalar access of `count` elements; gives its end and whether the kernel must suspend for it."""
        memory = view.memory
        self._check_reach(view.allocation.memory)
        check_usable(view.allocation, write=write)
        if memory is MemoryKind.WRAM:
            raise OperandError(f"scalar {op} of {view!r}: scalar code cannot reach WRAM (B); move it to NRAM first")
        if not write and view.allocation.buffer is None:
            raise MissingDataError(
                f"scalar load of {view!r}, which has a size but no bytes in a timing-only run: upload it with its "
                "bytes (keep_data=True), or run with data"
            )
        self._begin()
        board, task = self.board, self._task
        start_ps = task.now_ps
        bus_read = bus_write = 0
        if memory.off_chip:
            cost_ps = count * board.scalar_gdram_latency_ps
            phase = (view.allocation.address + view.offset) % self._unit_bytes
            loops = tuple(zip(view.shape, view.strides, strict=True))
            if write:
                # A store is posted: the task pays the issue, the DRAM the read-modify-write.
                bus_read, bus_write = write_bus_bytes(phase, view.itemsize, loops, self._unit_bytes)
            else:
                bus_read = read_bus_bytes(phase, view.itemsize, loops, self._unit_bytes)
        else:
            cycles = board.scalar_sram_cycles if memory is MemoryKind.SRAM else board.scalar_nram_cycles
            cost_ps = board.cycles_ps(count * cycles)
        end_ps = start_ps + cost_ps
        operand = self._operand(view)
        self._record(
            op,
            SCALAR,
            frame,
            start_ps,
            end_ps,
            count=count,
            nbytes=count * view.itemsize,
            bus_read=bus_read,
            bus_write=bus_write,
            dst=operand if write else NO_OPERAND,
            a=NO_OPERAND if write else operand,
        )
        if write:
            if not memory.off_chip:
                task.now_ps = end_ps
            return end_ps, False
        private = view.allocation.read_only or (memory is MemoryKind.NRAM and not task.pending_io + task.pending_move)
        if private:
            # Nobody else can change these bytes on the way: no need to meet the board's time.
            task.now_ps = end_ps
            return end_ps, False
        return end_ps, task.until(end_ps)


class _Form:
    """A copy's geometry as the pipes and the log need it."""

    __slots__ = ("asynchronous", "by_memory_core", "columns", "cost", "direction", "dst_box", "pipe", "src_box")

    def __init__(self, chip: Any, unit: Any, shape: CopyShape, dst_box: int, src_box: int) -> None:
        direction = shape.direction
        self.direction = direction
        self.cost = copy_cost(chip.board, shape, memory_core=unit.is_memory_core)
        self.by_memory_core = direction in (Direction.GDRAM2SRAM, Direction.LDRAM2SRAM)
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
    np.copyto(to, origin.reshape(to.shape))


_copyto = np.copyto

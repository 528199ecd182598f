"""`Core`: the first argument of every kernel. Methods have BANG C's names, without the underscores.

Each method issues one instruction, logged with the line of the kernel that called it. Methods that return nothing never
suspend. Awaited methods suspend the task exactly where BANG C blocks: blocking copies, scalar loads, syncs, barriers.
Costs and limits of an instruction are documented with the function that issues it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from functools import cached_property
from sys import _getframe
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from mlusim.arrays import Array, Integers
from mlusim.cores import scalar
from mlusim.cores.compute import vector
from mlusim.cores.copies import memcpy
from mlusim.cores.counted import bin_sort, collect, row_copies, scalar_copy
from mlusim.cores.instruction_methods import InstructionMethods
from mlusim.cores.issuer import Issuer
from mlusim.cores.operands import check_view
from mlusim.cores.scratch import Scratch
from mlusim.cores.synchronisation import locks, syncs
from mlusim.cores.synchronisation.ordering import COMPUTE_PIPES, IO_PIPE, MOVE_PIPE
from mlusim.errors import KernelError, OperandError, shown
from mlusim.inputs import as_count, check_flags
from mlusim.units import format_ns, plural

if TYPE_CHECKING:
    from mlusim.cores.counted.row_loop import Rows
    from mlusim.cores.tasks.task import Task
    from mlusim.hardware import Board
    from mlusim.memory.addresses import Addresses
    from mlusim.memory.allocation import Memory
    from mlusim.memory.kinds import Direction
    from mlusim.memory.view import Pointer, View

Item = TypeVar("Item")
# An `async def` function; its first parameter is its `Core`.
Kernel = Callable[..., Coroutine[Any, None, None]]


class Core(InstructionMethods):
    """One task's interface to its core.

    Attributes:
        task_id, task_dim: `taskId` and `taskDim`, linear over the grid.
        task_id_x, task_id_y, task_id_z, task_dim_x, task_dim_y, task_dim_z: the same by axis.
        core_id: 0 to 3, or 0x80 on the memory core.
        core_dim: cores of a cluster.
        cluster_id, cluster_dim: the cluster within the union, and n of UNIONn (0 for BLOCK).
        is_memory_core: `__is_mpu()`. A UNION launch also runs the kernel on the memory cores.
        nram, wram, sram, ldram: on-chip memories and LDRAM, to allocate from. A memory core has no NRAM or WRAM.
        board: the board.
        issuer: the object that the methods issue through, for front ends with their own source lines.

    Vector instructions are asynchronous: `sync` or `sync_compute` waits for them. Their operands are contiguous views
    in the core's NRAM. Not modelled: the instruction cache, a limit on instructions in flight, branches and loop
    overhead of the scalar pipe (charge them with `scalar`).
    """

    issuer: Issuer
    board: Board
    is_memory_core: bool
    core_id: int
    core_dim: int
    cluster_id: int
    cluster_dim: int
    task_id: int
    task_id_x: int
    task_id_y: int
    task_id_z: int
    task_dim: int
    task_dim_x: int
    task_dim_y: int
    task_dim_z: int
    _line: Callable[[FrameType], int]

    def __init__(self, task: Task) -> None:
        unit, job, chip = task.unit, task.job, task.chip
        launch = job.launch
        self.issuer = Issuer(task)
        self.board = chip.board
        self.is_memory_core = unit.is_memory_core
        self.core_id = unit.core_id
        self.core_dim = chip.board.cores_per_cluster
        self.cluster_dim = launch.union
        self.cluster_id = job.clusters.index(unit.cluster) if launch.union else 0
        self.task_id = task.linear_id
        self.task_id_x, self.task_id_y, self.task_id_z = task.task_id
        self.task_dim_x, self.task_dim_y, self.task_dim_z = launch.dim
        self.task_dim = launch.dim[0] * launch.dim[1] * launch.dim[2]
        # The last one: from here on, `__setattr__` refuses these names.
        self._line = self.issuer.line

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _READ_ONLY and "_line" in vars(self):
            raise KernelError(
                f"core.{name} = {shown(value)}: a kernel only reads core.{name}; assign to a variable of its own"
            )
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        task = self.issuer.task
        return f"<core of {task.name}, at {format_ns(task.now_ps)}>"

    # ---- memories

    @cached_property
    def nram(self) -> Scratch:
        """The core's NRAM."""
        return self._scratch_of(self.issuer.unit.nram, "NRAM")

    @cached_property
    def wram(self) -> Scratch:
        """The core's WRAM."""
        return self._scratch_of(self.issuer.unit.wram, "WRAM")

    @cached_property
    def ldram(self) -> Scratch:
        """The core's LDRAM."""
        return self._scratch_of(self.issuer.unit.ldram, "LDRAM")

    @cached_property
    def sram(self) -> Scratch:
        """The SRAM of the cluster; a BLOCK task has none."""
        if not self.cluster_dim:
            raise KernelError("a BLOCK task has no cluster to share SRAM with: launch as UNION1 or larger")
        return Scratch(self.issuer.task, self.issuer.unit.cluster.sram)

    def _scratch_of(self, memory: Memory | None, name: str) -> Scratch:
        if memory is None:
            raise KernelError(
                f"the memory core runs the kernel too, and has no {name}: begin the kernel with "
                "`if core.is_memory_core: return`, or stage through core.sram"
            )
        scratch = Scratch(self.issuer.task, memory)
        self.issuer.task.scratches.append(scratch)
        return scratch

    def peek(self, view: View) -> Array:
        """Return the current values of a view, for debugging: nothing is charged, logged or waited for.

        Raises `AccessError` in a timing-only run.
        """
        check_view("peek", view)
        self.issuer.unit.update_memory(self.issuer.task.now_ps)
        return view.typed().copy()

    def loop(self, items: Sequence[Item], *, along: Sequence[Any] | None = None) -> Iterator[Item]:
        """Iterate over `items`, and declare that runs with `--steady` may skip iterations.

        Args:
            items: a sequence such as `range(core.task_id, rows, core.task_dim)`, or the tiles of a plan.
            along: an integer, or a tuple of integers, for each iteration; by default the items. Where these advance
                evenly, the iterations must issue the same instructions, on operands that advance evenly. If there are
                fewer than items, the last iterations, such as those that empty a pipeline, are always executed.

        An iteration may use variables of the two iterations before it. Its operations must not depend on data. Raises
        `OperandError` for items without a length, and if `along` is longer.
        """
        by_iteration = items if along is None else along
        for values in (items, by_iteration):
            indexed = hasattr(values, "__len__") and hasattr(values, "__getitem__")
            if not indexed or getattr(values, "shape", None) == ():  # an array without axes has no length
                raise OperandError(f"loop over {shown(values)}, which is not a sequence: pass a range or a list")
        if len(by_iteration) > len(items):
            raise OperandError(
                f"loop over {plural(len(items), 'item')} along {len(by_iteration)}: along may have at most one per item"
            )
        observer = self.issuer.chip.observer
        return iter(items) if observer is None else observer.loop(self.issuer, items, by_iteration)

    # ---- copies (`mlusim.cores.copies.memcpy`)

    def memcpy(
        self,
        dst: View | Pointer,
        src: View | Pointer,
        size: int = 0,
        direction: Direction | str | None = None,
        *strides: int,
    ) -> Awaitable[None]:
        """Copy, and wait until it is done: `__memcpy`.

        With views: `memcpy(dst, src)`, equal shapes and element sizes; direction, segments and strides are derived.
        In the documented byte form: `memcpy(dst, src, size, direction, dst_stride, src_stride, segnum)` with
        pointers, sizes and strides in bytes and segnum the number of segments MINUS ONE; without strides 1-D, with
        eight 3-D (see `mlusim.memory.copy_shape.pointer_copy_shape`).

        Raises `CopyError`, `AccessError`, `AllocationError` for copies that the hardware forbids.
        """
        return memcpy.copy_and_wait(self.issuer, self._line(_getframe(1)), dst, src, size, direction, strides)

    def memcpy_async(
        self,
        dst: View | Pointer,
        src: View | Pointer,
        size: int = 0,
        direction: Direction | str | None = None,
        *strides: int,
    ) -> None:
        """Issue a copy and continue: `__memcpy_async`. Sync before using its data or reusing its buffer.

        Arguments and errors as `memcpy`. Not from LDRAM, and not between the SRAMs of clusters (B).
        """
        memcpy.copy_async(self.issuer, self._line(_getframe(1)), dst, src, size, direction, strides)

    def move(self, dst: View, src: View) -> None:
        """Issue a copy within NRAM to the Move pipe and continue."""
        memcpy.move(self.issuer, self._line(_getframe(1)), dst, src)

    # ---- copies of many rows (`mlusim.cores.counted.row_copies`, `mlusim.cores.counted.scalar_copy`)

    def memcpy_rows(
        self,
        dst: View,
        src: View,
        dst_rows: Rows = None,
        src_rows: Rows = None,
        *,
        lengths: Rows = None,
        blocking: bool = True,
    ) -> Awaitable[None]:
        """A loop of row copies: `__memcpy(dst[dst_rows[i]], src[src_rows[i]])` for i in order; wait for the last.

        Args:
            dst, src: views (rows, ...) whose rows are contiguous and of one size; rank 1 copies elements.
            dst_rows, src_rows: row numbers, equally many: in registers, `Addresses`, or a list of integers in NRAM;
                None means 0, 1, 2, ...
            lengths: number of consecutive rows that each copy moves, by default 1. Copy i reads them from row
                src_rows[i] on, and writes them after those of copy i - 1. Requires `blocking=False`, and no `dst_rows`.
            blocking: True: await each copy before the next is issued. False: issue all, and await the last one.
        """
        line = self._line(_getframe(1))
        check_flags(blocking=blocking)
        blocking = bool(blocking)  # compiled code takes neither booleans nor integers of NumPy
        return row_copies.memcpy_rows(
            self.issuer, line, dst, src, dst_rows, src_rows, lengths=lengths, blocking=blocking
        )

    def scalar_copy(
        self, dst: View, src: View, dst_rows: Rows = None, src_rows: Rows = None, *, extra_cycles: int = 0
    ) -> Awaitable[None]:
        """A scalar loop within NRAM: dst[dst_rows[i]] = src[src_rows[i]] for i in order, element by element.

        Args:
            dst, src: contiguous views (rows, ...) in this core's NRAM, with rows of one size; rank 1 copies elements.
            dst_rows, src_rows: as for `memcpy_rows`.
            extra_cycles: scalar cycles per iteration in addition to addresses, loads, stores and the loop.
        """
        line = self._line(_getframe(1))
        return scalar_copy.scalar_copy(
            self.issuer, line, dst, src, dst_rows, src_rows, as_count("extra_cycles", extra_cycles, minimum=0)
        )

    def gather(
        self, dst: View, src: View, offsets: View, mask: View | None = None, *, known: Addresses | None = None
    ) -> None:
        """dst[i] = src[offsets[i]] by one asynchronous `__gather`, from arch 592 on.

        Args:
            dst: (n, ...) in NRAM.
            src: (rows, ...) in GDRAM, LDRAM or this core's NRAM.
            offsets: n row numbers in NRAM.
            mask: n elements in NRAM; rows where it is 0 are not copied.
            known: the offsets, for a timing-only run, which has no values: it records the rows that are read. With a
                mask, whose values it does not have, either, all rows are copied.
        """
        row_copies.by_offsets(self.issuer, self._line(_getframe(1)), "gather", dst, src, offsets, mask, known)

    def scatter(self, dst: View, src: View, offsets: View, mask: View | None = None) -> None:
        """dst[offsets[i]] = src[i] by one `__scatter`, from arch 592 on, from NRAM. In order; otherwise as `gather`."""
        row_copies.by_offsets(self.issuer, self._line(_getframe(1)), "scatter", dst, src, offsets, mask)

    # ---- scalar code (`mlusim.cores.scalar`)

    def load(self, source: View) -> Awaitable[Any]:
        """Load a view of one element to a register and wait for it; returns a Python number.

        Raises `OperandError` for several elements, `MissingDataError` if a timing-only run does not have the value.
        """
        return scalar.load(self.issuer, self._line(_getframe(1)), source)

    def load_array(self, source: View, *, origin: View | None = None) -> Awaitable[Array]:
        """Load every element to registers, one scalar load each; returns a NumPy array of `source`'s shape.

        origin: the view that the kernel copied `source` from; a timing-only run reads the numbers there.
        """
        return scalar.load_array(self.issuer, self._line(_getframe(1)), source, origin)

    def store(self, target: View, value: Any) -> None:
        """Store a number to a view of one element, converted as in C, and continue.

        Raises `OperandError` for several elements, and for a float beyond the range of an integer type.
        """
        scalar.store(self.issuer, self._line(_getframe(1)), target, value)

    def store_array(self, target: View, values: Array) -> None:
        """Store an array from registers, one scalar store each, and continue."""
        scalar.store_array(self.issuer, self._line(_getframe(1)), target, values)

    def scalar(self, cycles: int | None = None, *, count: int = 1) -> None:
        """Charge scalar arithmetic: `count` operations of `cycles` each (default: the board's ordinary operation)."""
        scalar.arithmetic(self.issuer, self._line(_getframe(1)), cycles, count)

    # ---- vector instructions in addition to the table (`cores.compute.vector`, `cores.counted`)

    def sum_rows(self, dst: View, src: View) -> None:
        """Sum over the first axis: src (rows, ...) to dst (...); rank 1 to one element: `__bang_sumpool`."""
        vector.pool_rows(self.issuer, self._line(_getframe(1)), "sum_rows", dst, src)

    def max_rows(self, dst: View, src: View) -> None:
        """Maximum over the first axis: src (rows, ...) to dst (...): `__bang_maxpool`."""
        vector.pool_rows(self.issuer, self._line(_getframe(1)), "max_rows", dst, src)

    def min_rows(self, dst: View, src: View) -> None:
        """Minimum over the first axis: src (rows, ...) to dst (...): `__bang_minpool`."""
        vector.pool_rows(self.issuer, self._line(_getframe(1)), "min_rows", dst, src)

    def collect(self, dst: View, src: View, mask: View, *, known: Addresses | None = None) -> Awaitable[int]:
        """dst[:n] = the elements of src where mask is not 0, in order; returns n: `__bang_collect`, `__bang_count`."""
        return collect.collect(self.issuer, self._line(_getframe(1)), dst, src, mask, known=known)

    def collect_bins(
        self,
        rows_out: View,
        values_out: View,
        rows: View,
        values: View,
        mask: View,
        *,
        size: int,
        bins: int,
        known: Addresses | None = None,
    ) -> Awaitable[Integers]:
        """Sort rows and their values into bins of `size` rows each, by `__bang_collect`.

        Args:
            rows_out, values_out: in NRAM, of n elements: the rows, each less the first one of its bin; their values.
            rows: n integers in NRAM, 0 to size * bins - 1. Undefined afterwards.
            values: n elements in NRAM, of any element type. Undefined afterwards.
            mask: n elements in NRAM, of the type of `rows`, for intermediate results. Undefined afterwards.
            size: rows per bin.
            bins: number of bins.
            known: what the rows are in a timing-only run, which has no values.

        Returns, when awaited, bins + 1 integers: where each bin begins in the outputs, and n. Rules, errors and cost
        are those of `mlusim.cores.counted.bin_sort`.
        """
        line = self._line(_getframe(1))
        views = (rows_out, values_out, rows, values, mask)
        counts = {"size": as_count("size", size, minimum=0), "bins": as_count("bins", bins, minimum=0)}
        return bin_sort.collect_bins(self.issuer, line, *views, **counts, known=known)

    def scalar_bins(
        self, rows_out: View, values_out: View, rows: Addresses, values: View, counters: View, *, size: int
    ) -> Awaitable[Integers]:
        """Sort rows and their values into bins of `size` rows each, by scalar loops; as `collect_bins`.

        Args:
            rows_out, values_out: in NRAM, of n elements, as in `collect_bins`.
            rows: the addresses of n rows, which scalar code computes.
            values: n elements in NRAM, of any element type.
            counters: int32 in NRAM, one for each bin. Undefined afterwards.
            size: rows per bin.
        """
        line = self._line(_getframe(1))
        views = (rows_out, values_out, rows, values, counters)
        return bin_sort.scalar_bins(self.issuer, line, *views, size=as_count("size", size, minimum=0))

    # ---- syncs, barriers and locks (`mlusim.cores.synchronisation.syncs`, `mlusim.cores.synchronisation.locks`)

    def sync(self) -> Awaitable[None]:
        """Wait for all pipes of this core: `__sync`."""
        return syncs.sync(self.issuer, self._line(_getframe(1)))

    def sync_io(self) -> Awaitable[None]:
        """Wait for the IO pipe: `__sync_io`."""
        return syncs.sync(self.issuer, self._line(_getframe(1)), "sync_io", IO_PIPE)

    def sync_move(self) -> Awaitable[None]:
        """Wait for the Move pipe: `__sync_move`."""
        return syncs.sync(self.issuer, self._line(_getframe(1)), "sync_move", MOVE_PIPE)

    def sync_compute(self) -> Awaitable[None]:
        """Wait for the vector and tensor pipes: `__sync_compute`."""
        return syncs.sync(self.issuer, self._line(_getframe(1)), "sync_compute", COMPUTE_PIPES)

    def sync_io_move_compute(self, *, io: bool = True, move: bool = True, compute: bool = True) -> Awaitable[None]:
        """Wait for the selected pipes: `__sync_io_move_compute`."""
        check_flags(io=io, move=move, compute=compute)
        pipes = IO_PIPE * bool(io) | MOVE_PIPE * bool(move) | COMPUTE_PIPES * bool(compute)
        return syncs.sync(self.issuer, self._line(_getframe(1)), "sync_io_move_compute", pipes)

    def sync_cluster(self) -> Awaitable[None]:
        """Barrier of the cluster's cores and its memory core; in a BLOCK task, the same as `sync`: `__sync_cluster`."""
        return syncs.barrier(self.issuer, self._line(_getframe(1)), "sync_cluster")

    def sync_all(self) -> Awaitable[None]:
        """Barrier of all cores and memory cores of the union; in a BLOCK task, the same as `sync`: `__sync_all`."""
        return syncs.barrier(self.issuer, self._line(_getframe(1)), "sync_all")

    def sync_all_ipu(self) -> Awaitable[None]:
        """Barrier of all cores of the union without memory cores; in a BLOCK task, as `sync`: `__sync_all_ipu`."""
        return syncs.barrier(self.issuer, self._line(_getframe(1)), "sync_all_ipu")

    def sync_all_mpu(self) -> Awaitable[None]:
        """Barrier of the memory cores of the union; in a BLOCK task, the same as `sync`: `__sync_all_mpu`."""
        return syncs.barrier(self.issuer, self._line(_getframe(1)), "sync_all_mpu")

    def sync_all_ipu_within_cluster(self) -> Awaitable[None]:
        """Barrier of the cluster's cores without its memory core: `__sync_all_ipu_within_cluster`.

        In a BLOCK task, the same as `sync`.
        """
        return syncs.barrier(self.issuer, self._line(_getframe(1)), "sync_all_ipu_within_cluster")

    def lock(self, number: int) -> Awaitable[None]:
        """Wait for the pipes of this core and then acquire the lock with this number, 0 or more: `__bang_lock`.

        Raises `HangError` for a lock that the task holds already.
        """
        return locks.change(self.issuer, self._line(_getframe(1)), "lock", number)

    def unlock(self, number: int) -> Awaitable[None]:
        """Wait for the pipes of this core and release the lock with this number: `__bang_unlock`.

        Raises `OperandError` for a lock that the task does not hold.
        """
        return locks.change(self.issuer, self._line(_getframe(1)), "unlock", number)


# The attributes of a core. A name that it lacks may be assigned, for the kernel's own use.
_READ_ONLY = frozenset({*Core.__annotations__, "nram", "wram", "sram", "ldram"})

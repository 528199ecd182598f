"""On-chip memory and LDRAM from a kernel's point of view: alloc, scope, capacity."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from mlusim.cores.tasks.kernel_errors import foreign_core
from mlusim.dtypes import dtype_name, dtype_of
from mlusim.errors import AllocationError, InputError, for_caller, shown
from mlusim.inputs import as_shape, as_text
from mlusim.memory.allocation import Allocation, Memory, fits_message
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.layout import contiguous_strides
from mlusim.memory.view import View
from mlusim.units import format_bytes, group_digits

if TYPE_CHECKING:
    from mlusim.cores.tasks.task import Task


class Scratch:
    """A memory of one core, or the SRAM of its cluster, for the duration of a task.

    Buffers live until the end of their scope or task, those in SRAM until all tasks of the union have ended. Fresh
    buffers contain 0xFF bytes, never zeros.
    """

    __slots__ = ("_memory", "_owned", "_task")

    def __init__(self, task: Task, memory: Memory) -> None:
        self._task = task
        self._memory = memory
        self._owned: list[Allocation] = []

    def __repr__(self) -> str:
        buffers = "".join(f", {buffer.name} {group_digits(buffer.nbytes)} B" for buffer in self._owned)
        used_bytes, usable_bytes = group_digits(self._memory.used_bytes), group_digits(self.usable_bytes)
        return f"<{self._memory.name}: {used_bytes} B of {usable_bytes} B in use{buffers}>"

    @property
    def usable_bytes(self) -> int:
        """Capacity in bytes, without the part reserved for the compiler."""
        return self._memory.usable_bytes

    @property
    def free_bytes(self) -> int:
        """Length in bytes of the longest free range."""
        return self._memory.largest_free_bytes()

    def alloc(self, shape: int | tuple[int, ...], dtype: object, name: str = "", *, cluster: int | None = None) -> View:
        """Allocate a fresh buffer.

        Args:
            shape: elements along each axis.
            dtype: element type.
            name: name in messages and pictures. Required in SRAM: all cores of a cluster that allocate the same name
                share one buffer, like a `__mlu_shared__` array.
            cluster: SRAM only: the buffer of that name in another cluster of the union, by its `cluster_id`. It may
                only be the target of an SRAM2SRAM copy.

        Raises `AllocationError` with the arithmetic and the largest tile that would fit, `KernelError` after the task.
        """
        try:
            extents = as_shape("alloc of shape", shape)
            as_text("alloc: name", name)
        except InputError as error:
            raise AllocationError(error.message) from None
        if self._task.finished:
            raise foreign_core(self._task)
        element = dtype_of(dtype)
        if self._memory.kind is MemoryKind.SRAM:
            return self._alloc_shared(extents, element, name, cluster)
        if cluster is not None:
            raise AllocationError(
                f"{self._memory.kind.value}.alloc of cluster {shown(cluster)}: only SRAM belongs to a cluster"
            )
        allocation = self._allocate(
            self._memory, extents, element, name or f"{self._memory.kind.value} buffer {len(self._owned)}"
        )
        self._owned.append(allocation)
        view = View.strided(allocation, 0, extents, contiguous_strides(extents, element.itemsize), element)
        view.rows = {}
        if allocation.buffer is not None:
            # Slices derive their arrays from this one, which costs less than creating them.
            view.typed()
        return view

    def adopt(self, allocation: Allocation) -> None:
        """Take ownership of an allocation placed by a front end: it is freed when the task ends."""
        if not isinstance(allocation, Allocation):
            raise AllocationError(
                f"adopt({shown(allocation)}): it takes an allocation, which only a front end makes; use alloc"
            )
        self._owned.append(allocation)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Free the buffers allocated within the context when it exits. Raises `AllocationError` for SRAM."""
        if self._memory.kind is MemoryKind.SRAM:
            raise AllocationError("sram has no scope: its buffers are shared and live as long as the union's tasks")
        count = len(self._owned)
        try:
            yield
        finally:
            self.release(count)

    def release(self, keep: int = 0) -> None:
        """Free all but the first `keep` buffers."""
        if not isinstance(keep, int | np.integer) or keep < 0:
            memory = self._memory.kind.value
            raise AllocationError(
                f"{memory}.release({shown(keep)}): it takes the number of buffers to keep, at least 0; to free single "
                f"buffers, allocate them within `with core.{memory}.scope():`"
            )
        # Apply vector instructions in flight first: their pipe is in order with the next use of these bytes.
        task = self._task
        task.unit.apply_all_effects()
        while len(self._owned) > keep:
            task.chip.free(self._owned.pop(), task.now_ps, in_flight=self._in_flight())

    def _in_flight(self) -> bool:
        task = self._task
        return bool(task.pending_io or task.pending_move or task.unit.late_effects)

    def _allocate(self, memory: Memory, shape: tuple[int, ...], dtype: np.dtype[np.generic], name: str) -> Allocation:
        nbytes = math.prod(shape) * dtype.itemsize
        if not self._in_flight():
            memory.transfers_ended()
        try:
            return self._task.chip.allocate(
                memory,
                nbytes,
                name,
                dtype=dtype_name(dtype),
                shape=shape,
                task=self._task.index,
                now=self._task.now_ps,
            )
        except AllocationError as error:
            remedy = fits_message(shape, dtype.itemsize, memory.largest_free_bytes())
            raise AllocationError(f"{error.message}. {remedy[0].upper()}{remedy[1:]}.") from None
        except (MemoryError, OSError, OverflowError):
            raise AllocationError(
                f"your machine has no {format_bytes(memory.usable_bytes)} left for {memory.name}: choose a smaller "
                f"board, or run without data ({for_caller('--no-data', 'data=False')})"
            ) from None

    def _alloc_shared(
        self, shape: tuple[int, ...], dtype: np.dtype[np.generic], name: str, cluster_id: int | None
    ) -> View:
        if not name:
            raise AllocationError(
                "sram.alloc needs a name: all cores of the cluster that use the same name share the buffer"
            )
        job, cluster = self._task.job, self._task.unit.cluster
        if cluster_id is not None:
            if not isinstance(cluster_id, int | np.integer) or not 0 <= cluster_id < len(job.clusters):
                raise AllocationError(
                    f"sram.alloc of {name!r} in cluster {shown(cluster_id)}: the union has clusters 0 to "
                    f"{len(job.clusters) - 1}"
                )
            cluster = job.clusters[cluster_id]
        shared_buffers = job.sram_buffers.setdefault(cluster.index, {})
        view = shared_buffers.get(name)
        if view is None:
            view = shared_buffers[name] = View.of(self._allocate(cluster.sram, shape, dtype, name), shape, dtype)
        elif view.shape != shape or view.dtype != dtype:
            raise AllocationError(
                f"sram.alloc of {name!r} as {dtype_name(dtype)} {list(shape)}: another core of the cluster made it "
                f"{dtype_name(view.dtype)} {list(view.shape)}; all must agree"
            )
        return View.of(view.allocation, shape, dtype)

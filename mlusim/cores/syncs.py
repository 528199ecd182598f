"""Syncs of a core's pipes, and barriers between cores."""

from __future__ import annotations

import sys
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any

from mlusim.cores.operations import Operations
from mlusim.cores.task import ALL_PIPES
from mlusim.errors import KernelError
from mlusim.log import IO, MOVE, NONE, SYNC, VECTOR

if TYPE_CHECKING:
    from mlusim.cores.barrier import Barrier

_VECTOR_PIPE = 1 << VECTOR
_IO_PIPE = 1 << IO
_MOVE_PIPE = 1 << MOVE


class SyncOperations(Operations):
    """Where a task waits: for its own pipes, or for others. Each is to be awaited where it is called."""

    cluster_dim: int
    is_memory_core: bool

    def sync(self) -> Awaitable[None]:
        """Wait for all pipes of this core: `__sync`."""
        return self._sync("sync", ALL_PIPES, sys._getframe(1))

    def sync_io(self) -> Awaitable[None]:
        """Wait for the IO pipe: `__sync_io`."""
        return self._sync("sync_io", _IO_PIPE, sys._getframe(1))

    def sync_move(self) -> Awaitable[None]:
        """Wait for the Move pipe: `__sync_move`."""
        return self._sync("sync_move", _MOVE_PIPE, sys._getframe(1))

    def sync_compute(self) -> Awaitable[None]:
        """Wait for the vector and tensor pipes: `__sync_compute`."""
        return self._sync("sync_compute", _VECTOR_PIPE, sys._getframe(1))

    def sync_io_move_compute(self, *, io: bool = True, move: bool = True, compute: bool = True) -> Awaitable[None]:
        """Wait for the pipes named: `__sync_io_move_compute`."""
        mask = _IO_PIPE * io | _MOVE_PIPE * move | _VECTOR_PIPE * compute
        return self._sync("sync_io_move_compute", mask, sys._getframe(1))

    def sync_cluster(self) -> Awaitable[None]:
        """Barrier of the cluster's cores and its memory core; for a BLOCK task just `sync`: `__sync_cluster`.

        The count is fixed: where one of them has returned, the others wait for ever, and the run ends in `HangError`.
        """
        frame = sys._getframe(1)
        if self.cluster_dim:
            return self._arrive("sync_cluster", self._task.job.cluster_barriers[self._unit.cluster.index], frame)
        return self._sync("sync_cluster", ALL_PIPES, frame)

    def sync_all(self) -> Awaitable[None]:
        """Barrier of all cores and memory cores of the union; for a BLOCK task just `sync`: `__sync_all`."""
        frame = sys._getframe(1)
        if self.cluster_dim:
            return self._arrive("sync_all", self._task.job.all_barrier, frame)
        return self._sync("sync_all", ALL_PIPES, frame)

    def sync_all_ipu(self) -> Awaitable[None]:
        """Barrier of all cores of the union without memory cores; for a BLOCK task just `sync`: `__sync_all_ipu`.

        Raises `KernelError` on a memory core, which takes no part in it.
        """
        frame = sys._getframe(1)
        if self.is_memory_core:
            raise KernelError("sync_all_ipu on the memory core: it is the barrier without them; use sync_all")
        if self.cluster_dim:
            return self._arrive("sync_all_ipu", self._task.job.all_ipu_barrier, frame)
        return self._sync("sync_all_ipu", ALL_PIPES, frame)

    def _sync(self, name: str, mask: int, frame: Any) -> Awaitable[None]:
        task = self._task
        self._begin()
        now_ps = task.now_ps
        record = self._record(name, SYNC, frame, now_ps, now_ps, now_ps, 1, 0, mask)
        waits = task.drain(mask, record, task.resume)
        task.unawaited = record
        return task.suspending if waits else task.passing

    def _arrive(self, name: str, barrier: Barrier, frame: Any) -> Awaitable[None]:
        task = self._task
        self._begin()
        record = self._record(name, SYNC, frame, task.now_ps, task.now_ps, NONE, 1, 0, barrier.number(), alone_ps=0)
        task.waits_for = task.here(frame, name)
        arrive = partial(task.arrive_at, barrier, record)
        if not task.drain(ALL_PIPES, record, arrive):
            arrive()
        task.unawaited = record
        return task.suspending

"""The chip: clusters of cores, their memories, the links between them, one clock and one log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import copy_context
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from mlusim.cores.copies.shared_copy import SharedCopy
from mlusim.cores.frame_lines import FrameLines
from mlusim.cores.machine.unit import Unit
from mlusim.cores.synchronisation.locks import Lock
from mlusim.cores.tasks.launch import Job, Queue
from mlusim.errors import AwaitError, MlusimError
from mlusim.hardware.board_record import Board
from mlusim.log import NONE, Log
from mlusim.log_tables import AllocationRecord
from mlusim.memory.allocation import Allocation, Memory
from mlusim.memory.clock import Clock
from mlusim.memory.flow import LinkLimits
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.loop_costs import rows_cost
from mlusim.memory.quick_link import QuickLink
from mlusim.memory.reused import Bytes
from mlusim.memory.sizes import memory_sizes
from mlusim.units import PS_PER_S

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.tasks.task import Task

Item = TypeVar("Item")
MEMORY_CORE_ID = 0x80


def sram_name(board: str, cluster: int) -> str:
    """Return the name of a cluster's SRAM in messages and in the log."""
    return f"the SRAM of cluster {cluster} of {board}"


class Observer(Protocol):
    """An observer of a run, which may run a part of it."""

    def run(self, chip: Chip, step: Callable[[], None]) -> None:
        """Process events by `step` as long as there is something to observe."""

    def loop(self, issuer: Issuer, items: Sequence[Item], along: Sequence[Any]) -> Iterator[Item]:
        """Return an iterator over the items of a loop that a kernel declares (`Core.loop`)."""


class Cluster:
    """Cores, one memory core, and the SRAM that they share.

    Units are created at their first use: most launches leave some of a board's cores idle.
    """

    def __init__(self, chip: Chip, index: int) -> None:
        board = chip.board
        self._chip = chip
        self.index = index
        sram_rate = board.sram_bandwidth_bytes_per_s / PS_PER_S
        self.sram_link = QuickLink(chip.environment, LinkLimits(sram_rate, [sram_rate]))
        sram_size = chip.memory_sizes[MemoryKind.SRAM]
        self.sram = Memory(MemoryKind.SRAM, sram_name(board.name, index), sram_size, data=chip.data)
        # Copies by the memory core that other cores of the cluster may still join, by call.
        self.shared_copies: dict[Any, list[SharedCopy]] = {}
        # The union that occupies the whole cluster, even after some of its tasks have ended.
        self.union: Job | None = None
        self._units: dict[int, Unit] = {}

    @property
    def units(self) -> Iterable[Unit]:
        """The cores and the memory core that have been used."""
        return self._units.values()

    @property
    def memory_core(self) -> Unit:
        """The unit that copies between GDRAM and SRAM, and runs a task of each union."""
        return self.core(MEMORY_CORE_ID)

    def core(self, core_id: int) -> Unit:
        """Return a core."""
        unit = self._units.get(core_id)
        if unit is None:
            is_memory_core = core_id == MEMORY_CORE_ID
            unit = self._units[core_id] = Unit(self._chip, self, core_id, is_memory_core=is_memory_core)
        return unit

    def drop_units(self) -> None:
        """Forget the cores and the memory core, which refer to the cluster."""
        self._units.clear()

    def is_free(self, core_id: int) -> bool:
        """Return whether a core runs no task, and no union occupies the cluster."""
        unit = self._units.get(core_id)
        return self.union is None and (unit is None or unit.task is None)


class Chip:
    """The components of one board.

    Args:
        board: the board.
        data: whether memories have bytes (False: timing only).
        late: delay the effect of asynchronous copies to the sync that orders them.
        max_operations: limit on the operations of one task.
        log_folder: folder of the scratch file with the records of the log; None: in memory.
        dry: only record what the first and the last task of each launch issue; nothing takes time
            (`mlusim.host.steady`).

    Attributes:
        board, data, late, dry, max_operations: the arguments.
        environment, log: simulated time, and the records of all launches.
        frame_lines: the lines of the kernels, numbered as in the log.
        clusters, gdram, dram: its parts: clusters, the memory of the board, and the link to it.
        memory_sizes: the size of each memory.
        queues: all queues.
        observer: runs a part of the events, and may skip operations that repeat (`mlusim.host.steady.watch`); or None.
        quiet: the context in which instructions compute, without NumPy's warnings. Entering it costs a tenth of
            `np.errstate`.
        refuses_repetition: whether a run that repeats itself for long is stopped (`mlusim.cores.tasks.endless`).
        rows_cost: `mlusim.memory.loop_costs.rows_cost` on the board, cached.
        copy_geometries, vector_calls, vector_geometries: results that depend only on the geometry of copies and vector
            instructions, cached for all cores.
        running: the task whose kernel runs.
        noted: the errors created since a kernel was last resumed.
        at_close: called when nothing can run on the chip any more.
        barriers: number of barrier rounds reserved so far (`mlusim.cores.synchronisation.barrier`).
        locks: the locks used so far, by number.
        changed_by_atomic: number of records when an atomic last changed memory, or may have.
        skipped: number of instructions without an effect, which the log does not have.
    """

    def __init__(
        self,
        board: Board,
        *,
        data: bool,
        late: bool,
        max_operations: int,
        log_folder: str | Path | None = None,
        dry: bool = False,
    ) -> None:
        self.board = board
        self.data = data
        self.late = late
        self.dry = dry
        self.observer: Observer | None = None
        self.max_operations = max_operations
        self.refuses_repetition = False
        self.environment = Clock()
        self.log = Log(board.name, log_folder)
        self.frame_lines = FrameLines(self.log)
        ports = [board.cluster_read_bandwidth_bytes_per_s, board.cluster_write_bandwidth_bytes_per_s] * board.clusters
        self.dram = QuickLink(
            self.environment,
            LinkLimits(
                rate=board.dram_bandwidth_bytes_per_s / PS_PER_S,
                port_rates=[rate / PS_PER_S for rate in ports],
                mixed_factor=board.dram_mixed_efficiency,
                mixing_ps=board.dram_mixing_ps,
                mixing_reach=board.dram_mixing_reach,
                spread=board.dram_share_spread,
            ),
        )
        self.memory_sizes = memory_sizes(board)
        gdram_size = self.memory_sizes[MemoryKind.GDRAM]
        self.gdram = Memory(MemoryKind.GDRAM, f"the GDRAM of {board.name}", gdram_size, data=data)
        self.quiet = copy_context()
        self.quiet.run(np.seterr, all="ignore")
        self.rows_cost = lru_cache(maxsize=1024)(partial(rows_cost, board))
        self.copy_geometries: dict[Any, Any] = {}
        self.vector_calls: dict[Any, Any] = {}
        self.vector_geometries: dict[Any, Any] = {}
        self.running: Task | None = None
        self.noted: list[MlusimError] = []
        self.at_close: list[Callable[[], Any]] = []
        self.queues: list[Queue] = []
        self.barriers = 0
        self.locks: dict[int, Lock] = {}
        self.changed_by_atomic = 0
        self.skipped = 0
        self.clusters = [Cluster(self, index) for index in range(board.clusters)]

    def fill_fresh(self, byte: int) -> None:
        """Fill fresh memory with a byte from now on, in place of poison."""
        for memory in (self.gdram, *(cluster.sram for cluster in self.clusters)):
            memory.fresh_byte = byte

    def queue(self) -> Queue:
        """Return a new in-order queue."""
        queue = Queue(self, len(self.queues))
        self.queues.append(queue)
        return queue

    def note(self, error: MlusimError) -> None:
        """Note an error that was created, as `mlusim.errors.NOTED`."""
        self.noted.append(error)
        if isinstance(error, AwaitError) and error.dropped and self.running is not None and self.running.issuer:
            # The task is checked at its next operation, which may depend on what the coroutine should have done.
            self.running.issuer.next_check = NONE

    def close(self) -> None:
        """Free the bytes of all memories and all other resources of runs."""
        self.gdram.close()
        self.release()

    def release(self) -> None:
        """Free all resources of runs; bytes of GDRAM stay valid as long as views refer to them."""
        while self.at_close:
            self.at_close.pop()()
        self.gdram.disown()
        for memory in self.on_chip():
            memory.close()
        for unit in self.units():
            # Cached copy geometries contain arrays on the bytes.
            unit.copy_geometries.clear()
        # Reference cycles would keep the log of a run until Python's collector finds them.
        self.queues.clear()
        for cluster in self.clusters:
            cluster.drop_units()
        self.clusters.clear()
        self.running = None

    def units(self) -> Iterator[Unit]:
        """Yield the cores and memory cores that have been used."""
        for cluster in self.clusters:
            yield from cluster.units

    def on_chip(self) -> Iterator[Memory]:
        """Yield the SRAMs, and the memories of these cores and memory cores, with their LDRAMs."""
        for cluster in self.clusters:
            yield cluster.sram
        for unit in self.units():
            yield from (memory for memory in (unit.nram, unit.wram, unit.ldram) if memory is not None)

    def place_all(self) -> None:
        """Place the first launch of every queue on the units that are free."""
        for queue in self.queues:
            queue.place()

    def allocate(
        self,
        memory: Memory,
        nbytes: int,
        name: str,
        *,
        dtype: str,
        shape: tuple[int, ...],
        task: int = -1,
        now: int = 0,
        adopt: Bytes | None = None,
        read_only: bool = False,
        workspace: bool = False,
        overwritten: bool = False,
    ) -> Allocation:
        """Allocate bytes of a memory and log them. Raises `AllocationError` if they do not fit."""
        log = self.log
        allocation = memory.allocate(nbytes, name, len(log.allocations), adopt=adopt, overwritten=overwritten)
        allocation.read_only = read_only
        log.allocations.append(
            AllocationRecord(
                memory.kind.value,
                memory.name,
                name,
                allocation.address,
                nbytes,
                task,
                now,
                dtype,
                shape,
                read_only,
                workspace=workspace,
            )
        )
        return allocation

    def free(self, allocation: Allocation, now: int, *, in_flight: bool = False) -> None:
        """Free bytes and log the time; `in_flight`: transfers of the task may still use them."""
        allocation.memory.free(allocation, in_flight=in_flight)
        self.log.released[allocation.identity] = self.log.count
        self.log.allocations[allocation.identity].end_ps = now

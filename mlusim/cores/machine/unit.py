"""A unit that runs tasks: an MLU core or a cluster's memory core, with its memories and pipes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlusim.arrays import Array
from mlusim.cores.compute.deferred_vector import apply_deferred, flush_operands
from mlusim.cores.machine.pipe import DmaPipe
from mlusim.memory.allocation import Memory
from mlusim.memory.deferred import DeferredWrite, DeferredWrites
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.row_copy import RowCopy
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.compute.vector_call import VectorCall
    from mlusim.cores.machine.chip import Chip, Cluster
    from mlusim.cores.tasks.task import Task

# End time, effect on memory, call of the table (or None) and operands. An effect of None is the call's computation on
# the elements of its operands: one object fewer for each instruction in flight.
Effect = tuple[int, "Callable[[], Any] | None", "VectorCall | None", Sequence[Any]]


class Unit:
    """An MLU core, or a memory core (no NRAM, no WRAM, its own IO pipe).

    The compute and scalar pipes need no queue: the time of an instruction is known at issue.

    Attributes:
        chip, cluster, core_id, is_memory_core: which unit it is.
        task: the task that it runs, or None.
        nram, wram, ldram: its memories.
        io, move: its DMA pipes.
        vector_free_ps, vector_record: when the compute pipe becomes free, and its last instruction.
        compute_copied_ps, compute_copy_record: the same of the last asynchronous NRAM2NRAM copy, which runs there.
        effects: effects of the compute pipe's instructions that are applied before memory is next accessed, by end.
        stored_ps: when the last scalar store to off-chip memory is complete.
        posted: end and effect of the scalar stores to off-chip memory that are not complete.
        late_effects: pipe and effect of the asynchronous copies that wait for their sync, in late mode.
        deferred, pending_writes: the deferred writes of the NRAM, and the list of them for a fast check.
        copy_geometries: cached copies whose operands are within its reach, by their geometry.
        scalar_accesses: cached scalar accesses, number in the log and cost, by layout and phase.
    """

    def __init__(self, chip: Chip, cluster: Cluster, core_id: int, *, is_memory_core: bool) -> None:
        self.chip = chip
        self.cluster = cluster
        self.core_id = core_id
        self.is_memory_core = is_memory_core
        self.task: Task | None = None
        self.vector_free_ps = 0
        self.vector_record = -1
        self.compute_copied_ps = 0
        self.compute_copy_record = -1
        self.stored_ps = 0
        self.posted: deque[tuple[int, Callable[[], None]]] = deque()
        self.copy_geometries: dict[Any, Any] = {}
        self.scalar_accesses: dict[Any, tuple[int, int]] = {}
        self.effects: deque[Effect] = deque()
        self.late_effects: list[tuple[DmaPipe, Callable[[], None]]] = []
        self.io = DmaPipe(self, chip.dram, 2 * cluster.index, 2 * cluster.index + 1)
        self.move = DmaPipe(self, cluster.sram_link, 0, 0)
        board = chip.board
        if not board.has_independent_move:
            # Before the 3xx series, IO-DMA and Move-DMA are not independent: both run in program order.
            self.move.engine = self.io.engine
        location = f"cluster {cluster.index} {self.name}"

        def memory(kind: MemoryKind) -> Memory:
            name = f"the {kind.value.upper()} of {location} of {board.name}"
            return Memory(kind, name, chip.memory_sizes[kind], data=chip.data, fresh_byte=chip.gdram.fresh_byte)

        self.nram: Memory | None = None
        self.wram: Memory | None = None
        if not is_memory_core:
            self.nram = memory(MemoryKind.NRAM)
            self.wram = memory(MemoryKind.WRAM)
            if chip.data and not chip.late:
                self.nram.deferred = DeferredWrites(self.nram)
        self.deferred = None if self.nram is None else self.nram.deferred
        self.pending_writes: list[DeferredWrite] = [] if self.deferred is None else self.deferred.pending
        self.ldram: Memory = memory(MemoryKind.LDRAM)

    @property
    def name(self) -> str:
        """`core 3`, or `memory core`."""
        return "memory core" if self.is_memory_core else f"core {self.core_id}"

    def add_effect(self, end_ps: int, effect: Callable[[], None]) -> None:
        """Schedule the effect on memory of an instruction of the vector pipe."""
        self.effects.append((end_ps, effect, None, ()))

    def add_scalar_effect(self, end_ps: int, effect: Callable[[], None]) -> None:
        """Schedule the effect of a scalar store, which may end before vector instructions issued earlier."""
        effects = self.effects
        position = len(effects)
        while position and effects[position - 1][0] > end_ps:
            position -= 1
        effects.insert(position, (end_ps, effect, None, ()))

    def post_store(self, end_ps: int, effect: Callable[[], None]) -> None:
        """Schedule the effect of a scalar store to off-chip memory, which ends after those before it."""
        self.posted.append((end_ps, effect))
        environment = self.chip.environment
        environment.after(end_ps - environment.now, lambda _: self.complete_stores(end_ps))

    def complete_stores(self, until_ps: int | None = None) -> None:
        """Apply the effects of the posted stores that end by a time, by default of all, in order."""
        posted = self.posted
        while posted and (until_ps is None or posted[0][0] <= until_ps):
            posted.popleft()[1]()

    def update_memory(self, now: int) -> None:
        """Bring memory up to date as of `now` before it is read: effects of vector instructions, and deferred loads."""
        self.apply_effects(now)
        if self.pending_writes:
            self.flush()

    def prepare(self, now: int, views: Sequence[View]) -> None:
        """Bring the bytes of these views up to date as of `now`, as `update_memory` does for the whole memory."""
        self.apply_effects(now)
        if self.pending_writes and self.deferred is not None:
            self.deferred.prepare(views)

    def source_of(self, view: View) -> Array | None:
        """Return the elements of a view where a deferred load keeps them, or None if they are in memory."""
        return self.deferred.read(view, view.dtype) if self.pending_writes and self.deferred is not None else None

    def copy_rows(self, copy: RowCopy) -> None:
        """Copy rows at the end of a scalar loop."""
        if self.pending_writes and self.deferred is not None:
            self.deferred.copy_rows(copy)
        else:
            copy()

    def apply_effects(self, now: int) -> None:
        """Apply the effects of all vector instructions that have ended by `now`, in order."""
        effects = self.effects
        if effects and effects[0][0] <= now:
            self.chip.quiet.run(self._apply_effects, now)

    def _apply_effects(self, now: int) -> None:
        effects, pending_writes, deferred = self.effects, self.pending_writes, self.deferred
        while effects and effects[0][0] <= now:
            _, effect, call, operands = effects.popleft()
            # An instruction with one operand may be a fill.
            if deferred is not None and (pending_writes or len(operands) == 1):
                if call is None:
                    deferred.flush()
                elif apply_deferred(deferred, call, operands, effect):
                    continue
                else:
                    flush_operands(deferred, operands)
            if effect is not None:
                effect()
            elif call is not None:
                ufunc = call.ufunc
                if ufunc is None:
                    call.compute(*[view.elements for view in operands])
                else:
                    # Optimised: as `call.compute`, without its calls in Python and without an intermediate array.
                    result, first, second = operands
                    ufunc(first.elements, second.elements, out=result.elements)

    def flush(self) -> None:
        """Write deferred loads to the NRAM."""
        if self.deferred is not None:
            self.deferred.flush()

    def apply_all_effects(self) -> None:
        """Apply the effects of all issued vector instructions, in order."""
        if self.effects:
            self.apply_effects(max(end_ps for end_ps, *_ in self.effects))

    def apply_late_copies(self, *, io: bool, move: bool) -> None:
        """In late mode, apply the asynchronous copies that a sync has ordered."""
        remaining = []
        for pipe, effect in self.late_effects:
            if (pipe is self.move and move) or (pipe is not self.move and io):
                effect()
            else:
                remaining.append((pipe, effect))
        self.late_effects = remaining

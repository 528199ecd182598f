"""A unit that runs tasks: an MLU core or a cluster's memory core, with its memories and pipes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlusim.cores.pipe import DmaPipe
from mlusim.cores.unmoved import done_unmoved, settle_operands
from mlusim.memory.allocation import Memory
from mlusim.memory.deferred import Deferred, Piece
from mlusim.memory.kinds import MemoryKind

if TYPE_CHECKING:
    from mlusim.cores.chip import Chip, Cluster
    from mlusim.cores.instructions.record import Instruction
    from mlusim.cores.task import Task

# When an instruction ends, what it then does to memory, the instruction and its operands; None where it is none.
Effect = tuple[int, "Callable[[], Any]", "Instruction | None", Sequence[Any]]


class Unit:
    """An MLU core, or a memory core (no NRAM, no WRAM, an IO pipe of its own).

    The vector and scalar pipes need no queue: what they do takes a time that is known when it is issued, so
    `vector_free_ps` says when the vector pipe is free, and effects wait in `effects` until someone could see them.
    """

    __slots__ = (
        "chip",
        "cluster",
        "copy_geometries",
        "core_id",
        "deferred",
        "effects",
        "io",
        "is_memory_core",
        "late_effects",
        "ldram",
        "move",
        "nram",
        "pieces",
        "scalar_accesses",
        "stored_ps",
        "stream_copied_ps",
        "stream_copy_record",
        "task",
        "vector_free_ps",
        "vector_record",
        "wram",
    )

    def __init__(self, chip: Chip, cluster: Cluster, core_id: int, *, is_memory_core: bool) -> None:
        self.chip = chip
        self.cluster = cluster
        self.core_id = core_id
        self.is_memory_core = is_memory_core
        self.task: Task | None = None
        self.vector_free_ps = 0
        self.vector_record = -1
        # The last asynchronous NRAM2NRAM copy, which the vector pipe does.
        self.stream_copied_ps = 0
        self.stream_copy_record = -1
        # When the last scalar store to off-chip memory lands.
        self.stored_ps = 0
        # Copies whose operands are within this unit's reach, by their geometry.
        self.copy_geometries: dict[Any, Any] = {}
        # Scalar accesses within its reach: what layout and phase decide.
        self.scalar_accesses: dict[Any, tuple[int, int]] = {}
        self.effects: deque[Effect] = deque()
        self.late_effects: list[tuple[DmaPipe, Callable[[], None]]] = []
        self.io = DmaPipe(self, chip.dram, 2 * cluster.index, 2 * cluster.index + 1)
        self.move = DmaPipe(self, cluster.sram_link, 0, 0)
        board = chip.board
        if not board.has_independent_move:
            self.io.share_engine(self.move)
        place = f"cluster {cluster.index} {self.name}"

        def memory(kind: MemoryKind, total: int, reserved: int = 0, alignment: int = 1) -> Memory:
            name = f"the {kind.value.upper()} of {place} of {board.name}"
            return Memory(kind, name, total, reserved_bytes=reserved, alignment_bytes=alignment, data=chip.data)

        self.nram: Memory | None = None
        self.wram: Memory | None = None
        if not is_memory_core:
            alignment = board.vector_alignment_bytes
            self.nram = memory(MemoryKind.NRAM, board.nram_bytes, board.nram_reserved_bytes, alignment)
            self.wram = memory(MemoryKind.WRAM, board.wram_bytes, 0, board.wram_alignment_bytes)
            if chip.data and not chip.late:
                self.nram.deferred = Deferred(self.nram)
        # What large loads into the NRAM left unwritten: the pieces, for a quick look.
        self.deferred = None if self.nram is None else self.nram.deferred
        self.pieces: list[Piece] = [] if self.deferred is None else self.deferred.pieces
        self.ldram = memory(MemoryKind.LDRAM, board.ldram_bytes_per_core, 0, board.dram_unit_bytes)

    @property
    def name(self) -> str:
        """`core 3`, or `memory core`."""
        return "memory core" if self.is_memory_core else f"core {self.core_id}"

    def later(self, end_ps: int, effect: Callable[[], None]) -> None:
        """Remember what an instruction of the vector pipe does to memory when it ends."""
        self.effects.append((end_ps, effect, None, ()))

    def later_scalar(self, end_ps: int, effect: Callable[[], None]) -> None:
        """The same for a scalar store, which may end before vector instructions that were issued earlier."""
        effects = self.effects
        position = len(effects)
        while position and effects[position - 1][0] > end_ps:
            position -= 1
        effects.insert(position, (end_ps, effect, None, ()))

    def apply_until(self, now: int) -> None:
        """Bring memory up to `now`, to be looked at: what vector instructions did by then, and what loads left out."""
        self.act_until(now)
        if self.pieces:
            self.settle()

    def act_until(self, now: int) -> None:
        """Let every vector instruction that has ended by now act on memory, in order."""
        effects = self.effects
        if effects and effects[0][0] <= now:
            self.chip.quiet.run(self._act_until, now)

    def _act_until(self, now: int) -> None:
        effects, pieces = self.effects, self.pieces
        while effects and effects[0][0] <= now:
            _, effect, instruction, operands = effects.popleft()
            # What has one operand may be a fill.
            deferred = self.deferred
            if deferred is not None and (pieces or len(operands) == 1):
                if instruction is None:
                    deferred.settle()
                elif done_unmoved(deferred, instruction, operands, effect):
                    continue
                else:
                    settle_operands(deferred, operands)
            effect()

    def settle(self) -> None:
        """Write to the NRAM what large loads left unwritten."""
        if self.deferred is not None:
            self.deferred.settle()

    def apply_all(self) -> None:
        """Let every vector instruction that was issued act on memory, in order."""
        if self.effects:
            self.act_until(max(end_ps for end_ps, *_ in self.effects))

    def apply_late(self, *, io: bool = True, move: bool = True) -> None:
        """In late mode: let asynchronous copies that a sync has ordered act on memory."""
        kept = []
        for pipe, effect in self.late_effects:
            if (pipe is self.move and move) or (pipe is not self.move and io):
                effect()
            else:
                kept.append((pipe, effect))
        self.late_effects = kept

"""The size of each memory of a board, and the alignment of allocations in it."""

from __future__ import annotations

from typing import NamedTuple

from mlusim.hardware.board_record import Board
from mlusim.memory.kinds import MemoryKind
from mlusim.units import format_bytes, percent, round_up

OWNERS = {
    MemoryKind.NRAM: "a core",
    MemoryKind.WRAM: "a core",
    MemoryKind.SRAM: "a cluster",
    MemoryKind.LDRAM: "a core",
    MemoryKind.GDRAM: "the board",
}


class MemorySize(NamedTuple):
    """The size of one memory, in bytes.

    Attributes:
        total_bytes: in hardware.
        reserved_bytes: the part of them that the compiler reserves.
        alignment_bytes: allocations are rounded up to a multiple of it.
    """

    total_bytes: int
    reserved_bytes: int = 0
    alignment_bytes: int = 1

    @property
    def usable_bytes(self) -> int:
        """Bytes available to kernels."""
        return self.total_bytes - self.reserved_bytes

    def filled(self, nbytes: int, owner: str) -> str:
        """Return which part `nbytes` are of what `owner` may use; for more than that, of the whole memory.

        The arrays of a BANG C file may lie in the part that the compiler reserves.
        """
        if nbytes <= self.usable_bytes:
            part = nbytes / self.usable_bytes if self.usable_bytes else 0.0
            return f"{percent(part)} of the {format_bytes(self.usable_bytes)} that {owner} may use"
        reserved = (
            f", of which the compiler reserves {format_bytes(self.reserved_bytes)}" if self.reserved_bytes else ""
        )
        return f"{percent(nbytes / self.total_bytes)} of the {format_bytes(self.total_bytes)} of {owner}{reserved}"

    def allocated_bytes(self, nbytes: int) -> int:
        """Return the bytes that an allocation of `nbytes` occupies."""
        return max(round_up(nbytes, self.alignment_bytes), self.alignment_bytes)


def memory_sizes(board: Board) -> dict[MemoryKind, MemorySize]:
    """Return the size of each memory of a board: the NRAM of a core, the SRAM of a cluster, and so on."""
    vectors = board.vector_alignment_bytes
    return {
        MemoryKind.NRAM: MemorySize(board.nram_bytes, board.nram_reserved_bytes, vectors),
        MemoryKind.WRAM: MemorySize(board.wram_bytes, 0, board.wram_alignment_bytes),
        MemoryKind.SRAM: MemorySize(board.sram_bytes, board.sram_reserved_bytes, vectors),
        MemoryKind.LDRAM: MemorySize(board.ldram_bytes_per_core, 0, board.dram_unit_bytes),
        MemoryKind.GDRAM: MemorySize(board.gdram_bytes, 0, vectors),
    }

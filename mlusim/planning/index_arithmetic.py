"""Address arithmetic on index tuples: its NRAM and its vector cycles."""

from __future__ import annotations

from dataclasses import dataclass

from mlusim.hardware import Board

# An index that repeats is loaded as often, up to here; more repetitions are made within NRAM.
LOADED_REPEATS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexArithmetic:
    """The address arithmetic on index tuples, which decides the NRAM they take.

    Attributes:
        columns: index values of a lookup.
        positional: whether the row depends on the place of the lookup, too.
        narrowed: columns of which a window is left.
        wide: whether row numbers need 64 bits.
        binned: whether lookups are sorted into bins by vector instructions.
    """

    columns: int
    positional: bool
    narrowed: int
    wide: bool
    binned: bool = False

    def width(self) -> int:
        """Bytes of a row number."""
        return 8 if self.wide else 4

    def lists(self, board: Board) -> bool:
        """Whether lookups outside the window are left out by vector instructions, which give a list of the others.

        On 2xx they would need aligned operands; there the scalar loop that copies compares each.
        """
        return self.narrowed > 0 and not board.needs_aligned_vectors

    def buffers(self, board: Board, index_itemsize: int) -> dict[str, int]:
        """Bytes for each lookup of the buffers beside the index that vector instructions take, by name."""
        if not (board.has_gather or self.lists(board) or self.binned):
            return {}
        width = self.width()
        sizes = {"converted": self.columns * width} if index_itemsize != width else {}
        if index_itemsize <= width:
            # An index of 64 bits that goes on with 32 leaves the other half of its buffer free for these.
            sizes["spare"] = width
            if self.narrowed:
                sizes["mask"] = width
            if self.columns > 1:
                sizes["columns"] = self.columns * width
        if self.positional:
            sizes["places"] = width
        if self.narrowed:
            sizes["turns"] = width
        return sizes

    def buffer_bytes(self, board: Board, index_itemsize: int) -> tuple[int, ...]:
        """Bytes for each lookup of every buffer of NRAM that `IndexTiles` takes on a board."""
        if not self.columns:
            return ()
        return (self.columns * index_itemsize, *self.buffers(board, index_itemsize).values())

    def vector_cycles(self, board: Board, lookups: int) -> int:
        """Cycles of the vector instructions that make row numbers, or lists, of as many lookups."""
        instructions = 4 * self.columns + 2 * self.narrowed + 2 * self.positional + 2
        if self.lists(board):
            instructions += 4
        beats = -(-lookups * self.width() // board.vector_bytes_per_cycle)
        return instructions * (board.vector_startup_cycles + beats)

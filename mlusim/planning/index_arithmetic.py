"""Address arithmetic on index tuples: the NRAM and vector cycles it needs."""

from __future__ import annotations

from dataclasses import dataclass

from mlusim.hardware import Board
from mlusim.units import ceil_div

# A repeating index is loaded again up to this often; beyond that it is repeated within NRAM.
LOADED_REPEATS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexArithmetic:
    """The address arithmetic on index tuples, which determines their NRAM.

    Attributes:
        columns: index values per lookup.
        positional: whether the row also depends on the position of the lookup.
        narrowed: number of columns restricted to a window.
        wide: whether row numbers need 64 bits.
        binned: whether vector instructions sort the lookups into bins.
        numbered: whether vector instructions compute the row numbers of all lookups for a copy loop, which then loads
            them.
    """

    columns: int
    positional: bool
    narrowed: int
    wide: bool
    binned: bool = False
    numbered: bool = False

    def width(self) -> int:
        """Return the bytes of a row number."""
        return 8 if self.wide else 4

    def lists(self, board: Board) -> bool:
        """Return whether vector instructions filter lookups by window, and return a list of those inside it.

        Boards of arch 2xx would need aligned operands; there the scalar copy loop compares each lookup.
        """
        return self.narrowed > 0 and not board.needs_aligned_vectors

    def buffers(self, board: Board, index_itemsize: int) -> dict[str, int]:
        """Return, by name, the bytes per lookup of the buffers that vector instructions need besides the index."""
        if not self._uses_vectors(board):
            return {}
        width = self.width()
        sizes = {"converted": self.columns * width} if index_itemsize != width else {}
        if index_itemsize <= width:
            # A 64-bit index converted to 32 bits leaves the other half of its buffer free for these.
            sizes["spare"] = width
            if self.narrowed:
                sizes["mask"] = width
            if self.columns > 1:
                sizes["columns"] = self.columns * width
        if self.positional:
            sizes["positional rows"] = width
        if self.narrowed:
            sizes["positions"] = width
        return sizes

    def buffer_bytes(self, board: Board, index_itemsize: int) -> tuple[int, ...]:
        """Return the bytes per lookup of every NRAM buffer that `IndexTiles` allocates on a board."""
        if not self.columns:
            return ()
        return (self.columns * index_itemsize, *self.buffers(board, index_itemsize).values())

    def _uses_vectors(self, board: Board) -> bool:
        """Return whether vector instructions compute the row numbers."""
        return board.has_gather or self.lists(board) or self.binned or self.numbered

    def instructions(self, board: Board) -> int:
        """Return the number of vector instructions that compute the row numbers, or lists, of a tile."""
        if not self._uses_vectors(board):
            return 0
        return 4 * self.columns + 2 * self.narrowed + 2 * self.positional + 2 + 4 * self.lists(board)

    def vector_cycles(self, board: Board, lookups: int) -> int:
        """Return the cycles of these instructions for a tile of `lookups` lookups."""
        beats = ceil_div(lookups * self.width(), board.vector_bytes_per_cycle)
        return self.instructions(board) * (board.vector_startup_cycles + beats)

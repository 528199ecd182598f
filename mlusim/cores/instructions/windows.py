"""Windows over the rows and columns of (height, width, channel), as pools and convolutions have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mlusim.arrays import Array


class Windows(NamedTuple):
    """Equal windows at equal distances; all of them lie inside the array.

    Attributes:
        high, wide: rows and columns of a window.
        down, across: rows and columns from one window to the next.
        row_step, column_step: rows and columns from one element of a window to the next, its dilation.
    """

    high: int
    wide: int
    down: int
    across: int
    row_step: int = 1
    column_step: int = 1

    @property
    def positions(self) -> int:
        """Number of positions in a window."""
        return self.high * self.wide

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns that a window spans."""
        return (self.high - 1) * self.row_step + 1, (self.wide - 1) * self.column_step + 1

    def fitting(self, height: int, width: int) -> tuple[int, int]:
        """Return the number of windows along the rows and the columns of an array of this size; 0 or less if none."""
        high, wide = self.reach
        return (height - high) // self.down + 1, (width - wide) // self.across + 1

    def elements(self, array: Array, rows: int, columns: int) -> Iterator[Array]:
        """Yield, for each position in row-major order, the elements there of `rows` x `columns` windows, as a view."""
        for row in range(0, self.high * self.row_step, self.row_step):
            for column in range(0, self.wide * self.column_step, self.column_step):
                last_row, last_column = row + (rows - 1) * self.down + 1, column + (columns - 1) * self.across + 1
                yield array[row : last_row : self.down, column : last_column : self.across]

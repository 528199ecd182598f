"""A tensor as the batch entries of reverse_sequence.

An *entry* has S rows of Q elements, and its first L rows are reversed. There is one for each coordinate of the batch
axis and of the axes between it and the sequence axis; if the batch axis comes first, also of the axes before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlusim.memory.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryLayout:
    """A tensor as entries.

    Attributes:
        outer: elements of the axes before the sequence axis if the batch axis comes after it; else 1.
        entries: number of adjacent entries.
        rows: S, elements along the sequence axis.
        row_elements: Q, elements of the axes after both.
        batch: elements along the batch axis.
        repeat: adjacent entries with the same batch coordinate.
        sequence_first: whether each row contains all entries, [outer, S, entries, Q]; else [outer, entries, S, Q].
    """

    outer: int
    entries: int
    rows: int
    row_elements: int
    batch: int
    repeat: int
    sequence_first: bool

    @property
    def extents(self) -> tuple[int, ...]:
        """Extents of the axes (outer, entry, row, element)."""
        return self.outer, self.entries, self.rows, self.row_elements

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor in memory order."""
        return self.reorder(self.extents)

    @property
    def period(self) -> int:
        """Number of adjacent entries that cover every batch coordinate."""
        return self.repeat * self.batch

    def batch_of(self, entry: int) -> int:
        """Return the batch coordinate of an entry."""
        return entry // self.repeat % self.batch

    def reorder(self, corner: tuple[int, ...]) -> tuple[int, ...]:
        """Convert a corner of a box of `shape` to (outer, entry, row, element), and back."""
        outer, second, third, element = corner
        return (outer, third, second, element) if self.sequence_first else corner

    def by_entry(self, view: View) -> View:
        """Permute a view with the axes of `shape` to [outer, entries, S, Q]."""
        return view.transpose(0, 2, 1, 3) if self.sequence_first else view


def entry_layout(shape: Sequence[int], sequence_axis: int, batch_axis: int) -> EntryLayout:
    """Return a tensor as entries; axes are in [0, rank) and differ."""
    first, second = sorted((sequence_axis, batch_axis))
    outer_size, middle_size = math.prod(shape[:first]), math.prod(shape[first + 1 : second])
    inner_size = math.prod(shape[second + 1 :])
    batch, rows = shape[batch_axis], shape[sequence_axis]
    sequence_first = sequence_axis < batch_axis
    return EntryLayout(
        outer=outer_size if sequence_first else 1,
        entries=middle_size * batch if sequence_first else outer_size * batch * middle_size,
        rows=rows,
        row_elements=inner_size,
        batch=batch,
        repeat=1 if sequence_first else middle_size,
        sequence_first=sequence_first,
    )

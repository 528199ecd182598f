"""The geometry of gather and scatter: which lookup reaches which element of x.

A *lookup* is one tuple of the index; a *value* is one element of what a gather gives or a scatter takes. Both modes of
the operators come down to one picture:

    aligned    lookups lie where the values do, and where x does but for the indexed axes: one lookup, one value
    standard   the index chooses on the first axes of x, and a lookup stands for a row: all that follow

An axis of the values is *tied* where its coordinate is x's too, and *free* where x's comes from the index. A box of
values then reaches one box of x, its slab: the tied axes cut as the values are, the indexed ones whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from mlusim.memory.addresses import Addresses, IndexedAxis
from mlusim.memory.layout import contiguous_strides
from mlusim.memory.view import View

Extents = tuple[int, ...]
Box = tuple[Extents, Extents]


@dataclass(frozen=True, kw_only=True)
class Lookups:
    """The geometry of one gather or scatter.

    Attributes:
        x_shape: of x, and of what a scatter gives.
        axes: the axis of x that each column of the index chooses on; in standard mode 0, 1, 2, ...
        positions: shape of the index without its last axis, that of the columns.
        aligned: the mode.
        batch_dims: leading axes that x and the positions share, in standard mode.
    """

    x_shape: Extents
    axes: Extents
    positions: Extents
    aligned: bool
    batch_dims: int = 0

    @property
    def columns(self) -> int:
        """Index values of one lookup."""
        return len(self.axes)

    @cached_property
    def value_shape(self) -> Extents:
        """Shape of the values: positions, and in standard mode the rows."""
        return self.positions + self.row_shape

    @cached_property
    def tied_to(self) -> tuple[int | None, ...]:
        """For each axis of the values the axis of x that it is tied to; None: free."""
        if self.aligned:
            return tuple(None if axis in self.axes else axis for axis in range(len(self.positions)))
        shared = tuple(range(self.batch_dims))
        free = (None,) * (len(self.positions) - self.batch_dims)
        return shared + free + tuple(range(self.batch_dims + self.columns, len(self.x_shape)))

    @property
    def tied(self) -> Extents:
        """The tied axes of the values."""
        return tuple(axis for axis, to in enumerate(self.tied_to) if to is not None)

    @property
    def free(self) -> Extents:
        """The free axes of the values."""
        return tuple(axis for axis, to in enumerate(self.tied_to) if to is None)

    @property
    def tied_positions(self) -> Extents:
        """The tied axes of the values that are axes of the positions: within a slab their place counts."""
        return tuple(axis for axis in self.tied if axis < len(self.positions))

    @property
    def row_shape(self) -> Extents:
        """The values of one lookup: () where it is one."""
        return () if self.aligned else self.x_shape[self.batch_dims + self.columns :]

    @property
    def chosen(self) -> Extents:
        """Extents of the indexed axes, by column."""
        return tuple(self.x_shape[axis] for axis in self.axes)

    @property
    def slab_elements(self) -> int:
        """Elements of x that one coordinate of the tied axes leaves to the index: all of the indexed axes."""
        return math.prod(self.chosen)

    def slab_of(self, start: Extents, stop: Extents) -> Box:
        """The box of x that a box of values can reach."""
        low, high = [0] * len(self.x_shape), list(self.x_shape)
        for axis, to in enumerate(self.tied_to):
            if to is not None:
                low[to], high[to] = start[axis], stop[axis]
        return tuple(low), tuple(high)

    def values_of(self, start: Extents, stop: Extents) -> Box:
        """The box of values that can reach a box of x; where none can, it is empty."""
        low, high = [0] * len(self.value_shape), list(self.value_shape)
        for axis, to in enumerate(self.tied_to):
            if to is not None:
                low[axis], high[axis] = min(start[to], high[axis]), min(stop[to], high[axis])
        return tuple(low), tuple(high)

    def addresses(
        self,
        values: Box,
        target: Box,
        index: View | None = None,
        origin: View | None = None,
        *,
        window: Box | None = None,
    ) -> Addresses:
        """The rows of a contiguous box of x, in elements where rows are, that the lookups of a box of values address.

        Args:
            values: the box of values.
            target: the box of x whose rows are counted.
            index, origin: the tuples, in NRAM and where they came from.
            window: the part of x that the loop works on, by default all of the target; other lookups are left out.

        Not for an index without columns, which addresses nothing.
        """
        first, last = target
        low, high = window or target
        strides = contiguous_strides(tuple(b - a for a, b in zip(first, last, strict=True)), 1)
        row = 1 if self.aligned else strides[self.batch_dims + self.columns - 1]
        rank = len(self.positions)
        tied = [(axis, to) for axis, to in enumerate(self.tied_to[:rank]) if to is not None]
        steps = [0] * rank
        for axis, to in tied:
            steps[axis] = strides[to] // row
        base = sum((values[0][axis] - first[to]) * strides[to] // row for axis, to in tied)
        base += sum((low[axis] - first[axis]) * strides[axis] // row for axis in self.axes)
        return Addresses(
            tuple(b - a for a, b in zip(values[0][:rank], values[1][:rank], strict=True)),
            tuple(steps),
            base=base,
            index=index,
            axes=tuple(
                IndexedAxis(extent=self.x_shape[axis], step=strides[axis] // row, start=low[axis], stop=high[axis])
                for axis in self.axes
            ),
            origin=origin,
        )

    def rows_of(self, x: View, values: Box) -> View:
        """All rows of x, in standard mode the contiguous part of them that a box of values has; else its elements."""
        if self.aligned:
            return x.reshape(-1)
        start, stop = (side[len(self.positions) :] for side in values)
        low, count = 0, 1
        for extent, first, last in zip(self.row_shape, start, stop, strict=True):
            low = low * extent + first
            count *= last - first
        rows = math.prod(self.x_shape[: self.batch_dims + self.columns])
        return x.reshape(rows, -1)[:, low : low + count]


def segments(shape: Extents, box: Extents) -> tuple[int, int]:
    """(elements of each contiguous run, runs) of a box of a contiguous tensor."""
    run = 1
    for axis in reversed(range(len(shape))):
        run *= box[axis]
        if box[axis] != shape[axis]:
            return run, math.prod(box[:axis])
    return run, 1


def blocks(extents: Extents, limit: int) -> Extents:
    """Sizes of the largest blocks of at most `limit` elements that are contiguous: inner axes whole, outer ones cut.

    The axis that is cut is cut evenly.
    """
    sizes = []
    for extent in reversed(extents):
        parts = math.ceil(extent / min(max(limit, 1), extent)) if extent else 1
        size = math.ceil(extent / parts)
        sizes.append(size)
        limit //= max(size, 1)
    return tuple(reversed(sizes))


def sizes_of_at_most(extents: Extents, limit: int) -> Extents:
    """As `blocks`, but the axis that is cut is not cut evenly: its blocks are as large as `limit` allows."""
    sizes = []
    for extent in reversed(extents):
        size = max(min(limit, extent), 1)
        sizes.append(size)
        limit //= size
    return tuple(reversed(sizes))


def spread(extents: Extents, most: int, cores: int) -> list[Extents]:
    """Sizes of blocks to try: the largest that `blocks` gives, and those that give each core one to six blocks.

    Args:
        extents: what is cut; none is 0.
        most: elements of a block, at most.
        cores: blocks that are wanted at once.

    Cut one element too small, a block more than there are cores costs as much as all of them: so sizes are rounded up.
    """
    found = [blocks(extents, min(most, math.ceil(math.prod(extents) / cores)))]
    for rounds in ROUNDS:
        outer = 1
        for axis, extent in enumerate(extents):
            parts = rounds * cores // outer
            if 1 <= parts <= extent:
                sizes = (1,) * axis + (math.ceil(extent / parts), *extents[axis + 1 :])
                if math.prod(sizes) <= most:
                    found.append(sizes)
            outer *= extent
    return list(dict.fromkeys(found))


# Tiles for each core that are tried; `FEW` of `pivot` where there are more cores than tiles.
ROUNDS = (1, 2, 3, 4, 5, 6)

"""The geometry of gather and scatter: the mapping between lookups and elements of x.

A *lookup* is one tuple of the index; a *value* is one element of a gather's output or of a scatter's source. Both modes
of the operators reduce to one model:

  aligned    index, values and x have the same axes, apart from the extents of the indexed ones: one value per lookup
  standard   the index selects on the first axes of x, and a lookup stands for a row: all remaining axes

An axis of the values is *shared* if its coordinate is also a coordinate of x, and *gathered* if x's coordinate comes
from the index. A box of values therefore reaches one box of x, its slab: cut like the values along the shared axes,
whole along the indexed ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from operator import sub
from typing import Any

from mlusim.memory.addresses import Addresses, AddressPattern, IndexedAxis
from mlusim.memory.layout import contiguous_strides
from mlusim.memory.view import View
from mlusim.planning.box_sizes import Extents

Box = tuple[Extents, Extents]
# Address patterns that a `Lookups` caches: tiles have one or a few shapes.
_PATTERNS = 32


class _Pattern(AddressPattern):
    """An address pattern, and by shared axis of the lookups: that axis, the axis of x, and its step."""

    def __init__(
        self, shape: Extents, steps: Extents, axes: tuple[IndexedAxis, ...], shared_axes: list[tuple[int, int, int]]
    ) -> None:
        super().__init__(shape, steps, axes)
        self.shared_axes = shared_axes


@dataclass(frozen=True, kw_only=True)
class Lookups:
    """The geometry of one gather or scatter.

    Attributes:
        x_shape: shape of x, and of a scatter's output.
        axes: the axis of x indexed by each column of the index; 0, 1, 2, ... after the batch axes in standard mode.
        positions: shape of the index without its last axis, the columns.
        aligned: the mode.
        batch_dims: leading axes common to x and the positions, in standard mode.
    """

    x_shape: Extents
    axes: Extents
    positions: Extents
    aligned: bool
    batch_dims: int = 0

    @property
    def columns(self) -> int:
        """Index values per lookup."""
        return len(self.axes)

    @cached_property
    def value_shape(self) -> Extents:
        """Shape of the values: the positions and, in standard mode, the row."""
        return self.positions + self.row_shape

    @cached_property
    def x_axes(self) -> tuple[int | None, ...]:
        """By axis of the values, the axis of x that it shares; None for a gathered axis."""
        if self.aligned:
            return tuple(None if axis in self.axes else axis for axis in range(len(self.positions)))
        shared_axes = tuple(range(self.batch_dims))
        gathered = (None,) * (len(self.positions) - self.batch_dims)
        return shared_axes + gathered + tuple(range(self.batch_dims + self.columns, len(self.x_shape)))

    @property
    def shared_axes(self) -> Extents:
        """The shared axes of the values."""
        return tuple(axis for axis, to in enumerate(self.x_axes) if to is not None)

    @property
    def gathered_axes(self) -> Extents:
        """The gathered axes of the values."""
        return tuple(axis for axis, to in enumerate(self.x_axes) if to is None)

    @property
    def shared_positions(self) -> Extents:
        """The shared axes of the values that are axes of the positions: there, an address depends on the position."""
        return tuple(axis for axis in self.shared_axes if axis < len(self.positions))

    @property
    def row_shape(self) -> Extents:
        """Shape of the values of one lookup; () for a single value."""
        return () if self.aligned else self.x_shape[self.batch_dims + self.columns :]

    @property
    def indexed_extents(self) -> Extents:
        """Extents of the indexed axes, by column."""
        return tuple(self.x_shape[axis] for axis in self.axes)

    @property
    def slab_elements(self) -> int:
        """Elements of x that the index can select from at one coordinate of the shared axes."""
        return math.prod(self.indexed_extents)

    def slab_of(self, start: Extents, stop: Extents) -> Box:
        """Return the box of x that a box of values can reach."""
        low, high = [0] * len(self.x_shape), list(self.x_shape)
        for axis, to in enumerate(self.x_axes):
            if to is not None:
                low[to], high[to] = start[axis], stop[axis]
        return tuple(low), tuple(high)

    def values_of(self, start: Extents, stop: Extents) -> Box:
        """Return the box of values that can reach a box of x; empty if none can."""
        low, high = [0] * len(self.value_shape), list(self.value_shape)
        for axis, to in enumerate(self.x_axes):
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
        """Return the row numbers, within a contiguous box of x, that the lookups of a box of values address.

        Args:
            values: the box of values.
            target: the box of x in which rows are numbered; in aligned mode a row is an element.
            index, origin: the index tuples in NRAM, and their source.
            window: the part of x to access, by default all of the target; lookups outside it are left out.

        Requires an index with at least one column.
        """
        first, last = target
        low, high = window or target
        rank = len(self.positions)
        key = (
            tuple(map(sub, values[1][:rank], values[0][:rank])),
            tuple(map(sub, last, first)),
            tuple([(low[axis], high[axis]) for axis in self.axes]),
        )
        pattern = self._pattern(*key)
        base = sum([(values[0][axis] - first[to]) * step for axis, to, step in pattern.shared_axes])
        base += sum([(low[axis] - first[axis]) * part.step for axis, part in zip(self.axes, pattern.axes, strict=True)])
        return Addresses(
            pattern.shape, pattern.steps, base=base, index=index, axes=pattern.axes, origin=origin, pattern=pattern
        )

    def steps(self) -> Extents:
        """Return, by axis of the positions, the rows of x from one lookup to the next; 0 along gathered axes."""
        return self._pattern((1,) * len(self.positions), self.x_shape, self._whole_axes).steps

    def reach(self, sizes: Extents) -> int:
        """Return the rows from the first to the last that a box of lookups of these sizes can address in x."""
        return self._pattern(sizes, self.x_shape, self._whole_axes).reach

    @property
    def _whole_axes(self) -> tuple[tuple[int, int], ...]:
        """By column, the window that contains the whole axis."""
        return tuple((0, extent) for extent in self.indexed_extents)

    @cached_property
    def _patterns(self) -> dict[Any, _Pattern]:
        return {}

    def _pattern(self, shape: Extents, target: Extents, windows: tuple[tuple[int, int], ...]) -> _Pattern:
        """Return the addresses of lookups of a shape in a box of x, without their base."""
        key = shape, target, windows
        pattern = self._patterns.get(key)
        if pattern is None:
            if len(self._patterns) >= _PATTERNS:
                self._patterns.clear()
            pattern = self._patterns[key] = self._new_pattern(shape, target, windows)
        return pattern

    def _new_pattern(self, shape: Extents, target: Extents, windows: tuple[tuple[int, int], ...]) -> _Pattern:
        strides = contiguous_strides(target, 1)
        row = 1 if self.aligned else strides[self.batch_dims + self.columns - 1]
        steps = [0] * len(shape)
        shared_axes = []
        for axis, to in enumerate(self.x_axes[: len(shape)]):
            if to is not None:
                steps[axis] = strides[to] // row
                shared_axes.append((axis, to, steps[axis]))
        axes = tuple(
            IndexedAxis(extent=self.x_shape[axis], step=strides[axis] // row, start=start, stop=stop)
            for axis, (start, stop) in zip(self.axes, windows, strict=True)
        )
        return _Pattern(shape, tuple(steps), axes, shared_axes)

    def rows_of(self, x: View, values: Box) -> View:
        """Return all rows of x, restricted in standard mode to the contiguous part that a box of values covers."""
        if self.aligned:
            return x.reshape(-1)
        start, stop = (side[len(self.positions) :] for side in values)
        low, count = 0, 1
        for extent, first, last in zip(self.row_shape, start, stop, strict=True):
            low = low * extent + first
            count *= last - first
        rows = math.prod(self.x_shape[: self.batch_dims + self.columns])
        return x.reshape(rows, -1)[:, low : low + count]

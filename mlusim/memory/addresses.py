"""Row numbers that a scalar loop computes from index tuples in NRAM.

The instructions of the loop include this arithmetic (`mlusim.memory.loop_costs`: its cost); this module computes all
row numbers at once. Not modelled: overflow of the 64-bit registers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np

from mlusim.arrays import Array, Integers
from mlusim.dtypes import is_integer
from mlusim.errors import AccessError, MissingDataError, OperandError
from mlusim.memory import element_loops
from mlusim.memory.loop_costs import AddressInstructions, address_instructions
from mlusim.memory.view import View

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedAxis:
    """An axis indexed by the values of one index column.

    Attributes:
        extent: values -extent .. extent - 1 are allowed; negative values count from the end.
        step: rows per unit of the index value.
        start, stop: the window of values that the loop processes; it skips all others. Rows count from `start`.
    """

    extent: int
    step: int
    start: int
    stop: int

    @property
    def narrowed(self) -> bool:
        """Whether the window excludes some values, so that the loop has to compare each value with it."""
        return (self.start, self.stop) != (0, self.extent)


class AddressPattern:
    """All that determines the row numbers of a loop but index and base: the same for most tiles of a kernel.

    Arguments as for `Addresses`.

    Attributes:
        count: number of lookups.
        positional: whether a row also depends on the position of its lookup.
        narrowed: number of columns whose window excludes some values.
        reach: the largest row that a lookup could reach from the base, whatever the values of the index.
        bound: a bound for the index values, and for the rows from the base, inside and outside the windows.
    """

    def __init__(self, shape: tuple[int, ...], steps: tuple[int, ...], axes: tuple[IndexedAxis, ...]) -> None:
        if len(steps) != len(shape) or min((0, *steps, *(axis.step for axis in axes))) < 0:
            raise OperandError(f"addresses of shape {list(shape)}, steps {list(steps)}: one for each axis, 0 or more")
        self.shape = shape
        self.steps = steps
        self.axes = axes
        self.count = math.prod(shape)
        self.positional = any(step and extent > 1 for step, extent in zip(steps, shape, strict=True))
        self.narrowed = sum(axis.narrowed for axis in axes)
        by_position = sum((extent - 1) * step for extent, step in zip(shape, steps, strict=True))
        self.reach = by_position + sum((axis.stop - axis.start - 1) * axis.step for axis in axes)
        self.bound = by_position + sum(axis.extent * max(axis.step, 1) for axis in axes)

    @cached_property
    def table(self) -> Integers:
        """The axes as `element_loops.rows_of_lookups` takes them."""
        return np.array([(axis.extent, axis.start, axis.stop, axis.step) for axis in self.axes], np.int64)

    @cached_property
    def positions(self) -> Integers:
        """The part of every row that depends on the position of its lookup, read-only."""
        rows = np.zeros(self.shape, np.int64)
        for axis, (extent, step) in enumerate(zip(self.shape, self.steps, strict=True)):
            if step and extent > 1:
                offsets = np.arange(extent, dtype=np.int64) * step
                rows += offsets.reshape(-1, *(1 for _ in self.shape[axis + 1 :]))
        rows = rows.reshape(-1)
        rows.setflags(write=False)
        return rows


class Addresses:
    """One row number per lookup; the last axis of `shape` varies fastest.

    row(p) = base + sum of p[d] * steps[d] + sum over k of (index[p, k] - axes[k].start) * axes[k].step

    Args:
        shape: lookups along each axis.
        steps: rows from one lookup to the next along each axis, not negative.
        base: row of the first lookup when all index values are at the start of their windows.
        index: the tuples: contiguous integers, `shape` flattened times len(axes); None if axes is empty.
        axes: one per column of the index.
        origin: the view that the kernel copied the index from, of as many elements. A timing-only run, whose
            on-chip memories have no bytes, reads the index there if it was uploaded with its bytes.
        pattern: that of `shape`, `steps` and `axes`, if it is known.

    Raises `OperandError` if the arguments do not fit together.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        steps: tuple[int, ...],
        *,
        base: int = 0,
        index: View | None = None,
        axes: tuple[IndexedAxis, ...] = (),
        origin: View | None = None,
        pattern: AddressPattern | None = None,
    ) -> None:
        if pattern is None:
            pattern = AddressPattern(shape, steps, axes)
        if base < 0:
            raise OperandError(f"addresses from row {base}: the base is 0 or more")
        self.pattern = pattern
        self.shape = pattern.shape
        self.steps = pattern.steps
        self.base = base
        self.axes = pattern.axes
        self.count = pattern.count
        self.index = index
        self.origin = origin
        for view in (index, origin):
            if view is not None and (view.size != self.count * len(self.axes) or not is_integer(view.dtype)):
                raise OperandError(
                    f"index {view!r} for {self.count} lookups of {len(self.axes)} columns: it must have one integer "
                    "for each"
                )
        if (index is None) != (not self.axes):
            raise OperandError(f"addresses with {len(self.axes)} indexed axes need an index, and only then")

    @property
    def positional(self) -> bool:
        """Whether the row also depends on the position of the lookup."""
        return self.pattern.positional

    @property
    def instructions(self) -> AddressInstructions:
        """The scalar instructions that compute one row number."""
        pattern = self.pattern
        moves = pattern.positional or self.base > 0
        return address_instructions(len(pattern.axes), pattern.narrowed, positional=moves)

    def check(self, name: str, rows: int, view: View) -> None:
        """Raise `AccessError` if a lookup could reach beyond `rows` rows, whatever the values of the index."""
        last = self.base + self.pattern.reach
        if last >= rows:
            raise AccessError(f"{name}: addresses reach row {last} of {view!r}, which has {rows}")

    def resolve(self, name: str, elements: Array | None = None) -> tuple[Integers, Integers | None]:
        """Return the rows of the lookups inside the windows, and the indices of these lookups (None: all).

        Args:
            name: name of the operation, for messages.
            elements: those of the index; by default as they are in memory.

        The rows are int32 if the index is and no row needs more, else int64; the indices are int64.

        Raises `AccessError` for an index value outside its axis, `MissingDataError` if the index has no bytes.
        """
        pattern = self.pattern
        if not self.axes:
            return pattern.positions + self.base, None
        index = self._values(name) if elements is None else np.ascontiguousarray(elements).reshape(-1)
        narrow = index.dtype == _INT32 and self.base + pattern.bound < 1 << 31
        rows = np.empty(self.count, _INT32 if narrow else _INT64)
        selected = np.empty(self.count, _INT64) if pattern.narrowed else None
        positions = pattern.positions if pattern.positional else None
        row_count = element_loops.rows_of_lookups(
            _as_signed(index), pattern.table, positions, self.base, rows, selected
        )
        if row_count < 0:
            self._raise_outside(name, index)
        if selected is None:
            return rows, None
        return rows[:row_count].copy(), selected[:row_count].copy()

    def _values(self, name: str) -> Array:
        """Return the index values, flattened."""
        for view in (self.index, self.origin):
            if view is not None and view.allocation.buffer is not None:
                return np.ascontiguousarray(view.typed()).reshape(-1)
        raise MissingDataError(
            f"{name} by {self.index!r}, which has a size but no bytes in a timing-only run: upload the index with its "
            "bytes (keep_data=True) and name it as origin, or run with data"
        )

    def relative_to(self, row: int) -> Addresses:
        """Return the same addresses, with rows that count from `row`, which is not beyond the base."""
        return Addresses((), (), base=self.base - row, index=self.index, origin=self.origin, pattern=self.pattern)

    def _raise_outside(self, name: str, index: Array) -> NoReturn:
        """Raise `AccessError` for the first value outside its axis."""
        for column, axis in enumerate(self.axes):
            values = index[column :: len(self.axes)]
            is_outside = (values < -axis.extent) | (values >= axis.extent)
            if is_outside.any():
                lookup = int(is_outside.argmax())
                raise AccessError(
                    f"{name}: index {values[lookup]} of lookup {lookup}, column {column}, is outside an axis of "
                    f"{axis.extent}"
                )
        raise AssertionError("every value is inside its axis")


def _as_signed(values: Array) -> Integers:
    """Return integers as int32 or int64; numbers that exceed int64 become its largest, which exceeds every axis too."""
    if values.dtype in (_INT32, _INT64):
        return values
    return (np.minimum(values, np.iinfo(np.int64).max) if values.dtype == np.uint64 else values).astype(_INT64)

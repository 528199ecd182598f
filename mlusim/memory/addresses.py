"""Row numbers that a scalar loop computes from index tuples in NRAM.

The instructions of the loop include this arithmetic (see `mlusim.memory.loops` for its cost); this module computes all
row numbers at once. Not modelled: overflow of the 64-bit registers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlusim.dtypes import is_integer
from mlusim.errors import AccessError, MissingDataError, OperandError
from mlusim.memory.view import View

Indices = np.ndarray[Any, np.dtype[np.int64]]


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


class Addresses:
    """One row number per lookup; the last axis of `shape` varies fastest.

    row(p) = base + sum of p[d] * steps[d] + sum over k of (index[p, k] - axes[k].start) * axes[k].step

    Args:
        shape: lookups along each axis.
        steps: rows from one lookup to the next along each axis, not negative.
        base: row of the first lookup when all index values are at the start of their windows.
        index: the tuples: contiguous integers, `shape` flattened times len(axes); None if axes is empty.
        axes: one per column of the index.
        origin: where the kernel copied the index from, with the same number of elements. A timing-only run, whose
            on-chip memories have no bytes, reads the index there if it was uploaded with its bytes.

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
    ) -> None:
        self.shape = shape
        self.steps = steps
        self.base = base
        self.index = index
        self.axes = axes
        self.origin = origin
        self.count = math.prod(shape)
        for view in (index, origin):
            if view is not None and (view.size != self.count * len(axes) or not is_integer(view.dtype)):
                raise OperandError(
                    f"index {view!r} for {self.count} lookups of {len(axes)} columns: it is integers, one for each"
                )
        if len(steps) != len(shape) or min((base, *steps, *(axis.step for axis in axes))) < 0:
            raise OperandError(f"addresses of shape {list(shape)}, steps {list(steps)}: one for each axis, 0 or more")
        if (index is None) != (not axes):
            raise OperandError(f"addresses with {len(axes)} indexed axes need an index, and only then")

    @property
    def positional(self) -> bool:
        """Whether the row also depends on the position of the lookup."""
        return any(step and extent > 1 for step, extent in zip(self.steps, self.shape, strict=True))

    @property
    def narrowed(self) -> int:
        """Number of columns whose window excludes some values."""
        return sum(axis.narrowed for axis in self.axes)

    def check(self, name: str, rows: int, view: View) -> None:
        """Raise `AccessError` if a lookup could reach beyond `rows` rows, whatever the values of the index."""
        last = self.base + sum((extent - 1) * step for extent, step in zip(self.shape, self.steps, strict=True))
        last += sum((axis.stop - axis.start - 1) * axis.step for axis in self.axes)
        if last >= rows:
            raise AccessError(f"{name}: addresses reach row {last} of {view!r}, which has {rows}")

    def resolve(self, name: str) -> tuple[Indices, Indices | None]:
        """Return the rows of the lookups inside the windows, and the indices of these lookups (None: all).

        Raises `AccessError` for an index value outside its axis, `MissingDataError` if the index has no bytes.
        """
        rows = self._positional_rows()
        inside: np.ndarray[Any, np.dtype[np.bool_]] | None = None
        for column, axis in enumerate(self.axes):
            values = _wrapped(self._columns(name)[:, column], axis.extent, name, column)
            if axis.narrowed:
                within = (values >= axis.start) & (values < axis.stop)
                inside = within if inside is None else inside & within
            if axis.start:
                values -= axis.start
            if axis.step != 1:
                values *= axis.step
            if column or self.base or self.positional:
                values += rows
            rows = values
        if inside is None:
            return rows, None
        selected = np.flatnonzero(inside)
        return rows[selected], selected

    def _positional_rows(self) -> Indices:
        """Return base plus position of every lookup, or a single number if it is the same for all."""
        if self.axes and not self.positional:
            return np.full(1, self.base, np.int64)
        rows = np.full(self.shape, self.base, np.int64)
        for axis, (extent, step) in enumerate(zip(self.shape, self.steps, strict=True)):
            if step and extent > 1:
                offsets = np.arange(extent, dtype=np.int64) * step
                rows += offsets.reshape(-1, *(1 for _ in self.shape[axis + 1 :]))
        return rows.reshape(-1)

    def _columns(self, name: str) -> np.ndarray[Any, Any]:
        for view in (self.index, self.origin):
            if view is not None and view.allocation.buffer is not None:
                return view.typed().reshape(self.count, len(self.axes))
        raise MissingDataError(
            f"{name} by {self.index!r}, which has a size but no bytes in a timing-only run: upload the index with its "
            "bytes (keep_data=True) and name it as origin, or run with data"
        )


def _wrapped(values: np.ndarray[Any, Any], extent: int, name: str, column: int) -> Indices:
    """Return a new int64 array of index values, negative values counted from the end."""
    low, high = int(values.min()), int(values.max())
    if low < -extent or high >= extent:
        bad = np.argmax((values < -extent) | (values >= extent))
        raise AccessError(
            f"{name}: index {int(values[bad])} of lookup {int(bad)}, column {column}, is outside an axis of {extent}"
        )
    wrapped = values.astype(np.int64)
    if low < 0:
        # The sign bit, spread over the word, selects the extent without a branch.
        wrapped += (wrapped >> 63) & extent
    return wrapped

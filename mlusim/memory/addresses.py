"""Row numbers that a scalar loop computes from index tuples in NRAM.

The arithmetic is part of the loop's instructions (`mlusim.memory.loops` has its cost); here are its numbers, all at
once. Not modelled: an overflow of the registers, which hold 64 bits.
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
    """An axis on which an index chooses.

    Attributes:
        extent: values -extent .. extent - 1 are allowed; a negative one counts from the end.
        step: rows from one value to the next.
        start, stop: the window of values that the loop works on; it leaves out the others. Rows count from `start`.
    """

    extent: int
    step: int
    start: int
    stop: int

    @property
    def narrowed(self) -> bool:
        """Whether the window leaves values out, so that the loop compares each with it."""
        return (self.start, self.stop) != (0, self.extent)


class Addresses:
    """One row number for each lookup, the last axis of `shape` turning fastest.

    row(p) = base + sum of p[d] * steps[d] + sum over k of (index[p, k] - axes[k].start) * axes[k].step

    Args:
        shape: lookups along each axis.
        steps: rows from one lookup to the next along each axis, not negative.
        base: row of the first lookup, all index values at the start of their windows.
        index: the tuples: contiguous integers, `shape` flattened times len(axes); None where axes is empty.
        axes: one for each column of the index.
        origin: where the kernel copied the index from, of the same number of elements: a timing-only run, whose
            on-chip memories hold no bytes, reads it there if it was uploaded with its bytes.

    Raises `OperandError` where these do not fit together.
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
        """Whether the row depends on the place of the lookup, too."""
        return any(step and extent > 1 for step, extent in zip(self.steps, self.shape, strict=True))

    @property
    def narrowed(self) -> int:
        """Columns whose window leaves values out."""
        return sum(axis.narrowed for axis in self.axes)

    def check(self, name: str, rows: int, view: View) -> None:
        """Raise `AccessError` where a lookup could reach beyond `rows` rows, whatever the index holds."""
        last = self.base + sum((extent - 1) * step for extent, step in zip(self.shape, self.steps, strict=True))
        last += sum((axis.stop - axis.start - 1) * axis.step for axis in self.axes)
        if last >= rows:
            raise AccessError(f"{name}: addresses reach row {last} of {view!r}, which has {rows}")

    def resolve(self, name: str) -> tuple[Indices, Indices | None]:
        """The rows of the lookups that the windows keep, and which lookups these are (None: all).

        Raises `AccessError` for an index value outside its axis, `MissingDataError` where there are no bytes.
        """
        rows = self._places()
        inside: np.ndarray[Any, np.dtype[np.bool_]] | None = None
        for column, axis in enumerate(self.axes):
            chosen = _wrapped(self._columns(name)[:, column], axis.extent, name, column)
            if axis.narrowed:
                within = (chosen >= axis.start) & (chosen < axis.stop)
                inside = within if inside is None else inside & within
            if axis.start:
                chosen -= axis.start
            if axis.step != 1:
                chosen *= axis.step
            if column or self.base or self.positional:
                chosen += rows
            rows = chosen
        if inside is None:
            return rows, None
        kept = np.flatnonzero(inside)
        return rows[kept], kept

    def _places(self) -> Indices:
        """The sum of base and place for all lookups, or one number where it is the same for all."""
        if self.axes and not self.positional:
            return np.full(1, self.base, np.int64)
        rows = np.full(self.shape, self.base, np.int64)
        for axis, (extent, step) in enumerate(zip(self.shape, self.steps, strict=True)):
            if step and extent > 1:
                place = np.arange(extent, dtype=np.int64) * step
                rows += place.reshape(-1, *(1 for _ in self.shape[axis + 1 :]))
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
    """A fresh int64 array of index values, negative ones counted from the end."""
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

"""The effect on memory of a loop of row copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mlusim.arrays import Array, Integers
from mlusim.memory import element_loops
from mlusim.memory.element_loops import as_numpy_index

if TYPE_CHECKING:
    from mlusim.memory.view import View


class RowCopy:
    """dst[dst_rows[i]] = src[src_rows[i]], in order; for a repeated destination the last row remains.

    Attributes:
        dst, src: views whose first axis is the rows.
        dst_rows, src_rows: row numbers, checked; None for 0, 1, 2, ...
        count: number of rows.
        lengths: for runs of contiguous rows, which are written one after the other, the length of each; `src_rows`
            has the first row of each run. Both are contiguous int64.
        source: the elements of `src`, as unsigned integers, where a deferred load keeps them; None if they are in
            memory.
    """

    __slots__ = ("count", "dst", "dst_rows", "lengths", "source", "src", "src_rows")

    def __init__(
        self,
        dst: View,
        src: View,
        dst_rows: Integers | None,
        src_rows: Integers | None,
        count: int,
        lengths: Integers | None = None,
    ) -> None:
        self.dst = dst
        self.src = src
        self.dst_rows = dst_rows
        self.src_rows = src_rows
        self.count = count
        self.lengths = lengths
        self.source: Array | None = None

    def __call__(self) -> None:
        """Copy the rows."""
        to = self.dst.raw()
        if self.dst_rows is not None:
            origin, numbers = self._origin(), self.dst_rows
            if all(array is None or array.flags.c_contiguous for array in (to, numbers, origin, self.src_rows)):
                element_loops.scatter_rows(to, numbers, origin, self.src_rows)
            else:
                # NumPy assigns through one index array in order, so the last of repeated rows remains; tests check it.
                to[as_numpy_index(numbers)] = self.rows()
            return
        origin, target = self._origin(), to[: self.count]
        if self.src_rows is None:
            target[...] = origin[: self.count]
            return
        rows = as_numpy_index(self.src_rows)
        if self.lengths is not None:
            element_loops.copy_runs(target, origin, rows, self.lengths)
        elif target.flags.c_contiguous and origin.flags.c_contiguous:
            # The rows are checked; "clip" avoids a buffer in NumPy.
            np.take(origin, rows, axis=0, out=target, mode="clip")
        else:
            target[...] = origin[rows]

    def rows(self) -> Array:
        """Return the rows of the source, for as many rows of the destination."""
        origin = self._origin()
        return origin[: self.count] if self.src_rows is None else origin[as_numpy_index(self.src_rows)]

    def _origin(self) -> Array:
        return self.src.raw() if self.source is None else self.source

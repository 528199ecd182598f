"""Geometries that are not strided: rows by number, and lists of runs.

An instruction with row numbers may have a million of them, and most are only counted, so segments are computed on first
comparison.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mlusim.arrays import Integers
from mlusim.log_tables import Box
from mlusim.verifier.accesses.geometry import Geometry, distinct, geometry_of, union

# Up to this many numbers, Python finds their extremes, and counts them, sooner than NumPy.
_FEW_ROWS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Rows(Geometry):
    """Rows by number, `stride` bytes apart, in the order of the operation; numbers may repeat.

    Attributes:
        numbers: row numbers, at least one, in the integer type of the log: a million need not be copied.
        stride: bytes from one row to the next; may be negative, or smaller than a row.
        row_bytes: bytes per row.
        end: end of the highest byte.
    """

    numbers: Integers = field(kw_only=True)
    stride: int = field(kw_only=True)
    row_bytes: int = field(kw_only=True)
    end: int = field(kw_only=True)

    @property
    def strided(self) -> bool:
        """False: loops cannot describe it."""
        return False

    @property
    def disjoint(self) -> bool:
        """Whether rows share bytes only if their numbers are equal."""
        return abs(self.stride) >= self.row_bytes

    @property
    def stop(self) -> int:
        """End of the highest byte."""
        return self.end

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.numbers)

    @property
    def single(self) -> bool:
        """Whether it is a single run of bytes."""
        if self.end - self.start <= self.row_bytes:
            return True
        if self.end - self.start > self.count * self.row_bytes:
            return False
        if self.disjoint:
            # Several rows, which touch only if no number between them is left out.
            numbers = (self.end - self.start) // self.row_bytes
            return abs(self.stride) == self.row_bytes and numbers == _count_distinct(self.numbers)
        return len(self.segments()[0]) == 1

    @property
    def grain(self) -> int:
        """Greatest common divisor of all row boundaries, in bytes."""
        return math.gcd(self.stride, self.row_bytes)

    @property
    def nbytes(self) -> int:
        """Distinct bytes covered by the rows."""
        starts, stops = self.segments()
        return int((stops - starts).sum())

    @property
    def moved_bytes(self) -> int:
        """Bytes that an operation moves: repeated rows count repeatedly."""
        return self.touched_bytes

    def _listed_segments(self) -> tuple[Integers, Integers]:
        starts = distinct(self.numbers).astype(np.int64) * self.stride
        return union(starts, starts + self.row_bytes)


@dataclass(frozen=True, slots=True, eq=False)
class Runs(Geometry):
    """A list of runs of bytes, ascending and disjoint.

    Attributes:
        starts, lengths: the runs; at least one.
    """

    starts: Integers = field(kw_only=True)
    lengths: Integers = field(kw_only=True)

    @property
    def strided(self) -> bool:
        """False: loops cannot describe it."""
        return False

    @property
    def stop(self) -> int:
        """End of the highest byte."""
        return int(self.starts[-1] + self.lengths[-1])

    @property
    def count(self) -> int:
        """Number of runs."""
        return len(self.starts)

    @property
    def grain(self) -> int:
        """1: the runs need not be aligned."""
        return 1

    @property
    def nbytes(self) -> int:
        """Bytes of the runs."""
        return int(self.lengths.sum())

    def _listed_segments(self) -> tuple[Integers, Integers]:
        return self.starts, self.starts + self.lengths


def geometry_of_rows(numbers: Integers, stride: int, row_bytes: int) -> Geometry | None:
    """Return the bytes of rows by number, `stride` bytes apart; None if there are no rows."""
    if not len(numbers):
        return None
    least, greatest = _extremes(numbers)
    extremes = least * stride, greatest * stride
    return Rows(
        min(extremes),
        0,
        (),
        len(numbers) * row_bytes,
        lambda: (numbers.astype(np.int64) * stride, row_bytes),
        numbers=numbers,
        stride=stride,
        row_bytes=row_bytes,
        end=max(extremes) + row_bytes,
    )


def _extremes(numbers: Integers) -> tuple[int, int]:
    if len(numbers) <= _FEW_ROWS:
        values = numbers.tolist()
        return min(values), max(values)
    return int(numbers.min()), int(numbers.max())


def _count_distinct(numbers: Integers) -> int:
    return len(set(numbers.tolist())) if len(numbers) <= _FEW_ROWS else len(distinct(numbers))


def first_rows(count: int, stride: int, row_bytes: int) -> Geometry | None:
    """Return the bytes of rows 0 to `count`, `stride` bytes apart; None if there are no rows."""
    if count <= 0:
        return None
    return geometry_of(Box((count, row_bytes), (stride, 1), 1))


def runs_geometry(starts: Integers, lengths: Integers) -> Geometry:
    """Return the bytes of ascending, disjoint runs."""
    return Runs(int(starts[0]), 0, (), starts=starts, lengths=lengths)


def rows_of_runs(starts: Integers, lengths: Integers) -> Integers:
    """Return every row number of runs of rows."""
    first = np.cumsum(lengths) - lengths
    rows: Integers = np.arange(int(lengths.sum()), dtype=np.int64) + np.repeat(starts - first, lengths)
    return rows

"""The bytes of an operand, and exact overlap tests between operands.

A *geometry* is relative to an operand's first byte. A strided geometry is a run of bytes under nested loops; geometries
given by row numbers are in `row_geometry.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from mlusim.arrays import Array, Flags, Integers
from mlusim.log import NONE
from mlusim.log_tables import Box
from mlusim.memory.bus import Loops

# `distinct` and `group_rows` use a table instead of sorting if the range of numbers is at most this multiple of their
# count.
_MAX_SPREAD = 16


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """The bytes of an operand, relative to its offset in the allocation: a segment repeated by nested loops.

    Attributes:
        start: the lowest byte; negative if a stride is.
        run: contiguous bytes per segment.
        loops: (count, stride in bytes) over segments, all positive, the smallest stride first.
        touched_bytes: bytes of all elements; exceeds the bytes of the segments if elements overlap.
        elements: returns the first byte of each element, in order, and the element size; used by `repeats`.
    """

    start: int
    run: int
    loops: Loops
    touched_bytes: int = 0
    elements: Callable[[], tuple[Integers, int]] | None = None
    _segments: list[tuple[Integers, Integers]] = field(default_factory=list)

    @property
    def strided(self) -> bool:
        """Whether `run` and `loops` describe all the bytes."""
        return True

    @property
    def stop(self) -> int:
        """End of the highest byte."""
        return self.start + self.run + sum((count - 1) * stride for count, stride in self.loops)

    @property
    def count(self) -> int:
        """Number of segments before merging: some may touch or coincide."""
        return math.prod(count for count, _ in self.loops)

    @property
    def single(self) -> bool:
        """Whether it is a single run of bytes."""
        return self.count == 1

    @property
    def grain(self) -> int:
        """Greatest common divisor of all segment boundaries, in bytes."""
        return math.gcd(self.start, self.run, *(stride for _, stride in self.loops))

    @property
    def nbytes(self) -> int:
        """Distinct bytes covered by the segments."""
        if nested(self.run, self.loops):
            return self.run * self.count
        starts, stops = self.segments()
        return int((stops - starts).sum())

    @property
    def moved_bytes(self) -> int:
        """Bytes that an operation moves: each segment once."""
        return self.nbytes

    def repeats(self) -> tuple[Integers, Integers, Integers]:
        """Return runs of bytes that one operation touches more than once: starts, stops, and touches beyond the first.

        Relative to the operand's offset, like all fields.
        """
        empty = np.empty(0, np.int64)
        if self.elements is None or self.touched_bytes <= self.nbytes:
            return empty, empty, empty
        starts, size = self.elements()
        points, index = np.unique(np.concatenate([starts, starts + size]), return_inverse=True)
        start_index, stop_index = index[: len(starts)], index[len(starts) :]
        count = len(points)
        times = np.cumsum(np.bincount(start_index, minlength=count) - np.bincount(stop_index, minlength=count))[:-1]
        repeated = np.flatnonzero(times > 1)
        return points[repeated], points[repeated + 1], times[repeated] - 1

    def segments(self) -> tuple[Integers, Integers]:
        """Return starts and stops of the segments, ascending and disjoint."""
        if not self._segments:
            self._segments.append(self._listed_segments())
        return self._segments[0]

    def _listed_segments(self) -> tuple[Integers, Integers]:
        starts = np.array([self.start], np.int64)
        for count, stride in self.loops:
            starts = (np.arange(count, dtype=np.int64)[:, None] * stride + starts).reshape(-1)
        if nested(self.run, self.loops):
            return starts, starts + self.run
        return union(starts, starts + self.run)


class Geometries(list[Geometry]):
    """The geometries that the accesses of a log refer to by index. Add all before reading the cached properties."""

    def add(self, geometry: Geometry | None) -> int:
        """Append a geometry and return its index; NONE if it is empty (None)."""
        if geometry is None:
            return NONE
        self.append(geometry)
        return len(self) - 1

    @cached_property
    def single(self) -> Flags:
        """By geometry, whether it is a single run of bytes."""
        return np.array([geometry.single for geometry in self], bool)

    @cached_property
    def edges(self) -> tuple[Integers, Integers]:
        """By geometry, its first byte and the end of its last, relative to the operand's offset."""
        starts, stops = ([getattr(geometry, edge) for geometry in self] for edge in ("start", "stop"))
        return np.array(starts, np.int64), np.array(stops, np.int64)

    @cached_property
    def moved_bytes(self) -> Integers:
        """By geometry, the bytes that an operation moves (`Geometry.moved_bytes`)."""
        return np.array([geometry.moved_bytes for geometry in self], np.int64)

    @cached_property
    def counts(self) -> Integers:
        """By geometry, its number of segments (`Geometry.count`)."""
        return np.array([geometry.count for geometry in self], np.int64)


def nested(run: int, loops: Loops) -> bool:
    """Return whether each loop strides past everything inside it, so that segments are ascending and disjoint."""
    reach = run
    for count, stride in loops:
        if stride < reach:
            return False
        reach += (count - 1) * stride
    return True


def union(starts: Integers, stops: Integers) -> tuple[Integers, Integers]:
    """Merge runs of bytes into ascending runs that do not touch."""
    if not len(starts):
        return starts, stops
    if not bool((starts[1:] >= starts[:-1]).all()):
        order = np.argsort(starts, kind="stable")
        starts, stops = starts[order], stops[order]
    reach = np.maximum.accumulate(stops)
    first = np.concatenate(([True], starts[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return starts[first], reach[last]


def geometry_of(box: Box) -> Geometry | None:
    """Return the bytes of a box of the log; None for an empty box."""
    if 0 in box.shape:
        return None
    start = 0
    loops = []
    for count, stride in zip(box.shape, box.strides, strict=True):
        if count > 1 and stride:
            start += min(0, (count - 1) * stride)
            loops.append((abs(stride), count))
    run = box.itemsize
    merged_loops: list[tuple[int, int]] = []
    for stride, count in sorted(loops):
        if not merged_loops and stride <= run:
            run += (count - 1) * stride
        elif merged_loops and stride == merged_loops[-1][0] * merged_loops[-1][1]:
            merged_loops[-1] = (merged_loops[-1][0] * count, merged_loops[-1][1])
        else:
            merged_loops.append((count, stride))
    return Geometry(
        start,
        run,
        tuple(merged_loops),
        touched_bytes=math.prod(box.shape) * box.itemsize,
        elements=lambda: (element_starts(box), box.itemsize),
    )


def element_starts(box: Box) -> Integers:
    """Return the first byte of each element of a box, in order, relative to its offset."""
    starts = np.zeros(1, np.int64)
    for count, stride in zip(box.shape, box.strides, strict=True):
        starts = (starts[:, None] + np.arange(count, dtype=np.int64) * stride).reshape(-1)
    return starts


def distinct(rows: Integers) -> Integers:
    """Return the distinct row numbers, ascending; avoids sorting if they are ascending already or densely packed."""
    if len(rows) < 2 or bool((rows[1:] > rows[:-1]).all()):
        return rows
    low, high = int(rows.min()), int(rows.max())
    if high - low <= _MAX_SPREAD * len(rows):
        present = np.zeros(high - low + 1, bool)
        present[rows - low] = True
        return np.flatnonzero(present) + low
    return sorted_distinct(rows)


def sorted_distinct(numbers: Integers) -> Integers:
    """Like `np.unique`, which hashes: sorting is several times faster if most numbers differ."""
    ordered = np.sort(numbers)
    if len(ordered) < 2:
        return ordered
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def overlap(one: Geometry, one_offset: int, other: Geometry, other_offset: int) -> bool:
    """Return whether two operands share a byte, given their offsets."""
    if one.strided and other.strided:
        delta = one_offset + one.start - other_offset - other.start
        return _strided_overlap(delta, one.run, one.loops, other.run, other.loops)
    # Compare each run of the operand with fewer runs with the first run of the other that ends after it starts.
    if len(one.segments()[0]) > len(other.segments()[0]):
        one, one_offset, other, other_offset = other, other_offset, one, one_offset
    starts, stops = (part + (one_offset - other_offset) for part in one.segments())
    other_starts, other_stops = other.segments()
    following = np.searchsorted(other_stops, starts, side="right")
    valid = following < len(other_starts)
    return bool((other_starts[following[valid]] < stops[valid]).any())


@lru_cache(maxsize=1 << 16)
def _strided_overlap(delta: int, run: int, loops: Loops, other_run: int, other_loops: Loops) -> bool:
    """Return whether some segment [d, d + run) under `loops` meets some [0, other_run) under `other_loops`.

    Segments meet if -run < delta + sum(i * stride) - sum(j * other stride) < other_run. Counting the loops of the other
    side backward makes every term positive, and merges loops of equal stride.
    """
    terms: dict[int, int] = {}
    for sign, nest in ((1, loops), (-1, other_loops)):
        for count, stride in nest:
            terms[stride] = terms.get(stride, 0) + count - 1
            if sign < 0:
                delta -= (count - 1) * stride
    return _reaches(sorted(terms.items(), reverse=True), 1 - run - delta, other_run - 1 - delta)


def _reaches(terms: list[tuple[int, int]], low: int, high: int) -> bool:
    """Return whether sum(i * stride) lies in [low, high] for some 0 <= i <= iterations of each (stride, iterations)."""
    if low <= 0 <= high:
        return True
    largest = sum(stride * iterations for stride, iterations in terms)
    if high < 0 or low > largest:
        return False
    if not terms:
        return False
    step = math.gcd(*(stride for stride, _ in terms))
    if high // step * step < low:
        return False
    (stride, iterations), inner_terms = terms[0], terms[1:]
    beyond = largest - stride * iterations
    first, last = max(0, -(-(low - beyond) // stride)), min(iterations, high // stride)
    return any(
        _reaches(inner_terms, low - iteration * stride, high - iteration * stride)
        for iteration in range(first, last + 1)
    )


def shared(one: Geometry, one_offset: int, other: Geometry, other_offset: int) -> tuple[Integers, Integers]:
    """Return the runs of bytes that two operands share: starts and stops."""
    starts, stops = (part + one_offset for part in one.segments())
    other_starts, other_stops = (part + other_offset for part in other.segments())
    # Each run overlaps those runs of the other operand that begin before it ends and end after it begins.
    first = np.searchsorted(other_stops, starts, side="right")
    last = np.searchsorted(other_starts, stops, side="left")
    one_index, other_index = expand(first, last)
    return np.maximum(starts[one_index], other_starts[other_index]), np.minimum(
        stops[one_index], other_stops[other_index]
    )


def expand(first: Integers, last: Integers) -> tuple[Integers, Integers]:
    """Return all pairs (row, k) with first[row] <= k < last[row]."""
    counts = np.maximum(last - first, 0)
    if counts.size and counts.min() == counts.max() == 1:
        # Optimised: elements of a column, each in a cell of its own.
        return np.arange(len(counts), dtype=np.int64), first.astype(np.int64)
    rows = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    total = int(counts.sum())
    begins = np.cumsum(counts) - counts
    return rows, np.arange(total, dtype=np.int64) - np.repeat(begins - first, counts)


def group_rows(*columns: Array) -> tuple[Integers, Integers, Integers]:
    """Group rows with equal values in all columns: first row of each group, group of each row, group sizes."""
    packed = _packed(columns)
    if packed is not None:
        # A table by number needs no sorting; the first row of each number is assigned last.
        row_of = np.full(int(packed.max()) + 1, NONE)
        row_of[packed[::-1]] = np.arange(len(packed) - 1, -1, -1)
        present = np.flatnonzero(row_of != NONE)
        first = row_of[present]
        # The table is used again, to save memory.
        group_of = row_of
        group_of[present] = np.arange(len(present))
        numbers = group_of[packed]
        return first, numbers, np.bincount(numbers)
    order = np.lexsort(columns)
    new = np.zeros(len(order), bool)
    new[:1] = True
    for column in columns:
        values = column[order]
        new[1:] |= values[1:] != values[:-1]
    kind = np.empty(len(order), np.int64)
    kind[order] = np.cumsum(new) - 1
    starts = np.flatnonzero(new)
    return order[starts], kind, np.diff(np.append(starts, len(order)))


def _packed(columns: Sequence[Array]) -> Integers | None:
    """Return a number for each row, in the order of `np.lexsort`; None if a table of them would be long, or no rows."""
    if not len(columns[0]):
        return None
    packed, count = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        low = int(column.min())
        extent = int(column.max()) - low
        if extent > np.iinfo(np.int64).max:
            return None
        # Wide columns are usually of multiples, such as offsets of rows.
        unit = int(np.gcd.reduce(column.astype(np.int64) - low)) if extent >= len(packed) else 1
        values = extent // unit + 1
        if values * count > _MAX_SPREAD * len(packed):
            return None
        if values > 1:
            packed += (column.astype(np.int64) - low) // unit * count
        count *= values
    return packed

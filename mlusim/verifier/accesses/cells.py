"""Per-byte access counts of a tensor.

A tensor is divided into *cells* at the boundaries of accesses, so that an access touches a cell entirely or not at all.
Counts are prefix sums over cells of +1 at the start and -1 at the end of each run, so the work grows with the number of
runs, not of bytes. Accesses to the same bytes are counted together: a loop that repeats them costs as much as one
iteration.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.memory.bus import Loops
from mlusim.verifier.accesses.geometry import Geometry, expand, group_rows, nested, sorted_distinct
from mlusim.verifier.accesses.range_extrema import max_in_ranges, min_by_cell
from mlusim.verifier.accesses.row_geometry import Rows
from mlusim.verifier.accesses.table import Accesses

# Cells of equal size are used up to this many per run, or up to _SMALL_GRID in total.
_MAX_CELLS_PER_RUN = 4
_SMALL_GRID = 1 << 20
# Accesses with at most this many segments are counted in batches.
_MAX_BATCHED_SEGMENTS = 64
_BATCH_RUNS = 1 << 20
# Integer sums in float64 are exact below this.
_EXACT = 1 << 53


def runs_of(accesses: Accesses) -> tuple[Integers, Integers, Integers]:
    """Return all contiguous runs of the accesses: first byte, end, and row of the access."""
    single = accesses.single_run[accesses.geometry]
    single_rows = np.flatnonzero(single)
    lows, highs, rows = (
        [accesses.low[single_rows].astype(np.int64)],
        [accesses.high[single_rows].astype(np.int64)],
        [single_rows],
    )
    by_geometry = np.flatnonzero(~single)
    by_geometry = by_geometry[np.argsort(accesses.geometry[by_geometry], kind="stable")]
    number = accesses.geometry[by_geometry]
    for group in np.split(by_geometry, np.flatnonzero(number[1:] != number[:-1]) + 1) if len(number) else []:
        starts, stops = accesses.geometries[int(accesses.geometry[group[0]])].segments()
        offset = accesses.offset[group][:, None]
        lows.append((offset + starts).reshape(-1))
        highs.append((offset + stops).reshape(-1))
        rows.append(np.repeat(group, len(starts)))
    return np.concatenate(lows), np.concatenate(highs), np.concatenate(rows)


class Cells:
    """The cells of one tensor.

    If all accesses lie on a grid that is not much finer than they are, cells have equal size: then nothing is sorted,
    no runs are listed, and an access is a strided view of an array of cells.

    Args:
        accesses: accesses to a single allocation.
        nbytes: size of the tensor.
    """

    def __init__(self, accesses: Accesses, nbytes: int) -> None:
        self.accesses = len(accesses)
        self._all = accesses
        # The distinct accesses, one row each; `kind` is that of each access.
        self._rows, self.kind, _ = group_rows(accesses.offset, accesses.geometry)
        self._table = accesses.where(self._rows)
        self._nbytes = nbytes
        self._step = self._grid()
        self._size = nbytes // self._step if self._step else len(self.cuts) - 1

    def _grid(self) -> int:
        """Return the cell size in bytes if all cells are equal, else 0."""
        table, nbytes = self._table, self._nbytes
        if not len(table):
            return nbytes
        if int(table.low.min()) < 0 or int(table.high.max()) > nbytes:
            return 0
        numbers = np.flatnonzero(np.bincount(table.geometry, minlength=len(table.geometries))).tolist()
        step = math.gcd(
            nbytes, int(np.gcd.reduce(table.offset)), *(table.geometries[number].grain for number in numbers)
        )
        max_cells = max(_MAX_CELLS_PER_RUN * (int(table.geometries.counts[table.geometry].sum()) + 1), _SMALL_GRID)
        return step if nbytes // step <= max_cells else 0

    def __len__(self) -> int:
        return self._size

    @cached_property
    def _runs(self) -> tuple[Integers, Integers, Integers]:
        return runs_of(self._table)

    @cached_property
    def cuts(self) -> Integers:
        """(cells + 1,) first byte of each cell, and the end of the last one."""
        if self._step:
            return np.arange(0, self._nbytes + self._step, self._step, dtype=np.int64)
        low, high, _ = self._runs
        return sorted_distinct(np.concatenate([low, high, np.array([0, self._nbytes], np.int64)]))

    @cached_property
    def first(self) -> Integers:
        """By run of the distinct accesses, its first cell."""
        return self._cell(self._runs[0])

    @cached_property
    def last(self) -> Integers:
        """By run of the distinct accesses, the end of its cells (one past the last)."""
        return self._cell(self._runs[1])

    @property
    def of_run(self) -> Integers:
        """By run, its distinct access."""
        return self._runs[2]

    def rows_at(self, cell: int) -> Integers:
        """Return the accesses that touch one cell."""
        return np.flatnonzero(np.isin(self.kind, self.of_run[(self.first <= cell) & (cell < self.last)]))

    def total(self, values: Integers | Flags) -> int:
        """Sum a per-byte value over all bytes: each cell's value times its size."""
        if self._step:
            return self._step * int(np.sum(values, dtype=np.int64))
        return int(values @ np.diff(self.cuts))

    def count(self, weight: Any = True) -> Integers:  # noqa: FBT002 - a weight of one
        """By cell, sum the weights of the accesses that touch it; `weight` is a scalar or one value per access."""
        values = np.broadcast_to(np.asarray(weight), (self.accesses,))
        if len(self._rows) == self.accesses:
            return self._count(values[self._rows])
        # In float64, exact below `_EXACT`.
        sums = np.bincount(self.kind, values, len(self._rows)).astype(np.int64)
        return self._count(sums if sums.max(initial=0) > 1 else sums.astype(bool))

    def _count(self, values: Any) -> Integers:
        """By cell, sum the weights of the distinct accesses that touch it."""
        if self._step:
            return self._count_on_grid(values)
        first, last, weights = self.first, self.last, None
        if values.dtype == bool:
            if not values.all():
                is_counted = values[self.of_run]
                first, last = first[is_counted], last[is_counted]
        else:
            weights = values[self.of_run]
        size = len(self.cuts)
        steps = np.bincount(first, weights, size) - np.bincount(last, weights, size)
        return np.cumsum(steps)[:-1].astype(np.int64)

    def _count_on_grid(self, values: Any) -> Integers:
        """`count` for equal cells: +weight at starts and -weight at ends of segments, then a prefix sum in place."""
        table, step = self._table, self._step
        rows = np.flatnonzero(values)
        if not len(rows):
            return np.zeros(len(self), np.int64)
        large = values.dtype != bool and int(np.abs(values[rows]).max()) * len(rows) >= 1 << 31
        steps = np.zeros(len(self) + 1, np.int64 if large else np.int32)
        ones: list[tuple[Rows, Integers]] = []
        rows = rows[np.argsort(table.geometry[rows], kind="stable")]
        number = table.geometry[rows]
        for same_geometry in np.split(rows, np.flatnonzero(number[1:] != number[:-1]) + 1) if len(rows) else []:
            geometry = table.geometries[int(table.geometry[same_geometry[0]])]
            offsets = table.offset[same_geometry].astype(np.int64) // step
            weights = values[same_geometry].astype(steps.dtype)
            if isinstance(geometry, Rows) and geometry.disjoint:
                if geometry.row_bytes == step and values.dtype == bool:
                    ones.append((geometry, offsets))
                    continue
                for offset, weight in zip(offsets.tolist(), weights.tolist(), strict=True):
                    cells: Any = _row_cells(geometry, offset, step)
                    # With repeated indices the assignment counts once, as equal rows of one operation should.
                    steps[cells] += weight
                    steps[cells + geometry.row_bytes // step] -= weight
                continue
            if geometry.count <= _MAX_BATCHED_SEGMENTS:
                starts, stops = (edge // step for edge in geometry.segments())
                for cells, sign in ((starts, 1), (stops, -1)):
                    np.add.at(steps, offsets[:, None] + cells, (sign * weights)[:, None])
                continue
            for offset, weight in zip(offsets.tolist(), weights.tolist(), strict=True):
                for cells, sign in _edges(geometry, step):
                    if isinstance(cells, tuple):
                        _strided(steps, offset + cells[0], geometry.loops, step)[...] += sign * weight
                    else:
                        steps[cells + offset] += sign * weight
        np.cumsum(steps, out=steps)
        _count_cells(steps, ones, step)
        return steps[:-1]  # type: ignore[return-value]  # NumPy's stub gives a slice another type

    def mixed(self, label: Integers, candidates: Flags, counted: Flags | None = None) -> Flags:
        """By cell of `candidates`, whether accesses with different labels touch it; of `counted`, if given."""
        rows = slice(None) if counted is None else counted
        candidates_before = np.concatenate(([0], np.cumsum(candidates)))
        runs = np.flatnonzero(candidates_before[self.last] > candidates_before[self.first])
        run, cell = expand(self.first[runs], self.last[runs])
        of_access, of_cell = (
            (np.full(size, np.iinfo(np.int64).max), np.full(size, np.iinfo(np.int64).min))
            for size in (len(self._rows), len(self))
        )
        for smaller, extreme in enumerate((np.minimum, np.maximum)):
            extreme.at(of_access[smaller], self.kind[rows], label[rows])
            extreme.at(of_cell[smaller], cell, of_access[smaller][self.of_run[runs]][run])
        lowest_label, highest_label = of_cell
        unequal: Flags = candidates & (lowest_label < highest_label)
        return unequal

    def touching(self, chosen: Flags) -> Flags:
        """By access, return whether it touches a chosen cell."""
        chosen_before = np.concatenate(([0], np.cumsum(chosen)))
        touches = np.zeros(len(self._rows), bool)
        touches[self.of_run[chosen_before[self.last] > chosen_before[self.first]]] = True
        return touches[self.kind]

    def sets(self, candidates: Flags) -> tuple[Flags, Integers]:
        """Group cells of `candidates` that the same accesses touch: flags of one cell of each set, and each cell's set.

        Sets are told apart by sums of two random weights for each distinct access.
        """
        draw = np.random.default_rng(0).integers
        count = len(self._rows)
        sums = [self._count(draw(1, _EXACT // (count + 1), count))[candidates] for _ in range(2)]
        first, kind, _ = group_rows(*sums)
        representatives = np.zeros(len(self), bool)
        representatives[np.flatnonzero(candidates)[first]] = True
        # Chosen cells are numbered in their own order.
        rank = np.empty(len(first), np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        return representatives, rank[kind]

    def first_of(self, when: Integers, *, rows: Flags) -> Integers:
        """By cell, return the smallest `when` of the accesses `rows` that touch it; int64 max if none does."""
        first_times = np.full(len(self), np.iinfo(np.int64).max)
        for first, last, row in self.runs_in_batches(np.flatnonzero(rows)):
            np.minimum(first_times, min_by_cell(first, last, when[row], len(self)), out=first_times)
        return first_times

    def max_value(self, values: Integers, rows: Flags) -> Integers:
        """By access of `rows`, return the largest value over the cells that it touches; -1 for other accesses."""
        result = np.full(self.accesses, -1, np.int64)
        for first, last, row in self.runs_in_batches(np.flatnonzero(rows)):
            np.maximum.at(result, row, max_in_ranges(values, first, last))
        return result

    def runs_in_batches(self, rows: Integers) -> Iterator[tuple[Integers, Integers, Integers]]:
        """Yield first cells, end cells and accesses of the runs of `rows`, in batches of consecutive accesses."""
        table = self._all
        batch = np.cumsum(table.geometries.counts[table.geometry[rows]]) // _BATCH_RUNS
        for group in np.split(rows, np.flatnonzero(batch[1:] != batch[:-1]) + 1) if len(rows) else []:
            low, high, row = runs_of(table.where(group))
            yield self._cell(low), self._cell(high), group[row]

    def _cell(self, byte: Integers) -> Integers:
        """Return the cells that begin at the given bytes."""
        return byte // self._step if self._step else np.searchsorted(self.cuts, byte)

    def of(self, row: int) -> Any:
        """Return the cells that one access touches, as an index into an array of cells."""
        geometry, offset = self._all.of(row)
        if geometry.count == 1:
            low, high = int(self._all.low[row]), int(self._all.high[row])
            if self._step:
                return slice(low // self._step, high // self._step)
            return slice(*np.searchsorted(self.cuts, (low, high)).tolist())
        starts, stops = (edge + offset for edge in geometry.segments())
        if self._step:
            return expand(starts // self._step, stops // self._step)[1]
        return expand(np.searchsorted(self.cuts, starts), np.searchsorted(self.cuts, stops))[1]

    def runs(self, chosen: Flags) -> tuple[Integers, Integers]:
        """Return the chosen cells as runs of bytes, adjacent cells merged."""
        edges = np.diff(np.concatenate(([0], chosen.astype(np.int8), [0])))
        return self.cuts[np.flatnonzero(edges == 1)], self.cuts[np.flatnonzero(edges == -1)]


def _edges(geometry: Geometry, step: int) -> list[tuple[Any, int]]:
    """Return the cells in which segments begin (+1) and end (-1): the first cell as a 1-tuple, or all of them."""
    if geometry.strided and nested(geometry.run, geometry.loops):
        return [((geometry.start // step,), 1), (((geometry.start + geometry.run) // step,), -1)]
    starts, stops = geometry.segments()
    return [(starts // step, 1), (stops // step, -1)]


def _row_cells(rows: Rows, offset: int, step: int) -> Integers:
    """Return the first cell of each row; `offset` is in cells."""
    if rows.stride == step and not offset:
        return rows.numbers
    return rows.numbers.astype(np.int64) * (rows.stride // step) + offset


def _count_cells(counts: Any, accesses: list[tuple[Rows, Integers]], step: int) -> None:
    """Add 1 to the cell of each row, per access, for rows of one cell; counts in uint8 to stay in the cache."""
    pairs = [(rows, offset) for rows, offsets in accesses for offset in offsets.tolist()]
    limit = np.iinfo(np.uint8).max
    for begin in range(0, len(pairs), limit):
        partial = np.zeros(len(counts), np.uint8)
        for rows, offset in pairs[begin : begin + limit]:
            # With repeated indices the assignment counts once.
            partial[_row_cells(rows, offset, step)] += np.uint8(1)
        np.add(counts, partial, out=counts)


def _strided(cells: Any, first: int, loops: Loops, step: int) -> Any:
    """Return a view of the cells at `first` under loops."""
    shape = tuple(count for count, _ in loops)
    strides = tuple(stride // step * cells.itemsize for _, stride in loops)
    return np.lib.stride_tricks.as_strided(cells[first:], shape, strides)

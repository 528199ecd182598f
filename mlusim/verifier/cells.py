"""Counts of the accesses to each byte of a tensor, and their tasks.

A tensor is cut into *cells*, where accesses begin and end, so that each access touches a cell wholly or not at all.
Counts are sums over cells of what is added where a run begins and taken off where it ends: the work follows the number
of runs, not of bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from mlusim.verifier.accesses import Accesses
from mlusim.verifier.boxes import Geometry, Integers, Loops, expand, nested, sorted_distinct
from mlusim.verifier.ranges import least_by_cell, most_in_ranges
from mlusim.verifier.rows import Rows

Flags = np.ndarray[Any, np.dtype[np.bool_]]

# Cells of one size are used where they are at most so many times the runs, or few.
_EQUAL_CELLS = 4
_SMALL = 1 << 20
# Accesses of so few segments are counted many at a time.
_FEW_SEGMENTS = 64
_RUNS_AT_ONCE = 1 << 20


def runs_of(accesses: Accesses) -> tuple[Integers, Integers, Integers]:
    """All contiguous runs of some accesses: first byte, one behind the last, and the row of the access."""
    single = accesses.single_run[accesses.geometry]
    whole = np.flatnonzero(single)
    lows, highs, rows = [accesses.low[whole]], [accesses.high[whole]], [whole]
    by_geometry = np.flatnonzero(~single)
    by_geometry = by_geometry[np.argsort(accesses.geometry[by_geometry], kind="stable")]
    number = accesses.geometry[by_geometry]
    for some in np.split(by_geometry, np.flatnonzero(number[1:] != number[:-1]) + 1) if len(number) else []:
        starts, stops = accesses.geometries[int(accesses.geometry[some[0]])].segments()
        offset = accesses.offset[some][:, None]
        lows.append((offset + starts).reshape(-1))
        highs.append((offset + stops).reshape(-1))
        rows.append(np.repeat(some, len(starts)))
    return np.concatenate(lows), np.concatenate(highs), np.concatenate(rows)


class Cells:
    """The cells of one tensor.

    Where all accesses lie on a grid that is not much finer than they are, cells are of one size: then nothing is
    sorted, no runs are listed, and an access is a strided view of an array of cells.

    Args:
        accesses: all of one allocation.
        nbytes: bytes of the tensor.
    """

    def __init__(self, accesses: Accesses, nbytes: int) -> None:
        self.accesses = len(accesses)
        self._table = accesses
        self._nbytes = nbytes
        self._step = self._grid()
        self._size = nbytes // self._step if self._step else len(self.cuts) - 1

    def _grid(self) -> int:
        """Bytes of a cell where all are of one size, else 0."""
        some, nbytes = self._table, self._nbytes
        if not len(some):
            return nbytes
        if int(some.low.min()) < 0 or int(some.high.max()) > nbytes:
            return 0
        numbers = np.flatnonzero(np.bincount(some.geometry, minlength=len(some.geometries))).tolist()
        step = math.gcd(nbytes, int(np.gcd.reduce(some.offset)), *(some.geometries[number].grain for number in numbers))
        most = max(_EQUAL_CELLS * (int(some.geometries.counts[some.geometry].sum()) + 1), _SMALL)
        return step if nbytes // step <= most else 0

    def __len__(self) -> int:
        return self._size

    @cached_property
    def _runs(self) -> tuple[Integers, Integers, Integers]:
        return runs_of(self._table)

    @cached_property
    def cuts(self) -> Integers:
        """(cells + 1,) first byte of each cell, and the end of the last."""
        if self._step:
            return np.arange(0, self._nbytes + self._step, self._step, dtype=np.int64)
        low, high, _ = self._runs
        return sorted_distinct(np.concatenate([low, high, np.array([0, self._nbytes], np.int64)]))

    @cached_property
    def first(self) -> Integers:
        """By run, its first cell."""
        return self._cell(self._runs[0])

    @cached_property
    def last(self) -> Integers:
        """By run, the cell behind its last."""
        return self._cell(self._runs[1])

    @property
    def row(self) -> Integers:
        """By run, its access."""
        return self._runs[2]

    def total(self, values: Integers | Flags) -> int:
        """The sum over cells of a number for each byte of it."""
        if self._step:
            return self._step * int(np.sum(values, dtype=np.int64))
        return int(values @ np.diff(self.cuts))

    def count(self, weight: Any = True) -> Integers:  # noqa: FBT002
        """By cell, the sum of the weights of the accesses that touch it; a weight is a number or one by access."""
        values = np.broadcast_to(np.asarray(weight), (self.accesses,))
        if self._step:
            return self._count_on_grid(values)
        first, last, weights = self.first, self.last, None
        if values.dtype == bool:
            if not values.all():
                chosen = values[self.row]
                first, last = first[chosen], last[chosen]
        else:
            # Whole numbers in float64, exact to 2**53.
            weights = values[self.row]
        size = len(self.cuts)
        steps = np.bincount(first, weights, size) - np.bincount(last, weights, size)
        return np.cumsum(steps)[:-1].astype(np.int64)

    def _count_on_grid(self, values: Any) -> Integers:
        """As `count`: what is added where a segment begins and taken off where it ends, summed up in place."""
        some, step = self._table, self._step
        rows = np.flatnonzero(values)
        if not len(rows):
            return np.zeros(len(self), np.int64)
        large = values.dtype != bool and int(np.abs(values[rows]).max()) * len(rows) >= 1 << 31
        steps = np.zeros(len(self) + 1, np.int64 if large else np.int32)
        ones: list[tuple[Rows, Integers]] = []
        rows = rows[np.argsort(some.geometry[rows], kind="stable")]
        number = some.geometry[rows]
        for mine in np.split(rows, np.flatnonzero(number[1:] != number[:-1]) + 1) if len(rows) else []:
            geometry = some.geometries[int(some.geometry[mine[0]])]
            offsets = some.offset[mine] // step
            weights = values[mine].astype(steps.dtype)
            if isinstance(geometry, Rows) and geometry.apart:
                if geometry.row_bytes == step and values.dtype == bool:
                    ones.append((geometry, offsets))
                    continue
                for offset, one in zip(offsets.tolist(), weights.tolist(), strict=True):
                    at: Any = _row_cells(geometry, offset, step)
                    # Of equal places an assignment counts one, and equal rows of one operation are one.
                    steps[at] += one
                    steps[at + geometry.row_bytes // step] -= one
                continue
            if geometry.count <= _FEW_SEGMENTS:
                starts, stops = (part // step for part in geometry.segments())
                for at, sign in ((starts, 1), (stops, -1)):
                    np.add.at(steps, offsets[:, None] + at, (sign * weights)[:, None])
                continue
            for offset, one in zip(offsets.tolist(), weights.tolist(), strict=True):
                for at, sign in _edges(geometry, step):
                    if isinstance(at, tuple):
                        _strided(steps, offset + at[0], geometry.loops, step)[...] += sign * one
                    else:
                        steps[at + offset] += sign * one
        np.cumsum(steps, out=steps)
        _count_cells(steps, ones, step)
        return steps[:-1]  # type: ignore[return-value]

    def mixed(self, label: Integers, among: Flags) -> Flags:
        """By cell of `among`, whether accesses of more than one label touch it."""
        before = np.concatenate(([0], np.cumsum(among)))
        runs = np.flatnonzero(before[self.last] > before[self.first])
        run, cell = expand(self.first[runs], self.last[runs])
        labels = label[self.row[runs]][run]
        least = np.full(len(self), np.iinfo(np.int64).max)
        most = np.full(len(self), np.iinfo(np.int64).min)
        np.minimum.at(least, cell, labels)
        np.maximum.at(most, cell, labels)
        unequal: Flags = among & (least < most)
        return unequal

    def touching(self, chosen: Flags) -> Flags:
        """By access, whether it touches one of the chosen cells."""
        before = np.concatenate(([0], np.cumsum(chosen)))
        hit = np.zeros(self.accesses, bool)
        hit[self.row[before[self.last] > before[self.first]]] = True
        return hit

    def first_of(self, when: Integers, *, among: Flags) -> Integers:
        """By cell, the least `when` of the accesses `among` that touch it; where none does, a number beyond all."""
        least = np.full(len(self), np.iinfo(np.int64).max)
        for first, last, row in self._some_runs(np.flatnonzero(among)):
            np.minimum(least, least_by_cell(first, last, when[row], len(self)), out=least)
        return least

    def most(self, values: Integers, rows: Flags) -> Integers:
        """By access of `rows`, the largest value among the cells that it touches; of others -1."""
        result = np.full(self.accesses, -1, np.int64)
        for first, last, row in self._some_runs(np.flatnonzero(rows)):
            np.maximum.at(result, row, most_in_ranges(values, first, last))
        return result

    def _some_runs(self, rows: Integers) -> Iterator[tuple[Integers, Integers, Integers]]:
        """First cells, cells behind the last, and accesses of the runs of some accesses, a part at a time."""
        table = self._table
        parts = np.cumsum(table.geometries.counts[table.geometry[rows]]) // _RUNS_AT_ONCE
        for some in np.split(rows, np.flatnonzero(parts[1:] != parts[:-1]) + 1) if len(rows) else []:
            low, high, row = runs_of(table.where(some))
            yield self._cell(low), self._cell(high), some[row]

    def _cell(self, byte: Integers) -> Integers:
        """The cells that begin at some bytes."""
        return byte // self._step if self._step else np.searchsorted(self.cuts, byte)

    def of(self, row: int) -> Any:
        """The cells that one access touches, as an index of an array of cells."""
        geometry, offset = self._table.of(row)
        if geometry.count == 1:
            low, high = int(self._table.low[row]), int(self._table.high[row])
            if self._step:
                return slice(low // self._step, high // self._step)
            return slice(*np.searchsorted(self.cuts, (low, high)).tolist())
        starts, stops = (part + offset for part in geometry.segments())
        if self._step:
            return expand(starts // self._step, stops // self._step)[1]
        return expand(np.searchsorted(self.cuts, starts), np.searchsorted(self.cuts, stops))[1]

    def runs(self, chosen: Flags) -> tuple[Integers, Integers]:
        """The chosen cells as runs of bytes, neighbours joined."""
        edges = np.diff(np.concatenate(([0], chosen.astype(np.int8), [0])))
        return self.cuts[np.flatnonzero(edges == 1)], self.cuts[np.flatnonzero(edges == -1)]


def _edges(geometry: Geometry, step: int) -> list[tuple[Any, int]]:
    """The cells in which segments of a geometry begin (1) and end (-1): (first of the loops,), or all of them."""
    if geometry.strided and nested(geometry.run, geometry.loops):
        return [((geometry.start // step,), 1), (((geometry.start + geometry.run) // step,), -1)]
    starts, stops = geometry.segments()
    return [(starts // step, 1), (stops // step, -1)]


def _row_cells(rows: Rows, offset: int, step: int) -> Integers:
    """The first cell of each row; `offset` in cells."""
    if rows.stride == step and not offset:
        return rows.numbers
    return rows.numbers * (rows.stride // step) + offset


def _count_cells(counts: Any, accesses: list[tuple[Rows, Integers]], step: int) -> None:
    """Add 1 to the cells of rows that are a cell each, for each access; in bytes, which caches hold longer."""
    each = [(rows, offset) for rows, offsets in accesses for offset in offsets.tolist()]
    most = np.iinfo(np.uint8).max
    for begin in range(0, len(each), most):
        some = np.zeros(len(counts), np.uint8)
        for rows, offset in each[begin : begin + most]:
            # Of equal cells an assignment counts one.
            some[_row_cells(rows, offset, step)] += np.uint8(1)
        np.add(counts, some, out=counts)


def _strided(cells: Any, first: int, loops: Loops, step: int) -> Any:
    """The cells at `first` and under loops, as a view."""
    shape = tuple(count for count, _ in loops)
    strides = tuple(stride // step * cells.itemsize for _, stride in loops)
    return np.lib.stride_tricks.as_strided(cells[first:], shape, strides)

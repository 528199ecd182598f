"""How often, and by whom, each byte of a tensor is touched.

A tensor is cut into *cells*, where accesses begin and end, so that each access touches a cell wholly or not at all.
Counts are sums over cells of what is added where a run begins and taken off where it ends: the work follows the number
of runs, not of bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlusim.verifier.accesses import Accesses
from mlusim.verifier.boxes import Integers, expand

Flags = np.ndarray[Any, np.dtype[np.bool_]]

# Where cells of one size are at most so many times the runs, they need no sorting.
_EQUAL_CELLS = 4


def runs_of(accesses: Accesses) -> tuple[Integers, Integers, Integers]:
    """All contiguous runs of some accesses: first byte, one behind the last, and the row of the access."""
    lows, highs, rows = [], [], []
    by_geometry = np.argsort(accesses.geometry, kind="stable")
    number = accesses.geometry[by_geometry]
    for some in np.split(by_geometry, np.flatnonzero(number[1:] != number[:-1]) + 1) if len(number) else []:
        starts, stops = accesses.geometries[int(accesses.geometry[some[0]])].segments()
        offset = accesses.offset[some][:, None]
        lows.append((offset + starts).reshape(-1))
        highs.append((offset + stops).reshape(-1))
        rows.append(np.repeat(some, len(starts)))
    if not lows:
        return (np.empty(0, np.int64),) * 3
    return np.concatenate(lows), np.concatenate(highs), np.concatenate(rows)


class Cells:
    """The cells of one tensor.

    Args:
        accesses: all of one allocation.
        nbytes: bytes of the tensor.
        more: further bytes to cut at.

    Attributes:
        cuts: (cells + 1,) first byte of each cell, and the end of the last.
        first, last: by run, its cells [first, last).
        row: by run, the access.
    """

    def __init__(self, accesses: Accesses, nbytes: int, more: Integers | None = None) -> None:
        low, high, self.row = runs_of(accesses)
        self.accesses = len(accesses)
        ends = [low, high, np.array([0, nbytes], np.int64), *([more] if more is not None else [])]
        points = np.concatenate(ends)
        step = int(np.gcd.reduce(points)) or 1
        if nbytes // step <= _EQUAL_CELLS * len(low) + _EQUAL_CELLS and points.min() >= 0 and points.max() <= nbytes:
            self.cuts = np.arange(0, nbytes + step, step, dtype=np.int64)
            self.first, self.last = low // step, high // step
        else:
            self.cuts = np.unique(points)
            self.first, self.last = np.searchsorted(self.cuts, low), np.searchsorted(self.cuts, high)

    def __len__(self) -> int:
        return len(self.cuts) - 1

    @property
    def nbytes(self) -> Integers:
        """Bytes of each cell."""
        return np.diff(self.cuts)

    def count(self, weight: Any = True) -> Integers:  # noqa: FBT002
        """By cell, the sum of the weights of the accesses that touch it; a weight is a number or one by access."""
        given = np.broadcast_to(np.asarray(weight), (self.accesses,))
        first, last, weights = self.first, self.last, None
        if given.dtype == bool:
            if not given.all():
                chosen = given[self.row]
                first, last = first[chosen], last[chosen]
        else:
            # Whole numbers in float64, exact to 2**53.
            weights = given[self.row]
        size = len(self.cuts)
        steps = np.bincount(first, weights, size) - np.bincount(last, weights, size)
        return np.cumsum(steps)[:-1].astype(np.int64)

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
        never = np.iinfo(np.int64).max
        earliest = np.full(len(self), never, np.int64)
        number, total = self.count(among), self.count(np.where(among, when, 0))
        earliest[number == 1] = total[number == 1]
        if (number > 1).any():
            several = np.concatenate(([0], np.cumsum(number > 1)))
            runs = np.flatnonzero(among[self.row] & (several[self.last] > several[self.first]))
            runs = runs[np.argsort(-when[self.row[runs]], kind="stable")]
            times = when[self.row[runs]]
            bounds = zip(self.first[runs].tolist(), self.last[runs].tolist(), times.tolist(), strict=True)
            for first, last, time in bounds:
                earliest[first:last] = time
        return earliest

    def most(self, values: Integers, rows: Flags) -> Integers:
        """By access of `rows`, the largest value among the cells that it touches; of others -1."""
        result = np.full(self.accesses, -1, np.int64)
        runs = np.flatnonzero(rows[self.row])
        if len(runs):
            run, cell = expand(self.first[runs], self.last[runs])
            np.maximum.at(result, self.row[runs[run]], values[cell])
        return result

    def of(self, row: int) -> Integers:
        """The cells that one access touches."""
        runs = np.flatnonzero(self.row == row)
        return expand(self.first[runs], self.last[runs])[1]

    def runs(self, chosen: Flags) -> tuple[Integers, Integers]:
        """The chosen cells as runs of bytes, neighbours joined."""
        edges = np.diff(np.concatenate(([0], chosen.astype(np.int8), [0])))
        return self.cuts[np.flatnonzero(edges == 1)], self.cuts[np.flatnonzero(edges == -1)]

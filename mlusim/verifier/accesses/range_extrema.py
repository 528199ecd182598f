"""Minima and maxima over many ranges of an array at once, in O(n log n)."""

from __future__ import annotations

import numpy as np

from mlusim.arrays import Integers

_NEVER = np.iinfo(np.int64).max


def min_by_cell(first: Integers, last: Integers, value: Integers, cells: int) -> Integers:
    """By cell, return the smallest value of the ranges [first, last) that contain it; int64 max if none does.

    Each range is covered by two, possibly overlapping, ranges whose length is a power of two. Starting from the
    longest, each range passes its value on to its halves.
    """
    minima = np.full(cells, _NEVER)
    for level, rows in _by_level(first, last):
        width = 1 << level
        np.minimum.at(minima, first[rows], value[rows])
        np.minimum.at(minima, last[rows] - width, value[rows])
        if level:
            half = width // 2
            np.minimum(minima[half:], minima[:-half].copy(), out=minima[half:])
    return minima


def max_in_ranges(values: Integers, first: Integers, last: Integers) -> Integers:
    """Return the largest of `values` in each non-empty range [first, last)."""
    result = np.empty(len(first), np.int64)
    maxima = values
    for level, rows in reversed(list(_by_level(first, last))):
        # Here `most[i]` is the largest of `values[i : i + width]`.
        width = 1 << level
        if level:
            half = width // 2
            maxima = np.maximum(maxima[:-half], maxima[half:])
        result[rows] = np.maximum(maxima[first[rows]], maxima[last[rows] - width])
    return result


def _by_level(first: Integers, last: Integers) -> list[tuple[int, Integers]]:
    """Return the levels from log2 of the longest range down to 0, with the ranges of each level."""
    if not len(first):
        return []
    level = np.frexp((last - first).astype(np.float64))[1] - 1
    return [(number, np.flatnonzero(level == number)) for number in range(int(level.max()), -1, -1)]

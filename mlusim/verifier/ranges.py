"""The least and the largest of numbers in ranges of an array, of many ranges at once: n log n."""

from __future__ import annotations

import numpy as np

from mlusim.verifier.boxes import Integers

_NEVER = np.iinfo(np.int64).max


def least_by_cell(first: Integers, last: Integers, value: Integers, cells: int) -> Integers:
    """By cell, the least value of the ranges [first, last) that it lies in; where it lies in none, the largest int64.

    Each range is two of a power of two in length, which may overlap. From the longest on, both halves of a range take
    what the whole has.
    """
    least = np.full(cells, _NEVER)
    for level, some in _by_level(first, last):
        width = 1 << level
        np.minimum.at(least, first[some], value[some])
        np.minimum.at(least, last[some] - width, value[some])
        if level:
            half = width // 2
            np.minimum(least[half:], least[:-half].copy(), out=least[half:])
    return least


def most_in_ranges(values: Integers, first: Integers, last: Integers) -> Integers:
    """The largest of `values` in each range [first, last); none is empty."""
    result = np.empty(len(first), np.int64)
    most = values
    for level, some in reversed(list(_by_level(first, last))):
        # Here `most[i]` is the largest of `values[i : i + width]`.
        width = 1 << level
        if level:
            half = width // 2
            most = np.maximum(most[:-half], most[half:])
        result[some] = np.maximum(most[first[some]], most[last[some] - width])
    return result


def _by_level(first: Integers, last: Integers) -> list[tuple[int, Integers]]:
    """Levels from the largest power of two in the length of any range down to 0, with the ranges of each."""
    if not len(first):
        return []
    level = np.frexp((last - first).astype(np.float64))[1] - 1
    return [(one, np.flatnonzero(level == one)) for one in range(int(level.max()), -1, -1)]

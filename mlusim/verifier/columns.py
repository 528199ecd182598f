"""Columns of integers in as few bytes as their numbers need, to check long logs in little memory."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.log import Log
from mlusim.records import COLUMNS, Records

# Types of columns, the narrowest first. Sums and differences of two numbers must fit; products are made in 64 bits.
_TYPES = tuple((np.dtype(kind), np.iinfo(kind).max // 2) for kind in (np.int16, np.int32))


def narrow(values: Any) -> Integers:
    """Return integers in 2, 4 or 8 bytes each: sums and differences of two of them fit."""
    largest = max(int(values.max(initial=0)), -int(values.min(initial=0)))
    narrower = next((kind for kind, limit in _TYPES if largest <= limit), values.dtype)
    return np.asarray(values.astype(narrower, copy=False))


def joint(major: Any, minor: Any, count: int) -> Integers:
    """Return one number for each pair of numbers, in the order of the pairs; `count`: more than any of `minor`."""
    return np.asarray(np.asarray(major, np.int64) * count + minor)


def ops_among(log: Log, names: Collection[str]) -> Flags:
    """By number of an operation in `Log.ops`, whether it is one of `names`."""
    return np.array([name in names for name in log.ops], bool)


class Columns(dict[str, Integers]):
    """The columns of a log by name, each made at its first use."""

    def __init__(self, records: Records) -> None:
        super().__init__()
        self._records = records

    def __missing__(self, name: str) -> Integers:
        if name not in COLUMNS:
            raise KeyError(name)
        column = self[name] = narrow(self._records.column(name, slice(0, self._records.count)))
        return column

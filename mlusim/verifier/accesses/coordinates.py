"""Byte ranges of an allocation as tensor coordinates: `out[2, 0:3, 17, 0:784]`."""

from __future__ import annotations

import math

import numpy as np

from mlusim.arrays import Integers
from mlusim.dtypes import dtype_of
from mlusim.log_tables import AllocationRecord
from mlusim.units import group_digits


def describe(allocation: AllocationRecord, starts: Integers, stops: Integers) -> str:
    """Describe runs of bytes of an allocation in tensor coordinates, with their total size.

    A box is written as a slice; anything else as "part of" the enclosing slice.
    """
    nbytes = int((stops - starts).sum())
    itemsize = dtype_of(allocation.dtype).itemsize
    amount = f"{group_digits(nbytes)} B"
    if math.prod(allocation.shape) * itemsize != allocation.nbytes or not allocation.shape or not nbytes:
        first, last = (int(starts.min()), int(stops.max())) if len(starts) else (0, 0)
        part = "" if last - first == nbytes else "part of "
        return f"{part}bytes {group_digits(first)} to {group_digits(last)} of {allocation.name}, {amount}"
    low, high = bounding_box(allocation.shape, starts // itemsize, -(-stops // itemsize))
    enclosed = math.prod((high - low).tolist()) * itemsize
    text = ", ".join(
        str(begin) if end - begin == 1 else f"{begin}:{end}"
        for begin, end in zip(low.tolist(), high.tolist(), strict=True)
    )
    part = "" if enclosed == nbytes else "part of "
    return f"{part}{allocation.name}[{text}], {amount}"


def bounding_box(shape: tuple[int, ...], first: Integers, last: Integers) -> tuple[Integers, Integers]:
    """Return the box that encloses runs of elements [first, last) of a tensor."""
    low = np.array(np.unravel_index(first, shape))
    high = np.array(np.unravel_index(last - 1, shape))
    # After the first axis on which the ends of a run differ, the run covers all of each axis.
    is_varying = np.cumsum(low != high, axis=0) > 0
    wraps = np.concatenate((np.zeros((1, len(first)), bool), is_varying[:-1]))
    extents = np.array(shape)[:, None]
    low, high = np.where(wraps, 0, low), np.where(wraps, extents - 1, high)
    return low.min(axis=1), high.max(axis=1) + 1

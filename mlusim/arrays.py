"""The types of NumPy arrays in annotations, by what they hold; numbers as arrays."""

from __future__ import annotations

from functools import lru_cache
from math import copysign
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


def as_element(value: Any, dtype: np.dtype[Any]) -> Array:
    """Return a number in an element type, as an array of rank 0. Those of Python's numbers are cached: read them only.

    Values beyond the type's range become what NumPy's `astype` makes of them.
    """
    if type(value) is int or type(value) is float:
        # 0.0 and -0.0 are equal, but different values.
        return _cached_element(value, type(value) is float and copysign(1.0, value) < 0, dtype)
    return _element(value, dtype)


def _element(value: Any, dtype: np.dtype[Any]) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)


@lru_cache(maxsize=4096, typed=True)
def _cached_element(value: Any, negative: bool, dtype: np.dtype[Any]) -> Array:  # noqa: FBT001 - part of the key
    del negative
    element = _element(value, dtype)
    element.flags.writeable = False
    return element

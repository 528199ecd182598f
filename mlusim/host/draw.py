"""Random tensors from a seed."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Draw:
    """Random numbers; the same seed gives the same.

    Args:
        seed: of the generator.
        data: False: tensors that are only moved need no numbers; they take no memory.
    """

    def __init__(self, seed: int, *, data: bool = True) -> None:
        # Two generators, so that indices and shifts are the same with and without data.
        self._random, self._indices = (np.random.default_rng([seed, stream]) for stream in range(2))
        self._data = data

    def elements(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Normally distributed numbers, or integers over the whole range of their type."""
        if not self._data:
            return np.broadcast_to(np.zeros((), dtype), shape)
        if dtype.kind in "iu":
            bounds = np.iinfo(dtype)
            return self._random.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)
        if dtype.kind == "b":
            return self._random.integers(0, 2, shape).astype(dtype)
        values = self._random.standard_normal(shape, np.float32)
        if dtype.kind == "c":
            return values.astype(dtype) + 1j * self._random.standard_normal(shape, np.float32).astype(dtype)
        return values.astype(dtype)

    def integers(self, low: int, high: int, shape: tuple[int, ...], dtype: str = "int32") -> Array:
        """Integers from `low` up to, not including, `high`; always drawn: indices, shifts."""
        most = np.iinfo(dtype).max
        return self._indices.integers(low, min(max(high, low + 1), most), shape, dtype)

"""Random tensors from a seed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.errors import AllocationError
from mlusim.hardware import Board
from mlusim.inputs import as_shape
from mlusim.units import format_bytes

_ADDRESSES = (1 << 63) - 1


class RandomTensors:
    """Reproducible random numbers.

    Args:
        seed: seed of the generator.
        data: False: tensors that are only moved get no elements and no memory.
        boards: the boards that will hold the tensors; a tensor that fits none of them is rejected before allocation.
    """

    def __init__(self, seed: int, *, data: bool = True, boards: Iterable[Board] = ()) -> None:
        # Two generators, so that indices and shifts do not depend on `data`.
        self._random, self._indices = (np.random.default_rng([seed, stream]) for stream in range(2))
        self._data = data
        self._largest = max(boards, key=lambda board: board.gdram_bytes, default=None)

    def _check_size(self, shape: tuple[int, ...], dtype: Any) -> None:
        """Raise `AllocationError` for a tensor that cannot fit, `InputError` for an invalid shape."""
        extents = as_shape("the shape", shape)
        nbytes = math.prod(extents) * np.dtype(dtype).itemsize
        limit = _ADDRESSES if self._largest is None else self._largest.gdram_bytes
        if nbytes > limit:
            memory_name = f"GDRAM of {self._largest.name}" if self._largest else "64-bit addresses"
            raise AllocationError(
                f"a tensor of {np.dtype(dtype).name} {list(extents)} takes {format_bytes(nbytes)}: it can never fit in "
                f"the {format_bytes(limit)} of {memory_name}; choose a smaller shape or element type"
            )

    def elements(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Draw normally distributed numbers, or integers over the full range of their type."""
        self._check_size(shape, dtype)
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
        """Draw integers in [low, high), such as indices and shifts; independent of `data`."""
        self._check_size(shape, dtype)
        maximum = np.iinfo(dtype).max
        return self._indices.integers(low, min(max(high, low + 1), maximum), shape, dtype)

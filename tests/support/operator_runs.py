"""Boards and elements for runs of operators, and comparisons of their results bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlusim.hardware import Board, board

Array = np.ndarray[Any, Any]
# One of each generation.
BOARDS = ("mlu270-s4", "mlu370-x4", "mlu590-h8")


def on(name: str, nram_bytes: int | None = None, **changes: Any) -> Board:
    """A preset with that much NRAM to use, and other changes."""
    if nram_bytes is not None:
        changes |= {"nram_bytes": nram_bytes, "nram_reserved_bytes": 0}
    return board(name).replace(**changes) if changes else board(name)


def small(name: str, nram_bytes: int, *, cores: int | None = None) -> Board:
    """A preset with that much NRAM; with `cores`, one cluster of so many."""
    return on(name, nram_bytes, **({} if cores is None else {"clusters": 1, "cores_per_cluster": cores}))


def any_bits(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """All bit patterns: signalling NaN, -0.0, bool bytes other than 0 and 1."""
    return rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8).view(dtype).reshape(shape)


def opaque(array: Array) -> Array:
    """Elements that NumPy moves without interpreting them."""
    return np.ascontiguousarray(array).view(f"V{array.dtype.itemsize}")


def scattered(x: Array, index: Array, src: Array, axis: int) -> Array:
    """One update after the other, in row-major order."""
    out, src = opaque(x).copy(), opaque(src)
    for place in np.ndindex(index.shape):
        target = list(place)
        target[axis] = index[place]
        out[tuple(target)] = src[place]
    return out


def same_bits(result: Any, expected: Array) -> bool:
    output = result.output
    same_type = expected.dtype.kind == "V" or output.dtype == expected.dtype
    return same_type and output.shape == expected.shape and output.tobytes() == expected.tobytes()


def operations(result: Any) -> dict[str, int]:
    """How many of each operation the log has."""
    codes = result.log.columns()["op"]
    return {name: int((codes == code).sum()) for code, name in enumerate(result.log.ops) if (codes == code).any()}

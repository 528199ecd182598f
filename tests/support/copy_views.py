"""Views and pointers to copy between."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from mlusim.memory.allocation import Memory
from mlusim.memory.copy_shape import CopyShape, view_copy_shape
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.sizes import MemorySize
from mlusim.memory.view import View

GDRAM, NRAM, WRAM, SRAM, LDRAM = (
    MemoryKind.GDRAM,
    MemoryKind.NRAM,
    MemoryKind.WRAM,
    MemoryKind.SRAM,
    MemoryKind.LDRAM,
)
UNIT = 64


def buffer(kind: MemoryKind, shape: tuple[int, ...], dtype: Any = np.uint8, capacity: int = 1 << 40) -> View:
    dtype = np.dtype(dtype)
    memory = Memory(kind, kind.value, MemorySize(capacity), data=False)
    nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
    return View.of(memory.allocate(nbytes, f"the {kind.value} buffer", 0), shape, dtype)


def by_views(dst: View, src: View, arch: int = 372) -> CopyShape:
    return view_copy_shape(dst, src, arch, UNIT)


def addresses(segment: int, loops: tuple[tuple[int, int], ...]) -> list[int]:
    """Byte offsets in the order in which they are moved."""
    starts = [
        sum(i * stride for i, (_, stride) in zip(steps, loops, strict=True))
        for steps in product(*(range(count) for count, _ in loops))
    ]
    return [start + byte for start in starts for byte in range(segment)]

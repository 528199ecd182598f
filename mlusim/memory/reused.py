"""Host memory of results that are no longer referenced, reused for the next results.

The system clears fresh pages when they are first written. Written tile by tile, that takes as long as the copies
themselves, so a run that repeats an earlier one takes up to half the time if it finds the memory of the earlier result.

Reused bytes are those of an old result, not zeros: a kernel that leaves elements unwritten could look right. Therefore
only tensors of which every element is known to be written get such memory (`Device.alloc(overwritten=True)`).
"""

from __future__ import annotations

from typing import Any
from weakref import finalize

import numpy as np

from mlusim.units import MIB

Block = np.ndarray[tuple[int], np.dtype[np.uint8]]

# The C library itself reuses smaller blocks.
_MIN_BYTES = MIB
# Limit on the memory that is held for later results.
_MAX_FREE_BYTES = 256 * MIB
# Blocks that no array refers to, by size.
_free: dict[int, list[Block]] = {}


class _Owner:
    """Owner of a block: lives as long as any array on the block, as their `base` leads to it."""

    def __init__(self, block: Block) -> None:
        self.__array_interface__ = block.__array_interface__


def reused_bytes(nbytes: int) -> Block:
    """Return uninitialised bytes, those of an earlier block of the same size if one is free.

    The block is free again when the last array that refers to it is gone. At most 256 MiB are held free.
    """
    if not _MIN_BYTES <= nbytes <= _MAX_FREE_BYTES:
        return np.empty(nbytes, np.uint8)
    try:
        block = _free[nbytes].pop()
    except (KeyError, IndexError):
        block = np.empty(nbytes, np.uint8)
    owner = _Owner(block)
    finalize(owner, _release, block).atexit = False
    array: np.ndarray[Any, np.dtype[np.uint8]] = np.asarray(owner)
    return array


def _release(block: Block) -> None:
    held = sum(size * len(blocks) for size, blocks in list(_free.items()))
    if held + block.nbytes > _MAX_FREE_BYTES:
        _free.clear()
    _free.setdefault(block.nbytes, []).append(block)

"""Host memory that is reused: of results that are no longer referenced, and of devices that are closed.

Results: the system clears fresh pages when they are first written. Written tile by tile, that takes as long as the
copies themselves, so a run that repeats an earlier one takes up to half the time if it finds the memory of the earlier
result. Reused bytes are those of an old result, not zeros: a kernel that leaves elements unwritten could look right.
Therefore only tensors of which every element is known to be written get such memory (`Device.alloc(overwritten=True)`),
and it is not poisoned: that would take as long as writing the result.

On-chip memories: mapping their memory anew takes longer than a small run, so it is allocated in blocks, and that of
closed devices is reused. Pages are small: a core that uses 1 KB of its NRAM costs the host one page, where a large page
takes 2 MB and, on some hosts, a millisecond. A memory poisons these bytes before they are visible.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any
from weakref import finalize

import numpy as np

from mlusim.units import MIB, round_up

Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]

# ASSUMED: alignment of the board's allocations. Compiled kernels see addresses of the host; the vendor's kernels round
# these down to multiples of 64 B.
ADDRESS_BYTES = 512
# The C library itself reuses smaller blocks.
MIN_REUSED_BYTES = MIB
# Limit on the memory that is held for later results.
_MAX_FREE_RESULT_BYTES = 256 * MIB
# Bytes of results that no array refers to, by size.
_free_results: dict[int, list[Bytes]] = {}
# Limits of a block of on-chip memories.
_BLOCK_BYTES = 32 * MIB
_BLOCK_BUFFERS = 64
_PAGE_BYTES = 4096
# Limits on the memory held for later devices: of each size, and the number of sizes.
_MAX_FREE_ON_CHIP_BYTES = 64 * MIB
_MAX_FREE_SIZES = 4
# On-chip memories that no device uses, by size.
_free_on_chip: dict[int, list[Bytes]] = {}


class _Owner:
    """Owner of a block: lives as long as any array on the block, as their `base` leads to it."""

    def __init__(self, block: Bytes) -> None:
        self.__array_interface__ = block.__array_interface__


def aligned_bytes(nbytes: int) -> Bytes:
    """Return uninitialised bytes at a multiple of `ADDRESS_BYTES`."""
    block = np.empty(nbytes + ADDRESS_BYTES, np.uint8)
    start = -int(block.__array_interface__["data"][0]) % ADDRESS_BYTES
    return block[start : start + nbytes]


def reused_bytes(nbytes: int) -> Bytes:
    """Return uninitialised bytes, those of an earlier block of the same size if one is free.

    The block is free again when the last array that refers to it is gone. At most 256 MiB are held free.
    """
    if not MIN_REUSED_BYTES <= nbytes <= _MAX_FREE_RESULT_BYTES:
        return aligned_bytes(nbytes)
    try:
        block = _free_results[nbytes].pop()
    except (KeyError, IndexError):
        block = aligned_bytes(nbytes)
    owner = _Owner(block)
    finalize(owner, _release, block).atexit = False
    array: np.ndarray[Any, np.dtype[np.uint8]] = np.asarray(owner)
    return array


def _release(block: Bytes) -> None:
    free_bytes = sum(size * len(blocks) for size, blocks in list(_free_results.items()))
    if free_bytes + block.nbytes > _MAX_FREE_RESULT_BYTES:
        _free_results.clear()
    _free_results.setdefault(block.nbytes, []).append(block)


def on_chip_bytes(nbytes: int) -> Bytes:
    """Return bytes for one on-chip memory, with arbitrary contents."""
    buffers = _free_on_chip.get(nbytes)
    if not buffers:
        if buffers is None and len(_free_on_chip) >= _MAX_FREE_SIZES:
            _free_on_chip.clear()
        step = round_up(nbytes, _PAGE_BYTES)
        block = _small_pages(max(min(_BLOCK_BYTES // step, _BLOCK_BUFFERS), 1) * step).reshape(-1, step)
        buffers = _free_on_chip[nbytes] = [row[:nbytes] for row in block[::-1]]
    return buffers.pop()


def _small_pages(nbytes: int) -> Bytes:
    """Return bytes that the host maps page by page as they are written, private to each process, also after a fork."""
    pages = mmap.mmap(-1, nbytes, access=mmap.ACCESS_COPY)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        # Fails harmlessly on a system without large pages.
        with suppress(OSError):
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, np.uint8)


def recycle(buffer: Bytes) -> None:
    """Hold the bytes of an on-chip memory, which `on_chip_bytes` returned, for a later device."""
    buffers = _free_on_chip.get(buffer.nbytes)
    if buffers is not None and len(buffers) * buffer.nbytes < _MAX_FREE_ON_CHIP_BYTES:
        buffers.append(buffer)

"""Sizes of the boxes that a tensor is cut into."""

from __future__ import annotations

import math

from mlusim.units import ceil_div

Extents = tuple[int, ...]

# Tiles per core to try; fewer tiles than cores are those of `search.tile_counts_below`.
ROUNDS = (1, 2, 3, 4, 5, 6)


def blocks(extents: Extents, limit: int) -> Extents:
    """Return the sizes of the largest contiguous blocks of at most `limit` elements: inner axes whole, outer ones cut.

    The cut axis is divided evenly.
    """
    sizes = []
    for extent in reversed(extents):
        parts = math.ceil(extent / min(max(limit, 1), extent)) if extent else 1
        size = math.ceil(extent / parts)
        sizes.append(size)
        limit //= max(size, 1)
    return tuple(reversed(sizes))


def count_boxes(shape: Extents, sizes: Extents) -> int:
    """Return the number of boxes of at most these sizes that a shape is cut into."""
    return math.prod(ceil_div(extent, size) for extent, size in zip(shape, sizes, strict=True))


def sizes_of_at_most(extents: Extents, limit: int) -> Extents:
    """Like `blocks`, but the cut axis is not divided evenly: its blocks are as large as `limit` allows."""
    sizes = []
    for extent in reversed(extents):
        size = max(min(limit, extent), 1)
        sizes.append(size)
        limit //= size
    return tuple(reversed(sizes))


def spread(extents: Extents, limit: int, cores: int) -> list[Extents]:
    """Return block sizes to try: the largest allowed, and those that give each core one to six blocks.

    Args:
        extents: the extents to cut; none is 0.
        limit: maximum elements per block.
        cores: number of blocks that run at once.

    Sizes are rounded up: rounding down could leave one block more than cores, which costs as much as a full round.
    """
    candidates = [blocks(extents, min(limit, math.ceil(math.prod(extents) / cores)))]
    for rounds in ROUNDS:
        outer = 1
        for axis, extent in enumerate(extents):
            parts = min(rounds * cores // outer, extent)
            if parts:
                sizes = (1,) * axis + (math.ceil(extent / parts), *extents[axis + 1 :])
                if math.prod(sizes) <= limit:
                    candidates.append(sizes)
            outer *= extent
    return list(dict.fromkeys(candidates))

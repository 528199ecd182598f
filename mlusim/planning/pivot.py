"""Tiles that are a range of one axis, the pivot, including all axes inside it: contiguous in a C-ordered tensor.

The outermost axis whose inner axes fit in an NRAM buffer gives the largest tiles; a pivot further in gives more and
smaller tiles, which occupy more cores. Planners try several pivots and choose by predicted time.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mlusim.hardware import Board
from mlusim.planning.search import tile_counts_below
from mlusim.planning.split import Cuts, cut_evenly
from mlusim.units import ceil_div, group_digits, plural

# Inner pivots are tried as long as they give at most this many tiles per core.
_MAX_TILES_PER_CORE = 64
# Tiles per core to try besides the minimum.
_ROUNDS = (1, 2, 3, 4, 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One way to cut a tensor into tiles.

    Attributes:
        pivot: the axis that is cut.
        outer: elements of the axes outside the pivot; each has its own tiles.
        extent: extent of the pivot.
        inner: elements of the axes inside the pivot.
        parts: tiles along the pivot.
        multiple: tiles begin at multiples of this many coordinates.
        size: largest extent of a tile along the pivot.
        tasks: tasks that share the tiles.
    """

    pivot: int
    outer: int
    extent: int
    inner: int
    parts: int
    multiple: int
    size: int
    tasks: int

    @property
    def tiles(self) -> int:
        """Total number of tiles."""
        return self.outer * self.parts

    @property
    def elements(self) -> int:
        """Elements of the largest tile."""
        return self.size * self.inner

    def bounds(self) -> Cuts:
        """Return starts and stops along the pivot; the parts differ by at most `multiple`."""
        starts, stops = cut_evenly(ceil_div(self.extent, self.multiple), self.parts)
        return starts * self.multiple, np.minimum(stops * self.multiple, self.extent)


def pivot_cuts(
    board: Board,
    extents: Sequence[int],
    itemsize: int,
    capacity_bytes: int,
    *,
    whole_bytes: int,
    limits: Sequence[int] = (),
    outermost: int = 0,
) -> Iterator[Cut]:
    """Yield a few cuts for each pivot whose tiles fit.

    Args:
        extents: extents of the tensor, all positive.
        itemsize: bytes per element.
        capacity_bytes: bytes of a buffer.
        whole_bytes: preferred alignment of tiles: where several multiples of it fit, there are cuts whose tiles begin
            at them, besides those whose tiles begin anywhere.
        limits: largest extent of a tile along each axis; unlimited by default.
        outermost: the first axis that may be the pivot.
    """
    limits = limits or extents
    any_cut = False
    for pivot in range(outermost, len(extents)):
        extent = extents[pivot]
        outer, inner = math.prod(extents[:pivot]), math.prod(extents[pivot + 1 :])
        if any_cut and outer > _MAX_TILES_PER_CORE * board.cores:
            return
        fitting = capacity_bytes // (inner * itemsize)
        if limits[pivot] < extent:
            fitting = min(fitting, limits[pivot])
        inner_is_whole = all(map(operator.le, extents[pivot + 1 :], limits[pivot + 1 :]))
        if not (fitting and inner_is_whole):
            continue
        aligned = whole_bytes // math.gcd(inner * itemsize, whole_bytes)
        for multiple in (aligned, 1) if 1 < aligned <= fitting and aligned < extent else (1,):
            for cut in _cuts_along(board, extents, pivot, fitting, multiple):
                # Additional tiles do not pay off if they share bus units.
                if not any_cut or cut.elements * itemsize >= whole_bytes:
                    any_cut = True
                    yield cut


def _cuts_along(board: Board, extents: Sequence[int], pivot: int, fitting: int, multiple: int) -> Iterator[Cut]:
    """Yield cuts into few parts, or so many that each core has a few tiles, of at most `fitting` along the pivot."""
    extent, outer = extents[pivot], math.prod(extents[:pivot])
    blocks = ceil_div(extent, multiple)
    fewest = ceil_div(blocks, fitting // multiple)
    counts = {fewest, fewest + 1} | {ceil_div(board.cores * rounds, outer) for rounds in _ROUNDS}
    counts |= {ceil_div(count, outer) for count in tile_counts_below(board.cores)}
    for parts in sorted(counts):
        if fewest <= parts <= blocks:
            yield Cut(
                pivot=pivot,
                outer=outer,
                extent=extent,
                inner=math.prod(extents[pivot + 1 :]),
                parts=parts,
                multiple=multiple,
                size=min(ceil_div(blocks, parts) * multiple, extent),
                tasks=min(board.cores, outer * parts),
            )


def tiles_text(board: Board, cut: Cut, buffers: int) -> str:
    """Describe the number of tiles and their size."""
    return (
        f"usable NRAM {group_digits(board.nram_usable_bytes)} B in {plural(buffers, 'buffer')}: "
        f"{plural(cut.tiles, 'tile')} of up to {group_digits(cut.elements)} elements"
    )

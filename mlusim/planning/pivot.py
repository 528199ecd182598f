"""Tiles that are a range of one axis, the pivot, with all that lies inside it: contiguous in a C-ordered tensor.

The outermost axis whose inside fits in a buffer of NRAM gives the largest tiles; a pivot further in gives more tiles of
smaller size, which occupy more cores. Planners try them and choose by predicted time.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mlusim.hardware import Board
from mlusim.planning.split import Cuts, cut_evenly
from mlusim.units import ceil_div, group_digits

# Pivots further in than the outermost that fits are tried while they make no more tiles than this for each core.
_TILES_A_CORE = 64
# Tiles for each core that are tried in addition to the fewest possible.
_ROUNDS = (1, 2, 3, 4, 6)
# Numbers of tiles that are tried where there are more cores.
FEW = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 19, 23, 27, 32, 38, 45, 54)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One way to cut a tensor into tiles.

    Attributes:
        pivot: the axis that is cut.
        outer: elements of the axes outside the pivot, each with tiles of its own.
        extent: of the pivot.
        inner: elements of the axes inside it.
        parts: tiles along the pivot.
        multiple: tiles begin at multiples of as many.
        rows: the most of the pivot in a tile.
        tasks: tasks that share the tiles.
    """

    pivot: int
    outer: int
    extent: int
    inner: int
    parts: int
    multiple: int
    rows: int
    tasks: int

    @property
    def tiles(self) -> int:
        """Tiles in all."""
        return self.outer * self.parts

    @property
    def elements(self) -> int:
        """The most elements of a tile."""
        return self.rows * self.inner

    def bounds(self) -> Cuts:
        """Starts and stops along the pivot; the parts differ by at most `multiple`."""
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
    """A few cuts for each pivot whose tiles fit.

    Args:
        board: the board's record.
        extents: of the tensor, all positive.
        itemsize: bytes of an element.
        capacity_bytes: bytes of a buffer.
        whole_bytes: tiles begin at multiples of as many bytes, where that leaves a tile at all, or at any.
        limits: the most of each axis that a tile may hold; by default any.
        outermost: the first axis that may be the pivot.
    """
    limits = limits or extents
    found = False
    for pivot, extent in enumerate(extents):
        outer, inner = math.prod(extents[:pivot]), math.prod(extents[pivot + 1 :])
        fitting = capacity_bytes // (inner * itemsize)
        if limits[pivot] < extent:
            fitting = min(fitting, limits[pivot])
        inside_fits = all(map(operator.le, extents[pivot + 1 :], limits[pivot + 1 :]))
        if pivot < outermost or not fitting or not inside_fits or (found and outer > _TILES_A_CORE * board.cores):
            continue
        whole = whole_bytes // math.gcd(inner * itemsize, whole_bytes)
        for multiple in sorted({whole if whole <= fitting else 1, 1} if whole < extent else {1}, reverse=True):
            blocks = ceil_div(extent, multiple)
            least = ceil_div(blocks, fitting // multiple)
            wanted = {least, least + 1} | {ceil_div(board.cores * rounds, outer) for rounds in _ROUNDS}
            # Clusters start one after the other, so that a small tensor is done sooner by a few cores.
            wanted |= {ceil_div(count, outer) for count in FEW if count < board.cores}
            for parts in sorted(wanted):
                rows = min(ceil_div(blocks, parts) * multiple, extent)
                # More tiles than there must be are of no use where they share bus units.
                if least <= parts <= blocks and (not found or rows * inner * itemsize >= whole_bytes):
                    found = True
                    tasks = min(board.cores, outer * parts)
                    yield Cut(
                        pivot=pivot,
                        outer=outer,
                        extent=extent,
                        inner=inner,
                        parts=parts,
                        multiple=multiple,
                        rows=rows,
                        tasks=tasks,
                    )


def tiles_in_words(board: Board, cut: Cut, buffers: int) -> str:
    """The number of tiles, and their size."""
    return (
        f"usable NRAM {group_digits(board.nram_usable_bytes)} B in {buffers} buffer{'s'[: buffers != 1]}: "
        f"{group_digits(cut.tiles)} tile{'s'[: cut.tiles != 1]} of up to {group_digits(cut.elements)} elements"
    )

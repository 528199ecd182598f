"""The kernel of reverse: tiles are loaded from the mirrored position in GDRAM, and reversed by the copy or on chip.

  reverse_tiles   (x, out, plan): out[i] = x[j], where j counts from the end along the reversed axes

x and out are contiguous tensors with equally many elements in GDRAM; the plan is that of
`planning.reverse.plan_reverse`, which explains groups, pivot and method. Address arithmetic and loops are not charged
to the scalar pipe.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING

from mlusim.kernels.boxes import copy_box_async, front_views
from mlusim.kernels.pipeline import run_stages
from mlusim.memory.view import View
from mlusim.planning.plan import Plan
from mlusim.planning.reverse import VECTOR_BYTES, ReverseParameters
from mlusim.planning.reverse_groups import mirrored_index
from mlusim.planning.tiles import Tile

if TYPE_CHECKING:
    from mlusim.cores.core import Core

_BACKWARD = slice(None, None, -1)
_FORWARD = slice(None)


async def reverse_tiles(core: Core, x: View, out: View, plan: Plan) -> None:
    """Reverse tile by tile, as the plan says.

    On boards of arch below 300, a vector operand that is not a multiple of 128 B has to end at the end of its
    allocation, so tiles of such sizes get buffers of exactly that size; the plan makes tiles of equal size adjacent.
    """
    if core.is_memory_core:
        return
    settings = plan.parameters_as(ReverseParameters)
    needs_aligned_tiles = core.board.needs_aligned_vectors and settings.method.passes
    inner, largest = plan.output_shape[2], settings.elements

    def buffer_elements(tile: Tile) -> int:
        elements = (tile.stop[1] - tile.start[1]) * inner
        return elements if elements * x.itemsize % VECTOR_BYTES else largest

    tiles = [*plan.tiles_of(core.task_id)]
    if not needs_aligned_tiles:
        await _reverse_equal_tiles(core, x, out, plan, largest, tiles)
        return
    for elements, equal in groupby(tiles, buffer_elements):
        with core.nram.scope():
            await _reverse_equal_tiles(core, x, out, plan, elements, [*equal])


async def _reverse_equal_tiles(core: Core, x: View, out: View, plan: Plan, elements: int, tiles: list[Tile]) -> None:
    """Reverse tiles that fit in buffers of `elements`.

    Between two syncs, tile i + 1 is loaded, tile i mirrored and tile i - 1 stored. An odd number of mirrors leaves the
    result in the other of a tile's two buffers. An even number leaves it where it was loaded, so three load buffers
    rotate, with one spare buffer for intermediate results.
    """
    settings = plan.parameters_as(ReverseParameters)
    overlapped, method = settings.overlapped, settings.method
    _, extent, inner = plan.output_shape
    source_of = mirrored_source(x, plan)
    target = out.reshape(-1)
    odd = len(method.passes) % 2 == 1
    buffers = 1
    if overlapped:
        buffers = 3 if method.passes and not odd else 2
    load_buffers = [core.nram.alloc(elements, x.dtype, f"loaded {buffer}") for buffer in range(buffers)]
    loaded_in = [front_views(buffer) for buffer in load_buffers]
    spares = (buffers if odd else 1) if method.passes else 0
    mirror_buffers = [core.nram.alloc(elements, x.dtype, f"mirrored {buffer}") for buffer in range(spares)]

    def load(position: int, tile: Tile) -> None:
        source = source_of(tile)
        copy_box_async(core, loaded_in[position % buffers](source.shape), source)

    # Tiles have few distinct sizes, so the views of the buffers are cached.
    @cache
    def mirrors(buffer: int, size: int) -> list[tuple[View, View]]:
        """Return destination and source of each mirror instruction: back and forth between the buffers of a tile."""
        pairs = []
        source, destination = load_buffers[buffer][: size * inner], mirror_buffers[buffer % spares][: size * inner]
        for width in mirror_widths(plan, size):
            pairs.append((destination.reshape(-1, width), source.reshape(-1, width)))
            source, destination = destination, source
        return pairs

    def mirror(position: int, tile: Tile) -> None:
        for dst, src in mirrors(position % buffers, tile.stop[1] - tile.start[1]):
            core.mirror(dst, src)

    def store(position: int, tile: Tile) -> None:
        first = (tile.start[0] * extent + tile.start[1]) * inner
        count = (tile.stop[1] - tile.start[1]) * inner
        buffer = mirror_buffers[position % spares] if odd else load_buffers[position % buffers]
        core.memcpy_async(target[first : first + count], buffer[:count])

    await run_stages(core, tiles, load, mirror if method.passes else None, store, overlapped=overlapped)


def mirrored_source(x: View, plan: Plan) -> Callable[[Tile], View]:
    """Return a function from a tile to its source, a view of x whose elements are in NRAM order.

    The last axis is a contiguous segment. The axes before it are loops over segments, backward if reversed.
    """
    settings = plan.parameters_as(ReverseParameters)
    groups, method, pivot = settings.groups, settings.method, settings.pivot
    outer, extent, inner = plan.output_shape
    loops = groups[pivot : method.segment]
    run = math.prod(group.extent for group in groups[method.segment :]) if loops else extent * inner
    flat, slabs = x.reshape(-1), x.reshape((outer, *(group.extent for group in loops), run))
    steps = tuple(_BACKWARD if group.flipped else _FORWARD for group in loops)

    def source_of(tile: Tile) -> View:
        slab = mirrored_index(tile.start[0], groups[:pivot])
        start, stop = tile.start[1], tile.stop[1]
        if groups[pivot].flipped:
            start, stop = extent - stop, extent - start
        if not loops:
            first = slab * extent
            return flat[(first + start) * inner : (first + stop) * inner]
        return slabs[slab, start:stop][steps]

    return source_of


def mirror_widths(plan: Plan, size: int) -> list[int]:
    """Return the row length reversed by each mirror instruction, in a tile of `size` coordinates of the pivot."""
    settings = plan.parameters_as(ReverseParameters)
    groups, pivot = settings.groups, settings.pivot
    return [
        (size if first == pivot else groups[first].extent) * math.prod(group.extent for group in groups[first + 1 :])
        for first in settings.method.passes
    ]

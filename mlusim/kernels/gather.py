"""The kernels of gather and gather_nd: out[lookup] = x[index[lookup]].

  gather_slab   loads the slab of x that the index of a tile can address, and selects within NRAM
  gather_rows   accesses GDRAM for each lookup

Both take (x, index, out, plan) and follow a plan of `planning.gather`. index contains the tuples in its last axis:
int32 or int64, negative values included. A lookup is one instruction of a counted loop or, from arch 592 on, part of
one `__gather`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mlusim.kernels.boxes import box_of, copy_box, front_views
from mlusim.kernels.index_tiles import IndexTiles
from mlusim.memory.view import View
from mlusim.planning.gather import GatherParameters
from mlusim.planning.lookup import LookupParameters
from mlusim.planning.lookup_cost import MOVES
from mlusim.planning.lookup_geometry import Box, Lookups
from mlusim.planning.plan import Plan

if TYPE_CHECKING:
    from mlusim.cores.core import Core, Kernel


def kernel_of(plan: Plan) -> Kernel:
    """Return the kernel that follows a plan of `plan_gather`."""
    return gather_rows if plan.parameters_as(LookupParameters).strategy == "rows" else gather_slab


async def gather_slab(core: Core, x: View, index: View, out: View, plan: Plan) -> None:
    """Tiers 1 and 2: a slab stays in NRAM while successive tiles of the core need it."""
    if core.is_memory_core:
        return
    settings = plan.parameters_as(GatherParameters)
    lookups = settings.lookups
    tuples = _tuples(index, lookups)
    slabs = front_views(core.nram.alloc(settings.slab, x.dtype, "slab"))
    if lookups.columns:
        values_in = front_views(core.nram.alloc(settings.values, x.dtype, "values"))
        reader = IndexTiles(core, index.dtype, settings.lookups_at_once, settings.index_arithmetic)
    loaded_box: Box | None = None
    rank = len(lookups.positions)
    for tile in plan.tiles_of(core.task_id):
        box = lookups.slab_of(tile.start, tile.stop)
        source = box_of(x, *box)
        slab = slabs(source.shape)
        if box != loaded_box:
            await copy_box(core, slab, source)
            loaded_box = box
        target = box_of(out, tile.start, tile.stop)
        if not lookups.columns:
            # Nothing to select: the slab is the tile or, in standard mode, each of its rows.
            gathered = len(lookups.gathered_axes)
            with_lookup_axes = slab.reshape(
                *slab.shape[: rank - gathered], *(1,) * gathered, *slab.shape[rank - gathered :]
            )
            await copy_box(core, target, with_lookup_axes.broadcast_to(*target.shape))
            continue
        origin = box_of(tuples, tile.start[:rank], tile.stop[:rank])
        addresses = lookups.addresses((tile.start, tile.stop), box, await reader.load(origin), origin)
        row = 0 if lookups.aligned else math.prod(target.shape[rank:])
        to, rows = values_in(target.shape, row), slabs(source.shape, row)
        if core.board.has_gather:
            offsets, _ = reader.offsets(addresses)
            await core.sync_compute()
            core.gather(to, rows, offsets)
            await core.sync_move()
        elif settings.method == MOVES:
            await core.memcpy_rows(to, rows, src_rows=addresses, blocking=False)
        else:
            await core.scalar_copy(to, rows, src_rows=addresses)
        await copy_box(core, target, values_in(target.shape))


async def gather_rows(core: Core, x: View, index: View, out: View, plan: Plan) -> None:
    """Tier 3: each lookup loads its row, or its chunk of the row, from GDRAM."""
    if core.is_memory_core:
        return
    settings = plan.parameters_as(GatherParameters)
    lookups = settings.lookups
    rank = len(lookups.positions)
    tuples = _tuples(index, lookups)
    values_in = front_views(core.nram.alloc(settings.values, x.dtype, "values"))
    reader = IndexTiles(core, index.dtype, settings.lookups_at_once, settings.index_arithmetic)
    for tile in plan.tiles_of(core.task_id):
        origin = box_of(tuples, tile.start[:rank], tile.stop[:rank])
        addresses = lookups.addresses(
            (tile.start, tile.stop), ((0,) * x.ndim, x.shape), await reader.load(origin), origin
        )
        rows = lookups.rows_of(x, (tile.start, tile.stop))
        to = values_in((addresses.count, *rows.shape[1:]))
        if core.board.has_gather:
            offsets, _ = reader.offsets(addresses)
            await core.sync_compute()
            core.gather(to, rows, offsets, known=addresses)
            await core.sync_io()
        else:
            await core.memcpy_rows(to, rows, src_rows=addresses, blocking=False)
        await copy_box(core, box_of(out, tile.start, tile.stop), values_in(tile.shape))


def _tuples(index: View, lookups: Lookups) -> View:
    """Return the index as tuples in its last axis; an index that repeats along shared axes has that shape already."""
    addresses = (*lookups.positions, lookups.columns)
    return index if index.shape == addresses or not lookups.columns else index.reshape(*addresses)

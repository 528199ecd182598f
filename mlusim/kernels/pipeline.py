"""The order in which a task's tiles pass through load, compute and store.

Overlapped, the stages of three tiles stand between two syncs: tile i - 1 is stored while tile i is computed and tile
i + 1 is loaded. Loads and stores share the one IO pipe of a core, so what this hides is the compute and the start-up of
the copies, not the loads behind the stores. One after the other, a tile needs fewer buffers, so it can be larger.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from mlusim.planning.tiles import Tile

if TYPE_CHECKING:
    from mlusim.cores.core import Core

Stage = Callable[[int, Tile], Awaitable[None] | None]
Store = Callable[[int, Tile], None]


async def run_stages(
    core: Core, tiles: Sequence[Tile], load: Stage, compute: Stage | None, store: Store, *, overlapped: bool
) -> None:
    """Pass every tile through its stages, with the syncs that order them.

    Args:
        core: the core that runs it.
        tiles: in the order in which they are handled.
        load, compute, store: called with the tile's position in `tiles` and the tile. They issue; what they issue for
            a tile is complete when its next stage is called. Plain functions where they wait for nothing, which a
            store never does. None: nothing to compute.
        overlapped: the stages of successive tiles stand between the same two syncs. Then no two of load(i + 1),
            compute(i) and store(i - 1) may use one buffer; without a compute, no two of load(i + 1) and store(i).
    """
    if not overlapped and compute is None:
        # The one IO pipe takes loads and stores in the order in which they are issued: they need no sync between them.
        for position, tile in enumerate(tiles):
            if waits := load(position, tile):
                await waits
            store(position, tile)
        await core.sync()
        return
    if not overlapped:
        for position, tile in enumerate(tiles):
            if waits := load(position, tile):
                await waits
            await core.sync()
            assert compute is not None  # noqa: S101 - for the type checker
            if waits := compute(position, tile):
                await waits
            await core.sync()
            store(position, tile)
            await core.sync()
        return
    count = len(tiles)
    behind = 1 if compute is None else 2
    for step in range(count + behind):
        if step >= behind:
            # Ahead of the load, so that the start-up of the load passes while the store moves its bytes.
            store(step - behind, tiles[step - behind])
        if step < count and (waits := load(step, tiles[step])):
            await waits
        if compute is not None and 1 <= step <= count and (waits := compute(step - 1, tiles[step - 1])):
            await waits
        await core.sync()

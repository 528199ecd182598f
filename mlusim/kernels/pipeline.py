"""The schedule of a task's tiles through load, compute and store.

Overlapped, the stages of three tiles run between two syncs: tile i - 1 is stored while tile i is computed and tile
i + 1 is loaded. Loads and stores share the core's one IO pipe, so this hides the compute and the start-up of copies,
but not loads behind stores. Sequential stages need fewer buffers, so tiles can be larger.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from mlusim.planning.tiles import Tile

if TYPE_CHECKING:
    from mlusim.cores.core import Core

Stage = Callable[[int, Tile], Awaitable[None] | None]
Store = Callable[[int, Tile], None]


async def run_stages(
    core: Core,
    tiles: Sequence[Tile],
    load: Stage,
    compute: Stage | None,
    store: Store,
    *,
    overlapped: bool,
    skippable: bool = True,
) -> None:
    """Pass every tile through its stages, with the syncs that order them.

    Args:
        core: the core that runs the stages.
        tiles: the tiles, in processing order.
        load, compute, store: called with the tile's index in `tiles` and the tile. They issue operations, which are
            complete when the tile's next stage is called. Plain functions unless they have to wait; stores never do.
            None: nothing to compute.
        overlapped: stages of successive tiles run between the same two syncs. Then load(i + 1), compute(i) and
            store(i - 1) must use different buffers; without a compute stage, load(i + 1) and store(i).
        skippable: the stages depend on the tiles alone, and not on data, as `Core.loop` requires.
    """
    count = len(tiles)

    def steps(number: int) -> Iterable[int]:
        return core.loop(range(number), along=tiles) if skippable else range(number)

    if not overlapped:
        for position in steps(count):
            if waits := load(position, tiles[position]):
                await waits
            # The IO pipe executes loads and stores in issue order, so they need no sync between them.
            if compute is not None:
                await core.sync()
                if waits := compute(position, tiles[position]):
                    await waits
                await core.sync()
            store(position, tiles[position])
            if compute is not None:
                await core.sync()
        if compute is None:
            await core.sync()
        return
    delay = 1 if compute is None else 2
    for step in steps(count + delay):
        if step >= delay:
            # Issue the store before the load, so that the start-up of the load overlaps the store.
            store(step - delay, tiles[step - delay])
        if step < count and (waits := load(step, tiles[step])):
            await waits
        if compute is not None and 1 <= step <= count and (waits := compute(step - 1, tiles[step - 1])):
            await waits
        await core.sync()

"""out = x + y. Every task computes all of it: divide the tiles among the tasks."""

TILE = 4096


async def kernel(core, x, y, out):
    if core.is_memory_core:
        return
    a, b = core.nram.alloc(TILE, x.dtype), core.nram.alloc(TILE, x.dtype)
    for start in range(0, x.size, TILE):  # which tiles are this task's?
        await core.memcpy(a, x[start : start + TILE])
        await core.memcpy(b, y[start : start + TILE])
        core.add(a, a, b)
        await core.memcpy(out[start : start + TILE], a)

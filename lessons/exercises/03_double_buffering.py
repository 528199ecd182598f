"""out = 3 x on one core, correct but slow: let the next load and the previous store overlap the mul."""

TILE = 4096


async def kernel(core, x, out):
    tile = core.nram.alloc(TILE, x.dtype)  # one buffer: what would two allow?
    for start in range(0, x.size, TILE):
        await core.memcpy(tile, x[start : start + TILE])
        core.mul(tile, tile, 3.0)
        await core.memcpy(out[start : start + TILE], tile)

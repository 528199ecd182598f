"""out = 3 x on one core, in three stages."""

TILE = 4096


async def kernel(core, x, out):
    tile = core.nram.alloc((2, TILE), x.dtype)
    tiles = range(0, x.size, TILE)
    for step in range(len(tiles) + 2):
        if step >= 2:
            core.memcpy_async(out[tiles[step - 2] : tiles[step - 2] + TILE], tile[step % 2])
        if step < len(tiles):
            core.memcpy_async(tile[step % 2], x[tiles[step] : tiles[step] + TILE])
        if 1 <= step <= len(tiles):
            core.mul(tile[(step - 1) % 2], tile[(step - 1) % 2], 3.0)
        await core.sync()

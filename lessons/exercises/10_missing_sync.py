"""out = x y + x, tile by tile. The result is correct by luck: two pairs of operations are not ordered."""

TILE = 4096


async def kernel(core, x, y, out):
    if core.is_memory_core:
        return
    a, b = core.nram.alloc(TILE, x.dtype, "a"), core.nram.alloc(TILE, x.dtype, "b")
    product, mask = core.nram.alloc(TILE, x.dtype, "product"), core.nram.alloc(1 << 17, x.dtype, "mask")
    for start in range(core.task_id * TILE, x.size, core.task_dim * TILE):
        await core.memcpy(a, x[start : start + TILE])
        core.memcpy_async(b, y[start : start + TILE])
        core.fill(mask, 0)
        core.mul(product, a, b)
        core.add(product, product, a)
        await core.sync_compute()
        core.memcpy_async(out[start : start + TILE], product)
        core.fill(mask, 1)
        core.fill(product, 0)
        await core.sync()

"""out = x y + x, with both races fixed."""

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
        await core.sync_io()
        core.mul(product, a, b)
        core.add(product, product, a)
        await core.sync_compute()
        core.memcpy_async(out[start : start + TILE], product)
        core.fill(mask, 1)
        await core.sync_io()
        core.fill(product, 0)
        await core.sync()

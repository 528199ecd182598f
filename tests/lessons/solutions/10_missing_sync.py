"""out = x y + x, both races closed."""

TILE = 4096


async def kernel(core, x, y, out):
    if core.is_memory_core:
        return
    a, b = core.nram.alloc(TILE, x.dtype), core.nram.alloc(TILE, x.dtype)
    product = core.nram.alloc(TILE, x.dtype)
    for start in range(core.task_id * TILE, x.size, core.task_dim * TILE):
        await core.memcpy(a, x[start : start + TILE])
        core.memcpy_async(b, y[start : start + TILE])
        await core.sync_io()
        core.mul(product, a, b)
        core.add(product, product, a)
        await core.sync_compute()
        core.memcpy_async(out[start : start + TILE], product)
        await core.sync()

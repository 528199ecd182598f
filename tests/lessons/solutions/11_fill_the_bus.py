"""out = x by all cores, in large tiles and two buffers."""


async def kernel(core, x, out):
    if core.is_memory_core:
        return
    part = -(-x.size // core.task_dim)
    first, last = min(core.task_id * part, x.size), min((core.task_id + 1) * part, x.size)
    tile = core.nram.usable_bytes // 4 // x.itemsize // 64 * 64
    data = core.nram.alloc((2, tile), x.dtype)
    for number, start in enumerate(range(first, last, tile)):
        n = min(tile, last - start)
        core.memcpy_async(data[number % 2, :n], x[start : start + n])
        core.memcpy_async(out[start : start + n], data[number % 2, :n])
    await core.sync()

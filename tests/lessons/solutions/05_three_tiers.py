"""out = x, channel by channel, or in segments of as many rows as fit."""


async def kernel(core, x, out):
    if core.is_memory_core:
        return
    channels, time, elements = x.shape
    rows = min(time, core.nram.usable_bytes // (elements * x.itemsize))
    tile = core.nram.alloc((rows, elements), x.dtype)
    for channel in range(core.task_id, channels, core.task_dim):
        for begin in range(0, time, rows):
            end = min(begin + rows, time)
            await core.memcpy(tile[: end - begin], x[channel, begin:end])
            await core.memcpy(out[channel, begin:end], tile[: end - begin])

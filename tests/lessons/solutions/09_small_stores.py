"""out = the first 8 elements of each row of x: one strided load, one store."""


async def kernel(core, x, out):
    held = core.nram.alloc((x.shape[0], 8), x.dtype)
    await core.memcpy(held, x[:, :8])
    await core.memcpy(out, held)

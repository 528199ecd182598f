"""out[i] = x[rows[i]], `rows` a list of numbers. One copy in and one out for each: many are neighbours."""


async def kernel(core, x, out, rows):
    held = core.nram.alloc((len(rows), x.shape[1]), x.dtype)
    for place, row in enumerate(rows):
        await core.memcpy(held[place], x[row])
        await core.memcpy(out[place], held[place])

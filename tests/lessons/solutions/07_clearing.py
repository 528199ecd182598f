"""Each row of out is a row of x between margins of zeros, which are cleared only once."""


async def kernel(core, x, out, margin):
    if core.is_memory_core:
        return
    rows, elements = x.shape
    row = core.nram.alloc(elements + 2 * margin, x.dtype)
    core.write_zero(row[:margin])
    core.write_zero(row[margin + elements :])
    for number in range(core.task_id, rows, core.task_dim):
        await core.memcpy(row[margin : margin + elements], x[number])
        await core.memcpy(out[number], row)

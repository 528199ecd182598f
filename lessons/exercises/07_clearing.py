"""Each row of out is a row of x with `margin` zeros before and after it. All of the NRAM is cleared for every row."""


async def kernel(core, x, out, margin):
    if core.is_memory_core:
        return
    rows, elements = x.shape
    buffer = core.nram.alloc(core.nram.usable_bytes // x.itemsize, x.dtype)
    row = buffer[: elements + 2 * margin]
    for number in range(core.task_id, rows, core.task_dim):
        core.write_zero(buffer)
        await core.memcpy(row[margin : margin + elements], x[number])
        await core.memcpy(out[number], row)

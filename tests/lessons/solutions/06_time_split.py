"""out[t] = x[t - shift], zeros where there is no such row: only existing rows of a segment are loaded."""

SEGMENT = 4


async def kernel(core, x, out, shift):
    time, elements = x.shape
    tile = core.nram.alloc((SEGMENT, elements), x.dtype)
    for begin in range(0, time, SEGMENT):
        end = min(begin + SEGMENT, time)
        first, last = max(begin - shift, 0), min(end - shift, time)
        core.write_zero(tile)
        if first < last:
            place = first - (begin - shift)
            await core.memcpy(tile[place : place + last - first], x[first:last])
        await core.memcpy(out[begin:end], tile[: end - begin])

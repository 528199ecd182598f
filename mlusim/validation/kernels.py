"""The measured kernels.

Vendor kernels without published source share one template, `pipelined`: every core processes an equal slice in tiles
that fill its NRAM, double buffered. It was written before any parameter was fitted. The others follow their published
source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mlusim.units import ceil_div

if TYPE_CHECKING:
    from mlusim.cores.core import Core
    from mlusim.memory.view import View

Tile = tuple[int, ...]
# Issues the instructions of one stage for a tile; its first argument is the buffer, 0 or 1.
Stage = Callable[..., None]

# ASSUMED: tiles per core. The rows of 4 and 8 KB are consistent with a log1p that hides its copies, hence many tiles.
_LOG1P_TILES = 8


async def pipelined(core: Core, tiles: Sequence[Tile], load: Stage, compute: Stage | None, store: Stage) -> None:
    """Load tile i, compute on tile i - 1 and store tile i - 2 at the same time, followed by one sync.

    Two stages without a compute function. The store is issued first, so that it frees a buffer for the load after it
    in the same pipe.
    """
    delay = 2 if compute else 1
    for step in range(len(tiles) + delay):
        if step >= delay:
            store((step - delay) % 2, *tiles[step - delay])
        if compute and 1 <= step <= len(tiles):
            compute((step - 1) % 2, *tiles[step - 1])
        if step < len(tiles):
            load(step % 2, *tiles[step])
        await core.sync()


def slice_of(core: Core, count: int, unit: int) -> tuple[int, int]:
    """Return this core's equal share of `count` elements, in whole units."""
    share = ceil_div(ceil_div(count, core.task_dim), unit) * unit
    return min(core.task_id * share, count), min((core.task_id + 1) * share, count)


def tiles_of(first: int, last: int, limit: int) -> list[tuple[int, int]]:
    """Divide [first, last) into tiles of `limit`, the last one possibly shorter."""
    return [(start, min(start + limit, last)) for start in range(first, last, limit)]


def fitting(core: Core, buffers: int, itemsize: int) -> int:
    """Return the elements of each of `buffers` equal buffers that fill the NRAM."""
    unit = core.board.vector_alignment_bytes
    return core.board.nram_usable_bytes // buffers // unit * unit // itemsize


async def copy(core: Core, out: Sequence[View], *inputs: View) -> None:
    """Contiguous copies of blocks, one after another: a copy for one block, a concat for several."""
    if core.is_memory_core:
        return
    size = fitting(core, 2, inputs[0].itemsize)
    buffers = [core.nram.alloc(size, inputs[0].dtype) for _ in range(2)]
    unit = core.board.vector_alignment_bytes // inputs[0].itemsize
    tiles = [
        (block, start, stop)
        for block, source in enumerate(inputs)
        for start, stop in tiles_of(*slice_of(core, source.shape[0], unit), size)
    ]

    def load(k: int, block: int, start: int, stop: int) -> None:
        core.memcpy_async(buffers[k][: stop - start], inputs[block][start:stop])

    def store(k: int, block: int, start: int, stop: int) -> None:
        core.memcpy_async(out[block][start:stop], buffers[k][: stop - start])

    await pipelined(core, tiles, load, None, store)


async def add(core: Core, a: View, b: View, out: View) -> None:
    """Three-stage add of halves computed in float, in place in the first operand's buffer."""
    if core.is_memory_core:
        return
    # Two tiles of both operands, and both operands converted to float.
    size = fitting(core, 8, a.itemsize)
    pairs = [[core.nram.alloc(size, a.dtype) for _ in range(2)] for _ in range(2)]
    wide = [core.nram.alloc(size, "float32") for _ in range(2)]
    unit = core.board.vector_alignment_bytes // a.itemsize

    def load(k: int, start: int, stop: int) -> None:
        for buffer, source in zip(pairs[k], (a, b), strict=True):
            core.memcpy_async(buffer[: stop - start], source[start:stop])

    def compute(k: int, start: int, stop: int) -> None:
        count = stop - start
        left, right = (buffer[:count] for buffer in pairs[k])
        for buffer, source in zip(wide, (left, right), strict=True):
            core.convert(buffer[:count], source)
        core.add(wide[0][:count], wide[0][:count], wide[1][:count])
        core.convert(left, wide[0][:count])

    def store(k: int, start: int, stop: int) -> None:
        core.memcpy_async(out[start:stop], pairs[k][0][: stop - start])

    await pipelined(core, tiles_of(*slice_of(core, a.shape[0], unit), size), load, compute, store)


async def expand(core: Core, source: View, out: View) -> None:
    """One element to all: fill the NRAM once, and store it repeatedly."""
    if core.is_memory_core:
        return
    size = fitting(core, 1, out.itemsize)
    buffer = core.nram.alloc(size, out.dtype)
    await core.memcpy(buffer[:1], source)
    core.fill(buffer, 0)  # any value: only the time is measured
    await core.sync()
    unit = core.board.vector_alignment_bytes // out.itemsize
    for start, stop in tiles_of(*slice_of(core, out.shape[0], unit), size):
        core.memcpy_async(out[start:stop], buffer[: stop - start])
    await core.sync()


async def fill_one(core: Core, out: View) -> None:
    """One element, by the first task."""
    if core.is_memory_core or core.task_id:
        return
    buffer = core.nram.alloc(core.board.vector_alignment_bytes, out.dtype)
    core.fill(buffer, 1)
    await core.sync()
    await core.memcpy(out, buffer[:1])


async def transpose(core: Core, x: View, out: View, height: int, width: int) -> None:
    """2-D transpose in tiles of height x width, a quarter of NRAM each: load, `__bang_transpose`, store."""
    if core.is_memory_core:
        return
    tall, wide = [[core.nram.alloc(height * width, x.dtype) for _ in range(2)] for _ in range(2)]
    rows, columns = x.shape
    # The tiles (top, left, height, width), column by column.
    tiles = [
        (top, left, min(height, rows - top), min(width, columns - left))
        for left in range(0, columns, width)
        for top in range(0, rows, height)
    ]

    def load(k: int, top: int, left: int, h: int, w: int) -> None:
        core.memcpy_async(tall[k][: h * w].reshape(h, w), x[top : top + h, left : left + w])

    def compute(k: int, _top: int, _left: int, h: int, w: int) -> None:
        core.transpose(wide[k][: h * w].reshape(w, h), tall[k][: h * w].reshape(h, w))

    def store(k: int, top: int, left: int, h: int, w: int) -> None:
        core.memcpy_async(out[left : left + w, top : top + h], wide[k][: h * w].reshape(w, h))

    await pipelined(core, tiles[core.task_id :: core.task_dim], load, compute, store)


async def stream(core: Core, out: View, nram_bytes: int, *inputs: View, scaled: bool = False) -> None:
    """The four STREAM kernels of InfiniBench: all copies block, NRAM is divided into equal buffers.

    One input: copy, or scale if `scaled`; two inputs: add, or triad, which multiplies one operand first.
    """
    if core.is_memory_core:
        return
    count = 1 if len(inputs) == 1 else len(inputs) + 1
    size = nram_bytes // count // out.itemsize
    buffers = [core.nram.alloc(size, out.dtype) for _ in range(count)]
    for start, stop in tiles_of(*slice_of(core, out.shape[0], 1), size):
        parts = [buffer[: stop - start] for buffer in buffers]
        for part, source in zip(parts, inputs, strict=False):
            await core.memcpy(part, source[start:stop])
        if len(inputs) > 1:
            if scaled:
                core.mul(parts[1], parts[1], 3.0)
            core.add(parts[-1], parts[0], parts[1])
        elif scaled:
            core.mul(parts[0], parts[0], 3.0)
        await core.sync()
        await core.memcpy(out[start:stop], parts[-1])


async def vector_add(core: Core, a: View, b: View, out: View, chunk: int) -> None:
    """The first example of the guide: blocking loads, add in place, blocking store."""
    buffer, other = core.nram.alloc(chunk, a.dtype), core.nram.alloc(chunk, a.dtype)
    for start, stop in tiles_of(*slice_of(core, a.shape[0], 1), chunk):
        left, right = buffer[: stop - start], other[: stop - start]
        await core.memcpy(left, a[start:stop])
        await core.memcpy(right, b[start:stop])
        core.add(left, left, right)
        await core.sync()
        await core.memcpy(out[start:stop], left)


async def hard_sigmoid(core: Core, x: View, out: View, chunk: int) -> None:
    """The hard_sigmoid of bangpy-ops: two alternating chunks, one chunk of constants; load, 4 x (fill, binary), store.

    It is uncertain whether load and store overlap the compute: the committed kernel is double buffered, and one chunk
    of 8 passes on 4 tasks takes no longer than the passes alone.
    """
    buffers = [core.nram.alloc(chunk, x.dtype) for _ in range(2)]
    constants = core.nram.alloc(chunk, x.dtype)

    def load(k: int, start: int, stop: int) -> None:
        core.memcpy_async(buffers[k][: stop - start], x[start:stop])

    def compute(k: int, start: int, stop: int) -> None:
        buffer, constant = buffers[k][: stop - start], constants[: stop - start]
        for value, instruction in ((1 / 6, core.mul), (0.5, core.add), (1.0, core.minequal), (0.0, core.maxequal)):
            core.fill(constant, value)
            instruction(buffer, buffer, constant)

    def store(k: int, start: int, stop: int) -> None:
        core.memcpy_async(out[start:stop], buffers[k][: stop - start])

    await pipelined(core, tiles_of(*slice_of(core, x.shape[0], 32), chunk), load, compute, store)


async def row_loads(core: Core, x: View, lengths: View, out: View, width: int) -> None:
    """Program (v, s): `lengths[s]` iterations of a blocking load of `width` columns, compare, select, add, log, max.

    The source is a Triton kernel, which reads its length and sums those before it. In triton-linalg, Cambricon's front
    end, a masked load is a copy and a pad, that is, a fill with the value for masked elements and a copy within NRAM; a
    select has two tensor operands. The back end's implementation of select is not public. This one follows kernels of
    mlu-ops, which convert a comparison's 1.0 or 0.0 to -1 or 0 and combine the operands bitwise.
    """
    v, s = divmod(core.task_id, lengths.size)
    columns = slice(v * width, min((v + 1) * width, x.shape[1]))
    count = columns.stop - columns.start
    loaded, row, best, positive = (core.nram.alloc(width, x.dtype) for _ in range(4))
    mask, other = (core.nram.alloc(width, "int32") for _ in range(2))
    bits = row.view("int32")
    rows = int(await core.load(lengths[s]))
    first = sum([int(await core.load(lengths[before])) for before in range(s)])
    core.fill(best, -math.inf)
    core.fill(other, 0)
    for row_number in range(first, first + rows):
        await core.memcpy(loaded[:count], x[row_number, columns])
        core.fill(row, -math.inf)
        core.move(row[:count], loaded[:count])
        core.gt(positive, row, 0.0)
        core.convert(mask, positive, "rn")
        core.mul(mask, mask, -1)
        core.band(bits, bits, mask)
        core.bnot(mask, mask)
        core.band(mask, other, mask)
        core.bor(bits, bits, mask)
        core.add(row, row, 1.0)
        core.log(row, row)
        core.maxequal(best, best, row)
        await core.sync()
    await core.memcpy(out[s, columns], best[:count])


async def log1p(core: Core, x: View, out: View) -> None:
    """Three-stage pipeline: load, add one and logarithm, store."""
    first, last = slice_of(core, x.shape[0], 32)
    size = min(fitting(core, 4, x.itemsize), ceil_div(ceil_div(last - first, _LOG1P_TILES), 32) * 32)
    buffers = [core.nram.alloc(size, x.dtype) for _ in range(2)]
    results = [core.nram.alloc(size, x.dtype) for _ in range(2)]

    def load(k: int, start: int, stop: int) -> None:
        core.memcpy_async(buffers[k][: stop - start], x[start:stop])

    def compute(k: int, start: int, stop: int) -> None:
        result = results[k][: stop - start]
        core.add(result, buffers[k][: stop - start], 1.0)
        core.log(result, result)

    def store(k: int, start: int, stop: int) -> None:
        core.memcpy_async(out[start:stop], results[k][: stop - start])

    await pipelined(core, tiles_of(first, last, size), load, compute, store)

"""Lengths, paddings, layouts."""

from __future__ import annotations

import numpy as np

import mlusim
from mlusim import Output
from vendor_idioms.registry import OUT, X, idiom


@idiom(X[:, :50], Output((24, 50)), reference=np.sqrt(X[:, :50]))
async def rounded_up_length(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile[0:50], x[row])
        core.sqrt(tile, tile)
        await core.memcpy(out[row], tile[0:50])


@idiom(X[:, :50], Output((24, 50)), reference=2 * X[:, :50], device="mlu270")
async def rounded_up_length_on_an_old_board(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile[0:50], x[row])
        core.add(tile, tile, tile)
        await core.memcpy(out[row], tile[0:50])


@idiom(X[:, :50], Output((24,)), reference=X[:, :50].sum(axis=1))
async def sum_over_a_cleared_padding(core, x, out):
    if core.is_memory_core:
        return
    tile, result = core.nram.alloc(64, x.dtype, "tile"), core.nram.alloc(32, x.dtype, "result")
    core.write_zero(tile)
    await core.sync_compute()
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile[0:50], x[row])
        core.sumpool(result[0:1].reshape(1, 1, 1), tile.reshape(64, 1, 1), 64, 1)
        await core.memcpy(out[row : row + 1], result[0:1])


@idiom(X[:23], Output((64, 23)), reference=X[:23].T)
async def transpose_of_a_padded_square(core, x, out):
    if core.is_memory_core or core.core_id:
        return
    tile, turned = core.nram.alloc((32, 64), x.dtype, "tile"), core.nram.alloc((64, 32), x.dtype, "turned")
    await core.memcpy(tile[0:23], x)
    core.transpose(turned, tile)
    await core.memcpy(out, turned[0:64, 0:23])


@idiom(X, Output((24, 64), pitch=80), reference=2 * X)
async def output_with_a_pitch(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((6, 64), x.dtype, "tile")
    rows = slice(6 * core.core_id, 6 * core.core_id + 6)
    await core.memcpy(tile, x[rows])
    core.add(tile, tile, tile)
    await core.memcpy(out[rows], tile)


@idiom(X, Output((24, 128)), reference=np.repeat(X, 2, axis=1))
async def interleaved_strided_stores(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((6, 64), x.dtype, "tile")
    first = 6 * core.core_id
    await core.memcpy(tile, x[first : first + 6])
    for half in range(2):
        await core.memcpy(
            out[first : first + 6, half:128:2] if not half else out[first : first + 6, 1:127:2],
            tile[0:6, 0:64] if not half else tile[0:6, 0:63],
        )
    await core.memcpy(out[first : first + 6, 127:128], tile[0:6, 63:64])


@idiom(X, OUT, reference=X)
async def columns_of_one_tensor(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((24, 16), x.dtype, "tile")
    columns = slice(16 * core.core_id, 16 * core.core_id + 16)
    await core.memcpy(tile, x[0:24, columns])
    await core.memcpy(out[0:24, columns], tile)


@idiom(X, Output((4, 24, 64)), reference=np.broadcast_to(X, (4, 24, 64)))
async def source_stride_of_zero(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((6, 64), x.dtype, "tile")
    rows = slice(6 * core.core_id, 6 * core.core_id + 6)
    await core.memcpy(tile, x[rows])
    await core.memcpy(out[0:4, rows], tile.reshape(1, 6, 64).broadcast_to(4, 6, 64))


@idiom(X, OUT, reference=X)
async def byte_form_with_segments(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((6, 64), x.dtype, "tile")
    source, target = x.pointer + 6 * 64 * core.core_id, out.pointer + 6 * 64 * core.core_id
    await core.memcpy(tile.pointer, source, 128, mlusim.Direction.GDRAM2NRAM, 256, 256, 5)
    await core.memcpy(tile.pointer + 32, source + 32, 128, mlusim.Direction.GDRAM2NRAM, 256, 256, 5)
    await core.memcpy(target, tile.pointer, 6 * 256, mlusim.Direction.NRAM2GDRAM)


@idiom(X, OUT, reference=np.concatenate([X[:, 32:], X[:, :32]], axis=1))
async def halves_of_one_buffer_exchanged(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc((2, 96), x.dtype, "tile")
    for row in range(core.task_id, 24, core.task_dim):
        await core.memcpy(tile[0, 0:64], x[row])
        await core.memcpy(tile[0, 64:96], tile[0, 0:32])
        await core.memcpy(out[row], tile[0, 32:96])


@idiom(X, OUT, reference=X)
async def every_other_element_to_the_gaps(core, x, out):
    """The two sides lie within each other and share no byte."""
    if core.is_memory_core or core.core_id:
        return
    tile = core.nram.alloc((24, 128), x.dtype, "tile")
    await core.memcpy(tile[0:24, 0:127:2], x)
    await core.memcpy(tile[0:24, 1:128:2], tile[0:24, 0:127:2])
    await core.memcpy(out, tile[0:24, 1:128:2])

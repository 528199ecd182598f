"""Instructions whose cost depends on more than their operands are retimed exactly."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from mlusim import Device
from mlusim.cores.core import Core
from mlusim.memory.view import View


async def some_of_each(core: Core, x: View, total: View, out: View) -> None:
    tile, pooled = core.nram.alloc((8, 8, 64), "float32"), core.nram.alloc((4, 4, 64), "float32")
    weights, product = core.wram.alloc((64, 64), "float32"), core.nram.alloc((16, 64), "float32")
    half, pair = core.nram.alloc((8, 8, 64), "float16"), core.nram.alloc(3, "float32")
    await core.memcpy(tile, x)
    core.sumpool(pooled, tile, 2, 2)
    core.abs(pooled, pooled)
    core.log2(pooled, pooled)
    core.float2half_rn(half, tile)
    core.reshape_filter(product.reshape(-1)[:1024].reshape(64, 1, 1, 16), tile.reshape(-1)[:1024].reshape(64, 1, 1, 16))
    await core.memcpy(weights, tile.reshape(-1)[:4096].reshape(64, 64))
    core.matmul(product, tile.reshape(-1)[:1024].reshape(16, 64), weights)
    core.argmax(pair, product)
    await core.count(product)
    await core.atomic_reduce_add(total, pair[:1])
    await core.gdramset(out[:8], 1)
    await core.memcpy(out[8:], product.reshape(-1)[: out.size - 8])


def ran(name: str) -> mlusim.Result:
    device = Device(name)
    x = device.upload(np.ones((8, 8, 64), np.float32))
    total = device.upload(np.zeros(1, np.float32), writable=True)
    device.launch(some_of_each, x, total, device.alloc(512, "float32"), dim=4, kind="BLOCK")
    device.synchronize()
    return device.result()


@pytest.mark.parametrize("board", ["mlu370-x4", "mlu590-h8"])
def test_retimed_instructions_match_a_fresh_run(board: str) -> None:
    run = ran("mlu370-x4")
    again = mlusim.retime(run, board, keep_split=True)
    assert again.time_ps == ran(board).time_ps


@pytest.mark.parametrize("dtype", ["int8", "int16", "float16"])
def test_a_matmul_in_buffers_of_bytes_keeps_its_element_type(dtype: str) -> None:
    """The tensor pipe's rates differ between int16 and float16, whose buffers look alike in a log."""

    async def product(core: Core, x: View) -> None:
        itemsize = np.dtype(dtype).itemsize
        left = core.nram.alloc(64 * 64 * itemsize, "uint8").view(dtype).reshape(64, 64)
        weights = core.wram.alloc(64 * 64 * itemsize, "uint8").view(dtype).reshape(64, 64)
        await core.memcpy(left, x)
        await core.memcpy(weights, x)
        core.matmul(core.nram.alloc((64, 64), "float32"), left, weights)

    def ran(name: str) -> mlusim.Result:
        device = Device(name)
        device.launch(product, device.upload(np.ones((64, 64), dtype)), dim=4, kind="BLOCK")
        device.synchronize()
        return device.result()

    assert mlusim.retime(ran("mlu370-x4"), "mlu590-h8").time_ps == ran("mlu590-h8").time_ps

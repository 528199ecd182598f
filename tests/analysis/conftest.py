"""Runs used by several tests: a staged kernel that uses every pipe, and a tin_shift with its plan."""

import numpy as np
import pytest

from mlusim.host.device import Device
from mlusim.ops.tin_shift import tin_shift_forward

ROWS, WIDTH, ROUNDS, CLUSTERS = 64, 512, 2, 4


async def staged(core, source, out):
    """Rows through SRAM by the memory core; the cores compute, store and write them back."""
    stage = core.sram.alloc((core.core_dim, WIDTH), source.dtype, "stage")
    if not core.is_memory_core:
        loaded, computed = core.nram.alloc(WIDTH, source.dtype), core.nram.alloc(WIDTH, source.dtype)
    cluster = core.task_id // core.core_dim
    for turn in range(ROWS // core.task_dim):
        first = (turn * CLUSTERS + cluster) * core.core_dim
        if core.is_memory_core:
            await core.memcpy(stage, source[first : first + core.core_dim])
        await core.sync_cluster()
        if not core.is_memory_core:
            await core.memcpy(loaded, stage[core.core_id])
            core.add(computed, loaded, loaded)
            await core.sync()
            core.move(loaded, computed)
            await core.sync_move()
            core.memcpy_async(out[first + core.core_id], loaded)
            core.scalar(10)
            await core.sync()
            core.store(out[first + core.core_id, 0], 1.0)
            core.store(out[first + core.core_id, 1], 2.0)
            core.scalar()
        await core.sync_cluster()


@pytest.fixture(scope="session")
def staged_device():
    device = Device("mlu370-x4")
    source = device.upload(np.ones((ROWS, WIDTH), np.float32), "source")
    out = device.alloc((ROWS, WIDTH), np.float32, "out")
    for _ in range(2):
        device.launch(staged, source, out, dim=(4, CLUSTERS, 1))
    device.synchronize()
    return device


def shifted(strategy="documented", device="mlu370-x4", shape=(2, 6, 24, 50)):
    generator = np.random.default_rng(3)
    x = generator.standard_normal(shape).astype(np.float16)
    shifts = generator.integers(-3, 4, (shape[0], 4)).astype(np.int32)
    return tin_shift_forward(x, shifts, device=device, strategy=strategy)


@pytest.fixture(scope="session")
def result():
    return shifted()


@pytest.fixture(scope="session")
def make_result():
    return shifted


@pytest.fixture(scope="session")
def staged_result(staged_device):
    return staged_device.result("staged")

"""store_array and load_array: numbers between registers and memory."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from mlusim.errors import OperandError


@pytest.mark.parametrize("data", [True, False])
def test_store_array_keeps_its_numbers_where_the_tensor_keeps_its_bytes(data):
    device = mlusim.Device("mlu370-x4", data=data)
    kept = device.alloc((4, 3), np.int32, "table", workspace=True, keep_data=True)
    read = []

    async def kernel(core):
        if core.is_memory_core or core.task_id:
            return
        for row in range(4):
            core.store_array(kept[row], np.arange(3) * row)
        await core.sync()
        read.append(await core.load_array(kept))

    device.launch(kernel, dim=4)
    device.synchronize()
    assert read[0].tolist() == [[0, 0, 0], [0, 1, 2], [0, 2, 4], [0, 3, 6]]
    assert device.verify().ok


def test_load_array_reads_the_origin_in_a_timing_only_run():
    device = mlusim.Device("mlu370-x4", data=False)
    table = device.alloc((2, 3), np.int32, "table", workspace=True, keep_data=True)
    read = []

    async def kernel(core):
        if core.is_memory_core or core.task_id:
            return
        core.store_array(table, np.arange(6).reshape(2, 3))
        await core.sync()
        near = core.nram.alloc((2, 3), np.int32)
        await core.memcpy(near, table)
        read.append(await core.load_array(near, origin=table))
        with pytest.raises(OperandError, match=r"load_array of .* from .*: both must have the same shape and type"):
            core.load_array(near, origin=table[0])

    device.launch(kernel, dim=4)
    device.synchronize()
    assert read[0].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_store_array_takes_numbers_of_the_shape():
    device = mlusim.Device("mlu370-x4")
    table = device.alloc((3,), np.int32)

    async def kernel(core):
        if not core.is_memory_core:
            core.store_array(table, np.arange(4))

    device.launch(kernel, dim=4)
    with pytest.raises(OperandError, match=r"store_array of shape \[4\]"):
        device.synchronize()

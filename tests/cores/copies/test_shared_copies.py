"""Calls of several cores that are one copy on the memory core's engine."""

from __future__ import annotations

import numpy as np

from mlusim import Device


def test_a_late_call_of_a_shared_copy_ends_no_earlier_than_it_begins():
    async def kernel(core, source):
        stage = core.sram.alloc(4096, np.float32, "stage")
        if core.is_memory_core:
            return
        if core.task_id != 1:
            await core.load(source[0])
        await core.memcpy(stage, source)

    device = Device("mlu370-x4")
    device.launch(kernel, device.upload(np.zeros(4096, np.float32)), dim=(4, 1, 1), kind="UNION1")
    device.synchronize()
    columns = device.log.columns()
    assert (columns["end_ps"] >= columns["issue_ps"]).all()

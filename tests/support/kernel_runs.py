"""Runs of a kernel on one core."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlusim.cores.core import Core
from mlusim.host.device import Device
from mlusim.memory.view import View


def run_alone(kernel: Any, *arguments: Any, **options: Any) -> Device:
    device = Device(max_operations=1000, **options)
    device.launch(kernel, *arguments, dim=1, kind="BLOCK")
    device.synchronize()
    return device


def compute(
    run: Any, body: Any, *arrays: np.ndarray[Any, Any], out: tuple[Any, Any], device: Any = "mlu370-x4"
) -> np.ndarray[Any, Any]:
    """Load arrays to NRAM, run `body(core, dst, *buffers)`, store dst."""
    device = Device(device)
    inputs = [device.upload(array) for array in arrays]
    result = device.alloc(*out)

    async def kernel(core: Core, result: View, *inputs: View) -> None:
        buffers = [core.nram.alloc(view.shape, view.dtype) for view in inputs]
        dst = core.nram.alloc(result.shape, result.dtype)
        for buffer, view in zip(buffers, inputs, strict=True):
            core.memcpy_async(buffer, view)
        await core.sync()
        body(core, dst, *buffers)
        await core.sync_compute()
        await core.memcpy(result, dst)

    run(kernel, result, *inputs, device=device)
    return device.download(result)

"""When the memory of a device and of its results is freed: closed, unreferenced and failed devices."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mlusim
from mlusim.cores.core import Core
from mlusim.errors import AllocationError
from mlusim.host.device import Device
from mlusim.memory.view import View


def test_an_unreferenced_device_frees_its_memory_immediately() -> None:
    """Without waiting for the garbage collector: the next device reuses the memory."""

    async def kernel(core: Core, x: View, out: View) -> None:
        held = core.nram.alloc(8192, "float32")
        await core.memcpy(held.pointer, x.pointer, 32768, "GDRAM2NRAM")
        await core.memcpy(out, held)

    def bytes_of_a_run() -> weakref.ref[Any]:
        device = mlusim.Device("mlu370-x4")
        out = device.alloc(8192, "float32")
        device.launch(kernel, device.upload(np.zeros(8192, np.float32)), out, dim=1, kind="BLOCK")
        device.synchronize()
        return weakref.ref(out.allocation.buffer)

    gc.disable()
    try:
        assert bytes_of_a_run()() is None
    finally:
        gc.enable()


def test_the_garbage_collector_frees_the_device_of_a_failed_run() -> None:
    """Its error refers to it by the traceback, and its chip to the error."""

    def chip_of_a_failed_run() -> weakref.ref[Any]:
        chips = []

        async def kernel(core: Core, x: View) -> None:
            chips.append(weakref.ref(core.issuer.chip))
            core.add(x, x, 1.5)

        with pytest.raises(mlusim.OperandError, match="vector operands must be in this core's NRAM"):
            mlusim.run(kernel, np.zeros(64, np.float32), dim=1, kind="BLOCK")
        return chips[0]

    chip = chip_of_a_failed_run()
    gc.collect()
    assert chip() is None


def test_a_closed_device_keeps_its_log_and_nothing_else() -> None:
    device = mlusim.Device("mlu370-x4")
    x = device.upload(np.arange(64, dtype=np.float32))

    async def kernel(core: Core, x: View) -> None:
        await core.memcpy(core.nram.alloc(64, "float32"), x)

    device.launch(kernel, x, dim=1, kind="BLOCK")
    device.synchronize()
    records = len(device.log)
    device.close()
    assert len(device.log) == records > 0
    uses = (
        device.synchronize,
        lambda: device.upload(np.zeros(4)),
        lambda: device.alloc(4, "float32"),
        lambda: device.launch(kernel, x),
    )
    for use in uses:
        with pytest.raises(mlusim.InputError, match=r"^this device is closed: make a new one$"):
            use()
    with pytest.raises(mlusim.MlusimError, match="freed"):
        device.download(x)


@pytest.fixture
def no_automatic_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_automatic_collection")
def test_output_memory_is_freed_with_its_array() -> None:
    x = np.ones((4, 32), np.float32)

    async def kernel(core: Core, x: View, out: View) -> None:
        buffer = core.nram.alloc(x.shape, "float32")
        await core.memcpy(buffer, x)
        gc.collect()  # what is alive now, Python looks at again only after a long while
        await core.memcpy(out[:], buffer)

    device = mlusim.Device("mlu370-x4")
    out = device.alloc(x.shape, "float32")
    device.launch(kernel, device.upload(x), out, dim=1, kind="BLOCK")
    device.synchronize()
    array = device.download(out)
    np.testing.assert_array_equal(array, x)
    device.close()
    output = weakref.ref(array.base if array.base is not None else array)
    del device, out, array
    assert output() is None


def test_memory_reused_from_a_closed_device_is_poisoned() -> None:
    seen = []

    async def kernel(core: Core, out: View, value: int) -> None:
        buffer = core.nram.alloc(4096, "uint8")
        await core.memcpy(out, buffer)
        core.fill(buffer, value)

    for value in (1, 2):
        device = mlusim.Device("mlu370-x4")
        out = device.alloc(4096, "uint8")
        device.launch(kernel, out, value, dim=1, kind="BLOCK")
        device.synchronize()
        seen.append(device.download(out).copy())
        device.close()
    assert all((part == 0xFF).all() for part in seen)


def test_a_with_block_closes_the_device():
    with Device() as device:
        x = device.upload(np.zeros(4))
    with pytest.raises(
        AllocationError, match=r"input in the GDRAM of mlu370-x4 was freed; upload or allocate it again$"
    ):
        device.download(x)

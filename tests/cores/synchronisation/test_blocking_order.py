"""A blocking copy follows all earlier operations of its core; a call by a whole cluster is one copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlusim
from mlusim.cores.core import Core
from mlusim.host.device import Device
from mlusim.memory.view import View

X = np.arange(4096, dtype=np.float32)


async def async_load(core: Core, tile: View, x: View) -> None:
    core.memcpy_async(tile, x)


async def vector(core: Core, tile: View, x: View) -> None:
    core.fill(tile, 7.0)


async def on_chip(core: Core, tile: View, x: View) -> None:
    source = core.nram.alloc(tile.shape, tile.dtype)
    core.fill(source, 3.0)
    core.move(tile, source)


EXPECTED = {async_load: X, vector: np.full_like(X, 7.0)}


@pytest.mark.parametrize("dma", ["complete", "late"])
@pytest.mark.parametrize("before", [async_load, vector])
def test_a_blocking_store_sees_earlier_results(before: Any, dma: str) -> None:
    async def kernel(core: Core, x: View, out: View) -> None:
        tile = core.nram.alloc(x.shape, x.dtype)
        await before(core, tile, x)
        await core.memcpy(out, tile)

    device = Device(dma=dma)
    x, out = device.upload(X, "x"), device.alloc(X.shape, X.dtype, "out")
    device.launch(kernel, x, out, dim=1, kind="BLOCK")
    device.synchronize()
    np.testing.assert_array_equal(device.download(out), EXPECTED[before])
    assert device.verify().ok


@pytest.mark.parametrize("before", [async_load, vector, on_chip])
def test_a_blocking_copy_begins_when_all_pipes_are_idle(run: Any, before: Any) -> None:
    """Even if it uses other buffers than they do."""

    async def kernel(core: Core, x: View, out: View) -> None:
        tile, other = core.nram.alloc(x.shape, x.dtype), core.nram.alloc(x.shape, x.dtype)
        await before(core, tile, x)
        await core.memcpy(out, other)

    device = Device()
    run(kernel, device.upload(X), device.alloc(X.shape, X.dtype), device=device)
    columns = device.log.columns()
    assert columns["start_ps"][-1] == columns["end_ps"][:-1].max()
    assert columns["waited_for"][-1] == columns["end_ps"][:-1].argmax()


def staged(calls: int, *, barrier: bool, waits: bool = True) -> Any:
    async def kernel(core: Core, x: View, out: View) -> None:
        shared = core.sram.alloc(x.shape, x.dtype, "shared")
        for _ in range(calls):
            if waits:
                await core.memcpy(shared, x)
            else:
                core.memcpy_async(shared, x)
            if barrier:
                await core.sync_cluster()
        await core.sync()
        if not core.is_memory_core:
            part = x.shape[0] // 4
            rows = slice(core.core_id * part, (core.core_id + 1) * part)
            tile = core.nram.alloc(part, x.dtype)
            await core.memcpy(tile, shared[rows])
            await core.memcpy(out[rows], tile)

    return kernel


@pytest.mark.parametrize("dma", ["complete", "late"])
@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("barrier", [True, False])
@pytest.mark.parametrize("calls", [1, 2])
def test_calls_by_all_cores_are_one_copy(calls: int, barrier: bool, waits: bool, dma: str) -> None:
    device = Device(dma=dma)
    x, out = device.upload(X, "x"), device.alloc(X.shape, X.dtype, "out")
    device.launch(staged(calls, barrier=barrier, waits=waits), x, out, dim=4, kind="UNION1")
    device.synchronize()
    np.testing.assert_array_equal(device.download(out), X)
    moved = device.result().metrics.bytes_requested
    assert moved["GDRAM2SRAM"] == calls * X.nbytes
    assert len(device.log.joined) == 4 * calls
    if calls == 1:
        report = device.verify()
        assert report.ok, report.text()


def test_calls_on_both_sides_of_a_barrier_are_two_copies(run: Any) -> None:
    """Cores that make the same call one after another issue separate copies."""

    async def kernel(core: Core, x: View) -> None:
        shared = core.sram.alloc(x.shape, x.dtype, "shared")
        for turn in range(4):
            if core.core_id == turn:
                await core.memcpy(shared, x)
            await core.sync_cluster()

    device = Device()
    run(kernel, device.upload(X), device=device, dim=4, kind="UNION1")
    assert not device.log.joined
    assert device.result().metrics.bytes_requested["GDRAM2SRAM"] == 4 * X.nbytes


def test_calls_with_other_operands_are_separate_copies(run: Any) -> None:
    async def kernel(core: Core, x: View) -> None:
        if core.is_memory_core:
            return
        shared = core.sram.alloc(x.shape, x.dtype, "shared")
        part = x.shape[0] // 4
        rows = slice(core.core_id * part, (core.core_id + 1) * part)
        await core.memcpy(shared[rows], x[rows])

    device = Device()
    run(kernel, device.upload(X), device=device, dim=4, kind="UNION1")
    assert not device.log.joined
    assert device.result().metrics.bytes_requested["GDRAM2SRAM"] == X.nbytes


def test_reading_before_the_cores_own_call_is_a_race() -> None:
    async def kernel(core: Core, x: View, out: View) -> None:
        shared = core.sram.alloc(x.shape, x.dtype, "shared")
        if core.core_id == 0:
            await core.memcpy(shared, x)
        if core.core_id == 1:
            tile = core.nram.alloc(x.shape, x.dtype)
            await core.memcpy(tile, shared)
            await core.memcpy(shared, x)
            await core.memcpy(out, tile)

    report = mlusim.verify(kernel, X, mlusim.Output.like(X), dim=4)
    assert "task-race" in {finding.kind for finding in report.errors}


def test_a_joined_call_can_be_retimed() -> None:
    device = Device()
    x, out = device.upload(X, "x"), device.alloc(X.shape, X.dtype, "out")
    device.launch(staged(2, barrier=True), x, out, dim=4, kind="UNION1")
    device.synchronize()
    again = mlusim.retime(device.result())
    assert again.time_ps == device.result().time_ps
    assert again.metrics.bytes_requested == device.result().metrics.bytes_requested

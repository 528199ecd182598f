"""Scalar stores: conversion, read-modify-write, and when they are complete."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlusim.cores.core import Core
from mlusim.hardware import board
from mlusim.host.device import Device
from mlusim.memory.view import View

X4 = board("mlu370-x4")


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("int8", 300, 44),
        ("uint8", -1, 255),
        ("int32", 2.9, 2),
        ("float16", 1e30, float("inf")),
        ("float32", 0.1, np.float32(0.1)),
        ("bool", 7, True),
        ("float16", np.float32(1.5), 1.5),
    ],
)
def test_a_store_converts(run: Any, dtype: str, value: Any, expected: Any) -> None:
    device = Device()
    out = device.alloc(1, dtype)

    async def kernel(core: Core, out: View) -> None:
        core.store(out[0], value)

    run(kernel, out, device=device)
    assert device.download(out)[0] == expected


@pytest.mark.parametrize(("dtype", "read", "written"), [("int8", 64, 64), ("float32", 64, 64), ("complex128", 64, 64)])
def test_a_store_to_gdram_is_a_posted_read_modify_write(run: Any, dtype: str, read: int, written: int) -> None:
    device = Device()
    out = device.alloc(4, dtype)

    async def kernel(core: Core, out: View) -> None:
        core.store(out[1], 1)
        core.store(out[2], 2)
        await core.sync()
        core.scalar(0)

    run(kernel, out, device=device)
    columns = device.log.columns()
    assert columns["bus_read_bytes"].tolist() == [read, read, 0, 0]
    assert columns["bus_write_bytes"].tolist() == [written, written, 0, 0]
    issue = X4.cycles_ps(X4.issue_cycles)
    assert columns["issue_ps"][1] - columns["issue_ps"][0] == issue
    assert columns["end_ps"][0] - columns["start_ps"][0] == X4.scalar_gdram_latency_ps
    # A sync of all pipes waits for the last of them.
    assert columns["end_ps"][2] == columns["end_ps"][1]
    assert columns["issue_ps"][3] == columns["end_ps"][1] + issue


@pytest.mark.parametrize("at_once", [1, 6, 60])
def test_posted_stores_complete_one_after_another_however_they_are_counted(run: Any, at_once: int) -> None:
    device = Device()
    out = device.alloc(60, "float32")

    async def kernel(core: Core, out: View) -> None:
        for start in range(0, 60, at_once):
            if at_once == 1:
                core.store(out[start], start)
            else:
                core.store_array(out[start : start + at_once], np.arange(start, start + at_once))
        await core.sync()

    run(kernel, out, device=device)
    ends = device.log.columns()["end_ps"]
    first_issued = X4.kernel_start_ps + X4.cycles_ps(X4.issue_cycles)
    assert ends[-1] == ends[-2] == first_issued + 60 * X4.scalar_gdram_latency_ps
    np.testing.assert_array_equal(device.download(out), np.arange(60))


def test_scalar_code_sees_the_earlier_stores_of_its_core_and_the_last_store_stays(run: Any) -> None:
    device = Device()
    out, seen = device.alloc(100, "float32"), device.alloc(2, "float32")

    async def kernel(core: Core, out: View, seen: View) -> None:
        core.store_array(out, np.full(100, 7))
        core.store(seen[0], await core.load(out[99]))
        core.store(out[0], 8)
        core.store(seen[1], (await core.load_array(out[:2])).sum())

    run(kernel, out, seen, device=device)
    assert device.download(seen).tolist() == [7, 15]
    assert device.download(out).tolist() == [8] + [7] * 99


@pytest.mark.parametrize("memory", ["nram", "sram"])
def test_an_on_chip_store_costs_its_cycles(run: Any, memory: str) -> None:
    async def kernel(core: Core) -> None:
        if core.is_memory_core or core.core_id:
            return
        cell = core.sram.alloc(1, "int32", "cell") if memory == "sram" else core.nram.alloc(1, "int32")
        core.store(cell[0], 5)
        assert await core.load(cell[0]) == 5
        assert core.nram.free_bytes

    columns = run(kernel, dim=4, kind="UNION1").log.columns()
    cycles = X4.scalar_sram_cycles if memory == "sram" else X4.scalar_nram_cycles
    issue = X4.cycles_ps(X4.issue_cycles)
    assert columns["end_ps"][0] - columns["start_ps"][0] == X4.cycles_ps(cycles) - issue
    assert columns["issue_ps"][1] == columns["end_ps"][0] + issue
    assert not columns["bus_write_bytes"].any()


def test_stores_land_before_a_barrier_opens(run: Any) -> None:
    """The store is slower than the barrier; a task that has passed the barrier sees the value nevertheless."""
    device = Device(X4.replace(scalar_gdram_latency_ps=50_000_000, union_barrier_ps=1000))
    cell, out = device.alloc(1, "int32"), device.alloc(4, "int32")

    async def kernel(core: Core, cell: View, out: View) -> None:
        if core.core_id == 0:
            core.store(cell[0], 42)
        await core.sync_all()
        if not core.is_memory_core:
            core.store(out[core.core_id], await core.load(cell[0]))

    run(kernel, cell, out, device=device, dim=4, kind="UNION1")
    assert device.download(out).tolist() == [42] * 4


def test_stores_land_before_the_next_kernel_of_the_queue(run: Any) -> None:
    device = Device(X4.replace(scalar_gdram_latency_ps=50_000_000, kernel_end_ps=0, queued_kernel_gap_ps=0))
    cell, out = device.alloc(1, "int32"), device.alloc(1, "int32")

    async def write(core: Core, cell: View) -> None:
        core.store(cell[0], 42)

    async def read(core: Core, cell: View, out: View) -> None:
        tile = core.nram.alloc(1, "int32")
        await core.memcpy(tile, cell)
        await core.memcpy(out, tile)

    device.launch(write, cell, dim=1, kind="BLOCK")
    device.launch(read, cell, out, dim=1, kind="BLOCK")
    device.synchronize()
    assert device.download(out).tolist() == [42]

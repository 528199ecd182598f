"""Atomics on GDRAM: values, order, time, the checker, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlusim
from mlusim.cores.core import Core
from mlusim.errors import OperandError
from mlusim.hardware import board as board_of
from mlusim.host.device import Device
from mlusim.memory.view import View

OPERATIONS = {
    "add": lambda old, value: old + value,
    "max": max,
    "min": min,
    "and": lambda old, value: old & value,
    "or": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
    "exch": lambda _, value: value,
    "inc": lambda old, value: 0 if old >= value else old + 1,
    "dec": lambda old, value: value if old == 0 or old > value else old - 1,
}


@pytest.mark.parametrize("fetches", [True, False])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_atomics(run: Any, operation: str, fetches: bool) -> None:
    start = np.array([0, 3, 7, 12, 100, 5], np.uint32)
    values = np.array([5, 3, 9, 4, 1, 5], np.uint32)
    device = Device("mlu370-x4")
    target, operand, before = device.upload(start, writable=True), device.upload(values), device.alloc(6, "uint32")

    async def kernel(core: Core, target: View, operand: View, before: View) -> None:
        tile, old = core.nram.alloc(6, "uint32"), core.nram.alloc(6, "uint32")
        core.fill(old, 0)
        await core.memcpy(tile, operand)
        if fetches:
            await getattr(core, f"atomic_{operation}")(old, target, tile)
        else:
            await getattr(core, f"atomic_reduce_{operation}")(target, tile)
        await core.memcpy(before, old)

    run(kernel, target, operand, before, device=device)
    expected = [OPERATIONS[operation](int(a), int(b)) for a, b in zip(start, values, strict=True)]
    assert device.download(target).tolist() == expected
    assert device.download(before).tolist() == (start.tolist() if fetches else [0] * 6)
    device.verify().check()


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize(("operation", "is_kept"), [("max", np.greater), ("min", np.less)])
def test_the_largest_and_smallest_of_special_numbers_follow_the_header(
    run: Any, operation: str, is_kept: Any, kind: str
) -> None:
    """The new value is `old > operand ? old : operand`: NaN in memory is replaced."""
    special = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan], kind)
    start, values = np.repeat(special, 6), np.tile(special, 6)
    device = Device("mlu370-x4")
    target, operand = device.upload(start, writable=True), device.upload(values)

    async def kernel(core: Core, target: View, operand: View) -> None:
        tile = core.nram.alloc(36, kind)
        await core.memcpy(tile, operand)
        await getattr(core, f"atomic_reduce_{operation}")(target, tile)

    run(kernel, target, operand, device=device)
    expected = np.where(is_kept(start, values), start, values)
    assert device.download(target).tobytes() == expected.tobytes()


def test_compare_and_swap(run: Any) -> None:
    device = Device("mlu370-x4")
    target, out = device.upload(np.array([4, 5, 4], np.int32), writable=True), device.alloc(3, "int32")

    async def kernel(core: Core, target: View, out: View) -> None:
        old = core.nram.alloc(3, "int32")
        await core.atomic_cas(old, target, 4, 9)
        await core.memcpy(out, old)
        await core.atomic_reduce_cas(target, 5, 1)

    run(kernel, target, out, device=device)
    assert device.download(target).tolist() == [9, 1, 9]
    assert device.download(out).tolist() == [4, 5, 4]


def test_atomics_of_many_cores_add_up_and_are_no_race() -> None:
    device = Device("mlu370-x4")
    total = device.upload(np.zeros(64, np.float32), writable=True)

    async def kernel(core: Core, total: View) -> None:
        tile = core.nram.alloc(64, "float32")
        for _ in range(3):
            core.fill(tile, core.task_id + 1)
            await core.atomic_reduce_add(total, tile)

    device.launch(kernel, total, dim=32, kind="BLOCK")
    device.synchronize()
    assert device.download(total).tolist() == [3 * sum(range(1, 33))] * 64
    races = [finding for finding in device.verify().findings if finding.kind == "race"]
    assert not races


def test_an_atomic_reads_what_it_writes_on_the_bus(run: Any) -> None:
    device = Device("mlu370-x4")
    target = device.upload(np.zeros(256, np.float32), writable=True)

    async def kernel(core: Core, target: View) -> None:
        await core.atomic_reduce_add(target, 1)

    columns = run(kernel, target, device=device).log.columns()
    assert (int(columns["bus_read_bytes"][0]), int(columns["bus_write_bytes"][0])) == (1024, 1024)
    assert columns["end_ps"][0] - columns["start_ps"][0] > board_of("mlu370-x4").dma_write_latency_ps
    assert device.download(target).tolist() == [1] * 256


@pytest.mark.parametrize("latency_ps", [100_000, 700_000])
def test_an_atomic_that_returns_the_old_value_starts_up_as_the_slower_of_load_and_store(latency_ps: int) -> None:
    board = board_of("mlu370-x4").replace(dma_read_latency_ps=latency_ps)

    async def kernel(core: Core, target: View) -> None:
        old = core.nram.alloc(16, "float32")
        await core.atomic_reduce_add(target, 1)
        await core.atomic_add(old, target, 1)

    device = Device(board)
    device.launch(kernel, device.upload(np.zeros(16, np.float32), writable=True), dim=1, kind="BLOCK")
    device.synchronize()
    columns = device.log.columns()
    without, with_old = (columns["end_ps"] - columns["start_ps"]).tolist()
    assert with_old - without == max(latency_ps - board.dma_write_latency_ps, 0)
    result = device.result()
    assert mlusim.retime(result, board).time_ps == result.time_ps


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            lambda core, x, t: core.atomic_reduce_add(t, 1),
            "atomic_reduce_add of .*: atomics work on GDRAM only",
        ),
        (
            lambda core, x, t: core.atomic_reduce_and(x, 1),
            "atomic_reduce_and of float32 elements: it takes int8, int16",
        ),
        (
            lambda core, x, t: core.atomic_reduce_add(x, t[:3]),
            "atomic_reduce_add of .*: both must have the same number of elements",
        ),
        (
            lambda core, x, t: core.atomic_add(x, x, 1),
            "atomic_add with .*: an atomic stores the old value in this core's NRAM; pass a buffer there",
        ),
        (
            lambda core, x, t: core.atomic_reduce_add(x, x),
            "atomic_reduce_add with .*: an atomic takes its operand from this core's NRAM; pass a buffer there",
        ),
        (
            lambda core, x, t: core.atomic_reduce_add(x[:4], t[::2]),
            "atomic_reduce_add with .*: the elements of a row must be contiguous; memcpy it",
        ),
        (
            lambda core, x, t: core.atomic_reduce_add(x[:1].broadcast_to(8), t),
            "atomic_reduce_add with .*: the elements of a row must be contiguous; call it for each",
        ),
        (
            lambda core, x, t: core.atomic_reduce_cas(x, t[:3], 1),
            "atomic_reduce_cas of .*: both must have the same number of elements",
        ),
    ],
)
def test_invalid_atomics_are_rejected(run: Any, body: Any, message: str) -> None:
    device = Device("mlu370-x4")

    async def kernel(core: Core, x: View) -> None:
        await body(core, x, core.nram.alloc(8, "float32"))

    with pytest.raises(OperandError, match=rf"^task 0 .*, test_atomics\.py:\d+, at .* ns: {message}"):
        run(kernel, device.upload(np.zeros(8, np.float32), writable=True), device=device)

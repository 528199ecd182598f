"""The scalar pipe: loads, stores, arithmetic, their bytes and their cost."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from mlusim import dtypes
from mlusim.cores.core import Core
from mlusim.errors import AccessError, AllocationError, CopyError, MissingDataError, OperandError
from mlusim.hardware import board as board_of
from mlusim.hardware import presets
from mlusim.host.device import Device
from mlusim.log import SCALAR
from mlusim.memory.view import View

X4 = board_of("mlu370-x4")
PLACE = r"^task 0 \(cluster 0, core 0\), test_scalar\.py:\d+, at [\d .]+ ns: "


@pytest.mark.parametrize("board", presets(), ids=lambda board: board.name)
def test_scalar_costs_match_the_vendors_cycles(board: Any) -> None:
    """G 5.3: add and subtract 2 cycles; division 8 (fp16) or 16 (fp32); ordinary operations 1 to 3."""
    assert board.scalar_add_cycles == 2
    assert (board.scalar_divide_fp16_cycles, board.scalar_divide_fp32_cycles) == (8, 16)
    assert 1 <= board.scalar_op_cycles <= 3


@pytest.mark.parametrize("memory", ["gdram", "input", "ldram", "sram", "nram"])
def test_a_load_waits_for_its_memory(run: Any, memory: str) -> None:
    device = Device()
    x, written = device.upload(np.arange(8, dtype=np.int32)), device.alloc(8, np.int32)
    seen: list[tuple[Any, int]] = []

    async def kernel(core: Core, x: View, written: View) -> None:
        if core.is_memory_core or core.core_id:
            return
        source = {"input": x, "gdram": written}.get(memory)
        if source is None:
            scratch = getattr(core, memory)
            source = scratch.alloc(8, np.int32, "s") if memory == "sram" else scratch.alloc(8, np.int32)
        if memory != "input":
            staged = core.nram.alloc(8, np.int32)
            await core.memcpy(staged, x)
            if memory != "nram":
                await core.memcpy(source, staged)
            else:
                source = staged
        seen.append((await core.load(source[3]), 0))
        core.scalar(0)

    run(kernel, x, written, device=device, dim=4, kind="UNION1")
    assert seen[0][0] == 3
    columns = device.log.columns()
    load = [device.log.ops[op] for op in columns["op"]].index("load")
    cost = {
        "nram": X4.cycles_ps(X4.scalar_nram_cycles),
        "sram": X4.cycles_ps(X4.scalar_sram_cycles),
    }.get(memory, X4.scalar_gdram_latency_ps)
    # The time includes the issue.
    issue = X4.cycles_ps(X4.issue_cycles)
    assert columns["end_ps"][load] - columns["start_ps"][load] == cost - issue
    assert columns["pipe"][load] == SCALAR
    off_chip = memory in ("gdram", "input", "ldram")
    assert (columns["bytes_requested"][load], columns["bus_read_bytes"][load]) == (4, 64 * off_chip)
    # The task goes on from there.
    assert columns["issue_ps"][load + 1] == columns["end_ps"][load] + issue


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_load_returns_and_store_accepts_python_numbers(run: Any, dtype: np.dtype[Any]) -> None:
    array = np.array([1, 0, 1], dtype)
    device = Device()
    x, out = device.upload(array), device.alloc(3, dtype)

    async def kernel(core: Core, x: View, out: View) -> None:
        for index in range(3):
            value = await core.load(x[index])
            assert not isinstance(value, np.ndarray)
            assert value == array[index].item()
            core.store(out[index], value)

    run(kernel, x, out, device=device)
    np.testing.assert_array_equal(device.download(out), array)


def test_load_after_store_of_one_core_is_in_order(run: Any) -> None:
    device = Device()
    cell = device.alloc(2, "int32")

    async def kernel(core: Core, cell: View) -> None:
        core.store(cell[0], 1)
        core.store(cell[0], 2)
        core.store(cell[1], 10 + await core.load(cell[0]))

    run(kernel, cell, device=device)
    assert device.download(cell).tolist() == [2, 12]


def test_a_load_does_not_wait_for_an_asynchronous_copy(run: Any) -> None:
    """Before the sync a scalar load sees the poison of fresh NRAM; after it the data."""
    device = Device()
    x = device.upload(np.arange(4096, dtype=np.int32))
    seen: list[int] = []

    async def kernel(core: Core, x: View) -> None:
        tile = core.nram.alloc(4096, np.int32)
        core.memcpy_async(tile, x)
        seen.append(await core.load(tile[7]))
        await core.sync_io()
        seen.append(await core.load(tile[7]))

    run(kernel, x, device=device)
    assert seen == [-1, 7]


def test_a_load_of_nram_waits_for_the_vector_pipe(run: Any) -> None:
    seen: list[int] = []

    async def kernel(core: Core) -> None:
        tile = core.nram.alloc(100_000, np.int32)
        core.fill(tile, 5)
        seen.append(await core.load(tile[7]))
        await core.sync_compute()
        seen.append(await core.load(tile[7]))

    run(kernel)
    assert seen == [5, 5]


def test_an_early_load_does_not_advance_the_vector_pipe(run: Any) -> None:
    """A fill that the pipe begins after a copy has read the buffer must not show in the copy."""
    device = Device(X4.replace(scalar_gdram_latency_ps=10**9))
    flag, x = device.upload(np.array([1])), device.upload(np.arange(64, dtype=np.int32))
    out = device.alloc(64, "int32")

    async def kernel(core: Core, flag: View, x: View, out: View) -> None:
        tile, busy = core.nram.alloc(64, "int32"), core.nram.alloc(300_000, "int8")
        await core.memcpy(tile, x)
        core.memcpy_async(out, tile)
        for _ in range(3):
            core.write_zero(busy)  # keeps the pipe busy until long after the copy
        core.fill(tile, 9)
        await core.load(flag[0])
        await core.sync()

    run(kernel, flag, x, out, device=device)
    columns = device.log.columns()
    names = [device.log.ops[op] for op in columns["op"]]
    copy_end = columns["end_ps"][1]
    assert columns["start_ps"][names.index("fill")] > copy_end
    assert device.download(out).tolist() == list(range(64))


def test_load_array(run: Any) -> None:
    device = Device()
    array = np.arange(24, dtype=np.int64).reshape(4, 6)
    x = device.upload(array)
    seen: list[Any] = []

    async def kernel(core: Core, x: View) -> None:
        seen.append(await core.load_array(x[1:3, ::2]))

    run(kernel, x, device=device)
    np.testing.assert_array_equal(seen[0], array[1:3, ::2])
    columns = device.log.columns()
    assert columns["count"].tolist() == [6]
    assert columns["end_ps"][0] - columns["issue_ps"][0] == 6 * X4.scalar_gdram_latency_ps - X4.cycles_ps(
        X4.issue_cycles
    )
    assert columns["bus_read_bytes"].tolist() == [6 * 64]  # each load is a bus unit of its own
    seen[0][0, 0] = 99
    assert device.download(x)[1, 0] == 6  # registers, not the memory


@pytest.mark.parametrize(
    ("cycles", "count", "total"), [(None, 1, X4.scalar_op_cycles), (2, 1, 2), (16, 10, 160), (0, 5, 0), (7, 0, 0)]
)
def test_scalar_charges_cycles(run: Any, cycles: int | None, count: int, total: int) -> None:
    async def kernel(core: Core) -> None:
        core.scalar(cycles, count=count)

    device = run(kernel)
    # At least an issue.
    end_ps = X4.kernel_start_ps + X4.cycles_ps(max(total, X4.issue_cycles))
    assert device.log.columns()["end_ps"].tolist() == [end_ps]
    assert device.log.columns()["count"].tolist() == [count]


@pytest.mark.parametrize(("cycles", "count"), [(-1, 1), (1, -1), (True, 1), (1.5, 1), (1, 2.0), ("add", 1), (None, -1)])
def test_scalar_takes_counts(run: Any, cycles: Any, count: Any) -> None:
    async def kernel(core: Core) -> None:
        core.scalar(cycles, count=count)

    each = X4.scalar_op_cycles if cycles is None else cycles
    message = f"scalar of {count!r} operations of {each!r} cycles: both must be integers of at least 0, such as "
    message += "core.board.scalar_add_cycles"
    with pytest.raises(OperandError, match=PLACE + re.escape(message)):
        run(kernel)


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (
            lambda core, x, o: core.load(x),
            OperandError,
            r"load takes one element, not <view of input \(gdram\): int32 \[4",
        ),
        (lambda core, x, o: core.store(o[:2], 1), OperandError, r"store takes one element, not <view of output"),
        (lambda core, x, o: core.store(x[0], 1), AccessError, "input is an input, and inputs are never written"),
        (
            lambda core, x, o: core.load(core.wram.alloc(1, "int32")),
            OperandError,
            "scalar load of <.*>: scalar code cannot",
        ),
        (
            lambda core, x, o: core.store(core.wram.alloc(1, "int32"), 1),
            OperandError,
            "scalar store of <.*>: scalar code",
        ),
    ],
)
def test_scalar_code_rejects_invalid_accesses(run: Any, body: Any, error: type[Exception], message: str) -> None:
    device = Device()
    x, out = device.upload(np.zeros(4, np.int32)), device.alloc(4, np.int32)

    async def kernel(core: Core, x: View, out: View) -> None:
        waits = body(core, x, out)
        if waits is not None:
            await waits

    with pytest.raises(error, match=PLACE + message):
        run(kernel, x, out, device=device)


def test_freed(run: Any) -> None:
    async def kernel(core: Core) -> None:
        with core.nram.scope():
            cell = core.nram.alloc(1, "int32", "cell")
        await core.load(cell)

    with pytest.raises(
        AllocationError, match=PLACE + "cell in the NRAM of cluster 0 core 0 of mlu370-x4 was freed; use"
    ):
        run(kernel)


def test_out_of_reach(run: Any) -> None:
    shared: dict[int, View] = {}

    async def kernel(core: Core) -> None:
        if core.is_memory_core:
            return
        shared[core.core_id] = core.nram.alloc(1, "int32")
        await core.sync_all_ipu()
        if core.core_id == 1:
            await core.load(shared[0])

    with pytest.raises(
        CopyError, match=r"^task 1 .* ns: this core cannot reach the NRAM of cluster 0 core 0 of mlu370-x4:"
    ):
        run(kernel, dim=4, kind="UNION1")


def test_missing_bytes_are_refused(run: Any) -> None:
    device = Device(data=False)
    x, kept = device.upload(np.arange(4)), device.upload(np.arange(4), "shifts", keep_data=True)
    seen = []

    async def kernel(core: Core, x: View, kept: View) -> None:
        seen.append(await core.load(kept[2]))
        seen.append((await core.load_array(kept)).tolist())
        await core.load(x[2])

    with pytest.raises(
        MissingDataError,
        match=PLACE + r"scalar load of <view of input \(gdram\): int64 \[\]>, which has a size but no bytes in a "
        r"timing-only run: upload it with its bytes \(keep_data=True\), or run with data$",
    ):
        run(kernel, x, kept, device=device)
    assert seen == [2, [0, 1, 2, 3]]


def test_a_timing_only_run_stores_to_what_keeps_its_bytes(run: Any) -> None:
    device = Device(data=False)
    kept = device.alloc(4, np.int32, "table", workspace=True, keep_data=True)
    seen = []

    async def kernel(core: Core, kept: View) -> None:
        core.store(kept[2], 7.9)
        seen.append(await core.load(kept[2]))
        core.store(kept[2], np.nan)

    with pytest.raises(OperandError, match="store with nan: int32 does not hold that number"):
        run(kernel, kept, device=device)
    assert seen == [7]


def test_missing_bytes_on_chip_cannot_be_uploaded(run: Any) -> None:
    async def kernel(core: Core) -> None:
        await core.load(core.nram.alloc(4, np.float32)[0])

    with pytest.raises(MissingDataError, match=r"has a size but no bytes in a timing-only run: run with data$"):
        run(kernel, device=Device(data=False))


@pytest.mark.parametrize("name", ["load", "load_array", "store", "store_array"])
@pytest.mark.parametrize("value", [None, 3, np.zeros(1)])
def test_arguments_that_are_not_views_are_rejected_by_name(name, value):
    async def kernel(core):
        getattr(core, name)(value, *([1] if name.startswith("store") else []))

    device = Device("mlu370-x4")
    device.launch(kernel, dim=1, kind="BLOCK")
    with pytest.raises(OperandError, match=rf"{name} of .*: it takes a view of memory, such as x\[0\], not "):
        device.synchronize()


@pytest.mark.parametrize("name", ["mlu220-m2", "mlu370-x4", "mlu590-h8"])
def test_the_time_of_a_scalar_operation_includes_its_issue(name: str) -> None:
    """The hand arithmetic of docs/machine.md."""
    on = board_of(name)
    bounds = on.kernel_start_ps + on.kernel_end_ps

    def cycles_of(body: Any) -> float:
        async def kernel(core: Core) -> None:
            await body(core, core.nram.alloc(8, "float32"))

        device = Device(on)
        device.launch(kernel, dim=1, kind="BLOCK")
        device.synchronize()
        return (device.result().time_ps - bounds) * on.clock_hz / 1e12

    async def loads(core: Core, tile: View) -> None:
        for position in range(8):
            await core.load(tile[position])

    async def counted(core: Core, tile: View) -> None:
        await core.load_array(tile)

    async def others(core: Core, tile: View) -> None:
        core.store(tile[0], 1.0)
        core.scalar(7)
        await core.sync()

    each, issue = on.scalar_nram_cycles, on.issue_cycles
    assert cycles_of(loads) == pytest.approx(8 * each, abs=0.1)
    assert cycles_of(counted) == pytest.approx(8 * each, abs=0.1)
    assert cycles_of(others) == pytest.approx(each + 7 + issue, abs=0.1)

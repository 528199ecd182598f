"""`__gather` and `__scatter`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counted_loops import H8, PLACE
from mlusim.cores.core import Core
from mlusim.errors import AccessError, CopyError, OperandError
from mlusim.host.device import Device
from mlusim.log import IO, MOVE
from mlusim.memory.view import View


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64"])
@pytest.mark.parametrize("offset_type", ["int32", "int64", "uint8"])
def test_gather_and_scatter(run: Any, dtype: str, offset_type: str) -> None:
    rows = np.array([3, 3, 0, 9, 5, 0, 3], offset_type)
    x_array = np.random.default_rng(3).integers(0, 100, (10, 6)).astype(dtype)
    device = Device(H8)
    x, where, out = device.upload(x_array), device.upload(rows), device.alloc((10, 6), dtype)
    gathered = device.alloc((7, 6), dtype)

    async def kernel(core: Core, x: View, where: View, gathered: View, out: View) -> None:
        offsets, tile = core.nram.alloc(7, offset_type), core.nram.alloc((7, 6), dtype)
        await core.memcpy(offsets, where)
        core.gather(tile, x, offsets)
        await core.sync_io()
        await core.memcpy(gathered, tile)
        core.scatter(out, tile, offsets)
        await core.sync()

    run(kernel, x, where, gathered, out, device=device)
    expected = np.full((10, 6 * x_array.itemsize), 255, np.uint8).view(dtype)
    for row in rows:
        expected[row] = x_array[row]
    np.testing.assert_array_equal(device.download(gathered), x_array[rows])
    assert device.download(out).tobytes() == expected.tobytes()
    columns = device.log.columns()
    assert columns["pipe"].tolist()[1] == IO
    assert columns["detail"].tolist()[1] == 0  # asynchronous


@pytest.mark.parametrize("name", ["gather", "scatter"])
def test_gather_costs_57_ns_an_element_whatever_the_offsets(run: Any, name: str) -> None:
    times = set()
    for seed, data in ((0, True), (1, True), (2, False)):
        device = Device(H8, data=data)
        where = device.upload(np.random.default_rng(seed).integers(0, 4096, 300))
        x = device.alloc(4096, np.float32)

        async def kernel(core: Core, x: View, where: View) -> None:
            offsets, tile = core.nram.alloc(300, np.int64), core.nram.alloc(300, np.float32)
            await core.memcpy(offsets, where)
            if name == "gather":
                core.gather(tile, x, offsets)
            else:
                core.scatter(x, tile, offsets)
            await core.sync()

        columns = run(kernel, x, where, device=device).log.columns()
        times.add(int(columns["end_ps"][1] - columns["issue_ps"][1]))
        units = 300 * 64
        both = (units, units) if name == "scatter" else (units, 0)
        assert (columns["bus_read_bytes"][1], columns["bus_write_bytes"][1]) == both
    latency = H8.dma_read_latency_ps if name == "gather" else H8.dma_write_latency_ps
    assert len(times) == 1
    assert times.pop() == pytest.approx(latency + 300 * H8.gather_element_ps, abs=2)
    assert 55_000 <= H8.gather_element_ps <= 60_000


@pytest.mark.parametrize("device", ["mlu270-s4", "mlu290", "mlu370-x4"])
@pytest.mark.parametrize("name", ["gather", "scatter"])
def test_boards_before_arch_592_have_no_gather(run: Any, device: str, name: str) -> None:
    async def kernel(core: Core) -> None:
        tile = core.nram.alloc(64, "int32")
        getattr(core, name)(tile, tile, tile)

    message = (
        rf"__{name} exists from arch 592 on and mlu\S+ is arch \d+: load the offsets with load_array and use memcpy_r"
    )
    with pytest.raises(OperandError, match=PLACE + message):
        run(kernel, device=device)


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (
            lambda core, x, t, o: core.gather(t, x, x.view("int32")[0]),
            OperandError,
            "gather with <view of output .*>: indices, offsets and masks must be contiguous in th",
        ),
        (lambda core, x, t, o: core.gather(t[:4], x, o), AccessError, "gather of 8 rows of <view of nram buffer 0"),
        (
            lambda core, x, t, o: core.gather(t, x[:, :4], o),
            CopyError,
            "gather of rows of <.*> to rows of <.*>: rows mus",
        ),
        (
            lambda core, x, t, o: core.gather(t, x[:, ::2], o),
            CopyError,
            r"gather of <.*> with strides \[64, 8\]: each row",
        ),
        (
            lambda core, x, t, o: core.gather(t, x, o.view("float32")),
            OperandError,
            "gather with offsets <.*>: they must be inte",
        ),
        (
            lambda core, x, t, o: core.gather(t, t, o),
            OperandError,
            "gather from <.*> to <.*>: they overlap; copy through",
        ),
        (
            lambda core, x, t, o: core.scatter(t, x, o),
            CopyError,
            "scatter from <.*gdram.*> to <.*nram.*>: it goes from this core",
        ),
        (lambda core, x, t, o: core.gather(t, x[:3], o), AccessError, "gather: index 7 is outside <view of output "),
    ],
)
def test_gather_rejects_invalid_arguments(run: Any, body: Any, error: type[Exception], message: str) -> None:
    device = Device(H8)
    x, where = device.alloc((10, 16), "float32"), device.upload(np.arange(8, dtype=np.int32))

    async def kernel(core: Core, x: View, where: View) -> None:
        tile, offsets = core.nram.alloc((8, 16), "float32"), core.nram.alloc(8, "int32")
        await core.memcpy(offsets, where)
        body(core, x, tile, offsets)

    with pytest.raises(error, match=PLACE + message):
        run(kernel, x, where, device=device)


@pytest.mark.parametrize("data", [True, False])
@pytest.mark.parametrize("by_instruction", [True, False])
def test_rows_are_compared_before_their_numbers_are_read(run: Any, data: bool, by_instruction: bool) -> None:
    """A timing-only run, which has no numbers, raises the same error."""

    async def kernel(core: Core, x: View) -> None:
        tile, outside = core.nram.alloc((8, 16), "float32"), core.nram.alloc(8, "int32")
        if by_instruction:
            core.gather(tile, x, outside)
        else:
            await core.memcpy_rows(tile, x, src_rows=outside)

    device = Device(H8, data=data)
    with pytest.raises(CopyError, match=r"of rows of <.*> to rows of <.*>: rows must have the same size"):
        run(kernel, device.alloc((10, 12), "float32"), device=device)


def test_gather_with_offsets_in_flight_is_an_error(run: Any) -> None:
    """The instruction reads its offsets when it is issued: without a sync, poison."""
    device = Device(H8)
    x, where = device.alloc((10, 16), "float32"), device.upload(np.arange(8, dtype=np.int32))

    async def kernel(core: Core, x: View, where: View) -> None:
        tile, offsets = core.nram.alloc((8, 16), "float32"), core.nram.alloc(8, "int32")
        core.memcpy_async(offsets, where)
        core.gather(tile, x, offsets)

    message = (
        r"gather: index -1 is outside <view of output \(gdram\): float32 \[10, 16\]>, which has 10; -1 is also what "
        "memory holds until it is written: have all indices arrived"
    )
    with pytest.raises(AccessError, match=PLACE + message):
        run(kernel, x, where, device=device)


@pytest.mark.parametrize("name", ["gather", "scatter"])
@pytest.mark.parametrize("near", [False, True])
def test_a_mask_leaves_rows_as_they_are(run: Any, name: str, near: bool) -> None:
    """Also within NRAM, on the Move pipe."""
    rows, mask = np.array([4, 0, 9, 4, 2], np.int32), np.array([1, 0, 2, 1, 0], np.int8)
    x_array = np.random.default_rng(4).integers(0, 100, (10, 3)).astype(np.int16)
    device = Device(H8)
    arrays = [device.upload(array) for array in (x_array, rows, mask)]
    far = device.alloc((10, 3), np.int16)
    out = device.alloc((10, 3), np.int16)

    async def kernel(core: Core, x: View, rows: View, mask: View, far: View, out: View) -> None:
        table, offsets = core.nram.alloc((10, 3), np.int16), core.nram.alloc(5, np.int32)
        chosen, tile = core.nram.alloc(5, np.int8), core.nram.alloc((10, 3), np.int16)
        for dst, src in ((table, x), (offsets, rows), (chosen, mask)):
            await core.memcpy(dst, src)
        if name == "gather":
            core.gather(tile[:5], table if near else x, offsets, chosen)
            await core.sync()
            await core.memcpy(out, tile)
        else:
            target = tile if near else far
            core.scatter(target, table[:5], offsets, chosen)
            await core.sync()
            await core.memcpy(out, target)

    run(kernel, *arrays, far, out, device=device)
    expected = np.full((10, 3), -1, np.int16)
    for i, row in enumerate(rows):
        if mask[i]:
            expected[i if name == "gather" else row] = x_array[row if name == "gather" else i]
    np.testing.assert_array_equal(device.download(out), expected)
    names = [device.log.ops[op] for op in device.log.columns()["op"]]
    assert device.log.columns()["pipe"][names.index(name)] == (MOVE if near else IO)

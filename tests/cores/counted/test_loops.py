"""Loops of equal small copies as one record: the loop, and its cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counted_loops import H8, S4, X4
from mlusim import dtypes
from mlusim.cores.core import Core
from mlusim.errors import KernelError
from mlusim.hardware.board_record import Board
from mlusim.host.device import Device
from mlusim.log import MOVE, SCALAR
from mlusim.memory.addresses import Addresses, IndexedAxis
from mlusim.memory.view import View

PS = 10**12


QUICK = settings(max_examples=60, deadline=None)


def launch(kernel: Any, *arguments: Any, device: Device) -> Device:
    device.launch(kernel, *arguments, dim=1, kind="BLOCK")
    device.synchronize()
    return device


def indices(extent: int, count: int) -> st.SearchStrategy[Any]:
    """Row numbers with repetitions, or None for 0, 1, 2, ..."""
    given_numbers = st.lists(st.integers(0, extent - 1), min_size=count, max_size=count).map(
        lambda numbers: np.array(numbers, np.int64)
    )
    return given_numbers | st.none() if count <= extent else given_numbers


def loop(expected: Any, source: Any, dst_rows: Any, src_rows: Any, count: int) -> Any:
    """The loop that a counted operation stands for."""
    for i in range(count):
        expected[i if dst_rows is None else dst_rows[i]] = source[i if src_rows is None else src_rows[i]]
    return expected


def row_units(address: int, stride: int, nbytes: int, rows: Any) -> tuple[int, int]:
    """Bus bytes of rows and of units covered in part, byte by byte."""
    touched = partial = 0
    for row in rows:
        covered: dict[int, int] = {}
        for byte in range(address + row * stride, address + row * stride + nbytes):
            covered[byte // 64] = covered.get(byte // 64, 0) + 1
        touched += len(covered)
        partial += sum(count < 64 for count in covered.values())
    return 64 * touched, 64 * partial


@given(data=st.data(), blocking=st.booleans())
@QUICK
def test_memcpy_rows_equals_the_loop(data: st.DataObject, blocking: bool) -> None:
    """In order, so that a repeated destination keeps its last row; each row its own bus units."""
    dtype = data.draw(st.sampled_from(dtypes.ALL))
    row = tuple(data.draw(st.lists(st.integers(1, 20), max_size=2)))
    extents = [data.draw(st.integers(1, 8)) for _ in range(3)]
    count, back = data.draw(st.integers(1, 10)), data.draw(st.integers(1, 10))
    in_to, in_from = data.draw(indices(extents[1], count)), data.draw(indices(extents[0], count))
    out_to, out_from = data.draw(indices(extents[2], back)), data.draw(indices(extents[1], back))
    if in_to is None and in_from is None:
        in_to = np.zeros(count, np.int64)
    if out_to is None and out_from is None:
        out_from = np.zeros(back, np.int64)
    bits = np.random.default_rng(0).integers(0, 256, (extents[0], *row, dtype.itemsize), np.uint8)
    device = Device()
    x, out = device.upload(bits.view(dtype)[..., 0]), device.alloc((extents[2], *row), dtype)

    async def kernel(core: Core, x: View, out: View) -> None:
        tile = core.nram.alloc((extents[1], *row), dtype)
        await core.memcpy_rows(tile, x, in_to, in_from, blocking=blocking)
        await core.memcpy_rows(out, tile, out_to, out_from, blocking=blocking)

    launch(kernel, x, out, device=device)
    middle = loop(np.full((extents[1], *bits.shape[1:]), 255, np.uint8), bits, in_to, in_from, count)
    expected = loop(np.full((extents[2], *bits.shape[1:]), 255, np.uint8), middle, out_to, out_from, back)
    assert device.download(out).tobytes() == expected.tobytes()

    columns = device.log.columns()
    row_bytes = bits[0].size
    assert columns["count"].tolist() == [count, back]
    assert columns["bytes_requested"].tolist() == [count * row_bytes, back * row_bytes]
    read, _ = row_units(x.allocation.address, row_bytes, row_bytes, range(count) if in_from is None else in_from)
    written, first = row_units(out.allocation.address, row_bytes, row_bytes, range(back) if out_to is None else out_to)
    assert columns["bus_read_bytes"].tolist() == [read, first]
    assert columns["bus_write_bytes"].tolist() == [0, written]
    assert columns["detail"].tolist() == [1, 1]  # blocks its task, whichever way its rows are issued


@given(data=st.data())
@QUICK
def test_memcpy_rows_of_several_rows_each_equals_the_loop(data: st.DataObject) -> None:
    """Runs of rows, one behind the other; each with the bus units that a copy of its own touches."""
    row = data.draw(st.integers(1, 40))
    gaps = data.draw(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), min_size=1, max_size=6))
    lengths = np.array([length for _, length in gaps])
    starts = np.cumsum([gap + length for gap, length in gaps]) - lengths
    total = int(lengths.sum())
    bits = np.random.default_rng(0).integers(0, 256, (int(starts[-1] + lengths[-1]), row), np.uint8)
    device = Device()
    x, out = device.upload(bits), device.alloc((total, row), np.uint8)

    async def kernel(core: Core, x: View, out: View) -> None:
        tile = core.nram.alloc((total, row), np.uint8)
        await core.memcpy_rows(tile, x, None, starts, lengths=lengths, blocking=False)
        await core.memcpy(out, tile)

    launch(kernel, x, out, device=device)
    chosen = np.concatenate([np.arange(start, start + length) for start, length in zip(starts, lengths, strict=True)])
    assert np.array_equal(device.download(out), bits[chosen])
    columns = device.log.columns()
    assert columns["bytes_requested"].tolist() == [total * row] * 2
    units = [
        row_units(x.allocation.address, row, length * row, [start])[0]
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]
    assert columns["bus_read_bytes"][0] == sum(units)
    assert device.verify().ok


@given(data=st.data())
@QUICK
def test_scalar_copy_equals_the_loop(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(dtypes.ALL))
    extents = [data.draw(st.integers(1, 12)) for _ in range(2)]
    count = data.draw(st.integers(1, 20))
    to, origin = data.draw(indices(extents[1], count)), data.draw(indices(extents[0], count))
    if to is None and origin is None:
        to = np.zeros(count, np.int64)
        count = min(count, extents[0])
        to = to[:count]
    bits = np.random.default_rng(1).integers(0, 256, (extents[0], dtype.itemsize), np.uint8)
    device = Device()
    x, out = device.upload(bits.view(dtype)[..., 0]), device.alloc(extents[1], dtype)

    async def kernel(core: Core, x: View, out: View) -> None:
        source, target = core.nram.alloc(extents[0], dtype), core.nram.alloc(extents[1], dtype)
        await core.memcpy(source, x)
        await core.scalar_copy(target, source, to, origin, extra_cycles=5)
        await core.memcpy(out, target)

    launch(kernel, x, out, device=device)
    expected = loop(np.full((extents[1], dtype.itemsize), 255, np.uint8), bits, to, origin, count)
    assert device.download(out).tobytes() == expected.tobytes()
    columns = device.log.columns()
    each = 2 * X4.scalar_nram_cycles + X4.scalar_loop_cycles + 5
    assert columns["end_ps"][1] - columns["start_ps"][1] == X4.cycles_ps(count * each)
    assert (columns["pipe"][1], columns["count"][1]) == (SCALAR, count)


def test_row_numbers_may_be_lists_or_small_integers(run: Any) -> None:
    device = Device()
    x, out = device.upload(np.arange(8, dtype=np.int32)), device.alloc(3, np.int32)

    async def kernel(core: Core, x: View, out: View) -> None:
        tile = core.nram.alloc(3, np.int32)
        await core.memcpy_rows(tile, x, [2, 1, 0], np.array([5, 6, 7], np.uint8))
        await core.memcpy(out, tile)

    run(kernel, x, out, device=device)
    assert device.download(out).tolist() == [7, 6, 5]


def test_a_million_row_copies_are_one_record(run: Any) -> None:
    rows = np.random.default_rng(2).integers(0, 1000, 1_000_000)
    device = Device(data=False)
    x, out = device.upload(np.zeros((1000, 4), np.float32)), device.alloc((1_000_000, 4), np.float32)

    async def kernel(core: Core, x: View, out: View) -> None:
        await core.memcpy_rows(out, x, None, rows)

    run(kernel, x, out, device=device)
    assert len(device.log) == 1
    assert device.log.columns()["count"].tolist() == [1_000_000]
    np.testing.assert_array_equal(device.log.addresses[0]["src"], rows)


def row_copies(board: Board, *, count: int, row: int, **how: Any) -> int:
    """Time of `memcpy_rows` of contiguous, aligned rows from GDRAM."""
    device = Device(board)

    async def kernel(core: Core, x: View) -> None:
        await core.memcpy_rows(core.nram.alloc((count, row), np.uint8), x, np.arange(count)[::-1].copy(), **how)

    columns = launch(kernel, device.upload(np.zeros((count, row), np.uint8)), device=device).log.columns()
    return int(columns["end_ps"][0] - columns["issue_ps"][0])


@pytest.mark.parametrize("board", [X4, H8], ids=lambda board: board.name)
@pytest.mark.parametrize("row", [64, 256, 16384])
@pytest.mark.parametrize("count", [2, 7])
def test_cost_of_rows(board: Board, row: int, count: int) -> None:
    """Blocking: latency, issue and transfer for each; queued: the transfers alone, after one latency."""
    link = board.dram_bandwidth_bytes_per_s * board.dram_strided_read_efficiency
    rate = min(board.core_read_bandwidth_bytes_per_s, board.cluster_read_bandwidth_bytes_per_s, link) / PS
    transfer = max(row / rate, board.dma_segment_ps)
    issue = board.cycles_ps(count * (board.issue_cycles + board.scalar_loop_cycles))
    blocking = count * (transfer + board.dma_read_latency_ps) + issue
    queued = board.dma_read_latency_ps + max(count * max(transfer, board.gather_element_ps), issue)
    assert row_copies(board, count=count, row=row) == pytest.approx(blocking, abs=2)
    assert row_copies(board, count=count, row=row, blocking=False) == pytest.approx(queued, abs=2)


@pytest.mark.parametrize("board", [X4, H8, S4], ids=lambda board: board.name)
@pytest.mark.parametrize("row", [4, 64, 512, 4096])
def test_counted_blocking_rows_cost_what_the_loop_costs(run: Any, board: Board, row: int) -> None:
    """The loop of plain copies, awaited one by one, within the cost of its branch and the strided efficiency."""

    async def kernel(core: Core, x: View) -> None:
        tile = core.nram.alloc((16, row), np.uint8)
        for number in range(16):
            await core.memcpy(tile[number], x[15 - number])

    device = Device(board)
    columns = run(kernel, device.upload(np.zeros((16, row), np.uint8)), device=device).log.columns()
    plain = columns["end_ps"][-1] - columns["issue_ps"][0]
    branches = 15 * board.cycles_ps(board.scalar_loop_cycles)
    assert row_copies(board, count=16, row=row) == pytest.approx(plain + branches, rel=0.01)


@pytest.mark.parametrize("side", ["dst_rows", "src_rows", "lengths"])
def test_a_kernel_may_change_its_array_of_rows_while_they_are_copied(side: str) -> None:
    bits = np.arange(32, dtype=np.uint8).reshape(4, 8)
    device = Device()
    x, out = device.upload(bits), device.alloc((4, 8), np.uint8)
    numbers = {name: np.arange(4) for name in ("dst_rows", "src_rows")}
    if side == "lengths":
        numbers = {"src_rows": np.arange(4), "lengths": np.ones(4, np.int64)}

    async def kernel(core: Core, x: View, out: View) -> None:
        tile = core.nram.alloc((4, 8), np.uint8)
        copy = core.memcpy_rows(tile, x, **numbers, blocking=False)
        numbers[side][:] = 3
        await copy
        await core.memcpy(out, tile)

    launch(kernel, x, out, device=device)
    assert np.array_equal(device.download(out), bits)


def test_on_chip_rows_each_pay_their_startup(run: Any) -> None:
    async def kernel(core: Core) -> None:
        one, two = core.nram.alloc((6, 1000), np.uint8), core.nram.alloc((6, 1000), np.uint8)
        await core.memcpy_rows(one, two, blocking=False)

    columns = run(kernel).log.columns()
    each = X4.cycles_ps(X4.move_startup_cycles + -(-1000 // X4.move_bytes_per_cycle))
    assert columns["end_ps"][0] - columns["start_ps"][0] == 6 * each
    assert columns["pipe"].tolist() == [MOVE]


@given(data=st.data())
@QUICK
def test_rows_by_addresses(data: st.DataObject) -> None:
    """x[index] over one axis of a table (outer, extent, inner), tile by tile of lookups, against plain Python."""
    outer, extent, inner = (data.draw(st.integers(1, 4)) for _ in range(3))
    looked_up = data.draw(st.integers(1, 5))
    start = data.draw(st.integers(0, extent - 1))
    stop = data.draw(st.integers(start + 1, extent))
    how = data.draw(st.sampled_from(["rows", "queued", "scalar"]))
    index = np.array(
        data.draw(st.lists(st.integers(-extent, extent - 1), min_size=outer * looked_up, max_size=outer * looked_up)),
        data.draw(st.sampled_from([np.int32, np.int64])),
    )
    table = np.arange(outer * (stop - start) * inner, dtype=np.int16).reshape(-1, inner)
    device = Device()
    views = [device.upload(table), device.upload(index)]
    out = device.alloc((outer * looked_up, inner), np.int16)

    async def kernel(core: Core, x: View, where: View, out: View) -> None:
        held, tile = core.nram.alloc(where.shape, where.dtype), core.nram.alloc(out.shape, out.dtype)
        await core.memcpy(held, where)
        axis = IndexedAxis(extent=extent, step=1, start=start, stop=stop)
        rows = Addresses((outer, looked_up), (stop - start, 0), index=held, axes=(axis,))
        if how == "scalar":
            near = core.nram.alloc(x.shape, x.dtype)
            await core.memcpy(near, x)
            await core.scalar_copy(tile, near, None, rows)
        else:
            await core.memcpy_rows(tile, x, None, rows, blocking=how == "rows")
        await core.memcpy(out, tile)

    launch(kernel, *views, out, device=device)
    expected = np.full((outer * looked_up, inner), -1, np.int16)
    for place, value in enumerate(index.tolist()):
        chosen = value + extent if value < 0 else value
        if start <= chosen < stop:
            expected[place] = table[place // looked_up * (stop - start) + chosen - start]
    np.testing.assert_array_equal(device.download(out), expected)


def test_rows_to_sram_run_on_the_memory_cores_engine(run: Any) -> None:
    async def kernel(core: Core, x: View) -> None:
        if not core.is_memory_core:
            await core.memcpy_rows(core.sram.alloc((8, 4096), "int8", f"{core.core_id}"), x)

    device = Device()
    columns = run(
        kernel, device.upload(np.zeros((8, 4096), np.int8)), device=device, dim=4, kind="UNION1"
    ).log.columns()
    assert sorted(columns["start_ps"])[1:] == sorted(columns["end_ps"])[:-1]


@pytest.mark.parametrize("method", ["memcpy_rows", "scalar_copy"])
def test_rows_can_be_copied_within_one_view(method):
    x = np.arange(48, dtype=np.float32).reshape(6, 8)

    async def kernel(core: Core, given: View, out: View, to: Any, origin: Any) -> None:
        tile = core.nram.alloc(given.shape, given.dtype)
        await core.memcpy(tile, given)
        rows = tile if method == "scalar_copy" else out
        if method == "memcpy_rows":
            await core.memcpy(out, tile)
        await getattr(core, method)(rows, rows, to, origin)
        if method == "scalar_copy":
            await core.memcpy(out, tile)

    def moved(to: Any, origin: Any) -> Any:
        device = Device()
        out = device.alloc(x.shape, x.dtype)
        launch(kernel, device.upload(x), out, np.array(to), np.array(origin), device=device)
        return device.download(out)

    assert np.array_equal(moved([0, 5], [2, 3]), x[[2, 1, 2, 3, 4, 3]])
    # Here a row is read that was written: the order of a loop that NumPy has not.
    with pytest.raises(KernelError, match="they overlap; copy through another buffer"):
        moved([1, 2], [0, 1])

"""Simulated time, compared with closed forms from the board's parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from closed_forms import BOARDS, H8, PS, X4, by_name, span, took, transfer_ps
from mlusim.cores.core import Core
from mlusim.hardware import board as board_of
from mlusim.hardware.board_record import Board
from mlusim.host.device import Device
from mlusim.memory.kinds import Direction, MemoryKind
from mlusim.memory.view import View

NARROW = X4.replace(dram_bandwidth_bytes_per_s=7 * 10**9)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=BOARDS, ids=by_name)
def board(request: pytest.FixtureRequest) -> Board:
    """Each of the boards."""
    return request.param


@pytest.mark.parametrize("nbytes", [64, 640, 64 * 1024, 320 * 1024])
@pytest.mark.parametrize("way", ["load", "store"])
def test_contiguous(run: Any, board: Board, nbytes: int, way: str) -> None:
    device = Device(board)

    async def kernel(core: Core, x: View) -> None:
        tile = core.nram.alloc(nbytes, np.uint8)
        await core.memcpy(*((tile, x) if way == "load" else (x, tile)))

    run(kernel, device.alloc(nbytes, np.uint8), device=device)
    latency = board.dma_read_latency_ps if way == "load" else board.dma_write_latency_ps
    moving = transfer_ps(board, **{"reads" if way == "load" else "writes": nbytes})
    assert took(device) == pytest.approx(latency + moving, abs=2)


@pytest.mark.parametrize("way", ["load", "store"])
@pytest.mark.parametrize(("rows", "row", "gap"), [(64, 512, 512), (100, 64, 64), (7, 16384, 64)])
def test_strided(run: Any, board: Board, way: str, rows: int, row: int, gap: int) -> None:
    """A segment takes no less than the board's time for one."""
    device = Device(board)

    async def kernel(core: Core, x: View) -> None:
        tile = core.nram.alloc((rows, row), np.uint8)
        part = x[:, :row]
        await core.memcpy(*((tile, part) if way == "load" else (part, tile)))

    run(kernel, device.alloc((rows, row + gap), np.uint8), device=device)
    latency = board.dma_read_latency_ps if way == "load" else board.dma_write_latency_ps
    moving = transfer_ps(board, segments=rows, strided=True, **{"reads" if way == "load" else "writes": rows * row})
    assert took(device) == pytest.approx(latency + moving, abs=2)


def test_segments_cost_on_the_side_with_gaps(run: Any, board: Board) -> None:
    device = Device(board)

    async def kernel(core: Core, x: View) -> None:
        await core.memcpy(core.nram.alloc((2, 128), np.uint8)[:, :64], x)

    run(kernel, device.alloc((2, 64), np.uint8), device=device)
    expected = board.dma_read_latency_ps + transfer_ps(board, reads=128, segments=2)
    assert took(device) == pytest.approx(expected, abs=2)


@pytest.mark.parametrize(
    ("offset", "nbytes", "first_read", "written"), [(0, 4, 64, 64), (60, 8, 128, 128), (0, 65, 64, 128)]
)
def test_short_stores(run: Any, board: Board, offset: int, nbytes: int, first_read: int, written: int) -> None:
    device = Device(board)

    async def kernel(core: Core, x: View) -> None:
        await core.memcpy(x[offset : offset + nbytes], core.nram.alloc(nbytes, np.uint8))

    run(kernel, device.alloc(256, np.uint8), device=device)
    columns = device.log.columns()
    assert (columns["bus_read_bytes"][0], columns["bus_write_bytes"][0]) == (first_read, written)
    moving = transfer_ps(board, writes=written, first_reads=first_read, elements=nbytes < 64)
    assert took(device) == pytest.approx(board.dma_write_latency_ps + moving, abs=2)


@pytest.mark.parametrize("direction", ["SRAM2NRAM", "NRAM2SRAM"])
def test_sram(run: Any, board: Board, direction: str) -> None:
    device = Device(board)
    nbytes = 100_000

    async def kernel(core: Core) -> None:
        if core.is_memory_core or core.core_id:
            return
        sram, nram = core.sram.alloc(nbytes, np.uint8, "s"), core.nram.alloc(nbytes, np.uint8)
        await core.memcpy(*((nram, sram) if direction == "SRAM2NRAM" else (sram, nram)))

    run(kernel, device=device, dim=4, kind="UNION1")
    rate = min(board.core_sram_bandwidth_bytes_per_s, board.sram_bandwidth_bytes_per_s)
    assert took(device) == pytest.approx(board.sram_latency_ps + nbytes / rate * PS, abs=2)


@pytest.mark.parametrize("by", ["core", "memory core"])
@pytest.mark.parametrize("direction", ["GDRAM2SRAM", "SRAM2GDRAM"])
def test_the_memory_cores_engine(run: Any, by: str, direction: str) -> None:
    """Copies between GDRAM and SRAM run on it, whichever core issues them."""
    board = X4.replace(memory_core_bandwidth_bytes_per_s=3 * 10**9)
    device = Device(board)
    nbytes = 64_000

    async def kernel(core: Core, x: View) -> None:
        if core.core_id == (0x80 if by == "memory core" else 2):
            sram = core.sram.alloc(nbytes, np.uint8, "s")
            await core.memcpy(*((sram, x) if direction == "GDRAM2SRAM" else (x, sram)))

    run(kernel, device.alloc(nbytes, np.uint8), device=device, dim=4, kind="UNION1")
    reads = direction == "GDRAM2SRAM"
    latency = board.dma_read_latency_ps if reads else board.dma_write_latency_ps
    moving = nbytes / (3 * 10**9) * PS
    assert took(device) == pytest.approx(latency + moving, abs=2)


def test_a_move_inside_a_core(run: Any, board: Board) -> None:
    async def kernel(core: Core) -> None:
        one_buffer, two = core.nram.alloc(12_800, np.uint8), core.nram.alloc(12_800, np.uint8)
        await core.memcpy(one_buffer, two)

    device = run(kernel, device=board)
    assert took(device) == board.cycles_ps(board.move_startup_cycles + -(-12_800 // board.move_bytes_per_cycle))


@pytest.mark.parametrize("narrow", ["core", "cluster", "dram"])
def test_the_slowest_of_core_cluster_and_chip_decides(run: Any, narrow: str) -> None:
    slow = 10**9
    limits = (
        {"dram_bandwidth_bytes_per_s": slow}
        if narrow == "dram"
        else {f"{narrow}_{way}_bandwidth_bytes_per_s": slow for way in ("read", "write")}
    )
    board = X4.replace(**limits)
    device = Device(board)

    async def kernel(core: Core, x: View, out: View) -> None:
        tile = core.nram.alloc(64_000, np.uint8)
        await core.memcpy(tile, x)
        await core.memcpy(out, tile)

    run(kernel, device.upload(np.zeros(64_000, np.uint8)), device.alloc(64_000, np.uint8), device=device)
    for record, efficiency, latency in (
        (0, board.dram_read_efficiency, board.dma_read_latency_ps),
        (1, board.dram_write_efficiency, board.dma_write_latency_ps),
    ):
        expected = latency + 64_000 / slow * PS / (efficiency if narrow == "dram" else 1)
        assert took(device, record) == pytest.approx(expected, abs=2)
        assert device.log.columns()["alone_ps"][record] == took(device, record)


@given(data=st.data())
@QUICK
def test_an_uncontended_copy_takes_the_planners_time(run: Any, data: st.DataObject) -> None:
    """`alone_ps` of any copy of one core is the time that it takes, to a picosecond or two."""
    board = data.draw(
        st.sampled_from([X4, H8, board_of("mlu290"), X4.replace(cluster_read_bandwidth_bytes_per_s=7 * 10**9), NARROW])
    )
    # Not WRAM, nor moves of 2xx, for which sizes are not free, nor within LDRAM, which has only strided copies.
    ruled = (Direction.NRAM2NRAM, Direction.LDRAM2LDRAM)
    sizeless = [d for d in Direction if MemoryKind.WRAM not in d.value and d not in ruled]
    direction = data.draw(st.sampled_from(sizeless))
    rows, row, gap = (
        data.draw(st.integers(1, 40)),
        data.draw(st.integers(1, 300)),
        data.draw(st.sampled_from([0, 1, 64])),
    )
    device = Device(board)

    async def kernel(core: Core, x: View, out: View) -> None:
        if core.is_memory_core or core.core_id:
            return

        def end(kind: MemoryKind, mine: View, name: str) -> View:
            if kind is MemoryKind.GDRAM:
                return mine
            scratch = getattr(core, kind.value)
            return scratch.alloc(mine.shape, np.uint8, name)

        source, target = end(direction.source, x, "a"), end(direction.destination, out, "b")
        await core.memcpy(target[:, :row], source[:, :row])

    views = [device.alloc((rows, row + gap), np.uint8) for _ in range(2)]
    run(kernel, *views, device=device, dim=4, kind="UNION1")
    assert took(device) == pytest.approx(device.log.columns()["alone_ps"][0], abs=2)


@pytest.mark.parametrize("count", [2, 10])
def test_a_queued_copy_hides_its_start_up(run: Any, board: Board, count: int) -> None:
    nbytes = 64 * 1024
    moving = transfer_ps(board, reads=nbytes)

    async def kernel(core: Core, x: View, blocking: bool) -> None:
        tile = core.nram.alloc(nbytes, np.uint8)
        for _ in range(count):
            if blocking:
                await core.memcpy(tile, x)
            else:
                core.memcpy_async(tile, x)
        await core.sync()

    times = {}
    for blocking in (False, True):
        device = Device(board)
        run(kernel, device.upload(np.zeros(nbytes, np.uint8)), blocking, device=device)
        times[blocking] = span(device)
    issue = board.cycles_ps(board.issue_cycles)
    assert moving > issue
    assert times[False] == pytest.approx(board.dma_read_latency_ps + count * moving, abs=2 * count)
    assert times[True] == pytest.approx(count * (board.dma_read_latency_ps + moving) + count * issue, abs=2 * count)


def test_a_short_copy_hides_only_part_of_the_next_ones_start_up(run: Any) -> None:
    async def kernel(core: Core, x: View) -> None:
        tile = core.nram.alloc(64, np.uint8)
        core.memcpy_async(tile, x)
        core.scalar(300)
        core.memcpy_async(tile, x)

    device = Device(X4)
    run(kernel, device.upload(np.zeros(64, np.uint8)), device=device)
    columns = device.log.columns()
    first, second = (record for record in range(3) if columns["direction"][record] >= 0)
    for record in (first, second):
        ready = columns["issue_ps"][record] + X4.dma_read_latency_ps
        assert columns["end_ps"][record] == pytest.approx(ready + transfer_ps(X4, reads=64), abs=2)
        assert columns["start_ps"][record] + columns["latency_ps"][record] == ready


async def mixed_work(core: Core, x: View, out: View) -> None:
    """One core that loads, computes, moves and stores."""
    tile, copy = core.nram.alloc((16, 1000), np.float32), core.nram.alloc((16, 1000), np.float32)
    for half in range(2):
        core.memcpy_async(tile, x[half, :, :1000])
        core.scalar(17)
        await core.sync_io()
        core.add(copy, tile, 1.0)
        await core.sync()
        core.move(tile, copy)
        await core.sync()
        await core.load(tile[0, 0])
        await core.memcpy(out[half], tile)


GROWS_FASTER = [
    *("clock_hz", "dram_bandwidth_bytes_per_s", "core_read_bandwidth_bytes_per_s"),
    *("core_write_bandwidth_bytes_per_s", "cluster_read_bandwidth_bytes_per_s"),
    *("cluster_write_bandwidth_bytes_per_s", "vector_bytes_per_cycle", "move_bytes_per_cycle"),
]


def mixed_time(board: Board) -> int:
    device = Device(board, data=True)
    x = device.upload(np.zeros((2, 16, 1100), np.float32))
    out = device.alloc((2, 16, 1000), np.float32)
    device.launch(mixed_work, x, out, dim=1, kind="BLOCK")
    device.synchronize()
    return device.log.launches[0].end_ps


@given(
    name=st.sampled_from(GROWS_FASTER),
    factor=st.sampled_from([0.01, 0.1, 0.5, 0.99]),
    more=st.sampled_from([1.001, 1.5, 3.0, 100.0]),
)
@QUICK
def test_one_cores_time_never_grows_with_more_bandwidth_or_clock(name: str, factor: float, more: float) -> None:
    slow = max(int(getattr(X4, name) * factor), 1)
    fast = max(int(slow * more), slow + 1)
    assert mixed_time(X4.replace(**{name: fast})) <= mixed_time(X4.replace(**{name: slow}))


@pytest.mark.parametrize(
    "name",
    [
        *("dma_read_latency_ps", "dma_write_latency_ps", "dma_segment_ps", "vector_startup_cycles"),
        *("move_startup_cycles", "issue_cycles", "scalar_nram_cycles", "kernel_start_ps", "kernel_end_ps"),
    ],
)
def test_every_cost_parameter_affects_the_time(name: str) -> None:
    """A larger cost makes a kernel that uses it slower."""
    assert mixed_time(X4.replace(**{name: getattr(X4, name) + 10**6})) > mixed_time(X4)


def test_time_is_whole_picoseconds(run: Any) -> None:
    """Also on a clock whose period is no whole number of picoseconds."""
    board = board_of("mlu370-x4").replace(clock_hz=333_333_333)
    device = Device(board)
    views = device.upload(np.zeros((2, 16, 1100), np.float32)), device.alloc((2, 16, 1000), np.float32)
    run(mixed_work, *views, device=device)
    assert device.log.table().dtype == np.int64
    assert isinstance(device._chip.environment.now, int)
    assert all(isinstance(task.end_ps, int) and isinstance(task.start_ps, int) for task in device.log.tasks)
    assert all(isinstance(launch.end_ps, int) for launch in device.log.launches)


@pytest.mark.parametrize("board", BOARDS, ids=by_name)
def test_timing_does_not_depend_on_data(run: Any, board: Board) -> None:
    """A timing-only run, and runs of other data, have the very same records."""
    tables = []
    for data, seed in ((True, 0), (True, 1), (False, 2)):
        device = Device(board, data=data)
        x = np.random.default_rng(seed).standard_normal((2, 16, 1100)).astype(np.float32)
        out = device.alloc((2, 16, 960), np.float32)

        async def kernel(core: Core, x: View, out: View) -> None:
            tile, copy = core.nram.alloc((16, 960), np.float32), core.nram.alloc((16, 960), np.float32)
            for half in range(2):
                core.memcpy_async(tile, x[half, :, :960])
                await core.sync_io()
                core.add(copy, tile, 1.0)
                core.store(copy[0, 0], 4)
                await core.sync()
                await core.memcpy_rows(tile, copy, None, np.arange(16)[::-1])
                await core.scalar_copy(copy, tile, np.arange(5))
                await core.sync()
                await core.memcpy(out[half], tile)
                core.store(out[half, 0, 0], 1.0)

        run(kernel, device.upload(x), out, device=device, dim=4)
        tables.append(device.log.table())
    np.testing.assert_array_equal(tables[0], tables[1])
    np.testing.assert_array_equal(tables[0], tables[2])

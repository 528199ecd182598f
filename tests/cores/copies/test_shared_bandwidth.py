"""Simulated time of cores that share a link, compared with closed forms from the board's parameters."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from closed_forms import BOARDS, PS, X4, by_name, span, took, transfer_ps
from mlusim.cores.core import Core
from mlusim.hardware.board_record import Board
from mlusim.host.device import Device
from mlusim.memory.view import View


@pytest.fixture(params=BOARDS, ids=by_name)
def board(request: pytest.FixtureRequest) -> Board:
    """Each of the boards."""
    return request.param


@pytest.mark.parametrize("cores", [2, 8, 32])
def test_k_equal_cores_on_a_saturated_chip_take_k_times(run: Any, cores: int) -> None:
    board = X4.replace(
        dram_bandwidth_bytes_per_s=10**9, core_start_skew_ps=0, cluster_start_ps=0, dram_share_spread=0.0
    )
    device = Device(board)
    nbytes = 64_000

    async def kernel(core: Core, x: View) -> None:
        await core.memcpy(core.nram.alloc(nbytes, np.uint8), x)

    run(kernel, device.upload(np.zeros(nbytes, np.uint8)), device=device, dim=cores)
    expected = board.dma_read_latency_ps + cores * transfer_ps(board, reads=nbytes)
    assert [took(device, record) for record in range(cores)] == pytest.approx([expected] * cores, abs=cores + 1)


@pytest.mark.parametrize("way", ["read", "write"])
def test_the_cores_of_a_cluster_share_its_port(run: Any, way: str) -> None:
    """Cores of one cluster share its port; the same number of cores in four clusters uses four ports."""
    board = X4.replace(
        **{f"cluster_{way}_bandwidth_bytes_per_s": 16 * 10**9},
        core_start_skew_ps=0,
        cluster_start_ps=0,
        dram_share_spread=0.0,
    )
    nbytes = 64_000

    async def kernel(core: Core, x: View) -> None:
        if not core.is_memory_core:
            tile = core.nram.alloc(nbytes, np.uint8)
            await core.memcpy(*((tile, x) if way == "read" else (x, tile)))

    ends = {}
    for name, dim, kind in (("board cluster", 4, "UNION1"), ("four clusters", 4, "BLOCK")):
        device = Device(board)
        run(kernel, device.alloc(nbytes, np.uint8), device=device, dim=dim, kind=kind)
        ends[name] = [took(device, record) for record in range(4)]
    latency = getattr(board, f"dma_{way}_latency_ps")
    alone = nbytes / (16 * 10**9) * PS
    assert ends["board cluster"] == pytest.approx([latency + 4 * alone] * 4, abs=5)
    assert ends["four clusters"] == pytest.approx([latency + alone] * 4, abs=5)


def test_sram_is_shared_by_its_cluster(run: Any) -> None:
    board = X4.replace(
        sram_bandwidth_bytes_per_s=20 * 10**9, core_start_skew_ps=0, cluster_start_ps=0, dram_share_spread=0.0
    )
    nbytes = 64_000

    async def kernel(core: Core) -> None:
        shared = core.sram.alloc(nbytes, np.uint8, "s")
        if not core.is_memory_core:
            await core.memcpy(core.nram.alloc(nbytes, np.uint8), shared)

    device = run(kernel, device=board, dim=(4, 2, 1), kind="UNION1")
    expected = board.sram_latency_ps + 4 * nbytes / (20 * 10**9) * PS
    assert [took(device, record) for record in range(8)] == pytest.approx([expected] * 8, abs=5)


def test_reads_and_writes_together_lose_the_mixed_efficiency(run: Any) -> None:
    board = X4.replace(
        dram_bandwidth_bytes_per_s=10**9,
        dram_mixed_efficiency=0.8,
        core_start_skew_ps=0,
        cluster_start_ps=0,
        dram_share_spread=0.0,
        dma_read_latency_ps=0,
        dma_write_latency_ps=0,
    )
    nbytes = 64_000

    async def kernel(core: Core, x: View, together: bool) -> None:
        tile = core.nram.alloc(nbytes, np.uint8)
        read = core.task_id == 0 or not together
        await core.memcpy(*((tile, x) if read else (x, tile)))

    spans = {}
    for together in (False, True):
        device = Device(board)
        run(kernel, device.alloc(nbytes, np.uint8), together, device=device, dim=2)
        spans[together] = span(device)
    reads, writes = (transfer_ps(board, **{way: nbytes}) for way in ("reads", "writes"))
    assert spans[False] == pytest.approx(2 * reads, abs=5)
    # The read ends first, after twice its work; what is left of the write goes alone.
    shared = 2 * reads / board.dram_mixed_efficiency
    assert spans[True] == pytest.approx(shared + (writes - reads), abs=5)


async def stream(core: Core, x: View, way: str) -> None:
    """Twenty copies of the first 8 KiB of each row."""
    tile = core.nram.alloc((24, 8192), np.uint8)
    part = x[:, :8192]
    for _ in range(20):
        core.memcpy_async(*((tile, part) if way == "read" else (part, tile)))


@pytest.mark.parametrize("name", ["mlu270-s4", "mlu370-x4", "mlu590-h8"])
def test_access_patterns_rank_as_expected_on_a_full_chip(run: Any, name: str) -> None:
    """Contiguous read > contiguous write > strided read > strided write (G 5.3), where the DRAM is the bound."""
    speeds = []
    for gap, way in product((0, 64), ("read", "write")):
        device = Device(name, data=False)
        x = device.alloc((24, 8192 + gap), np.uint8)
        run(stream, x, way, device=device, dim=device.board.cores)
        speeds.append(1 / span(device))
    assert speeds == sorted(speeds, reverse=True)
    assert len(set(speeds)) == 4

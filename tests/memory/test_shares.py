"""Weighted shares of a full link: their invariants and their purpose."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluid_link import Wish
from mlusim.cores.core import Core
from mlusim.hardware import board
from mlusim.host.device import Device
from mlusim.memory.clock import Clock
from mlusim.memory.flow import READ, WRITE, Flow, LinkLimits, weights
from mlusim.memory.link import Link
from mlusim.memory.quick_link import QuickLink
from mlusim.memory.view import View
from mlusim.units import KIB
from mlusim.version import is_compiled
from recorded_flows import ends_on

pytestmark = pytest.mark.skipif(is_compiled(), reason="a compiled class cannot be a base class here")


def run(link: Link, clock: Clock, works: list[float], traffic: int = READ) -> list[int]:
    """When each of some transfers that join now is done."""
    ended = ends_on(link, clock, [Wish(clock.now, work, 1.0, traffic=traffic) for work in works], ahead=True)
    return [ended[number] for number in range(len(works))]


@given(st.lists(st.integers(1, 500), min_size=1, max_size=40), st.sampled_from([0.0, 0.1, 0.3, 0.6]))
@settings(deadline=None, max_examples=60)
def test_weights_do_not_change_the_total_rate_of_a_full_link(works: list[int], spread: float) -> None:
    clock = Clock()
    link = QuickLink(clock, LinkLimits(0.02, [1e9], spread=spread))
    ends = run(link, clock, [100.0 * work for work in works])
    assert max(ends) == pytest.approx(sum(works) * 100 / 0.02, abs=len(works) + 1)


def test_only_concurrent_transfers_are_weighted() -> None:
    alone, many = Clock(), Clock()
    first, second = (QuickLink(clock, LinkLimits(0.02, [1e9], spread=0.3)) for clock in (alone, many))
    assert run(first, alone, [1000]) == [50_000]
    ends = run(second, many, [1000] * 8)
    assert len(set(ends)) == 8


@given(st.floats(0, 0.99))
def test_weights_lie_within_the_spread_and_are_evenly_distributed(spread: float) -> None:
    found = weights(spread)
    assert all(abs(weight - 1) <= spread + 1e-3 for weight in found)
    assert all(abs(np.mean(found[at : at + 34]) - 1) <= 0.06 * spread + 1e-3 for at in range(0, len(found) - 34, 34))


def test_a_tiny_access_does_not_trigger_the_mixing_factor() -> None:
    """A small read ends; the writes after it go at full speed at once, those after a large one do not."""
    ends = {}
    for nbytes in (2, 10_000):
        clock = Clock()
        link = QuickLink(clock, LinkLimits(1.0, [1e9], mixed_factor=0.5, mixing_ps=10**9, mixing_reach=4.0))
        run(link, clock, [nbytes])
        start = clock.now
        ends[nbytes] = run(link, clock, [20_000], WRITE)[0] - start
    assert ends[2] == pytest.approx(20_000, abs=10)
    # Mixed throughout: four times 10 000 picoseconds cover the write at half the rate.
    assert ends[10_000] == pytest.approx(40_000, abs=10)


async def blocking(core: Core, x: View, out: View, tile: int, instructions: int) -> None:
    """Load, compute and store, each waited for."""
    buffer = core.nram.alloc(tile, x.dtype)
    each = x.size // core.task_dim
    for start in range(core.task_id * each, (core.task_id + 1) * each, tile):
        part = buffer[: min(tile, (core.task_id + 1) * each - start)]
        await core.memcpy(part, x[start : start + part.size])
        for _ in range(instructions):
            core.mul(part, part, 1.0)
        await core.memcpy(out[start : start + part.size], part)


def time_of(name: str, instructions: int, *, skew_ps: int = 5_000, tile: int = 64 * KIB // 4, tiles: int = 24) -> int:
    on = board(name).replace(core_start_skew_ps=skew_ps)
    device = Device(on, data=False)
    count = on.cores * tiles * 64 * KIB // 4
    x = device.upload(np.broadcast_to(np.zeros((), np.float32), count), "x")
    device.launch(blocking, x, device.alloc(count, np.float32), tile, instructions, dim=on.cores, kind="BLOCK")
    device.synchronize()
    return device.log.launches[0].end_ps


@pytest.mark.parametrize("instructions", [0, 1, 8])
@pytest.mark.parametrize(
    ("name", "tiles", "most"),
    [
        *((name, 24, 1.06) for name in ("mlu270-s4", "mlu370-x4", "mlu590-m9")),
        # On MLU290 four cores share a port that is full, and so few average out over more tiles only. With equal
        # shares its times differ by a third and more.
        ("mlu290-m5", 24, 1.1),
        pytest.param("mlu290-m5", 192, 1.06, marks=pytest.mark.slow),
    ],
)
def test_large_kernels_do_not_depend_on_lockstep(name: str, tiles: int, most: float, instructions: int) -> None:
    """Blocking load, compute, store on all cores: starts 0 to 30 ns apart, tiles a quarter larger or smaller."""
    times = [time_of(name, instructions, skew_ps=skew_ps, tiles=tiles) for skew_ps in (0, 5_000, 30_000)]
    times.append(time_of(name, instructions, tile=80 * KIB // 4, tiles=tiles))
    assert max(times) <= most * min(times)


@pytest.mark.slow
def test_links_do_not_switch_methods_so_often_that_moving_the_flows_costs_more_than_the_transfers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two cores at each of 16 ports, which contend again and again."""
    scheduled = []
    schedule_end = QuickLink._schedule_end

    def counted(link: QuickLink, flow: Flow, *times: float) -> None:
        scheduled.append(flow)
        schedule_end(link, flow, *times)

    monkeypatch.setattr(QuickLink, "_schedule_end", counted)
    device = Device("mlu290-m5", data=False)
    tiles, tile = 300, 1024
    x = device.upload(np.broadcast_to(np.float32(0), 32 * tiles * tile), "x")
    device.launch(blocking, x, device.alloc(x.shape, x.dtype), tile, 0, dim=32, kind="BLOCK")
    device.synchronize()
    assert len(scheduled) <= 2 * 2 * 32 * tiles

"""Start times of tasks: skew, overhead, waves, whole clusters, queues."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlusim.cores.core import Core
from mlusim.errors import InputError
from mlusim.hardware import board
from mlusim.host.device import Device
from mlusim.memory.view import View

X4 = board("mlu370-x4")
ISSUE = X4.cycles_ps(X4.issue_cycles)


async def nothing(core: Core) -> None:
    """Returns at once."""


async def busy(core: Core, cycles: int) -> None:
    core.scalar(cycles)


def test_tasks_start_with_a_skew_and_end_with_the_kernel_overhead(run: Any) -> None:
    device = run(busy, 1000, dim=4, kind="UNION1")
    tasks = [task for task in device.log.tasks if not task.is_memory_core]
    first = X4.kernel_start_ps
    assert [task.start_ps for task in tasks] == [first + k * X4.core_start_skew_ps for k in range(4)]
    took = X4.cycles_ps(1000)
    assert [task.end_ps for task in tasks] == [task.start_ps + took for task in tasks]
    (memory_core,) = (task for task in device.log.tasks if task.is_memory_core)
    assert memory_core.start_ps == first
    (launch,) = device.log.launches
    assert (launch.start_ps, launch.end_ps) == (0, tasks[-1].end_ps + X4.kernel_end_ps)


def test_a_memory_core_starts_with_the_first_core_of_its_cluster(run: Any) -> None:
    device = run(nothing, dim=8, kind="UNION2")
    starts = {(task.cluster, task.core): task.start_ps for task in device.log.tasks}
    for cluster in (0, 1):
        begins = X4.kernel_start_ps + cluster * (X4.cluster_start_ps + 4 * X4.core_start_skew_ps)
        assert starts[cluster, 0x80] == starts[cluster, 0] == begins


def test_an_empty_kernel_costs_start_and_end(run: Any) -> None:
    device = run(nothing)
    assert device.log.launches[0].end_ps == X4.kernel_start_ps + X4.kernel_end_ps


def test_queued_kernels_have_a_gap(run: Any) -> None:
    device = Device()
    for _ in range(3):
        device.launch(nothing, dim=1, kind="BLOCK")
    device.synchronize()
    alone = X4.kernel_start_ps + X4.kernel_end_ps
    step = alone + X4.queued_kernel_gap_ps
    assert [(launch.start_ps, launch.end_ps) for launch in device.log.launches] == [
        (k * step, k * step + alone) for k in range(3)
    ]


@pytest.mark.parametrize("tasks", [32, 33, 64, 100])
def test_block_tasks_come_in_waves(run: Any, tasks: int) -> None:
    device = run(busy, 1000, dim=tasks)
    starts = np.array([task.start_ps for task in device.log.tasks])
    ends = np.array([task.end_ps for task in device.log.tasks])
    waves = -(-tasks // 32)
    begins = X4.kernel_start_ps
    for wave in range(waves):
        here = slice(32 * wave, min(32 * (wave + 1), tasks))
        count = here.stop - here.start
        # Successive tasks go to successive clusters, which the first wave sets up one after the other.
        later = 0 if wave else X4.cluster_start_ps
        assert starts[here].tolist() == sorted(
            begins + k % X4.clusters * later + k * X4.core_start_skew_ps for k in range(count)
        )
        begins = ends[here].max() + X4.wave_ps
    assert device.log.launches[0].end_ps == ends.max() + X4.kernel_end_ps


def test_a_wave_waits_for_the_slowest_task_of_the_previous_wave(run: Any) -> None:
    async def uneven(core: Core) -> None:
        core.scalar(100_000 if core.task_id == 7 else 1)

    device = run(uneven, dim=33)
    slowest = max(task.end_ps for task in device.log.tasks if task.task_id < 32)
    assert device.log.tasks[32].start_ps == slowest + X4.wave_ps


def test_a_small_grid_uses_the_ports_of_all_clusters(run: Any) -> None:
    device = run(nothing, dim=8)
    assert sorted(task.cluster for task in device.log.tasks) == list(range(8))


@pytest.mark.parametrize(
    ("kind", "dim", "jobs"), [("UNION1", (4, 20, 1), 20), ("UNION4", (16, 1, 5), 5), ("UNION1", (80, 1, 1), 20)]
)
def test_more_jobs_than_clusters(run: Any, kind: str, dim: tuple[int, int, int], jobs: int) -> None:
    """A job takes whole clusters as soon as they are free; no core runs two tasks at a time."""

    async def uneven(core: Core) -> None:
        core.scalar(100 * (1 + core.task_id % 7))

    device = run(uneven, dim=dim, kind=kind)
    assert len(device.log.tasks) == jobs * int(kind[5:]) * 5
    check_exclusive(device)


def check_exclusive(device: Device) -> None:
    """No core runs two tasks at once, and a union has its clusters for itself."""
    log = device.log
    spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for task in log.tasks:
        spans.setdefault((task.cluster, task.core), []).append((task.start_ps, task.end_ps))
    for here in spans.values():
        here.sort()
        assert all(one[1] <= two[0] for one, two in pairwise(here))


def test_block_tasks_do_not_enter_the_clusters_of_a_union() -> None:
    """Even where the memory core and three cores of it have returned already."""
    device = Device(X4.replace(clusters=2, max_union=2))

    async def union(core: Core) -> None:
        core.scalar(1_000_000 if core.task_id == 0 and not core.is_memory_core else 10)

    device.launch(union, dim=(4, 2, 1), kind="UNION1")
    device.launch(busy, 10, dim=6, kind="BLOCK", queue=device.queue())
    device.synchronize()
    tasks = device.log.tasks
    end = next(task.end_ps for task in tasks if task.launch == 0 and task.task_id == 0 and not task.is_memory_core)
    block = [task for task in tasks if task.launch == 1]
    assert {task.cluster for task in block if task.start_ps < end} == {1}
    assert len(block) == 6


@pytest.mark.parametrize("kind", ["BLOCK", "UNION1"])
def test_a_running_memory_core_keeps_its_cluster_busy(kind: str) -> None:
    device = Device(X4.replace(clusters=2, max_union=2))

    async def union(core: Core) -> None:
        core.scalar(1_000_000 if core.is_memory_core and core.task_id_y == 0 else 10)

    device.launch(union, dim=(4, 2, 1), kind="UNION1")
    device.launch(busy, 10, dim=8, kind=kind, queue=device.queue())
    device.synchronize()
    end = max(task.end_ps for task in device.log.tasks if task.launch == 0)
    later = [task for task in device.log.tasks if task.launch == 1]
    assert {task.cluster for task in later if task.start_ps < end} == {1}


def test_a_union_waits_for_whole_clusters() -> None:
    device = Device(X4.replace(clusters=2, max_union=2))

    async def one_slow(core: Core) -> None:
        core.scalar(100_000 if core.task_id == 0 else 1)

    device.launch(one_slow, dim=3, kind="BLOCK")
    device.launch(nothing, dim=8, kind="UNION2", queue=device.queue())
    device.launch(nothing, dim=4, kind="UNION1", queue=device.queue())
    device.synchronize()
    slow = next(task for task in device.log.tasks if task.launch == 0 and task.task_id == 0)
    assert all(task.start_ps >= slow.end_ps for task in device.log.tasks if task.launch == 1)
    check_exclusive(device)


# Queues


def test_a_queue_is_in_order(run: Any) -> None:
    device = Device()
    out = device.alloc(1, np.int32)

    async def multiply(core: Core, out: View, by: int, add: int) -> None:
        core.store(out[0], (await core.load(out[0])) * by + add)

    for by, add in ((0, 1), (10, 2), (10, 3), (10, 4)):
        device.launch(multiply, out, by, add, dim=1, kind="BLOCK")
    device.synchronize()
    assert device.download(out).tolist() == [1234]


def test_different_queues_overlap() -> None:
    device = Device()
    for _ in range(2):
        device.launch(busy, 100_000, dim=4, kind="UNION1", queue=device.queue())
    device.synchronize()
    one, two = device.log.launches
    assert (one.start_ps, one.end_ps) == (two.start_ps, two.end_ps)
    assert [one.queue, two.queue] == [0, 1]
    check_exclusive(device)


def test_empty_launches_beside_a_kernel_do_not_change_its_time() -> None:
    async def doubled(core: Core, x: View) -> None:
        tile = core.nram.alloc(x.shape[1], x.dtype)
        for _ in range(10):
            await core.memcpy(tile, x[core.task_id])
            core.add(tile, tile, tile)
            await core.memcpy(x[core.task_id], tile)

    def time_ps(empty_launches: int) -> int:
        device = Device(data=False)
        other = device.queue()
        for _ in range(empty_launches):
            device.launch(nothing, dim=1, kind="BLOCK", queue=other)
        device.launch(doubled, device.alloc((16, 20_000), np.float32), dim=16, kind="BLOCK")
        device.synchronize()
        launch = device.log.launches[-1]
        return launch.end_ps - launch.start_ps

    assert time_ps(40) == time_ps(0)


def test_launches_on_different_queues_wait_for_free_cores() -> None:
    device = Device()
    for _ in range(2):
        device.launch(busy, 100_000, queue=device.queue())
    device.synchronize()
    one, two = device.log.launches
    assert two.start_ps >= min(task.end_ps for task in device.log.tasks if task.launch == 0 and not task.is_memory_core)
    assert one.end_ps < two.end_ps
    check_exclusive(device)


def test_a_launch_is_asynchronous_to_the_host() -> None:
    device = Device()
    out = device.alloc(4, np.int32)

    async def kernel(core: Core, out: View) -> None:
        tile = core.nram.alloc(4, np.int32)
        core.fill(tile, 3)
        await core.sync()
        await core.memcpy(out, tile)

    launch = device.launch(kernel, out, dim=1, kind="BLOCK")
    assert not launch.done
    with pytest.raises(InputError, match="before kernel has run: a launch only queues; call synchronize"):
        device.download(out)
    device.synchronize()
    assert launch.done
    assert device.download(out).tolist() == [3] * 4


def test_launched_twice_and_synchronized_in_between() -> None:
    device = Device()
    x = np.arange(64, dtype=np.int32)
    view, out = device.upload(x), device.alloc(64, np.int32)

    async def double(core: Core, source: View, out: View) -> None:
        tile = core.nram.alloc(64, np.int32)
        assert core.nram.free_bytes == core.nram.usable_bytes - 256
        await core.memcpy(tile, source)
        core.add(tile, tile, tile)
        await core.sync()
        await core.memcpy(out, tile)

    device.launch(double, view, out, dim=1, kind="BLOCK")
    device.synchronize()
    first_end = device.log.launches[0].end_ps
    device.launch(double, out, out, dim=1, kind="BLOCK")
    device.synchronize()
    device.synchronize()
    np.testing.assert_array_equal(device.download(out), 4 * x)
    assert device.log.launches[1].start_ps >= first_end
    assert len(device.log) == 8


@given(
    launches=st.lists(
        st.tuples(
            st.sampled_from(["BLOCK", "UNION1", "UNION2"]), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2)
        ),
        min_size=1,
        max_size=6,
    ),
    clusters=st.sampled_from([2, 3]),
)
@settings(max_examples=40, deadline=None)
def test_any_mix_of_launches_completes(launches: list[tuple[str, int, int, int]], clusters: int) -> None:
    """Every task runs once, cores and clusters are never shared, queues are in order."""
    device = Device(X4.replace(clusters=clusters, max_union=2))
    queues = [device.queue() for _ in range(3)]
    ran: list[tuple[int, int]] = []

    async def kernel(core: Core, number: int) -> None:
        core.scalar(1 + (core.task_id * 7919 + number * 104729) % 5000)
        if not core.is_memory_core:
            ran.append((number, core.task_id))

    for number, (kind, x, y, queue) in enumerate(launches):
        width = 7 if kind == "BLOCK" else 4 * int(kind[5:])
        device.launch(kernel, number, dim=(x * width, y, 1), kind=kind, queue=queues[queue])
    device.synchronize()
    expected = [
        (number, task)
        for number, (kind, x, y, _) in enumerate(launches)
        for task in range(x * y * (7 if kind == "BLOCK" else 4 * int(kind[5:])))
    ]
    assert sorted(ran) == expected
    check_exclusive(device)
    unions = [
        (task.cluster, task.start_ps, task.end_ps, task.launch)
        for task in device.log.tasks
        if launches[task.launch][0] != "BLOCK" and task.is_memory_core
    ]
    for cluster, start, _, launch in unions:
        for task in device.log.tasks:
            if task.cluster == cluster and task.launch != launch:
                assert task.end_ps <= start or task.start_ps >= start
    for queue in range(3):
        mine = [launch for launch in device.log.launches if launch.queue == queue]
        assert all(launch.end_ps + X4.queued_kernel_gap_ps <= two.start_ps for launch, two in pairwise(mine))

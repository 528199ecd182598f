"""Launches: task types and grids, waves, whole clusters, queues, and what the board cannot hold."""

from __future__ import annotations

import functools
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlusim.cores.core import Core
from mlusim.cores.launch import WaitingJobs
from mlusim.errors import InputError, LaunchError
from mlusim.hardware import board, presets
from mlusim.host.device import Device
from mlusim.memory.view import View

X4 = board("mlu370-x4")
ISSUE = X4.cycles_ps(X4.issue_cycles)


async def nothing(core: Core) -> None:
    """Returns at once."""


async def busy(core: Core, cycles: int) -> None:
    core.scalar(cycles)


# Who am I


@pytest.mark.parametrize(
    ("kind", "dim"),
    [
        ("BLOCK", (1, 1, 1)),
        ("BLOCK", (5, 3, 2)),
        ("UNION1", (4, 1, 1)),
        ("UNION1", (4, 1, 2)),
        ("UNION1", (12, 2, 3)),
        ("UNION2", (8, 2, 1)),
        ("UNION4", (16, 1, 2)),
        ("UNION4", (32, 2, 1)),
        ("UNION8", (32, 1, 1)),
    ],
)
def test_identities(run: Any, kind: str, dim: tuple[int, int, int]) -> None:
    """taskId = (taskIdZ * taskDimY + taskIdY) * taskDimX + taskIdX; coreId 0x80 on the memory core; clusterDim."""
    seen: list[tuple[int, ...]] = []
    memory_cores: list[tuple[int, ...]] = []

    async def kernel(core: Core) -> None:
        union = 0 if kind == "BLOCK" else int(kind[5:])
        assert core.cluster_dim == union
        assert core.core_dim == 4
        assert (core.task_dim_x, core.task_dim_y, core.task_dim_z) == dim
        assert core.task_dim == dim[0] * dim[1] * dim[2]
        x, y, z = core.task_id_x, core.task_id_y, core.task_id_z
        assert core.task_id == (z * dim[1] + y) * dim[0] + x
        assert core.is_memory_core == (core.core_id == 0x80)
        if core.is_memory_core:
            memory_cores.append((core.cluster_id, y, z))
            return
        assert 0 <= core.core_id < 4
        assert 0 <= core.cluster_id < max(union, 1)
        if union:
            # A union's tasks are dealt to its cores in order.
            assert x % (4 * union) == 4 * core.cluster_id + core.core_id
        seen.append((core.task_id, x, y, z))

    run(kernel, dim=dim, kind=kind)
    grid = [(x, y, z) for z in range(dim[2]) for y in range(dim[1]) for x in range(dim[0])]
    assert sorted(seen) == [(number, *place) for number, place in enumerate(grid)]
    assert len(memory_cores) == (0 if kind == "BLOCK" else len(grid) // 4)


def test_the_default_grid_is_one_task_for_every_core() -> None:
    device = Device()
    assert device.default_dim("BLOCK") == (32, 1, 1)
    assert device.default_dim("UNION1") == (4, 8, 1)
    assert device.default_dim("UNION4") == (16, 2, 1)
    assert Device("mlu370-s4").default_dim("UNION4") == (16, 1, 1)
    launch = device.launch(nothing)
    device.synchronize()
    assert (launch.dim, launch.kind, launch.done) == ((4, 8, 1), "UNION1", True)
    assert len([task for task in device.log.tasks if not task.is_memory_core]) == 32


# What the board cannot hold


def refused(message: str, kernel: Any, *arguments: Any, device: Any = "mlu370-x4", **how: Any) -> None:
    target = device if isinstance(device, Device) else Device(device)
    with pytest.raises(LaunchError, match="^" + message):
        target.launch(kernel, *arguments, **how)
    assert not target.log.launches
    target.synchronize()  # the device is as good as before


@pytest.mark.parametrize("kind", ["UNION3", "UNION0", "UNION32", "UNION", "UNIONx", "union1", "BLOCKS", ""])
def test_task_types(kind: str) -> None:
    refused(
        rf"nothing: task type '{kind}': choose one of BLOCK, UNION1, UNION2, UNION4, UNION8, UNION16$",
        nothing,
        dim=(16, 1, 1),
        kind=kind,
    )


@pytest.mark.parametrize("one", presets(), ids=lambda one: one.name)
def test_the_boards_limit_of_union(one: Any) -> None:
    for union in (1, 2, 4, 8, 16):
        device = Device(one)
        dim = (4 * union, 1, 1)
        if union <= min(one.max_union, one.clusters):
            device.launch(nothing, dim=dim, kind=f"UNION{union}")
            device.synchronize()
        else:
            refused(
                rf"nothing: UNION{union} needs {union} clusters at once; {one.name} takes at most "
                rf"UNION{one.max_union} and has {one.clusters} clusters$",
                nothing,
                device=device,
                dim=dim,
                kind=f"UNION{union}",
            )


@pytest.mark.parametrize(
    ("kind", "x", "width", "near"), [("UNION1", 6, 4, 8), ("UNION2", 12, 8, 16), ("UNION4", 4, 16, 16)]
)
def test_dim_x_is_a_multiple_of_4_n(kind: str, x: int, width: int, near: int) -> None:
    refused(
        rf"nothing: dim\.x = {x} for {kind}: it must be a multiple of {width} \(4 cores x {width // 4} clusters\); "
        rf"try {near}$",
        nothing,
        dim=(x, 1, 1),
        kind=kind,
    )


@pytest.mark.parametrize("dim", [(0, 1, 1), (4, 0, 1), (4, 1, -1), (65536, 1, 1), (4, 65536, 1), (4, 1, 65536)])
def test_an_axis_is_1_to_65535(dim: tuple[int, int, int]) -> None:
    message = rf"nothing: dim {re.escape(str(dim))}: each axis of a grid is 1 to 65535; loop inside the kernel$"
    refused(message, nothing, dim=dim, kind="BLOCK")


@pytest.mark.parametrize("dim", [(4,), (4, 1), (4, 1, 1, 1), (4.0, 1, 1), ("4", 1, 1)])
def test_a_grid_is_three_integers(dim: Any) -> None:
    refused(rf"nothing: dim {re.escape(str(dim))}: a grid is three integers \(x, y, z\), or one$", nothing, dim=dim)


@pytest.mark.parametrize("dim", [[4, 2, 1], np.array([4, 2, 1]), (np.int64(4), 2, np.uint8(1))])
def test_a_grid_may_be_any_sequence(run: Any, dim: Any) -> None:
    device = run(nothing, dim=dim, kind="UNION1")
    assert sorted({task.task_id for task in device.log.tasks}) == list(range(8))
    assert len(run(nothing, dim=np.int32(3)).log.tasks) == 3


def test_the_largest_grid_takes_no_memory() -> None:
    """2^48 tasks are a legal launch; whoever waits for its end is on their own."""
    Device().launch(nothing, dim=(65535, 65535, 65535), kind="BLOCK")


@pytest.mark.parametrize(("dim", "width"), [((3, 1, 1), 1), ((2, 3, 4), 1), ((8, 1, 3), 4), ((16, 5, 2), 8)])
def test_task_ids_count_along_x_first(dim: tuple[int, int, int], width: int) -> None:
    grid = WaitingJobs(dim, width)
    expected = [(x, y, z) for z in range(dim[2]) for y in range(dim[1]) for x in range(0, dim[0], width)]
    assert len(grid) == len(expected)
    assert [grid.popleft() for _ in expected] == expected
    assert not grid


def test_clusters_of_one_core(run: Any) -> None:
    """Arch 322 has one core in a cluster."""
    device = run(nothing, device=X4.replace(cores_per_cluster=1), dim=(2, 3, 1), kind="UNION2")
    assert sorted(task.core for task in device.log.tasks) == [0] * 6 + [0x80] * 6
    refused(
        r"nothing: dim\.x = 3 for UNION2: it must be a multiple of 2 \(1 cores x 2 clusters\); try 4$",
        nothing,
        device=Device(X4.replace(cores_per_cluster=1)),
        dim=3,
        kind="UNION2",
    )


def test_a_launch_rejects_objects_that_are_not_kernels() -> None:
    def plain(core: Core) -> None:
        pass

    async def generator(core: Core) -> Any:
        yield

    message = r"is not a kernel: write it as `async def {}\(core, \.\.\.\)`, without `yield`$"
    refused("plain " + message.format("plain"), plain, dim=4)
    refused("generator " + message.format("generator"), generator, dim=4)
    refused(r"<function .*<lambda>.*> is not a kernel|<lambda> is not a kernel", lambda core: None, dim=4)
    refused("7 is not a kernel", 7, dim=4)


def test_a_coroutine_object_is_not_a_kernel() -> None:
    """Nor does the coroutine leave a warning behind."""
    refused(
        r"the kernel is a coroutine object instead of a function: pass `busy` itself instead of calling it$",
        busy(None, 3),  # type: ignore[arg-type]
        dim=4,
    )


@pytest.mark.parametrize("arguments", [(), (1, 2), (None, None, None)])
def test_the_number_of_arguments(arguments: tuple[Any, ...]) -> None:
    refused(
        rf"busy\(core: 'Core', cycles: 'int'\) -> 'None' was launched with {len(arguments)} arguments after `core`: ",
        busy,
        *arguments,
        dim=4,
    )


def test_a_kernel_without_core() -> None:
    async def forgot() -> None:
        pass

    refused(r"forgot\(\) -> 'None' was launched with 0 arguments after `core`: too many positional arguments$", forgot)


def test_views_of_the_device() -> None:
    device, other = Device(), Device()

    async def kernel(core: Core, x: View) -> None: ...

    refused(
        r"kernel: <view of input .*> is not in this device's GDRAM: upload",
        kernel,
        other.upload(np.zeros(4)),
        device=device,
    )
    gone = device.upload(np.zeros(4), "gone")
    device.free(gone)
    refused(
        r"kernel: <view of gone \(gdram\): float64 \[4\]> was freed; upload or allocate it again$",
        kernel,
        gone,
        device=device,
    )
    refused("the queue belongs to another device: make one with this device's queue", nothing, queue=other.queue())


def test_partial_functions_and_methods_are_kernels(run: Any) -> None:
    seen: list[int] = []

    class Operator:
        async def kernel(self, core: Core, value: int) -> None:
            seen.append(value)

    run(Operator().kernel, 1)
    run(functools.partial(Operator().kernel, value=2))
    assert seen == [1, 2]


def test_an_object_that_can_be_called_names_the_method_to_pass(run: Any) -> None:
    class Operator:
        async def __call__(self, core: Core) -> None:
            pass

    with pytest.raises(LaunchError, match=r"is an object whose `__call__` is a kernel: pass that method itself$"):
        run(Operator())
    run(Operator().__call__)


# Time of a launch


def test_tasks_start_with_a_skew_and_end_with_the_kernel_overhead(run: Any) -> None:
    device = run(busy, 1000, dim=4, kind="UNION1")
    tasks = [task for task in device.log.tasks if not task.is_memory_core]
    first = X4.kernel_start_ps
    assert [task.start_ps for task in tasks] == [first + k * X4.core_start_skew_ps for k in range(4)]
    took = ISSUE + X4.cycles_ps(1000)
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
    assert [(one.start_ps, one.end_ps) for one in device.log.launches] == [
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
    """A job takes whole clusters as soon as they are free; nobody is on two tasks at a time."""

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
        mine = [one for one in device.log.launches if one.queue == queue]
        assert all(one.end_ps + X4.queued_kernel_gap_ps <= two.start_ps for one, two in pairwise(mine))

"""Barriers with the hardware's fixed counts: participants, times, and the error for a barrier never passed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from kernel_lines import at
from mlusim.cores.core import Core
from mlusim.errors import HangError, InputError, KernelError
from mlusim.hardware import board
from mlusim.host.device import Device
from mlusim.memory.view import View
from mlusim.units import format_ns

X4 = board("mlu370-x4")
ISSUE = X4.cycles_ps(X4.issue_cycles)
LATENCY = {
    "sync_cluster": X4.cluster_barrier_ps,
    "sync_all": X4.union_barrier_ps,
    "sync_all_ipu": X4.union_barrier_ps,
}
GRIDS = {"UNION1": 4, "UNION2": 8, "UNION4": 16}


def arrivals(device: Device, name: str) -> dict[int, list[tuple[int, int, int]]]:
    """By round of a barrier, (task, arrival, release) of each participant."""
    columns = device.log.columns()
    rounds: dict[int, list[tuple[int, int, int]]] = {}
    for record, op in enumerate(columns["op"]):
        if device.log.ops[op] == name:
            wait = (int(columns["task"][record]), int(columns["issue_ps"][record]), int(columns["end_ps"][record]))
            rounds.setdefault(int(columns["detail"][record]), []).append(wait)
    return rounds


async def staggered(core: Core, name: str) -> None:
    """The tasks reach the barrier at different times, three times."""
    if core.is_memory_core and name == "sync_all_ipu":
        return
    for turn in range(3):
        core.scalar(100 * (core.core_id % 5) + 1000 * core.cluster_id * turn)
        await getattr(core, name)()
    core.scalar(0)


@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize("name", LATENCY)
def test_a_barrier_releases_all_tasks_one_latency_after_the_last_arrival(run: Any, name: str, kind: str) -> None:
    device = run(staggered, name, dim=GRIDS[kind], kind=kind)
    clusters = int(kind[5:])
    members = {"sync_cluster": 5, "sync_all": 5 * clusters, "sync_all_ipu": 4 * clusters}[name]
    rounds = arrivals(device, name)
    assert len(rounds) == 3 * (clusters if name == "sync_cluster" else 1)
    for here in rounds.values():
        assert len({task for task, _, _ in here}) == len(here) == members
        assert {release for _, _, release in here} == {max(issue for _, issue, _ in here) + LATENCY[name]}
        if name == "sync_cluster":
            assert len({device.log.tasks[task].cluster for task, _, _ in here}) == 1


@pytest.mark.parametrize("name", LATENCY)
def test_no_task_passes_a_barrier_one_tick_early(run: Any, name: str) -> None:
    release = next(iter(arrivals(run(staggered, name, dim=4, kind="UNION1"), name).values()))[0][2]
    device = Device()
    seen: list[int] = []
    for when in (release - 1, release + 1):
        device._chip.environment.after(when, lambda _: seen.append(len(device.log)))
    run(staggered, name, device=device, dim=4, kind="UNION1")
    members = 4 if name == "sync_all_ipu" else 5
    assert seen[0] == 2 * members  # each has issued its arithmetic and its first arrival
    assert seen[1] > seen[0]


@pytest.mark.parametrize("name", ["sync_cluster", "sync_all", "sync_all_ipu"])
def test_a_barrier_waits_for_the_pipes_of_its_participants(run: Any, name: str) -> None:
    """Asynchronous stores of a core are visible to all tasks that have passed the barrier."""
    device = Device()
    x, out = device.upload(np.arange(4 * 4096, dtype=np.int32).reshape(4, 4096)), device.alloc((4, 4096), np.int32)
    between = device.alloc((4, 4096), np.int32)

    async def kernel(core: Core, x: View, between: View, out: View) -> None:
        if core.is_memory_core:
            if name != "sync_all_ipu":
                await getattr(core, name)()
            return
        tile = core.nram.alloc(4096, np.int32)
        await core.memcpy(tile, x[core.core_id])
        core.add(tile, tile, 1)
        await core.sync()
        core.memcpy_async(between[core.core_id], tile)
        await getattr(core, name)()
        await core.memcpy(tile, between[3 - core.core_id])
        await core.memcpy(out[core.core_id], tile)

    run(kernel, x, between, out, device=device, dim=4, kind="UNION1")
    np.testing.assert_array_equal(device.download(out), device.download(x)[::-1] + 1)


def test_a_cluster_reduction_through_sram(run: Any) -> None:
    device = Device()
    array = np.random.default_rng(6).integers(-50, 50, (2, 4, 256)).astype(np.int32)
    x, out = device.upload(array), device.alloc((2, 256), np.int32)

    async def kernel(core: Core, x: View, out: View) -> None:
        parts = core.sram.alloc((4, 256), np.int32, "parts")
        if not core.is_memory_core:
            mine = core.nram.alloc(256, np.int32)
            await core.memcpy(mine, x[core.cluster_id, core.core_id])
            await core.memcpy(parts[core.core_id], mine)
        await core.sync_cluster()
        if core.core_id == 0:
            everyone, total = core.nram.alloc((4, 256), np.int32), core.nram.alloc(256, np.int32)
            await core.memcpy(everyone, parts)
            core.sum_rows(total, everyone)
            await core.sync()
            await core.memcpy(out[core.cluster_id], total)

    run(kernel, x, out, device=device, dim=8, kind="UNION2")
    np.testing.assert_array_equal(device.download(out), array.sum(axis=1))


@pytest.mark.parametrize("name", LATENCY)
def test_for_a_block_task_every_barrier_is_a_sync(run: Any, name: str) -> None:
    async def kernel(core: Core) -> None:
        tile = core.nram.alloc(100_000, np.int8)
        core.write_zero(tile)
        await getattr(core, name)()

    columns = run(kernel).log.columns()
    assert columns["end_ps"][1] == columns["end_ps"][0]
    assert len(run(kernel, dim=40).log) == 80


def test_sync_all_ipu_on_the_memory_core(run: Any) -> None:
    async def kernel(core: Core) -> None:
        await core.sync_all_ipu()

    with pytest.raises(
        KernelError,
        match=r"^memory core of cluster 0, test_barriers\.py:\d+, at [\d .]+ ns: sync_all_ipu on the memory core: this "
        r"barrier excludes memory cores; let MLU cores alone call it, or use sync_all$",
    ):
        run(kernel, dim=4, kind="UNION1")


# Hangs

ADVICE = (
    "A barrier waits for all of its participants, memory cores too (not in barriers of the MLU cores, such as "
    "sync_all_ipu): make all of them reach it"
)


def hang(run: Any, kernel: Any, *, dim: Any = 4, kind: str = "UNION1") -> str:
    device = Device()
    with pytest.raises(HangError) as caught:
        run(kernel, device=device, dim=dim, kind=kind)
    with pytest.raises(InputError, match=r"^this device stopped with an error \(HangError\): make a new one$"):
        device.synchronize()
    return str(caught.value)


async def memory_core_leaves(core: Core) -> None:
    if core.is_memory_core:
        return
    core.scalar(10 * core.core_id)
    await core.sync_cluster()  # the memory core has left


def test_a_returned_memory_core_makes_sync_cluster_hang(run: Any) -> None:
    line = at(memory_core_leaves, "# the memory core has left")
    assert hang(run, memory_core_leaves) == (
        f"deadlock: 4 tasks wait forever: tasks 0 to 3 wait in sync_cluster at {line}, the first "
        f"since {format_ns(X4.kernel_start_ps + 2 * ISSUE)}. Already returned: memory core of cluster 0. {ADVICE}"
    )


async def a_core_leaves(core: Core, name: str) -> None:
    if core.core_id == 2:
        return
    await getattr(core, name)()  # core 2 has left


@pytest.mark.parametrize("name", ["sync_cluster", "sync_all"])
def test_a_returned_core_makes_barriers_hang(run: Any, name: str) -> None:
    async def kernel(core: Core) -> None:
        await a_core_leaves(core, name)

    line = at(a_core_leaves, "# core 2 has left")
    text = hang(run, kernel)
    assert text.startswith(
        f"deadlock: 4 tasks wait forever: memory core of cluster 0 and tasks 0, 1, 3 wait in {name} at "
        f"{line}, the first since "
    )
    assert text.endswith(f". Already returned: task 2 (cluster 0, core 2). {ADVICE}")


def test_tasks_at_different_barriers_hang(run: Any) -> None:
    async def kernel(core: Core) -> None:
        await (core.sync_all() if core.core_id else core.sync_cluster())

    text = hang(run, kernel)
    assert re.match(
        r"deadlock: 5 tasks wait forever: memory core of cluster 0 and tasks 1 to 3 wait in sync_all at "
        r"test_barriers\.py:\d+, the first since [\d .]+ ns; task 0 \(cluster 0, core 0\) waits in sync_cluster at ",
        text,
    )
    assert "Already returned" not in text


def test_one_iteration_too_many_is_a_deadlock(run: Any) -> None:
    async def kernel(core: Core) -> None:
        for _ in range(3 if core.core_id == 1 else 2):
            await core.sync_cluster()

    text = hang(run, kernel)
    assert text.startswith("deadlock: 1 task waits forever: task 1 (cluster 0, core 1) waits in sync_cluster at")
    assert "Already returned: memory core of cluster 0 and tasks 0, 2, 3." in text


def test_only_the_job_that_hangs_is_named(run: Any) -> None:
    """The jobs along Y and Z are independent: one hangs, and the others have ended."""

    async def kernel(core: Core) -> None:
        if core.task_id_y == 1 and core.core_id == 0:
            return
        await core.sync_cluster()

    text = hang(run, kernel, dim=(4, 3, 1))
    assert text.startswith("deadlock: 4 tasks wait")
    assert "tasks 5 to 7 wait" in text
    assert "Already returned: task 4 (cluster 1, core 0)." in text


def test_a_hang_on_one_queue_is_reported_beside_another_queue(run: Any) -> None:
    async def fine(core: Core) -> None:
        await core.sync_cluster()

    device = Device()
    device.launch(memory_core_leaves, dim=4, kind="UNION1")
    device.launch(fine, dim=4, kind="UNION1", queue=device.queue())
    with pytest.raises(HangError, match=r"^deadlock: 4 tasks wait forever: tasks 0 to 3 wait in sync_cluster"):
        device.synchronize()
    assert device.log.launches[1].end_ps > 0


def test_a_barrier_of_the_clusters_cores_does_not_need_its_memory_core() -> None:
    device = Device()
    out = device.alloc(8, "int32")

    async def kernel(core: Core, out: View) -> None:
        if core.is_memory_core:
            await core.sync_all_ipu_within_cluster()  # takes no part
            return
        shared = core.sram.alloc(4, "int32", "shared")
        core.store(shared[core.core_id], core.task_id)
        await core.sync_all_ipu_within_cluster()
        core.store(out[core.task_id], await core.load(shared[(core.core_id + 1) % 4]))

    device.launch(kernel, out, dim=8, kind="UNION2")
    device.synchronize()
    assert device.download(out).tolist() == [1, 2, 3, 0, 5, 6, 7, 4]
    device.verify().check()

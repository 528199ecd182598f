"""A missing barrier between tasks, or a wrong one, is one finding, wherever it shows."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from findings import X, kinds_of, the_only_error
from kernel_lines import at
from mlusim import InOut, Output, verify


async def prefetch(core, x, out, fault):
    """The memory core loads four rows ahead; the cores store them."""
    box = core.sram.alloc((2, 4, x.shape[1]), x.dtype, "box")
    steps = x.shape[0] // 4
    barrier = core.sync_cluster
    if fault == "barriers of others":
        barrier = core.sync_all_mpu if core.is_memory_core else core.sync_all_ipu_within_cluster
    if core.is_memory_core:
        await core.memcpy(box[0], x[:4])
        await barrier()
        for step in range(1, steps):
            await core.memcpy(box[step % 2], x[4 * step : 4 * step + 4])
            await barrier()
        return
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    for step in range(steps):
        if not fault:
            await barrier()
        await core.memcpy(tile, box[step % 2, core.core_id])
        if fault:
            await barrier()
        await core.memcpy(out[4 * step + core.core_id], tile)


@pytest.mark.parametrize("fault", ["a barrier too late", "barriers of others"])
def test_the_first_load_of_a_pipeline_and_those_of_its_loop_lack_one_barrier(fault):
    finding = the_only_error(prefetch, X, Output.like(X), fault, dim=4)
    first = prefetch.__code__.co_firstlineno
    assert (finding.kind, finding.fields["sync"]) == ("task-race", "sync_cluster")
    assert [site.line - first for site in finding.sites] == [8, 18]


def test_tasks_that_do_the_work_of_others_in_place_are_one_finding():
    async def reverse(core, x):
        if core.is_memory_core:
            return
        low, high = (core.nram.alloc(8, x.dtype, name) for name in ("low", "high"))
        # Pairs of rows: half of these would do.
        for row in range(core.core_id, 8, 4):
            core.memcpy_async(low, x[row])
            core.memcpy_async(high, x[7 - row])
            core.memcpy_async(x[row], high)
            core.memcpy_async(x[7 - row], low)
        await core.sync()

    finding = the_only_error(reverse, InOut(X), dim=4)
    assert (finding.kind, set(kinds_of(finding))) == ("task-race", {"task-race"})
    assert any(one.writes_twice for one in finding.folded)


def test_two_queues_without_a_wait_are_one_finding():
    async def copy(core, x, out):
        tile = core.nram.alloc(8, x.dtype, "tile")
        await core.memcpy(tile, x[core.task_id])
        await core.memcpy(out[core.task_id], tile)

    async def scale(core, x, out):
        tile = core.nram.alloc(8, x.dtype, "tile")
        await core.memcpy(tile, x[core.task_id])
        core.mul(tile, tile, 2.0)
        await core.memcpy(out[core.task_id], tile)

    device = mlusim.Device()
    x, middle, out = device.upload(X, "x"), device.alloc((8, 8), X.dtype, "middle"), device.alloc((8, 8), X.dtype)
    device.launch(copy, x, middle, kind="BLOCK", dim=8)
    device.launch(scale, middle, out, kind="BLOCK", dim=8)
    device.launch(scale, middle, out, kind="BLOCK", dim=8, queue=device.queue())
    device.synchronize()
    (finding,) = device.verify(rewrites=True).errors
    assert finding.rule == "launches on different queues are not ordered"
    assert kinds_of(finding) == ["task-race"]


def test_tasks_at_different_barriers_read_what_is_not_yet_written():
    async def kernel(core, x, out):
        box = core.sram.alloc((4, 8), x.dtype, "box")
        if core.is_memory_core:
            await core.sync_cluster()
            await core.memcpy(box, x[:4])
            await core.sync_cluster()
            await core.sync_cluster()
            return
        tile = core.nram.alloc(8, x.dtype, "tile")
        # Here a barrier is missing.
        await core.sync_cluster()
        await core.memcpy(tile, box[core.core_id])
        await core.sync_cluster()
        await core.memcpy(out[core.core_id], tile)

    finding = the_only_error(kernel, X, Output((4, 8)), dim=4)
    assert finding.kind == "hang"
    assert set(kinds_of(finding)) <= {"task-race", "uninitialised"}
    assert kinds_of(finding)


def test_an_operation_between_two_others_lacks_one_barrier_for_both():
    async def kernel(core, x, out):
        if core.is_memory_core:
            return
        box = core.sram.alloc((4, 8), x.dtype, "box")
        more = core.sram.alloc((4, 8), x.dtype, "more")
        tile = core.nram.alloc(8, x.dtype, "tile")
        if core.core_id == 0:
            await core.memcpy(box, x[0:4])
            await core.memcpy(more, x[4:8])
        else:
            # Here a barrier is missing.
            await core.memcpy(tile, box[core.core_id])
            core.square(tile, tile)
            await core.memcpy(more[core.core_id], tile)
            await core.memcpy(out[core.core_id], tile)

    finding = the_only_error(kernel, X, InOut(X[:4]), dim=4)
    assert (finding.kind, kinds_of(finding)) == ("task-race", ["task-race", "unread", "unread"])


def test_the_barrier_of_a_race_does_not_depend_on_unrelated_races():
    async def kernel(core, x, parts, rows, far, out, unrelated):
        if core.is_memory_core:
            return
        held = core.nram.alloc(8, x.dtype, "held")
        await core.memcpy(held, x[core.task_id])
        if core.task_id == 0:
            await core.memcpy(parts, held)
        if core.task_id == 1:
            await core.memcpy(held, parts)
            await core.memcpy(out[0], held)
        await core.sync_all_ipu()
        for step in range(3):
            await core.memcpy(rows[step, core.task_id], held)
            if step:
                await core.memcpy(held, rows[step - 1, core.task_id ^ 1])
        await core.sync_all_ipu()
        if core.task_id == 0:
            await core.memcpy(far, held)
        if core.task_id == unrelated:
            await core.memcpy(held, far)
            await core.memcpy(out[1], held)

    arguments = X, Output(8), Output((3, 8, 8)), Output(8), Output((2, 8))
    first = {}
    for unrelated in (0, 4):
        report = mlusim.verify(kernel, *arguments, unrelated, kind="UNION2", dim=8)
        first[unrelated] = {finding.fields["buffer"]: finding.remedies[0] for finding in report.errors}
    assert first[4].pop("far").startswith("`await core.sync_all_ipu()` in all cores of the union, before ")
    assert first[0] == first[4]
    assert first[0]["parts"].startswith("`await core.sync_all_ipu_within_cluster()` in all cores of the cluster")
    assert first[0]["rows"].endswith(f"at the end of the loop at {at(kernel, 'for step')}")


async def by_diagonals(core, out, barrier=False):
    """Row i + 1 is made from row i, column by column: the tasks, which own rows, meet after each diagonal."""
    if core.is_memory_core:
        return
    held = core.nram.alloc((2, 64), out.dtype, "held")
    for diagonal in range(7):
        for i in range(core.task_id, 4, core.task_dim):
            j = diagonal - i
            if not 0 <= j < 4:
                continue
            await core.memcpy(held, out[i : i + 2, j])
            core.add(held[1], held[0], 1.0)
            await core.memcpy(out[i + 1, j], held[1])
        if barrier:
            await core.sync_all_ipu()


def test_the_barrier_of_iterations_that_tasks_skip_belongs_in_the_loop_around_them():
    out, reference = InOut(np.zeros((5, 4, 64), np.float32)), np.empty((5, 4, 64), np.float32)
    reference[:] = np.arange(5).reshape(-1, 1, 1)
    (race,) = verify(by_diagonals, out, dim=4, reference=reference).errors
    where = f"at the end of the loop at {at(by_diagonals, 'for diagonal')}"
    assert race.remedy.startswith(f"`await core.sync_all_ipu()` in all cores of the union, {where}\n")
    assert verify(by_diagonals, out, True, dim=4, reference=reference).ok


async def among_cores(core, x, out, barrier=""):
    """The memory core loads a row for all cores, which then pass on their sums without it."""
    base, box = core.sram.alloc(8, x.dtype, "base"), core.sram.alloc((4, 8), x.dtype, "box")
    if core.is_memory_core:
        await core.memcpy(base, x[0])
    await core.sync_cluster()
    if not core.is_memory_core:
        row, sums = (core.nram.alloc(8, x.dtype, name) for name in ("row", "sums"))
        await core.memcpy(sums, base)
        await core.memcpy(row, x[core.core_id])
        core.add(sums, sums, row)
        await core.memcpy(box[core.core_id], sums)
        if barrier:
            await getattr(core, barrier)()
        await core.memcpy(row, box[(core.core_id + 1) % 4])
        await core.memcpy(out[core.core_id], row)


def test_a_barrier_in_a_branch_that_memory_cores_skip_is_one_without_them():
    finding = the_only_error(among_cores, X, Output((4, 8)), dim=4)
    assert finding.remedy.startswith("`await core.sync_all_ipu()` in all cores of the union, ")
    assert verify(among_cores, X, Output((4, 8)), "sync_all_ipu", dim=4).ok
    assert the_only_error(among_cores, X, Output((4, 8)), "sync_cluster", dim=4).kind == "hang"


@pytest.mark.parametrize(
    ("in_cluster", "remedy"),
    [
        (True, "let one core of each cluster write them, at {}: `if core.core_id == 0:`"),
        (False, "give each task bytes of its own"),
    ],
)
def test_cores_that_all_write_the_part_of_their_cluster(in_cluster, remedy):
    async def kernel(core, x, out):
        if core.is_memory_core or (core.core_id and not in_cluster):
            return
        part = core.nram.alloc((2, 8), x.dtype, "part")
        first = core.cluster_id * (2 if in_cluster else 1)
        await core.memcpy(part, x[first : first + 2])
        await core.memcpy(out[first : first + 2], part)

    finding = the_only_error(kernel, X, Output((4 if in_cluster else 3, 8)), dim=8, kind="UNION2")
    assert finding.remedy.startswith(remedy.format(at(kernel, "memcpy(out")))


async def merged(core, keys, spare, barrier=False):
    """Pairs of rows are sorted from one tensor to the other in turn; task 0 copies the rows at the edges."""
    if core.is_memory_core:
        return
    both, low = core.nram.alloc((2, 8), keys.dtype, "both"), core.nram.alloc(8, keys.dtype, "low")
    for step in range(8):
        source, target = (spare, keys) if step % 2 else (keys, spare)
        first = 2 * core.task_id + step % 2
        if first < 7:
            await core.memcpy(both, source[first : first + 2])
            core.minimum(low, both[0], both[1])
            core.maximum(both[1], both[0], both[1])
            await core.memcpy(target[first], low)
            await core.memcpy(target[first + 1], both[1])
        if step % 2 and core.task_id == 0:
            for edge in (0, 7):
                await core.memcpy(low, source[edge])
                await core.memcpy(target[edge], low)
        if barrier:
            await core.sync_all_ipu()


def test_races_that_one_barrier_at_the_end_of_a_loop_orders_are_one_finding():
    keys = np.random.default_rng(0).permuted(X, axis=0)
    arguments = InOut(keys), InOut(np.zeros_like(X))
    options = {"reference": lambda keys, _: {"keys": np.sort(keys, 0)}, "rewrites": True, "dim": 4}
    (race,) = verify(merged, *arguments, **options).errors
    assert f"at the end of the loop at {at(merged, 'for step')}" in race.remedies[0]
    assert verify(merged, *arguments, True, **options).ok


async def ring(core, x, out, barrier=False):
    """The cores pass their rows on; the memory core takes part in their barriers from a loop of its own."""
    base, box = core.sram.alloc(8, x.dtype, "base"), core.sram.alloc((4, 8), x.dtype, "box")
    if core.is_memory_core:
        await core.memcpy(base, x[1])
        for _ in range(3 + 2 * barrier):
            await core.sync_cluster()
        return
    tile, held = (core.nram.alloc(8, x.dtype, name) for name in ("tile", "held"))
    await core.sync_cluster()
    await core.memcpy(held, base)
    for step in range(2):
        await core.memcpy(tile, x[4 * step + core.core_id])
        core.add(tile, tile, held)
        await core.memcpy(box[core.core_id], tile)
        await core.sync_cluster()
        await core.memcpy(tile, box[core.core_id ^ 1])
        await core.memcpy(out[4 * step + core.core_id], tile)
        if barrier:
            await core.sync_cluster()


def test_a_barrier_in_a_loop_of_the_cores_is_passed_as_often_by_the_memory_core():
    expected = X[[1, 0, 3, 2, 5, 4, 7, 6]] + X[1]
    assert verify(ring, X, Output.like(X), True, dim=4, reference=expected).ok
    (race,) = verify(ring, X, Output.like(X), dim=4, reference=expected).errors
    where = f"its memory core, at the end of the loop at {at(ring, 'for step')}"
    assert race.remedies[0] == f"`await core.sync_cluster()` in all cores of the cluster, and as often in {where}"

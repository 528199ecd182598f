"""The remedies of races between tasks: the synchronisation, and its location."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from findings import X, the_only_error
from kernel_lines import at
from mlusim import InOut, Output


def stages(slot, *, barrier):
    async def kernel(core, x, out):
        box = core.sram.alloc((2, 4, 8), x.dtype, "box")
        tile = None if core.is_memory_core else core.nram.alloc(8, x.dtype, "tile")
        for step in range(3):
            if core.is_memory_core:
                if step < 2:
                    core.memcpy_async(box[slot(step)], x[4 * step : 4 * step + 4])
            elif step:
                await core.memcpy(tile, box[(step - 1) % 2, core.core_id])
                await core.memcpy(out[4 * step - 4 + core.core_id], tile)
            if barrier:
                await core.sync_cluster()

    return kernel


def test_a_barrier_of_two_branches_belongs_at_the_end_of_their_loop():
    kernel = stages(lambda step: step % 2, barrier=False)
    finding = the_only_error(kernel, X, Output.like(X), dim=4)
    assert finding.title == "task 0 reads box before the memory core of cluster 0 is known to have written it"
    assert finding.remedy.partition("\n")[0] == (
        "`await core.sync_cluster()` in all cores of the cluster and its memory core, at the end of the loop at "
        + at(kernel, "for step")
    )
    mlusim.verify(stages(lambda step: step % 2, barrier=True), X, Output.like(X), reference=X, dim=4).check()


def test_branches_between_the_same_barriers_need_another_part_of_the_buffer():
    finding = the_only_error(stages(lambda step: (step + 1) % 2, barrier=True), X, Output.like(X), dim=4)
    assert finding.remedy.startswith("use another part of box in one of them: both run between the same two barriers")


def test_a_read_of_fresh_memory_comes_after_its_write():
    """The memory core reads first in this run, since the cores are busy."""

    async def kernel(core, x, out):
        box = core.sram.alloc((4, 8), x.dtype, "box")
        if core.is_memory_core:
            await core.memcpy(out, box)
        else:
            tile = core.nram.alloc(8, x.dtype, "tile")
            await core.memcpy(tile, x[core.core_id])
            await core.memcpy(box[core.core_id], tile)

    finding = the_only_error(kernel, X, Output((4, 8)), dim=4)
    assert finding.title == "the memory core of cluster 0 reads box before task 0 is known to have written it"
    assert [site.role for site in finding.sites] == ["writes", "reads"]


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_lines_that_tasks_pass_in_turn_the_upper_one_comes_first(first):
    async def kernel(core, x):
        if core.is_memory_core or core.core_id > 1:
            return
        tile = core.nram.alloc((2, 8), x.dtype, "tile")
        if core.core_id == first:
            core.scalar(10_000)
            await core.sync()
        await core.memcpy(tile[0], x[1 - core.core_id])
        await core.memcpy(x[core.core_id], tile[0])

    finding = the_only_error(kernel, InOut(X), dim=4)
    assert [site.role for site in finding.sites] == ["reads", "writes"]
    load, store = (site.location for site in finding.sites)
    assert f"in all cores of the union, after {load} and before {store}" in finding.remedy


@pytest.mark.parametrize(
    ("kind", "dim", "other", "barrier"),
    [
        ("UNION1", 4, 1, "`await core.sync_all_ipu()` in all cores of the union"),
        ("UNION2", 8, 1, "`await core.sync_all_ipu_within_cluster()` in all cores of the cluster"),
        ("UNION2", 8, 4, "`await core.sync_all_ipu()` in all cores of the union"),
    ],
)
def test_memory_cores_that_return_at_once_are_in_no_barrier(kind, dim, other, barrier):
    async def kernel(core, x, space, out):
        if core.is_memory_core or core.task_id not in (0, other):
            return
        tile = core.nram.alloc(8, x.dtype, "tile")
        if core.task_id == 0:
            await core.memcpy(tile, x[0])
            await core.memcpy(space, tile)
        else:
            await core.memcpy(tile, space)
            await core.memcpy(out, tile)

    finding = the_only_error(kernel, X, Output(8), Output(8), kind=kind, dim=dim)
    assert finding.remedy.startswith(barrier + ", after ")


def test_tasks_that_update_one_row_need_a_lock_or_an_atomic():
    async def kernel(core, x, total):
        if core.is_memory_core:
            return
        row, held = core.nram.alloc((2, 8), x.dtype, "rows")
        for number in range(core.task_id, 8, core.task_dim):
            await core.memcpy(row, x[number])
            await core.memcpy(held, total)
            core.add(held, held, row)
            await core.memcpy(total, held)

    finding = the_only_error(kernel, X, InOut(np.zeros(8, np.float32)), dim=4)
    load, store = (at(kernel, text) for text in ("held, total", "total, held"))
    assert finding.remedy.startswith(f"hold the same lock in every task from {load} to {store}: ")
    assert "\nor, if it is a sum, a maximum or the like, update it with an atomic" in finding.remedy
    assert "sync" not in finding.remedy


def test_an_update_that_a_memory_core_repeats_is_not_for_it():
    async def kernel(core, count):
        if core.task_id == 0:
            core.store(count[0], await core.load(count[0]) + 1)

    finding = the_only_error(kernel, InOut(np.zeros(8, np.float32)), dim=4)
    assert finding.remedy.startswith(
        "begin it with `if core.is_memory_core: return`\nor hold the same lock in every task"
    )


def test_a_lock_that_ends_too_early_is_the_remedy():
    async def kernel(core, x, shared, out):
        if core.is_memory_core or core.core_id > 1:
            return
        tile = core.nram.alloc(8, x.dtype, "tile")
        if core.core_id:
            await core.memcpy(tile, x[0])
            await core.lock(0)
            await core.memcpy(shared, tile)
            await core.unlock(0)
        else:
            await core.memcpy(tile, shared)
            await core.memcpy(out, tile)

    finding = the_only_error(kernel, X, InOut(np.zeros(8, np.float32)), Output(8), dim=4)
    assert finding.remedy.startswith("hold the same lock during both accesses\nor `await core.sync_all_ipu()`")


def test_a_flag_that_is_polled_again_and_again_needs_atomics_first():
    async def kernel(core, flag):
        if core.is_memory_core or core.core_id > 1:
            return
        if core.core_id == 0:
            core.scalar(10_000)
            await core.sync()
            core.store(flag[0], 1)
        else:
            while not await core.load(flag[0]):
                core.scalar(100)

    finding = the_only_error(kernel, InOut(np.zeros(1, np.int32)), dim=4)
    assert finding.remedy.startswith("read and write the flag with atomics, which also order what comes before and")


def test_a_store_behind_the_atomic_that_announces_it():
    async def kernel(core, x, parts, count, out):
        if core.is_memory_core:
            return
        tile, old = core.nram.alloc(8, x.dtype, "tile"), core.nram.alloc(1, "int32", "old")
        await core.memcpy(tile, x[core.core_id])
        await core.atomic_add(old, count, 1)
        await core.memcpy(parts[core.core_id], tile)
        if await core.load(old[0]) == 3:
            await core.memcpy(tile, parts[0])
            await core.memcpy(out, tile)

    finding = the_only_error(kernel, X, Output((4, 8)), InOut(np.zeros(1, np.int32)), Output(8), dim=4)
    store, atomic = (at(kernel, text) for text in ("parts[core", "atomic_add"))
    assert finding.remedy.startswith(f"let {store} come before the atomic at {atomic}, if that tells the other task")


def test_tasks_that_wait_for_each_other_by_atomics_have_an_order_of_their_own():
    """Each task adds the sum of the one before it, and announces its own sum before it is stored."""

    async def kernel(core, x, sums, flags):
        if core.is_memory_core:
            return
        row, before = core.nram.alloc((2, 8), x.dtype, "rows")
        old, task = core.nram.alloc(1, "int32", "old"), core.task_id
        await core.memcpy(row, x[task])
        while task:
            await core.atomic_add(old, flags[task - 1 : task], 0)
            if await core.load(old[0]):
                await core.memcpy(before, sums[task - 1])
                core.add(row, row, before)
                break
        await core.atomic_reduce_add(flags[task : task + 1], 1)
        await core.memcpy(sums[task], row)

    finding = the_only_error(kernel, X, Output((4, 8)), InOut(np.zeros(4, np.int32)), dim=4)
    assert [site.role for site in finding.sites] == ["writes", "reads"]
    store, atomic = (at(kernel, text) for text in ("memcpy(sums[task]", "reduce_add"))
    assert finding.remedy.startswith(f"let {store} come before the atomic at {atomic}, if that tells the other task")


def test_memory_cores_alone_have_a_barrier_of_their_own():
    async def kernel(core, x, space, out):
        box = core.sram.alloc((4, 8), x.dtype, "box")
        if core.is_memory_core:
            await core.memcpy(box, x[4 * core.cluster_id : 4 * core.cluster_id + 4])
            await core.memcpy(space[core.cluster_id], box)
            await core.memcpy(box, space[1 - core.cluster_id])
            await core.memcpy(out[core.cluster_id], box)

    finding = the_only_error(kernel, X, Output((2, 4, 8)), Output((2, 4, 8)), kind="UNION2", dim=8)
    assert finding.remedy.startswith("`await core.sync_all_mpu()` in all memory cores of the union, after ")


@pytest.mark.parametrize("rows", [2, 3])
def test_tasks_that_update_a_row_of_others_need_rows_of_their_own(rows):
    """A lock would let two tasks double the shared row in turn."""

    async def kernel(core, x, rows):
        if core.is_memory_core:
            return
        held = core.nram.alloc(8, x.dtype, "held")
        for row in range(2 * core.task_id, min(2 * core.task_id + rows, 8)):
            await core.memcpy(held, x[row])
            core.mul(held, held, 2.0)
            await core.memcpy(x[row], held)

    if rows == 2:
        assert mlusim.verify(kernel, InOut(X), rows, dim=4, reference=2 * X).ok
    else:
        finding = the_only_error(kernel, InOut(X), rows, dim=4)
        own, lock, _ = finding.remedy.split("\n")
        assert own.startswith("give each task bytes of its own: see the bounds of the loop at test_task_remedies.py:")
        assert lock.startswith("or, if both updates are intended, hold the same lock in every task")
        assert not finding.fields["sync"]


@pytest.mark.parametrize("place", ["", "inside", "before"])
def test_a_barrier_stands_where_all_tasks_pass_it(place):
    async def kernel(core, x, edge, out, place):
        if core.is_memory_core:
            return
        held = core.nram.alloc(8, x.dtype, "held")
        await core.memcpy(held, x[core.task_id])
        await core.memcpy(edge[core.task_id], held)
        if place == "before":
            await core.sync_all_ipu()
        if core.task_id:
            if place == "inside":
                await core.sync_all_ipu()
            await core.memcpy(held, edge[core.task_id - 1])
        await core.memcpy(out[core.task_id], held)

    arguments = X[:4], Output((4, 8)), Output((4, 8)), place
    if place == "before":
        assert mlusim.verify(kernel, *arguments, dim=4, reference={"edge": X[:4], "out": X[[0, 0, 1, 2]]}).ok
    elif place == "inside":
        assert the_only_error(kernel, *arguments, dim=4).kind == "hang"
    else:
        store, branch = (at(kernel, text) for text in ("edge[core.task_id],", "if core.task_id:"))
        assert the_only_error(kernel, *arguments, dim=4).remedy.startswith(
            f"`await core.sync_all_ipu()` in all cores of the union, after {store} and before {branch}\n"
        )


def test_a_barrier_stands_where_all_tasks_pass_it_in_compiled_code(tmp_path):
    file = tmp_path / "edges.mlu"
    file.write_text(
        """#include <bang.h>

__mlu_entry__ void edges(const float *x, float *edge, float *out) {
  __nram__ float held[8];
  if (__is_mpu()) return;
  __memcpy(held, x + 8 * taskId, 32, GDRAM2NRAM);
  __memcpy(edge + 8 * taskId, held, 32, NRAM2GDRAM);
  if (taskId > 1) {
    __memcpy(held, x, 32, GDRAM2NRAM);
  } else if (taskId == 1) {
    __memcpy(held, edge, 32, GDRAM2NRAM);
  }
  __memcpy(out + 8 * taskId, held, 32, NRAM2GDRAM);
}
"""
    )
    finding = the_only_error(mlusim.bangc.compile(file)["edges"], X[:4], Output((4, 8)), Output((4, 8)), dim=4)
    assert ", after edges.mlu:7 and before edges.mlu:8\n" in finding.remedy


def test_a_barrier_above_the_return_of_memory_cores_counts_them():
    async def kernel(core, x, parts, out, barrier):
        if not core.is_memory_core:
            held = core.nram.alloc((4, 8), x.dtype, "held")
            await core.memcpy(held[0], x[core.task_id])
            await core.memcpy(parts[core.task_id], held[0])
        if barrier:
            await core.sync_all()
        if core.is_memory_core or core.task_id:
            return
        await core.memcpy(held, parts)
        await core.memcpy(out, held)

    arguments = X[:4], Output((4, 8)), Output((4, 8))
    assert mlusim.verify(kernel, *arguments, True, dim=4, reference={"out": X[:4]}).ok
    remedy = the_only_error(kernel, *arguments, False, dim=4).remedy
    assert remedy.startswith("`await core.sync_cluster()` in all cores of the cluster and its memory core, ")


@pytest.mark.parametrize("waits", [False, True])
def test_a_barrier_stands_before_tasks_return(waits):
    async def kernel(core, x, parts, out, waits):
        if core.is_memory_core:
            return
        held = core.nram.alloc((4, 8), x.dtype, "held")
        await core.memcpy(held[0], x[core.task_id])
        await core.memcpy(parts[core.task_id], held[0])
        if waits:
            await core.sync_all_ipu()
        if core.task_id:
            return
        await core.memcpy(held, parts)
        await core.memcpy(out, held)

    arguments = X[:4], Output((4, 8)), Output((4, 8)), waits
    if waits:
        assert mlusim.verify(kernel, *arguments, dim=4, reference={"parts": X[:4], "out": X[:4]}).ok
    else:
        line = kernel.__code__.co_firstlineno
        assert f", after test_task_remedies.py:{line + 5} and before test_task_remedies.py:{line + 8}\n" in (
            the_only_error(kernel, *arguments, dim=4).remedy
        )


def test_work_that_is_numbered_within_each_job_is_numbered_by_task_instead():
    x = np.random.default_rng(0).standard_normal((40, 64), np.float32)
    given = {"reference": lambda x: 2 * x, "kind": "UNION1", "dim": 16}

    async def doubled(core, x, out, by_task=False):
        if core.is_memory_core:
            return
        tile = core.nram.alloc(64, x.dtype)
        first, step = core.cluster_id * core.core_dim + core.core_id, core.cluster_dim * core.core_dim
        if by_task:
            first, step = core.task_id, core.task_dim
        for row in range(first, x.shape[0], step):
            await core.memcpy(tile, x[row])
            core.add(tile, tile, tile)
            await core.memcpy(out[row], tile)

    finding = the_only_error(doubled, x, Output.like(x), **given)
    place = at(doubled, "first, step = core.cluster")
    assert finding.remedy.partition("\n")[0] == (
        f"number the work by task_id and task_dim: cluster_id at {place} counts within one UNION1 job, so every job "
        "does the same work"
    )
    mlusim.verify(doubled, x, Output.like(x), by_task=True, **given).check()


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("skips", ["both", "load", "store of the next"])
def test_a_barrier_is_passed_by_tasks_that_continue_with_the_next_iteration(skips, fixed):
    async def both(core, x, rows, out):
        if core.is_memory_core:
            return
        held = core.nram.alloc(8, x.dtype, "held")
        for step in range(2):
            if core.core_id == 1:
                if fixed:
                    await core.sync_all_ipu()
                continue
            await core.memcpy(held, x[core.core_id])
            await core.memcpy(rows[step, core.core_id], held)
            if fixed:
                await core.sync_all_ipu()
            await core.memcpy(held, rows[step, 2 - core.core_id % 3])
            await core.memcpy(out[step, core.core_id], held)

    async def load(core, x, rows, out):
        if core.is_memory_core:
            return
        held = core.nram.alloc(8, x.dtype, "held")
        for step in range(2):
            await core.memcpy(held, x[core.core_id])
            await core.memcpy(rows[step, core.core_id], held)
            if fixed:
                await core.sync_all_ipu()
            if core.core_id == 1:
                continue
            await core.memcpy(held, rows[step, 3 - core.core_id])
            await core.memcpy(out[step, core.core_id], held)

    async def store_of_the_next(core, x, rows, out):
        if core.is_memory_core:
            return
        held = core.nram.alloc(8, x.dtype, "held")
        for step in range(2):
            if fixed:
                await core.sync_all_ipu()
            if core.core_id == 1:
                continue
            await core.memcpy(held, rows[step - 1, 2 - core.core_id % 3] if step else x[core.core_id])
            await core.memcpy(rows[step, core.core_id], held)
            await core.memcpy(out[step, core.core_id], held)

    kernel = {"both": both, "load": load}.get(skips, store_of_the_next)
    arguments = X, Output((2, 4, 8)), Output((2, 4, 8))
    report = mlusim.verify(kernel, *arguments, dim=4, partial=("rows", "out"))
    if fixed:
        assert report.ok, report.text()
        return
    (finding,) = report.errors
    store = at(kernel, "memcpy(rows")
    if skips == "both":
        load, continues = at(kernel, "held, rows"), at(kernel, "continue")
        where = f"after {store} and before {load}, and before the `continue` at {continues}"
    elif skips == "load":
        where = f"after {store} and before {at(kernel, 'if core.core_id == 1')}"
    else:
        where = f"at the beginning of the loop at {at(kernel, 'for step')}"
    assert finding.remedies[0] == f"`await core.sync_all_ipu()` in all cores of the union, {where}"

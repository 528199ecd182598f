"""Happens-before: every subset of the syncs, with one line that states the memory model."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mlusim import Device, InOut, Output, verify
from mlusim.errors import KernelError
from mlusim.verifier.order.happens_before import Order

X = np.arange(64, dtype=np.float32).reshape(8, 8)
SYNCS = ("", "sync_io", "sync_move", "sync_compute", "sync")
ONE = {"kind": "BLOCK", "dim": 1}


def kinds(report) -> set[str]:
    return {finding.kind for finding in report.errors}


async def maybe(core, name):
    if name:
        await getattr(core, name)()


@pytest.mark.grid(6)
@pytest.mark.parametrize(("first", "second", "third"), list(itertools.product(SYNCS, repeat=3)))
def test_each_pipe_needs_a_sync_that_names_it(first, second, third):
    async def kernel(core, x, out):
        a, b, c = (core.nram.alloc(x.shape, x.dtype, name) for name in "abc")
        core.memcpy_async(a, x)
        await maybe(core, first)
        core.add(b, a, 1.0)
        await maybe(core, second)
        core.move(c, b)
        await maybe(core, third)
        core.memcpy_async(out, c)

    correct = first in ("sync_io", "sync") and second in ("sync_compute", "sync") and third in ("sync_move", "sync")
    report = verify(kernel, X, Output.like(X), **ONE)
    assert report.ok == correct
    assert correct or kinds(report) <= {"race", "uninitialised"}


@pytest.mark.parametrize("blocking", [True, False])
def test_a_blocking_copy_orders_its_pipe_and_no_other(blocking):
    async def kernel(core, x, out):
        a, b, c = (core.nram.alloc(x.shape, x.dtype, name) for name in "abc")
        core.memcpy_async(a, x)
        if blocking:
            await core.memcpy(b, x)
        else:
            core.memcpy_async(b, x)
        core.add(c, a, b)
        await core.sync()
        await core.memcpy(out, c)

    assert verify(kernel, X, Output.like(X), **ONE).ok == blocking


@pytest.mark.parametrize("sync", SYNCS)
def test_a_scalar_load_is_in_order_with_vector_instructions(sync):
    async def kernel(core, out):
        a = core.nram.alloc((8, 8), "float32", "a")
        core.write_zero(a)
        await maybe(core, sync)
        value = await core.load(a[0, 0])
        core.add(a, a, value)
        await core.sync()
        await core.memcpy(out, a)

    assert verify(kernel, Output((8, 8)), **ONE).ok


@pytest.mark.parametrize("sync", [*SYNCS, "sync_io_move_compute"])
def test_only_the_full_sync_waits_for_a_posted_store(sync):
    async def kernel(core, counter, out):
        a = core.nram.alloc((1,), "float32", "a")
        core.store(counter[0], 7.0)
        await maybe(core, sync)
        await core.memcpy(a, counter)
        await core.memcpy(out, a)

    assert verify(kernel, Output((1,)), Output((1,)), **ONE).ok == (sync == "sync")


@pytest.mark.parametrize("sync", [*SYNCS, "sync_io_move_compute"])
@pytest.mark.parametrize("memory", ["gdram", "ldram"])
def test_only_the_full_sync_waits_for_posted_arrays(sync, memory):
    async def kernel(core, work, out):
        a = core.nram.alloc((4,), "float32", "a")
        where = core.ldram.alloc((4,), "float32", "far") if memory == "ldram" else work
        core.store_array(where, np.arange(4.0))
        await maybe(core, sync)
        await core.memcpy(a, where)
        await core.memcpy(out, a)

    arguments = (Output((4,)), Output((4,))) if memory == "gdram" else (np.zeros(4, np.float32), Output((4,)))
    assert verify(kernel, *arguments, **ONE).ok == (sync == "sync")


def test_scalar_stores_and_loads_are_in_order():
    async def kernel(core, counter):
        for turn in range(3):
            core.store(counter[0], float(turn))
            await core.load(counter[0])

    report = verify(kernel, Output((1,)), rewrites=True, **ONE)
    assert report.ok, report.text()


@pytest.mark.parametrize("barrier", ["", "sync", "sync_cluster", "sync_all", "sync_all_ipu"])
@pytest.mark.parametrize("writer", ["core", "memory core"])
def test_a_barrier_orders_those_who_take_part(barrier, writer):
    async def kernel(core, x, out):
        shared = core.sram.alloc(x.shape, x.dtype, "shared")
        if core.is_memory_core == (writer == "memory core") and (core.is_memory_core or core.core_id == 0):
            await core.memcpy(shared, x)
        if not (core.is_memory_core and barrier == "sync_all_ipu"):
            await maybe(core, barrier)
        if core.core_id == 1:
            held = core.nram.alloc(x.shape, x.dtype, "held")
            await core.memcpy(held, shared)
            await core.memcpy(out, held)

    correct = barrier in ("sync_cluster", "sync_all") or (barrier == "sync_all_ipu" and writer == "core")
    report = verify(kernel, X, Output.like(X), dim=4)
    assert report.ok == correct
    assert correct or "task-race" in kinds(report)


@pytest.mark.parametrize("barrier", ["", "sync_cluster", "sync_all"])
def test_clusters_of_a_union_meet_at_sync_all_only(barrier):
    async def kernel(core, x, scratch, out):
        if core.task_id == 0:
            held = core.nram.alloc(x.shape, x.dtype, "held")
            await core.memcpy(held, x)
            await core.memcpy(scratch, held)
        await maybe(core, barrier)
        if core.task_id == 4 and not core.is_memory_core:
            held = core.nram.alloc(x.shape, x.dtype, "held")
            await core.memcpy(held, scratch)
            await core.memcpy(out, held)

    async def guarded(core, x, scratch, out):
        if core.is_memory_core:
            await maybe(core, barrier)
            return
        await kernel(core, x, scratch, out)

    report = verify(guarded, X, Output.like(X), Output.like(X), dim=8, kind="UNION2")
    assert report.ok == (barrier == "sync_all")


def test_what_three_tasks_pass_on_through_two_barriers_is_in_order():
    async def kernel(core, x, out):
        shared = core.sram.alloc((2, *x.shape), x.dtype, "shared")
        held = None if core.is_memory_core else core.nram.alloc(x.shape, x.dtype, "held")
        if core.is_memory_core:
            await core.memcpy(shared[0], x)
        await core.sync_cluster()
        if core.core_id == 1:
            await core.memcpy(held, shared[0])
            await core.memcpy(shared[1], held)
        await core.sync_cluster()
        if core.core_id == 2:
            await core.memcpy(held, shared[1])
            await core.memcpy(out, held)
        if core.core_id == 3:
            await core.memcpy(shared[0], held)  # behind both: nobody reads it any more

    report = verify(kernel, X, Output.like(X), dim=4)
    assert report.ok, report.text()


def test_a_core_may_issue_to_the_memory_cores_engine_and_wait_for_it():
    async def kernel(core, x, out, sync):
        if core.is_memory_core or core.core_id:
            return
        shared = core.sram.alloc(x.shape, x.dtype, "shared")
        held = core.nram.alloc(x.shape, x.dtype, "held")
        core.memcpy_async(shared, x)  # GDRAM2SRAM: the memory core's IO pipe
        await maybe(core, sync)
        core.memcpy_async(held, shared)
        await core.sync_move()
        await core.memcpy(out, held)

    assert verify(kernel, X, Output.like(X), "sync_io", dim=4).ok
    report = verify(kernel, X, Output.like(X), "sync_move", dim=4)
    assert "race" in kinds(report)
    assert "the memory core's IO pipe and the Move pipe run in parallel" in report.text()


async def fill_with(core, out, value):
    if core.is_memory_core or core.task_id:
        return
    held = core.nram.alloc(out.shape, out.dtype, "held")
    core.fill(held, value)
    await core.sync()
    await core.memcpy(out, held)


@pytest.mark.parametrize(("queues", "wait", "ordered"), [(1, False, True), (2, False, False), (2, True, True)])
def test_launches_are_in_order_on_one_queue_or_when_the_host_waits(queues, wait, ordered):
    device = Device()
    out = device.alloc((8, 8), "float32", "out")
    some = [device.queue() for _ in range(queues)]
    device.launch(fill_with, out, 1.0, queue=some[0], dim=4)
    if wait:
        device.synchronize()
    device.launch(fill_with, out, 2.0, queue=some[-1], dim=4)
    device.synchronize()
    report = device.verify()
    assert report.ok == ordered, report.text()
    if not ordered:
        assert "launches on different queues are not ordered" in report.text()


def test_block_tasks_that_share_a_core_are_not_ordered():
    async def kernel(core, out):
        held = core.nram.alloc(out.shape, out.dtype, "held")
        core.fill(held, float(core.task_id))
        await core.sync()
        await core.memcpy(out, held)

    # 33 tasks on 32 cores: the last runs after all others, and that is luck.
    report = verify(kernel, Output((8, 8)), kind="BLOCK", dim=33)
    assert "task-race" in kinds(report)
    assert "BLOCK tasks are not ordered, not even those that share a core" in report.text()


def test_program_order_of_the_log_is_that_of_each_task():
    device = Device()
    out = device.alloc((8, 8), "float32", "out")
    device.launch(fill_with, out, 1.0, dim=4)
    device.synchronize()
    order = Order(device.log, device.log.columns())
    assert (np.diff(order.task) >= 0).all()
    assert all(
        (np.diff(order.record[first:last]) > 0).all() for first, last in itertools.pairwise(order.first.tolist())
    )
    assert (order.done >= np.arange(len(order.done))).all()


@pytest.mark.parametrize(("first", "third"), list(itertools.product(SYNCS, repeat=2)))
def test_an_asynchronous_copy_within_nram_is_in_order_with_vector_instructions(first, third):
    async def kernel(core, x, out):
        a, b, c = (core.nram.alloc(x.shape, x.dtype, name) for name in "abc")
        core.memcpy_async(a, x)
        await maybe(core, first)
        core.add(b, a, 1.0)
        core.memcpy_async(c, b)
        core.add(b, c, 1.0)
        core.memcpy_async(c, b)
        await maybe(core, third)
        core.memcpy_async(out, c)

    # Both syncs wait for such a copy.
    correct = first in ("sync_io", "sync") and third in ("sync_compute", "sync_move", "sync")
    report = verify(kernel, X, Output.like(X), reference=X + 2, **ONE)
    assert report.ok == correct


async def add_under_locks(core, total, locks):
    """Each task adds to one element per lock; `locks` has the lock that it holds for each."""
    if core.is_memory_core or core.core_id > 1:
        return
    for element, lock in enumerate(locks[core.core_id]):
        await core.lock(lock)
        core.store(total[element], await core.load(total[element]) + 1)
        await core.sync()
        await core.unlock(lock)


@pytest.mark.parametrize("other", [69, 70])
def test_any_number_of_locks_may_be_in_use(other):
    locks = [*range(70)], [*range(69), other]
    report = verify(add_under_locks, InOut(np.zeros(70, np.int32)), locks, dim=4, rewrites=True)
    assert kinds(report) == (set() if other == 69 else {"task-race"})
    assert all("total[69]" in finding.region for finding in report.errors)


def test_launches_between_two_waits_are_unordered_if_they_are_on_several_queues():
    device = Device()
    out = device.alloc((8, 8), "float32", "out")
    some = [device.queue() for _ in range(3)]
    for queues in ((0, 0), (0, 1, 0, 2), (1, 1), (2,)):
        for queue in queues:
            device.launch(fill_with, out, 1.0, queue=some[queue], dim=4)
        device.synchronize()
    order = Order(device.log, device.log.columns())
    number = order.unordered_launches.tolist()
    assert [number.index(label) for label in number] == [0, 1, 2, 2, 2, 2, 6, 7, 8]
    assert order.launches_in_order(np.array([2, 2, 2, 0]), np.array([3, 4, 6, 8])).tolist() == [False, True, True, True]


def test_a_union_of_which_only_a_memory_core_has_begun():
    async def store(core, out):
        core.memcpy_async(out, core.nram.alloc(out.shape, out.dtype, "tile"))

    async def fail(core, out):
        core.memcpy_async(out, core.sram.alloc(out.shape, out.dtype, "buf"))
        raise ValueError("too early")

    device = Device("mlu370-x4")
    out = device.alloc(X.shape, X.dtype, "out")
    device.launch(store, out, **ONE, queue=device.queue())
    device.launch(fail, out, kind="UNION1", dim=4, queue=device.queue())
    with pytest.raises(KernelError, match="too early"):
        device.synchronize()
    assert all(task.is_memory_core for task in device.log.tasks if task.launch == 1)
    assert "task-race" in kinds(device.verify())

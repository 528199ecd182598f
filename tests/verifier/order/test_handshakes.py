"""Handshakes by atomics: sound if the task uses the returned value, faulty otherwise."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from mlusim import InOut, Output

X = np.random.default_rng(5).integers(1, 50, (16, 64)).astype(np.float32)
FLAG = np.zeros(1, np.int32)


async def wait_for(core, flag, old, count):
    while True:
        await core.atomic_add(old, flag, 0)
        if await core.load(old[0]) >= count:
            return
        core.scalar(200)


async def flag_for_the_cluster(core, x, flag, box, out, fault):
    """Core 0 computes a row and sets a flag; the others wait for it and read the row."""
    if core.is_memory_core:
        return
    held, old = core.nram.alloc(64, x.dtype, "held"), core.nram.alloc(1, "int32", "old")
    if core.core_id == 0:
        await core.memcpy(held, x[0])
        core.add(held, held, held)
        if fault == "flag before the data":
            await core.atomic_reduce_add(flag, 1)
        await core.memcpy(box, held)
        if fault != "flag before the data":
            await core.atomic_reduce_add(flag, 1)
        if fault == "data changed behind the flag":
            await core.memcpy(box, held)
    elif fault == "nobody looks":
        await core.atomic_add(old, flag, 0)
        core.scalar(20_000)
    elif fault == "looked at another value":
        await core.atomic_add(old, flag, 0)
        core.write_value(old, 1)
        await core.load(old[0])
        core.scalar(20_000)
    elif fault == "no atomic":
        core.scalar(20_000)
    else:
        await wait_for(core, flag, old, 1)
    if core.core_id:
        await core.memcpy(held, box)
    for row in range(core.core_id, 16, 4):
        await core.memcpy(out[row], held)


async def last_one_sums_up(core, x, count, parts, out, fault):
    """Each core stores a part and counts; who counts last adds them."""
    if core.is_memory_core:
        return
    tile, total = core.nram.alloc((4, 64), x.dtype, "tile"), core.nram.alloc(64, x.dtype, "total")
    old = core.nram.alloc(1, "int32", "old")
    await core.memcpy(tile, x[4 * core.core_id : 4 * core.core_id + 4])
    core.sum_rows(total, tile)
    if fault != "counted before the store":
        await core.memcpy(parts[core.core_id], total)
    await core.atomic_add(old, count, 1)
    if fault == "counted before the store":
        await core.memcpy(parts[core.core_id], total)
    if await core.load(old[0]) == 3 or fault == "all sum up":
        await core.memcpy(tile, parts)
        core.sum_rows(total, tile)
        await core.memcpy(out, total)


async def chain(core, x, flag, box, out, fault):
    """Core 0 to 1 to 2, of which the last has never seen the first."""
    if core.is_memory_core or core.core_id == 3:
        return
    held, old = core.nram.alloc(64, x.dtype, "held"), core.nram.alloc(1, "int32", "old")
    if core.core_id:
        await wait_for(core, flag[core.core_id - 1 : core.core_id], old, 1)
    if core.core_id == 0:
        await core.memcpy(held, x[0])
        await core.memcpy(box, held)
    if core.core_id == 2:
        await core.memcpy(held, box)
        await core.memcpy(out, held)
        return
    if fault == "posted" and core.core_id == 0:
        core.store(box[0], 1.0)
    await core.atomic_reduce_add(flag[core.core_id : core.core_id + 1], 1)


async def behind_a_barrier(core, x, flag, box, out, fault):
    """Core 0 stores, a barrier, core 1 sets the flag, core 2 reads: the barrier does not count core 2 in time."""
    if core.is_memory_core:
        return
    held, old = core.nram.alloc(64, x.dtype, "held"), core.nram.alloc(1, "int32", "old")
    if core.core_id == 0:
        await core.memcpy(held, x[0])
        await core.memcpy(box, held)
    if fault != "no barrier":
        await core.sync_all_ipu()
    if core.core_id == 1:
        if fault == "no barrier":
            core.scalar(20_000)
        await core.atomic_reduce_add(flag, 1)
    if core.core_id == 2:
        await wait_for(core, flag, old, 1)
        await core.memcpy(held, box)
        await core.memcpy(out, held)


BOX = InOut(np.zeros(64, np.float32))
CASES = {
    flag_for_the_cluster: (
        (X, InOut(FLAG), BOX, Output.like(X)),
        {"out": np.broadcast_to(2 * X[0], X.shape)},
        (
            "flag before the data",
            "data changed behind the flag",
            "nobody looks",
            "looked at another value",
            "no atomic",
        ),
    ),
    last_one_sums_up: (
        (X, InOut(FLAG), InOut(np.zeros((4, 64), np.float32)), Output((64,))),
        {"out": X.sum(axis=0)},
        ("counted before the store", "all sum up"),
    ),
    chain: ((X, InOut(np.zeros(2, np.int32)), BOX, Output((64,))), {"out": X[0]}, ("posted",)),
    behind_a_barrier: ((X, InOut(FLAG), BOX, Output((64,))), {"out": X[0]}, ("no barrier",)),
}


@pytest.mark.parametrize("dma", ["complete", "late"])
@pytest.mark.parametrize("kernel", CASES, ids=lambda kernel: kernel.__name__)
def test_accesses_ordered_by_atomics_are_not_a_race(kernel, dma):
    arguments, reference, _ = CASES[kernel]
    report = mlusim.verify(kernel, *arguments, "", reference=reference, dim=(4, 1, 1), dma=dma)
    assert report.ok, report.text()


@pytest.mark.parametrize(
    ("kernel", "fault"),
    [(kernel, fault) for kernel, (_, _, faults) in CASES.items() for fault in faults],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
def test_atomics_that_give_no_order_do_not_hide_a_race(kernel, fault):
    report = mlusim.verify(kernel, *CASES[kernel][0], fault, dim=(4, 1, 1))
    assert "task-race" in {finding.kind for finding in report.errors}, report.text()


async def counted_by_elements(core, x, flag, out):
    """Core 0 counts by an element of the flag, core 1 polls a view of it, then reads the count itself."""
    if core.is_memory_core or core.core_id > 1:
        return
    held, old = core.nram.alloc(64, x.dtype, "held"), core.nram.alloc(1, "int32", "old")
    if core.core_id == 0:
        await core.memcpy(held, x[0])
        await core.memcpy(out[0], held)
        await core.atomic_reduce_add(flag[0], 1)
    else:
        await wait_for(core, flag, old, 1)
        await core.memcpy(held, out[0])
        core.mul(held, held, float(await core.load(flag[0])))
        await core.memcpy(out[1], held)


def test_an_element_and_a_view_of_it_are_the_same_bytes():
    report = mlusim.verify(counted_by_elements, X, InOut(FLAG), Output((2, 64)), dim=4)
    assert report.ok, report.text()


@pytest.mark.parametrize("waits", [True, False])
def test_what_a_launch_has_waited_for_is_known_to_the_next_one_of_its_queue(waits):
    async def produce(core, x, middle, flag):
        held = core.nram.alloc(64, x.dtype, "held")
        await core.memcpy(held, x[0])
        await core.memcpy(middle, held)
        await core.atomic_reduce_add(flag, 1)

    async def wait(core, flag):
        old = core.nram.alloc(1, "int32", "old")
        if waits:
            await wait_for(core, flag, old, 1)

    async def consume(core, middle, out):
        held = core.nram.alloc(64, out.dtype, "held")
        await core.memcpy(held, middle)
        await core.memcpy(out, held)

    device = mlusim.Device()
    x, flag = device.upload(X, "x"), device.upload(FLAG, "flag", writable=True)
    middle, out = device.alloc(64, X.dtype, "middle", workspace=True), device.alloc(64, X.dtype, "out")
    one = {"kind": "BLOCK", "dim": 1}
    device.launch(produce, x, middle, flag, queue=device.queue(), **one)
    device.launch(wait, flag, **one)
    device.launch(consume, middle, out, **one)
    device.synchronize()
    report = device.verify()
    assert [finding.kind for finding in report.errors if finding.kind != "uninitialised"] == (
        [] if waits else ["task-race"]
    )

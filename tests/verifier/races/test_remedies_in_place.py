"""Remedies of in-place updates, flags of each turn, copies that block, and parts that leave a buffer."""

from __future__ import annotations

import numpy as np
import pytest

from findings import ONE, X, kinds_of, the_only_error
from kernel_lines import at
from mlusim import InOut, Output, verify

FLAG = np.zeros(1, np.int32)


async def swap(core, x, own=True):
    """Swap mirrored rows in place; a task for each pair."""
    if core.is_memory_core:
        return
    low, high = (core.nram.alloc(8, x.dtype, name) for name in ("low", "high"))
    for row in range(core.core_id, 4 if own else 8, 4):
        await core.memcpy(low, x[row])
        await core.memcpy(high, x[7 - row])
        await core.memcpy(x[row], high)
        await core.memcpy(x[7 - row], low)


async def halve(core, x, stride=1, shift=0):
    """Halve rows in place; `stride` tasks take the same ones."""
    if core.is_memory_core:
        return
    held = core.nram.alloc(8, x.dtype, "held")
    for row in range(core.task_id // stride, 7, 4 // stride):
        await core.memcpy(held, x[row])
        core.mul(held, held, 0.5)
        await core.memcpy(x[row + shift], held)


def halved(x):
    return np.concatenate([x[:7] / 2, x[7:]])


@pytest.mark.parametrize(("kernel", "wrong", "reference"), [(swap, (False,), lambda x: x[::-1]), (halve, (2,), halved)])
def test_rows_that_are_updated_by_two_tasks_belong_to_one(kernel, wrong, reference):
    """A lock, or a barrier, would let them be updated twice."""
    remedy = the_only_error(kernel, InOut(X), *wrong, dim=4).remedy
    own, lock = (
        f"give each task bytes of its own: see the bounds of the loop at {at(kernel, 'for row')}",
        "hold the same lock",
    )
    assert remedy.startswith(f"{own}\nor, if both updates are intended, {lock}")
    assert verify(kernel, InOut(X), dim=4, reference=reference).ok


def test_the_row_of_another_task_is_a_wrong_part_and_no_barrier_is_missing():
    remedy = the_only_error(halve, InOut(X), 1, 1, dim=4).remedy
    load, store = (at(halve, text) for text in ("(held, x", "(x[row + shift]"))
    assert remedy.startswith(f"correct the part of x at {load} or {store}: it is that of another task\nor `await")
    assert verify(halve, InOut(X), dim=4, reference=halved).ok


async def rows_announced(core, x, flag, box, out, *, early=False, least=1):
    """Core 0 announces each row, and core 1 waits for it; the others return, so no barrier is possible."""
    if core.is_memory_core or core.core_id > 1:
        return
    held, old = core.nram.alloc(8, x.dtype, "held"), core.nram.alloc(1, "int32", "old")
    for row in range(8):
        if core.core_id == 0:
            await core.memcpy(held, x[row])
            if early:
                await core.atomic_reduce_add(flag, 1)  # early
            await core.memcpy(box[row], held)
            if not early:
                await core.atomic_reduce_add(flag, 1)  # in time
        else:
            while True:
                await core.atomic_add(old, flag, 0)
                if await core.load(old[0]) >= row + least:
                    break
                core.scalar(100)
            await core.memcpy(held, box[row])
            await core.memcpy(out[row], held)


def announced(**fault):
    async def kernel(core, x, flag, box, out):
        await rows_announced(core, x, flag, box, out, **fault)

    return kernel


ARRAYS = X, InOut(FLAG), Output.like(X), Output.like(X)


def test_a_row_that_is_announced_before_it_is_stored():
    store, early = (at(rows_announced, text) for text in ("box[row], held", "# early"))
    assert the_only_error(announced(early=True), *ARRAYS, dim=4).remedy.startswith(
        f"let {store} come before the atomic at {early}, if that tells the other task of it"
    )
    assert verify(announced(), *ARRAYS, dim=4, reference={"box": X, "out": X}).ok


def test_a_task_that_does_not_wait_for_the_last_row_goes_on_too_early():
    store, look, late = (at(rows_announced, text) for text in ("box[row], held", "atomic_add(old", "# in time"))
    assert the_only_error(announced(least=0), *ARRAYS, dim=4).remedy == (
        f"wait at {look} for the atomic at {late} that follows {store}: the task goes on before it"
    )


@pytest.mark.parametrize("blocks", [False, True])
def test_a_copy_that_races_and_outlives_its_buffer_should_block(blocks):
    async def kernel(core, x, out):
        for row in range(8):
            with core.nram.scope():
                held = core.nram.alloc(8, x.dtype, "held")
                await core.memcpy(held, x[row])
                core.add(held, held, 1.0)
                if blocks:
                    await core.memcpy(out[row], held)
                else:
                    core.memcpy_async(out[row], held)

    if blocks:
        assert verify(kernel, X, Output.like(X), **ONE, reference=X + 1).ok
    else:
        finding = the_only_error(kernel, X, Output.like(X), **ONE)
        assert finding.kind == "race"
        assert "release" in kinds_of(finding)
        assert finding.remedy.startswith(f"wait for the copy at {at(kernel, 'memcpy_async')}: `await core.memcpy(...)`")


def test_rows_that_leave_a_buffer_are_one_finding_with_those_that_meet_the_rows_of_others():
    async def kernel(core, x, out, shift=0):
        box = core.sram.alloc((4, 8), x.dtype, "box")
        if core.is_memory_core:
            await core.memcpy(box, x)
            await core.sync_cluster()
            await core.sync_cluster()
            await core.memcpy(out, box)
            return
        held = core.nram.alloc(8, x.dtype, "held")
        await core.sync_cluster()
        await core.memcpy(held, box[core.core_id])
        core.mul(held, held, 2.0)
        await core.memcpy(box[core.core_id + shift], held)
        await core.sync_cluster()

    finding = the_only_error(kernel, X[:4], Output((4, 8)), 1, dim=4)
    assert (finding.kind, set(kinds_of(finding))) == ("access", {"task-race"})
    assert verify(kernel, X[:4], Output((4, 8)), dim=4, reference=2 * X[:4]).ok


def test_a_missing_sync_is_not_hidden_by_the_index_that_it_spoils():
    async def kernel(core, x, out):
        rows, held = core.nram.alloc(8, "int32", "rows"), core.nram.alloc((8, 8), x.dtype, "held")
        await core.memcpy(held, x)
        core.memcpy_async(rows, out[0].view("int32"))
        row = int(await core.load(rows[0]))
        core.memcpy_async(out, held[row : row + 8])

    assert the_only_error(kernel, X, InOut(np.zeros((8, 8), np.float32)), **ONE).kind == "race"


@pytest.mark.parametrize("wrong", [False, True])
def test_a_result_that_replaces_a_copy_that_nothing_has_read_is_computed_from_the_wrong_part(wrong):
    async def kernel(core, x, out):
        held = core.nram.alloc((2, 8), x.dtype, "held")
        core.memcpy_async(held[0], x[0])
        for row in range(8):
            await core.sync_io()
            if row < 7:
                core.memcpy_async(held[(row + 1) % 2], x[row + 1])
            core.add(held[row % 2], held[(row + wrong) % 2], 1.0)
            await core.sync_compute()
            core.memcpy_async(out[row], held[row % 2])

    if wrong:
        remedy = the_only_error(kernel, X, Output.like(X), **ONE).remedy
        load, add = (at(kernel, text) for text in ("x[row + 1]", "core.add"))
        assert remedy.startswith(f"correct the part of held at {load} or {add}: the second of them replaces what was")
    else:
        assert verify(kernel, X, Output.like(X), **ONE, reference=X + 1).ok


async def exchange(core, x, stride=1):
    """Exchange neighbouring rows in place, in two halves of columns; `stride` tasks take the same ones."""
    if core.is_memory_core:
        return
    upper, lower = (core.nram.alloc(4, x.dtype, name) for name in ("upper", "lower"))
    for row in range(2 * (core.core_id // stride), 8, 8 // stride):
        for part in (slice(0, 4), slice(4, 8)):
            await core.memcpy(upper, x[row, part])
            await core.memcpy(lower, x[row + 1, part])
            await core.memcpy(x[row, part], lower)
            await core.memcpy(x[row + 1, part], upper)


def test_lines_that_a_wrong_split_runs_in_two_tasks_are_one_finding():
    finding = the_only_error(exchange, InOut(X), 2, dim=4)
    loop = at(exchange, "for row")
    assert finding.remedy.startswith(f"give each task bytes of its own: see the bounds of the loop at {loop}\n")
    assert verify(exchange, InOut(X), dim=4, reference=lambda x: x.reshape(4, 2, 8)[:, ::-1].reshape(8, 8)).ok


async def add_to_total(core, x, total, plain=False):
    """Two sums, each by an atomic; the second may be a copy."""
    if core.is_memory_core:
        return
    row = core.nram.alloc(8, x.dtype, "row")
    await core.memcpy(row, x[core.task_id])
    await core.atomic_reduce_add(total[:4], row[:4])
    if plain:
        await core.memcpy(total[4:], row[4:])
    else:
        await core.atomic_reduce_add(total[4:], row[4:])


def test_a_store_beside_atomics_to_the_same_tensor_should_be_one():
    total = InOut(np.zeros(8, np.float32))
    remedy = the_only_error(add_to_total, X, total, True, dim=4).remedies[0]
    store, atomic = at(add_to_total, "memcpy(total"), at(add_to_total, "(total[:4]")
    assert remedy == f"update total at {store} by atomic_reduce_add, as at {atomic}"
    assert verify(add_to_total, X, total, dim=4, reference=lambda x, _: x[:4].sum(axis=0)).ok

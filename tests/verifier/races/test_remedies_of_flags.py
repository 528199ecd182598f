"""Remedies with locks and atomics fix the kernel: each test runs a second kernel that has them."""

from __future__ import annotations

import numpy as np
import pytest

from findings import X, kinds_of, the_only_error
from kernel_lines import at, line_of
from mlusim import InOut, Output, verify


def test_a_sum_under_a_lock_that_is_not_loaded_gets_the_load_as_its_remedy():
    async def kernel(core, x, total, load):
        if core.is_memory_core:
            return
        part, held = (core.nram.alloc(8, x.dtype, name) for name in ("part", "held"))
        core.write_zero(held)
        await core.memcpy(part, x[core.core_id])
        await core.lock(1)
        if load:
            await core.memcpy(held, total)
        core.add(held, held, part)
        await core.memcpy(total, held)
        await core.unlock(1)

    total = InOut(np.zeros(8, np.float32))
    finding = the_only_error(kernel, X, total, False, dim=4)
    assert (finding.kind, finding.remedy.partition(":")[0]) == (
        "written-again",
        "load total while the lock is held, and store a value computed from it",
    )
    assert verify(kernel, X, total, True, dim=4, reference=lambda x, _: x[:4].sum(0)).ok


@pytest.mark.parametrize("poll", ["atomic", "copy"])
def test_a_flag_that_is_polled_is_for_atomics_however_it_is_read(poll):
    async def kernel(core, x, flag, work, out):
        if core.is_memory_core or core.core_id > 1:
            return
        tile, old = core.nram.alloc(8, x.dtype, "tile"), core.nram.alloc(1, "int32", "old")
        if core.core_id == 0:
            core.scalar(10_000)
            await core.memcpy(tile, x[0])
            await core.memcpy(work, tile)
            if poll == "atomic":
                core.store(flag[0], 1)
            else:
                await core.atomic_add(old, flag, 1)
            return
        while True:
            await (core.atomic_add(old, flag, 0) if poll == "atomic" else core.memcpy(old, flag))
            if await core.load(old[0]):
                break
            core.scalar(100)
        await core.memcpy(tile, work)
        await core.memcpy(out, tile)

    finding = the_only_error(kernel, X, InOut(np.zeros(1, np.int32)), Output((8,)), Output((8,)), dim=4)
    assert (finding.kind, finding.fields["buffer"]) == ("task-race", "flag")
    assert finding.remedy.startswith("read and write the flag with atomics")
    assert "sync" not in finding.remedy


def test_a_number_that_is_loaded_and_then_compared_and_swapped_is_loaded_by_an_atomic():
    async def kernel(core, x, largest, by_atomic):
        if core.is_memory_core:
            return
        old = core.nram.alloc(1, "int32", "old")
        mine = 10 * (1 + core.core_id)
        if by_atomic:
            await core.atomic_add(old, largest, 0)
            found = int(await core.load(old[0]))
        else:
            found = int(await core.load(largest[0]))
        while found < mine:
            await core.atomic_cas(old, largest, found, mine)
            seen = int(await core.load(old[0]))
            if seen == found:
                break
            found = seen

    largest = InOut(np.zeros(1, np.int32))
    finding = the_only_error(kernel, X, largest, False, dim=4)
    place = at(kernel, "found = int(await core.load(largest[0]))")
    by_atomic = f"load largest at {place} by an atomic too: `core.atomic_add` of 0 returns the value"
    assert (finding.kind, finding.remedy) == ("task-race", by_atomic)
    assert verify(kernel, X, largest, True, dim=4, reference=lambda *_: np.array([40], np.int32)).ok


def test_an_endless_loop_is_one_finding_with_what_its_tasks_do_again():
    async def kernel(core, x, count, out):
        if core.is_memory_core:
            return
        tile, old = core.nram.alloc(8, x.dtype, "tile"), core.nram.alloc(1, "int32", "old")
        while True:
            # Here an atomic should add 1.
            await core.memcpy(old, count)
            row = int(await core.load(old[0]))
            if row >= 8:
                return
            await core.memcpy(tile, x[row])
            await core.memcpy(out[row], tile)

    count = InOut(np.zeros(1, np.int32))
    finding = the_only_error(kernel, X, count, Output.like(X), dim=4, max_operations=500)
    assert (finding.kind, kinds_of(finding)) == ("endless", ["task-race"])


def test_a_task_that_waits_for_its_own_lock_hangs():
    async def update(core, out):
        await core.lock(4)
        core.store(out[core.core_id], 1.0)
        await core.unlock(4)

    async def kernel(core, out):
        if core.is_memory_core:
            return
        await core.lock(4)
        await update(core, out)
        await core.unlock(4)

    finding = the_only_error(kernel, Output((4,)), dim=4)
    assert (finding.kind, finding.fields["error"]) == ("hang", "HangError")
    assert finding.title == "deadlock: this task waits for lock 4, which it holds itself; unlock it first"
    assert [site.line for site in finding.sites] == [line_of(kernel, "await core.lock(4)")]
    assert finding.fields["line"] == line_of(update, "await core.lock(4)")


@pytest.mark.parametrize(
    ("fault", "remedy"),
    [
        ("no sync", "`await core.sync()` between {store} and the atomic at {atomic}, which does not wait for stores\n"),
        ("too early", "let {store} come before the atomic at {atomic}, if that tells the other task of it\n"),
        ("not the last", "use part only in a task that the old value of the atomic at {atomic} shows that all others"),
    ],
)
def test_the_last_task_adds_what_all_tasks_have_stored(fault, remedy):
    async def kernel(core, part, count, out, fault=""):
        if core.is_memory_core:
            return
        old = core.nram.alloc(1, "int32", "old")
        if fault == "too early":
            await core.atomic_add(old, count, 1)
        core.store(part[core.core_id], 1.0)
        if fault != "no sync":
            await core.sync()
        if fault != "too early":
            await core.atomic_add(old, count, 1)
        if await core.load(old[0]) == (0 if fault == "not the last" else 3):
            core.store(out[0], float((await core.load_array(part)).sum()))

    arguments = Output((4,)), InOut(np.zeros(1, np.int32)), Output((1,))
    finding = the_only_error(kernel, *arguments, fault, dim=4)
    first = kernel.__code__.co_firstlineno
    lines = {"store": first + 6, "atomic": first + (5 if fault == "too early" else 10)}
    places = {name: f"test_remedies_of_flags.py:{line}" for name, line in lines.items()}
    assert finding.fields["buffer"] == "part"
    assert finding.remedy.startswith(remedy.format(**places))
    assert verify(kernel, *arguments, dim=4, reference=lambda _: {"out": np.full(1, 4, np.float32)}).ok


def test_a_spin_lock_that_is_freed_by_a_plain_store_is_one_finding():
    async def kernel(core, x, flag, total, plain=False):
        if core.is_memory_core:
            return
        old = core.nram.alloc(1, "int32", "old")
        part, held = (core.nram.alloc(8, x.dtype, name) for name in ("part", "held"))
        await core.memcpy(part, x[core.core_id])
        while True:
            await core.atomic_cas(old, flag, 0, 1)
            if await core.load(old[0]) == 0:
                break
            core.scalar(20)
        await core.memcpy(held, total)
        core.add(held, held, part)
        await core.memcpy(total, held)
        if plain:
            core.store(flag[0], 0)
        else:
            await core.atomic_exch(old, flag, 0)

    arguments = X, InOut(np.zeros(1, np.int32)), InOut(np.zeros(8, np.float32))
    finding = the_only_error(kernel, *arguments, True, dim=4)
    assert (finding.kind, finding.fields["buffer"]) == ("task-race", "flag")
    assert finding.remedy.startswith("read and write the flag with atomics")
    assert verify(kernel, *arguments, dim=4, reference=lambda x, *_: {"total": x[:4].sum(0)}).ok


def test_a_counter_without_its_lock_explains_the_work_that_is_done_twice():
    async def kernel(core, x, count, out, locked=True):
        if core.is_memory_core:
            return
        tile, number = core.nram.alloc(8, x.dtype, "tile"), core.nram.alloc(1, "int32", "number")
        while True:
            if locked:
                await core.lock(0)
            await core.memcpy(number, count)
            row = int(await core.load(number[0]))
            core.store(number[0], row + 1)
            await core.memcpy(count, number)
            if locked:
                await core.unlock(0)
            if row >= 8:
                return
            await core.memcpy(tile, x[row])
            await core.memcpy(out[row], tile)

    arguments = X, InOut(np.zeros(1, np.int32)), Output.like(X)
    finding = the_only_error(kernel, *arguments, False, dim=4)
    assert finding.fields["buffer"] == "count"
    assert finding.remedy.startswith("hold the same lock in every task from")
    assert verify(kernel, *arguments, dim=4, reference=lambda x, _: {"out": x}).ok


def test_updates_of_pairs_in_turns_lack_a_barrier_and_no_lock():
    async def kernel(core, x, waits=False):
        if core.is_memory_core:
            return
        low, high, least = (core.nram.alloc(8, x.dtype, name) for name in ("low", "high", "least"))
        for turn in range(4):
            row = 2 * core.core_id + turn % 2
            if row < 7:
                await core.memcpy(low, x[row])
                await core.memcpy(high, x[row + 1])
                core.minequal(least, low, high)
                core.maxequal(high, low, high)
                await core.memcpy(x[row], least)
                await core.memcpy(x[row + 1], high)
            if waits:
                await core.sync_all_ipu()

    finding = the_only_error(kernel, InOut(X), dim=4)
    line = line_of(kernel, "for turn in range(4):")
    assert finding.remedy.startswith(
        "`await core.sync_all_ipu()` in all cores of the union, at the end of the loop at "
        f"test_remedies_of_flags.py:{line}\nor hold the same lock"
    )
    assert verify(kernel, InOut(X), True, dim=4).ok

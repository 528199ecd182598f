"""Hints: redundant syncs, unused buffers, copies still in flight, memory left allocated."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from findings import ONE, X, assert_text, only
from mlusim import InOut, Output, verify


def test_hints_are_not_errors():
    async def kernel(core, x, unread, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        core.nram.alloc((4, 8), x.dtype, "spare")
        await core.memcpy(held, x)
        await core.sync()
        await core.memcpy(out, held)

    report = verify(kernel, X, X, Output.like(X), reference=X, **ONE).check()
    assert [finding.kind for finding in report.findings] == ["unused", "unused", "redundant-sync"]
    assert report.hints == report.findings
    assert report.findings[0].title == "no operation uses unread, 256 B of GDRAM passed by the host"
    assert report.findings[1].title == "no operation uses spare, 128 B of NRAM allocated by task 0"
    assert_text(
        report.findings[2],
        """hint: redundant-sync: sync orders nothing on any path that ran
  waits  HERE  await core.sync()
         task 0, cluster 0 core 0, TIME ns to TIME ns
  rule   only operations of different pipes or cores on the same bytes need a sync between them
  remedy remove it, unless a path that did not run needs it: the other syncs order everything that ran""",
    )


@pytest.mark.parametrize("rows", [1, 4])
def test_a_sync_in_a_loop_that_no_task_repeats_may_be_for_its_next_turn(rows):
    async def kernel(core, x, out):
        held = core.nram.alloc(8, x.dtype, "held")
        for row in range(core.task_id, x.shape[0], core.task_dim):
            await core.memcpy(held, x[row])
            core.memcpy_async(out[row], held)
            await core.sync_io()
            await core.sync()

    found = verify(kernel, X[:rows], Output((rows, 8)), kind="BLOCK", dim=2).findings
    assert [finding.kind for finding in found] == ["redundant-sync"] * (rows > 2)


def test_a_buffer_that_some_tasks_use_is_used():
    async def kernel(core, x, out):
        held = [core.nram.alloc(8, x.dtype, f"held {turn}") for turn in range(2)]
        for row in range(core.task_id, 3, 2):
            await core.memcpy(held[row // 2], x[row])
            await core.memcpy(out[row], held[row // 2])

    assert verify(kernel, X[:3], Output((3, 8)), kind="BLOCK", dim=2).findings == ()


def test_a_wait_inside_an_instruction_is_not_a_redundant_sync():
    async def kernel(core, x, out, count):
        values, mask, kept = (core.nram.alloc(64, x.dtype, name) for name in ("values", "mask", "kept"))
        await core.memcpy(values, x.reshape(-1))
        core.lt(mask, values, 8.0)
        number = await core.collect(kept, values, mask)
        assert number == 8
        await core.memcpy(out[:count], kept[:count])

    assert verify(kernel, X, Output((8,)), 8, reference=X[0], **ONE).findings == ()
    report = verify(kernel, X, Output((9,)), 9, **ONE)
    assert only(report, "uninitialised").region == "kept[8], 4 B in NRAM"


def test_of_two_syncs_in_a_row_only_one_is_redundant_and_a_copy_in_flight_at_the_end_is_named():
    async def kernel(core, out, waits):
        held = core.nram.alloc(out.shape, out.dtype, "held")
        core.write_zero(held)
        await core.sync()
        await core.sync_compute()
        core.memcpy_async(out, held)
        if waits:
            await core.sync_io()

    assert [finding.kind for finding in verify(kernel, Output((8, 8)), True, **ONE).findings] == ["redundant-sync"]
    assert [finding.kind for finding in verify(kernel, Output((8, 8)), False, **ONE).findings] == [
        "redundant-sync",
        "unawaited",
    ]


def test_memory_left_allocated():
    device = mlusim.Device()
    device.upload(X, "x")
    report = device.verify(left=True)
    assert only(report, "left").title == "1 allocation in GDRAM was not freed: x (256 B)"


@pytest.mark.parametrize(("fault", "buffer"), [("", ""), ("stores another buffer", "result"), ("computes late", "a")])
def test_a_result_that_nothing_reads_is_a_hint(fault, buffer):
    async def store(core, x, out):
        a, result = (core.nram.alloc(x.shape[1], x.dtype, name) for name in ("a", "result"))
        core.write_zero(result)
        await core.memcpy(a, x[0])
        for row in range(x.shape[0]):
            core.mul(result, a, 2.0)
            await core.memcpy(out[row], a if fault else result)
            # Nothing reads the last one, but the others.
            await core.memcpy(a, x[(row + 1) % x.shape[0]])

    async def late(core, x, out):
        a = core.nram.alloc(x.shape[1], x.dtype, "a")
        for row in range(x.shape[0]):
            await core.memcpy(a, x[row])
            await core.memcpy(out[row], a)
            core.mul(a, a, 2.0)

    kernel = late if fault == "computes late" else store
    found = [finding for finding in verify(kernel, X, Output.like(X), **ONE).findings if finding.kind == "unread"]
    assert [finding.title for finding in found] == ([f"nothing reads what mul writes to {buffer}"] if fault else [])
    assert all(finding.times == len(X) and "core.mul(" in finding.text() for finding in found)


def test_copies_that_one_sync_would_wait_for_are_one_hint():
    async def kernel(core, x, out, other):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        await core.memcpy(held, x)
        core.memcpy_async(out, held)
        core.memcpy_async(other, held)

    (finding,) = verify(kernel, X, Output.like(X), Output.like(X), **ONE).findings
    assert (finding.kind, finding.times) == ("unawaited", 2)
    assert [site.source for site in finding.sites] == ["core.memcpy_async(out, held)", "core.memcpy_async(other, held)"]


def test_a_barrier_before_a_task_reads_what_it_wrote_for_others_is_not_redundant():
    async def kernel(core, x, shared, out):
        if core.is_memory_core:
            return
        held = core.nram.alloc(8, x.dtype, "held")
        cluster, clusters = core.cluster_id, core.cluster_dim
        await core.memcpy(held, x[cluster, core.core_id])
        await core.memcpy(shared[cluster, core.core_id], held)
        await core.sync_all_ipu()
        await core.memcpy(held, shared[(cluster + 1) % clusters, core.core_id])
        await core.memcpy(out[cluster, core.core_id], held)

    for clusters in (1, 2):
        x = np.arange(clusters * 32, dtype=np.float32).reshape(clusters, 4, 8)
        outputs, launch = (Output.like(x), Output.like(x)), {"dim": 4 * clusters, "kind": f"UNION{clusters}"}
        assert verify(kernel, x, *outputs, reference={"out": x[::-1]}, **launch).findings == ()


def test_a_slot_of_a_ring_that_a_short_run_does_not_reach_is_no_unused_buffer():
    async def kernel(core, x, out):
        slots = [core.nram.alloc(x.shape[1], x.dtype, f"slot {number}") for number in range(3)]
        core.nram.alloc(8, x.dtype, "spare") if x.shape[0] > 4 else None
        for row in range(x.shape[0]):
            slot = slots[row % 3]
            await core.memcpy(slot, x[row])
            await core.memcpy(out[row], slot)

    assert not verify(kernel, X[:2], Output.like(X[:2]), **ONE).findings
    (hint,) = verify(kernel, X, Output.like(X), **ONE).findings
    assert hint.title.startswith("no operation uses spare, ")


async def differences(core, x, out, tile=4):
    """out[i] = x[i] - x[i - 1], with slots in turn."""
    slots, made = core.nram.alloc((2, tile + 1), x.dtype, "slots"), core.nram.alloc((2, tile), x.dtype, "made")
    for turn, start in enumerate(range(0, out.size, tile)):
        size, slot = min(tile, out.size - start), slots[turn % 2]
        core.memcpy_async(slot[: size + 1], x[start : start + size + 1])
        await core.sync_io()
        core.sub(made[turn % 2, :size], slot[1 : size + 1], slot[:size])
        await core.sync_compute()
        core.memcpy_async(out[start : start + size], made[turn % 2, :size])
    await core.sync()


@pytest.mark.parametrize("size", [0, 1, 5, 30])
def test_a_run_on_an_empty_tensor_does_not_show_what_is_unused_or_redundant(size):
    x = np.arange(size + 1, dtype=np.float32) ** 2
    report = verify(differences, x, Output((size,)), reference=np.diff(x), **ONE)
    assert not report.findings, report.text()


def test_a_copy_that_nothing_waits_for_is_one_finding_with_its_race():
    async def kernel(core, x, out, blocks=False):
        held = core.nram.alloc(8, x.dtype, "held")
        for row in range(8):
            core.fill(held, float(row))
            await core.sync_compute()
            if blocks:
                await core.memcpy(out[row], held)
            else:
                core.memcpy_async(out[row], held)

    report = verify(kernel, X, Output.like(X), **ONE)
    (finding,) = [finding for finding in report.findings if finding.kind != "unused"]
    assert (finding.kind, [part.kind for part in finding.folded]) == ("race", ["unawaited"])
    assert finding.remedy.startswith("wait for the copy at test_hints.py:")
    expected = np.repeat(np.arange(8, dtype=np.float32), 8).reshape(8, 8)
    assert verify(kernel, X, Output.like(X), True, reference=expected, **ONE).ok


@pytest.mark.parametrize("nodes", [0, 1, 2, 5])
@pytest.mark.parametrize("tasks", [1, 4])
def test_a_small_run_does_not_show_what_buffers_and_barriers_are_for(nodes, tasks):
    async def paths(core, d):
        if core.is_memory_core:
            return
        row, pivot, via = (core.nram.alloc(max(len(d), 1), d.dtype, name) for name in ("row", "pivot", "via"))
        for k in range(len(d)):
            await core.memcpy(pivot[: len(d)], d[k])
            for i in range(core.task_id, len(d), core.task_dim):
                if i == k:
                    continue
                await core.memcpy(row[: len(d)], d[i])
                core.add(via[: len(d)], pivot[: len(d)], await core.load(row[k]))
                core.minimum(row[: len(d)], row[: len(d)], via[: len(d)])
                await core.memcpy(d[i], row[: len(d)])
            await core.sync_all_ipu()

    distances = np.random.default_rng(1).integers(1, 50, (nodes, nodes)).astype(np.float32)
    np.fill_diagonal(distances, 0)
    shortest = distances.copy()
    for k in range(nodes):
        shortest = np.minimum(shortest, shortest[:, k : k + 1] + shortest[k : k + 1])
    for dma in ("complete", "late"):
        report = verify(
            paths, InOut(distances), reference=shortest, dim=tasks, kind="UNION1" if tasks > 1 else "BLOCK", dma=dma
        )
        assert report.findings == (), report.text()


def test_a_list_of_loads_is_no_helper_function():
    async def kernel(core, factors, x, out):
        tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
        scales = [await core.load(factors[row]) for row in range(x.shape[0])]
        for row in range(x.shape[0] - 1):
            await core.memcpy(tile, x[row])
            core.mul(tile, tile, scales[row])
            await core.memcpy(out[row], tile)

    finding = only(verify(kernel, X[0], X, Output.like(X), **ONE), "never-written")
    line = kernel.__code__.co_firstlineno + 3
    assert finding.sites[0].called_at == ()
    assert finding.remedy.endswith(f"in the loop at test_hints.py:{line}")

"""The text of a finding of each kind, line by line."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import mlusim
from findings import ONE, X, assert_text, only, the_only_error
from kernel_lines import line_of
from mlusim import InOut, Output, VerificationError, verify
from mlusim.verifier.findings import HINTS, KINDS, Finding


def test_a_use_before_the_copy_is_done():
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        core.memcpy_async(held, x)
        core.add(held[2:4], held[2:4], 1.0)
        await core.sync()
        await core.memcpy(out, held)

    report = verify(kernel, X, Output.like(X), **ONE)
    assert_text(
        only(report, "race"),
        """error: race: add reads held before memcpy is known to have written it
  writes HERE  core.memcpy_async(held, x)
         task 0, cluster 0 core 0, io pipe, TIME ns to TIME ns
  reads  HERE  core.add(held[2:4], held[2:4], 1.0)
         task 0, cluster 0 core 0, vector pipe, TIME ns to TIME ns
  bytes  held[2:4, 0:8], 64 B in NRAM
  rule   the IO pipe and the vector pipe run in parallel; only a sync orders them
  remedy `await core.sync_io()`, which waits for the IO pipe, between HERE and HERE
         or wait for the copy at HERE: `await core.memcpy(...)`""",
    )
    assert report.errors == (only(report, "race"),)


def test_a_buffer_reused_while_a_store_reads_it():
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        for _ in range(2):
            core.write_zero(held)
            await core.sync_compute()
            core.memcpy_async(out, held)

    finding = only(verify(kernel, X, Output.like(X), rewrites=True, **ONE), "race")
    assert finding.title == "write_zero writes held while memcpy may still read it"
    assert finding.fields == {
        "sync": "sync_io",
        "buffer": "held",
        "executions": 2,
        "tasks": 1,
        "comparable": 1,
        "first_executions": True,
    }


def test_a_buffer_of_a_closed_scope_that_a_copy_still_reads():
    async def kernel(core, x, out):
        with core.nram.scope():
            first = core.nram.alloc(x.shape, x.dtype, "first")
            await core.memcpy(first, x)
            core.memcpy_async(out, first)
        second = core.nram.alloc((4, 8), x.dtype, "second")
        core.write_zero(second)

    finding = only(verify(kernel, X, Output.like(X), **ONE), "race")
    assert finding.title == "write_zero writes first while memcpy may still read it"
    assert finding.region == "first[0:4, 0:8], 128 B in NRAM; the same bytes are second[0:4, 0:8], 128 B"


def test_equal_races_are_reported_once_and_counted():
    async def kernel(core, x, out):
        held = core.nram.alloc(8, x.dtype, "held")
        for row in range(8):
            core.memcpy_async(held, x[row])
            core.add(held, held, 1.0)
            await core.sync()
            await core.memcpy(out[row], held)

    assert only(verify(kernel, X, Output.like(X), **ONE), "race").times == 8


def test_two_cores_that_write_the_same_bytes():
    async def kernel(core, x, out):
        held = core.nram.alloc(8, x.dtype, "held")
        await core.memcpy(held, x[core.task_id])
        await core.memcpy(out[core.task_id // 2], held)

    report = verify(kernel, X[:2], Output((1, 8), "float32"), kind="BLOCK", dim=2)
    assert_text(
        only(report, "task-race"),
        """error: task-race: task 0 and task 1 write the same bytes of out
  writes HERE  await core.memcpy(out[core.task_id // 2], held)
         task 0, cluster 0 core 0, io pipe, TIME ns to TIME ns
  writes HERE  await core.memcpy(out[core.task_id // 2], held)
         task 1, cluster 1 core 0, io pipe, TIME ns to TIME ns
  bytes  out[0, 0:8], 32 B in GDRAM
  also   written-again: 32 B of out are written twice, first by task 0 and task 1: HERE and HERE
  rule   BLOCK tasks are not ordered, not even those that share a core
  remedy give each task bytes of its own
         or, if both writes are intended, split the kernel into two launches on one queue""",
    )
    # What follows from the race is no finding of its own.
    assert len(report.errors) == 1


def test_jobs_of_a_grid_may_be_launched_as_one_union():
    async def kernel(core, x, out):
        if core.is_memory_core or core.core_id:
            return
        held = core.nram.alloc(8, x.dtype, "held")
        await core.memcpy(held, x[core.cluster_id])
        await core.memcpy(out[core.cluster_id], held)

    out = Output((2, 8), "float32")
    finding = only(verify(kernel, X[:2], out, kind="UNION1", dim=8), "task-race")
    assert finding.rule == "the jobs of a UNION1 grid are not ordered: no barrier spans two jobs"
    assert finding.remedy.endswith("\nor launch both tasks in one job: a union of more clusters")
    assert verify(kernel, X[:2], out, kind="UNION2", dim=8, reference=X[:2]).ok


def test_wrong_values_are_folded_into_the_missing_sync():
    async def kernel(core, x, out):
        held = core.nram.alloc(8, x.dtype, "held")
        core.memcpy_async(held, x[core.task_id])
        core.add(held, held, 1.0)
        await core.memcpy(out[core.task_id], held)

    report = verify(kernel, X[:2], Output((2, 8), "float32"), kind="BLOCK", dim=2, reference=X[:2] + 1)
    assert [finding.kind for finding in report.errors] == ["race"]
    assert [finding.kind for finding in report.errors[0].folded] == ["wrong-value"]
    assert "also   wrong-value: 16 of 16 elements of out are wrong" in report.text()
    assert report.to_json()["findings"][0]["folded"][0]["kind"] == "wrong-value"


def test_a_missing_barrier_in_a_cluster():
    async def kernel(core, x, out):
        box = core.sram.alloc(x.shape, x.dtype, "box")
        if core.is_memory_core:
            await core.memcpy(box, x)
        elif core.core_id == 1:
            held = core.nram.alloc(x.shape, x.dtype, "held")
            await core.memcpy(held, box)
            await core.memcpy(out, held)

    finding = only(verify(kernel, X, Output.like(X), dim=4), "task-race")
    assert finding.title == "task 1 reads box before the memory core of cluster 0 is known to have written it"
    assert re.fullmatch(
        r"`await core.sync_cluster\(\)` in all cores of the cluster and its memory core, after test_findings.py:\d+ "
        r"in the memory cores, before test_findings.py:\d+ in the cores\nor give each task bytes of its own",
        finding.remedy,
    )


def test_interleaved_columns_of_two_tasks_are_not_a_race():
    async def kernel(core, x, out):
        held = core.nram.alloc((8, 4), x.dtype, "held")
        await core.memcpy(held, x[:, core.task_id : 8 : 2])
        await core.memcpy(out[:, core.task_id : 8 : 2], held)

    assert verify(kernel, X, Output.like(X), reference=X, kind="BLOCK", dim=2).ok


def test_bytes_that_no_task_wrote():
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        await core.memcpy(held[:, 0:6], x[:, 0:6])
        await core.memcpy(out, held)

    assert_text(
        only(verify(kernel, X, Output.like(X), **ONE), "uninitialised"),
        """error: uninitialised: memcpy reads held, part of which is uninitialised
  reads  HERE  await core.memcpy(out, held)
         task 0, cluster 0 core 0, io pipe, TIME ns to TIME ns
  bytes  held[0:8, 6:8], 64 B in NRAM
  rule   fresh memory holds its previous contents, not zeros
  remedy write these bytes before HERE (memcpy, fill, write_zero), or read only bytes that were written
         or correct the part of held at HERE, which writes other bytes of it""",
    )


def test_a_buffer_that_is_fresh_again_in_a_later_scope():
    async def kernel(core, x, out):
        for row in range(2):
            with core.nram.scope():
                held = core.nram.alloc(8, x.dtype, "held")
                if row == 0:
                    await core.memcpy(held, x[row])
                await core.memcpy(out[row], held)

    finding = only(verify(kernel, X, Output((2, 8)), **ONE), "uninitialised")
    assert finding.title == "memcpy reads held before anything is written there"


def test_an_output_read_before_it_is_written():
    async def kernel(core, out):
        held = core.nram.alloc(out.shape, out.dtype, "held")
        await core.memcpy(held, out)
        await core.memcpy(out, held)

    finding = only(verify(kernel, Output((8, 8)), **ONE), "uninitialised")
    assert finding.title == "memcpy reads out before anything is written there"
    assert finding.region == "out[0:8, 0:8], 256 B in GDRAM"
    assert finding.remedy.endswith(
        "\nor, if out has values before the run, pass them: an array, or InOut(array) if it is written, too; on the "
        "command line --arg out=FILE.npy, inout:FILE.npy or random:DTYPE:SHAPE"
    )


def test_an_unwritten_tile_and_a_doubly_written_one_are_named():
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        await core.memcpy(held, x)
        await core.memcpy(out[0:7], held[0:7])
        await core.memcpy(out[3:5], held[3:5])

    report = verify(kernel, X, Output.like(X), reference=X, **ONE)
    assert_text(
        only(report, "never-written"),
        """error: never-written: 32 B of out are never written
  nearby HERE  await core.memcpy(out[0:7], held[0:7])
         task 0, cluster 0 core 0, io pipe, TIME ns to TIME ns
  bytes  out[7, 0:8], 32 B
  also   wrong-value: 8 of 64 elements of out are wrong; the first, out[7, 0], is nan and should be 56.0
  rule   every byte of an output must be written exactly once; these keep the previous contents of memory
  remedy look for a size that is too small at HERE: a gap follows what it writes
         or look for a bound that is too small, or a tile that is skipped""",
    )
    again = only(report, "written-again")
    assert again.title == "64 B of out are written twice, first by task 0 both times"
    assert again.region == "out[3:5, 0:8], 64 B"
    (wrong,) = only(report, "never-written").folded
    assert wrong.remedy.startswith("write this element, too: no operation does; others of out are written at ")
    assert "output   out float32 [8, 8]: 32 B never written, 64 B written more than once" in report.text()


def test_intended_rewrites_are_declared():
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        await core.memcpy(held, x)
        await core.memcpy(out, held)
        await core.memcpy(out[3:5], held[3:5])

    assert not verify(kernel, X, Output.like(X), **ONE).ok
    assert verify(kernel, X, Output.like(X), rewrites=("out",), **ONE).ok


def test_a_wrong_row_that_exists_names_its_store():
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        await core.memcpy(held[1:8], x[0:7])
        await core.memcpy(held[0:1], x[7:8])
        await core.memcpy(out[0:4], held[0:4])
        await core.memcpy(out[4:8], held[4:8])

    finding = only(verify(kernel, X, Output.like(X), reference=lambda x: x, **ONE), "wrong-value")
    assert finding.title == "64 of 64 elements of out are wrong; the first, out[0, 0], is 56.0 and should be 0.0"
    assert finding.sites[0].source == "await core.memcpy(out[0:4], held[0:4])"


def test_every_kind_has_a_title_and_every_text_its_parts():
    assert set(KINDS) >= HINTS
    finding = Finding(kind="race", title="t", region="w", rule="r", remedies=("m",), times=3)
    assert finding.text() == ("error: race: t\n  bytes  w\n  times  3; the first is shown\n  rule   r\n  remedy m")
    coloured = finding.text(colour=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == finding.text()
    assert coloured.startswith("\x1b[1m\x1b[31merror: race:\x1b[0m")


def test_the_report_raises_and_is_json():
    async def kernel(core, x, out):
        core.scalar()

    report = verify(kernel, X, Output.like(X), reference=X, **ONE)
    with pytest.raises(
        VerificationError, match=r"^kernel on mlu370-x4: 1 error, 1 hint \(1 operation of 1 task\)"
    ) as caught:
        report.check()
    assert caught.value.report is report
    data = json.loads(json.dumps(report.to_json()))
    assert data["ok"] is False
    assert [finding["kind"] for finding in data["findings"]] == ["never-written", "unused"]
    assert data["tensors"][1]["unwritten_bytes"] == 256
    assert repr(report) == "<report of kernel on mlu370-x4: 1 error, 1 hint (1 operation of 1 task)>"
    assert "\x1b[" in report.text(colour=True)
    assert "\x1b[" not in report.text()


ACCUMULATOR = np.zeros(8, np.float32)


async def _accumulate(core, x, total, order):
    """Add row task_id of x to `total`; `order`: the lock number of a task, or "load outside"."""
    if core.is_memory_core:
        return
    row, held = core.nram.alloc((2, 8), x.dtype, "rows")
    await core.memcpy(row, x[core.task_id])
    if order == "load outside":
        await core.memcpy(held, total)
    await core.lock(core.core_id if order == "own lock" else 0)
    if order != "load outside":
        await core.memcpy(held, total)
    core.add(held, held, row)
    await core.memcpy(total, held)
    await core.unlock(core.core_id if order == "own lock" else 0)


@pytest.mark.parametrize("order", ["own lock", "load outside"])
def test_a_kernel_with_locks_is_told_to_hold_the_same_lock(order):
    finding = only(verify(_accumulate, X, InOut(ACCUMULATOR), order, dim=4, rewrites=True), "task-race")
    load = finding.sites[0].location
    begin = _accumulate.__code__.co_firstlineno
    lock = {
        "own lock": f"hold the same lock at test_findings.py:{begin + 8} in every task: "
        f"{finding.sites[0].task} holds {finding.sites[0].core[-1]}, and "
        f"{finding.sites[1].task} holds {finding.sites[1].core[-1]}\n",
        "load outside": f"move the lock at test_findings.py:{begin + 8} before {load}\n",
    }
    assert finding.remedy == (
        f"{lock[order]}"
        "or, if it is a sum, a maximum or the like, update it with an atomic, such as `core.atomic_reduce_add`\n"
        "or give each task bytes of its own"
    )
    verify(_accumulate, X, InOut(ACCUMULATOR), "", dim=4, rewrites=True).check()


def test_a_flag_that_is_polled_needs_atomics():
    async def kernel(core, flag, out):
        if core.is_memory_core or core.core_id > 1:
            return
        if core.core_id == 0:
            core.store(flag[0], 1)
        else:
            while not await core.load(flag[0]):
                core.scalar(100)

    finding = only(verify(kernel, InOut(np.zeros(1, np.int32)), Output(1), dim=4), "task-race")
    assert finding.remedy.endswith("\nor, if one task polls a flag, read and write it with atomics")


def test_an_atomic_does_not_wait_for_a_posted_store():
    async def kernel(core, flag, out):
        if core.is_memory_core or core.core_id > 1:
            return
        old = core.nram.alloc(1, "int32", "old")
        if core.core_id == 0:
            core.store(out[0], 1)
            await core.atomic_reduce_add(flag, 1)
            return
        while True:
            await core.atomic_add(old, flag, 0)
            if await core.load(old[0]):
                break
        core.store(out[1], await core.load(out[0]) + 1)

    finding = only(verify(kernel, InOut(np.zeros(1, np.int32)), Output(2, "int32"), dim=4), "task-race")
    assert finding.remedy.startswith("`await core.sync()` between test_findings.py:")


def test_a_race_between_launches_names_them():
    async def copy(core, x, out):
        if core.is_memory_core or core.task_id:
            return
        held = core.nram.alloc(8, x.dtype)
        await core.memcpy(held, x)
        await core.memcpy(out, held)

    device = mlusim.Device()
    x, y, z = device.upload(X[0]), device.alloc(8, X.dtype, "y"), device.alloc(8, X.dtype, "z")
    device.launch(copy, x, y)
    device.launch(copy, y, z, queue=device.queue())
    device.synchronize()
    finding = only(device.verify(), "task-race")
    assert "task 0 of launch 0 (copy)" in finding.title
    assert "task 0 of launch 1 (copy)" in finding.title


def test_a_gap_in_strided_rows_names_the_copy_that_stops_short_of_it():
    """The copy of the other rows ends nearer to the gap."""

    async def kernel(core, x, out, less=1):
        tile = core.nram.alloc((8, 8), x.dtype, "tile")
        await core.memcpy(tile, x)
        await core.memcpy(out[0::2, : 8 - less], tile[0::2, : 8 - less])
        await core.memcpy(out[1::2], tile[1::2])

    finding = the_only_error(kernel, X, Output((8, 8)), **ONE)
    assert finding.kind == "never-written"
    assert finding.sites[0].line == line_of(kernel, "await core.memcpy(out[0::2, : 8 - less], tile[0::2, : 8 - less])")
    assert verify(kernel, X, Output((8, 8)), 0, **ONE, reference=X).ok

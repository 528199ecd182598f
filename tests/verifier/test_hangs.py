"""Runs that do not end, or end in an error, and the findings before that."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import mlusim
from findings import ONE, X, assert_text, only, the_only_error
from kernel_lines import line_of
from mlusim import InOut, Output, verify


def test_a_deadlock_names_waiting_and_returned_tasks():
    async def kernel(core, x):
        if core.is_memory_core or core.core_id == 3:
            return
        await core.sync_cluster()

    assert_text(
        only(verify(kernel, X, dim=4), "hang"),
        """error: hang: deadlock: 3 tasks wait in sync_cluster, which not all of its participants reach
  waits  HERE  await core.sync_cluster()
         task 0, cluster 0 core 0, from TIME ns, not completed
  at     HERE tasks 0 to 2; returned: memory core of cluster 0 and task 3
  rule   sync_cluster waits for every core of the cluster and its memory core, returned or not
  remedy make all of them reach the same barriers, and none return before the last""",
    )


def test_a_hang_at_two_barriers():
    async def kernel(core, x):
        if core.core_id == 0:
            await core.sync_cluster()
        else:
            await core.sync_all()

    finding = only(verify(kernel, X, dim=4), "hang")
    assert finding.title == (
        "mismatched barriers: memory core of cluster 0 and tasks 1 to 3 wait in sync_all; task 0 waits in sync_cluster"
    )
    assert finding.location.endswith("none has returned")
    assert len(finding.sites) == 2


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("sync_all", "sync_all waits for every core and memory core of the union, returned or not"),
        (
            "sync_all_ipu_within_cluster",
            "sync_all_ipu_within_cluster waits for every core of the cluster, returned or not",
        ),
    ],
)
def test_the_rule_of_a_deadlock_names_the_participants_of_its_barrier(name, rule):
    async def kernel(core, x):
        if core.core_id == 0:
            await getattr(core, name)()

    assert only(verify(kernel, X, dim=4), "hang").rule == rule


def test_a_deadlock_at_a_lock_names_its_holder():
    async def kernel(core, x):
        if core.is_memory_core:
            return
        await core.lock(3)
        if core.core_id != 1:
            await core.unlock(3)

    assert_text(
        only(verify(kernel, X, dim=4), "hang"),
        """error: hang: deadlock: 2 tasks wait for lock 3, which task 1 acquired and did not release
  waits  HERE  await core.lock(3)
         task 2, cluster 0 core 2, from TIME ns, not completed
  locks  HERE  await core.lock(3)
         task 1, cluster 0 core 1, TIME ns to TIME ns
  at     HERE tasks 2, 3; returned: memory core of cluster 0 and tasks 0, 1
  rule   a lock is held until its task releases it, even if that task has ended
  remedy release the lock on every path of the task that acquires it""",
    )


def test_tasks_that_lock_in_opposite_orders():
    async def kernel(core, x):
        if core.is_memory_core or core.core_id > 1:
            return
        await core.lock(core.core_id)
        core.scalar(1000)
        await core.lock(1 - core.core_id)

    finding = only(verify(kernel, X, dim=4), "hang")
    assert finding.title == (
        "deadlock: task 0 waits for lock 1, which task 1 acquired and does not release; "
        "task 1 waits for lock 0, which task 0 acquired and does not release"
    )
    assert finding.remedy.startswith("acquire locks in the same order in every task")


def test_a_barrier_inside_a_lock():
    async def kernel(core, x):
        if core.is_memory_core:
            return
        await core.lock(0)
        await core.sync_all_ipu()

    finding = only(verify(kernel, X, dim=4), "hang")
    assert finding.title.startswith(
        "deadlock: task 0 waits in sync_all_ipu; tasks 1 to 3 wait for lock 0, which task 0"
    )
    assert finding.fields["barriers"] == ["sync_all_ipu", "lock 0"]


def test_an_endless_loop_without_operations_is_stopped():
    async def kernel(core, x):
        while True:
            pass

    finding = only(verify(kernel, X, stall_s=0.3, **ONE), "endless")
    assert finding.title.startswith("no operation issued for 0.3 s: a loop that neither issues nor awaits anything?")


def test_a_task_that_never_ends_is_stopped():
    async def kernel(core, x):
        while True:
            core.scalar()

    assert_text(
        only(verify(kernel, X, max_operations=1000, **ONE), "endless"),
        """error: endless: 1 000 operations issued without an end: an endless loop? If the kernel needs more, raise """
        """max_operations
  at     task 0 (cluster 0, core 0), HERE, at TIME ns: core.scalar()
  rule   every task must end
  remedy check that what ends the loop at HERE changes: an index, a counter, a flag, """
        """an atomic that another task updates""",
    )


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("access", r"slice \[0:9\] is outside axis 0 of <view of x .*"),
        ("access", r"index -1 is outside axis 0 of <view of x .* does not count from the end"),
        ("access", r"x is an input, and inputs are never written; .*"),
        ("allocation", r"held in the NRAM of .* was freed; .*"),
        ("allocation", r"nram.alloc of 1 000 000 B .* does not fit: .*"),
        ("copy", r"__memcpy has no direction gdram to ldram.*|memcpy of \[8, 8\] elements .*"),
        ("operand", r"add of <view of x .*: vector operands must be in this core's NRAM; write to a buffer there, .*"),
        ("await", r"`core.sync\(...\)` was not awaited.*"),
        ("stopped", r"the kernel raised ZeroDivisionError: .*"),
    ],
)
def test_an_error_of_the_run_is_a_finding(kind, title):
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        if kind == "access" and "slice" in title:
            await core.memcpy(held, x[0:9])
        elif kind == "access" and "-1" in title:
            await core.memcpy(held[0], x[-1])
        elif kind == "access":
            await core.memcpy(x, held)
        elif kind == "allocation" and "freed" in title:
            with core.nram.scope():
                held = core.nram.alloc(x.shape, x.dtype, "held")
            await core.memcpy(held, x)
        elif kind == "allocation":
            core.nram.alloc(1_000_000, "uint8")
        elif kind == "copy":
            await core.memcpy(held[0:4], x)
        elif kind == "operand":
            core.add(x, x, 1.0)
        elif kind == "await":
            core.sync()
            core.sync()
        else:
            core.scalar(1 // (x.shape[0] - 8))

    report = verify(kernel, X, Output.like(X), **ONE)
    finding = report.errors[0]
    assert finding.kind == kind
    assert re.fullmatch(title, finding.title), finding.title
    place = re.search(r"test_hangs\.py:(\d+)", finding.location)
    assert place
    said = finding.to_json()
    assert (Path(said["file"]).name, said["line"]) == ("test_hangs.py", int(place[1]))
    assert "split proof, of what ran until it stopped" in report.text() or kind == "await"
    assert not any(found.kind == "never-written" for found in report.findings)


def test_races_before_an_error_are_reported():
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        core.memcpy_async(held, x)
        core.add(held, held, 1.0)
        await core.sync()
        await core.memcpy(out, x[0:9])

    assert [finding.kind for finding in verify(kernel, X, Output.like(X), **ONE).errors] == ["access", "race"]


def test_a_barrier_that_some_tasks_skip_is_one_finding():
    async def kernel(core, x, out):
        box = core.sram.alloc(x.shape, x.dtype, "box")
        if core.is_memory_core:
            await core.memcpy(box, x)
            await core.sync_cluster()
            return
        held = core.nram.alloc(x.shape, x.dtype, "held")
        await core.memcpy(held, box)
        if core.core_id == 0:
            await core.memcpy(out, held)

    (finding,) = verify(kernel, X, Output.like(X), dim=4).errors
    assert finding.kind == "hang"
    assert [one.kind for one in finding.folded] == ["task-race"]
    assert "also   task-race: task 0 reads box before" in finding.text()


def test_a_lock_still_held_at_the_end_is_found():
    async def kernel(core, x, out):
        if core.is_memory_core or core.core_id:
            return
        held = core.nram.alloc(x.shape, x.dtype, "held")
        await core.lock(5)
        await core.memcpy(held, x)
        await core.memcpy(out, held)

    (finding,) = verify(kernel, X, Output.like(X), dim=4).errors
    assert finding.kind == "hang"
    assert finding.title == "task 0 ends without releasing lock 5"
    assert finding.rule == "a lock is held until its task releases it; the next task that acquires it waits forever"
    assert finding.sites[0].role == "locks"
    assert finding.remedy.startswith("`await core.unlock(5)` on every path after test_hangs.py:")


def test_an_error_that_every_task_swallows_is_one_finding():
    async def careless(core, x, out):
        try:
            tile = core.nram.alloc(10**8, x.dtype, "tile")
        except mlusim.MlusimError:
            tile = core.nram.alloc(8, x.dtype, "tile")
        await core.memcpy(tile, x[core.task_id])
        await core.memcpy(out[core.task_id], tile)

    finding = the_only_error(careless, X, Output.like(X), kind="BLOCK", dim=8)
    assert finding.kind == "swallowed"
    assert finding.times == 8


def test_a_barrier_of_a_union_that_one_task_skips_is_one_finding():
    async def neighbours(core, x, out):
        if core.is_memory_core:
            return
        held = core.nram.alloc(8, x.dtype, "held")
        await core.memcpy(held, x[core.task_id])
        await core.memcpy(out[core.task_id], held)
        if core.task_id != 5:
            await core.sync_all_ipu()
        await core.memcpy(held, out[core.task_id ^ 1])

    finding = the_only_error(neighbours, X, Output.like(X), dim=8, kind="UNION2")
    assert (finding.kind, finding.fields["clusters"]) == ("hang", [0, 1])
    assert [one.kind for one in finding.folded] == ["task-race"]


def test_a_barrier_that_the_cores_leave_out_belongs_before_what_they_read():
    async def kernel(core, x, out, waits=False):
        box = core.sram.alloc((4, 8), x.dtype, "box")
        if core.is_memory_core:
            await core.memcpy(box, x[:4])
            await core.sync_cluster()
            return
        tile = core.nram.alloc(8, x.dtype, "tile")
        if waits:
            await core.sync_cluster()
        await core.memcpy(tile, box[core.core_id])
        await core.memcpy(out[core.core_id], tile)

    (finding,) = verify(kernel, X, Output((4, 8)), dim=4).errors
    line = line_of(kernel, "await core.memcpy(tile, box[core.core_id])")
    assert finding.kind == "hang"
    assert finding.remedy.startswith(f"`await core.sync_cluster()` in the cores, once before test_hangs.py:{line}\n")
    assert verify(kernel, X, Output((4, 8)), True, dim=4, reference=X[:4]).ok


def test_a_barrier_that_the_cores_leave_out_in_a_loop_belongs_in_the_loop_of_what_races():
    async def kernel(core, x, out, waits=False):
        """The cores add pairs of rows through SRAM, in turns."""
        box = core.sram.alloc((4, 8), x.dtype, "box")
        if core.is_memory_core:
            for _ in range(4):
                await core.sync_cluster()
            return
        tile, other = (core.nram.alloc(8, x.dtype, name) for name in ("tile", "other"))
        for turn in range(2):
            await core.memcpy(tile, x[4 * turn + core.core_id])
            await core.memcpy(box[core.core_id], tile)
            if waits:
                await core.sync_cluster()
            if core.core_id < 2:
                await core.memcpy(other, box[core.core_id + 2])
                core.add(tile, tile, other)
                await core.memcpy(out[2 * turn + core.core_id], tile)
            await core.sync_cluster()

    expected = X.reshape(2, 2, 2, 8).sum(1).reshape(4, 8)
    (finding,) = verify(kernel, X, Output((4, 8)), dim=4).errors
    line = line_of(kernel, "if core.core_id < 2:")
    assert finding.kind == "hang"
    assert finding.remedy.startswith(f"`await core.sync_cluster()` in the cores, before test_hangs.py:{line}\n")
    assert verify(kernel, X, Output((4, 8)), True, dim=4, reference=expected).ok


def test_a_barrier_that_the_cores_leave_out_before_a_loop_with_one_belongs_before_it():
    async def kernel(core, x, out, waits=False):
        """The cores add four rows in a tree."""
        box = core.sram.alloc((4, 8), x.dtype, "box")
        if core.is_memory_core:
            for _ in range(3):
                await core.sync_cluster()
            return
        tile, other = (core.nram.alloc(8, x.dtype, name) for name in ("tile", "other"))
        await core.memcpy(tile, x[core.core_id])
        await core.memcpy(box[core.core_id], tile)
        if waits:
            await core.sync_cluster()
        for step in (2, 1):
            if core.core_id < step:
                await core.memcpy(other, box[core.core_id + step])
                core.add(tile, tile, other)
                await core.memcpy(box[core.core_id], tile)
            await core.sync_cluster()
        if core.core_id == 0:
            await core.memcpy(out, tile)

    (finding,) = verify(kernel, X, Output((8,)), dim=4).errors
    line = line_of(kernel, "for step in (2, 1):")
    assert finding.kind == "hang"
    assert finding.remedy.startswith(
        f"`await core.sync_cluster()` in the cores, once before the loop at test_hangs.py:{line}\n"
    )
    assert verify(kernel, X, Output((8,)), True, dim=4, reference=X[:4].sum(0)).ok


async def add_under_locks(core, rows, x, total, fault=""):
    """total[rows[i]] += x[i], each row under a lock of its own."""
    if core.is_memory_core:
        return
    held, sums = (core.nram.alloc(8, x.dtype, name) for name in ("held", "sums"))
    for item in range(core.task_id, x.shape[0], core.task_dim):
        row = int(await core.load(rows[item]))
        await core.memcpy(held, x[item])
        if fault != "no lock":
            await core.lock(core.task_id if fault == "another lock" else row)
        await core.memcpy(sums, total[row])
        core.add(sums, sums, held)
        await core.memcpy(total[row], sums)
        if fault != "no unlock":
            await core.unlock(row)


@pytest.mark.parametrize(
    ("fault", "kind", "remedy"),
    [
        ("no lock", "operand", "`await core.lock(row)` in every task, before test_hangs.py:"),
        ("another lock", "operand", "acquire and release the same lock: test_hangs.py:{lock} acquires lock 0"),
        ("no unlock", "hang", "release the lock on every path of the task that acquires it"),
    ],
)
def test_faults_of_locks_by_row_are_told_apart(fault, kind, remedy):
    rows, total = np.array([2, 2, 1, 0, 1, 2, 0, 1], np.int32), np.zeros((3, 8), np.float32)
    expected = total.copy()
    np.add.at(expected, rows, X)
    finding = the_only_error(add_under_locks, rows, X, InOut(total), fault, dim=4)
    line = line_of(add_under_locks, 'await core.lock(core.task_id if fault == "another lock" else row)')
    assert finding.kind == kind
    assert finding.remedy.startswith(remedy.format(lock=line))
    assert verify(add_under_locks, rows, X, InOut(total), reference=expected, dim=4).ok

"""One mistake of tasks that communicate, or share out their work, is one finding."""

from __future__ import annotations

import re

import numpy as np
import pytest

from findings import X, kinds_of, the_only_error
from kernel_lines import at
from mlusim import InOut, Output, Plan, Tiles, verify


async def wavefront(core, x, out, flag, mistake=""):
    """Each row is added to the one before it, which another task has made."""
    if core.is_memory_core:
        return
    tile, above = (core.nram.alloc(8, x.dtype, name) for name in ("tile", "above"))
    old = core.nram.alloc(1, "int32", "old")
    for row in range(core.task_id, 8, core.task_dim):
        await core.memcpy(tile, x[row])
        while row:
            if mistake != "no poll":
                await core.atomic_or(old, flag[row - 1 : row], 0)
            if await core.load(old[0]):
                await core.memcpy(above, out[row - 1])
                core.add(tile, tile, above)
                break
        await core.memcpy(out[row], tile)
        await core.atomic_reduce_or(flag[row : row + (2 if mistake == "two flags" else 1)], 1)


@pytest.mark.parametrize(("mistake", "kind"), [("", ""), ("no poll", "uninitialised"), ("two flags", "access")])
@pytest.mark.grid(2)
def test_tasks_out_of_step_race_for_the_same_reason(mistake, kind):
    arguments = X, Output.like(X), InOut(np.zeros(8, np.int32)), mistake
    report = verify(wavefront, *arguments, dim=4, reference={"out": np.cumsum(X, 0, np.float32)})
    if not mistake:
        assert report.ok, report.text()
        return
    (finding,) = report.errors
    assert finding.kind == kind
    assert "task-race" in kinds_of(finding)


def test_flags_that_nothing_clears_are_the_fault_and_not_what_they_let_through():
    flags = Output(9, np.int32)
    finding = the_only_error(wavefront, X, Output.like(X), flags, dim=4, reference={"out": np.cumsum(X, 0, np.float32)})
    assert finding.kind == "uninitialised"
    assert {"task-race", "never-written"} <= set(kinds_of(finding))
    assert finding.remedy.startswith('clear flag before the launch: pass `InOut(np.zeros(9, "int32"))`')
    assert "`await core.gdramset(flag, 0)`" in finding.remedy


def test_a_lock_that_is_only_released_is_one_finding():
    async def kernel(core, x, total, locks):
        if core.is_memory_core:
            return
        tile, held = (core.nram.alloc(8, x.dtype, name) for name in ("tile", "held"))
        await core.memcpy(tile, x[core.task_id])
        if locks:
            await core.lock(0)
        await core.memcpy(held, total)
        core.add(held, held, tile)
        await core.memcpy(total, held)
        await core.unlock(0)

    total = InOut(np.zeros(8, np.float32))
    assert verify(kernel, X, total, 1, dim=4, reference={"total": X[:4].sum(0)}).ok
    finding = the_only_error(kernel, X, total, 0, dim=4)
    assert finding.kind == "operand"
    assert re.match(r"`await core.lock\(0\)` in every task, before test_one_finding_of_tasks.py:\d+\n", finding.remedy)


def test_a_wrong_number_of_the_task_is_one_finding_in_all_outputs():
    async def kernel(core, x, once, twice):
        if core.is_memory_core:
            return
        tile = core.nram.alloc(8, x.dtype, "tile")
        await core.memcpy(tile, x[core.core_id])
        await core.memcpy(once[core.core_id], tile)
        core.add(tile, tile, tile)
        await core.memcpy(twice[core.core_id], tile)

    finding = the_only_error(kernel, X, Output.like(X), Output.like(X), dim=8, kind="UNION2")
    first = kernel.__code__.co_firstlineno
    lines = " and ".join(f"test_one_finding_of_tasks.py:{first + line}" for line in (5, 7))
    assert finding.remedy.startswith(f"correct the number that gives each task its part at {lines}: task ")


def test_tiles_of_other_tasks_are_one_finding_with_the_race_that_they_cause():
    async def kernel(core, x, out, plan, later):
        tile = core.nram.alloc(8, x.dtype, "tile")
        for part in plan.tiles_of(min(core.task_id + later, 3)):
            await core.memcpy(tile, x[part.start[0]])
            await core.memcpy(out[part.start[0]], tile)

    rows = np.arange(4)[:, None] * [1, 0]
    plan = Plan.from_tiles(Tiles(range(4), rows, np.add(rows, [1, 8]), 32), (4, 8), "float32", dim=4, kind="BLOCK")
    arguments = X[:4], Output.like(X[:4]), plan
    assert verify(kernel, *arguments, 0, plan=plan).ok
    finding = the_only_error(kernel, *arguments, 1, plan=plan)
    assert finding.kind == "task-race"
    assert {"not-planned", "never-written"} <= {*kinds_of(finding)}


def test_a_kernel_that_returns_at_once_is_one_finding():
    async def kernel(core, x, one, other):
        if core.task_dim:
            return
        await core.memcpy(one, x)
        await core.memcpy(other, x)

    finding = the_only_error(kernel, X, Output.like(X), Output.like(X), dim=1, kind="BLOCK")
    assert finding.kind == "never-written"
    assert finding.remedy == "look for the condition under which the kernel returns: no task does anything"


def test_tasks_that_all_write_two_outputs_are_told_to_let_one_do_it():
    async def kernel(core, x, mean, total):
        if core.is_memory_core:
            return
        tile, sums = core.nram.alloc((8, 8), x.dtype, "tile"), core.nram.alloc(8, x.dtype, "sums")
        await core.memcpy(tile, x)
        core.sum_rows(sums, tile)
        await core.memcpy(total, sums)
        core.mul(sums, sums, 0.125)
        await core.memcpy(mean, sums)

    finding = the_only_error(kernel, X, Output(8), Output(8), dim=4)
    line = at(kernel, "await core.memcpy(total, sums)")
    assert finding.remedies[0].startswith(f"let one task alone write them, at {line}: `if core.task_id == 0:`")


def test_a_count_without_an_atomic_that_tells_which_task_is_last_is_one_finding():
    async def kernel(core, x, parts, count, out):
        """The tasks come one after the other, so the last one finds the right number."""
        if core.is_memory_core:
            return
        row = core.nram.alloc(x.shape[1], x.dtype, "row")
        core.scalar(count=10_000 * core.task_id)
        await core.memcpy(row, x[core.task_id])
        await core.memcpy(parts[core.task_id], row)
        before = await core.load(count[0])
        core.store(count[0], before + 1)
        if before == core.task_dim - 1:
            await core.memcpy(row, parts[0])
            await core.memcpy(out, row)

    outputs = Output((4, 8)), InOut(np.zeros(1, np.int32)), Output(8)
    finding = the_only_error(kernel, X[:4], *outputs, dim=4)
    assert finding.remedy.startswith("update count at test_one_finding_of_tasks.py:")
    assert "by `core.atomic_add`: it returns the old value" in finding.remedies[0]

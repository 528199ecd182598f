"""Equal tasks: following one of them gives the findings of following all."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from mlusim.verifier.uninitialised import read_findings
from mlusim.verifier.uninitialised.equal_tasks import reads_to_follow
from mlusim.verifier.uninitialised.operand_marks import OperandMarks

TASKS, WIDTH, VALID, ROWS = 4, 8, 5, 6
UNION = {"kind": "UNION1", "dim": TASKS}
BLOCK = {"kind": "BLOCK", "dim": TASKS}


async def rounded_up(core, x, out, counts, stored=(VALID,) * TASKS):
    """VALID elements, computed as WIDTH."""
    a, b = (core.nram.alloc(WIDTH, x.dtype, name) for name in "ab")
    await core.memcpy(a[:VALID], x[core.task_id, :VALID])
    core.mul(b, a, 2.0)
    count = stored[core.task_id]
    await core.memcpy(out[core.task_id, :count], b[:count])


async def larger_last_load(core, x, out, counts):
    a, b = (core.nram.alloc(WIDTH, x.dtype, name) for name in "ab")
    count = WIDTH if core.task_id == TASKS - 1 else VALID
    await core.memcpy(a[:count], x[core.task_id, :count])
    core.add(b, a, a)
    await core.memcpy(out[core.task_id, :VALID], b[:VALID])


async def four_operands(core, x, out, counts, stored):
    """The fourth operand is another buffer in some tasks, which then store what they have not loaded."""
    a, b, c = (core.nram.alloc(WIDTH, x.dtype, name) for name in "abc")
    await core.memcpy(a[:VALID], x[core.task_id, :VALID])
    core.fusion(b, a, a, c if core.task_id in stored else a, "FMA")
    await core.memcpy(out[core.task_id, :VALID], b[:VALID])


async def two_buffers(core, x, out, counts, stored):
    """Of two results one is computed from a row that is loaded in part; some tasks store that one."""
    a, b, whole, c = (core.nram.alloc(WIDTH, x.dtype, name) for name in ("a", "b", "whole", "c"))
    await core.memcpy(a[:VALID], x[core.task_id, :VALID])
    await core.memcpy(whole, x[core.task_id])
    core.mul(b, a, 2.0)
    core.mul(c, a, 2.0)
    core.mul(c, whole, 2.0)
    await core.memcpy(out[core.task_id, :VALID], b[:VALID])
    await core.memcpy(out[core.task_id], b if core.task_id in stored else c)


async def two_rows(core, x, out, counts, stored):
    """The same with two rows of a buffer."""
    rows, results = (core.nram.alloc((2, WIDTH), x.dtype, name) for name in ("rows", "results"))
    await core.memcpy(rows[0, :VALID], x[core.task_id, :VALID])
    await core.memcpy(rows[1], x[core.task_id])
    for row in range(2):
        core.mul(results[row], rows[row], 2.0)
    await core.memcpy(out[core.task_id], results[0 if core.task_id in stored else 1])


async def collected_by_one(core, x, out, counts, stored):
    """Tasks 1 to 3 do the same and pass all elements on, and task 0 stores those of one."""
    shared = core.sram.alloc((TASKS, WIDTH), x.dtype, "shared")
    if core.is_memory_core:
        await core.sync_cluster()
        return
    a, b = (core.nram.alloc(WIDTH, x.dtype, name) for name in "ab")
    if core.task_id:
        await core.memcpy(a[:VALID], x[core.task_id, :VALID])
        core.mul(b, a, 2.0)
        await core.memcpy(shared[core.task_id], b)
    await core.sync_cluster()
    if not core.task_id:
        await core.memcpy(a, shared[stored])
        await core.memcpy(out[0], a)


async def through_sram(core, x, out, counts, stored):
    """Task 0 passes uninitialised elements on to tasks that do the same."""
    if core.is_memory_core:
        await core.sync_cluster()
        return
    shared = core.sram.alloc(WIDTH, x.dtype, "shared")
    a, b = (core.nram.alloc(WIDTH, x.dtype, name) for name in "ab")
    await core.memcpy(a[:VALID], x[core.task_id, :VALID])
    core.add(b, a, a)
    if core.task_id == 0:
        await core.memcpy(shared, b)
    await core.sync_cluster()
    await core.memcpy(a, shared)
    core.add(b, a, b)
    await core.memcpy(out[core.task_id, :stored], b[:stored])


async def chosen_by_data(core, x, out, counts):
    """A filter moves other elements in each task."""
    a, mask, found = (core.nram.alloc(WIDTH, x.dtype, name) for name in ("a", "mask", "found"))
    await core.memcpy(a[:VALID], x[core.task_id, :VALID])
    core.write_zero(mask)
    core.fill(mask[core.task_id : core.task_id + 3], 1)
    await core.filter(found, a, mask)
    await core.memcpy(out[core.task_id, :2], found[:2])


KERNELS = {
    "harmless": (rounded_up, (), BLOCK, True),
    "all store too much": (rounded_up, ((WIDTH,) * TASKS,), BLOCK, False),
    "one stores too much": (rounded_up, ((VALID, WIDTH, VALID, VALID),), BLOCK, True),
    "the last differs": (larger_last_load, (), BLOCK, True),
    "four operands, harmless": (four_operands, ((),), BLOCK, True),
    "four operands, stored by all": (four_operands, (range(TASKS),), BLOCK, False),
    "four operands, stored by one": (four_operands, ((1,),), BLOCK, True),
    "two buffers, harmless": (two_buffers, ((),), BLOCK, True),
    "two buffers, stored by one": (two_buffers, ((2,),), BLOCK, True),
    "two rows, harmless": (two_rows, ((),), BLOCK, True),
    "two rows, stored by one": (two_rows, ((2,),), BLOCK, True),
    "collected by one": (collected_by_one, (3,), UNION, False),
    "through SRAM, harmless": (through_sram, (VALID,), UNION, False),
    "through SRAM, stored": (through_sram, (WIDTH,), UNION, False),
    "chosen by data": (chosen_by_data, (), BLOCK, False),
}


def device_of(kernel, arguments, grid):
    device = mlusim.Device("mlu370-x4")
    x = device.upload(np.ones((ROWS, WIDTH), np.float32), "x")
    counts = device.alloc((TASKS, WIDTH), np.float32, "counts", workspace=True)
    device.launch(kernel, x, device.alloc((TASKS, WIDTH), np.float32, "out"), counts, *arguments, **grid)
    device.synchronize()
    return device


def findings_of(device, **options):
    return [finding.to_json() for finding in device.verify(**options).findings]


def follow_all(monkeypatch):
    """Follow all tasks, and keep all marks by byte."""
    monkeypatch.setattr(read_findings, "reads_to_follow", lambda *arguments: list(range(len(arguments[-1]))))
    monkeypatch.setattr(OperandMarks, "add", lambda marks, alloc: False)


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_found_does_not_depend_on_how_many_are_followed(monkeypatch, name):
    kernel, arguments, grid, fewer = KERNELS[name]
    device = device_of(kernel, arguments, grid)
    counts = []

    def spy(*run):
        followed = reads_to_follow(*run)
        counts.append((len(followed), len(run[-1])))
        return followed

    monkeypatch.setattr(read_findings, "reads_to_follow", spy)
    found = findings_of(device)
    ((followed, uninitialised_reads),) = counts
    assert (followed < uninitialised_reads) == fewer
    follow_all(monkeypatch)
    assert findings_of(device) == found


def random_operations(rng):
    """Operations on two buffers, of a part of their elements, by one task or by all (-1)."""
    names = ("load", "add", "add", "mul", "copy", "maximum", "store", "old")
    parts = (slice(0, VALID), slice(0, VALID), slice(0, WIDTH), slice(2, 4))
    operations = [("load", number, 0, parts[0], -1) for number in range(3)]
    for _ in range(rng.integers(2, 9)):
        name = names[rng.integers(len(names))]
        part = parts[0] if name == "store" and rng.random() < 0.9 else parts[rng.integers(len(parts))]
        who = int(rng.integers(TASKS)) if rng.random() < 0.1 else -1
        operations.append((name, *rng.integers(3, size=2).tolist(), part, who))
    return operations


async def interpret(core, x, out, counts, operations):
    buffers = [core.nram.alloc(WIDTH, x.dtype, f"buffer {number}") for number in range(3)]
    for name, one, other, part, who in operations:
        if who not in {core.task_id, -1}:
            continue
        a, b = buffers[one], buffers[other]
        match name:
            case "load":
                await core.memcpy(a[part], x[other][part])
            case "copy":
                core.move(a, b)
            case "store":
                await core.memcpy(out[core.task_id][part], a[part])
            case "old":
                await core.atomic_add(a, counts[core.task_id], b)
            case _:
                getattr(core, name)(a, a, b)
        await core.sync()


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels_have_the_findings_of_following_all(monkeypatch, seed):
    device = device_of(interpret, (random_operations(np.random.default_rng(seed)),), BLOCK)
    found = findings_of(device, rewrites=True)
    follow_all(monkeypatch)
    assert findings_of(device, rewrites=True) == found

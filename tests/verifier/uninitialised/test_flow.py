"""Unwritten bytes are errors if they reach an output, a register or an address, and only then."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from findings import uninitialised
from mlusim import Output, verify

X = np.arange(1, 61, dtype=np.float32)
ONE = {"kind": "BLOCK", "dim": 1}


async def rounded_up(core, x, out, stored=60):
    """60 elements, computed as 64."""
    a = core.nram.alloc(64, x.dtype, "a")
    b = core.nram.alloc(64, x.dtype, "b")
    await core.memcpy(a[0:60], x)
    core.mul(b, a, 2.0)
    core.add(b, b, a)
    await core.memcpy(out[0:stored], b[0:stored])


@pytest.mark.slow
def test_uninitialised_lanes_that_are_never_stored_are_not_reported():
    report = verify(rounded_up, X, Output((60,)), reference=3 * X, **ONE)
    assert report.findings == (), report.text()


def test_storing_one_lane_too_many_is_found():
    report = verify(rounded_up, X, Output((61,)), 61, **ONE)
    (finding,) = uninitialised(report)
    assert finding.title == "mul reads a, part of which is uninitialised"
    assert finding.region == "a[60:64], 16 B in NRAM"
    assert [site.role for site in finding.sites] == ["reads", "passes"]
    assert finding.sites[1].source == "await core.memcpy(out[0:stored], b[0:stored])"


@pytest.mark.parametrize("last", [0, 1])
def test_fetching_atomics_that_differ_only_in_the_buffer_of_the_old_value(last):
    """The old value's buffer is a fourth operand; only the first of the two buffers is not stored."""

    async def kernel(core, count, out):
        ones, *old = (core.nram.alloc(64, out.dtype) for _ in range(3))
        for buffer in (ones, *old):
            core.fill(buffer, 1)
        for turn in range(8):
            await core.atomic_add(old[last if turn == 7 else 0], count, ones)
        await core.memcpy(out, old[1])

    device = mlusim.Device("mlu370-x4")
    device.launch(kernel, device.alloc(64, "float32", workspace=True), device.alloc(64, "float32"), **ONE)
    device.synchronize()
    assert len(uninitialised(device.verify())) == last


@pytest.mark.parametrize("strict", [False, True])
def test_marks_go_through_sram_and_back(strict):
    async def kernel(core, x, out):
        shared = core.sram.alloc(64, x.dtype, "shared")
        if core.core_id == 0:
            a = core.nram.alloc(64, x.dtype, "a")
            await core.memcpy(a[0:60], x)
            await core.memcpy(shared, a)
        await core.sync_cluster()
        if core.core_id == 1:
            b = core.nram.alloc(64, x.dtype, "b")
            await core.memcpy(b, shared)
            await core.memcpy(out, b if strict else b[0:60])

    report = verify(kernel, X, Output((64 if strict else 60,)), dim=4)
    assert len(uninitialised(report)) == strict
    if strict:
        assert uninitialised(report)[0].sites[1].task == "task 1"


def test_overwritten_uninitialised_bytes_are_not_reported():
    async def kernel(core, x, out):
        a = core.nram.alloc(64, x.dtype, "a")
        await core.memcpy(out[0:64], a)
        await core.memcpy(a[0:60], x)
        core.write_zero(a[60:64])
        await core.memcpy(out, a)

    assert verify(kernel, X, Output((64,)), rewrites=True, **ONE).ok


def test_the_host_may_look_at_an_output_when_it_waits():
    async def leave(core, out, good):
        a = core.nram.alloc(out.shape, out.dtype, "a")
        if good:
            core.write_zero(a)
        await core.memcpy(out, a)

    for wait in (False, True):
        device = mlusim.Device()
        out = device.alloc((8,), "float32", "out")
        device.launch(leave, out, False, **ONE)
        if wait:
            device.synchronize()
        device.launch(leave, out, True, **ONE)
        device.synchronize()
        assert len(uninitialised(device.verify())) == wait


def test_uninitialised_registers_addresses_and_masks_are_reported():
    async def register(core, out):
        a = core.nram.alloc(8, "float32", "a")
        await core.load(a[3])
        core.write_zero(a)
        await core.memcpy(out, a)

    async def address(core, out):
        a = core.nram.alloc(8, "float32", "a")
        index = core.nram.alloc(8, "int32", "index")
        b = core.nram.alloc(8, "float32", "b")
        core.write_zero(a)
        core.write_zero(index[0:7])
        core.move(index[7:8], core.nram.alloc(1, "int32", "fresh"))
        core.write_zero(b)
        await core.sync()
        await core.scalar_copy(b[0:8], a, src_rows=np.zeros(8, int))
        await core.memcpy(out, b)

    assert [one.title for one in uninitialised(verify(register, Output((8,)), **ONE))] == [
        "load reads a before anything is written there"
    ]
    # A list of row numbers in registers is none in memory.
    assert uninitialised(verify(address, Output((8,)), **ONE)) == []


def test_row_copies_move_marks():
    async def kernel(core, x, out, rows):
        a = core.nram.alloc((8, 8), x.dtype, "a")
        b = core.nram.alloc((4, 8), x.dtype, "b")
        await core.memcpy(a[0:7], x[0:56].reshape(7, 8))
        await core.scalar_copy(b, a, src_rows=np.array(rows))
        await core.memcpy(out, b[0:3])

    assert verify(kernel, X, Output((3, 8)), [0, 1, 2, 7], **ONE).ok
    assert verify(kernel, X, Output((3, 8)), [0, 1, 2, 3], **ONE).ok
    assert len(uninitialised(verify(kernel, X, Output((3, 8)), [0, 7, 2, 3], **ONE))) == 1


def test_a_harmless_read_is_not_blamed_for_a_later_one_of_the_same_bytes():
    async def kernel(core, x, out):
        held, spare = core.nram.alloc(64, x.dtype, "held"), core.nram.alloc(64, x.dtype, "spare")
        await core.memcpy(held[:60], x)
        core.add(spare, held, held)
        await core.memcpy(out, held)

    (finding,) = uninitialised(verify(kernel, X, Output((64,)), **ONE))
    assert [site.source for site in finding.sites] == ["await core.memcpy(out, held)"]


def test_lines_that_read_the_same_unwritten_bytes_are_one_finding():
    async def kernel(core, x, out, more):
        held = core.nram.alloc(64, x.dtype, "held")
        await core.memcpy(held[:60], x)
        await core.memcpy(out, held)
        await core.memcpy(more, held[30:62])

    report = verify(kernel, X, Output((64,)), Output((32,)), **ONE)
    (finding,) = uninitialised(report)
    assert finding.region == "held[60:64], 16 B in NRAM"
    assert [other.region for other in finding.folded] == ["held[60:62], 8 B in NRAM"]


@pytest.mark.parametrize("by", ["lock", "atomic"])
def test_operations_that_exclude_each_other_in_any_order_may_read_unwritten_bytes(by):
    """Task 0 reads first in the run; there is no race, so nothing else tells."""

    async def kernel(core, x, total, out):
        held = core.nram.alloc(60, x.dtype, "held")
        await core.memcpy(held, x)
        if by == "atomic" and core.task_id == 0:
            await core.atomic_add(held, total, held)
        elif by == "atomic":
            core.scalar(10_000)
            await core.atomic_reduce_exch(total, held)
        else:
            core.scalar(10_000 * core.task_id)
            await core.lock(0)
            if core.task_id == 0:
                await core.memcpy(held, total)
            else:
                await core.memcpy(total, held)
            await core.unlock(0)
        if core.task_id == 0:
            await core.memcpy(out, held)

    report = verify(kernel, X, Output((60,)), Output((60,)), kind="BLOCK", dim=2)
    (finding,) = report.errors
    assert (finding.kind, finding.fields["buffer"]) == ("uninitialised", "total")


def test_launches_in_the_wrong_order_are_named():
    async def copy(core, x, out):
        tile = core.nram.alloc(x.shape, x.dtype, "tile")
        await core.memcpy(tile, x)
        await core.memcpy(out, tile)

    device = mlusim.Device()
    x = device.upload(np.ones(8, np.float32), "x")
    middle, out = (device.alloc(8, "float32", name) for name in ("middle", "out"))
    device.launch(copy, middle, out, dim=1, kind="BLOCK")
    device.launch(copy, x, middle, dim=1, kind="BLOCK")
    device.synchronize()
    (finding,) = device.verify().errors
    assert finding.remedy.startswith("launch copy, which writes these bytes later, before this kernel\nor write these")


async def rows_added(core, x, out):
    total = core.nram.alloc(x.shape, x.dtype, "total")
    row = core.nram.alloc(x.shape[1], x.dtype, "row")
    for number in range(x.shape[0]):
        await core.memcpy(row, x[number])
        core.add(total[number], total[number], row)
    await core.memcpy(out, total)


def test_a_finding_names_all_uninitialised_bytes_that_its_line_reads():
    x = np.ones((4, 8), np.float32)
    (finding,) = verify(rows_added, x, Output.like(x), kind="BLOCK", dim=1).errors
    assert (finding.region, finding.nbytes, finding.times) == ("total[0:4, 0:8], 128 B in NRAM", x.nbytes, 4)

"""Launches that share a tensor: each writes the part that it got, and the host reads all of it."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from findings import X
from kernel_lines import line_of
from mlusim import Output, verify
from mlusim.verifier.check import check_log


@pytest.mark.parametrize("begin", [4, 5])
def test_a_row_that_no_launch_gets_is_found_once_the_host_reads_the_tensor(begin):
    async def double(core, x, out):
        tile = core.nram.alloc(8, x.dtype, "tile")
        await core.memcpy(tile, x[core.task_id])
        core.mul(tile, tile, 2.0)
        await core.memcpy(out[core.task_id], tile)

    device = mlusim.Device()
    x, out = device.upload(X, "x"), device.alloc((8, 8), X.dtype, "out")
    for low, high in ((0, 4), (begin, 8)):
        device.launch(double, x[low:high], out[low:high], kind="BLOCK", dim=high - low)
    device.synchronize()
    assert device.verify().ok
    device.download(out)
    if begin == 4:
        assert device.verify().ok
    else:
        (finding,) = device.verify().errors
        assert (finding.kind, finding.region) == ("never-written", "out[4, 0:8], 32 B")


def test_a_tensor_that_no_launch_gets_is_found_if_the_host_reads_it():
    async def copy(core, x, out):
        tile = core.nram.alloc(x.shape, x.dtype, "tile")
        await core.memcpy(tile, x)
        await core.memcpy(out, tile)

    device = mlusim.Device()
    x, first, second = (device.upload(X, "x"), *(device.alloc(X.shape, X.dtype, name) for name in ("first", "second")))
    device.launch(copy, x, first, kind="BLOCK", dim=1)
    device.synchronize()
    device.download(first)
    assert device.verify().ok
    device.download(second)
    (finding,) = device.verify().findings
    assert (finding.kind, finding.title) == ("never-written", "second is never written")
    assert finding.remedy.startswith("pass second to the launch that should write it, or do not copy it back\n")
    device.launch(copy, x, second, kind="BLOCK", dim=1)
    device.synchronize()
    assert device.verify().ok


def test_a_store_at_a_wrong_address_is_one_finding_with_the_values_that_it_displaces():
    async def kernel(core, x, out, early=0):
        tile = core.nram.alloc(8, x.dtype, "tile")
        for row in range(8):
            await core.memcpy(tile, x[row])
            await core.memcpy(out[max(row - early, 0)], tile)

    one = {"kind": "BLOCK", "dim": 1}
    (finding,) = verify(kernel, X, Output.like(X), 1, **one, reference=X).errors
    line = line_of(kernel, "await core.memcpy(out[max(row - early, 0)], tile)")
    assert (finding.kind, {folded.kind for folded in finding.folded}) == (
        "written-again",
        {"never-written", "wrong-value"},
    )
    assert finding.remedy.startswith(
        f"correct the part of out at test_several_launches.py:{line}: other bytes of it are"
    )
    assert verify(kernel, X, Output.like(X), **one, reference=X).ok


@pytest.mark.parametrize(
    ("rows", "dim", "remedy"), [(16, 8, "launch 16 tasks, or"), (16, 15, "launch 16 tasks"), (9, 4, "look")]
)
def test_a_launch_with_fewer_tasks_than_parts_is_told_how_many_it_needs(rows, dim, remedy):
    async def kernel(core, x, out):
        tile = core.nram.alloc((x.shape[0] // 4, 8) if x.shape[0] == 9 else (1, 8), x.dtype, "tile")
        mine = slice(core.task_id * tile.shape[0], (core.task_id + 1) * tile.shape[0])
        await core.memcpy(tile, x[mine])
        await core.memcpy(out[mine], tile)

    x = np.ones((rows, 8), np.float32)
    (finding,) = verify(kernel, x, Output.like(x), kind="BLOCK", dim=dim).errors
    assert finding.kind == "never-written"
    assert finding.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("parts", "in_place", "region"),
    [
        ([(0, 8), (0, 6)], False, "out[6:8, 0:8], 64 B"),
        ([(0, 8), (2, 4)], False, "part of out[0:8, 0:8], 192 B"),
        ([(0, 8), (0, 8)], False, ""),
        ([(0, 8), (2, 4)], True, ""),
        ([(0, 4), (4, 8)], False, ""),
    ],
)
def test_rows_of_an_earlier_launch_that_the_host_copies_back_again_are_a_hint(parts, in_place, region, tmp_path):
    async def double(core, x, out, low, high, adds):
        tile, sums = (core.nram.alloc(8, x.dtype, name) for name in ("tile", "sums"))
        for row in range(low, high):
            await core.memcpy(tile, x[row])
            if adds:
                await core.memcpy(sums, out[row])
                core.add(tile, tile, sums)
            core.mul(tile, tile, 2.0)
            await core.memcpy(out[row], tile)

    device = mlusim.Device()
    x, out = device.upload(X, "x"), device.alloc(X.shape, X.dtype, "out")
    for number, part in enumerate(parts):
        device.launch(double, x, out, *part, in_place and number > 0, kind="BLOCK", dim=1)
        device.synchronize()
        device.download(out)
    saved = mlusim.load(device.save(tmp_path / "run.npz"))
    for report in (device.verify(), check_log(saved.log, saved.board)):
        assert report.ok, report.text()
        found = [finding for finding in report.findings if finding.kind == "stale"]
        assert [finding.region for finding in found] == ([region] if region else [])


def test_arguments_that_are_exchanged_in_the_second_launch_are_named_with_its_line():
    async def copy(core, source, target):
        tile = core.nram.alloc(8, source.dtype, "tile")
        await core.memcpy(tile, source[core.task_id])
        await core.memcpy(target[core.task_id], tile)

    device = mlusim.Device()
    x, middle, out = (
        device.upload(X, "x"),
        device.alloc(X.shape, X.dtype, "middle"),
        device.alloc(X.shape, X.dtype, "out"),
    )
    device.launch(copy, x, middle, kind="BLOCK", dim=8)
    device.launch(copy, out, middle, kind="BLOCK", dim=8)
    device.synchronize()
    device.download(out)
    (finding,) = device.verify().errors
    assert finding.title == "out is never written"
    launched = f"test_several_launches.py:{device.log.launches[1].launched_at.rpartition(':')[2]}"
    why = "it writes the one, which an earlier launch filled"
    assert finding.remedy.startswith(f"swap middle and out in the launch at {launched}: {why}\n")


def test_arguments_of_a_launch_that_the_host_repeats_are_not_exchanged():
    async def measure(core, source, scales):  # the store to scales is missing
        tile = core.nram.alloc(8, source.dtype, "tile")
        await core.memcpy(tile, source[core.task_id])

    async def apply(core, scales, target):
        tile = core.nram.alloc(8, target.dtype, "tile")
        await core.memcpy(tile, scales[core.task_id])
        await core.memcpy(target[core.task_id], tile)

    device = mlusim.Device()
    x, *others = device.upload(X, "x"), *(device.alloc(X.shape, X.dtype, name) for name in ("scales", "out"))
    for _ in range(2):
        device.launch(measure, x, others[0], kind="BLOCK", dim=8)
        device.launch(apply, *others, kind="BLOCK", dim=8)
    device.synchronize()
    for tensor in others:
        device.download(tensor)
    (finding,) = [finding for finding in device.verify().errors if finding.kind == "never-written"]
    assert finding.title == "scales is an output, but only read"
    assert "swap" not in finding.remedy


def test_a_kernel_for_a_union_that_is_launched_as_block_is_told_so():
    async def kernel(core, x, out):
        if core.is_memory_core:
            await core.sync_cluster()
            return
        tile = core.nram.alloc(8, x.dtype, "tile")
        await core.memcpy(tile, x[core.task_id])
        await core.sync_cluster()
        await core.memcpy(out[core.core_id], tile)

    (error, *_) = mlusim.verify(kernel, X, mlusim.Output(X.shape), kind="BLOCK", dim=8).errors
    assert error.kind == "task-race"
    assert error.remedies[0].startswith("launch kernel at test_several_launches.py:")
    assert "as UNION1, if it is written for a union: as BLOCK, it runs on no memory core" in error.remedies[0]
    (error, *_) = mlusim.verify(kernel, X, mlusim.Output(X.shape), kind="UNION1", dim=8).errors
    assert "BLOCK" not in error.remedy

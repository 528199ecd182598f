"""The split proof: writers, reads, balance, traffic, and the comparison with the plan."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import mlusim
from mlusim import Output, Tiles, verify
from mlusim.kernels.tin_shift import tin_shift_segments
from mlusim.verifier.check import check_log, prove
from mlusim.verifier.run import Run
from mlusim.verifier.split.balance import memory_traffic
from mlusim.verifier.split.proof_map import AGAIN, NOBODY, proof_maps

X = np.arange(2 * 5 * 4 * 96, dtype=np.float32).reshape(2, 5, 4, 96)
SHIFTS = np.array([[1, -2], [0, 7]], np.int32)


@pytest.fixture(scope="module")
def result():
    return mlusim.ops.tin_shift_forward(X, SHIFTS, strategy="documented", check=True)


def test_figures_of_a_sound_split(result):
    report = result.report
    x, shifts, output = report.tensors
    assert (output.unwritten_bytes, output.rewritten_bytes, output.bytes_written) == (0, 0, X.nbytes)
    kept = sum(max(5 - abs(int(k)), 0) for k in SHIFTS.reshape(-1)) * 2 * 96 * 4
    assert x.bytes_read == kept
    assert x.unread_bytes == X.nbytes - kept
    assert dataclasses.replace(x, unread_bytes=1).text().endswith("; < 0.1 % never")
    assert (x.least_reads, x.most_reads) == (0, 1)
    assert (shifts.least_reads, shifts.most_reads, shifts.bytes_read) == (2, 2, 8 * 4)
    assert report.balance.tiles == 8
    assert report.balance.idle_cores == result.board.cores - 8
    assert report.balance.evenness == 1
    assert report.memories["gdram"] == (kept + 8 * 4, X.nbytes)
    lines = {line.operation: line for line in report.traffic}
    assert lines["load"].efficiency == 4 / 64
    assert {line.operations for line in report.traffic} == {6, 8}
    assert json.dumps(report.to_json())


def test_a_tail_tile_and_an_idle_task_are_counted():
    async def kernel(core, x, out):
        if core.is_memory_core:
            return
        held = core.nram.alloc((4, 8), x.dtype)
        for row in range(core.task_id * 4, x.shape[0], core.task_dim * 4):
            last = min(row + 4, x.shape[0])
            await core.memcpy(held[0 : last - row], x[row:last])
            await core.memcpy(out[row:last], held[0 : last - row])

    x = np.ones((10, 8), np.float32)
    balance = verify(kernel, x, Output.like(x), dim=4).check().balance
    assert (balance.tasks, balance.idle_tasks, balance.tiles, balance.tail_tiles) == (4, 1, 3, 1)
    assert balance.tile_bytes == 4 * 8 * 4
    assert balance.evenness == pytest.approx(80 / 4 / 32)


def test_a_plan_is_proved_before_anything_runs(result):
    plan = result.plan
    assert prove(plan) == []
    tiles = plan.tiles
    short = dataclasses.replace(plan, tiles=Tiles(tiles.task[1:], tiles.start[1:], tiles.stop[1:], 8))
    (finding,) = prove(short)
    assert finding.kind == "bad-plan"
    assert finding.title.startswith(
        "elements [0, 0, 0, 0] to [1, 5, 1, 96] of the output [2, 5, 4, 96] are never written;"
    )


@pytest.mark.parametrize(
    ("start", "stop", "nram_bytes", "also"),
    [
        ([[0], [40]], [[40], [80]], 160, "never-written"),
        ([[0], [30]], [[60], [100]], 280, "task-race"),
        ([[0], [60], [100]], [[60], [100], [100]], 240, "copy"),
        ([[0, 0], [50, 0]], [[50, 1], [100, 1]], 200, "stopped"),
        ([[0], [50]], [[50], [100]], 1 << 20, ""),
        ([[-10], [50]], [[50], [100]], 240, "access"),
    ],
)
def test_what_a_kernel_does_because_its_plan_is_wrong_goes_under_the_plan(start, stop, nram_bytes, also):
    async def kernel(core, x, out, plan):
        for tile in plan.tiles_of(core.task_id):
            (low,), (high,) = tile.start, tile.stop
            held = core.nram.alloc(high - low, x.dtype)
            await core.memcpy(held, x[low:high])
            await core.memcpy(out[low:high], held)

    x = np.ones(100, np.float32)
    tiles = Tiles(np.arange(len(start)), start, stop, nram_bytes)
    plan = mlusim.Plan.from_tiles(tiles, (100,), "float32", dim=4, kind="BLOCK", name="halves")
    report = verify(kernel, x, Output.like(x), plan, plan=plan)
    (finding,) = report.errors
    assert finding.kind == "bad-plan"
    assert {folded.kind for folded in finding.folded} >= ({also} if also else set())


def test_a_run_is_compared_with_its_plan(result):
    plan = result.plan
    moved = dataclasses.replace(
        plan, tiles=Tiles(np.roll(plan.tiles.task, 1), plan.tiles.start, plan.tiles.stop, plan.nram_bytes)
    )
    report = check_log(result.log, result.board, plan=moved)
    (finding,) = report.errors
    assert finding.kind == "not-planned"
    assert finding.title == "task 0 writes bytes that the plan assigns to task 7"
    assert finding.region == f"output[0:2, 0:5, 0:4, 0:96], {len('1234')}".replace(", 4", ", 15 360 B")
    assert finding.sites[0].tile == "tile 0 of task 7"
    assert finding.rule.endswith("them to tile 0 of task 7, [0, 0, 0, 0] to [1, 5, 1, 96]")


def test_an_unwritten_tile_of_the_plan_is_named(result):
    class Skips:
        """A plan's tiles, of which a kernel sees all but one."""

        def __init__(self, plan):
            self.plan = plan

        def __getattr__(self, name):
            return getattr(self.plan, name)

        def tiles_of(self, task):
            return () if task == 3 else self.plan.tiles_of(task)

    async def kernel(core, x, shifts, out):
        await tin_shift_segments(core, x, shifts, out, Skips(result.plan), 1)

    report = verify(kernel, X, SHIFTS, Output.like(X), plan=result.plan)
    (finding,) = report.errors
    assert finding.title == "1 920 B (1.875 KiB) of out are never written, in 5 ranges"
    assert finding.region.startswith("out[0, 0:5, 3, 0:96], 1 920 B; the first is out[0, 0, 3, 0:96], 384 B")
    assert finding.rule.endswith("\nthe plan assigns them to tile 0 of task 3, [0, 0, 3, 0] to [1, 5, 4, 96]")


def test_a_later_launch_may_write_again():
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype)
        await core.memcpy(held, x)
        await core.memcpy(out, held)

    device = mlusim.Device()
    x, out = device.upload(X), device.alloc(X.shape, X.dtype)
    for _ in range(2):
        device.launch(kernel, x, out, kind="BLOCK", dim=1)
    device.synchronize()
    assert device.verify().check().tensors[1].times_written == 2


def test_the_picture_shows_writers_gaps_and_rewrites(tmp_path):
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype)
        await core.memcpy(held, x)
        await core.memcpy(out[core.task_id * 2 : core.task_id * 2 + 3], held[0:3])

    x = np.ones((8, 6), np.float32)
    report = verify(kernel, x, Output.like(x), kind="BLOCK", dim=3)
    (one,) = proof_maps(report.log)
    assert one.writer[:, 0].tolist() == [0, 0, AGAIN, 1, AGAIN, 2, 2, NOBODY]
    assert (one.writer == one.writer[:, :1]).all()
    first = report.draw(tmp_path / "proof.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    assert report.draw(tmp_path / "again.png").read_bytes() == first
    with pytest.raises(mlusim.InputError, match=r"/no/proof.png: cannot be written: No such file or directory$"):
        report.draw(tmp_path / "no" / "proof.png")
    with pytest.raises(mlusim.InputError, match=r"^draw to .*proof.pdf: it must be a \.png or \.svg file"):
        report.draw(tmp_path / "proof.pdf")


def test_switches_of_an_operator(result):
    assert result.report is not None
    assert mlusim.ops.tin_shift_forward(X, SHIFTS, check=False).report is None
    # The fixture of this test suite checks what says nothing.
    assert mlusim.ops.tin_shift_forward(X, SHIFTS).report.ok
    assert memory_traffic(Run(result.log))["gdram"] == result.report.memories["gdram"]


def split_in_rows(shape, tasks, **options):
    """A plan of one tile for each task."""
    rows = shape[0] // tasks
    start = np.array([[task * rows, 0] for task in range(tasks)])
    stop = start + np.array([rows, shape[1]])
    return mlusim.Plan.from_tiles(Tiles(np.arange(tasks), start, stop, 4096), shape, dim=(tasks, 1, 1), **options)


async def two_outputs(core, x, out, aux, swapped):
    if core.is_memory_core:
        return
    held = core.nram.alloc((2, 8), x.dtype, "held")
    mine, other = core.task_id * 2, (3 - core.task_id) * 2
    await core.memcpy(held, x[mine : mine + 2])
    await core.memcpy(out[mine : mine + 2], held)
    if swapped:
        await core.memcpy(held, x[other : other + 2])
        mine = other
    await core.memcpy(aux[mine : mine + 2], held)


SMALL = np.arange(64, dtype=np.float32).reshape(8, 8)
PLAN = split_in_rows((8, 8), 4)


def test_the_planned_output_is_chosen_by_identity():
    """Two outputs of one size: only its own is compared with the plan."""
    arguments = (SMALL, Output.like(SMALL), Output.like(SMALL))
    assert verify(two_outputs, *arguments, True, plan=PLAN, planned="out", reference={"aux": SMALL}).ok
    wrong = verify(two_outputs, *arguments, True, plan=PLAN, planned="aux")
    assert [finding.title for finding in wrong.errors] == ["task 3 writes bytes that the plan assigns to task 0"]
    assert wrong.errors[0].rule.startswith("the plan of kernel assigns them to tile 0 of task 0, [0, 0] to [2, 8]")
    unclear = verify(two_outputs, *arguments, False, plan=PLAN)
    assert [finding.kind for finding in unclear.errors] == ["not-planned"]
    assert unclear.errors[0].title == (
        "the plan covers [8, 8] elements of 4 B and several outputs have this shape: out, aux"
    )
    assert unclear.errors[0].remedy == "name the tensor that the plan splits: verify(..., planned='NAME')"


def test_of_several_outputs_the_one_with_the_plans_shape_is_planned():
    async def kernel(core, x, out, total):
        if core.is_memory_core:
            return
        held = core.nram.alloc((2, 8), x.dtype, "held")
        mine = (3 - core.task_id) * 2
        await core.memcpy(held, x[mine : mine + 2])
        await core.memcpy(out[mine : mine + 2], held)
        if core.task_id == 0:
            await core.memcpy(total, held.reshape(-1)[0:16])

    report = verify(kernel, SMALL, Output.like(SMALL), Output((16,)), plan=PLAN)
    assert [finding.kind for finding in report.errors] == ["not-planned"]
    assert report.errors[0].sites[0].task == "task 3"


def test_a_plan_of_another_element_size_is_reported():
    async def kernel(core, x, out):
        await two_outputs(core, x, out, out, False)

    half = SMALL.astype(np.float16)
    report = verify(kernel, half, Output.like(half), plan=PLAN, rewrites=True)
    assert [finding.title for finding in report.errors] == [
        "the plan covers [8, 8] elements of 4 B, and out is float16 [8, 8] elements of 2 B"
    ]


async def stored_by_the_memory_core(core, x, out, cluster):
    held = core.sram.alloc((8, 8), x.dtype, "held")
    if core.is_memory_core and core.task_id // 4 == cluster:
        await core.memcpy(held, x)
        await core.memcpy(out, held)


@pytest.mark.parametrize("cluster", [0, 1])
def test_a_memory_core_writes_for_its_own_cluster(cluster):
    plan = dataclasses.replace(PLAN, dim=(8, 1, 1), kind="UNION2")
    report = verify(stored_by_the_memory_core, SMALL, Output.like(SMALL), cluster, plan=plan, reference=SMALL)
    assert report.ok == (cluster == 0), report.text()
    if cluster:
        assert report.errors[0].title == "the memory core of cluster 1 writes bytes that the plan assigns to task 0"


def test_nram_beyond_the_plan_is_reported():
    async def kernel(core, x, out, elements):
        core.nram.alloc(elements, x.dtype, "spare") if not core.is_memory_core else None
        await two_outputs(core, x, out, out, False)

    arguments = (SMALL, Output.like(SMALL))
    assert verify(kernel, *arguments, 1008, plan=PLAN, rewrites=True).ok
    report = verify(kernel, *arguments, 1009, plan=PLAN, rewrites=True)
    assert [finding.title for finding in report.errors] == [
        "task 0 allocates 4 100 B (4.004 KiB) of NRAM at once, and the plan allows 4 096 B (4 KiB)"
    ]


async def rows_by_list(core, x, out, rows):
    held = core.nram.alloc(x.shape, x.dtype, "held")
    await core.memcpy(held, x)
    await core.memcpy_rows(out, held, dst_rows=rows)


async def by_scatter(core, x, out, rows):
    held = core.nram.alloc(x.shape, x.dtype, "held")
    offsets = core.nram.alloc(len(rows), "int32", "offsets")
    await core.memcpy(held, x)
    core.store_array(offsets, np.asarray(rows))
    core.scatter(out, held, offsets)


async def by_stride_0(core, x, out, rows):
    held = core.nram.alloc(x.shape, x.dtype, "held")
    await core.memcpy(held, x)
    await core.memcpy(out, held)
    if len(set(rows)) < len(rows):
        core.store_array(out[7, 0:4].reshape(1, 4).broadcast_to(3, 4), np.zeros((3, 4)))


@pytest.mark.parametrize("kernel", [rows_by_list, by_scatter, by_stride_0])
def test_one_operation_that_writes_twice(kernel):
    once = [3, 1, 0, 2, 7, 6, 5, 4]
    options = {"kind": "BLOCK", "dim": 1, "device": "mlu590-h8" if kernel is by_scatter else "mlu370-x4"}
    if kernel is by_scatter:
        options["device"] = mlusim.board("mlu590-h8").replace(arch=592)
    assert verify(kernel, SMALL, Output.like(SMALL), once, **options).ok
    report = verify(kernel, SMALL, Output.like(SMALL), [3, 1, 0, 2, 7, 7, 7, 4], **options)
    again = next(finding for finding in report.errors if finding.kind == "written-again")
    if kernel is by_stride_0:
        assert again.region == "out[7, 0:4], 16 B"
        assert "up to 4 times" in again.title
    else:
        name = "memcpy_rows" if kernel is rows_by_list else "scatter"
        assert again.title == f"32 B of out are written up to 3 times, first by one {name} of task 0"
        assert again.region == "out[7, 0:8], 32 B"
        assert "of 256 written exactly once" not in report.text()
    report = verify(kernel, SMALL, Output.like(SMALL), [3, 1, 0, 2, 7, 7, 7, 4], rewrites=True, **options)
    assert [one.kind for one in report.errors] == ([] if kernel is by_stride_0 else ["never-written"])


@pytest.mark.parametrize(("size", "missing"), [(70, 0), (70, 1), (64, 0), (64, 1)])
def test_a_branch_that_no_task_enters_may_lack_the_rest(size, missing):
    async def kernel(core, x, out, tiles, tail):
        tile = core.nram.alloc(16, x.dtype, "tile")
        for at in range(0, 16 * tiles, 16):
            await core.memcpy(tile, x[at : at + 16])
            await core.memcpy(out[at : at + 16], tile)
        if tail:
            await core.memcpy(tile[:tail], x[16 * tiles :])
            await core.memcpy(out[16 * tiles :], tile[:tail])

    x = np.arange(size, dtype=np.float32)
    tiles, tail = (size // 16, 0 if missing else size % 16) if size == 70 else (4 - missing, 0)
    report = verify(kernel, x, Output.like(x), tiles, tail, kind="BLOCK", dim=1)
    if not missing:
        assert report.ok
        return
    (finding,) = report.errors
    first = kernel.__code__.co_firstlineno
    condition = f"correct the condition at test_proof.py:{first + 5}: no task enters its branch, which uses out"
    bound = (
        "look for a bound that is too small, or a tile that is skipped, in the loop at " + f"test_proof.py:{first + 2}"
    )
    # A gap as large as a tile is one; a smaller one is the tail.
    assert finding.remedies == ((condition, bound) if size == 70 else (bound, condition))

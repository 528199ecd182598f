"""Refusals of retiming: boards that cannot run the recorded instructions, splits or buffers."""

from __future__ import annotations

import re
from dataclasses import replace as with_fields

import numpy as np
import pytest

import mlusim
from any_kernel import everything
from mlusim import InputError, ops
from mlusim.memory.kinds import MemoryKind
from mlusim.results.result import Result
from mlusim.retiming.retime import plan_on, retime
from retimed_runs import RUNS, X, ran


def refused(run, *device, **values):
    with pytest.raises(InputError) as caught:
        retime(run, *device, **values)
    return caught.value.message


def test_a_smaller_nram_is_refused_with_what_the_run_used():
    run = ops.cast(np.zeros(10**6, np.float32), "int16", data=False)
    used = run.metrics.peak_nram_bytes
    board = run.board
    message = refused(run, nram_bytes=board.nram_reserved_bytes + used - 1)
    assert f"buffers in {used:,}".replace(",", " ") in message
    in_nram = [allocation for allocation in run.log.allocations if MemoryKind(allocation.memory) is MemoryKind.NRAM]
    last = max(in_nram, key=lambda allocation: allocation.address)
    assert f"of the NRAM of a core (up to {last.name!r}), and " in message
    assert "mlu370-x4 has" in message
    assert message.endswith("run it on that board")
    assert retime(run, nram_bytes=board.nram_reserved_bytes + used, keep_split=True).time_ps == run.time_ps


def test_other_memories_that_are_too_small_are_refused():
    run = everything("mlu370-x4", 4)
    assert run.metrics.peak_sram_bytes
    board = run.board
    assert "of the SRAM of a cluster (up to 'shared')" in refused(run, sram_bytes=board.sram_reserved_bytes + 128)
    assert "of the GDRAM of the board (up to" in refused(run, gdram_bytes=8000)
    assert "of the WRAM of a core" in refused(run, wram_bytes=128)
    assert "of the LDRAM of a core" in refused(run, ldram_bytes_per_core=64)


def test_other_alignments_are_refused_where_they_move_buffers():
    run = ran("cast", "mlu370-x4")
    assert "buffers in GDRAM are rounded up to 256 B on mlu370-x4 and to 128 B" in refused(
        run, vector_alignment_bytes=256
    )
    assert "buffers in LDRAM are rounded up to 32 B" in refused(everything("mlu370-x4", 4), dram_unit_bytes=32)


def test_a_launch_that_the_board_cannot_hold_is_refused():
    async def nothing(core):
        core.scalar()

    device = mlusim.Device("mlu370-x4")
    device.launch(nothing, dim=(16, 1, 1), kind="UNION4")
    device.synchronize()
    assert "cannot launch what the run did: nothing: UNION4 needs 4 clusters at once" in refused(
        device.result(), clusters=2, max_union=2
    )
    assert "on clusters of 4 cores, and mlu370-x4 has clusters of 2" in refused(device.result(), cores_per_cluster=2)


def test_instructions_that_a_board_lacks_are_refused():
    run = ran("gather", "mlu590-h8")
    assert "the run uses __gather, which exists from arch 592 on, and mlu370-x4 is arch 372" in refused(
        run, "mlu370-x4", keep_split=True
    )

    async def deep(core, x):
        if not core.is_memory_core:
            await core.memcpy(core.nram.alloc((2, 3, 4), "float32"), x[:, :3, :4])

    device = mlusim.Device("mlu370-x4")
    device.launch(deep, device.upload(np.zeros((2, 5, 6), np.float32)), dim=4)
    device.synchronize()
    message = refused(device.result(), "mlu290-m5")
    assert "mlu290-m5 cannot do what the run did at" in message
    assert f"{__file__}:" in message
    assert "3-D __memcpy needs arch 300 or later" in message

    async def odd(core):
        if not core.is_memory_core:
            core.write_zero(core.nram.alloc(300, "int8")[:70])

    device = mlusim.Device("mlu370-x4")
    device.launch(odd, dim=4)
    device.synchronize()
    assert "arch 290 needs 64 B alignment and a multiple of 128 B" in refused(device.result(), "mlu290-m5")


def test_a_refused_instruction_is_shown_with_the_element_types_of_its_buffers():
    async def kernel(core, x):
        tile = core.nram.alloc(100, x.dtype, "tile")
        await core.memcpy(tile, x)
        core.add(tile, tile, tile)

    run = mlusim.run(kernel, np.zeros(100, np.float32), kind="BLOCK", dim=1)
    assert "add of <view of tile (nram): float32 [100]> at byte 0" in refused(run, "mlu270-s4")


def test_a_different_split_is_refused_without_keep_split():
    run = ran("tin_shift_documented", "mlu370-x4")
    one_cluster = RUNS["tin_shift_documented"](device=run.board.replace(clusters=1, max_union=1), data=False)
    assert one_cluster.plan.dim != run.plan.dim
    message = refused(run, clusters=1, max_union=1)
    assert "tin_shift_forward would be split differently on mlu370-x4: " in message
    assert f"grid {one_cluster.plan.dim} instead of {run.plan.dim}" in message
    assert message.endswith("time the recorded split with keep_split=True")
    kept = retime(run, clusters=1, max_union=1, keep_split=True)
    assert kept.plan.dim == run.plan.dim
    assert kept.plan.board.clusters == 1
    assert "vector operands are rounded out to 128 B on arch 270, but not on arch 372" in refused(run, "mlu270-s4")
    assert "there are __gather and __scatter on arch 592" in refused(ran("scatter", "mlu370-x4"), "mlu590-h8")


def test_any_difference_between_plans_is_reported(tmp_path):
    run = ops.cast(X, "int16", data=False)
    plan = run.plan
    shifted = plan.tiles.start.copy()
    shifted[0] += 1
    others = {
        "strategy auto": {"strategy": "other"},
        "task type BLOCK instead of UNION1": {"kind": "UNION1"},
        "NRAM ": {"nram_bytes": plan.nram_bytes + 1},
        "tiles instead of": {"tiles": mlusim.Tiles([0], [[0]], [[1]], 0)},
        "different tiles": {"tiles": mlusim.Tiles(plan.tiles.task, shifted, plan.tiles.stop, 1)},
        "overlapped = ": {"parameters": {**plan.named_parameters, "overlapped": None}},
    }
    for message, change in others.items():
        run.plan = with_fields(plan, **change)
        assert plan_on(run, run.board)[0] is not None
        assert message.replace("auto", plan.strategy) in refused(run)
        assert message.replace("auto", plan.strategy) in refused(run.save(tmp_path / "run"))


def test_buffer_sizes_are_rounded_up_to_the_alignment():
    async def small(core):
        if not core.is_memory_core:
            core.fill(core.nram.alloc(100, "int8"), 1)

    device = mlusim.Device("mlu370-x4")
    device.launch(small, dim=4)
    device.synchronize()
    reserved = device.board.nram_reserved_bytes
    assert "buffers in 128 B of the NRAM" in refused(device.result(), nram_bytes=reserved + 127)
    assert retime(device.result(), nram_bytes=reserved + 128).time_ps == device.result().time_ps


def test_unknown_parameters_are_refused():
    run = ran("cast", "mlu370-x4")
    for values, message in (
        ({"warp_size": 32}, "no parameter 'warp_size'"),
        ({"nram": 3}, r"'nram' lacks its unit; did you mean nram_bytes \(bytes\)\?$"),
        ({"clock_hz": 0}, "clock_hz = 0 must be positive"),
        ({"clock_hz": "fast"}, "clock_hz = 'fast' must be an integer"),
        ({"kernel_start_ps": 1 << 63}, "is too large for a number of 64 bits"),
        ({"dma_read_latency_ps": (1 << 63) - 1}, "is a delay of more than 1,000 s"),
        ({"core_start_skew_ps": 10**17}, "is a delay of more than 1,000 s"),
        ({"dram_read_efficiency": 0.1}, "must be less than dram_read_efficiency"),
    ):
        with pytest.raises(mlusim.BoardError, match=message):
            retime(run, **values)
    with pytest.raises(mlusim.BoardError, match="no-such-board"):
        retime(run, "no-such-board")


def test_parameters_for_which_the_log_cannot_hold_the_time_are_refused():
    # Of the split that was recorded: the planner may well choose another one for such a board.
    run = ops.cast(np.zeros(10**6, np.float32), "int16", data=False)
    message = refused(run, keep_split=True, dram_bandwidth_bytes_per_s=1)
    assert re.match(r"the run cannot be timed on mlu370-x4: the run takes \S+ h .* exact up to 62\.49 h", message)


def test_a_run_that_did_not_end_is_refused(tmp_path):
    async def fails(core):
        core.scalar()
        if core.task_id == 2:
            raise ValueError("no")

    device = mlusim.Device("mlu370-x4")
    device.launch(fails, dim=4)
    pending = Result(operator="fails", output=None, board=device.board, plan=None, log=device.log)
    assert "kernel fails has not ended: only a complete run can be retimed" in refused(pending)
    with pytest.raises(mlusim.KernelError):
        device.synchronize()
    for run in (device.result(), device.save(tmp_path / "run")):
        assert "the run stopped with an error (KernelError: task 2" in refused(run)


def test_a_run_without_launches_takes_no_time():
    assert retime(mlusim.Device("mlu370-x4").result(), clock_hz=1).time_ps == 0
    assert retime(ran("empty", "mlu370-x4"), "mlu590-h8").time_ps == 0

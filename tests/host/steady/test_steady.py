"""Steady-state timing compared with the full run: exact bytes, time within its bound, reasons for refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlusim
from command_line import call
from long_loops import (
    add_with_barriers,
    ahead,
    copy_rows,
    full_and_steady,
    same_but_for_times,
    tensor,
    timed,
    two_buffers,
    two_loops,
)
from mlusim import ops
from mlusim.cores.core import Core
from mlusim.errors import CopyError, InputError
from mlusim.memory.view import View


async def changes(core: Core, x: View, out: View) -> None:
    """The first and the last task copy blocking to the end; those between stop waiting in the middle."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    for row in range(core.task_id, x.shape[0], core.task_dim):
        await core.memcpy(tile, x[row])
        if row > x.shape[0] // 2 and 0 < core.task_id < core.task_dim - 1:
            core.memcpy_async(out[row], tile)
            await core.sync()
        else:
            await core.memcpy(out[row], tile)


async def stops(core: Core, x: View, out: View) -> None:
    """The tasks between the first and the last one have less to do."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    between = 0 < core.task_id < core.task_dim - 1
    for row in range(core.task_id, x.shape[0] // (2 if between else 1), core.task_dim):
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row], tile)


async def fails(core: Core, x: View, out: View) -> None:
    """One task copies beyond the end of its buffer, in the middle of its loop."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    for row in range(core.task_id, x.shape[0], core.task_dim):
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row : row + 2] if row == x.shape[0] // 2 + 1 else out[row], tile)


async def by_value(core: Core, x: View, lengths: View, out: View) -> None:
    """Copies as many elements of a row as the data gives."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    for row in range(core.task_id, x.shape[0], core.task_dim):
        length = await core.load(lengths[row])
        await core.memcpy(tile[:length], x[row, :length])
        await core.memcpy(out[row, :length], tile[:length])


@pytest.mark.parametrize(
    ("kernel", "board"),
    [
        *((kernel, "mlu590-h8") for kernel in (copy_rows, two_buffers, ahead, add_with_barriers)),
        *((add_with_barriers, board) for board in ("mlu370-x4", "mlu290")),
    ],
)
def test_long_loops_are_extrapolated(kernel: Any, board: str) -> None:
    """Tasks that do not drift apart: most of the loop is left out."""
    x = tensor(4 * 400, 4096)
    full, quick = full_and_steady(kernel, x, device=board, dim=(4, 1, 1))
    assert quick.steady.operations > len(full.log) / 2, quick.steady
    assert full.steady.to_json() is None
    assert "extrapolated" in quick.steady.text(quick.time_ps)


def test_loops_behind_each_other_on_a_full_link_are_simulated() -> None:
    """The time of the second loop depends on how the tasks overtake each other in the first."""
    x = tensor(16 * 600, 4096)
    quick = timed(two_loops, x, steady=True, device="mlu270-s4", dim=(4, 4, 1))
    assert "leave their loops changes what follows" in quick.steady.refused


@pytest.mark.parametrize(
    ("kernel", "board", "clusters"),
    [(copy_rows, "mlu370-x4", 8), (ahead, "mlu370-s4", 6), (two_buffers, "mlu270-s4", 4), (copy_rows, "mlu590-m9", 12)],
)
@pytest.mark.grid(2)
def test_cores_that_share_a_full_link_are_extrapolated(kernel: Any, board: str, clusters: int) -> None:
    """Cores drift apart at random, but the link does the same work in any case."""
    x = tensor(4 * clusters * 360, 4096)
    full, quick = full_and_steady(kernel, x, device=board)
    assert quick.steady.operations > len(full.log) / 3, quick.steady


@pytest.mark.slow
def test_clusters_with_barriers_of_their_own() -> None:
    """The memory core and the cores of a cluster skip equally many barriers: otherwise they would wait forever."""
    x = tensor(16 * 500, 4096)
    full, quick = full_and_steady(add_with_barriers, x, device="mlu370-x8")
    columns = [result.log.columns() for result in (full, quick)]
    rounds = [sorted(each["detail"][each["op"] == full.log.ops.index("sync_cluster")].tolist()) for each in columns]
    assert rounds[0] == rounds[1]


@pytest.mark.slow
def test_clusters_in_step_are_not_extrapolated() -> None:
    """Clusters that share a link may run in step for hundreds of iterations, and then fall out of it and slow down."""
    x = tensor(32 * 411, 1600)
    full, quick = full_and_steady(add_with_barriers, x, device="mlu370-x8", dim=(4, 8, 1))
    assert quick.time_ps == full.time_ps
    assert quick.steady.refused


@pytest.mark.parametrize("kernel", [changes, stops])
@pytest.mark.grid(2)
def test_tasks_that_do_not_continue_as_expected(kernel: Any) -> None:
    """Only the first and the last task are known in advance; if others differ, the run is repeated in full."""
    x = tensor(32 * 300, 4096)
    full, quick = full_and_steady(kernel, x, device="mlu370-x4")
    assert quick.time_ps == full.time_ps
    assert "do not repeat the same operations until the end" in quick.steady.refused


def test_errors_of_skipped_operations() -> None:
    x = tensor(16 * 300, 4096)
    messages = []
    for steady in (False, True):
        with pytest.raises(CopyError) as raised:
            timed(fails, x, device="mlu370-x8", steady=steady)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("board", ["mlu370-x4", "mlu590-h8"])
@pytest.mark.grid(2)
def test_operators(board: str) -> None:
    x = tensor(96, 1024, 1024)
    for run in (ops.cast, ops.reverse):
        arguments: tuple[Any, ...] = (x, "float16") if run is ops.cast else (x, 0)
        full = run(*arguments, device=board, data=False)
        same_but_for_times(full, run(*arguments, device=board, data=False, steady=True))


def test_data_dependent_kernels_are_simulated_in_full() -> None:
    x, lengths = tensor(800, 512), np.random.default_rng(0).integers(1, 512, 800).astype(np.int32)
    full = timed(by_value, x, lengths, dim=(4, 1, 1))
    quick = timed(by_value, x, lengths, steady=True, dim=(4, 1, 1))
    assert quick.time_ps == full.time_ps
    assert quick.steady.operations == 0
    assert "load values" in quick.steady.refused
    assert "simulated in full" in quick.steady.text(quick.time_ps)


def test_loops_of_rows_are_simulated_in_full() -> None:
    x, index = tensor(4096, 64), np.random.default_rng(0).integers(0, 4096, (8192, 64))
    full = ops.gather(x, index, device="mlu370-x4", data=False)
    quick = ops.gather(x, index, device="mlu370-x4", data=False, steady=True)
    assert quick.time_ps == full.time_ps
    assert quick.steady.refused


def test_steady_needs_a_timing_only_run() -> None:
    with pytest.raises(InputError, match="add data=False"):
        ops.cast(np.ones(8, np.float32), "float16", steady=True)
    with pytest.raises(InputError, match="drop one of them"):
        ops.cast(np.ones(8, np.float32), "float16", steady=True, data=False, check=True)
    with pytest.raises(InputError, match="add data=False"):
        mlusim.sweep("cast", shape=(8,), dtype="float16", data=True, steady=True)


def test_saved_runs_record_the_extrapolation(tmp_path: Path) -> None:
    x = tensor(1600, 4096)
    result = timed(copy_rows, x, steady=True, device="mlu590-h8", dim=(4, 1, 1))
    loaded = mlusim.load(result.save(tmp_path / "run.zip"))
    assert loaded.steady == result.steady
    assert loaded.steady.operations
    # Timed again, every operation is simulated.
    full = timed(copy_rows, x, device="mlu590-h8", dim=(4, 1, 1))
    assert mlusim.retime(loaded).time_ps == full.time_ps


def test_command_line() -> None:
    run = call("run", "cast", "--shape", "64,1024,1024", "--dtype", "float16", "--no-data", "--steady", "--json")
    assert run.exit_code == 0, run.output
    assert '"bound_ps"' in run.stdout
    said = call("run", "cast", "--shape", "64", "--dtype", "float16", "--no-data", "--steady")
    assert "simulated in full" in said.stdout
    refused = call("run", "cast", "--shape", "64,64", "--dtype", "float16", "--steady")
    assert refused.exit_code != 0
    assert "--no-data" in refused.output


def test_a_sweep_reports_the_extrapolated_part() -> None:
    found = mlusim.sweep("cast", dtype="float16", shape=[(8, 1024), (64, 1024, 1024)], workers=0, steady=True)
    assert {"extrapolated_us", "bound_us"} <= set(found.rows[0])

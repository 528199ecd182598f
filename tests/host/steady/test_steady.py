"""Steady-state timing compared with the full run: exact bytes, time within its bound, reasons for refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import mlusim
from mlusim import ops
from mlusim.cli import main
from mlusim.cores.core import Core
from mlusim.errors import CopyError, InputError
from mlusim.host.arguments import Output
from mlusim.memory.view import View
from mlusim.results.result import Result

# By how much a time may differ from that of the full run.
_MOST = 0.005


async def copy_rows(core: Core, x: View, out: View) -> None:
    """Blocking copies, row by row."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    for row in range(core.task_id, x.shape[0], core.task_dim):
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row], tile)


async def two_buffers(core: Core, x: View, out: View) -> None:
    """Loads a row while the row before is stored."""
    if core.is_memory_core:
        return
    tiles = [core.nram.alloc(x.shape[1], x.dtype) for _ in range(2)]
    rows = list(range(core.task_id, x.shape[0], core.task_dim))
    for step, row in enumerate([*rows, -1]):
        if step:
            core.memcpy_async(out[rows[step - 1]], tiles[(step - 1) % 2])
        if row >= 0:
            core.memcpy_async(tiles[step % 2], x[row])
        await core.sync()


async def ahead(core: Core, x: View, out: View) -> None:
    """Issues everything and waits once."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    for row in range(core.task_id, x.shape[0], core.task_dim):
        core.memcpy_async(tile, x[row])
        core.memcpy_async(out[row], tile)
    await core.sync()


async def add_with_barriers(core: Core, x: View, out: View) -> None:
    """Vector instructions between copies, all tasks of a cluster in step."""
    if core.is_memory_core:
        for _ in range(x.shape[0] // core.task_dim):
            await core.sync_cluster()
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    for turn in range(x.shape[0] // core.task_dim):
        row = turn * core.task_dim + core.task_id
        await core.memcpy(tile, x[row])
        core.add(tile, tile, tile)
        core.relu(tile, tile)
        await core.sync_cluster()
        await core.memcpy(out[row], tile)


async def three_buffers(core: Core, x: View, out: View) -> None:
    """Loads a row and stores another one while a third is computed on."""
    if core.is_memory_core:
        return
    tiles = [core.nram.alloc(x.shape[1], x.dtype) for _ in range(3)]
    rows = list(range(core.task_id, x.shape[0], core.task_dim))
    for step in range(len(rows) + 2):
        if step < len(rows):
            core.memcpy_async(tiles[step % 3], x[rows[step]])
        if 1 <= step <= len(rows):
            tile = tiles[(step - 1) % 3]
            for _ in range(4):
                core.add(tile, tile, tile)
        if step >= 2:
            core.memcpy_async(out[rows[step - 2]], tiles[(step - 2) % 3])
        await core.sync()


async def two_loops(core: Core, x: View, out: View) -> None:
    """Copies whole rows, then half rows; the tasks in the middle of the grid copy fewer."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    half = x.shape[1] // 2
    rows = range(core.task_id, x.shape[0] - 3 * (core.task_id % 2), core.task_dim)
    for row in rows[: len(rows) // 2]:
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row], tile)
    for row in rows[len(rows) // 2 :]:
        await core.memcpy(tile[half:], x[row, half:])
        await core.memcpy(out[row, half:], tile[half:])


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
    """Copies as many elements of a row as the data says."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    for row in range(core.task_id, x.shape[0], core.task_dim):
        length = await core.load(lengths[row])
        await core.memcpy(tile[:length], x[row, :length])
        await core.memcpy(out[row, :length], tile[:length])


def tensor(*shape: int) -> np.ndarray[Any, Any]:
    """A tensor of a size, which takes no memory."""
    return np.broadcast_to(np.zeros((), np.float32), shape)


def same_but_for_times(full: Result, quick: Result) -> None:
    """Everything that a log says of amounts is exact; the time is within the bound."""
    assert dict(quick.bytes_requested) == dict(full.bytes_requested)
    assert dict(quick.bus_bytes) == dict(full.bus_bytes)
    assert dict(quick.metrics.operations) == dict(full.metrics.operations)
    assert len(quick.log) == len(full.log)
    off = abs(quick.time_ps / full.time_ps - 1)
    assert off <= _MOST
    assert abs(quick.time_ps - full.time_ps) <= quick.steady.bound_ps
    assert quick.steady.bound_ps <= _MOST * quick.time_ps
    columns = quick.log.columns()
    assert (columns["issue_ps"] <= columns["start_ps"]).all()
    assert (columns["start_ps"] <= columns["end_ps"]).all()
    assert columns["end_ps"].max() <= max(launch.end_ps for launch in quick.log.launches)


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
    given_: dict[str, Any] = {"device": board, "dim": (4, 1, 1), "data": False}
    full = mlusim.run(kernel, x, Output(x.shape, "float32"), **given_)
    quick = mlusim.run(kernel, x, Output(x.shape, "float32"), steady=True, **given_)
    same_but_for_times(full, quick)
    assert quick.steady.operations > len(full.log) / 2, quick.steady
    assert full.steady.to_json() is None
    assert "extrapolated" in quick.steady.text(quick.time_ps)


_KERNELS = [copy_rows, two_buffers, ahead, add_with_barriers, two_loops]
_BOARDS = ["mlu270-s4", "mlu370-x4", "mlu370-x8", "mlu290", "mlu590-h8", "mlu590-m9"]


def check_law(kernel: Any, board: str, clusters: int, waves: int, rows: int, columns: int) -> None:
    """Rows of each task in a run with steady-state timing, against the full run."""
    tasks = 4 * clusters * waves
    if kernel is add_with_barriers:
        # Vector instructions of the oldest board need whole 128 B; every task has to reach each barrier.
        x = tensor(rows * tasks, -(-columns // 32) * 32)
    else:
        x = tensor(rows * tasks + rows % 3, columns)
    given_: dict[str, Any] = {"device": board, "dim": (4, clusters, waves), "data": False}
    full = mlusim.run(kernel, x, Output(x.shape, "float32"), **given_)
    same_but_for_times(full, mlusim.run(kernel, x, Output(x.shape, "float32"), steady=True, **given_))


@pytest.mark.parametrize(
    ("kernel", "board", "clusters", "waves", "rows", "columns"),
    [
        # Rows are not aligned, so each task has a pace of its own, and they drift apart in proportion to the time.
        (ahead, "mlu590-h8", 4, 1, 489, 1702),
        (ahead, "mlu590-h8", 2, 2, 748, 4711),
        (two_buffers, "mlu590-h8", 2, 2, 831, 3059),
        # The link is full by chance, and the tasks of a second wave begin in an order that the first one decides.
        pytest.param(three_buffers, "mlu270-s4", 3, 2, 785, 448, marks=pytest.mark.slow),
    ],
)
def test_law_of_runs_whose_future_differs_from_their_past(
    kernel: Any, board: str, clusters: int, waves: int, rows: int, columns: int
) -> None:
    """Runs whose error was beyond the bound once."""
    check_law(kernel, board, clusters, waves, rows, columns)


@pytest.mark.slow
@pytest.mark.parametrize("gigabytes", [6, 12])
def test_law_where_the_ports_of_clusters_are_full(gigabytes: int) -> None:
    """On MLU290, only the cores of a cluster speed up when one of them ends."""
    x = tensor(235 * gigabytes, 1024, 1024)
    full, quick = (ops.cast(x, "float16", device="mlu290", data=False, steady=steady) for steady in (False, True))
    assert abs(quick.time_ps / full.time_ps - 1) <= _MOST
    assert dict(quick.bus_bytes) == dict(full.bus_bytes)
    assert gigabytes < 12 or quick.steady.operations


def test_loops_behind_each_other_on_a_full_link_are_simulated() -> None:
    """How long the second one takes depends on how the tasks overtake each other in the first one."""
    x = tensor(16 * 600, 4096)
    given_: dict[str, Any] = {"device": "mlu270-s4", "dim": (4, 4, 1), "data": False}
    quick = mlusim.run(two_loops, x, Output(x.shape, "float32"), steady=True, **given_)
    assert "what follows its loops" in quick.steady.refused


@settings(max_examples=12, deadline=None)
@given(
    kernel=st.sampled_from(_KERNELS),
    board=st.sampled_from(_BOARDS),
    clusters=st.integers(1, 4),
    waves=st.integers(1, 3),
    rows=st.integers(1, 150),
    columns=st.integers(2, 3000),
)
def test_steady_time_and_bytes_match_the_full_run(
    kernel: Any, board: str, clusters: int, waves: int, rows: int, columns: int
) -> None:
    check_law(kernel, board, clusters, waves, rows, columns)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    kernel=st.sampled_from(_KERNELS),
    board=st.sampled_from(_BOARDS),
    clusters=st.sampled_from([1, 2, 4, 8, 12, 16]),
    waves=st.integers(1, 2),
    rows=st.integers(30, 600),
    columns=st.integers(2, 20_000),
)
def test_law_of_large_runs(kernel: Any, board: str, clusters: int, waves: int, rows: int, columns: int) -> None:
    check_law(kernel, board, clusters, waves, rows, columns)


@pytest.mark.parametrize(
    ("kernel", "board", "clusters"),
    [(copy_rows, "mlu370-x4", 8), (ahead, "mlu370-s4", 6), (two_buffers, "mlu270-s4", 4), (copy_rows, "mlu590-m9", 12)],
)
def test_cores_that_share_a_full_link_are_extrapolated(kernel: Any, board: str, clusters: int) -> None:
    """Cores drift apart at random, but the link does the same work in any case."""
    x = tensor(4 * clusters * 360, 4096)
    given_: dict[str, Any] = {"device": board, "data": False}
    full = mlusim.run(kernel, x, Output(x.shape, "float32"), **given_)
    quick = mlusim.run(kernel, x, Output(x.shape, "float32"), steady=True, **given_)
    same_but_for_times(full, quick)
    assert quick.steady.operations > len(full.log) / 3, quick.steady


def test_clusters_with_barriers_of_their_own() -> None:
    """The memory core and the cores of a cluster skip equally many barriers: otherwise they would wait forever."""
    x = tensor(16 * 500, 4096)
    given_: dict[str, Any] = {"device": "mlu370-x8", "data": False}
    full = mlusim.run(add_with_barriers, x, Output(x.shape, "float32"), **given_)
    quick = mlusim.run(add_with_barriers, x, Output(x.shape, "float32"), steady=True, **given_)
    same_but_for_times(full, quick)
    columns = [result.log.columns() for result in (full, quick)]
    rounds = [sorted(each["detail"][each["op"] == full.log.ops.index("sync_cluster")].tolist()) for each in columns]
    assert rounds[0] == rounds[1]


def test_clusters_in_step_are_not_extrapolated() -> None:
    """Clusters that share a link may run in step for hundreds of iterations, and then fall out of it and slow down."""
    x = tensor(32 * 411, 1600)
    given_: dict[str, Any] = {"device": "mlu370-x8", "dim": (4, 8, 1), "data": False}
    full = mlusim.run(add_with_barriers, x, Output(x.shape, "float32"), **given_)
    same_but_for_times(full, mlusim.run(add_with_barriers, x, Output(x.shape, "float32"), steady=True, **given_))


@pytest.mark.parametrize("kernel", [changes, stops])
def test_tasks_that_do_not_continue_as_expected(kernel: Any) -> None:
    """Only the first and the last task are known in advance; if others differ, the run is repeated in full."""
    x = tensor(32 * 300, 4096)
    given_: dict[str, Any] = {"device": "mlu370-x4", "data": False}
    full = mlusim.run(kernel, x, Output(x.shape, "float32"), **given_)
    quick = mlusim.run(kernel, x, Output(x.shape, "float32"), steady=True, **given_)
    same_but_for_times(full, quick)
    assert quick.time_ps == full.time_ps
    assert "do not repeat the same operations until the end" in quick.steady.refused


def test_errors_of_skipped_operations() -> None:
    x = tensor(16 * 300, 4096)
    messages = []
    for steady in (False, True):
        with pytest.raises(CopyError) as raised:
            mlusim.run(fails, x, Output(x.shape, "float32"), device="mlu370-x8", data=False, steady=steady)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("board", ["mlu370-x4", "mlu590-h8"])
def test_operators(board: str) -> None:
    x = tensor(96, 1024, 1024)
    for run in (ops.cast, ops.reverse):
        arguments: tuple[Any, ...] = (x, "float16") if run is ops.cast else (x, 0)
        full = run(*arguments, device=board, data=False)
        same_but_for_times(full, run(*arguments, device=board, data=False, steady=True))


def test_data_dependent_kernels_are_simulated_in_full() -> None:
    x, lengths = tensor(800, 512), np.random.default_rng(0).integers(1, 512, 800).astype(np.int32)
    given_: dict[str, Any] = {"dim": (4, 1, 1), "data": False}
    full = mlusim.run(by_value, x, lengths, Output(x.shape, "float32"), **given_)
    quick = mlusim.run(by_value, x, lengths, Output(x.shape, "float32"), steady=True, **given_)
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
    given_: dict[str, Any] = {"device": "mlu590-h8", "dim": (4, 1, 1), "data": False}
    result = mlusim.run(copy_rows, x, Output(x.shape, "float32"), steady=True, **given_)
    loaded = mlusim.load(result.save(tmp_path / "run.zip"))
    assert loaded.steady == result.steady
    assert loaded.steady.operations
    # Timed again, every operation is simulated.
    full = mlusim.run(copy_rows, x, Output(x.shape, "float32"), **given_)
    assert mlusim.retime(loaded).time_ps == full.time_ps


def test_command_line() -> None:
    run = CliRunner().invoke(
        main, ["run", "cast", "--shape", "64,1024,1024", "--dtype", "float16", "--no-data", "--steady", "--json"]
    )
    assert run.exit_code == 0, run.output
    assert '"bound_ps"' in run.stdout
    said = CliRunner().invoke(main, ["run", "cast", "--shape", "64", "--dtype", "float16", "--no-data", "--steady"])
    assert "simulated in full" in said.stdout
    refused = CliRunner().invoke(main, ["run", "cast", "--shape", "64,64", "--dtype", "float16", "--steady"])
    assert refused.exit_code != 0
    assert "--no-data" in refused.output


def test_a_sweep_reports_the_extrapolated_part() -> None:
    found = mlusim.sweep("cast", dtype="float16", shape=[(8, 1024), (64, 1024, 1024)], workers=0, steady=True)
    assert {"extrapolated_us", "bound_us"} <= set(found.rows[0])

"""Loops declared by `core.loop`: the log equals that of the full run, although most iterations are not executed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import mlusim
from long_loops import ahead, timed
from mlusim import ops
from mlusim.cores.core import Core
from mlusim.errors import OperandError
from mlusim.host.arguments import Output
from mlusim.memory.view import View
from mlusim.results.result import Result

_TIMES = {"issue_ps", "start_ps", "end_ps", "latency_ps", "waited_for"}
_TABLES = {"op": "ops", "line": "lines", "dst_box": "boxes", "a_box": "boxes", "b_box": "boxes"}
# Iterations that the kernels below have executed.
executed = 0


def count() -> None:
    global executed  # noqa: PLW0603 - kernels have no other way out of the simulator
    executed += 1


async def rows(core: Core, x: View, out: View) -> None:
    """Blocking copies of rows."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    for row in core.loop(range(core.task_id, x.shape[0], core.task_dim)):
        count()
        await core.memcpy(tile, x[row])
        core.add(tile, tile, tile)
        await core.memcpy(out[row], tile)


async def swapped(core: Core, x: View, out: View) -> None:
    """Two buffers that change places, and a variable of the iteration before."""
    if core.is_memory_core:
        return
    full, empty = (core.nram.alloc(x.shape[1], x.dtype) for _ in range(2))
    before = None
    for row in core.loop(range(core.task_id, x.shape[0], core.task_dim)):
        count()
        if before is not None:
            core.memcpy_async(out[before], full)
        core.memcpy_async(empty, x[row])
        await core.sync()
        before, full, empty = row, empty, full
    if before is not None:
        await core.memcpy(out[before], full)


async def three_parts(core: Core, x: View, out: View) -> None:
    """Three parts of one buffer in turn, backward through the rows."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc((3, x.shape[1]), x.dtype)
    mine = range(core.task_id, x.shape[0], core.task_dim)
    for index in core.loop(range(len(mine))):
        count()
        row = mine[len(mine) - 1 - index]
        core.memcpy_async(tile[index % 3], x[row])
        core.memcpy_async(out[row], tile[index % 3])
        await core.sync()


async def uneven(core: Core, x: View, out: View) -> None:
    """Tiles that differ by 64 B here and there, in flat tensors."""
    if core.is_memory_core:
        return
    source, target = x.reshape(-1), out.reshape(-1)
    blocks = x.size // 16
    first, last = (blocks * task // core.task_dim for task in (core.task_id, core.task_id + 1))
    number = -(-(last - first) // 120)
    bounds = [(first + (last - first) * part // number) * 16 for part in range(number + 1)]
    tiles = list(pairwise(bounds))
    buffer = core.nram.alloc(max(stop - start for start, stop in tiles), x.dtype)
    for start, stop in core.loop(tiles):
        count()
        await core.memcpy(buffer[: stop - start], source[start:stop])
        await core.memcpy(target[start:stop], buffer[: stop - start])


async def by_name(core: Core, x: View, out: View) -> None:
    """Items that are not integers."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    for row in core.loop([str(row) for row in range(core.task_id, x.shape[0], core.task_dim)]):
        count()
        await core.memcpy(tile, x[int(row)])
        await core.memcpy(out[int(row)], tile)


async def leaves(core: Core, x: View, out: View) -> None:
    """Leaves a declared loop early, and continues in an ordinary one."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    mine = range(core.task_id, x.shape[0], core.task_dim)
    for row in core.loop(mine):
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row], tile)
        if row >= mine[2]:
            break
    for row in mine[3:]:
        count()
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row], tile)


async def breaks_promise(core: Core, x: View, out: View) -> None:
    """From the middle on, rows are stored elsewhere."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    for row in core.loop(range(core.task_id, x.shape[0], core.task_dim)):
        count()
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row if row < x.shape[0] // 2 else x.shape[0] - 1 - row + x.shape[0] // 2], tile)


async def by_value(core: Core, x: View, shifts: View, out: View) -> None:
    """Rows that are chosen by values: all equal but one."""
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype)
    for row in core.loop(range(core.task_id, x.shape[0], core.task_dim)):
        count()
        shift = await core.load(shifts[row])
        await core.memcpy(tile, x[(row + shift) % x.shape[0]])
        await core.memcpy(out[row], tile)


def tensor(*shape: int) -> np.ndarray[Any, Any]:
    """A tensor of this size that takes no memory."""
    return np.broadcast_to(np.zeros((), np.float32), shape)


def described(result: Result) -> list[Any]:
    """By task, what a log contains besides times."""
    log = result.log
    columns = log.columns()
    order = np.argsort(columns["task"], kind="stable")
    described_ = []
    for name, column in columns.items():
        if name in _TABLES:
            table = [repr(entry) for entry in getattr(log, _TABLES[name])]
            described_.append([table[number] if number >= 0 else "" for number in column[order].tolist()])
        elif name not in _TIMES:
            described_.append(column[order].tolist())
    return described_


def both(run: Callable[..., Result]) -> tuple[Result, Result, float]:
    """The full run, the steady one, and the part of the iterations of the first that the second has executed."""
    global executed  # noqa: PLW0603 - as above
    executed = 0
    full = run()
    of_full, executed = executed, 0
    quick = run(steady=True)
    assert abs(quick.time_ps / full.time_ps - 1) <= 0.005
    assert described(quick) == described(full)
    columns = quick.log.columns()
    assert (columns["issue_ps"] <= columns["start_ps"]).all()
    assert (columns["start_ps"] <= columns["end_ps"]).all()
    return full, quick, executed / max(of_full, 1)


@pytest.mark.parametrize("kernel", [rows, swapped, three_parts, uneven])
@pytest.mark.parametrize(("board", "clusters"), [("mlu270", 4), ("mlu590-h8", 1)])
def test_most_iterations_are_not_executed(kernel: Any, board: str, clusters: int) -> None:
    x = tensor(4 * clusters * 240, 4096)
    _, quick, part = both(partial(timed, kernel, x, device=board, dim=(4, clusters, 1)))
    assert quick.steady.operations > len(quick.log) / 2
    assert part < 0.6


@pytest.mark.parametrize("kernel", [by_name, leaves])
def test_iterations_are_executed_if_nothing_is_known_of_them(kernel: Any) -> None:
    x = tensor(4 * 240, 2048)
    _, quick, part = both(partial(timed, kernel, x, device="mlu590-h8", dim=(4, 1, 1)))
    assert quick.steady.operations
    assert part >= 1


def test_loops_whose_iterations_differ_are_simulated_in_full() -> None:
    x = tensor(4 * 240, 2048)
    full, quick, _ = both(partial(timed, breaks_promise, x, device="mlu590-h8", dim=(4, 1, 1)))
    assert quick.time_ps == full.time_ps
    assert "do not repeat the same operations until the end" in quick.steady.refused


@pytest.mark.parametrize("begin", [80, 110, 140, 170])
def test_a_tenth_of_the_iterations_differs(begin: int) -> None:
    """Each task executes other iterations as a check."""

    async def differs(core: Core, x: View, out: View) -> None:
        if core.is_memory_core:
            return
        tile = core.nram.alloc(x.shape[1], x.dtype)
        mine = range(core.task_id, x.shape[0], core.task_dim)
        for index in core.loop(range(len(mine))):
            await core.memcpy(tile, x[mine[index]])
            await core.memcpy(out[mine[0 if begin <= index < begin + 24 else index]], tile)

    x = tensor(4 * 240, 2048)
    _, quick, _ = both(partial(timed, differs, x, device="mlu590-h8", dim=(4, 1, 1)))
    assert "do not repeat the same operations until the end" in quick.steady.refused


def test_loops_that_depend_on_data_are_executed() -> None:
    """Also where the values are the same in all iterations so far."""
    x, shifts = tensor(4 * 240, 2048), np.ones(4 * 240, np.int32)
    shifts[700] = 5
    _, _, part = both(partial(timed, by_value, x, shifts, device="mlu590-h8", dim=(4, 1, 1)))
    assert part >= 1


@pytest.mark.parametrize("board", [pytest.param("mlu270", marks=pytest.mark.slow), "mlu370-x4"])
def test_operators(board: str) -> None:
    """The tiles of built-in kernels are uneven, and cover several axes."""
    x = tensor(200, 1024, 1024)
    both(partial(ops.cast, x, "float16", device=board, data=False))
    for axis in range(3):
        both(partial(ops.reverse, x, axis, device=board, data=False))


def test_a_loop_is_an_ordinary_one_otherwise() -> None:
    x = np.random.default_rng(0).standard_normal((37, 64)).astype(np.float32)
    assert np.array_equal(mlusim.run(rows, x, Output(x.shape, "float32"), dim=(4, 1, 1)).output, 2 * x)
    assert np.array_equal(mlusim.run(swapped, x, Output(x.shape, "float32"), dim=(4, 1, 1)).output, x)


def test_a_kernel_that_issues_ahead_of_its_pipe() -> None:
    """Small copies begin when they are issued: they do not begin earlier if others are left out."""
    for tasks, columns in ((4, 68), (8, 178)):
        x = tensor(tasks * 399, columns)
        both(partial(timed, ahead, x, device="mlu590-h8", dim=(4, tasks // 4, 1)))


def test_a_tile_that_differs_now_and_then_does_not_end_a_loop() -> None:
    """Of about 320 tiles, one is smaller: without the declaration, a loop would end there."""
    x = tensor(100, 1024, 1024)
    quick = ops.cast(x, "float16", device="mlu220-m2", nram_limit_bytes=65536, data=False, steady=True)
    assert quick.steady.operations > 0.9 * len(quick.log), quick.steady


@pytest.mark.parametrize("steady", [False, True])
@pytest.mark.parametrize(
    ("items", "along", "message"),
    [
        (3, None, "loop over 3, which is not a sequence: pass a range or a list"),
        (iter([1, 2]), None, "which is not a sequence"),
        ([1, 2], 5, "loop over 5, which is not a sequence"),
        ([1, 2], np.array(7), r"loop over array\(7\), which is not a sequence"),
        ([1], range(4), "loop over 1 item along 4: along may have at most one per item"),
    ],
)
def test_a_loop_is_over_a_sequence(items: Any, along: Any, message: str, steady: bool) -> None:
    async def kernel(core: Core) -> None:
        core.loop(items, along=along)

    with pytest.raises(OperandError, match=message):
        mlusim.run(kernel, data=False, steady=steady)

"""A change of one line with which every output is right is the first remedy, as it would be written there."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from functools import partial
from threading import Thread
from time import perf_counter
from types import FunctionType

import numpy as np
import pytest

from applied_remedies import ways_to_apply
from findings import X
from kernel_lines import at
from kernel_pairs import CASES as PAIRS
from kernel_pairs import report_of
from mlusim import InOut, Output, verify
from mlusim.host.silence import silent
from mlusim.verifier.changes import search
from mlusim.verifier.changes.source_changes import EVERY_OUTPUT


@pytest.fixture(autouse=True)
def _search(monkeypatch):
    monkeypatch.setattr(search, "MOST_COST", 30_000)


async def wrong_neighbour(core, x, out):
    box = core.sram.alloc((4, x.shape[1]), x.dtype, "box")
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    for row in range(core.core_id, 8, 4):
        await core.memcpy(tile, x[row])
        await core.memcpy(box[core.core_id], tile)
        await core.sync_all_ipu_within_cluster()
        await core.memcpy(tile, box[(core.core_id + 2) % 4])
        await core.memcpy(out[row], tile)
        await core.sync_all_ipu_within_cluster()


async def wrong_plane(core, x, out):
    planes = core.nram.alloc((3, x.shape[1]), x.dtype, "planes")
    acc = core.nram.alloc(x.shape[1], x.dtype, "acc")
    for z in range(8):
        await core.memcpy(planes[z % 3], x[z])
        if z >= 2:
            core.sub(acc, planes[z % 3], planes[(z - 1) % 3])
            await core.memcpy(out[z - 2], acc)


async def wrong_bound(core, x, out):
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    total = core.nram.alloc(x.shape[1], x.dtype, "total")
    core.write_zero(total)
    for row in range(7):
        await core.memcpy(tile, x[row])
        core.add(total, total, tile)
    await core.memcpy(out, total)


async def wrong_size(core, x, out):
    rows = core.nram.alloc((8, x.shape[1]), x.dtype, "rows")
    core.write_zero(rows)
    await core.memcpy(rows[:7], x[:7])
    await core.memcpy(out, rows)


async def no_zeros(core, x, out):
    acc = core.nram.alloc(x.shape[1], x.dtype, "acc")
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    for row in range(8):
        await core.memcpy(tile, x[row])
        if row % 2:
            core.sub(acc, acc, tile)
        else:
            core.write_zero(acc)
            core.add(acc, acc, tile)
        await core.memcpy(out[row], acc)


async def wrong_mode(core, x, out):
    tile = core.nram.alloc(x.shape, x.dtype, "tile")
    short = core.nram.alloc(x.shape, out.dtype, "short")
    await core.memcpy(tile, x)
    core.convert(short, tile, "tz")
    await core.memcpy(out, short)


async def shifted(core, x, out, shift):
    box = core.sram.alloc((4, x.shape[1]), x.dtype, "box")
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    await core.memcpy(tile, x[core.core_id])
    await core.memcpy(box[core.core_id], tile)
    await core.sync_all_ipu_within_cluster()
    await core.memcpy(dst=tile, src=box[(core.core_id + shift) % 4])
    await core.memcpy(out[core.task_id], tile)


class Copier:
    async def copy(self, core, x, out):
        tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
        for row in range(core.task_id, 3, core.task_dim):
            await core.memcpy(dst=tile, src=x[row])
            await core.memcpy(dst=out[row], src=tile)


def rows_of(core):
    return range(core.task_id, 3, core.task_dim)


async def by_helper(core, x, out):
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    for row in rows_of(core):
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row], tile)


async def mirrored(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    await core.memcpy(tile, x[2 * (3 - core.task_id)])
    await core.memcpy(out[core.task_id], tile)


async def short_copy(core, x, out):
    tile = core.nram.alloc(x.shape, x.dtype, "tile")
    await core.memcpy(tile[:7], x)
    await core.memcpy(out, tile)


async def swapped_index(core, x, out):
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    for row in range(8):
        await core.memcpy(tile, x[0:8, row])
        await core.memcpy(out[row], tile)


async def wrong_id(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    await core.memcpy(tile, x[core.core_id])
    await core.memcpy(out[core.task_id], tile)


class Adder:
    def __init__(self, core, x):
        self.core, self.tile = core, core.nram.alloc(x.shape[1], x.dtype, "tile")

    async def make(self, x, out, row):
        await self.core.memcpy(self.tile, x[row])
        self.core.sub(self.tile, self.tile, 3.0)
        await self.core.memcpy(out[row], self.tile)


async def by_method(core, x, out):
    adder = Adder(core, x)
    for row in range(8):
        await adder.make(x, out, row)


async def last_of_all(core, x, out):
    tile, total = core.nram.alloc(8, x.dtype, "tile"), 0.0
    await core.memcpy(tile, x[0])
    for column in range(8):
        total = await core.load(tile[column])
    core.store(out[0], total)


async def first_scale(core, x, out):
    tile = core.nram.alloc(8, x.dtype, "tile")
    scales = [2.0 * row for row in range(8)]
    for row in range(8):
        await core.memcpy(tile, x[row])
        core.mul(tile, tile, scales[0])
        await core.memcpy(out[row], tile)


async def first_part(core, x, out):
    tile = core.nram.alloc((8, 4), x.dtype, "tile")
    for begin in range(0, x.shape[1], 4):
        n = min(4, x.shape[1] - begin)
        await core.memcpy(tile[:, :n], x[:, :n])
        await core.memcpy(out[:, begin : begin + n], tile[:, :n])


async def one_slot(core, x, out):
    ring = core.nram.alloc((2, x.shape[1]), x.dtype, "ring")
    await core.memcpy(ring[0], x[0])
    for row in range(8):
        if row < 7:
            await core.memcpy(ring[(row + 1) % 2], x[row + 1])
        core.neg(ring[row % 2], ring[row % 2])
        await core.memcpy(out[row], ring[0])


async def narrow_barrier(core, x, space, out):
    if core.is_memory_core:
        return
    tile, task = core.nram.alloc(8, x.dtype, "tile"), core.task_id
    await core.memcpy(tile, x[task])
    await core.memcpy(space[task], tile)
    await core.sync_all_ipu_within_cluster()
    await core.memcpy(tile, space[(task + 4) % 8])
    await core.memcpy(out[task], tile)


async def first_block(core, x, out):
    tile = core.nram.alloc((2, x.shape[1]), x.dtype, "tile")
    for row in range(7):
        await core.memcpy(tile[0], x[row + 1])
        await core.memcpy(tile[1], x[0])
        core.sub(tile[0], tile[0], tile[1])
        await core.memcpy(out[row], tile[0])


async def no_offset(core, x, out):
    held = core.nram.alloc(4, x.dtype, "held")
    for row in range(8):
        for begin in range(0, 8, 4):
            await core.memcpy(held, x[row, 0:4])
            await core.memcpy(out[row, begin : begin + 4], held)


async def lost_clear(core, x, out):
    tile, acc = (core.nram.alloc(8, x.dtype, name) for name in ("tile", "acc"))
    core.write_zero(acc)
    for half in range(2):
        for row in range(4):
            await core.memcpy(tile, x[4 * half + row])
            core.add(acc, acc, tile)
        await core.memcpy(out[half], acc)


async def no_limit(core, x, out):
    tile = core.nram.alloc((3, x.shape[1]), x.dtype, "tile")
    for first in range(0, 8, 3):
        count = 3
        await core.memcpy(tile[:count], x[first : first + count])
        await core.memcpy(out[first : first + count], tile[:count])


async def loaded_row(core, x, out, index):
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    for place in range(8):
        row = await core.load(index[place])  # noqa: F841 - the fault
        await core.memcpy(tile, x[place])
        await core.memcpy(out[place], tile)


async def number_plus_one(core, x, out):
    tile = core.nram.alloc(8, x.dtype, "tile")
    bounds = [0, 2, 1, 4, 3, 6, 5, 7, math.floor(0.5)]
    for number in range(8):
        await core.memcpy(tile, x[bounds[number] + 1])
        await core.memcpy(out[number], tile)


async def swapped_counters(core, x, out):
    tile = core.nram.alloc((4, 2), x.dtype, "tile")
    for first in range(0, 8, 4):
        for column in range(0, 8, 2):
            await core.memcpy(tile, x[first : first + 4, column : column + 2])
            await core.memcpy(out[column : column + 4, first : first + 2], tile)


async def whole_tile(core, x, out):
    tile, top = core.nram.alloc((4, 8), x.dtype, "tile"), core.nram.alloc(8, x.dtype, "top")
    for first in range(0, 8, 3):
        n = min(3, 8 - first)
        await core.memcpy(tile[:n], x[first : first + n])
        core.max_rows(top, tile)
        await core.memcpy(out[first // 3], top)


async def not_guarded(core, x, out):
    if core.is_memory_core:
        return
    tile = core.nram.alloc(8, x.dtype, "tile")
    await core.memcpy(tile, x[core.task_id])
    await core.memcpy(out[core.task_id], tile)


async def not_renewed(core, x, out):
    tile = core.nram.alloc(8, x.dtype, "tile")
    before = 0.0
    for row in range(8):
        await core.memcpy(tile, x[row])
        value = await core.load(tile[0])  # noqa: F841 - the fault
        core.add(tile, tile, before)
        await core.memcpy(out[row], tile)


async def not_multiplied(core, x, out):
    tile, gain = (core.nram.alloc(8, x.dtype, name) for name in ("tile", "gain"))
    await core.memcpy(gain, x[1])
    for row in range(8):
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row], tile)


async def not_unlocked(core, x, out):
    tile = core.nram.alloc(8, x.dtype, "tile")
    for row in range(2):
        await core.lock(row // 2)
        await core.memcpy(tile, x[row])
        await core.memcpy(out[row], tile)


async def not_set(core, x, out, flags):
    if core.is_memory_core:
        return
    tile, seen = core.nram.alloc(8, x.dtype, "tile"), core.nram.alloc(1, "int32", "seen")
    if core.task_id == 0:
        await core.memcpy(tile, x[0])
        await core.memcpy(out[0], tile)
        return
    while True:
        await core.atomic_add(seen, flags[0:1], 0)
        if await core.load(seen[0]) == 1:
            break
    await core.memcpy(tile, out[0])
    await core.memcpy(out[core.task_id], tile)


async def early_return(core, x, out):
    box = core.sram.alloc(x.shape[1], x.dtype, "box")
    if core.is_memory_core:
        await core.memcpy(box, x[0])
        return
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    await core.sync_cluster()
    await core.memcpy(tile, box)
    await core.memcpy(out[core.core_id], tile)


async def barrier_in_a_branch(core, x, out):
    box = core.sram.alloc((4, x.shape[1]), x.dtype, "box")
    if core.is_memory_core:
        return
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    await core.memcpy(tile, x[core.core_id])
    if core.core_id < 3:
        await core.memcpy(box[core.core_id], tile)
        await core.sync_all_ipu()
    if core.core_id:
        await core.memcpy(tile, box[core.core_id - 1])
    await core.memcpy(out[core.core_id], tile)


def test_a_barrier_that_some_tasks_skip_moves_out_of_the_branch():
    (hang,) = verify(barrier_in_a_branch, X, Output((4, 8)), reference=X[[0, 0, 1, 2]], dim=4).errors
    line, branch = (at(barrier_in_a_branch, text) for text in ("sync_all_ipu", "core_id < 3"))
    assert (
        hang.remedies[0]
        == f"move `await core.sync_all_ipu()` at {line} below the `if` at {branch}: then {EVERY_OUTPUT}"
    )


def test_a_barrier_that_a_hang_lacks_is_named_with_its_place():
    expected = np.repeat(X[:1], 4, 0)
    (hang,) = verify(early_return, X, Output.like(expected), reference=expected, dim=4).errors
    line = at(early_return, "  return")
    assert f"write `await core.sync_cluster()` before {line}: then {EVERY_OUTPUT}" in hang.remedies


def test_another_barrier_in_place_of_one_comes_first():
    outputs, expected = (Output.like(X), Output.like(X)), {"out": np.roll(X, 4, 0)}
    (race,) = verify(narrow_barrier, X, *outputs, reference=expected, kind="UNION2", dim=8).errors
    assert race.remedies[0].startswith(
        "write `core.sync_all_ipu()` in place of `core.sync_all_ipu_within_cluster()` at "
    )


def test_a_flag_that_no_task_sets_is_named_and_set():
    expected = {"out": np.repeat(X[:1], 4, 0)}
    arguments = X, Output((4, 8)), InOut(np.zeros(4, np.int32))
    (endless,) = verify(not_set, *arguments, reference=expected, dim=4, max_operations=20_000).errors
    line = at(not_set, "memcpy(out[0], tile)")
    assert endless.kind == "endless"
    assert endless.region == "flags[0], 4 B"
    assert endless.remedies[:2] == (
        f"write `await core.atomic_reduce_exch(flags[0:1], 1)` after {line}: then {EVERY_OUTPUT}",
        "let another task set flags by an atomic once what task 2 waits for is done: nothing else writes it",
    )


def test_a_hang_in_a_kernel_with_an_inner_function_is_searched():
    async def with_inner(core, x, out):
        def row():
            return core.core_id

        await early_return(core, x, out[row() :] if not core.is_memory_core and row() > 3 else out)

    expected = np.repeat(X[:1], 4, 0)
    (hang,) = verify(with_inner, X, Output.like(expected), reference=expected, dim=4).errors
    assert (
        f"write `await core.sync_cluster()` before {at(early_return, '  return')}: then {EVERY_OUTPUT}" in hang.remedies
    )


def test_a_kernel_that_is_not_what_its_file_says_is_not_changed_there():
    code = wrong_bound.__code__
    kernel = FunctionType(code.replace(co_consts=tuple(6 if one == 7 else one for one in code.co_consts)), globals())
    (finding,) = verify(kernel, X, Output(8), reference=X.sum(0), kind="BLOCK", dim=1).errors
    assert not finding.remedies[0].startswith("write `")


FAULTY = [case for case in PAIRS if case.kind]
SIGNS = np.array([1, -1] * 4, np.float32)[:, None]
CUBES = X**3
PERMUTED = np.array([3, 0, 7, 1, 6, 2, 5, 4], np.int32)
BLOCK, UNION = {"kind": "BLOCK", "dim": 1}, {"dim": 4}
CASES = [
    (wrong_neighbour, X.reshape(2, 4, 8)[:, [1, 2, 3, 0]].reshape(8, 8), UNION, "write `box[(core.core_id + 1) % 4]`"),
    (wrong_plane, X[2:] - X[:-2], BLOCK, "write `planes[(z - 2) % 3]` in place of `planes[(z - 1) % 3]`"),
    (wrong_bound, X.sum(0), BLOCK, "write `range(8)` in place of `range(7)`"),
    (wrong_size, X, BLOCK, "write `core.memcpy(rows[:8], x[:8])` in place of"),
    (no_zeros, X * SIGNS, BLOCK, "write `core.write_zero(acc)` before test_changes.py:"),
    (partial(shifted, shift=2), X[[1, 2, 3, 0]], UNION, "write `box[(core.core_id - 1 + shift) % 4]`"),
    (Copier().copy, X[:4], BLOCK, "write `range(core.task_id, 4, core.task_dim)`"),
    (by_helper, X[:4], BLOCK, "write `range(core.task_id, 4, core.task_dim)`"),
    (short_copy, X, BLOCK, "write `tile[:8]` in place of `tile[:7]`"),
    (mirrored, X[::2], UNION, "write `x[2 * core.task_id]` in place of `x[2 * (3 - core.task_id)]`"),
    (swapped_index, X, BLOCK, "write `x[row, 0:8]` in place of `x[0:8, row]`"),
    (wrong_id, X, {"dim": 8, "kind": "UNION2"}, "write `x[core.task_id]` in place of `x[core.core_id]`"),
    (wrong_mode, (X / 3).astype(np.float16), BLOCK, "write `core.convert("),
    (by_method, X + 3, BLOCK, "write `self.core.add(self.tile, self.tile, 3.0)` in place of `self.core.sub(self.tile,"),
    (first_scale, X * 2 * np.arange(8, dtype=X.dtype)[:, None], BLOCK, "write `scales[row]` in place of `scales[0]`"),
    (one_slot, -X, BLOCK, "write `ring[row % 2]` in place of `ring[0]`"),
    (first_part, X, BLOCK, "write `x[:, begin:begin + n]` in place of `x[:, :n]`"),
    (first_block, CUBES[1:] - CUBES[:-1], BLOCK, "write `x[row]` in place of `x[0]`"),
    (no_offset, X, BLOCK, "write `x[row, begin:begin + 4]` in place of `x[row, 0:4]`"),
    (lost_clear, X.reshape(2, 4, 8).sum(1), BLOCK, "write `core.write_zero(acc)` before test_changes.py:"),
    (no_limit, X, BLOCK, "write `count = min(3, x.shape[0] - first)`"),
    (loaded_row, X[PERMUTED], {**BLOCK, "index": PERMUTED}, "write `x[row]` in place of `x[place]`"),
    (
        number_plus_one,
        X[[2, 1, 4, 3, 6, 5, 7, 0]],
        BLOCK,
        "write `x[bounds[number + 1]]` in place of",
    ),
    (swapped_counters, X, BLOCK, "write `out[first:first + 4, column:column + 2]` in place of"),
    (whole_tile, -X[[0, 3, 6]], BLOCK, "write `core.max_rows(top, tile[:n])` in place of"),
    (not_guarded, X, {"dim": 12}, "write `if core.task_id >= x.shape[0]: return` before test_changes.py:"),
    (not_renewed, X + np.array([[0], *X[:-1, :1]], X.dtype), BLOCK, "write `before = value` after test_changes.py:"),
    (not_multiplied, X * X[1], BLOCK, "write `core.mul(tile, tile, gain)` before test_changes.py:"),
    (not_unlocked, X[:2], BLOCK, "write `await core.unlock(row // 2)` after test_changes.py:"),
    (last_of_all, X[0].sum(keepdims=True), BLOCK, "write `total = total + await core.load(tile[column])`"),
]


@pytest.mark.parametrize(("kernel", "expected", "options", "remedy"), CASES, ids=range(len(CASES)))
def test_the_change_that_fixes_comes_first(kernel, expected, options, remedy):
    x = {wrong_mode: X / 3, first_block: CUBES, whole_tile: -X}.get(kernel, X)
    (finding,) = verify(kernel, x, Output(expected.shape, expected.dtype), reference=expected, **options).errors
    assert finding.remedies[0].startswith(remedy), finding.text()
    assert finding.remedies[0].endswith(EVERY_OUTPUT)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", FAULTY, ids=[f"{case.name}-{case.fault}" for case in FAULTY])
def test_a_change_of_the_source_fixes_as_it_is_written(case, tmp_path):
    for finding in report_of(case, tmp_path).errors:
        for number, remedy in enumerate(finding.remedies):
            if remedy.startswith("write `"):
                for lines in ways_to_apply(replace(finding, remedies=(remedy,)), case.lines):
                    report = report_of(case._replace(lines=lines), tmp_path / f"fixed {number}")
                    assert report.ok, f"{remedy}\n{report.text()}"


async def until_equal(core, x, out):
    first = core.nram.alloc(x.shape[1], x.dtype, "first")
    step = 0
    while step != 8:
        step += 2
    await core.memcpy(first, x[step - 8])
    await core.memcpy(out[0], first)


@pytest.mark.slow
def test_changes_that_make_a_loop_endless_end_the_search():
    begin = perf_counter()
    (error,) = verify(until_equal, X[:8], Output((2, 8), np.float32), dim=1, kind="BLOCK", reference=X[:2]).errors
    assert error.kind == "never-written"
    # Each of two takes less than a second; without a limit of their own, many would take 20 s each.
    assert perf_counter() - begin < 20


def test_the_search_drops_what_its_thread_prints_and_no_other(capsys):
    with silent():
        sys.stdout.write("of this thread\n")
        other = Thread(target=sys.stdout.write, args=("of another\n",))
        other.start()
        other.join()
    sys.stdout.write("after\n")
    assert capsys.readouterr().out == "of another\nafter\n"

"""A change of one line with which every output is right is the first remedy, as it would be written there."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from threading import Thread
from time import perf_counter
from types import FunctionType

import numpy as np
import pytest

import one_line_faults as faulty
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


def test_a_barrier_that_some_tasks_skip_moves_out_of_the_branch():
    (hang,) = verify(faulty.barrier_in_a_branch, X, Output((4, 8)), reference=X[[0, 0, 1, 2]], dim=4).errors
    line, branch = (at(faulty.barrier_in_a_branch, text) for text in ("sync_all_ipu", "core_id < 3"))
    assert (
        hang.remedies[0]
        == f"move `await core.sync_all_ipu()` at {line} below the `if` at {branch}: then {EVERY_OUTPUT}"
    )


def test_a_barrier_that_a_hang_lacks_is_named_with_its_place():
    expected = np.repeat(X[:1], 4, 0)
    (hang,) = verify(faulty.early_return, X, Output.like(expected), reference=expected, dim=4).errors
    line = at(faulty.early_return, "  return")
    assert f"write `await core.sync_cluster()` before {line}: then {EVERY_OUTPUT}" in hang.remedies


def test_another_barrier_in_place_of_one_comes_first():
    outputs, expected = (Output.like(X), Output.like(X)), {"out": np.roll(X, 4, 0)}
    (race,) = verify(faulty.narrow_barrier, X, *outputs, reference=expected, kind="UNION2", dim=8).errors
    assert race.remedies[0].startswith(
        "write `core.sync_all_ipu()` in place of `core.sync_all_ipu_within_cluster()` at "
    )


def test_a_flag_that_no_task_sets_is_named_and_set():
    expected = {"out": np.repeat(X[:1], 4, 0)}
    arguments = X, Output((4, 8)), InOut(np.zeros(4, np.int32))
    (endless,) = verify(faulty.not_set, *arguments, reference=expected, dim=4, max_operations=20_000).errors
    line = at(faulty.not_set, "memcpy(out[0], tile)")
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

        await faulty.early_return(core, x, out[row() :] if not core.is_memory_core and row() > 3 else out)

    expected = np.repeat(X[:1], 4, 0)
    (hang,) = verify(with_inner, X, Output.like(expected), reference=expected, dim=4).errors
    assert (
        f"write `await core.sync_cluster()` before {at(faulty.early_return, '  return')}: then {EVERY_OUTPUT}"
        in hang.remedies
    )


def test_a_kernel_that_is_not_what_its_file_says_is_not_changed_there():
    code = faulty.wrong_bound.__code__
    kernel = FunctionType(
        code.replace(co_consts=tuple(6 if one == 7 else one for one in code.co_consts)), faulty.wrong_bound.__globals__
    )
    (finding,) = verify(kernel, X, Output(8), reference=X.sum(0), kind="BLOCK", dim=1).errors
    assert not finding.remedies[0].startswith("write `")


FAULTY = [case for case in PAIRS if case.kind]
SIGNS = np.array([1, -1] * 4, np.float32)[:, None]
CUBES = X**3
PERMUTED = np.array([3, 0, 7, 1, 6, 2, 5, 4], np.int32)
BLOCK, UNION = {"kind": "BLOCK", "dim": 1}, {"dim": 4}
CASES = [
    (
        faulty.wrong_neighbour,
        X.reshape(2, 4, 8)[:, [1, 2, 3, 0]].reshape(8, 8),
        UNION,
        "write `box[(core.core_id + 1) % 4]`",
    ),
    (faulty.wrong_plane, X[2:] - X[:-2], BLOCK, "write `planes[(z - 2) % 3]` in place of `planes[(z - 1) % 3]`"),
    (faulty.wrong_bound, X.sum(0), BLOCK, "write `range(8)` in place of `range(7)`"),
    (faulty.wrong_size, X, BLOCK, "write `core.memcpy(rows[:8], x[:8])` in place of"),
    (faulty.no_zeros, X * SIGNS, BLOCK, "write `core.write_zero(acc)` before one_line_faults.py:"),
    (partial(faulty.shifted, shift=2), X[[1, 2, 3, 0]], UNION, "write `box[(core.core_id - 1 + shift) % 4]`"),
    (faulty.Copier().copy, X[:4], BLOCK, "write `range(core.task_id, 4, core.task_dim)`"),
    (faulty.by_helper, X[:4], BLOCK, "write `range(core.task_id, 4, core.task_dim)`"),
    (faulty.short_copy, X, BLOCK, "write `tile[:8]` in place of `tile[:7]`"),
    (faulty.mirrored, X[::2], UNION, "write `x[2 * core.task_id]` in place of `x[2 * (3 - core.task_id)]`"),
    (faulty.swapped_index, X, BLOCK, "write `x[row, 0:8]` in place of `x[0:8, row]`"),
    (faulty.wrong_id, X, {"dim": 8, "kind": "UNION2"}, "write `x[core.task_id]` in place of `x[core.core_id]`"),
    (faulty.wrong_mode, (X / 3).astype(np.float16), BLOCK, "write `core.convert("),
    (
        faulty.by_method,
        X + 3,
        BLOCK,
        "write `self.core.add(self.tile, self.tile, 3.0)` in place of `self.core.sub(self.tile,",
    ),
    (
        faulty.first_scale,
        X * 2 * np.arange(8, dtype=X.dtype)[:, None],
        BLOCK,
        "write `scales[row]` in place of `scales[0]`",
    ),
    (faulty.one_slot, -X, BLOCK, "write `ring[row % 2]` in place of `ring[0]`"),
    (faulty.first_part, X, BLOCK, "write `x[:, begin:begin + n]` in place of `x[:, :n]`"),
    (faulty.first_block, CUBES[1:] - CUBES[:-1], BLOCK, "write `x[row]` in place of `x[0]`"),
    (faulty.no_offset, X, BLOCK, "write `x[row, begin:begin + 4]` in place of `x[row, 0:4]`"),
    (faulty.lost_clear, X.reshape(2, 4, 8).sum(1), BLOCK, "write `core.write_zero(acc)` before one_line_faults.py:"),
    (faulty.no_limit, X, BLOCK, "write `count = min(3, x.shape[0] - first)`"),
    (faulty.loaded_row, X[PERMUTED], {**BLOCK, "index": PERMUTED}, "write `x[row]` in place of `x[place]`"),
    (
        faulty.number_plus_one,
        X[[2, 1, 4, 3, 6, 5, 7, 0]],
        BLOCK,
        "write `x[bounds[number + 1]]` in place of",
    ),
    (faulty.swapped_counters, X, BLOCK, "write `out[first:first + 4, column:column + 2]` in place of"),
    (faulty.whole_tile, -X[[0, 3, 6]], BLOCK, "write `core.max_rows(top, tile[:n])` in place of"),
    (faulty.not_guarded, X, {"dim": 12}, "write `if core.task_id >= x.shape[0]: return` before one_line_faults.py:"),
    (
        faulty.not_renewed,
        X + np.array([[0], *X[:-1, :1]], X.dtype),
        BLOCK,
        "write `before = value` after one_line_faults.py:",
    ),
    (faulty.not_multiplied, X * X[1], BLOCK, "write `core.mul(tile, tile, gain)` before one_line_faults.py:"),
    (faulty.not_unlocked, X[:2], BLOCK, "write `await core.unlock(row // 2)` after one_line_faults.py:"),
    (faulty.flipped, X[0].max(keepdims=True), BLOCK, "write `value > best` in place of `value < best`"),
    (faulty.not_begun_again, X.sum(1), BLOCK, "write `total = 0.0` before one_line_faults.py:"),
    (faulty.column_of_part, np.array([5], np.float32), BLOCK, "write `core.store(out[0], left + column)` in place of"),
    (faulty.last_of_all, X[0].sum(keepdims=True), BLOCK, "write `total = total + await core.load(tile[column])`"),
]


@pytest.mark.parametrize(("kernel", "expected", "options", "remedy"), CASES, ids=range(len(CASES)))
def test_the_change_that_fixes_comes_first(kernel, expected, options, remedy):
    x = {faulty.wrong_mode: X / 3, faulty.first_block: CUBES, faulty.whole_tile: -X}.get(kernel, X)
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


@pytest.mark.slow
def test_changes_that_make_a_loop_endless_end_the_search():
    begin = perf_counter()
    (error,) = verify(
        faulty.until_equal, X[:8], Output((2, 8), np.float32), dim=1, kind="BLOCK", reference=X[:2]
    ).errors
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


def test_a_step_that_lacks_the_number_of_cores_gets_it():
    expected, out = 2 * X.sum(0), InOut(np.zeros(8, np.float32))
    (error,) = verify(faulty.short_step, X, out, reference=expected, kind="UNION2", dim=8).errors
    assert error.remedies[0].startswith("write `row += clusters * core.core_dim` in place of `row += clusters` at ")


def test_an_input_that_nothing_reads_takes_the_place_of_one_that_is_read_twice():
    (error,) = verify(faulty.second_twice, X, X + 1, Output.like(X), reference=-np.ones_like(X), **BLOCK).errors
    assert error.remedies[0].startswith("write `core.memcpy(second, y)` in place of `core.memcpy(second, x)`")

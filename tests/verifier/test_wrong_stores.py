"""A store to a wrong address or tensor is one finding, with all its consequences."""

from __future__ import annotations

from typing import Any

import numpy as np

import mlusim
from mlusim import Output
from mlusim.cores.core import Core

X = np.arange(4 * 64, dtype=np.float32).reshape(4, 64)
BLOCK = {"dim": 4, "kind": "BLOCK"}


async def out_twice(core: Core, x: Any, out: Any, square: Any, *, second: int) -> None:
    """Store the squares to `out`, too; `square` gets nothing."""
    tile, product = core.nram.alloc(64, "float32"), core.nram.alloc(64, "float32")
    await core.memcpy(tile, x[core.task_id])
    core.mul(product, tile, tile)
    await core.memcpy(out[core.task_id], tile)
    await core.memcpy(out[core.task_id, :second], product[:second])


def test_an_output_written_in_place_of_another_is_one_finding() -> None:
    (finding,) = mlusim.verify(out_twice, X, Output.like(X), Output.like(X), second=64, **BLOCK).errors
    assert finding.kind == "written-again"
    assert [one.title for one in finding.folded] == ["square is never written"]
    assert len(finding.lines) == 2


def test_a_gap_that_another_output_s_second_store_does_not_fill_is_a_finding_of_its_own() -> None:
    report = mlusim.verify(out_twice, X, Output.like(X), Output.like(X), second=32, **BLOCK)
    assert {finding.kind for finding in report.errors} == {"never-written", "written-again"}


async def rows_that_meet(core: Core, x: Any, out: Any) -> None:
    """Store rows of 64 elements 48 apart; the last task stores too many."""
    tile = core.nram.alloc(64, "float32")
    await core.memcpy(tile, x[core.task_id])
    for part in range(0, 128 if core.task_id == 3 else 64, 16):
        first = core.task_id * 48 + part
        await core.memcpy(out[first : first + 16], tile[part % 64 : part % 64 + 16])


def test_stores_of_one_line_that_meet_and_leave_their_tensor_are_one_finding() -> None:
    (finding,) = mlusim.verify(rows_that_meet, X, Output((208,), np.float32), **BLOCK).errors
    assert finding.kind == "access"
    assert [one.kind for one in finding.folded] == ["task-race"]


async def rows_and_firsts(core: Core, x: Any, out: Any, firsts: Any, *, rows: int, more: int) -> None:
    """Store `rows` rows, and the first element of each; `more` further ones."""
    tile = core.nram.alloc(64, "float32")
    for row in range(core.task_id, rows + more, core.task_dim):
        await core.memcpy(tile, x[row])
        await core.memcpy(firsts[row : row + 1], tile[:1])
        if row < rows:
            await core.memcpy(out[row], tile)


def test_the_same_part_missing_of_two_outputs_is_one_finding() -> None:
    many = np.ones((9, 64), np.float32)
    firsts = Output((9,), np.float32)
    (finding,) = mlusim.verify(rows_and_firsts, many, Output.like(many), firsts, rows=8, more=0, **BLOCK).errors
    assert finding.kind == "never-written"
    assert [one.title for one in finding.folded] in (
        ["4 B of firsts are never written"],
        ["256 B of out are never written"],
    )
    report = mlusim.verify(rows_and_firsts, many, Output.like(many), firsts, rows=7, more=1, **BLOCK)
    assert [one.kind for one in report.errors] == ["never-written"] * 2

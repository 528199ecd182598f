"""The cost of a vector instruction: bytes per cycle, passes, and its issue."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlusim.cores.convert import steps
from mlusim.cores.core import Core
from mlusim.hardware import board as board_of
from mlusim.log import VECTOR


@pytest.mark.parametrize("device", ["mlu370-x4", "mlu590-m9", "mlu270-s4"])
@pytest.mark.parametrize("nbytes", [1, 127, 128, 129, 4096, 100_000])
def test_vector_time_is_rounded_up_to_128_bytes_per_cycle(run: Any, device: str, nbytes: int) -> None:
    board = board_of(device)
    assert board.vector_bytes_per_cycle == 128

    async def kernel(core: Core) -> None:
        # 2xx takes whole 128 B only.
        tile = core.nram.alloc(-(-nbytes // 128) * 128 if board.needs_aligned_vectors else nbytes, "int8")
        core.write_zero(tile)
        core.add(tile, tile, tile)

    columns = run(kernel, device=device).log.columns()
    cycles = board.vector_startup_cycles + max(1, -(-nbytes // 128))
    for record in (0, 1):
        assert columns["end_ps"][record] - columns["start_ps"][record] == board.cycles_ps(cycles)
    assert columns["start_ps"][1] == columns["end_ps"][0]  # the pipe is in order
    assert columns["waited_for"].tolist() == [-1, 0]
    assert set(columns["pipe"]) == {VECTOR}


def test_the_widest_operand_and_the_passes_count(run: Any) -> None:
    board = board_of("mlu370-x4")

    async def kernel(core: Core) -> None:
        wide, narrow = core.nram.alloc(1024, "int64"), core.nram.alloc(1024, "float16")
        rows = core.nram.alloc(32, "int64")
        core.convert(narrow, wide)
        core.max_rows(rows, wide.reshape(32, 32))
        core.max_rows(rows[:1], wide)

    columns = run(kernel).log.columns()
    each = board.vector_startup_cycles + 8192 // 128
    assert len(steps("int64", "float16")) == 2
    took = columns["end_ps"] - columns["start_ps"]
    # A pool goes over its result, here 256 B and 8 B, once for each element of the window.
    pools = [board.vector_startup_cycles + 32 * 2, board.vector_startup_cycles + 1024]
    assert took.tolist() == [board.cycles_ps(2 * each), *map(board.cycles_ps, pools)]
    assert columns["count"].tolist() == [2, 32, 1024]


def test_issue_costs_the_scalar_pipe(run: Any) -> None:
    board = board_of("mlu370-x4")

    async def kernel(core: Core) -> None:
        tile = core.nram.alloc(65536, "int8")
        for _ in range(3):
            core.write_zero(tile)

    columns = run(kernel).log.columns()
    assert set(np.diff(columns["issue_ps"])) == {board.cycles_ps(board.issue_cycles)}

"""The law of steady-state timing: exact bytes and a time within the bound, of any run that is extrapolated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from long_loops import (
    MAX_ERROR,
    add_with_barriers,
    ahead,
    copy_rows,
    full_and_steady,
    tensor,
    three_buffers,
    two_buffers,
    two_loops,
)
from mlusim import ops

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
    full_and_steady(kernel, x, device=board, dim=(4, clusters, waves))


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


@pytest.mark.parametrize(
    ("run", "argument", "shape", "dtype", "board"),
    [
        (ops.cast, "float32", (1305, 16, 257), "int8", "mlu220-m2"),
        (ops.flip, 1, (1380, 64, 100), "float64", "mlu270-s4"),
        # Copies are issued ahead, and hide start-ups that are longer than the copy before.
        (ops.flip, 1, (1801, 64, 100), "float32", "mlu220-m2"),
    ],
)
@pytest.mark.grid(2)
def test_tasks_that_wait_by_chance_are_not_extrapolated(
    run: Any, argument: Any, shape: tuple[int, ...], dtype: str, board: str
) -> None:
    """Beside others, a task takes little longer than alone: its pace changes by 1 % late, or settles late."""
    x = np.broadcast_to(np.zeros((), dtype), shape)
    quick = run(x, argument, device=board, nram_limit_bytes=4096, data=False, steady=True)
    assert "do not settle" in quick.steady.refused


@pytest.mark.slow
@pytest.mark.parametrize("gigabytes", [6, 12])
def test_law_where_the_ports_of_clusters_are_full(gigabytes: int) -> None:
    """On MLU290, only the cores of a cluster speed up when one of them ends."""
    x = tensor(235 * gigabytes, 1024, 1024)
    full, quick = (ops.cast(x, "float16", device="mlu290", data=False, steady=steady) for steady in (False, True))
    assert abs(quick.time_ps / full.time_ps - 1) <= MAX_ERROR
    assert dict(quick.bus_bytes) == dict(full.bus_bytes)
    assert gigabytes < 12 or quick.steady.operations


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

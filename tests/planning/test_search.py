"""The search of all planners, and the prediction for tasks that start one after another."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from mlusim import ops
from mlusim.errors import PlanError
from mlusim.hardware import board
from mlusim.planning.elementwise import ElementwiseParameters
from mlusim.planning.prediction import Grid
from mlusim.planning.reverse import ReverseParameters
from mlusim.planning.search import NEAR, Candidate, best, best_by_strategy, fractions_of, task_counts

X4 = board("mlu370-x4")


def candidate(predicted_ps: int, tasks: int, operations: int, strategy: str = "one") -> Candidate[str]:
    return Candidate(strategy=strategy, predicted_ps=predicted_ps, tasks=tasks, operations=operations, split="")


def test_near_predictions_prefer_more_tasks_then_fewer_operations():
    near = round(1_000_000 * NEAR) - 1
    few, many, more_operations, slow = (
        candidate(1_000_000, 4, 4),
        candidate(near, 8, 8),
        candidate(1_000_000, 8, 16),
        candidate(1_100_000, 32, 32),
    )
    assert best([few, many, more_operations, slow]) is many
    assert best([few, slow]) is few


def test_the_fastest_strategy_comes_first():
    found = best_by_strategy([candidate(30, 1, 1, "a"), candidate(20, 1, 1, "b"), candidate(10, 1, 1, "a")])
    assert [(name, winner.predicted_ps) for name, winner in found.items()] == [("a", 10), ("b", 20)]


def test_rooms_and_task_counts_are_positive_and_within_limits():
    assert fractions_of(4) == (4, 2, 1, 1)
    assert task_counts(X4, 5) == (1, 2, 4, 5)
    assert max(task_counts(X4, 10**6)) == X4.cores


def test_a_launch_ends_with_its_last_task():
    on = X4.replace(core_start_skew_ps=0, cluster_start_ps=1_000_000)
    # Nine tiles for eight tasks: the first has two, and the last starts seven clusters later.
    fixed = on.kernel_start_ps + on.kernel_end_ps
    assert Grid(board=on, tiles=9, tasks=8).launch_ps(100, 100) == fixed + 7_000_000 + 100


def test_parameters_of_another_operator_are_refused():
    plan = mlusim.plan("cast", (64,), dtype="float16")
    assert plan.parameters_as(ElementwiseParameters).elements > 0
    assert plan.named_parameters["overlapped"] is plan.parameters.overlapped
    with pytest.raises(
        PlanError, match=r"a plan of cast has ElementwiseParameters, and this kernel needs ReverseParameters"
    ):
        plan.parameters_as(ReverseParameters)


def test_a_row_that_is_cut_unevenly_is_not_moved_whole_on_2xx():
    """Rows of 24 elements, cut to 17 and 7: a move within NRAM takes whole 128 B there, so a scalar loop copies."""
    x = np.arange(6 * 24, dtype=np.int64).reshape(6, 24)
    index = np.array([[5], [0], [3]])
    for limit in (1024, 2048, 4096, 8192):
        result = ops.gather_nd(x, index, mode="standard", device="mlu220-m2", nram_limit_bytes=limit, strategy="slab")
        assert np.array_equal(result.output, x[index[:, 0]])

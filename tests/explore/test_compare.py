"""Comparison of strategies."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import mlusim
from mlusim import Core, View
from mlusim.errors import MlusimError
from mlusim.explore.compare import compare
from mlusim.ops import tin_shift_forward
from mlusim.planning.tin_shift import STRATEGIES
from mlusim.results.result import Result

X = np.random.default_rng(0).standard_normal((2, 8, 64, 196)).astype(np.float16)
SHIFTS = np.array([[1, -2], [0, 9]], np.int32)
OPERATION = partial(tin_shift_forward, X, SHIFTS, device="mlu370-x4")


def test_a_row_for_each_strategy() -> None:
    rows = compare(OPERATION, STRATEGIES)
    assert [row.strategy for row in rows] == ["batched", *list(STRATEGIES)[1:]]
    for row in rows:
        result, metrics = OPERATION(strategy=row.strategy), row.metrics
        assert (metrics.time_ps, row.tier) == (result.time_ps, result.plan.tier)
        assert metrics.io_efficiency == result.io_efficiency
        assert metrics.bytes_requested == result.bytes_requested
        assert metrics.bus_bytes == result.bus_bytes
        assert metrics.peak_nram_bytes == result.plan.nram_bytes
    assert len({row.metrics.bytes_requested["NRAM2GDRAM"] for row in rows}) == 1


def test_timing_only_runs_have_nothing_to_compare() -> None:
    with_data = compare(OPERATION, ["tight", "batched"])
    timed = compare(partial(OPERATION, data=False), ["tight", "batched"])
    assert [row.metrics.time_ps for row in timed] == [row.metrics.time_ps for row in with_data]


@pytest.mark.parametrize("value", [np.float16(3), np.float16(-0.0), np.float16(np.nan)])
def test_results_that_differ_in_a_bit(value: np.float16) -> None:
    x = X.copy()
    x[1, 2, 3, 4] = 0

    def broken(strategy: str) -> Result:
        result = tin_shift_forward(x, SHIFTS, strategy=strategy)
        if strategy == "batched":
            assert result.output is not None
            result.output[1, 2, 3, 4] = value
        return result

    with pytest.raises(
        MlusimError,
        match=r"^tin_shift_forward: 'tight' and 'batched' differ in 1 of 200 704 elements, first at "
        rf"\[1, 2, 3, 4\]: 0.0 and {value}; ways to run one operation differ in time, never in the result",
    ):
        compare(broken, ["tight", "documented", "batched"])


def test_equal_nans_are_equal() -> None:
    nans = np.full(X.shape, np.nan, np.float16)
    assert len(compare(partial(tin_shift_forward, nans, SHIFTS), ["tight", "documented"])) == 2


def test_results_of_another_shape() -> None:
    def broken(strategy: str) -> Result:
        x: Any = X[:1] if strategy == "tight" else X
        return tin_shift_forward(x, SHIFTS[: len(x)], strategy=strategy)

    with pytest.raises(MlusimError, match=r"give float16 \[1, 8, 64, 196\] and float16 \[2, 8, 64, 196\]"):
        compare(broken, ["tight", "documented"])


async def copied(core: Core, x: View, out: View) -> None:
    if core.task_id == 0 and not core.is_memory_core:
        tile = core.nram.alloc(x.shape, x.dtype)
        await core.memcpy(tile, x)
        await core.memcpy(out, tile)


async def doubled(core: Core, x: View, result: View) -> None:
    if core.task_id == 0 and not core.is_memory_core:
        tile = core.nram.alloc(x.shape, x.dtype)
        await core.memcpy(tile, x)
        core.add(tile, tile, tile)
        await core.memcpy(result, tile)


async def copied_and_doubled(core: Core, x: View, copy: View, double: View) -> None:
    await copied(core, x, copy)
    await doubled(core, x, double)


def test_outputs_of_other_names_are_compared_in_order() -> None:
    def ran(strategy: str, x: Any) -> Result:
        kernel, outputs = {"a": (copied, 1), "b": (doubled, 1), "c": (copied_and_doubled, 2)}[strategy]
        return mlusim.run(kernel, x, *[mlusim.Output.like(x)] * outputs)

    zeros, ones = np.zeros(64, np.float32), np.ones(64, np.float32)
    assert len(compare(partial(ran, x=zeros), ["a", "b"])) == 2
    with pytest.raises(
        MlusimError, match=r"^copied: 'a' and 'b' differ in 64 of 64 elements, first at \[0\]: 1.0 and 2"
    ):
        compare(partial(ran, x=ones), ["a", "b"])
    with pytest.raises(MlusimError, match=r"'a' and 'c' have no output in common: out; copy, double: give those to"):
        compare(partial(ran, x=ones), ["a", "c"])

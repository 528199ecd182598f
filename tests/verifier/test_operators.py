"""Every operator is sound: in all strategies and tiers, on boards of three generations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlusim
from mlusim import ops
from mlusim.errors import PlanError
from mlusim.ops.bitcast_convert import STRATEGIES as BITCAST
from mlusim.planning import elementwise, gather, reverse, reverse_sequence, scatter, tin_shift
from operator_runs import on

RNG = np.random.default_rng(0)
BOARDS = ("mlu270-s4", "mlu370-x4", "mlu590-h8")
# NRAM sizes, of which some operator has each of its tiers with the shapes below.
NRAM_BYTES = (None, 1 << 14, 1 << 11)


X = RNG.standard_normal((3, 6, 8, 75)).astype(np.float32)
SHIFTS = np.array([[1, -2], [0, 7], [-1, 3]], np.int32)
INDEX = RNG.integers(-6, 6, (3, 4, 8, 75)).astype(np.int64)
TUPLES = np.stack([RNG.integers(0, 3, (5, 4)), RNG.integers(0, 6, (5, 4))], axis=-1).astype(np.int32)
LENGTHS = np.array([6, 0, 3], np.int32)

CALLS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = {
    "tin_shift_forward": (ops.tin_shift_forward, (X, SHIFTS), {}, tin_shift.STRATEGIES),
    "tin_shift_backward": (ops.tin_shift_backward, (X, SHIFTS), {"rule": "adjoint"}, tin_shift.STRATEGIES),
    "reverse outer": (ops.reverse, (X, [0, 2]), {}, reverse.STRATEGIES),
    "reverse inner": (ops.reverse, (X, [1, 3]), {}, reverse.STRATEGIES),
    "reverse all": (ops.reverse, (X, [0, 1, 2, 3]), {}, reverse.STRATEGIES),
    "reverse none": (ops.reverse, (X, []), {}, reverse.STRATEGIES),
    "reverse_sequence": (ops.reverse_sequence, (X, LENGTHS), {}, reverse_sequence.STRATEGIES),
    "gather": (ops.gather, (X, INDEX, 1), {}, gather.STRATEGIES),
    "gather_nd standard": (ops.gather_nd, (X, TUPLES), {"mode": "standard"}, gather.STRATEGIES),
    "index_select": (ops.index_select, (X, np.array([1, 0, 1]), 1), {}, ("auto",)),
    "scatter": (ops.scatter, (X, INDEX, X[:, :4], 1), {}, scatter.STRATEGIES),
    "scatter_nd standard": (
        ops.scatter_nd,
        (X, TUPLES, RNG.standard_normal((5, 4, 8, 75)).astype(np.float32)),
        {"mode": "standard"},
        scatter.STRATEGIES,
    ),
    "cast narrower": (ops.cast, (X, "float16"), {}, elementwise.STRATEGIES),
    "cast wider": (ops.cast, (X.astype(np.float16), "float32"), {}, elementwise.STRATEGIES),
    "cast in two steps": (ops.cast, (RNG.integers(-9, 9, (40, 75)), "float16"), {}, elementwise.STRATEGIES),
    "bitcast_convert narrower": (ops.bitcast_convert, (X, "uint8"), {}, BITCAST),
}
CASES = [(name, strategy) for name, (*_, strategies) in CALLS.items() for strategy in strategies]


def marks(name: str, strategy: str, nram_bytes: int | None) -> list[pytest.MarkDecorator]:
    """Bins in the least NRAM take thousands of copies."""
    return [pytest.mark.slow] if (name, strategy, nram_bytes) == ("scatter", "bins", NRAM_BYTES[-1]) else []


@pytest.mark.grid(16)
@pytest.mark.parametrize("device", BOARDS)
@pytest.mark.parametrize(
    ("name", "strategy", "nram_bytes"),
    [pytest.param(*case, size, marks=marks(*case, size)) for case in CASES for size in NRAM_BYTES],
)
def test_an_operator_is_sound(name, strategy, device, nram_bytes):
    function, arguments, options, _ = CALLS[name]
    try:
        result = function(*arguments, device=on(device, nram_bytes), strategy=strategy, check=True, **options)
    except PlanError as error:
        pytest.skip(error.message)
    assert result.report.ok
    assert result.report.records == len(result.log)


@pytest.mark.grid(3)
@pytest.mark.parametrize("device", BOARDS)
@pytest.mark.parametrize(("name", "strategy"), [case for case in CASES if case[0].startswith(("gather", "scatter"))])
def test_a_timing_only_run_is_not_blamed_for_rows_that_it_does_not_know(name, strategy, device):
    function, arguments, options, _ = CALLS[name]
    try:
        report = function(*arguments, device=device, strategy=strategy, check=True, data=False, **options).report
    except PlanError as error:
        pytest.skip(error.message)
    assert report.ok
    assert all(use.known or "does not know which rows" in report.text() for use in report.tensors)


def test_no_operator_is_missing():
    others = {"flip": "reverse", "tin_shift": "tin_shift_forward"}
    assert all(getattr(ops, name) for name in others)
    named = {name.split()[0] for name in CALLS} | {*others}
    assert named == {name for name in ops.__all__ if not name.startswith("plan_")}


def test_the_sizes_reach_every_tier():
    reached = set()
    for nram_bytes in NRAM_BYTES:
        for length in (75, 2000):
            shape = (1, 6, 2, length)
            for strategy in ("auto", "documented"):
                reached.add(
                    mlusim.plan(
                        "tin_shift_forward", shape, (shape[0], 1), device=on("mlu370-x4", nram_bytes), strategy=strategy
                    ).tier
                )
    assert reached == {1, 2, 3}

"""Random calls of gather and scatter, and their plans."""

from hypothesis import strategies as st

import mlusim
from mlusim.errors import PlanError
from operator_runs import BOARDS, small

NAMES = st.sampled_from([*BOARDS, "mlu290-m5"])


@st.composite
def lookups_by_element(draw, strategies, *, rank, extent, shared, along):
    """Shapes of x and of the index, and the other arguments of a plan.

    Args:
        draw: hypothesis's.
        strategies: those of the operator.
        rank, extent: largest rank, and extent of x.
        shared, along: largest extent of the index along the other axes, and along that of the lookups.
    """
    ndim = draw(st.integers(1, rank))
    x = tuple(draw(st.integers(1, extent)) for _ in range(ndim))
    axis = draw(st.integers(-ndim, ndim - 1))
    index = [draw(st.integers(0, min(size, shared))) for size in x]
    index[axis] = draw(st.integers(0, along))
    return (x, tuple(index)), {
        "axis": axis,
        "input_dtype": draw(st.sampled_from(["int8", "float16", "float32", "int64", "complex128"])),
        "index_dtype": draw(st.sampled_from(["int32", "int64"])),
        "device": small(draw(NAMES), draw(st.sampled_from([2048, 4096, 65_536, 2**20]))),
        "strategy": draw(st.sampled_from(list(strategies))),
    }


@st.composite
def lookups_by_row(draw, *, rank, extent, along):
    """Shapes of x, of the index and of the values of a call in mode "standard", and the other arguments of a plan.

    Args:
        draw: hypothesis's.
        rank, extent: largest rank, and extent of x.
        along: largest extent of the lookups.
    """
    x = draw(st.lists(st.integers(1, extent), min_size=1, max_size=rank).map(tuple))
    columns = draw(st.integers(0, len(x)))
    places = draw(st.lists(st.integers(0, along), max_size=2).map(tuple))
    return (x, (*places, columns), (*places, *x[columns:])), {
        "mode": "standard",
        "input_dtype": draw(st.sampled_from(["int8", "float32", "int64"])),
        "device": small(draw(NAMES), draw(st.sampled_from([4096, 65_536]))),
    }


def plan_or_none(operator, *shapes, may_not_fit, **arguments):
    """The plan of a call; None if it does not fit, with strategies that may not: the others always find a way."""
    try:
        return mlusim.plan(operator, *shapes, **arguments)
    except PlanError as error:
        assert arguments["strategy"] in may_not_fit
        assert "usable NRAM" in str(error)
        return None


def check_auto_is_fastest(operator, strategies, *, may_not_fit):
    """Check for several shapes and boards that "auto" takes the strategy with the shortest predicted time."""
    for shape, axis in (((64, 64), 1), ((8, 4096), 1), ((2, 100_000), 1), ((50_000, 4), 0), ((1, 10**6), 1)):
        index = (shape[0], 16) if axis else (16, shape[1])
        shapes = (shape, index, index) if operator == "scatter" else (shape, index)
        for name in BOARDS:
            call = {"axis": axis, "device": name, "may_not_fit": may_not_fit}
            plans = {strategy: plan_or_none(operator, *shapes, strategy=strategy, **call) for strategy in strategies}
            times = {strategy: plan.predicted_ps for strategy, plan in plans.items() if plan is not None}
            assert times.pop("auto") == min(times.values())

"""The tables of `IndexTiles`: the front of one serves smaller tiles."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlusim import ops
from mlusim.kernels.index_tiles import _is_front
from operator_runs import small

AXES = st.lists(st.tuples(st.integers(2, 4), st.integers(0, 2)), max_size=3).map(tuple)


def table(axes):
    """The table of axes (extent, step): the sum of coordinate * step at each position."""
    rows = np.zeros(1, int)
    for extent, step in axes:
        rows = np.add.outer(rows, step * np.arange(extent))
    return rows.reshape(-1)


@given(axes=AXES, larger=AXES)
def test_a_table_is_computed_again_unless_it_is_the_front_of_the_last(axes, larger):
    front = table(larger)[: len(table(axes))]
    if _is_front(axes, larger):
        assert np.array_equal(front, table(axes))
    assert _is_front(axes, axes)
    assert _is_front(axes, ((2, 1), *axes))
    assert not axes or _is_front(axes, ((9, axes[0][1]), *axes[1:]))


def test_each_core_computes_its_table_once():
    """Chunks have up to 3 of the 50 rows, so some are smaller."""
    x = np.arange(3 * 50 * 16, dtype=np.float32).reshape(3, 50, 16)
    index = np.random.default_rng(0).integers(0, 16, x.shape)
    result = ops.scatter(x, index, x, 2, device=small("mlu590-h8", 4096), strategy="bins")
    assert result.plan.parameters.binning.sizes == (1, 3, 16)
    expected = x.copy()
    np.put_along_axis(expected, index, x, 2)
    assert np.array_equal(result.output, expected)
    records = result.log.records.columns()
    tasks = records["task"][records["op"] == result.log.op("fill")]
    assert len(tasks) == len(np.unique(tasks)) == 48

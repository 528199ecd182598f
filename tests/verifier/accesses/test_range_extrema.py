"""Minima and maxima of ranges, compared with one range at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlusim.verifier.accesses.range_extrema import max_in_ranges, min_by_cell

CELLS = 21
ranges = st.lists(
    st.tuples(st.integers(0, CELLS - 1), st.integers(1, CELLS), st.integers(-9, 9)).map(
        lambda one: (one[0], min(one[0] + one[1], CELLS), one[2])
    ),
    max_size=12,
)


@given(ranges)
def test_min_by_cell(given_ranges):
    first, last, value = (np.array([one[part] for one in given_ranges], np.int64) for part in range(3))
    never = np.iinfo(np.int64).max
    wanted = [min((v for a, b, v in given_ranges if a <= cell < b), default=never) for cell in range(CELLS)]
    assert min_by_cell(first, last, value, CELLS).tolist() == wanted


@given(ranges, st.lists(st.integers(-99, 99), min_size=CELLS, max_size=CELLS))
def test_max_in_ranges(given_ranges, values):
    first, last = (np.array([one[part] for one in given_ranges], np.int64) for part in range(2))
    wanted = [max(values[a:b]) for a, b, _ in given_ranges]
    assert max_in_ranges(np.array(values, np.int64), first, last).tolist() == wanted

"""Pairs of accesses are compared once for each kind, whether their kinds are numbered by a table or by sorting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlusim.verifier import overlaps
from mlusim.verifier.geometry import alike

NUMBERS = st.integers(0, 6)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(-40, 40).map(lambda step: step * 3136)), min_size=1))
def test_pairs_have_one_number_if_they_are_alike(pairs):
    columns = [np.array(column, np.int64) for column in zip(*pairs, strict=True)]
    packed = overlaps._packed(*columns)
    assert packed is not None
    assert packed.min() >= 0
    _, kind, _ = alike(*columns)
    assert np.array_equal(packed[:, None] == packed, kind[:, None] == kind)


@pytest.mark.parametrize("far", [1 << 40, 1 << 61])
def test_pairs_too_far_apart_for_a_table_are_sorted(far):
    delta = np.array([0, 1, far])
    assert overlaps._packed(np.zeros(3, np.int64), np.zeros(3, np.int64), delta) is None

"""Pairs of accesses are compared once per kind: rows are grouped by a table or by sorting; disjoint accesses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlusim.log_tables import Box
from mlusim.verifier.accesses import overlaps
from mlusim.verifier.accesses.condensed import accesses_from
from mlusim.verifier.accesses.geometry import element_starts, geometry_of, group_rows

TILES = st.tuples(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from([4, 8, 12, 32, 60])), max_size=3), st.integers(0, 24)
)
NUMBERS = st.integers(0, 6)


def assert_grouped(*columns):
    """Rows are in the same groups as NumPy's."""
    first, kind, times = group_rows(*columns)
    _, expected = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    # NumPy 2.0.0 returns one axis more.
    expected = expected.reshape(-1)
    assert np.array_equal(kind[:, None] == kind, expected[:, None] == expected)
    assert np.array_equal(first, [np.flatnonzero(kind == group)[0] for group in range(len(first))])
    assert np.array_equal(times, np.bincount(kind))


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(-40, 40).map(lambda step: step * 3136)), min_size=1))
def test_rows_with_multiples_of_a_number_are_grouped(rows):
    assert_grouped(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


@given(st.lists(TILES, min_size=1, max_size=12))
def test_accesses_are_disjoint_if_no_byte_is_in_two(tiles):
    boxes = [Box(tuple(extent for extent, _ in axes), tuple(step for _, step in axes), 4) for axes, _ in tiles]
    offsets = np.array([offset * 4 for _, offset in tiles], np.int64)
    accesses = accesses_from(0, offsets, [geometry_of(box) for box in boxes])
    starts = [np.unique(element_starts(box) + offset) for box, offset in zip(boxes, offsets.tolist(), strict=True)]
    every = np.concatenate(starts)
    assert overlaps.disjoint(accesses) == (len(np.unique(every)) == len(every))


@pytest.mark.parametrize("low", [0, -(1 << 62)])
@pytest.mark.parametrize("far", [1 << 40, 1 << 61, (1 << 62) + 3])
def test_rows_too_far_apart_for_a_table_are_grouped(low, far):
    assert_grouped(np.zeros(4, np.int64), np.array([low, low + 2, far, low], np.int64))

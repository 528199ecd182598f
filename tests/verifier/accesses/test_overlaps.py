"""Pairs of accesses are compared once per kind, whether kinds are numbered by a table or by sorting."""

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


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(-40, 40).map(lambda step: step * 3136)), min_size=1))
def test_pairs_have_one_number_if_they_are_alike(pairs):
    columns = [np.array(column, np.int64) for column in zip(*pairs, strict=True)]
    packed = overlaps._packed(*columns)
    assert packed is not None
    assert packed.min() >= 0
    _, kind, _ = group_rows(*columns)
    assert np.array_equal(packed[:, None] == packed, kind[:, None] == kind)


@given(st.lists(TILES, min_size=1, max_size=12))
def test_accesses_are_disjoint_if_no_byte_is_in_two(tiles):
    boxes = [Box(tuple(extent for extent, _ in axes), tuple(step for _, step in axes), 4) for axes, _ in tiles]
    offsets = np.array([offset * 4 for _, offset in tiles], np.int64)
    accesses = accesses_from(0, offsets, [geometry_of(box) for box in boxes])
    starts = [np.unique(element_starts(box) + offset) for box, offset in zip(boxes, offsets.tolist(), strict=True)]
    every = np.concatenate(starts)
    assert overlaps.disjoint(accesses) == (len(np.unique(every)) == len(every))


@pytest.mark.parametrize("far", [1 << 40, 1 << 61])
def test_pairs_too_far_apart_for_a_table_are_sorted(far):
    delta = np.array([0, 1, far])
    assert overlaps._packed(np.zeros(3, np.int64), np.zeros(3, np.int64), delta) is None

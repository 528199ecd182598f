"""Common parts of the planners: tiers, distribution, launches, cuts and boxes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlusim.errors import PlanError
from mlusim.hardware import Board, board
from mlusim.planning.split import (
    MAX_SEGMENTS,
    boxes,
    buffer_bytes,
    choose_tier,
    cut,
    cut_evenly,
    in_runs,
    in_turn,
    union1_launch,
)

REAL = board("mlu370-x4")


def small(nram_bytes: int, reserved_bytes: int = 0) -> Board:
    return REAL.replace(nram_bytes=nram_bytes, nram_reserved_bytes=reserved_bytes)


class TestChooseTier:
    @pytest.mark.parametrize(
        ("usable", "tier", "units", "rows", "elements"),
        [
            (1536, 1, 3, 4, 30),  # 480 B a unit: three fit
            (512, 1, 1, 4, 30),
            (384, 2, 0, 3, 30),  # 120 B a row: three fit, the unit does not
            (128, 2, 0, 1, 30),
        ],
    )
    def test_the_first_tier_that_fits_is_chosen(
        self, usable: int, tier: int, units: int, rows: int, elements: int
    ) -> None:
        fit = choose_tier(small(usable), rows=4, row_elements=30, itemsize=4)
        assert (fit.tier, fit.units, fit.rows, fit.elements) == (tier, units, rows, elements)

    def test_a_row_that_does_not_fit(self) -> None:
        fit = choose_tier(small(128), rows=4, row_elements=100, itemsize=4)
        assert (fit.tier, fit.units, fit.rows, fit.elements) == (3, 0, 1, 32)
        assert fit.reason == "not even a row of 400 B fits in a buffer of 128 B"
        assert fit.arithmetic[-1] == "100 elements per row = 4 chunks of up to 32, the last of 4"

    def test_a_unit_that_exactly_fills_nram_stays_whole(self) -> None:
        assert choose_tier(small(1024), rows=8, row_elements=32, itemsize=4).tier == 1
        assert choose_tier(small(1024), rows=8, row_elements=33, itemsize=4).tier == 2

    def test_reserved_bytes_are_not_usable(self) -> None:
        assert choose_tier(small(1024, 128), rows=8, row_elements=32, itemsize=4).tier == 2

    def test_buffers_share_the_nram(self) -> None:
        assert choose_tier(small(1024), rows=4, row_elements=32, itemsize=4, buffers=2).tier == 1
        fit = choose_tier(small(1024), rows=8, row_elements=32, itemsize=4, buffers=2)
        assert (fit.tier, fit.rows) == (2, 4)
        assert fit.arithmetic[0].startswith("usable NRAM 1 024 B / 2 buffers = 512 B each; ")

    def test_more_rows_than_segnum_counts_are_cut(self) -> None:
        whole = choose_tier(REAL, rows=MAX_SEGMENTS, row_elements=1, itemsize=2)
        cut_up = choose_tier(REAL, rows=MAX_SEGMENTS + 1, row_elements=1, itemsize=2)
        assert (whole.tier, cut_up.tier, cut_up.rows) == (1, 2, 65536)
        assert cut_up.reason == "a unit has 65 537 rows, and one copy takes at most 65 536 (segnum 65 535)"
        assert cut_up.arithmetic[-1] == "65 537 rows = 2 segments of up to 65 536, the last of 1"

    def test_no_element_fits_is_an_error(self) -> None:
        with pytest.raises(
            PlanError, match=r"usable NRAM 100 B, and allocations are rounded up to 128 B: no element of 4"
        ):
            choose_tier(small(100), rows=1, row_elements=1, itemsize=4)

    @given(
        st.integers(128, 4096),
        st.integers(1, 300),
        st.integers(1, 600),
        st.sampled_from([1, 2, 4, 8]),
        st.integers(1, 3),
    )
    def test_the_tile_fits_and_one_element_more_would_not(
        self, usable: int, rows: int, row_elements: int, itemsize: int, buffers: int
    ) -> None:
        capacity = buffer_bytes(small(usable), buffers)
        if capacity < itemsize:
            return
        fit = choose_tier(small(usable), rows=rows, row_elements=row_elements, itemsize=itemsize, buffers=buffers)
        row_bytes = row_elements * itemsize
        assert capacity * buffers <= usable
        assert capacity % 128 == 0
        if fit.tier == 1:
            assert (fit.rows, fit.elements) == (rows, row_elements)
            assert fit.units * rows * row_bytes <= capacity < (fit.units + 1) * rows * row_bytes
        elif fit.tier == 2:
            assert rows * row_bytes > capacity
            assert fit.elements == row_elements
            assert fit.rows * row_bytes <= capacity < (fit.rows + 1) * row_bytes
        else:
            assert row_bytes > capacity
            assert fit.elements * itemsize <= capacity < (fit.elements + 1) * itemsize


class TestDealing:
    def test_equal_items_are_dealt_out_round_robin(self) -> None:
        assert in_turn(np.full(7, 5), 3).tolist() == [0, 1, 2, 0, 1, 2, 0]

    def test_short_items_are_spread_over_tasks(self) -> None:
        # In their own order two tasks would take 9 + 9 + 9 and 1 + 1 + 1.
        sizes = np.array([9, 1, 9, 1, 9, 1])
        task = in_turn(sizes, 2)
        assert sorted(np.bincount(task, sizes).tolist()) == [11, 19]
        assert task.tolist() == [0, 1, 1, 0, 0, 1]

    @given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 9))
    def test_no_two_tasks_differ_by_more_than_an_item(self, sizes: list[int], tasks: int) -> None:
        task = in_turn(np.array(sizes), tasks)
        counts = np.bincount(task, minlength=tasks)
        loads = np.bincount(task, sizes, minlength=tasks)
        assert counts.max() - counts.min() <= 1
        assert loads.max() - loads.min() <= max(sizes)

    @given(st.integers(0, 100), st.integers(1, 20))
    def test_runs_are_contiguous_and_even(self, count: int, tasks: int) -> None:
        expected = [np.full(len(part), task) for task, part in enumerate(np.array_split(np.arange(count), tasks))]
        assert in_runs(count, tasks).tolist() == np.concatenate(expected).tolist()


class TestLaunch:
    @pytest.mark.parametrize(("units", "clusters"), [(0, 1), (1, 1), (4, 1), (5, 2), (32, 8), (33, 8), (10**6, 8)])
    def test_no_more_clusters_than_units_occupy(self, units: int, clusters: int) -> None:
        assert union1_launch(REAL, units) == ("UNION1", (4, clusters, 1))


class TestBoxes:
    @given(st.integers(1, 50), st.integers(1, 60))
    def test_cut_leaves_a_short_last_part(self, extent: int, size: int) -> None:
        starts, stops = cut(extent, size)
        expected = [(low, min(low + size, extent)) for low in range(0, extent, size)]
        assert list(zip(starts.tolist(), stops.tolist(), strict=True)) == expected

    @given(st.integers(1, 50), st.integers(1, 50))
    def test_even_parts_differ_by_one(self, extent: int, parts: int) -> None:
        starts, stops = cut_evenly(extent, min(parts, extent))
        assert starts[0] == 0
        assert stops[-1] == extent
        assert (starts[1:] == stops[:-1]).all()
        assert set((stops - starts).tolist()) <= {extent // len(starts), -(-extent // len(starts))}

    @given(st.permutations(range(3)), st.tuples(*[st.integers(0, 4)] * 3))
    def test_boxes_are_nested_loops(self, order: list[int], extents: tuple[int, ...]) -> None:
        cuts = [cut(extent, 1) for extent in extents]
        start, stop = boxes(cuts, order)
        expected = []
        for at in itertools.product(*(range(extents[axis]) for axis in order)):
            box = [0, 0, 0]
            for axis, index in zip(order, at, strict=True):
                box[axis] = index
            expected.append(box)
        assert start.tolist() == expected
        assert stop.tolist() == [[index + 1 for index in box] for box in expected]

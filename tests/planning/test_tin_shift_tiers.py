"""What of a unit fits in an NRAM buffer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlusim.errors import PlanError
from mlusim.hardware import Board, board
from mlusim.planning.split import MAX_SEGMENTS, buffer_bytes
from mlusim.planning.tin_shift_tiers import choose_tier

REAL = board("mlu370-x4")


def small(nram_bytes: int, reserved_bytes: int = 0) -> Board:
    return REAL.replace(nram_bytes=nram_bytes, nram_reserved_bytes=reserved_bytes)


class TestChooseTier:
    @pytest.mark.parametrize(
        ("usable", "tier", "units", "rows", "elements"),
        [
            (1536, 1, "3 units", 4, 30),  # 480 B a unit: three fit
            (512, 1, "1 unit", 4, 30),
            (384, 2, "0 units", 3, 30),  # 120 B a row: three fit, the unit does not
            (128, 2, "0 units", 1, 30),
        ],
    )
    def test_the_first_tier_that_fits_is_chosen(
        self, usable: int, tier: int, units: str, rows: int, elements: int
    ) -> None:
        fit = choose_tier(small(usable), rows=4, row_elements=30, itemsize=4)
        assert (fit.tier, fit.rows, fit.elements) == (tier, rows, elements)
        assert fit.arithmetic[0].endswith(f" = {units}")

    def test_a_row_that_does_not_fit(self) -> None:
        fit = choose_tier(small(128), rows=4, row_elements=100, itemsize=4)
        assert (fit.tier, fit.rows, fit.elements) == (3, 1, 32)
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
            assert rows * row_bytes <= capacity
        elif fit.tier == 2:
            assert rows * row_bytes > capacity
            assert fit.elements == row_elements
            assert fit.rows * row_bytes <= capacity < (fit.rows + 1) * row_bytes
        else:
            assert row_bytes > capacity
            assert fit.elements * itemsize <= capacity < (fit.elements + 1) * itemsize

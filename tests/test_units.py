"""Numbers as text."""

from __future__ import annotations

import pytest

from mlusim.units import format_bytes, format_ns, format_us, group_digits, percent, plural, short_bytes, signed


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 tiles"), (1, "1 tile"), (2, "2 tiles"), (2048, "2 048 tiles"), (-1, "-1 tiles")]
)
def test_a_count_agrees_with_its_noun(count: int, text: str) -> None:
    assert plural(count, "tile") == text


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [(1.26, 1, "+1.3"), (-1.26, 1, "-1.3"), (-0.18, 0, "0"), (0.04, 1, "0.0"), (0, 2, "0.00"), (0.06, 1, "+0.1")],
)
def test_a_change_has_a_sign_unless_it_is_rounded_to_0(value: float, decimals: int, text: str) -> None:
    assert signed(value, decimals) == text


@pytest.mark.parametrize(("value", "text"), [(7, "7"), (1840, "1 840"), (12_345_678, "12 345 678")])
def test_digits_are_grouped(value: int, text: str) -> None:
    assert group_digits(value) == text


@pytest.mark.parametrize(
    ("count", "short", "exact"),
    [
        (100, "100 B", "100 B"),
        (655_360, "640 KiB", "655 360 B (640 KiB)"),
        (1 << 31, "2 GiB", "2 147 483 648 B (2 GiB)"),
    ],
)
def test_bytes_have_the_largest_unit_that_fits(count: int, short: str, exact: str) -> None:
    assert short_bytes(count) == short
    assert format_bytes(count) == exact


@pytest.mark.parametrize(
    ("time_ps", "text"),
    [
        (0, "0.00 us"),
        (1, "< 0.01 us"),
        (4_999, "< 0.01 us"),
        (5_000, "0.01 us"),
        (1_234_567_890, "1 234.57 us"),
        (-1, "> -0.01 us"),
        (-5_000, "-0.01 us"),
    ],
)
def test_microseconds_have_two_decimals_and_grouped_digits(time_ps: int, text: str) -> None:
    assert format_us(time_ps) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0.0 %"), (0.0001, "< 0.1 %"), (0.0005, "0.1 %"), (0.5126, "51.3 %"), (1.021, "102.1 %"), (None, "-")],
)
def test_fractions_are_percentages(share: float | None, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("time_ps", "text"),
    [(0, "0 ns"), (1_840_000, "1 840 ns"), (1_500, "1.5 ns"), (-500, "-0.5 ns"), (-1_500, "-1.5 ns")],
)
def test_nanoseconds_have_a_fraction_only_if_there_is_one(time_ps: int, text: str) -> None:
    assert format_ns(time_ps) == text

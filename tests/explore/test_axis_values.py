"""Values of an axis as text: lists, ranges, units; and back."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlusim
from mlusim.errors import InputError
from mlusim.explore.axis_values import MAX_VALUES, numbers, several, shapes
from mlusim.quantities import quantity, text_of


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("nram_bytes", "64KiB,256KiB", [65536, 262144]),
        ("nram_bytes", "16KiB..128KiB*2", [16384, 32768, 65536, 131072]),
        ("nram_bytes", "100, 1e3", [100, 1000]),
        ("cores", "4..32+4", [4, 8, 12, 16, 20, 24, 28, 32]),
        ("cores", "3..10*3", [3, 9]),
        ("dram_bandwidth_bytes_per_s", "307.2GB/s,1TB/s", [307_200_000_000, 10**12]),
        ("clock_hz", "1.5GHz", [1_500_000_000]),
        ("dma_read_latency_ps", "200ns..1us+400ns", [200_000, 600_000, 1_000_000]),
        ("gdram_bytes", "1_024", [1024]),
        ("offset", "-3,-2..2+2", [-3, -2, 0, 2]),
    ],
)
def test_lists_ranges_and_units(name, text, expected):
    found = numbers(name, text)
    assert found == expected
    assert all(type(value) is int for value in found)


def test_values_are_distinct_if_their_types_are():
    found = several([1, True, 1.0, np.int64(1), (1, 2), (1, True), np.array([1, 2]), [3], [3]])
    assert list(map(repr, found)) == ["1", "True", "1.0", "(1, 2)", "(1, True)", "[3]"]
    assert several(range(100_000)) == [*range(100_000)]
    # The order of a set is that of hashes, which for text differs between processes.
    assert several({4096, 33, 0.5}) == [0.5, 33, 4096]
    assert several(frozenset("cab")) == ["a", "b", "c"]


def test_fractions_are_accepted_for_fractional_parameters():
    assert numbers("dram_read_efficiency", "0.7..0.9+0.1", integers=False) == [0.7, 0.8, 0.9]
    assert numbers("slope", "-0.5,.25,1e-5,-2E+3", integers=False) == [-0.5, 0.25, 1e-5, -2000]
    assert numbers("slope", "1e-3..1e-1*10", integers=False) == [1e-3, 1e-2, 1e-1]
    assert numbers("slope", text_of("slope", 1e-5), integers=False) == [1e-5]


def test_an_extent_may_be_a_range():
    assert shapes("2,8,256,49..196*2") == [(2, 8, 256, 49), (2, 8, 256, 98), (2, 8, 256, 196)]
    assert shapes("8x16X512x784") == [(8, 16, 512, 784)]
    assert shapes("1..2+1,3..4+1") == [(1, 3), (1, 4), (2, 3), (2, 4)]
    assert shapes("") == [()]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("nram_bytes", "many", r"nram_bytes: 'many' is neither a number nor a range such as 16KiB\.\.64KiB\*2 or .*"),
        ("nram_bytes", "", r"nram_bytes: '' is neither a number.*"),
        ("nram_bytes", "4GB/s", r"nram_bytes: '4GB/s': no unit 'GB/s': it takes B, KiB, MiB, GiB, TiB.*"),
        ("cores", "4KiB", r"cores: '4KiB': no unit 'KiB': it has no unit: write a bare number"),
        ("nram_bytes", "1.5", r"nram_bytes: '1\.5' is 1\.5, and nram_bytes takes whole numbers"),
        ("cores", "8..4+1", r"cores: '8\.\.4\+1' goes down: write the smaller value first"),
        ("cores", "8..4", r"cores: '8\.\.4' goes down: write the smaller value first"),
        ("cores", "4..8", r"cores: '4\.\.8' has no step: write 4\.\.8\*2, .*, or 4\.\.8\+1"),
        ("cores", "1..4*1", r"cores: '1\.\.4\*1' never ends: it needs a factor above 1 and a start above 0"),
        ("cores", "0..4*2", r"cores: '0\.\.4\*2' never ends.*"),
        ("cores", "1..4+0", r"cores: '1\.\.4\+0' never ends: it needs a step above 0"),
        ("nram_bytes", "1..4*2KiB", r"nram_bytes: '1\.\.4\*2KiB': a factor has no unit: omit KiB"),
        (
            "cores",
            "1..20000+1",
            rf"cores: .* are 20000 values: an axis has at most {MAX_VALUES}; use a larger step",
        ),
    ],
)
def test_invalid_values_are_errors(name, text, message):
    with pytest.raises(InputError) as raised:
        numbers(name, text)
    assert re.fullmatch(message, str(raised.value))


def test_an_invalid_shape_is_an_error():
    with pytest.raises(
        InputError, match=r"^shape: 'a' is neither a number nor a range such as 49\.\.784\*2 or 64\.\.256\+64"
    ):
        shapes("2,a")
    with pytest.raises(
        InputError,
        match=r"^shape: '64x64,128x128' mixes 'x' and ',': .* 64x64x128x128; for several shapes, pass a list",
    ):
        shapes("64x64,128x128")
    with pytest.raises(InputError, match=r"^shape: '1\.\.200\+1,1\.\.200\+1' are 40000 values"):
        shapes("1..200+1,1..200+1")


@given(
    st.sampled_from(["nram_bytes", "dram_bandwidth_bytes_per_s", "clock_hz", "dma_read_latency_ps", "cores"]),
    st.integers(0, 10**13),
)
def test_a_value_reads_back_from_its_text(name, value):
    assert numbers(name, text_of(name, value)) == [value]


def test_text_uses_the_largest_unit():
    assert text_of("nram_bytes", 655360) == "640KiB"
    assert text_of("dram_bandwidth_bytes_per_s", 307_200_000_000) == "307.2GB/s"
    assert text_of("shape", (2, 8)) == "2x8"
    assert text_of("strategy", "tight") == "tight"
    assert text_of("backward", value=True) == "True"


def test_negative_axes_count_from_the_end():
    assert numbers("axis", "-1,0,-2") == [-1, 0, -2]


def test_an_array_is_an_axis():
    found = mlusim.sweep("reverse", shape=[(3, 4)], axis=np.array([0, 1]), cores=np.array([4, 8]), workers=0)
    assert found.counts["done"] == 4
    assert sorted({(row["axis"], row["cores"]) for row in found.rows}) == [(0, 4), (0, 8), (1, 4), (1, 8)]


def test_a_size_beyond_any_number_is_too_large():
    with pytest.raises(InputError, match=r"^nram_bytes: '1e999999 GB' is too large for a number of 64 bits"):
        quantity("nram_bytes", "1e999999 GB")


def test_negative_values_have_the_units_of_positive_ones():
    assert text_of("time_ps", -5_000_000) == "-5us"
    assert text_of("nram_bytes", -4096) == "-4KiB"

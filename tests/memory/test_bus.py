"""Bus bytes, compared with a count byte by byte."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlusim.memory.bus import Loops, read_bus_bytes, unit_counts, write_bus_bytes

UNIT = 64
LOOPS = st.lists(st.tuples(st.integers(1, 9), st.integers(-300, 300)), max_size=2).map(tuple)


def touched_and_partial(phase: int, segment: int, loops: Loops, unit: int) -> tuple[int, int]:
    """Walk every byte of every segment."""
    touched = partial = 0
    for steps in product(*(range(count) for count, _ in loops)):
        start = phase + sum(step * stride for step, (_, stride) in zip(steps, loops, strict=True))
        covered: dict[int, int] = {}
        for byte in range(start, start + segment):
            covered[byte // unit] = covered.get(byte // unit, 0) + 1
        touched += len(covered)
        partial += sum(count < unit for count in covered.values())
    return touched, partial


@given(phase=st.integers(0, 300), segment=st.integers(1, 200), loops=LOOPS, unit=st.sampled_from([16, 32, 64]))
def test_units_touched_match_a_count_by_byte(phase: int, segment: int, loops: Loops, unit: int) -> None:
    touched, partial = touched_and_partial(phase, segment, loops, unit)
    assert unit_counts(phase % unit, segment, loops, unit) == (touched, partial)
    assert read_bus_bytes(phase, segment, loops, unit) == touched * unit
    assert write_bus_bytes(phase, segment, loops, unit) == (partial * unit, touched * unit)


@given(
    phase=st.integers(0, 63),
    segment=st.sampled_from([1, 4, 63, 64, 65, 128]),
    count=st.integers(60, 300),
    stride=st.integers(-130, 130),
)
def test_many_segments_wrap_around_the_unit(phase: int, segment: int, count: int, stride: int) -> None:
    loops = ((count, stride),)
    assert unit_counts(phase, segment, loops, UNIT) == touched_and_partial(phase, segment, loops, UNIT)


@pytest.mark.parametrize(
    ("phase", "nbytes", "read"),
    [(0, 64, 64), (0, 1, 64), (0, 65, 128), (63, 1, 64), (63, 2, 128), (32, 64, 128), (1, 127, 128), (1, 128, 192)],
)
def test_a_read_is_of_whole_aligned_units(phase: int, nbytes: int, read: int) -> None:
    assert read_bus_bytes(phase, nbytes, (), UNIT) == read


@pytest.mark.parametrize(
    ("phase", "nbytes", "first_read", "written"),
    [
        (0, 64, 0, 64),
        (0, 4, 64, 64),
        (60, 4, 64, 64),
        (62, 4, 128, 128),
        (0, 68, 64, 128),
        (32, 64, 128, 128),
        (32, 96, 64, 128),
        (4, 180, 128, 192),
    ],
)
def test_a_store_of_part_of_a_unit_reads_it_first(phase: int, nbytes: int, first_read: int, written: int) -> None:
    assert write_bus_bytes(phase, nbytes, (), UNIT) == (first_read, written)


@given(phase=st.integers(0, 63), nbytes=st.integers(1, 63))
def test_a_short_store_has_efficiency_of_at_most_x_over_128(phase: int, nbytes: int) -> None:
    first_read, written = write_bus_bytes(phase, nbytes, (), UNIT)
    assert nbytes / (first_read + written) <= nbytes / 128
    if phase + nbytes <= UNIT:
        assert first_read + written == 128


def test_each_segment_is_charged_on_its_own() -> None:
    # 16 segments of 4 B, side by side in one unit: the bus does not combine them.
    assert read_bus_bytes(0, 4, ((16, 4),), UNIT) == 16 * 64
    assert write_bus_bytes(0, 4, ((16, 4),), UNIT) == (16 * 64, 16 * 64)


def test_a_broadcast_source_is_read_again() -> None:
    assert read_bus_bytes(0, 64, ((1000, 0),), UNIT) == 64_000


def test_large_counts_are_arithmetic_not_a_loop() -> None:
    assert read_bus_bytes(0, 64, ((65536, 4096), (65536, 64)), UNIT) == 65536 * 65536 * 64

"""pivot_cuts: every cut covers its tensor, fits, and respects its limits."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mlusim.hardware import board
from mlusim.planning.pivot import Cut, pivot_cuts, tiles_text

ON = board("mlu370-x4")


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=5),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.integers(16, 5000),
    st.sampled_from([64, 128]),
)
@settings(deadline=None, max_examples=50)
def test_cuts(extents, itemsize, capacity, whole):
    cuts = [*pivot_cuts(ON, extents, itemsize, capacity, whole_bytes=whole)]
    assert cuts, "one element always fits"
    for cut in cuts:
        starts, stops = cut.bounds()
        assert (starts[0], stops[-1], len(starts)) == (0, extents[cut.pivot], cut.parts)
        assert (starts[1:] == stops[:-1]).all()
        assert (stops > starts).all()
        assert (stops - starts).max() <= cut.size
        assert cut.elements * itemsize <= capacity
        assert cut.outer * cut.extent * cut.inner == math.prod(extents)
        assert cut.tasks == min(ON.cores, cut.tiles)
    # Tiles begin at whole units in some cut of each pivot where a tile of whole units fits.
    for pivot in {cut.pivot for cut in cuts}:
        of_pivot = [cut for cut in cuts if cut.pivot == pivot]
        inner = of_pivot[0].inner
        if capacity >= math.lcm(whole, inner * itemsize):
            assert any(all(start * inner * itemsize % whole == 0 for start in cut.bounds()[0]) for cut in of_pivot)


@given(st.lists(st.integers(1, 60), min_size=2, max_size=4), st.data())
@settings(deadline=None, max_examples=80)
def test_limits_hold_for_every_axis_of_a_tile(extents, data):
    limits = [data.draw(st.integers(1, extent)) for extent in extents]
    outermost = data.draw(st.integers(0, len(extents) - 1))
    for cut in pivot_cuts(ON, extents, 4, 1 << 20, whole_bytes=64, limits=limits, outermost=outermost):
        assert cut.pivot >= outermost
        tile = (*(1 for _ in range(cut.pivot)), cut.size, *extents[cut.pivot + 1 :])
        assert all(held <= limit for held, limit in zip(tile, limits, strict=True))


def test_the_first_pivot_is_the_outermost_that_fits():
    first = next(pivot_cuts(ON, (10, 100, 1000), 4, 4096, whole_bytes=64))
    assert first == Cut(pivot=1, outer=10, extent=100, inner=1000, parts=100, multiple=1, size=1, tasks=32)


def test_small_tensors_are_not_cut_below_a_bus_unit():
    assert {cut.tiles for cut in pivot_cuts(ON, (2, 3, 4), 4, 1 << 18, whole_bytes=64)} == {1}


@given(st.integers(1, 10**6), st.sampled_from([1, 2, 4, 8, 16]))
@settings(deadline=None, max_examples=50)
def test_extra_tiles_occupy_idle_cores(extent, itemsize):
    assume(extent * itemsize > 64 * 64)
    tasks = max(cut.tasks for cut in pivot_cuts(ON, (extent,), itemsize, 1 << 18, whole_bytes=64))
    assert tasks == ON.cores


def test_tiles_text():
    cut = next(pivot_cuts(ON, (1000,), 4, 1 << 18, whole_bytes=64))
    assert tiles_text(ON, cut, 2) == "usable NRAM 655 360 B in 2 buffers: 1 tile of up to 1 000 elements"


@pytest.mark.parametrize("capacity", [0, 3])
def test_nothing_fits(capacity):
    assert not [*pivot_cuts(ON, (5, 5), 4, capacity, whole_bytes=64)]

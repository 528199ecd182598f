"""Sets of intervals, compared with arrays of booleans per picosecond."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlusim.analysis.intervals import clip, gaps, intervals, lengths, union

TRACKS, END = 4, 40

some_intervals = st.lists(
    st.tuples(st.integers(0, TRACKS - 1), st.integers(0, END), st.integers(0, END)), max_size=25
).map(lambda rows: intervals(*np.array(rows, np.int64).reshape(-1, 3).T))


def painted(some):
    grid = np.zeros((TRACKS, END), bool)
    for track, start, stop in some.tolist():
        grid[track, start:stop] = True
    return grid


@given(some_intervals, some_intervals)
def test_union_covers_what_either_covers_in_disjoint_pieces(left, right):
    both = union(left, right)
    assert (painted(both) == (painted(left) | painted(right))).all()
    assert (lengths(both, TRACKS) == painted(both).sum(axis=1)).all()
    assert (both[:, 2] > both[:, 1]).all()
    for track in range(TRACKS):
        mine = both[both[:, 0] == track]
        # Neither overlapping nor touching, and in order.
        assert (mine[1:, 1] > mine[:-1, 2]).all()


@given(some_intervals, st.integers(0, END), st.integers(0, END))
def test_gaps_and_clip_partition_the_window(some, low, high):
    low, high = min(low, high), max(low, high)
    free = gaps(union(some), TRACKS, low, high)
    window = np.zeros((TRACKS, END), bool)
    window[:, low:high] = True
    assert (painted(free) == (window & ~painted(some))).all()
    assert (painted(clip(some, low, high)) == (window & painted(some))).all()


@given(some_intervals)
def test_union_is_exact_where_tracks_times_time_exceed_64_bits(some):
    scale = np.array([1, 1 << 57, 1 << 57])
    assert (union(some * scale) == union(some) * scale).all()

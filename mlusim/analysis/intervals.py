"""Sets of time intervals on many tracks: union and length, in integers, by sorting.

A set is an int64 array (intervals, 3) with columns track, start and stop.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlusim.arrays import Integers


def intervals(track: Any, start: Any, stop: Any) -> Integers:
    """Return the intervals [start, stop) on their tracks, without empty ones."""
    track, start, stop = np.broadcast_arrays(track, start, stop)
    nonempty = stop > start
    return np.stack([track[nonempty], start[nonempty], stop[nonempty]], axis=1).astype(np.int64, copy=False)


def no_intervals() -> Integers:
    """Return the empty set."""
    return np.empty((0, 3), np.int64)


def union(*sets: Integers) -> Integers:
    """Return the union of the sets as disjoint intervals, sorted by track and start."""
    every = np.concatenate([no_intervals(), *sets])
    if len(every) == 0:
        return every
    track, start, stop = every.T
    # One axis for all tracks, on which the times of each track are above those of the previous one: one sort, and one
    # running maximum.
    base, origin = int(track.min()), int(start.min())
    span = int(stop.max()) - origin + 1
    tracks = int(track.max()) - base + 1
    if tracks * span >= 1 << 63:
        lower = track < base + tracks // 2
        return np.concatenate([union(every[lower]), union(every[~lower])])
    low = (track - base) * span + (start - origin)
    order = np.argsort(low)
    reach = np.maximum.accumulate((low + (stop - start))[order])
    low = low[order]
    first = np.flatnonzero(np.concatenate([[True], low[1:] > reach[:-1]]))
    last = np.concatenate([first[1:], [len(every)]]) - 1
    number, since = np.divmod(low[first], span)
    return np.stack([number + base, since + origin, reach[last] - number * span + origin], axis=1)


def lengths(disjoint: Integers, tracks: int) -> Integers:
    """By track, return the total length of a set of disjoint intervals."""
    total = np.zeros(tracks, np.int64)
    np.add.at(total, disjoint[:, 0], disjoint[:, 2] - disjoint[:, 1])
    return total


def clip(spans: Integers, low: int, high: int) -> Integers:
    """Return the parts of the intervals within [low, high)."""
    return intervals(spans[:, 0], np.maximum(spans[:, 1], low), np.minimum(spans[:, 2], high))


def gaps(disjoint: Integers, tracks: int, low: int, high: int) -> Integers:
    """Return the complement, within [low, high) on each track, of a sorted, disjoint set as returned by `union`."""
    clipped = clip(disjoint, low, high)
    every = np.arange(tracks)
    track = np.concatenate([every, clipped[:, 0]])
    start = np.concatenate([np.full(tracks, low), clipped[:, 2]])
    begin = np.concatenate([clipped[:, 1], np.full(tracks, high)])
    owner = np.concatenate([clipped[:, 0], every])
    by_start, by_end = np.lexsort((start, track)), np.lexsort((begin, owner))
    return intervals(track[by_start], start[by_start], begin[by_end])

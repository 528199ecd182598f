"""Exact overlap tests for many pairs of accesses.

Pairs are given as rows of an access table. Equal geometries at equal distances are compared once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mlusim.arrays import Integers
from mlusim.verifier.accesses.cells import runs_of
from mlusim.verifier.accesses.geometry import distinct, expand, group_rows, overlap
from mlusim.verifier.accesses.table import Accesses

Pairs = tuple[Integers, Integers]

# Up to this number of pairs, all are compared.
FEW_PAIRS = 1 << 21
# Candidates expanded at once, small enough for the caches, and pairs compared at once for a caller that may stop.
_BATCH_PAIRS = 1 << 18
_BATCH = 1 << 12


def in_batches(accesses: Accesses, a: Integers, b: Integers, delta: Integers) -> Iterator[Integers]:
    """Like `touching`, in batches for callers that stop at the first hit: pairs that need no comparison come first."""
    single_run = accesses.single_run
    certain = single_run[accesses.geometry[a]] & single_run[accesses.geometry[b]]
    yield np.flatnonzero(certain)
    uncertain = np.flatnonzero(~certain)
    for begin in range(0, len(uncertain), _BATCH):
        batch = uncertain[begin : begin + _BATCH]
        yield batch[touching(accesses, a[batch], b[batch], delta[batch])]


def touching(accesses: Accesses, a: Integers, b: Integers, delta: Any = 0) -> Integers:
    """Return the indices of the pairs that share a byte, out of pairs whose extents overlap.

    Args:
        accesses: the access table.
        a, b: rows of it.
        delta: address of the allocation of each of `a` minus that of `b`, if they differ.
    """
    if not len(a):
        return a
    single_run = accesses.single_run
    one, other = accesses.geometry[a], accesses.geometry[b]
    # The extents of single runs are exact.
    certain = single_run[one] & single_run[other]
    if certain.all():
        return np.arange(len(a))
    delta_bytes = accesses.offset[a] - accesses.offset[b] + delta
    if certain.any():
        uncertain = np.flatnonzero(~certain)
        uncertain_delta = delta_bytes[uncertain]
        exact = _exactly(accesses, one[uncertain], other[uncertain], uncertain_delta)
        certain[uncertain[exact]] = True
        return np.flatnonzero(certain)
    return _exactly(accesses, one, other, delta_bytes)


def disjoint(accesses: Accesses) -> bool:
    """Return whether no two accesses of one allocation share a byte; False also if that is expensive to determine.

    Compares either the pairs of accesses whose extents overlap, once per distance between equal geometries, or the
    sorted runs of all accesses, whichever are fewer. So tiles of a tensor are cheap to compare, whatever their size.
    """
    if any(not accesses.geometries[number].strided for number in distinct(accesses.geometry).tolist()):
        return False
    ordered = accesses.where(np.argsort(accesses.low, kind="stable"))
    following = np.arange(1, len(ordered) + 1)
    last = np.searchsorted(ordered.low, ordered.high, side="left")
    pairs = int(np.maximum(last - following, 0).sum())
    run_count = int(accesses.geometries.counts[accesses.geometry].sum())
    if min(pairs, run_count) > FEW_PAIRS:
        return False
    if run_count < pairs:
        low, high, _ = runs_of(ordered)
        order = np.argsort(low, kind="stable")
        return bool((low[order][1:] >= high[order][:-1]).all())
    return not any(len(touching(ordered, a, b)) for a, b in chunks(following, last))


def _exactly(accesses: Accesses, one: Integers, other: Integers, delta: Integers) -> Integers:
    """Return the indices of the pairs of geometries, `delta` bytes apart, that share a byte."""
    geometries = accesses.geometries
    first, kind, _ = group_rows(one, other, delta)
    pairs = zip(one[first].tolist(), other[first].tolist(), delta[first].tolist(), strict=True)
    hit = np.array([overlap(geometries[x], distance, geometries[y], 0) for x, y, distance in pairs], bool)
    return np.flatnonzero(hit[kind])


def chunks(first: Integers, last: Integers) -> Iterator[Pairs]:
    """Like `geometry.expand`, in batches of pairs."""
    counts = np.maximum(last - first, 0)
    total = np.cumsum(counts)
    if not len(total) or not total[-1]:
        return
    begin = 0
    while begin < len(counts):
        pairs_before = int(total[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(total, pairs_before + _BATCH_PAIRS, side="right")), begin + 1)
        rows, index = expand(first[begin:end], last[begin:end])
        if len(rows):
            yield rows + begin, index
        begin = end


def earlier_first(a: Integers, b: Integers) -> Pairs:
    """Order each pair with the earlier row first."""
    return np.minimum(a, b), np.maximum(a, b)

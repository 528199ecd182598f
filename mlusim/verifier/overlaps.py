"""Which of many pairs of accesses share bytes, and which bytes these are.

Pairs are given by row of a table of accesses. Equal shapes at equal distances are compared once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mlusim.verifier.accesses import Accesses
from mlusim.verifier.boxes import Integers, alike, distinct, expand, overlap, shared

Pairs = tuple[Integers, Integers]

# Pairs up to which looking at all of them is cheap, and those looked at in one go: in the caches, and in little memory.
FEW_PAIRS = 1 << 21
_PAIRS_AT_ONCE = 1 << 18
_BATCH = 1 << 12


def in_batches(accesses: Accesses, a: Integers, b: Integers, apart: Integers) -> Iterator[Integers]:
    """As `touching`, a part at a time, for those who stop at the first: those that take no work before the others."""
    whole = accesses.single_run
    certain = whole[accesses.geometry[a]] & whole[accesses.geometry[b]]
    yield np.flatnonzero(certain)
    left = np.flatnonzero(~certain)
    for begin in range(0, len(left), _BATCH):
        some = left[begin : begin + _BATCH]
        yield some[touching(accesses, a[some], b[some], apart[some])]


def touching(accesses: Accesses, a: Integers, b: Integers, delta: Any = 0) -> Integers:
    """Of pairs whose extents overlap, the numbers of those that share a byte.

    Args:
        accesses: the table.
        a, b: rows of it.
        delta: address of the allocation of each of `a` less that of `b`, where these differ.
    """
    if not len(a):
        return a
    whole = accesses.single_run
    one, other = accesses.geometry[a], accesses.geometry[b]
    # Of two single runs the extents are all.
    certain = whole[one] & whole[other]
    if certain.all():
        return np.arange(len(a))
    apart = accesses.offset[a] - accesses.offset[b] + delta
    if certain.any():
        left = np.flatnonzero(~certain)
        apart_left = apart[left]
        exact = _exactly(accesses, one[left], other[left], apart_left)
        certain[left[exact]] = True
        return np.flatnonzero(certain)
    return _exactly(accesses, one, other, apart)


def disjoint(accesses: Accesses) -> bool:
    """Whether no two of some accesses of one allocation share a byte; False too where that takes long to tell.

    Boxes of equal shapes are compared once for each distance between them, so that tiles of a tensor take little work
    however many bytes they have.
    """
    if any(not accesses.geometries[number].strided for number in distinct(accesses.geometry).tolist()):
        return False
    some = accesses.where(np.argsort(accesses.low, kind="stable"))
    following = np.arange(1, len(some) + 1)
    last = np.searchsorted(some.low, some.high, side="left")
    if int(np.maximum(last - following, 0).sum()) > FEW_PAIRS:
        return False
    return not any(len(touching(some, a, b)) for a, b in chunks(following, last))


def _exactly(accesses: Accesses, one: Integers, other: Integers, apart: Integers) -> Integers:
    """Of pairs of geometries so many bytes apart, the numbers of those that share a byte."""
    first, kind, _ = alike(one, other, apart)
    geometries = accesses.geometries
    places = zip(one[first].tolist(), other[first].tolist(), apart[first].tolist(), strict=True)
    hit = [overlap(geometries[mine], between, geometries[theirs], 0) for mine, theirs, between in places]
    return np.flatnonzero(np.array(hit, bool)[kind])


def shared_bytes(accesses: Accesses, a: int, b: int, delta: int = 0) -> Pairs:
    """Runs of bytes that two rows share, as offsets in the allocation of `a`; `delta` as in `touching`."""
    one, offset = accesses.of(a)
    other, other_offset = accesses.of(b)
    return shared(one, offset, other, other_offset - delta)


def chunks(first: Integers, last: Integers) -> Iterator[Pairs]:
    """`boxes.expand`, a part of the pairs at a time."""
    counts = np.maximum(last - first, 0)
    total = np.cumsum(counts)
    if not len(total) or not total[-1]:
        return
    begin = 0
    while begin < len(counts):
        before = int(total[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(total, before + _PAIRS_AT_ONCE, side="right")), begin + 1)
        rows, index = expand(first[begin:end], last[begin:end])
        if len(rows):
            yield rows + begin, index
        begin = end


def earlier_first(a: Integers, b: Integers) -> Pairs:
    """The earlier row first."""
    return np.minimum(a, b), np.maximum(a, b)

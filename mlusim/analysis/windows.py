"""Parts of a long log, so that what is computed from it takes little more memory than a part.

Amounts belong to records, so any parts of the log add up. Times are lengths of unions of intervals, so windows of time
add up: a window takes every record that overlaps it, and counts what lies within. No column of a long log is ever
made as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from mlusim.analysis.records import Integers, Records
from mlusim.log import BLOCKING

PIECE = 1 << 18
_BLOCKS = 16  # in a piece
_SAMPLES = 64


def pieces(records: Records, piece: int = 0) -> Iterator[Records]:
    """The records of a whole log in parts of at most `piece`, by default `PIECE`; a small log as it is."""
    count, piece = len(records), piece or PIECE
    if count <= piece:
        yield records
        return
    for first in range(0, count, piece):
        chosen = slice(first, min(first + piece, count))
        yield records.part(chosen, records.start_of_run_ps, records.end_of_run_ps)


def how_many(records: Records, piece: int = 0) -> int:
    """The number of windows of a log, or a few more: times at which many operations begin are not cut."""
    return len(records) // (piece or PIECE) + 1


def windows(records: Records, piece: int = 0, *, reach_ps: int = 0) -> Iterator[Records]:
    """Windows that follow each other, with the records that overlap each; a small log is one window.

    Operations that take long belong to several; there are about `piece` records in each window.

    Args:
        records: of the whole run.
        piece: how many records a window has, about; by default `PIECE`.
        reach_ps: for so long after its end a record still belongs to a window.
    """
    count, piece = len(records), piece or PIECE
    if count <= piece:
        yield records
        return
    parts = how_many(records, piece)
    low, high = records.start_of_run_ps, records.end_of_run_ps
    # Records stand in the order of issue: those of a window are in few blocks, whose first and last moments are known.
    block = max(piece // _BLOCKS, 1)
    bounds, sampled = [], []
    for part in pieces(records, block):
        begin, end = _reach(part, reach_ps)
        bounds.append((int(begin.min()), int(end.max())))
        sampled.append(begin[:: max(block // _SAMPLES, 1)])
    first_ps, last_ps = np.array(bounds, np.int64).T
    inside = np.sort(np.concatenate(sampled))
    cuts = [int(inside[len(inside) * part // parts]) for part in range(1, parts)]
    edges = sorted({low, high, *(cut for cut in cuts if low < cut < high)})
    for start_ps, end_ps in pairwise(edges):
        chosen = [np.empty(0, np.int64)]
        for number in np.flatnonzero((first_ps < end_ps) & (last_ps > start_ps)).tolist():
            part = records.part(slice(number * block, min((number + 1) * block, count)), low, high)
            begin, end = _reach(part, reach_ps)
            chosen.append(number * block + np.flatnonzero((begin < end_ps) & (end > start_ps)))
        yield records.part(np.concatenate(chosen), start_ps, end_ps)


def _reach(records: Records, reach_ps: int) -> tuple[Integers, Integers]:
    """(records,) from when to when each counts.

    A blocking copy counts from its issue, which waits for others; what runs behind other instructions from its start,
    however early it was issued. A posted store counts to the issue of the next: all of it within these.
    """
    waits = records.is_copy & (records.detail == BLOCKING)
    begin = np.where(waits, np.minimum(records.issue_ps, records.start_ps), records.start_ps)
    return begin, np.maximum(records.end_ps, records.start_ps) + reach_ps

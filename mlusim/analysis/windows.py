"""Parts of a long log, so that what is computed from it takes little more memory than the log itself.

Amounts belong to records, so any parts of the log add up. Times are lengths of unions of intervals, so windows of time
add up: a window takes every record that overlaps it, and counts what lies within.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from mlusim.analysis.records import Records
from mlusim.log import BLOCKING

PIECE = 1 << 20


def pieces(records: Records, piece: int = PIECE) -> Iterator[Records]:
    """The records in parts of at most `piece`; a small log as it is."""
    count = len(records)
    if count <= piece:
        yield records
        return
    for first in range(0, count, piece):
        chosen = np.arange(first, min(first + piece, count))
        yield records.part(chosen, records.start_of_run_ps, records.end_of_run_ps)


def windows(records: Records, piece: int = PIECE, *, reach_ps: int = 0) -> Iterator[Records]:
    """Windows that follow each other, with the records that overlap each; a small log is one window.

    Operations that take long belong to several; there are about `piece` records in each window.

    Args:
        records: of the whole run.
        piece: how many records a window has, about.
        reach_ps: for so long after its end a record still belongs to a window.
    """
    count = len(records)
    if count <= piece:
        yield records
        return
    # A blocking copy counts from its issue, which waits for others; what runs behind other instructions from its start,
    # however early it was issued. A posted store counts to the issue of the next: all of it within these.
    waits = records.is_copy & (records.detail == BLOCKING)
    begin = np.where(waits, np.minimum(records.issue_ps, records.start_ps), records.start_ps)
    end = np.maximum(records.end_ps, records.start_ps) + reach_ps
    low, high = records.start_of_run_ps, records.end_of_run_ps
    inside = np.sort(begin[:: max(count // (64 * (count // piece + 1)), 1)])
    cuts = [int(inside[len(inside) * part // (count // piece + 1)]) for part in range(1, count // piece + 1)]
    edges = sorted({low, high, *(cut for cut in cuts if low < cut < high)})
    for start_ps, end_ps in pairwise(edges):
        chosen = np.flatnonzero((begin < end_ps) & (end > start_ps))
        yield records.part(chosen, start_ps, end_ps)

"""Partition of a long log, so that computations need little more memory than one part.

Amounts belong to records, so arbitrary parts of the log add up. Times are lengths of unions of intervals, so time
windows add up: a window includes every record that overlaps it, clipped to the window. No column of a long log is ever
materialised as a whole.

  part    at most `PART_RECORDS` consecutive records
  window  the records of a stretch of time, about `PART_RECORDS`, from anywhere in the log
  block   a sixteenth of a part; the times of each block are known, so that a window reads only few of them
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from mlusim.analysis.log_columns import LogColumns
from mlusim.arrays import Integers

# Records read at once: 23 MB of the log.
PART_RECORDS = 1 << 18
_BLOCKS = 16  # in a part
_SAMPLES = 64  # starts in a block, from which the edges of windows are estimated


def parts_of(records: LogColumns) -> Iterator[LogColumns]:
    """Yield the records of a log in parts of at most `PART_RECORDS`; a small log is a single part."""
    if len(records) <= PART_RECORDS:
        yield records
    else:
        yield from _parts(records, PART_RECORDS)


def _parts(records: LogColumns, size: int) -> Iterator[LogColumns]:
    count = len(records)
    for first in range(0, count, size):
        selected = slice(first, min(first + size, count))
        yield records.part(selected, records.start_of_run_ps, records.end_of_run_ps)


def max_windows(records: LogColumns) -> int:
    """Return an upper bound on the number of windows; a time at which many operations begin is never cut."""
    return len(records) // PART_RECORDS + 1


def windows(records: LogColumns, *, reach_ps: int = 0) -> Iterator[LogColumns]:
    """Yield successive time windows with the records that overlap each; a small log is a single window.

    Long operations belong to several windows; each window has about `PART_RECORDS` records.

    Args:
        records: records of the whole run.
        reach_ps: time after its end during which a record still belongs to a window.
    """
    count = len(records)
    if count <= PART_RECORDS:
        yield records
        return
    parts = max_windows(records)
    low, high = records.start_of_run_ps, records.end_of_run_ps
    # Records are in issue order, so those of a window are in few blocks, whose time ranges are known.
    block = max(PART_RECORDS // _BLOCKS, 1)
    bounds, sampled = [], []
    for part in _parts(records, block):
        begin, end = _reach(part, reach_ps)
        bounds.append((int(begin.min()), int(end.max())))
        sampled.append(begin[:: max(block // _SAMPLES, 1)])
    first_ps, last_ps = np.array(bounds, np.int64).T
    sampled_ps = np.sort(np.concatenate(sampled))
    cuts = [int(sampled_ps[len(sampled_ps) * part // parts]) for part in range(1, parts)]
    edges = sorted({low, high, *(cut for cut in cuts if low < cut < high)})
    for start_ps, end_ps in pairwise(edges):
        numbers = [np.empty(0, np.int64)]
        for number in np.flatnonzero((first_ps < end_ps) & (last_ps > start_ps)).tolist():
            part = records.part(slice(number * block, min((number + 1) * block, count)), low, high)
            begin, end = _reach(part, reach_ps)
            numbers.append(number * block + np.flatnonzero((begin < end_ps) & (end > start_ps)))
        yield records.part(np.concatenate(numbers), start_ps, end_ps)


def _reach(records: LogColumns, reach_ps: int) -> tuple[Integers, Integers]:
    """By record, return the start and the end of the time that it contributes to.

    A blocking copy counts from its issue, as it may wait for others; asynchronous operations count from their start,
    however early they were issued. A posted store counts until the issue of the next instruction, which is within this
    range.
    """
    begin = np.where(records.is_blocking, np.minimum(records.issue_ps, records.start_ps), records.start_ps)
    return begin, np.maximum(records.end_ps, records.start_ps) + reach_ps

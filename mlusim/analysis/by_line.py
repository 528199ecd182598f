"""Time attribution by source line of the kernel.

If several operations cover a core's time with the same cause, the one that began first counts. Time outside operations
(issue, launch, idle) has no line. The sum over lines equals the breakdown exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlusim.analysis.breakdown import CAUSES, layers
from mlusim.analysis.intervals import clip, intervals, no_intervals, union
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.log_parts import windows
from mlusim.arrays import Integers
from mlusim.log import NONE


class LineTime(NamedTuple):
    """Core-picoseconds of one source line by cause, in the order of `CAUSES`. Line 0: outside operations."""

    file: str
    line: int
    function: str
    spent_ps: Integers

    @property
    def by_cause(self) -> dict[str, int]:
        """The causes with a time, by name."""
        return {name: spent for name, spent in zip(CAUSES, self.spent_ps.tolist(), strict=True) if spent}


def time_by_line(records: LogColumns) -> list[LineTime]:
    """Return the lines by MLU core time, in descending order; they sum to cores times the run's time.

    A long log is read in windows.
    """
    log = records.log
    spent = np.zeros((len(log.lines) + 1, len(CAUSES)), np.int64)
    for window in windows(records):
        spent += _spent_by_line(window)
    line_times = []
    for number in np.argsort(-spent.sum(axis=1), kind="stable").tolist():
        if spent[number].any():
            file, line_number, function = log.lines[number] if number < len(log.lines) else ("", 0, "")
            line_times.append(LineTime(file, line_number, function, spent[number]))
    return line_times


def _spent_by_line(records: LogColumns) -> Integers:
    """(lines + 1, causes) core-picoseconds of a window by line; the last row is outside operations."""
    cores = records.board.cores
    low, high = records.start_of_run_ps, records.end_of_run_ps
    spent = np.zeros((len(records.log.lines) + 1, len(CAUSES)), np.int64)
    causes = list(CAUSES)
    covered = no_intervals()
    for layer in layers(records):
        of_cores = layer.track < cores
        track, line = layer.track[of_cores], layer.line[of_cores]
        start, stop = np.clip(layer.start_ps[of_cores], low, high), np.clip(layer.stop_ps[of_cores], low, high)
        own_start = _start_after_earlier(layer.start_ps[of_cores], track, start, stop, low, high)
        own_ps = stop - own_start - _overlap_ps(covered, track, own_start, stop, low, high)
        nonempty = stop > own_start
        np.add.at(spent[:, causes.index(layer.cause)], line[nonempty], own_ps[nonempty])
        covered = union(covered, clip(intervals(track, start, stop), low, high))
    spent[NONE, causes.index("idle")] += cores * records.time_ps - int((covered[:, 2] - covered[:, 1]).sum())
    return spent


def _start_after_earlier(
    began: Integers, track: Integers, start: Integers, stop: Integers, low: int, high: int
) -> Integers:
    """Return where each interval's exclusive part begins: overlaps belong to the operation that began first."""
    order = np.lexsort((began, track))
    lift = track[order] * (high - low + 1)
    reach = np.maximum.accumulate(np.concatenate([[NONE], stop[order] - low + lift]))[:-1]
    own_start = np.empty_like(start)
    own_start[order] = np.maximum(start[order], np.minimum(reach - lift + low, stop[order]))
    return own_start


def _overlap_ps(covered: Integers, track: Integers, start: Integers, stop: Integers, low: int, high: int) -> Integers:
    """Return the length of each interval's overlap with a disjoint, sorted set; 0 for an empty interval."""
    if not len(covered):
        return np.zeros(len(track), np.int64)
    lift = high - low + 1
    begin = covered[:, 1] - low + covered[:, 0] * lift
    length = covered[:, 2] - covered[:, 1]
    length_before = np.cumsum(length) - length

    def until(time_ps: Integers) -> Integers:
        lifted = time_ps - low + track * lift
        index = np.searchsorted(begin, lifted, side="right") - 1
        covered_before = np.clip(lifted - begin[index], 0, length[index]) + length_before[index]
        return np.where(index < 0, 0, covered_before)

    return np.where(stop > start, until(stop) - until(start), 0)

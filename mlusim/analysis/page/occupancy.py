"""Occupancy of the on-chip memories over time, by buffer name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlusim.analysis.log_columns import LogColumns
from mlusim.arrays import Integers
from mlusim.log import NONE
from mlusim.log_tables import AllocationRecord
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.sizes import memory_sizes

# More steps than this, over all memories, result in a page of several megabytes.
MAX_STEPS = 60_000
_FEWER_STEPS = 200
_NAMES = 7
OTHERS = "others"
_ON_CHIP = (MemoryKind.NRAM, MemoryKind.SRAM, MemoryKind.WRAM)


@dataclass(frozen=True, eq=False)
class Occupancy:
    """One memory over time.

    Attributes:
        name, kind: the memory.
        usable_bytes: bytes available to kernels.
        peak_bytes: the largest number of bytes allocated at one time, rounding included.
        names: names of its buffers, the largest first; the rest is `OTHERS`.
        at_ps: by step, its time since the first launch.
        nbytes: (names, steps) allocated from each step on.
        peaks_only: whether steps were dropped: each one shown is the fullest within an interval.
    """

    name: str
    kind: MemoryKind
    usable_bytes: int
    peak_bytes: int
    names: tuple[str, ...]
    at_ps: Integers
    nbytes: Integers
    peaks_only: bool = False


def occupancies(records: LogColumns, max_steps: int = MAX_STEPS) -> list[Occupancy]:
    """Return every on-chip memory with allocations; by kind, the fullest first."""
    owned: dict[str, list[AllocationRecord]] = {}
    for record in records.log.allocations:
        if MemoryKind(record.memory) in _ON_CHIP:
            owned.setdefault(record.memory_name, []).append(record)
    charts = [_occupancy(name, allocations, records) for name, allocations in owned.items()]
    if sum(chart.nbytes.size for chart in charts) > max_steps:
        charts = [_fewer(chart, records.time_ps) for chart in charts]
    # A stable sort: among equals the first core comes first.
    return sorted(charts, key=lambda chart: (_ON_CHIP.index(chart.kind), -chart.peak_bytes))


def _occupancy(name: str, allocations: list[AllocationRecord], records: LogColumns) -> Occupancy:
    kind = MemoryKind(allocations[0].memory)
    memory = memory_sizes(records.board)[kind]
    low = records.start_of_run_ps
    size = np.array([memory.allocated_bytes(record.nbytes) for record in allocations], np.int64)
    start = np.array([record.start_ps for record in allocations], np.int64) - low
    end = np.array(
        [record.end_ps if record.end_ps != NONE else records.end_of_run_ps for record in allocations], np.int64
    )
    end = np.maximum(end - low, start)
    times = np.unique(np.concatenate([[0], start, end, [records.time_ps]]))
    names, number = np.unique([record.name for record in allocations], return_inverse=True)
    steps = np.zeros((len(names), len(times)), np.int64)
    np.add.at(steps, (number, np.searchsorted(times, start)), size)
    np.add.at(steps, (number, np.searchsorted(times, end)), -size)
    nbytes = np.cumsum(steps, axis=1)
    order = np.argsort(-nbytes.max(axis=1), kind="stable")
    nbytes, labels = nbytes[order], [str(names[index]) for index in order.tolist()]
    if len(labels) > _NAMES + 1:
        nbytes = np.concatenate([nbytes[:_NAMES], nbytes[_NAMES:].sum(axis=0, keepdims=True)])
        labels = [*labels[:_NAMES], OTHERS]
    # An allocation freed at the time of its creation is invisible in the steps, but counts in the peak.
    peak = max(int(nbytes.sum(axis=0).max()), int(size.max()))
    return Occupancy(name, kind, memory.usable_bytes, peak, tuple(labels), times, nbytes)


def _fewer(occupancy: Occupancy, time_ps: int) -> Occupancy:
    """Keep the fullest step within each of a few intervals."""
    if len(occupancy.at_ps) <= _FEWER_STEPS:
        return occupancy
    interval = np.minimum(occupancy.at_ps * _FEWER_STEPS // max(time_ps, 1), _FEWER_STEPS)
    order = np.lexsort((occupancy.nbytes.sum(axis=0), interval))
    last = np.flatnonzero(np.diff(interval[order], append=NONE) != 0)
    selected = np.sort(order[last])
    return Occupancy(
        occupancy.name,
        occupancy.kind,
        occupancy.usable_bytes,
        occupancy.peak_bytes,
        occupancy.names,
        occupancy.at_ps[selected],
        occupancy.nbytes[:, selected],
        True,
    )

"""Sums over all records of a run, in parts of its log: see `mlusim.analysis.log_parts`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlusim.analysis.breakdown import where_time_went
from mlusim.analysis.intervals import clip, intervals, lengths, union
from mlusim.analysis.log_columns import DIRECTION_NAMES, LogColumns
from mlusim.analysis.log_parts import parts_of, windows
from mlusim.arrays import Integers
from mlusim.log import PIPES, SCALAR, SYNC
from mlusim.memory.kinds import MemoryKind


class Totals:
    """Sums over the records of a run.

    Attributes:
        bytes_requested, bus_bytes, operations, pipe_busy_ps: as in `Metrics`.
        causes_ps: (cores, causes), as in `where_time_went`.
        task_busy_ps: by task, the time with at least one busy pipe.
    """

    def __init__(self, records: LogColumns) -> None:
        requested: Counter[str] = Counter()
        operations: Counter[str] = Counter()
        pipes: Counter[str] = Counter(dict.fromkeys(PIPES, 0))
        self.bus_bytes = {"read": 0, "write": 0}
        for part in parts_of(records):
            requested.update(_bytes_requested(part))
            operations.update(_sums(records.log.ops, part.op, part.count))
            pipes.update(_sums(PIPES, part.pipe, part.free_ps - part.start_ps))
            self.bus_bytes["read"] += int(part.bus_read_bytes.sum())
            self.bus_bytes["write"] += int(part.bus_write_bytes.sum())
        names = [f"scalar {kind.name} {name}" for kind in _SCALAR_KINDS for name in ("load", "store")]
        self.bytes_requested = {name: requested[name] for name in (*DIRECTION_NAMES, *names) if requested[name]}
        self.operations = {name: operations[name] for name in records.log.ops if operations[name]}
        self.pipe_busy_ps = dict(pipes)
        self.causes_ps: Any = 0
        self.task_busy_ps: Any = 0
        for window in windows(records):
            self.causes_ps = self.causes_ps + where_time_went(window)
            self.task_busy_ps = self.task_busy_ps + _task_busy(window)


_SCALAR_KINDS = (MemoryKind.GDRAM, MemoryKind.LDRAM)


def _bytes_requested(records: LogColumns) -> dict[str, int]:
    is_copy = records.direction >= 0
    requested = _sums(DIRECTION_NAMES, records.direction[is_copy], records.bytes_requested[is_copy])
    scalar = records.pipe == SCALAR
    for kind in _SCALAR_KINDS:
        in_memory = np.array([record.memory == kind.value for record in records.log.allocations] + [False])
        for name, operand in (("load", records.a_alloc), ("store", records.dst_alloc)):
            requested[f"scalar {kind.name} {name}"] = int(records.bytes_requested[scalar & in_memory[operand]].sum())
    return requested


def _task_busy(records: LogColumns) -> Integers:
    """By task, return the time within the window in which at least one of its pipes is busy."""
    is_work = records.pipe != SYNC
    busy = union(intervals(records.task[is_work], records.start_ps[is_work], records.free_ps[is_work]))
    if len(records) < records.log.count:
        busy = clip(busy, records.start_of_run_ps, records.end_of_run_ps)
    return lengths(busy, len(records.log.tasks))


def _sums(names: Sequence[str], code: Any, amount: Any) -> dict[str, int]:
    """By name, return the sum of the amounts whose code is its index, in integers."""
    totals = np.zeros(len(names), np.int64)
    np.add.at(totals, code, amount)
    return dict(zip(names, totals.tolist(), strict=True))

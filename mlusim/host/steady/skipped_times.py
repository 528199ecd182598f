"""Fills in the times of skipped operations, in the log of a run that skipped them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from mlusim.arrays import Integers
from mlusim.host.steady.periods import SAME_COST
from mlusim.host.steady.skips import Skip
from mlusim.host.steady.task_loops import RunSoFar, cost_of
from mlusim.log import NONE, Log
from mlusim.log_tables import AllocationRecord, LaunchRecord, SkippedRecord, TaskRecord

Spanned = TypeVar("Spanned", TaskRecord, LaunchRecord, AllocationRecord)
_TIMES = ("issue_ps", "start_ps", "end_ps", "latency_ps")
# Periods that the skipped operations repeat.
_REPEATED = 12
# The cost of a skipped operation differs from that of the one that it repeats by less than this fraction.
_SAME_COST = 3 * SAME_COST


def fill_in_times(log: Log, skips: Sequence[Skip]) -> float | None:
    """Complete a log with the times of its skipped operations.

    Returns the bound of the error of the run's time, in picoseconds; None if the skipped operations are not repeats of
    those before them, and the log is useless.
    """
    # Without costs, as their groups depend on all costs in the log; each is compared below.
    run = RunSoFar(log, costs=False)
    if any(sum(number in skip.parts for skip in skips) > 1 for number in range(len(log.tasks))):
        return None
    tasks = [_TaskRecords(run.records_of(number), number, skips) for number in range(len(log.tasks))]
    errors_ps = [task.error_ps(log, run.codes) for task in tasks]
    if None in errors_ps:
        return None
    error_ps = max(error for error in errors_ps if error is not None)
    _set_times(log, tasks)

    def after_skips(time_ps: int) -> int:
        return time_ps if time_ps < 0 else time_ps + sum(skip.length_ps for skip in skips if skip.now_ps < time_ps)

    def delayed(span: Spanned) -> Spanned:
        return replace(span, start_ps=after_skips(span.start_ps), end_ps=after_skips(span.end_ps))

    log.tasks = [delayed(task) for task in log.tasks]
    log.launches = [delayed(launch) for launch in log.launches]
    log.allocations = [delayed(allocation) for allocation in log.allocations]
    for skip in skips:
        start_ps = skip.now_ps + sum(record.end_ps - record.start_ps for record in log.skipped)
        operations = sum(part.operations for part in skip.parts.values())
        bound_ps = round(skip.bound_ps + error_ps)
        log.skipped.append(SkippedRecord(start_ps, start_ps + skip.length_ps, operations, bound_ps))
    return float(sum(record.bound_ps for record in log.skipped))


def _set_times(log: Log, tasks: Sequence[_TaskRecords]) -> None:
    """Set the times of all records."""
    columns = {name: log.records.column(name, slice(0, len(log))) for name in (*_TIMES, "waited_for")}
    # By simulated record, the record that gets its times: of operations in flight at a skip, one after it.
    final = np.arange(len(log))
    for task in tasks:
        final[task.simulated] = task.records[task.index]
    for task in tasks:
        simulated, waited = task.simulated, columns["waited_for"][task.simulated]
        new_times = task.add_skipped_times({name: columns[name][simulated] for name in _TIMES})
        log.records.set_times(final[simulated], new_times | {"waited_for": np.where(waited < 0, NONE, final[waited])})
        if task.part is None:
            continue
        records, template, shift = task.repeats()
        repeated = {
            name: values[template] + (0 if name == "latency_ps" else shift) for name, values in new_times.items()
        }
        # A skipped operation waited for the operation at the same distance as in the period that it repeats.
        waited_record = final[np.maximum(waited[template], 0)]
        distance = task.index[template] - np.searchsorted(task.records, waited_record)
        in_task = (waited[template] >= 0) & np.isin(waited_record, task.records) & (distance > 0)
        source = task.records[(np.searchsorted(task.records, records) - distance).clip(0, len(task.records) - 1)]
        log.records.set_times(records, repeated | {"waited_for": np.where(in_task, source, NONE)})


class _TaskRecords:
    """The records of one task: which are simulated, and to which place each belongs.

    Attributes:
        records: all records of the task, in order.
        part: the part that it skipped, if any.
        simulated: the simulated records.
        index: by simulated record, its index in `records` once the skipped operations are in front of those in flight.
    """

    def __init__(self, records: Integers, number: int, skips: Sequence[Skip]) -> None:
        self.records = records
        self._skips = skips
        # The skip in which the task takes part, if any: at most one.
        self._skip = next((skip for skip in skips if number in skip.parts), None)
        self.part = None if self._skip is None else self._skip.parts[number]
        is_simulated = np.ones(len(records), bool)
        if self.part is not None:
            first = self.part.position + 2
            if self.part.forward is not None:
                first = int(np.searchsorted(records, self.part.forward.first))
            is_simulated[first : first + self.part.operations] = False
        self.simulated = records[is_simulated]
        self.index = np.arange(len(self.simulated))
        self._is_after_skip = np.zeros(len(self.simulated), bool)
        if self.part is not None:
            self._is_after_skip = self.index > self.part.position
            self.index = self.index + np.where(self._is_after_skip, self.part.operations, 0)

    def error_ps(self, log: Log, codes: Integers) -> float | None:
        """Return the difference in time between the skipped operations and as many of those that they repeat.

        None if they are other operations.
        """
        part = self.part
        if part is None or self._skip is None:
            return 0.0
        complete = part.forward is None or (part.forward.done and not part.forward.failed)
        if not complete or len(self.records) > part.max_operations:
            return None
        first, length = part.position + 1, part.period
        repeated = self.records[first - length : first + part.operations]
        ops, costs = codes[repeated], cost_of(log, repeated)
        template = np.resize(costs[:length], len(costs))
        if not np.array_equal(ops[length:], ops[:-length]) or (np.abs(costs - template) > _SAME_COST * template).any():
            return None
        measured_operations = min(_REPEATED * length, first // length * length)
        skipped_operations = part.operations // measured_operations * measured_operations
        cost = cost_of(log, self.records[first - measured_operations : first + skipped_operations])
        measured_cost = float(cost[:measured_operations].sum())
        drift = (
            cost[measured_operations:].sum() / measured_cost - skipped_operations / measured_operations
            if measured_cost
            else 0.0
        )
        return float(abs(drift) / max(skipped_operations / measured_operations, 1.0) * self._skip.length_ps)

    def add_skipped_times(self, times: dict[str, Integers]) -> dict[str, Integers]:
        """Return times of the simulated operations with the skipped time added."""
        delayed = {"latency_ps": times["latency_ps"]}
        for name in ("issue_ps", "start_ps", "end_ps"):
            delayed[name] = times[name].copy()
            for skip in self._skips:
                is_later = self._is_after_skip if skip is self._skip else times[name] > skip.now_ps
                delayed[name] += np.where(is_later, skip.length_ps, 0)
        delayed["issue_ps"] = np.minimum(delayed["issue_ps"], delayed["start_ps"])
        return delayed

    def repeats(self) -> tuple[Integers, Integers, Integers]:
        """Return the skipped records, the simulated operations that they repeat, and the time between both."""
        part, skip = self.part, self._skip
        assert part is not None
        assert skip is not None
        first = part.position + 1
        measured_operations = min(_REPEATED * part.period, first // part.period * part.period)
        offset = np.arange(part.operations)
        # The repeats together fill the stretch exactly.
        shift = (offset // measured_operations + 1) * (skip.length_ps / part.operations * measured_operations)
        return (
            self.records[first + offset],
            first - measured_operations + offset % measured_operations,
            np.rint(shift).astype(np.int64),
        )

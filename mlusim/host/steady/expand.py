"""Assembles the log of the whole run from a dry log and the times of a replay with skips."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from mlusim.host.steady.periods import Integers
from mlusim.host.steady.skips import CuttingReplay, Skip
from mlusim.log import NONE, AllocationRecord, LaunchRecord, Log, SkippedRecord, TaskRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

Spanned = TypeVar("Spanned", TaskRecord, LaunchRecord, AllocationRecord)
_TIMES = ("issue_ps", "start_ps", "end_ps", "latency_ps")


def expand(dry: Log, replay: CuttingReplay, timed: Log) -> Log:
    """Fill in the times of a dry log, and return it.

    Args:
        dry: the complete dry log.
        replay: its replay.
        timed: the log of that replay.
    """
    skips = replay.skips
    columns = {name: timed.records.column(name, slice(0, len(timed))) for name in (*_TIMES, "waited_for")}
    # By record of the replay, its record in the dry log: after a skipped stretch if in flight when it began.
    final = np.full(len(timed), NONE, np.int64)
    filled = []
    for number, course in replay.courses.items():
        records = replay.records_of(number)
        numbers = np.array(course.numbers, np.int64)
        times = {name: columns[name][numbers] for name in _TIMES}
        pieces = _Pieces(records, numbers, times)
        for skip in skips:
            pieces.add(skip, number)
        pieces.finish()
        final[numbers] = pieces.records
        filled.append(pieces)
    for pieces in filled:
        waited = columns["waited_for"][pieces.numbers]
        dry.records.set_times(pieces.records, pieces.times | {"waited_for": np.where(waited < 0, NONE, final[waited])})
        for numbers, templates, shifted in pieces.filled:
            # A skipped operation waited for the operation at the same distance as in the period that it repeats.
            before = final[np.maximum(columns["waited_for"][templates], 0)]
            apart = final[templates] - before
            own = (columns["waited_for"][templates] >= 0) & (apart > 0) & (apart <= numbers - numbers[0] + len(numbers))
            dry.records.set_times(numbers, shifted | {"waited_for": np.where(own, numbers - apart, NONE)})

    def at(time_ps: int) -> int:
        return time_ps if time_ps < 0 else time_ps + sum(skip.length_ps for skip in skips if skip.now_ps < time_ps)

    new = replay.new_tasks
    old = np.argsort(new).tolist()

    def moved(span: Spanned) -> Spanned:
        return replace(span, start_ps=at(span.start_ps), end_ps=at(span.end_ps))

    dry.tasks = [moved(timed.tasks[number]) for number in new]
    dry.launches = [moved(launch) for launch in timed.launches]
    dry.allocations = [
        moved(replace(allocation, task=allocation.task if allocation.task == NONE else old[allocation.task]))
        for allocation in timed.allocations
    ]
    dry.skipped = [_skipped(skips, index) for index in range(len(skips))]
    return dry


def _skipped(skips: Sequence[Skip], position: int) -> SkippedRecord:
    skip = skips[position]
    start_ps = skip.now_ps + sum(skip.length_ps for skip in skips[:position])
    operations = sum(cut.operations for cut in skip.cuts.values())
    return SkippedRecord(start_ps, start_ps + skip.length_ps, operations, skip.bound_ps)


class _Pieces:
    """The records of one task: the simulated ones, and the skipped ones between them."""

    def __init__(self, records: Integers, numbers: Integers, times: dict[str, Integers]) -> None:
        self.numbers = numbers
        self.times = times
        # By simulated operation, its index in the task.
        self._operations = np.arange(len(numbers))
        self._shift = np.zeros(len(numbers), np.int64)
        self._all = records
        self._fills: list[tuple[Integers, Integers, Integers]] = []
        self._later: list[tuple[int, int]] = []
        self.records: Integers = records
        self.filled: list[tuple[Integers, Integers, dict[str, Integers]]] = []

    def add(self, skip: Skip, number: int) -> None:
        """Insert a skipped stretch."""
        cut = skip.cuts.get(number)
        if cut is None:
            # The task issued nothing in that time: operations that end later are delayed by its length.
            self._later.append((skip.now_ps, skip.length_ps))
            return
        first = int(self._operations[cut.position]) + 1
        offset = np.arange(cut.operations)
        template = cut.position - cut.measured + 1 + offset % cut.measured
        rounds = offset // cut.measured + 1
        # The repeats together fill the stretch exactly.
        shift = rounds * (skip.length_ps / cut.operations * cut.measured)
        self._fills.append((first + offset, template, np.rint(shift).astype(np.int64) + self._shift[template]))
        self._operations[cut.position + 1 :] += cut.operations
        self._shift[cut.position + 1 :] += skip.length_ps

    def finish(self) -> None:
        """Compute records and times."""
        self.records = self._all[self._operations]
        simulated = dict(self.times)
        self.times = self._moved(simulated, self._shift)
        for operations, template, shift in self._fills:
            times = self._moved({name: values[template] for name, values in simulated.items()}, shift)
            self.filled.append((self._all[operations], self.numbers[template], times))

    def _moved(self, times: dict[str, Integers], shift: Integers) -> dict[str, Integers]:
        moved = {"latency_ps": times["latency_ps"]}
        for name in ("issue_ps", "start_ps", "end_ps"):
            later = sum((np.where(times[name] > now, length, 0) for now, length in self._later), np.int64(0))
            moved[name] = times[name] + shift + later
        moved["issue_ps"] = np.minimum(moved["issue_ps"], moved["start_ps"])
        return moved

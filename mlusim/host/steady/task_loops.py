"""The loop that each running task is in, from the log of the run so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mlusim.arrays import Integers, Numbers
from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.host.steady.periods import Period, codes_of, period_at
from mlusim.log import IO, NONE, Log
from mlusim.memory.copy_cost import start_up_ps
from mlusim.memory.kinds import Direction
from mlusim.units import PS_PER_S

if TYPE_CHECKING:
    from mlusim.cores.tasks.task import Task


# Periods that a task executes before it counts as steady, those that are then measured, and those at its end that are
# always simulated.
WARM = 4
MEASURED = 16
LEFT = 4
# A port that transfers for at least this fraction of the time counts as full.
_FULL = 0.9
# A copy that takes longer than alone by more than this factor shares its link.
_LONGER = 1.001


class TaskLoop(NamedTuple):
    """A task in a loop.

    Attributes:
        task: the task.
        records: its records, in order.
        position: index of the last record up to which all are complete.
        period: the loop around that record, as far as it has been issued.
        ends: end times of one operation of each period.
        progress: by these times, the periods that the task has executed since it began.
        rounds: by barrier, the number of times that a period passes it.
        neighbours: number of MLU cores of its cluster that run a task, its own included.
        group: tasks with the same group execute the same loop next to equally many neighbours.
    """

    task: Task
    records: Integers
    position: int
    period: Period
    ends: Numbers
    progress: Numbers
    rounds: dict[str, int]
    neighbours: int
    group: tuple[Any, ...]


class RunSoFar:
    """The records of a log at one moment, by task.

    Attributes:
        codes: by record, the code of its operation (`codes_of`): equal for operations of a kind and, unless `costs` is
            False, of a cost.
    """

    def __init__(self, log: Log, *, costs: bool = True) -> None:
        self._log = log
        self._table, self._rows = instructions = log.records.instructions()
        self.codes = codes_of(log, instructions, costs=costs)
        tasks = log.records.column("task", slice(0, len(log)))
        self._order = np.argsort(tasks, kind="stable")
        self._bounds = np.searchsorted(tasks[self._order], np.arange(len(log.tasks) + 1))

    def records_of(self, task: int) -> Integers:
        """Return the records of a task, in order."""
        return self._order[self._bounds[task] : self._bounds[task + 1]]

    def loop_of(self, task: Task, now: int) -> TaskLoop | None:
        """Return the loop that a task is in; None if it has not executed enough of it."""
        records = self.records_of(task.index)
        column = self._log.records.column
        all_ends = column("end_ps", records)
        under_way = np.flatnonzero((all_ends < 0) | (all_ends > now))
        position = int(under_way[0]) - 1 if len(under_way) else len(records) - 1
        codes = self.codes[records]
        if position < 0:
            return None
        period = period_at(codes, position, WARM + MEASURED + 1)
        if period is None:
            return None
        length = period.operations
        last = records[position + 1 - length : position + 1]
        op, pipe, alone_ps = (self._table[name][self._rows[last]] for name in ("op", "pipe", "alone_ps"))
        # The end of a period is that of its longest copy, or of its longest operation.
        longest = int(np.argmax(np.where(pipe == IO, alone_ps + 1, 0) * (1 << 20) + alone_ps))
        marks = np.arange(position + 1 - period.before * length + longest, position + 1, length)
        names = [self._log.ops[code] for code in op.tolist()]
        cores = [unit for unit in task.unit.cluster.units if not unit.is_memory_core]
        neighbours = sum(core.task is not None and not core.task.finished for core in cores)
        return TaskLoop(
            task=task,
            records=records,
            position=position,
            period=period,
            ends=all_ends[marks].astype(np.float64),
            progress=(marks + 1) / length,
            rounds={name: names.count(name) for name in BARRIERS if name in names},
            neighbours=neighbours,
            group=(length, neighbours, np.sort(codes[position + 1 - length : position + 1]).tobytes()),
        )

    def waits(self, loop: TaskLoop) -> bool:
        """Return whether the transfers of a task take longer than they would without other tasks."""
        records = self._latest(loop, MEASURED)
        records = records[self._table["pipe"][self._rows[records]] == IO]
        start_ps, end_ps, latency_ps = self._times(records)
        took_ps = end_ps - start_ps - latency_ps
        return bool((took_ps > self._transfer_ps(loop, records) * _LONGER).any())

    def links(self, loops: Sequence[TaskLoop], period_ps: float) -> Integers:
        """Return the number of the full link that each of some tasks in the same loop shares with others.

        That is the port of its cluster, if the cores of the cluster fill it in one direction; else all share the DRAM.
        """
        first, board = loops[0], loops[0].task.chip.board
        rows = self._rows[self._latest(first, 1)]
        needed_ps = max(
            int(self._table[f"bus_{direction}_bytes"][rows].sum()) * first.neighbours * PS_PER_S / rate
            for direction, rate in (
                ("read", board.cluster_read_bandwidth_bytes_per_s),
                ("write", board.cluster_write_bandwidth_bytes_per_s),
            )
        )
        if needed_ps < _FULL * period_ps:
            return np.zeros(len(loops), np.int64)
        return np.array([loop.task.unit.cluster.index for loop in loops], np.int64)

    def alone_ps(self, loop: TaskLoop) -> int:
        """Return the time that a period of a task takes without other tasks, or more.

        Copies hide the start-up of those issued before they end; so do other operations, unless they run beside copies
        now.
        """
        length = loop.period.operations
        # Three periods, as operations may run beside copies of another one.
        records = self._latest(loop, 3)
        is_copy = self._table["pipe"][self._rows[records]] == IO
        start_ps, end_ps, latency_ps = self._times(records)
        issue_ps = self._log.records.column("issue_ps", records)
        alone_ps = cost_of(self._log, records)
        copies, others = np.flatnonzero(is_copy), np.flatnonzero(~is_copy)
        transfer_ps = self._transfer_ps(loop, records[copies])
        # The copies before each one that end after its issue.
        is_ahead = np.tril(end_ps[copies] > issue_ps[copies][:, np.newaxis], -1)
        start_up_ps = np.maximum(alone_ps[copies] - transfer_ps - is_ahead @ transfer_ps, latency_ps[copies])
        # The middle period, copies with those before them.
        others, own_copies = others[others // length == 1], copies // length == 1
        copies_ps = int((start_up_ps + transfer_ps)[own_copies].sum())
        beside_ps = np.minimum.outer(end_ps[others], end_ps[copies])
        beside_ps = beside_ps - np.maximum.outer(start_ps[others], start_ps[copies])
        others_ps = int(alone_ps[others].sum())
        return max(copies_ps, others_ps, copies_ps + others_ps - int(beside_ps.clip(min=0).sum()))

    def _latest(self, loop: TaskLoop, periods: int) -> Integers:
        """Return the records of the latest periods of a loop."""
        end = loop.position + 1
        return loop.records[end - periods * loop.period.operations : end]

    def _times(self, records: Integers) -> tuple[Integers, Integers, Integers]:
        """Return start, end and the part of the start-up that was not hidden, of operations."""
        column = self._log.records.column
        return column("start_ps", records), column("end_ps", records), column("latency_ps", records)

    def _transfer_ps(self, loop: TaskLoop, copies: Integers) -> Integers:
        """Return the times that copies take without other tasks, after their start-up."""
        start_up = np.array([start_up_ps(loop.task.chip.board, direction) for direction in Direction])
        transfer_ps: Integers = cost_of(self._log, copies) - start_up[self._table["direction"][self._rows[copies]]]
        return transfer_ps

    def waits_at_barrier(self, task: Task) -> bool:
        """Return whether a task waits at a barrier."""
        records = self.records_of(task.index)
        last = self._log.records.op(int(records[-1])) if len(records) else NONE
        return bool(task.waits_for) and last != NONE and self._log.ops[last] in BARRIERS


def loop_end(log: Log, launch: int, issued: int) -> tuple[int, int]:
    """Return the number of operations that tasks of a launch have issued when their loop ends, and how many follow.

    Args:
        log: a dry log with some tasks of the launch.
        launch: the launch.
        issued: number of operations issued by a task that is in the loop.

    If tasks differ, the least number that they have issued, and the largest that follow; 0 if one is not in a loop.
    """
    run = RunSoFar(log)
    ends, follow = [], []
    for number, task in enumerate(log.tasks):
        records = run.records_of(number)
        if task.launch != launch or task.is_memory_core or not len(records):
            continue
        period = period_at(run.codes[records], issued - 1, MEASURED) if issued <= len(records) else None
        ends.append(0 if period is None else issued + period.after * period.operations)
        follow.append(len(records) - max(ends[-1], issued))
    return min(ends, default=0), max(follow, default=0)


def cost_of(log: Log, records: Integers) -> Integers:
    """Return the times that operations take alone."""
    table, rows = log.records.instructions()
    return table["alone_ps"][rows[records]]


def teams(loops: Sequence[TaskLoop]) -> list[list[TaskLoop]]:
    """Return the loops of tasks that meet at barriers, and therefore advance together.

    The first loop of each team is that of an MLU core.
    """
    across_clusters = any(
        name.startswith("sync_all") and "cluster" not in name for loop in loops for name in loop.rounds
    )
    by_key: dict[Any, list[TaskLoop]] = {}
    for loop in loops:
        key: Any = loop.task.index
        if loop.rounds:
            key = (id(loop.task.job), -1 if across_clusters else loop.task.unit.cluster.index)
        by_key.setdefault(key, []).append(loop)
    return [sorted(team, key=lambda loop: loop.task.unit.is_memory_core) for team in by_key.values()]

"""The operations that tasks skip: as many periods as pass in the same time, by `FastForward` or out of the pipe."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mlusim.host.steady.fast_forward import FastForward
from mlusim.host.steady.task_group import TaskGroup
from mlusim.host.steady.task_loops import TaskLoop

if TYPE_CHECKING:
    from mlusim.cores.tasks.task import Task


class SkippedPart(NamedTuple):
    """Operations that one task skipped.

    Attributes:
        position: index in the task's records of the last completed operation; in time, the skipped ones follow it.
        operations: number of skipped operations.
        period: operations of a period.
        forward: how they were issued; None if they were taken out of the pipe, two operations after `position`.
        max_operations: number of operations of the task, at most: the bound does not account for what follows the loop.
    """

    position: int
    operations: int
    period: int
    forward: FastForward | None
    max_operations: float


class Skip(NamedTuple):
    """Operations skipped by all tasks: in simulated time (without it) the start, its length, and its error bound."""

    now_ps: int
    length_ps: int
    bound_ps: float
    parts: dict[int, SkippedPart]


def periods_of_groups(groups: list[TaskGroup], length_ps: float) -> tuple[dict[int, int], float, float]:
    """By first task of a team, return the periods that it skips; their time, and by how much that of groups differs.

    The slowest group skips whole periods, which the other ones match as well as they can.
    """
    own_periods: dict[int, int] = {}
    difference_ps = 0.0
    for group in sorted(groups, key=lambda group: -group.pace.period_ps):
        pace = group.pace
        periods = length_ps / pace.period_ps
        periods_by_task = (round(periods) if own_periods else int(periods)) + pace.typical_changes(
            periods, group.alone_ps
        )
        group_ps = float(periods_by_task.mean()) * pace.period_ps
        if not own_periods:
            length_ps = group_ps
        difference_ps += abs(group_ps - length_ps)
        own_periods |= dict(zip((member.task.index for member in group.members), periods_by_task.tolist(), strict=True))
    return own_periods, length_ps, difference_ps


def periods_of_team(team: list[TaskLoop], periods: int) -> list[int]:
    """Return the periods that each task of a team skips if the first one skips `periods`; empty if that is impossible.

    All have to skip equally many rounds of each barrier.
    """
    periods_by_task = []
    for loop in team:
        rounds = {divmod(periods * team[0].rounds.get(name, 0), times) for name, times in loop.rounds.items()}
        task_periods = [quotient for quotient, remainder in rounds or {(periods, 0)} if not remainder]
        if len(task_periods) != 1 or len(rounds) > 1:
            return []
        periods_by_task.append(task_periods[0])
    return periods_by_task


def waits_in_pipe(loop: TaskLoop, operations: int, now: int) -> bool | None:
    """Return whether the next operations of a task, but the current one, wait in its pipe.

    None if some do and some do not, or if some are not ready yet: they do not begin earlier if others are skipped.
    """
    next_records = loop.records[loop.position + 2 : loop.position + 2 + operations]
    if len(next_records) < operations:
        return False
    queue = [*islice(loop.task.unit.io.engine.queue, operations)]
    if not np.array_equal([transfer.record for transfer in queue], next_records):
        return None
    return True if loop.task.now_ps + max(transfer.latency_ps for transfer in queue) <= now else None


def take_out(task: Task, operations: int) -> None:
    """Take the next operations of a task, but the current one, out of its pipe."""
    queue = task.unit.io.engine.queue
    for _ in range(operations):
        queue.popleft()
    task.pending_io -= operations

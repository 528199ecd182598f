"""Checks at the end of a run: tasks that still wait, and times beyond those that a record can hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mlusim.errors import HangError, SimulatedTimeError
from mlusim.hardware import Board
from mlusim.log_tables import task_names
from mlusim.records import longest_run_ps
from mlusim.source_code import source_name
from mlusim.units import PS_PER_HOUR, first_of, format_ns, plural

if TYPE_CHECKING:
    from mlusim.cores.tasks.task import Task


def check_deadlock(tasks: Iterable[Task]) -> None:
    """Raise `HangError` if tasks wait although no event is left. `tasks`: those of all jobs that have not ended."""
    returned: list[Task] = []
    # The tasks that wait, by the operation and its line.
    tasks_by_place: dict[tuple[str, str], list[Task]] = {}
    for task in tasks:
        if task.finished:
            returned.append(task)
        else:
            tasks_by_place.setdefault(_waits_at(task), []).append(task)
    if not tasks_by_place:
        return
    count = sum(map(len, tasks_by_place.values()))
    tasks_text = f"{plural(count, 'task')} wait{'s' if count == 1 else ''}"
    places_text = first_of("; ", [_waiting_text(*key, group) for key, group in tasks_by_place.items()])
    returned_text = f" Already returned: {_names(returned)}." if returned else ""
    rule = (
        "A barrier waits for all of its participants, memory cores too (not in barriers of the MLU cores, such as "
        "sync_all_ipu): make all of them reach it"
    )
    if all(operation.startswith("lock ") for operation, _ in tasks_by_place):
        rule = "A lock is held until its task releases it: release it on every path, and lock in the same order"
    raise HangError(f"deadlock: {tasks_text} forever: {places_text}.{returned_text} {rule}")


def check_time(board: Board, now_ps: int) -> None:
    """Raise `SimulatedTimeError` if a run takes so long that sums of times over all units could overflow."""
    units = board.cores + board.clusters
    longest_ps = longest_run_ps(units)
    if now_ps > longest_ps:
        raise SimulatedTimeError(
            f"the run takes {now_ps / PS_PER_HOUR:.4g} h of simulated time, and the sums over the {units} units of "
            f"{board.name} are exact up to {longest_ps / PS_PER_HOUR:.4g} h, as 64-bit picoseconds: give the kernel "
            "less to do, or the board higher rates"
        )


def _waits_at(task: Task) -> tuple[str, str]:
    """Return the operation that a task waits in, and its line."""
    if task.waits_for is None:
        return "an operation", ""
    operation, line, _ = task.waits_for
    file, number, _ = task.chip.log.lines[line]
    return operation, f" at {source_name(file)}:{number}"


def _waiting_text(operation: str, location: str, tasks: Sequence[Task]) -> str:
    since_ps = min((task.waits_for[2] for task in tasks if task.waits_for is not None), default=None)
    several = len(tasks) > 1
    since = "" if since_ps is None else f"{', the first' if several else ''} since {format_ns(since_ps)}"
    return f"{_names(tasks)} {'wait' if several else 'waits'} in {operation}{location}{since}"


def _names(tasks: Sequence[Task]) -> str:
    """Name tasks; several of them by their numbers, a single one with its core."""
    return tasks[0].name if len(tasks) == 1 else task_names(task.chip.log.tasks[task.index] for task in tasks)

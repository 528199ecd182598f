"""Checks at the end of a run: tasks that still wait, and times beyond those that a record can hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mlusim.errors import HangError, SimulatedTimeError
from mlusim.hardware import Board
from mlusim.records import longest_run_ps
from mlusim.units import PS_PER_HOUR

if TYPE_CHECKING:
    from mlusim.cores.tasks.task import Task

# Tasks that the message of a deadlock lists.
_LISTED_TASKS = 12


def check_deadlock(tasks: Iterable[Task]) -> None:
    """Raise `HangError` if tasks wait although no event is left. `tasks`: those of all jobs that have not ended."""
    waiting, returned, only_locks = [], [], True
    for task in tasks:
        if task.finished:
            returned.append(task.name)
        else:
            waiting.append(task.waiting_text())
            only_locks &= task.waits_for is not None and task.waits_for[0].startswith("lock ")
    if not waiting:
        return
    count = "1 task waits" if len(waiting) == 1 else f"{len(waiting)} tasks wait"
    returned_text = f" Already returned: {_listed(returned)}." if returned else ""
    rule = (
        "A barrier waits for every participant, the memory core too (sync_all_ipu: without memory cores): make all of "
        "them reach it"
    )
    if only_locks:
        rule = "A lock is held until its task releases it: release it on every path, and lock in the same order"
    raise HangError(f"deadlock: {count} forever: {_listed(waiting)}.{returned_text} {rule}")


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


def _listed(texts: list[str]) -> str:
    """Join texts, the first few of many."""
    others = len(texts) - _LISTED_TASKS
    return "; ".join(texts[:_LISTED_TASKS]) + (f"; and {others} more" if others > 0 else "")

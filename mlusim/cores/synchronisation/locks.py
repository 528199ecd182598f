"""Locks between cores: `__bang_lock` and `__bang_unlock` (B, from the 2xx series on).

Each lock has a number and is held by at most one task. Both calls wait for all pipes of their core, so accesses
protected by a lock are complete when it is released. ASSUMED: locks are shared by the whole chip, waiting tasks acquire
a lock in order of arrival, and passing it on takes the time of a cluster's barrier. The checker treats accesses
protected by the same lock as exclusive; locks imply no further ordering.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.cores.synchronisation.ordering import ALL_PIPES
from mlusim.errors import HangError, OperandError, shown
from mlusim.log import NONE, SYNC

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.tasks.task import Task
    from mlusim.cores.tasks.waiting import Waiting

LOCK_NAMES = ("lock", "unlock")
# In the log, the number of a lock is stored above the bits of the pipes.
_SHIFT = 8


def lock_number(detail: Any) -> Any:
    """Return the number of a lock, given the `detail` of its record; of several as arrays."""
    return detail >> _SHIFT


class Lock:
    """The owner of a lock, and the waiting tasks with their records."""

    def __init__(self) -> None:
        self.owner: Task | None = None
        self.waiting: deque[tuple[Task, int]] = deque()


def change(issuer: Issuer, line: int, name: str, number: int) -> Waiting:
    """Acquire the lock with this number, waiting for it (`lock`), or release it (`unlock`), by `name`.

    Raises `OperandError` for a negative number, and for unlocking a lock that the task does not hold; `HangError` for
    locking one that it already holds. A task that waits for a lock that is never released waits forever; the run ends
    in `HangError`, too.
    """
    task = issuer.task
    locks = issuer.chip.locks
    if not isinstance(number, int | np.integer) or isinstance(number, bool):
        raise OperandError(f"{name} {shown(number)}: the number of a lock must be an integer, 0 or more")
    number = int(number)  # compiled code takes no integers of NumPy
    if number < 0:
        raise OperandError(f"{name} {number}: the number of a lock must be 0 or more")
    lock = locks.setdefault(number, Lock())
    if name == "unlock" and lock.owner is not task:
        held = [other for other, other_lock in locks.items() if other_lock.owner is task]
        remedy = f"it holds lock {held[0]}, and can only release that" if held else f"call lock({number}) first"
        raise OperandError(f"unlock {number}: this task does not hold that lock; {remedy}")
    if name == "lock" and lock.owner is task:
        error = HangError(f"deadlock: this task waits for lock {number}, which it holds itself; unlock it first")
        error.own_lock = task.index, number
        raise error
    issuer.begin()
    now_ps = task.now_ps
    pipes_and_number = ALL_PIPES | number << _SHIFT
    record = issuer.record(name, SYNC, line, now_ps, now_ps, NONE, detail=pipes_and_number, alone_ps=0)
    task.waits_for = f"{name} {number}", line, now_ps
    act = partial(_acquire if name == "lock" else _release, task, record, lock)
    if not task.drain(ALL_PIPES, record, partial(_when_reached, task, act)):
        _when_reached(task, act)
    task.unawaited = record
    return issuer.suspending


def _when_reached(task: Task, act: partial[None]) -> None:
    """Call `act` when the board's time reaches the task's."""
    environment = task.chip.environment
    environment.after(max(0, task.now_ps - environment.now), lambda _: act())


def _acquire(task: Task, record: int, lock: Lock) -> None:
    if lock.owner is not None:
        lock.waiting.append((task, record))
        return
    lock.owner = task
    _resume_after(task, record, task.chip.board.cluster_barrier_ps)


def _release(task: Task, record: int, lock: Lock) -> None:
    lock.owner = None
    if lock.waiting:
        following, waits = lock.waiting.popleft()
        lock.owner = following
        following.chip.log.records.set_wait(waits, record)
        _resume_after(following, waits, task.chip.board.cluster_barrier_ps)
    _resume_after(task, record, 0)


def _resume_after(task: Task, record: int, delay_ps: int) -> None:
    environment = task.chip.environment
    task.now_ps = max(task.now_ps, environment.now + delay_ps)
    task.waits_for = None
    task.chip.log.records.set_end(record, task.now_ps)
    environment.after(task.now_ps - environment.now, task.resume)

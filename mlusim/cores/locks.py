"""Locks between cores: `__bang_lock` and `__bang_unlock` (B, from the 2xx series on).

One task at a time holds the lock of a number. Both calls wait for all pipes of their core, so what a lock protects is
complete when it is given back. ASSUMED: locks are the chip's, those who wait get it in the order in which they came,
and it changes hands in the time of a cluster's barrier. The checker takes what one lock protects as exclusive; it gives
no order beyond that.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from mlusim.cores.ordering import ALL_PIPES
from mlusim.errors import OperandError
from mlusim.log import NONE, SYNC

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.task import Task
    from mlusim.cores.waiting import Waiting

LOCK_NAMES = ("lock", "unlock")
# In the log the number stands in `detail` above the pipes that are waited for.
SHIFT = 8


class Lock:
    """Who holds the lock of a number, and who waits for it with which record."""

    __slots__ = ("owner", "waiting")

    def __init__(self) -> None:
        self.owner: Task | None = None
        self.waiting: deque[tuple[Task, int]] = deque()


def change(issuer: Issuer, line: int, name: str, number: int) -> Waiting:
    """Take the lock of a number and wait until it is there (`lock`), or give it back (`unlock`).

    Args:
        issuer: of the task that calls.
        line: source line in the log.
        name: `lock` or `unlock`.
        number: 0 or more.

    Raises `OperandError` for a negative number, a lock that the task holds already, and one that it does not hold.
    Who waits for a lock that nobody gives back waits for ever; the run ends in `HangError`.
    """
    task = issuer.task
    locks = issuer.chip.locks
    if not isinstance(number, int | np.integer) or isinstance(number, bool):
        raise OperandError(f"{name} {number!r:.60}: the number of a lock is an integer, 0 or more")
    if number < 0:
        raise OperandError(f"{name} {number}: the number of a lock is 0 or more")
    lock = locks.setdefault(number, Lock())
    if name == "unlock" and lock.owner is not task:
        raise OperandError(f"unlock {number}: this task does not hold that lock; pair it with a lock before")
    if name == "lock" and lock.owner is task:
        raise OperandError(f"lock {number}: this task holds it already and would wait for itself; unlock it first")
    issuer.begin()
    now_ps = task.now_ps
    detail = ALL_PIPES | number << SHIFT
    record = issuer.record(name, SYNC, line, now_ps, now_ps, NONE, detail=detail, alone_ps=0)
    task.waits_for = task.here(line, f"{name} {number}")
    act = partial(_take if name == "lock" else _give, task, record, lock)
    if not task.drain(ALL_PIPES, record, partial(_at_its_time, task, act)):
        _at_its_time(task, act)
    task.unawaited = record
    return task.suspending


def _at_its_time(task: Task, act: partial[None]) -> None:
    """Act when the board's time has come to the task's."""
    environment = task.chip.environment
    environment.after(max(0, task.now_ps - environment.now), lambda _: act())


def _take(task: Task, record: int, lock: Lock) -> None:
    if lock.owner is not None:
        lock.waiting.append((task, record))
        return
    lock.owner = task
    _go_on(task, record, task.chip.board.cluster_barrier_ps)


def _give(task: Task, record: int, lock: Lock) -> None:
    lock.owner = None
    if lock.waiting:
        following, waits = lock.waiting.popleft()
        lock.owner = following
        following.chip.log.records.waited(waits, record)
        _go_on(following, waits, task.chip.board.cluster_barrier_ps)
    _go_on(task, record, 0)


def _go_on(task: Task, record: int, delay_ps: int) -> None:
    environment = task.chip.environment
    task.now_ps = max(task.now_ps, environment.now + delay_ps)
    task.waits_for = ""
    task.chip.log.records.ended(record, task.now_ps)
    environment.after(task.now_ps - environment.now, task.resume)

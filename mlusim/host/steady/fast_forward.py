"""Lets a task that is under way issue operations without simulating them: they take no time, and nothing waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlusim.log import NONE

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer

_TASK_TIMES = ("now_ps", "waited_for", "pending_io", "pending_move")
_UNIT_TIMES = ("vector_free_ps", "vector_record", "stream_copied_ps", "stream_copy_record", "stored_ps")


class FastForward:
    """Issues the next operations of a task without simulating them, once the task resumes.

    Transfers in flight stay in flight. Afterwards the core is in the state in which it was before.

    Args:
        issuer: the issuer of the task.
        operations: number of operations.

    Attributes:
        first: record of the first of these operations; NONE before the task resumes.
        failed: the operations did not pass as expected: some had to wait, or are not one record each.
        done: all have been issued.
    """

    def __init__(self, issuer: Issuer, operations: int) -> None:
        self._issuer = issuer
        self.operations = operations
        self.first = NONE
        self.failed = self.done = False
        issuer.at_check = self._begin
        issuer.next_check = issuer.task.operations

    def _begin(self) -> None:
        issuer = self._issuer
        task, unit = issuer.task, issuer.unit
        self.first = issuer.log.count
        self._now = issuer.chip.environment.now
        self._allocations = len(issuer.log.allocations)
        self._task = {name: getattr(task, name) for name in _TASK_TIMES}
        self._unit = {name: getattr(unit, name) for name in _UNIT_TIMES}
        # What is in flight has nothing to do with the operations that are not simulated.
        task.pending_io = task.pending_move = 0
        issuer.set_dry(dry=True)
        issuer.at_check = self._end
        issuer.next_check = task.operations + self.operations - 1

    def _end(self) -> None:
        issuer = self._issuer
        log = issuer.log
        for name, value in self._task.items():
            setattr(issuer.task, name, value)
        for name, value in self._unit.items():
            setattr(issuer.unit, name, value)
        issuer.set_dry(dry=False)
        issuer.at_check = None
        # From here on, the task is checked as usual.
        issuer.next_check = issuer.task.operations
        waited = issuer.chip.environment.now != self._now
        other = log.count - self.first != self.operations or len(log.allocations) != self._allocations
        self.failed = waited or other
        self.done = True

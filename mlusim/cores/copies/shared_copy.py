"""Copies between GDRAM and SRAM, which run on the engine of the cluster's memory core.

By the public header (B) they run there whichever core executes them, so a call that all cores of a cluster execute is
one copy. The rule: calls with the same direction, addresses, geometry and blocking mode are one copy if each is the
n-th such call of its core since the last barrier of the cluster. The copy begins with the first of these calls, and
every caller waits for it. Two calls of one core are always two copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.cores.machine.pipe import DmaPipe, Transfer
from mlusim.log import NONE

if TYPE_CHECKING:
    from mlusim.cores.tasks.task import Task
    from mlusim.memory.copy_cost import CopyCost


class SharedCopy(Transfer):
    """One core's call of a copy between GDRAM and SRAM: the copy itself, or participation in that of another core.

    Attributes:
        call: key that calls of the same copy have in common.
        callers: the calls that share this copy, this one first.
        end_ps: when it completed; -1 before.
    """

    __slots__ = ("call", "callers", "end_ps")

    def __init__(
        self,
        pipe: DmaPipe,
        task: Task,
        record: int,
        issue_ps: int,
        cost: CopyCost,
        effect: Any,
        blocks: int,
        call: tuple[Any, ...],
    ) -> None:
        super().__init__(pipe, task, record, issue_ps, cost, effect, blocks)
        self.call = call
        self.callers: list[SharedCopy] = [self]
        self.end_ps = NONE

    def begin(self) -> None:
        """Join the copy that another core of the cluster has begun, or begin one."""
        copies = self.task.unit.cluster.shared_copies.setdefault(self.call, [])
        for copy in copies:
            if all(caller.task is not self.task for caller in copy.callers):
                self._join(copy)
                return
        copies.append(self)
        if self.pipe.late and not self.blocks and self.effect is not None:
            self.effect = _Once(self.effect)
        self.pipe.submit_after_wait(self)

    def complete(self, now: int) -> None:
        """Complete the copy for all of its callers."""
        self.end_ps = now
        super().complete(now)
        for caller in self.callers[1:]:
            # A task that only issues runs ahead of the board: its call may be later than the end.
            self.pipe.records.set_end(caller.record, max(now, caller.issue_ps))
            self._act_late(caller)
            caller.task.transfer_done(caller, now)

    def _join(self, copy: SharedCopy) -> None:
        copy.callers.append(self)
        task, log = self.task, self.pipe.log
        log.join(self.record, copy.record, max(task.now_ps, copy.end_ps))
        if copy.end_ps == NONE:
            task.pending_io += 1
            return
        copy._act_late(self)
        log.records.set_end(self.record, max(task.now_ps, copy.end_ps))
        if self.blocks:
            environment = task.chip.environment
            environment.after(max(task.now_ps - environment.now, 0), task.resume)

    def _act_late(self, caller: SharedCopy) -> None:
        """In late mode, apply the copy at the first sync of any of its callers."""
        if isinstance(self.effect, _Once):
            caller.task.unit.late_effects.append((self.pipe, self.effect))


class _Once:
    """An effect that several cores wait for and that is applied once."""

    def __init__(self, effect: Callable[[], None] | tuple[Any, Any]) -> None:
        self._effect: Any = effect

    def __call__(self) -> None:
        effect, self._effect = self._effect, None
        if isinstance(effect, tuple):
            np.copyto(*effect)
        elif effect is not None:
            effect()

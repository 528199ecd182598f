"""Detection of kernels that never end: the same state occurs again, and nothing they can read has changed."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from mlusim.bangc.lines import raise_at
from mlusim.errors import OperationLimitError
from mlusim.log import SYNC
from mlusim.units import group_digits

if TYPE_CHECKING:
    from mlusim.bangc.execution.compiled_task import CompiledTask

# Number of calls before the first check. It doubles from check to check.
_FIRST = 1 << 12
# Calls per check, which limit the length of a detectable loop; and memory digests per check.
_WINDOW, _DIGESTS = 512, 4
# A loop without results is rejected after this fraction of the operations that a task may issue.
_SHARE = 5
_OF_A_CORE = frozenset({"nram", "wram"})

# A waiting task, with its number of operations.
Waiting = tuple[Any, int]
# Tasks in a loop, with a digest of the memory shared by all.
_repeating: WeakKeyDictionary[Any, dict[Any, int]] = WeakKeyDictionary()


class Repetition:
    """Watches one task of a compiled kernel.

    The state of a task consists of its registers, its stack, its variables and its memories. If a state occurs again,
    the task repeats itself forever, provided that none of its copies is in flight and every other task also repeats
    itself, or waits for a barrier or a lock throughout. Changes that others make and undo within a round are not
    detected. A loop that reads the clock is ignored: it may end at a certain time.

    Attributes:
        at: number of the next call to check.
    """

    def __init__(self, task: CompiledTask) -> None:
        self.at = _FIRST
        self._task = task
        self._begun = 0
        self._state = 0
        self._digests: dict[int, set[Waiting]] = {}
        self._taken = 0
        self._logged = task.issuer.log.count

    def check(self, calls: int, function: str) -> bool:
        """Check the task before its next call; returns true if it repeats itself and other tasks should run first.

        Raises `OperationLimitError` at the line of a loop that never ends.
        """
        task = self._task
        state = task.image.state()
        self.at = calls + 1
        if calls >= self._begun + _WINDOW:
            self._look_for_results(calls, function)
            self._begun, self._state, self._digests, self._taken = calls, state, {}, 0
            task.clock_read = False
        elif state == self._state and not task.clock_read and self._repeats_forever():
            error = OperationLimitError(
                f"the task has made {group_digits(calls)} calls of the simulator and repeats itself: its variables and "
                "its memory are as in an earlier iteration, and no other task changes anything: an endless loop; let "
                "another task write what it waits for, or use a barrier"
            )
            raise_at(*self._call_location(function), error)
        if calls + 1 >= self._begun + _WINDOW:
            self.at = 2 * self._begun
        return self._taken > 0

    def _look_for_results(self, calls: int, function: str) -> None:
        """Reject a loop that computes without writing outside its core, after a fifth of the limit."""
        issuer = self._task.issuer
        log, first = issuer.log, self._logged
        self._logged = log.count
        if calls == _FIRST or calls * _SHARE < issuer.chip.max_operations:
            return
        records = log.records
        is_of_task = records.column("task", slice(first, log.count)) == issuer.task.index
        memories_written = {
            log.allocations[k].memory
            for k in set(records.column("dst_alloc", slice(first, log.count))[is_of_task])
            if k >= 0
        }
        synced = (records.column("pipe", slice(first, log.count))[is_of_task] == SYNC).any()
        if memories_written <= _OF_A_CORE and not synced:
            error = OperationLimitError(
                f"the task has made {group_digits(calls)} calls of the simulator, and the latest "
                f"{group_digits(int(is_of_task.sum()))} operations left nothing outside its core: an endless loop? If "
                "the kernel needs more, raise max_operations"
            )
            raise_at(*self._call_location(function), error)

    def _repeats_forever(self) -> bool:
        task, chip = self._task.issuer.task, self._task.issuer.chip
        if self._taken == _DIGESTS or task.pending_io or task.pending_move or task.unit.late_effects:
            return False
        self._taken += 1
        shared = 0
        for allocation in self._task.gdram.allocations:
            if allocation.buffer is not None and not allocation.read_only:
                shared = zlib.crc32(allocation.buffer.data, shared)
        digest = shared
        task.unit.flush()
        for content in self._task.image.variables():
            digest = zlib.crc32(content, digest)
        others = {unit.task for unit in chip.units() if unit.task is not None} - {task}
        waiting = {(other, other.operations) for other in others if other.waits_for}
        waiting_before = self._digests.setdefault(digest, waiting)
        if waiting_before is waiting:
            return False
        shared_digests = _repeating.setdefault(chip, {})
        shared_digests[task] = shared
        return all(
            (other, other.operations) in waiting & waiting_before or shared_digests.get(other) == shared
            for other in others
        )

    def _call_location(self, function: str) -> tuple[str, int, str]:
        """Return file, line and function of the call, or of the plain access."""
        task = self._task
        if task.image.record.call.op >= 0:
            line = task.site(function).line
        else:
            line = task.line_at(int(task.image.runs["pc"][0]), function)
        return task.issuer.log.lines[line]

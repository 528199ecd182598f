"""Proof that a kernel never ends: it comes to where it was before, and nothing that it could see has changed."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from mlusim.bangc.lines import raise_at
from mlusim.errors import OperationLimitError
from mlusim.log import SYNC
from mlusim.units import group_digits

if TYPE_CHECKING:
    from mlusim.bangc.bridge import Bridge

# Calls of the simulator before the first look. The number of calls doubles from look to look.
_FIRST = 1 << 12
# Calls that a look takes: the longest round that it sees. Digests of memory that one look makes.
_WINDOW, _DIGESTS = 512, 4
# A loop without results is refused after one in so many of the operations that a task may issue.
_SHARE = 5
_OF_A_CORE = frozenset({"nram", "wram"})

# A task that waits, with its number of operations.
Waiting = tuple[Any, int]
# The tasks that repeat themselves, with a digest of the memory that all share.
_repeating: WeakKeyDictionary[Any, dict[Any, int]] = WeakKeyDictionary()


class Repetition:
    """The watch over one task of a compiled kernel.

    A task is as it was where its registers, its stack, its variables and its memories hold what they held. Then it
    repeats itself for ever, if no copy of its own is under way and every other task repeats itself too, or waits all
    the while for a barrier or a lock. What others write and take back within a round is not seen. A loop that reads the
    clock is left alone: its end may be a time.

    Attributes:
        at: number of the next call to look at.
    """

    def __init__(self, bridge: Bridge) -> None:
        self.at = _FIRST
        self._bridge = bridge
        self._begun = 0
        self._state = 0
        self._digests: dict[int, set[Waiting]] = {}
        self._taken = 0
        self._logged = bridge.issuer.log.count

    def look(self, calls: int, function: str) -> bool:
        """Look at the task before it does its next call; true where it repeats itself and others are to go on first.

        Raises `OperationLimitError` at the line where it never ends.
        """
        bridge = self._bridge
        state = bridge.image.state()
        self.at = calls + 1
        if calls >= self._begun + _WINDOW:
            self._look_for_results(calls, function)
            self._begun, self._state, self._digests, self._taken = calls, state, {}, 0
            bridge.clock_read = False
        elif state == self._state and not bridge.clock_read and self._never_ends():
            error = OperationLimitError(
                f"the task has made {group_digits(calls)} calls of the simulator and repeats itself: its variables and "
                "its memory are what they were a round before, and no other task changes anything: an endless loop"
            )
            raise_at(*self._place(function), error)
        if calls + 1 >= self._begun + _WINDOW:
            self.at = 2 * self._begun
        return self._taken > 0

    def _look_for_results(self, calls: int, function: str) -> None:
        """Refuse a loop that computes on and on and leaves nothing outside its core: a fifth of the limit is enough."""
        issuer = self._bridge.issuer
        log, first = issuer.log, self._logged
        self._logged = log.count
        if calls == _FIRST or calls * _SHARE < issuer.chip.max_operations:
            return
        records = log.records
        own = records.column("task", slice(first, log.count)) == issuer.task.index
        written = {
            log.allocations[k].memory for k in set(records.column("dst_alloc", slice(first, log.count))[own]) if k >= 0
        }
        synced = (records.column("pipe", slice(first, log.count))[own] == SYNC).any()
        if written <= _OF_A_CORE and not synced:
            error = OperationLimitError(
                f"the task has made {group_digits(calls)} calls of the simulator, and the latest "
                f"{group_digits(int(own.sum()))} operations left nothing outside its core: an endless loop? Where the "
                "kernel needs more, raise max_operations"
            )
            raise_at(*self._place(function), error)

    def _never_ends(self) -> bool:
        task, chip = self._bridge.issuer.task, self._bridge.issuer.chip
        if self._taken == _DIGESTS or task.pending_io or task.pending_move or task.unit.late_effects:
            return False
        self._taken += 1
        shared = 0
        for one in self._bridge.gdram.allocations:
            if one.buffer is not None and not one.read_only:
                shared = zlib.crc32(one.buffer.data, shared)
        digest = shared
        task.unit.settle()
        for content in self._bridge.image.variables():
            digest = zlib.crc32(content, digest)
        others = {unit.task for unit in chip.units() if unit.task is not None} - {task}
        waiting = {(other, other.operations) for other in others if other.waits_for}
        before = self._digests.setdefault(digest, waiting)
        if before is waiting:
            return False
        known = _repeating.setdefault(chip, {})
        known[task] = shared
        return all((other, other.operations) in waiting & before or known.get(other) == shared for other in others)

    def _place(self, function: str) -> tuple[str, int, str]:
        """File, line and function of the call, or of the plain access."""
        bridge = self._bridge
        if bridge.image.record.call.op >= 0:
            line = bridge.site(function).line
        else:
            line = bridge.line_at(int(bridge.image.runs["pc"][0]), function)
        return bridge.issuer.log.lines[line]

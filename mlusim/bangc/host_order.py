"""Missing waits of host programs: memory used while a queued launch or copy may still access it.

In the simulation every CNRT call that accesses memory first runs everything queued, so a program without the waits
works. On a board it does not. Each such call gets the hint `unsynced`. Launches in two queues that nothing orders are
noted in the log, so that the checker finds their races.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlusim.log import NONE, Remark

if TYPE_CHECKING:
    from mlusim.log import Log

_WORD_BYTES = 8
_DEFAULT_QUEUE = 0
# File and line of the program.
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Pending:
    """A launch or an asynchronous copy: its queue, its device memory, and whether it writes to the host.

    `launch` is the index of a launch in the log.
    """

    name: str
    place: Place
    queue: int
    memory: frozenset[int]
    is_copy: bool
    to_host: bool = False
    launch: int = NONE


class HostOrder:
    """Launches and copies that the program has not waited for. Memory is identified by address, queues by handle."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._count = 0
        self._pending: dict[int, _Pending] = {}
        # By queue and by notifier: the numbers of the launches and copies before it.
        self._before: dict[int, set[int]] = {}
        self._placed: dict[int, set[int]] = {}
        # Those that a blocking call has waited for, although it named another queue or none. ASSUMED: it does.
        self._assumed_done: set[int] = set()

    def launched(
        self, name: str, place: Place, queue: int, content: bytes, memory: Sequence[tuple[int, int]], launch: int
    ) -> None:
        """Handle a launch with the bytes of its arguments; `memory` is (address, bytes) of each allocation."""
        ordered = self._before.get(queue, set()) | self._assumed_done
        self._log.unordered.update(
            (pending.launch, launch)
            for number, pending in self._pending.items()
            if not pending.is_copy and pending.queue != queue and number not in ordered
        )
        words = struct.unpack_from(f"<{len(content) // _WORD_BYTES}Q", content)
        used = _used(words, memory)
        self._check(name, place, queue, used, copies_only=True)
        self._add(_Pending(name, place, queue, used, is_copy=False, launch=launch))

    def called(self, name: str, place: Place, values: Sequence[Any], queues: Iterable[int], memory: Any) -> None:
        """Handle a CNRT call, before it takes effect."""
        first = int(values[0]) if values and isinstance(values[0], int) else 0
        if name in (
            "cnrtQueueSync",
            "cnrtSyncQueue",
            "cnQueueSync",
            "cnrtQueueQuery",
            "cnrtQueryQueue",
            "cnQueryQueue",
        ):
            self._finish(self._before.get(first, set()))
        elif name in ("cnrtSyncDevice", "cnCtxSync", "cnCtxSynchronize"):
            self._finish(set(self._pending))
        elif name in ("cnrtPlaceNotifier", "cnrtPlaceNotifierWithFlags", "cnPlaceNotifier"):
            self._placed[first] = set(self._before.get(int(values[1]), set()))
        elif name in ("cnrtWaitNotifier", "cnWaitNotifier", "cnrtQueryNotifier", "cnQueryNotifier"):
            self._finish(self._placed.get(first, set()))
        elif name in ("cnrtQueueWaitNotifier", "cnQueueWaitNotifier"):
            self._before.setdefault(int(values[1]), set()).update(self._placed.get(first, set()))
        elif "Memcpy" in name or "Memset" in name:
            self._copied(name, place, [value for value in values if isinstance(value, int)], set(queues), memory)
        elif "Free" in name or "QueueDestroy" in name:
            self._assumed_done.update(self._pending)

    def ended(self) -> None:
        """Report copies to the host that the program has not waited for at its end."""
        for pending in self._pending.values():
            if pending.to_host:
                self._remark(pending.name, pending.place, f"nothing waits for {pending.name}, and main ends")

    def _copied(self, name: str, place: Place, values: list[int], queues: set[int], memory: Any) -> None:
        used = _used(values, memory)
        if "Async" not in name:
            self._check(name, place, _DEFAULT_QUEUE, used)
            self._assumed_done.update(self._pending)
            return
        queue = next((value for value in values if value in queues), _DEFAULT_QUEUE)
        self._check(name, place, queue, used)
        to_host = "Memcpy" in name and not _used(values[:1], memory) and bool(used)
        self._add(_Pending(name, place, queue, used, is_copy=True, to_host=to_host))

    def _check(self, name: str, place: Place, queue: int, used: frozenset[int], *, copies_only: bool = False) -> None:
        ordered = self._before.get(queue, set())
        for number, pending in self._pending.items():
            if number in ordered or not used & pending.memory or (copies_only and not pending.is_copy):
                continue
            verb = "put into a queue" if pending.is_copy else "launched"
            at = f"{Path(pending.place[0]).name}:{pending.place[1]}"
            self._remark(
                name, place, f"{name} uses memory of {pending.name}, {verb} at {at}, which nothing has waited for"
            )
            return

    def _remark(self, name: str, place: Place, title: str) -> None:
        line = self._log.source_line(*place, "main")
        self._log.remark(Remark("unsynced", title, name, NONE, line, 0))

    def _add(self, pending: _Pending) -> None:
        self._count += 1
        self._pending[self._count] = pending
        self._before.setdefault(pending.queue, set()).add(self._count)

    def _finish(self, numbers: set[int]) -> None:
        for number in numbers:
            self._pending.pop(number, None)


def _used(words: Iterable[int], memory: Iterable[tuple[int, int]]) -> frozenset[int]:
    """Return the base addresses of the allocations that contain some of the addresses."""
    regions = tuple(memory)
    return frozenset(base for word in words for base, size in regions if base <= word < base + size)

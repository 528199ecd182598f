"""Missing waits of host programs: memory used while a queued launch or copy may still access it.

In the simulation every CNRT call that accesses memory first runs everything queued, so a program without the waits
works. On a board it does not. Each such call gets the hint `unsynced`, and so does an access of the program's own to
host memory that an asynchronous copy may still use. An asynchronous copy in one queue, and a copy or launch in another,
that use the same device memory and that nothing orders are the error `unordered`. Launches in two queues that nothing
orders are noted in the log, so that the checker finds their races. What a launch uses is known when it has run: copies
are compared with it at the end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlusim.bangc.calls.host_calls import SAME
from mlusim.bangc.debug_lines import SourceLine
from mlusim.bangc.host.spans import LaunchUse, Region, Span, conflict, in_flight, spans_of
from mlusim.log import NONE
from mlusim.log_tables import Remark

if TYPE_CHECKING:
    from mlusim.log import Log

_WORD_BYTES = 8
_DEFAULT_QUEUE = 0


@dataclass(frozen=True, slots=True)
class _Pending:
    """A launch or an asynchronous copy: its queue, and the device memory to which it has an address.

    A copy has the bytes that it uses, and those of them that are on the host; a launch has its index in the log.
    """

    name: str
    location: SourceLine
    queue: int
    memory: frozenset[Region]
    spans: tuple[Span, ...] = ()
    host: tuple[Span, ...] = ()
    launch: int = NONE

    @property
    def is_copy(self) -> bool:
        return self.launch == NONE

    @property
    def to_host(self) -> bool:
        return any(span.writes for span in self.host)


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A copy and a launch that nothing orders: the bytes of the copy, and the memory that both have an address of.

    `name` and `location` are those of the later one; `kind` is that of the finding.
    """

    kind: str
    name: str
    location: SourceLine
    earlier: _Pending
    launch: int
    spans: tuple[Span, ...]
    memory: frozenset[Region]


class MissingWaits:
    """Finds missing waits, from the launches and copies that the program has not waited for.

    Memory is identified by address, queues by handle.

    Attributes:
        is_busy: what the last query of a queue or a notifier found.
    """

    def __init__(self, log: Log) -> None:
        self.is_busy = False
        self._log = log
        self._count = 0
        self._pending: dict[int, _Pending] = {}
        # By queue and by notifier: the numbers of the launches and copies before it.
        self._before: dict[int, set[int]] = {}
        self._placed: dict[int, set[int]] = {}
        # Those that a blocking call has waited for, although it named another queue or none. ASSUMED: it does.
        self._assumed_done: set[int] = set()
        # Those that a query has found unfinished.
        self._queried: set[int] = set()
        # While a function of the host runs in a queue: what is before it there.
        self._before_function: set[int] = set()
        # Copies with a hint: what else uses their memory has the same cause.
        self._reported: set[int] = set()
        self._suspects: list[_Suspect] = []
        # By two lines that use the same memory, the later one: in a loop, each also comes before the other.
        self._later: dict[frozenset[SourceLine], SourceLine] = {}

    def launched(
        self, name: str, location: SourceLine, queue: int, content: bytes, memory: Sequence[Region], launch: int
    ) -> None:
        """Handle a launch with the bytes of its arguments, and all device memory."""
        ordered = self._before.get(queue, set()) | self._assumed_done
        self._log.host.unordered.update(
            (pending.launch, launch)
            for number, pending in self._pending.items()
            if not pending.is_copy and pending.queue != queue and number not in ordered
        )
        words = struct.unpack_from(f"<{len(content) // _WORD_BYTES}Q", content)
        regions = _regions_at(words, memory)
        for number, pending in self._pending.items():
            if pending.is_copy and number not in self._before.get(queue, set()):
                common = regions & pending.memory
                self._suspect("unordered", name, location, pending, launch, pending.spans, common)
        self._add(_Pending(name, location, queue, regions, launch=launch))

    def called(
        self, name: str, location: SourceLine, values: Sequence[Any], queues: Iterable[int], memory: Any
    ) -> None:
        """Handle a CNRT call, before it takes effect."""
        first = int(values[0]) if values and isinstance(values[0], int) else 0
        function = SAME.get(name, name)
        match function:
            case "cnrtQueueSync":
                self._finish(self._before.get(first, set()))
            case "cnrtQueueQuery":
                self._query(self._before.get(first, set()))
            case "cnrtQueryNotifier":
                self._query(self._placed.get(first, set()))
            case "mlusim_host_function":
                self._before_function = set(self._before.get(first, ())) if values[1] else set()
            case "cnrtSyncDevice":
                self._finish(set(self._pending))
            case "cnrtPlaceNotifier":
                self._placed[first] = set(self._before.get(int(values[1]), set()))
            case "cnrtWaitNotifier":
                self._finish(self._placed.get(first, set()))
            case "cnrtNotifierDuration" | "cnrtNotifierElapsedTime":
                for number in sorted(self._placed.get(int(values[1]), set()) & set(self._pending))[-1:]:
                    self._report("unsynced", name, location, self._pending[number], "measures")
            case "cnrtQueueWaitNotifier":
                self._before.setdefault(int(values[1]), set()).update(self._placed.get(first, set()))
            case _ if "Memcpy" in name or "Memset" in name:
                addresses = [value for value in values if isinstance(value, int)]
                self._copied(name, location, addresses, set(queues), memory)
            case "cnrtFreeHost":
                self._check_freed(name, location, first, 1)
            case "cnrtQueueDestroy":
                self._assumed_done.update(self._pending)
            case _ if "Free" in function:
                freed = [region for region in memory if region.base == first]
                if freed and "Async" not in name:
                    self._check_freed(name, location, first, freed[0].size, freed)
                self._assumed_done.update(self._pending)

    def _check_freed(
        self, name: str, location: SourceLine, first: int, nbytes: int, regions: Iterable[Region] = ()
    ) -> None:
        """Handle a call that frees memory: it is like a blocking write."""
        spans = (Span(first, first + nbytes, writes=True),)
        self._check("unsynced", name, location, _DEFAULT_QUEUE, spans, frozenset(regions))

    def in_flight(self) -> list[tuple[int, int, int]]:
        """Host memory that copies may still use: address, bytes and flags of `Range`."""
        return in_flight([span for number, span in self._host_spans() if number not in self._reported])

    def touched(self, address: int, *, write: bool, location: SourceLine) -> None:
        """Handle an access of the program's own to host memory in flight; one for each copy."""
        for number, span in self._host_spans():
            if number not in self._reported and span.first <= address < span.end and (write or span.writes):
                self._reported.add(number)
                self._report("unsynced", "main", location, self._pending[number])
                return

    def ended(self) -> None:
        """Report copies to the host that the program has not waited for at its end, and those beside launches."""
        for number, pending in self._pending.items():
            if pending.to_host and number not in self._reported:
                title = f"nothing waits for {pending.name}, and main ends"
                self._remark("unsynced", pending.name, pending.location, title)
        use = LaunchUse(self._log)
        reported: set[tuple[str, SourceLine]] = set()
        for suspect in self._suspects:
            call = suspect.name, suspect.location
            if call not in reported and use.conflicts(suspect.launch, suspect.spans, suspect.memory):
                reported.add(call)
                self._report(suspect.kind, *call, suspect.earlier)

    def _host_spans(self) -> list[tuple[int, Span]]:
        return [
            (number, span)
            for number, pending in self._pending.items()
            if number not in self._before_function
            for span in pending.host
        ]

    def _copied(
        self, name: str, location: SourceLine, values: list[int], queues: set[int], memory: Sequence[Region]
    ) -> None:
        spans = spans_of(name, values)
        regions = frozenset(region for region in memory for span in spans if region.overlaps(span))
        if "Async" not in name:
            self._check("unsynced", name, location, _DEFAULT_QUEUE, spans, regions)
            self._assumed_done.update(self._pending)
            # One hint for each launch: what follows this copy follows the launch, too.
            self._finish({number for number, pending in self._pending.items() if not pending.is_copy})
            return
        # The queue follows the size, which may be the same number.
        queue = next((value for value in reversed(values) if value in queues), _DEFAULT_QUEUE)
        self._check("unordered", name, location, queue, spans, regions)
        host = tuple(span for span in spans if not any(region.overlaps(span) for region in regions))
        self._add(_Pending(name, location, queue, regions, spans, host))

    def _check(
        self,
        kind: str,
        name: str,
        location: SourceLine,
        queue: int,
        spans: tuple[Span, ...],
        regions: frozenset[Region],
    ) -> None:
        """Compare a copy with all that is pending and not before it in its queue.

        `kind` is that of the finding. Copies that have only host memory in common get a hint: no public document says
        whether they wait for it.
        """
        ordered = self._before.get(queue, set())
        on_board = tuple(span for span in spans if any(region.overlaps(span) for region in regions))
        is_reported = False
        for number, pending in self._pending.items():
            if number in ordered:
                continue
            if not pending.is_copy:
                self._suspect(kind, name, location, pending, pending.launch, spans, regions & pending.memory)
            elif not is_reported and conflict(spans, pending.spans):
                is_reported = True
                self._reported.add(number)
                self._report(kind if conflict(on_board, pending.spans) else "unsynced", name, location, pending)

    def _suspect(
        self,
        kind: str,
        name: str,
        location: SourceLine,
        earlier: _Pending,
        launch: int,
        spans: tuple[Span, ...],
        memory: frozenset[Region],
    ) -> None:
        if memory:
            self._suspects.append(_Suspect(kind, name, location, earlier, launch, spans, memory))

    def _report(
        self, kind: str, name: str, location: SourceLine, earlier: _Pending, uses: str = "uses memory of"
    ) -> None:
        if self._later.setdefault(frozenset((location, earlier.location)), location) != location:
            return
        verb = "put into a queue" if earlier.is_copy else "launched"
        at = f"{Path(earlier.location[0]).name}:{earlier.location[1]}"
        why = "which nothing orders before it" if kind == "unordered" else "which nothing has waited for"
        self._remark(kind, name, location, f"{name} {uses} {earlier.name}, {verb} at {at}, {why}")

    def _remark(self, kind: str, name: str, location: SourceLine, title: str) -> None:
        line = self._log.source_line(*location, "main")
        self._log.remark(Remark(kind, title, name, NONE, line, 0))

    def _add(self, pending: _Pending) -> None:
        self._count += 1
        self._pending[self._count] = pending
        self._before.setdefault(pending.queue, set()).add(self._count)

    def _query(self, numbers: set[int]) -> None:
        """Handle a query. ASSUMED: the first one after a launch or a copy finds it unfinished, the next one finished.

        A program that ignores the answer of its only query has thus waited for nothing; one that repeats it has.
        """
        unfinished = (numbers & set(self._pending)) - self._queried
        self.is_busy = bool(unfinished)
        self._queried |= unfinished
        if not unfinished:
            self._finish(numbers)

    def _finish(self, numbers: set[int]) -> None:
        for number in numbers:
            self._pending.pop(number, None)


def _regions_at(addresses: Iterable[int], memory: Sequence[Region]) -> frozenset[Region]:
    """Return the device memory that contains some of the addresses."""
    return frozenset(
        region for address in addresses for region in memory if region.base <= address < region.base + region.size
    )

"""The bytes that the copies and sets of a host program use, and those that its launches used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mlusim.bangc.calls.host_calls import SAME
from mlusim.bangc.host.copies_3d import volume_copy
from mlusim.bangc.runtime_layout import IN_FLIGHT, WRITTEN
from mlusim.verifier.accesses.table import accesses_of

if TYPE_CHECKING:
    from mlusim.log import Log
    from mlusim.verifier.accesses.geometry import Geometry


class Span(NamedTuple):
    """Bytes from `first` to `end`, at addresses of the program, and whether they are written."""

    first: int
    end: int
    writes: bool


class Region(NamedTuple):
    """Device memory: its address, its bytes, and its index in the log."""

    base: int
    size: int
    identity: int

    def overlaps(self, span: Span) -> bool:
        """Return whether a span has bytes of it."""
        return span.first < self.base + self.size and self.base < span.end


def spans_of(name: str, values: Sequence[int]) -> tuple[Span, ...]:
    """Return the bytes that a copy or a set writes and reads; for one of rows, from its first byte to its last."""
    name = SAME.get(name, name)
    if "Memset" in name:
        return _present(Span(values[0], values[0] + values[2] * (4 if "D32" in name else 1), writes=True))
    if name == "cnrtMemcpy2D":
        target, target_pitch, source, pitch, width, height = values[:6]
        rows = max(height, 1) - 1
        return _present(
            Span(target, target + rows * target_pitch + width, writes=True),
            Span(source, source + rows * pitch + width, writes=False),
        )
    if name == "cnrtMemcpy3D":
        copy = volume_copy(values[0])
        if not copy.is_valid:
            return ()
        return _present(
            Span(copy.target.first, copy.end(copy.target), writes=True),
            Span(copy.source.first, copy.end(copy.source), writes=False),
        )
    # cnrtMemcpyPeer has the number of a device after each address.
    source, size = (values[2], values[4]) if name == "cnrtMemcpyPeer" else (values[1], values[2])
    return _present(Span(values[0], values[0] + size, writes=True), Span(source, source + size, writes=False))


def _present(*spans: Span) -> tuple[Span, ...]:
    return tuple(span for span in spans if span.first < span.end)


def conflict(spans: Iterable[Span], others: Sequence[Span]) -> bool:
    """Return whether two calls use the same bytes, and one of them writes there."""
    return any(
        span.first < other.end and other.first < span.end and (span.writes or other.writes)
        for span in spans
        for other in others
    )


def in_flight(spans: Iterable[Span]) -> list[tuple[int, int, int]]:
    """Return host memory that copies may still use: address, bytes and flags of `Range`, ascending and disjoint."""
    changes: dict[int, list[int]] = {}
    for span in set(spans):
        for edge, change in ((span.first, 1), (span.end, -1)):
            changes.setdefault(edge, [0, 0])[span.writes] += change
    parts = []
    readers = writers = 0
    for first, end in pairwise(sorted(changes)):
        readers, writers = readers + changes[first][False], writers + changes[first][True]
        if readers or writers:
            parts.append((first, end - first, IN_FLIGHT | (WRITTEN if writers else 0)))
    return parts


@dataclass(frozen=True)
class LaunchUse:
    """The bytes that each launch of a log has read and written, computed on first use."""

    log: Log

    @cached_property
    def _table(self) -> tuple[Any, Any]:
        columns = self.log.columns()
        accesses = accesses_of(self.log, columns)
        launches = np.array([task.launch for task in self.log.tasks], np.int64)
        return accesses, launches[columns["task"]][accesses.record]

    def conflicts(self, launch: int, spans: Iterable[Span], regions: Iterable[Region]) -> bool:
        """Return whether a launch used bytes of the spans in some device memory, and one of the two writes there."""
        return any(
            self._conflicts(launch, span, region) for region in regions for span in spans if region.overlaps(span)
        )

    def _conflicts(self, launch: int, span: Span, region: Region) -> bool:
        accesses, launches = self._table
        if region.identity in accesses.unknown:
            return True
        first, end = span.first - region.base, span.end - region.base
        may_conflict = (launches == launch) & (accesses.alloc == region.identity)
        may_conflict &= (accesses.low < end) & (accesses.high > first) & (accesses.write | span.writes)
        return any(_overlaps(accesses.of(row), first, end) for row in np.flatnonzero(may_conflict).tolist())


def _overlaps(operand: tuple[Geometry, int], first: int, end: int) -> bool:
    geometry, offset = operand
    starts, stops = geometry.segments()
    return bool(((starts + offset < end) & (stops + offset > first)).any())

"""Races as findings: the two operations, the shared bytes, and the sync that would order them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.sets_and_atomics import ATOMIC_NAMES
from mlusim.log import MOVE, Log
from mlusim.memory.kinds import DIRECTION_CODES, Direction
from mlusim.verifier.accesses.coordinates import describe
from mlusim.verifier.accesses.geometry import group_rows
from mlusim.verifier.accesses.overlaps import shared_bytes
from mlusim.verifier.accesses.table import Accesses
from mlusim.verifier.findings import Finding, Site, between, site_of
from mlusim.verifier.order.handshakes import Handshakes
from mlusim.verifier.order.happens_before import BY_OFFSETS, Order
from mlusim.verifier.order.jobs import job_of
from mlusim.verifier.order.lanes import LANES, POSTED
from mlusim.verifier.races.atomic_remedies import USE_ATOMICS, flags_first
from mlusim.verifier.races.conflicts import Space, between_tasks, within_tasks
from mlusim.verifier.races.executions import executions_of
from mlusim.verifier.races.lane_syncs import LANE_SYNCS, on_the_vector_pipe
from mlusim.verifier.races.missing_syncs import Race, Span, fold_between, fold_races, fold_under_barriers
from mlusim.verifier.races.replaced import replaces_unread
from mlusim.verifier.races.task_remedies import TaskRemedies

_LANE_NAMES = {
    "scalar": "the scalar pipe",
    "vector": "the vector pipe",
    "tensor": "the tensor pipe",
    "io": "the IO pipe",
    "move": "the Move pipe",
    "posted store": "a posted store",
    "memory core's io": "the memory core's IO pipe",
}


# Races of two lines that are examined for what they replace; the last one is examined, too.
_FIRST_PAIRS = 8
# By whether the first and the second access write.
_TITLES = {
    (True, False): "{second} reads {name} before {first} is known to have written it",
    (False, True): "{second} writes {name} while {first} may still read it",
    (True, True): "{first} and {second} write the same bytes of {name}",
}


class _Occurrences(NamedTuple):
    """All times that two source lines race: the first and the last pair of accesses, and their number."""

    first: tuple[int, int]
    last: tuple[int, int]
    times: int


@dataclass(frozen=True, slots=True)
class Races:
    """Finds the races of one log.

    Attributes:
        log, columns, accesses, space, order: the run.
    """

    log: Log
    columns: dict[str, Integers]
    accesses: Accesses
    space: Space
    order: Order

    def find(self) -> list[Finding]:
        """Return all races, one finding per pair of source lines."""
        inside = _collect(within_tasks(self.order, self.accesses, self.space))
        between = self._drop_shared_copies(*_collect(between_tasks(self.order, self.accesses, self.space)))
        between = self._drop_handshakes(*self._drop_locked(*self._drop_atomics(*between)))
        of_lines = self._of_lines(*inside)
        races = [self._race(occurrences, *of_lines(*occurrences.first)) for occurrences in self._by_lines(*inside)]
        within = fold_races(self.log, self.order, races)
        remedies = TaskRemedies(self.log, self.accesses, self.order)
        found = [(remedies.as_intended(*race.first), race.times) for race in self._by_lines(*between)]
        lines = self.columns["line"][self.accesses.record]
        remedies = replace(
            remedies,
            directions=frozenset((int(lines[a]), int(lines[b])) for (a, b), _ in found),
            across=self._across_clusters(*between),
            apart=all(
                remedies.in_other_turns(a, b)
                for rows in (slice(_FIRST_PAIRS), slice(-_FIRST_PAIRS, None))
                for a, b in zip(between[0][rows].tolist(), between[1][rows].tolist(), strict=True)
            ),
        )
        pairs = [(a, b, self._between(a, b, times, remedies)) for (a, b), times in found]
        return fold_under_barriers(
            within, flags_first(fold_between([(self._span_between(a, b), finding) for a, b, finding in pairs]))
        )

    def _across_clusters(self, a: Integers, b: Integers) -> bool:
        """Return whether any two tasks of one union that race are in different clusters."""
        tasks = group_rows(*(self.order.task_of[self.accesses.record[rows]] for rows in (a, b)))[0]
        pairs = zip(*(self.order.task_of[self.accesses.record[rows[tasks]]].tolist() for rows in (a, b)), strict=True)
        return any(
            self.log.tasks[one].cluster != self.log.tasks[other].cluster
            and job_of(self.log, one) == job_of(self.log, other)
            for one, other in pairs
        )

    def _position(self, row: int) -> int:
        return int(self.order.position[self.accesses.record[row]])

    def _of_lines(self, one: Integers, other: Integers) -> Callable[[int, int], tuple[Integers, Integers]]:
        """Return a function that returns, of all pairs of accesses, those at the lines of two of them."""
        line, record = self.columns["line"], self.accesses.record
        key = line[record[one]] * len(self.log.lines) + line[record[other]]
        by_key = np.argsort(key, kind="stable")
        ordered = key[by_key]

        def of(a: int, b: int) -> tuple[Integers, Integers]:
            lines = line[record[a]] * len(self.log.lines) + line[record[b]]
            chosen = by_key[np.searchsorted(ordered, lines) : np.searchsorted(ordered, lines, "right")]
            return one[chosen], other[chosen]

        return of

    def _race(self, occurrences: _Occurrences, one: Integers, other: Integers) -> Race:
        """Return the race of two lines; `one` and `other` are all accesses there that race."""
        (a, b), (_, last) = occurrences.first, occurrences.last
        before = [self._last_before(second, one, other) for second in (b, last)]
        finding = self._in_task(a, b, occurrences.times)
        finding = replace(finding, fields=finding.fields | executions_of(self.order, self.accesses, one, other))
        pairs = zip(one[:_FIRST_PAIRS].tolist(), other[:_FIRST_PAIRS].tolist(), strict=True)
        examined = (replaces_unread(self.log, self.accesses, self.order, *pair) for pair in (*pairs, occurrences.last))
        if which := next(filter(None, examined), ""):
            first, second = (site.location for site in finding.sites)
            index = (
                f"correct the part of {finding.fields['buffer']} at {first} or {second}: the {which} of them replaces "
                "what was copied there before anything reads it"
            )
            finding = replace(finding, remedy=f"{index}\nor {finding.remedy}")
        return Race(before[0], self._position(b), (before[1], self._position(last)), finding)

    def _last_before(self, b: int, one: Integers, other: Integers) -> int:
        """Return the position of the last operation that races with that of `b`, of pairs of the same two lines.

        A sync after it is one after all of them.
        """
        record = self.accesses.record
        return int(self.order.position[record[one[record[other] == record[b]]]].max())

    def _span_between(self, a: int, b: int) -> Span:
        """Return the source lines between which one barrier would order a pair, and the barriers already passed.

        Between two queues, one wait orders all pairs.
        """
        positions = [self._position(row) for row in (a, b)]
        tasks = [int(self.order.task[position]) for position in positions]
        lines = [self.log.lines[int(self.order.line[position])] for position in positions]
        jobs = {job_of(self.log, task) for task in tasks}
        queues = sorted({self.log.launches[launch].queue for launch, *_ in jobs})
        if len(queues) > 1:
            return Span(("queues", *queues, self._host_waits(min(jobs)[0])), 0, 1)
        segments = sorted(int(self.order.segment[position]) for position in positions)
        if len(jobs) > 1 or lines[0][0] != lines[1][0] or lines[0][1] == lines[1][1]:
            # No barrier can order these, or the location cannot be derived from the log alone.
            return Span(("alone", a, b), 0, 1)
        first, second = sorted(line for _, line, _ in lines)
        return Span((*jobs, *segments, lines[0][0]), first, second)

    def _host_waits(self, launch: int) -> int:
        """Return how often the host has waited before a launch."""
        return bisect_right(self.log.host_waits, launch)

    def _drop_shared_copies(self, a: Integers, b: Integers) -> tuple[Integers, Integers]:
        """Drop pairs of a memory core's copy and an operation that another task's call of that copy orders."""
        if not self.log.joined or not len(a):
            return a, b
        copies = list(set(self.log.joined.values()))
        one, other = self.accesses.record[a], self.accesses.record[b]
        chosen = np.ones(len(a), bool)
        for row in np.flatnonzero(np.isin(one, copies) | np.isin(other, copies)).tolist():
            first, second = int(self.order.position[one[row]]), int(self.order.position[other[row]])
            chosen[row] = not (self.order.before(first, second) or self.order.before(second, first))
        return a[chosen], b[chosen]

    def _drop_atomics(self, a: Integers, b: Integers) -> tuple[Integers, Integers]:
        """Drop pairs of atomics: the hardware orders them."""
        atomic = np.array([name in ATOMIC_NAMES for name in self.log.ops], bool)[self.columns["op"]]
        both = atomic[self.accesses.record[a]] & atomic[self.accesses.record[b]]
        return a[~both], b[~both]

    def _drop_locked(self, a: Integers, b: Integers) -> tuple[Integers, Integers]:
        """Drop pairs protected by a common lock: they exclude each other."""
        if "lock" not in self.log.ops or not len(a):
            return a, b
        locks = self.order.locks_held
        one, other = (locks[self.order.position[self.accesses.record[rows]]] for rows in (a, b))
        both = (one & other) != 0
        return a[~both], b[~both]

    def _drop_handshakes(self, a: Integers, b: Integers) -> tuple[Integers, Integers]:
        """Drop pairs ordered by a handshake through atomics."""
        if not len(a):
            return a, b
        handshakes = Handshakes(self.log, self.columns, self.accesses, self.order)
        if not handshakes:
            return a, b
        one, other = (self.order.position[self.accesses.record[rows]] for rows in (a, b))
        first, kind, _ = group_rows(one, other)
        pairs = zip(one[first].tolist(), other[first].tolist(), strict=True)
        ordered = np.array([handshakes.orders(x, y) or handshakes.orders(y, x) for x, y in pairs], bool)[kind]
        return a[~ordered], b[~ordered]

    def _by_lines(self, a: Integers, b: Integers) -> list[_Occurrences]:
        """Return the pairs of each two source lines in a memory, in the order of the log."""
        if not len(a):
            return []
        accesses, line = self.accesses, self.columns["line"]
        one, other = accesses.record[a], accesses.record[b]
        memory = self._memory[accesses.alloc[a]]
        # Of the bytes two operations share, report a read after a write first and two writes last.
        priority = 2 * (accesses.write[b] & accesses.write[a]) + (~accesses.write[a])
        order = np.lexsort((priority, other, one))
        # lexsort is stable, so the first of each kind is also the first in this order.
        pairs = order[np.sort(group_rows(one[order], other[order], memory[order])[0])]
        first, kind, _ = group_rows(line[one[pairs]], line[other[pairs]], memory[pairs])
        # Count the operations that come too early, not all their conflicts.
        times = np.bincount(kind[group_rows(kind, one[pairs])[0]])
        last = np.zeros_like(first)
        np.maximum.at(last, kind, np.arange(len(kind)))
        of_pair = list(zip(a[pairs].tolist(), b[pairs].tolist(), strict=True))
        ends = sorted(zip(first.tolist(), last.tolist(), times.tolist(), strict=True))
        return [_Occurrences(of_pair[begin], of_pair[end], count) for begin, end, count in ends]

    @property
    def _memory(self) -> Integers:
        """By allocation, an index for its memory."""
        kinds = sorted({record.memory for record in self.log.allocations})
        return np.array([kinds.index(record.memory) for record in self.log.allocations], np.int64)

    def _writes(self, a: int, b: int) -> tuple[bool, bool]:
        return bool(self.accesses.write[a]), bool(self.accesses.write[b])

    def _sites(self, a: int, b: int) -> tuple[Site, Site]:
        roles = ("writes" if write else "reads" for write in self._writes(a, b))
        records, lanes = self.accesses.record[[a, b]], self.order.lanes_of(self.accesses.where([a, b]))
        first, second = (
            site_of(self.log, int(record), role, LANES[int(lane)])
            for record, lane, role in zip(records, lanes, roles, strict=True)
        )
        return first, second

    def _region(self, a: int, b: int) -> tuple[str, int]:
        """Return the shared bytes in coordinates of each buffer, and their number."""
        one, other = int(self.accesses.alloc[a]), int(self.accesses.alloc[b])
        delta = int(self.space.address[one] - self.space.address[other])
        starts, stops = shared_bytes(self.accesses, a, b, delta)
        records = self.log.allocations
        text = f"{describe(records[one], starts, stops)} in {records[one].memory.upper()}"
        if one != other:
            text += f"; the same bytes are {describe(records[other], starts + delta, stops + delta)}"
        return text, int((stops - starts).sum())

    def _in_task(self, a: int, b: int, times: int) -> Finding:
        first, second = self._sites(a, b)
        region, nbytes = self._region(a, b)
        name = self.log.allocations[int(self.accesses.alloc[a])].name
        lane = int(self.order.lane[self._position(a)])
        title = _TITLES[self._writes(a, b)].format(first=first.operation, second=second.operation, name=name)
        if self._writes(a, b) == (True, True):
            title += " in no defined order"
        sync, pipe = LANE_SYNCS[lane]
        rule = f"{_LANE_NAMES[first.pipe]} and {_LANE_NAMES[second.pipe]} run in parallel; only a sync orders them"
        if second.operation in BY_OFFSETS and second.pipe == "scalar":
            rule = f"{second.operation} reads its offsets when it is issued; only a sync makes it wait for them"
        waits = first.call(f"{sync}()")
        blocking = ""
        if first.operation == "memcpy" and lane != POSTED:
            blocking = f"\nor wait for the copy at {first.location}: {first.call('memcpy(...)')}"
        remedy = f"{waits}, which waits for {pipe}, {between(first, second)}{blocking}"
        moves = next((site for site, row in zip((first, second), (a, b), strict=True) if self._is_move(row)), None)
        moved = moves is not None and "vector" in (first.pipe, second.pipe)
        if moves is not None and moved:
            remedy += f"\nor {on_the_vector_pipe(moves.location)}"
        if self._share_an_end(a, b):
            if self._writes(a, b) == (True, True):
                # With a sync, one of them would still replace a part of the other.
                part = f"correct the part of {name} at {first.location} or {second.location}"
                remedy = f"{part}: only some of their bytes overlap\nor {remedy}"
            else:
                remedy += (
                    "\nor, if they are meant to be two buffers, move one of them: only a part of their bytes overlaps"
                )
        if self._writes(a, b) == (False, True) and TaskRemedies(self.log, self.accesses, self.order).is_fresh(a):
            # With a sync between them, the first would read bytes that nothing has written.
            remedy = (
                f"correct the part of {name} at {first.location} or {second.location}: the first of them reads it "
                "before anything is written there"
            )
        return Finding(
            kind="race",
            title=title,
            region=region,
            nbytes=nbytes,
            sites=(first, second),
            rule=rule,
            remedy=remedy,
            times=times,
            fields={"sync": sync, "buffer": name}
            | ({"moves": moves.location} if moves is not None and moved else {})
            | self._reused_by(a, b),
        )

    def _is_move(self, row: int) -> bool:
        """Return whether an access belongs to a copy within NRAM by the Move pipe, of a kernel in Python."""
        record = self.accesses.record[row]
        within = self.columns["direction"][record] == DIRECTION_CODES[Direction.NRAM2NRAM]
        name = self.log.ops[int(self.columns["op"][record])]
        compiled = site_of(self.log, int(record), "").is_compiled
        return bool(name == "memcpy" and within and self.columns["pipe"][record] == MOVE) and not compiled

    def _reused_by(self, a: int, b: int) -> dict[str, str]:
        """Return the name of the allocation that reuses the memory of the first one, as a field of the finding."""
        one, other = (int(self.accesses.alloc[row]) for row in (a, b))
        return {} if one == other else {"reused_by": self.log.allocations[other].name}

    def _share_an_end(self, a: int, b: int) -> bool:
        """Return whether two accesses overlap partially, like halves of a buffer that is too small."""
        address = [int(self.space.address[int(self.accesses.alloc[row])]) for row in (a, b)]
        low = [int(self.accesses.low[row]) + at for row, at in zip((a, b), address, strict=True)]
        high = [int(self.accesses.high[row]) + at for row, at in zip((a, b), address, strict=True)]
        return (low[0] - low[1]) * (high[0] - high[1]) > 0

    def _between(self, a: int, b: int, times: int, remedies: TaskRemedies) -> Finding:
        first, second = self._sites(a, b)
        region, nbytes = self._region(a, b)
        name = self.log.allocations[int(self.accesses.alloc[a])].name
        first_name, second_name = self._names(a, b, first, second)
        title = _TITLES[self._writes(a, b)].format(first=first_name, second=second_name, name=name)
        sync, rule, remedy = remedies.of(a, b, first, second)
        return Finding(
            kind="task-race",
            title=title,
            region=region,
            nbytes=nbytes,
            sites=(first, second),
            rule=rule,
            remedy=remedy,
            times=times,
            fields={
                "sync": sync,
                "buffer": name,
                "polled": USE_ATOMICS in remedy,
                "passed": int(self.order.segment[self._position(b)]),
            }
            | ({"loop": loop} if (loop := remedies.loop(a, b)) else {}),
        )

    def _names(self, a: int, b: int, first: Site, second: Site) -> tuple[str, str]:
        """Name two tasks, with their launches if these differ."""
        tasks = self.order.task_of[self.accesses.record[[a, b]]].tolist()
        launches = [self.log.tasks[task].launch for task in tasks]
        of_launch = [""] * 2
        if launches[0] != launches[1]:
            of_launch = [f" of launch {number} ({self.log.launches[number].kernel})" for number in launches]
        return _name(first) + of_launch[0], _name(second) + of_launch[1]


def _name(site: Site) -> str:
    return f"the memory core of cluster {site.cluster}" if site.task == "memory core" else site.task


def _collect(pairs: Iterable[tuple[Integers, Integers]]) -> tuple[Integers, Integers]:
    batches = list(pairs)
    if not batches:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate([a for a, _ in batches]), np.concatenate([b for _, b in batches])

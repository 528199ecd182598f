"""The races of a run: one finding per pair of source lines, and one per missing sync or barrier."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mlusim.arrays import Integers
from mlusim.log import Log
from mlusim.verifier.accesses.geometry import group_rows
from mlusim.verifier.accesses.table import Accesses
from mlusim.verifier.findings import Finding
from mlusim.verifier.order.happens_before import Order
from mlusim.verifier.races.atomic_remedies import flags_first
from mlusim.verifier.races.conflicts import Space, between_tasks, within_tasks
from mlusim.verifier.races.executions import executions_of
from mlusim.verifier.races.iterations import Iterations
from mlusim.verifier.races.missing_syncs import Point, Race, Span, fold_between, fold_races, fold_under_barriers
from mlusim.verifier.races.ordered_otherwise import drop_ordered
from mlusim.verifier.races.race_findings import RaceFindings
from mlusim.verifier.races.task_remedies import TaskRemedies
from mlusim.verifier.replaced import replaces_unread

# Of many pairs of accesses, the first ones are examined, and the last one or as many of the last.
_FIRST_PAIRS = 8


class _Occurrences(NamedTuple):
    """All times that two source lines race: the first and the last pair of accesses, and their number."""

    first: tuple[int, int]
    last: tuple[int, int]
    times: int


@dataclass(frozen=True, slots=True)
class RaceSearch:
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
        """Return all races: one finding per pair of source lines, or per sync or barrier that would order several."""
        return fold_under_barriers(self._within_tasks(), self._between_tasks())

    def _within_tasks(self) -> list[tuple[Finding, set[Point]]]:
        """Return the races within a task, each with the locations where a sync would order it."""
        pairs = _collect(within_tasks(self.order, self.accesses, self.space))
        of_lines = self._of_lines(*pairs)
        races = [self._race(occurrences, *of_lines(*occurrences.first)) for occurrences in self._by_lines(*pairs)]
        return fold_races(self.log, self.order, races)

    def _between_tasks(self) -> list[Finding]:
        """Return the races between tasks."""
        a, b = _collect(between_tasks(self.order, self.accesses, self.space))
        a, b = drop_ordered(self.log, self.columns, self.accesses, self.order, a, b)
        iterations = Iterations(self.log, self.accesses, self.order)
        found = [(iterations.in_intended_order(*race.first), race.times) for race in self._by_lines(a, b)]
        lines = self.order.line_of[self.accesses.record]
        examined = [*zip(a[:_FIRST_PAIRS].tolist(), b[:_FIRST_PAIRS].tolist(), strict=True)]
        examined += zip(a[-_FIRST_PAIRS:].tolist(), b[-_FIRST_PAIRS:].tolist(), strict=True)
        remedies = TaskRemedies(
            self.log,
            self.accesses,
            self.order,
            iterations,
            directions=frozenset((int(lines[one]), int(lines[other])) for (one, other), _ in found),
            across=self._across_clusters(a, b),
            apart=all(iterations.differ(*pair) for pair in examined),
        )
        findings = self._findings
        spans = [(self._span_between(*pair), findings.between_tasks(*pair, times, remedies)) for pair, times in found]
        return flags_first(fold_between(spans))

    @property
    def _findings(self) -> RaceFindings:
        """The findings on single pairs of accesses."""
        return RaceFindings(self.log, self.columns, self.accesses, self.space, self.order)

    def _across_clusters(self, a: Integers, b: Integers) -> bool:
        """Return whether any two tasks of one union that race are in different clusters."""
        tasks = group_rows(*(self.order.task_of[self.accesses.record[rows]] for rows in (a, b)))[0]
        pairs = zip(*(self.order.task_of[self.accesses.record[rows[tasks]]].tolist() for rows in (a, b)), strict=True)
        return any(
            self.log.tasks[one].cluster != self.log.tasks[other].cluster
            and self.order.job[one] == self.order.job[other]
            for one, other in pairs
        )

    def _of_lines(self, one: Integers, other: Integers) -> Callable[[int, int], tuple[Integers, Integers]]:
        """Return a function that returns, of all pairs of accesses, those at the lines of two of them."""
        line, record = self.order.line_of, self.accesses.record
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
        finding = self._findings.within_task(a, b, occurrences.times)
        finding = replace(finding, fields=finding.fields | executions_of(self.order, self.accesses, one, other))
        part = ""
        if which := replaces_unread(self.accesses, self.order, a, b):
            first, second = (site.location for site in finding.sites)
            part = (
                f"correct the part of {finding.fields['buffer']} at {first} or {second}: the {which} of them replaces "
                "what was written there before anything reads it"
            )
        return Race(before[0], self._position(b), (before[1], self._position(last)), finding, part)

    def _last_before(self, b: int, one: Integers, other: Integers) -> int:
        """Return the position of the last operation that races with that of `b`, of pairs of the same two lines.

        A sync after it is one after all of them.
        """
        record = self.accesses.record
        return int(self.order.position[record[one[record[other] == record[b]]]].max())

    def _span_between(self, a: int, b: int) -> Span:
        """Return the source lines between which one barrier would order a pair, and the barriers already passed.

        Between two queues, one wait of the host orders all pairs.
        """
        positions = [self._position(row) for row in (a, b)]
        tasks = [int(self.order.task[position]) for position in positions]
        lines = [self.log.lines[int(self.order.line[position])] for position in positions]
        jobs = {self.order.job[task] for task in tasks}
        queues = sorted({self.log.launches[launch].queue for launch, *_ in jobs})
        if len(queues) > 1:
            return Span(("queues", *queues, bisect_right(self.log.host_waits, min(jobs)[0])), 0, 1)
        segments = sorted(int(self.order.segment[position]) for position in positions)
        if len(jobs) > 1 or lines[0][0] != lines[1][0] or lines[0][1] == lines[1][1]:
            # No barrier can order these, or the location cannot be derived from the log alone.
            return Span(("alone", a, b), 0, 1)
        first, second = sorted(line for _, line, _ in lines)
        return Span((*jobs, *segments, lines[0][0]), first, second)

    def _by_lines(self, a: Integers, b: Integers) -> list[_Occurrences]:
        """Return the pairs of each two source lines in a memory, in the order of the log."""
        if not len(a):
            return []
        accesses, line = self.accesses, self.order.line_of
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

    def _position(self, row: int) -> int:
        return int(self.order.position[self.accesses.record[row]])


def _collect(pairs: Iterable[tuple[Integers, Integers]]) -> tuple[Integers, Integers]:
    batches = list(pairs)
    if not batches:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate([a for a, _ in batches]), np.concatenate([b for _, b in batches])

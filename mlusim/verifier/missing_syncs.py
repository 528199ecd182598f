"""Races that one more sync would mend, as one finding.

A sync stands at a point of the source: before a line, after one, at the end of a loop's body, or in a copy that
blocks. It mends a race within a task where the task passes the point between the two operations. So races that have a
point in common are one missing sync, and are reported together.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from mlusim.cores.syncs import BARRIERS
from mlusim.log import Log
from mlusim.verifier.findings import Finding, Site
from mlusim.verifier.order import Order
from mlusim.verifier.remedies import FULL_SYNC, SYNC_PIPES

# Steps of a task that are examined between the two operations of a race.
_MOST_STEPS = 10_000


class Point(NamedTuple):
    """Where a sync could stand: `rank` is the order of choice among points that mend equally many races."""

    rank: int
    kind: str
    file: str
    line: int


class Span(NamedTuple):
    """Two lines of the source between which a barrier would order two tasks, and what else has to be equal."""

    key: tuple[Any, ...]
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Race:
    """A race within a task: the places of its two operations, and its finding."""

    first: int
    second: int
    finding: Finding


def fold_races(log: Log, order: Order, races: Sequence[Race]) -> list[tuple[Finding, set[Point]]]:
    """One finding for each sync that is missing, in the order of the races, and the points where it could stand."""
    left = {number: _points(log, order, race) for number, race in enumerate(races)}
    result: dict[int, tuple[Finding, set[Point]]] = {}
    while left:
        # What each sync at each point would mend; a wait for all pipes mends what any other would.
        mended: dict[tuple[Point, str], list[int]] = {}
        for number, points in left.items():
            for sync in {races[number].finding.fields["sync"], FULL_SYNC}:
                for point in points:
                    mended.setdefault((point, sync), []).append(number)
        if not mended:
            result |= {number: (races[number].finding, points) for number, points in left.items()}
            break
        # Of those that mend equally many the one that waits for less, then the one of the earliest race.
        (point, _), together = min(
            mended.items(), key=lambda one: (-len(one[1]), one[0][1] == FULL_SYNC, one[1][0], one[0])
        )
        chief, *others = (races[number].finding for number in together)
        shared = set.intersection(*(left.pop(number) for number in together))
        result[together[0]] = (_reported_together(chief, others, point) if others else chief, shared)
    return [result[number] for number in sorted(result)]


def fold_between(found: Sequence[tuple[Span, Finding]]) -> list[Finding]:
    """One finding for each barrier that is missing between tasks, in the order of the first of each.

    A barrier just before the end of a span mends all that have the same key, begin before it and end no earlier. What
    happens at the same two lines is one finding too, whichever of them comes first, and so is what two tasks do at one
    of them.
    """
    left = sorted(found, key=lambda one: (str(one[0].key), one[0].end, -one[0].begin))
    together: list[list[Finding]] = []
    while left:
        chief = left[0][0]
        mended = [one for one in left if one[0].key == chief.key and one[0].begin < chief.end <= one[0].end]
        left = [one for one in left if one not in mended]
        together.append([finding for _, finding in mended])
    position = {id(finding): number for number, (_, finding) in enumerate(found)}
    by_lines: list[tuple[set[tuple[str, int]], list[Finding]]] = []
    for findings in sorted(together, key=lambda some: position[id(some[0])]):
        lines = {(site.file, site.line) for site in findings[0].sites}
        known = next((some for there, some in by_lines if lines <= there or there <= lines), None)
        if known is None:
            by_lines.append((lines, findings))
        else:
            known += findings
    return [replace(chief, folded=tuple(others)) if others else chief for _, (chief, *others) in by_lines]


def fold_under_barriers(within: Sequence[tuple[Finding, set[Point]]], between: Sequence[Finding]) -> list[Finding]:
    """All findings, those of one task under the barrier between tasks that would mend them too: it is a full sync.

    Args:
        within: races within a task, each with the points where a sync would mend it.
        between: races between tasks.
    """
    alone: list[Finding] = []
    under: list[tuple[Finding, ...]] = [()] * len(between)
    for finding, points in within:
        number = next((number for number, one in enumerate(between) if _barrier_mends(one, points)), None)
        if number is None:
            alone.append(finding)
        else:
            under[number] += (replace(finding, folded=()), *finding.folded)
    return alone + [replace(one, folded=(*one.folded, *under[number])) for number, one in enumerate(between)]


def _barrier_mends(finding: Finding, points: set[Point]) -> bool:
    """Whether the barrier that a race between tasks lacks may stand at one of some points."""
    first, last = sorted(finding.sites, key=lambda site: site.line)
    if finding.fields["sync"] not in BARRIERS or first.file != last.file:
        return False
    here = [point for point in points if point.file == first.file]
    return any(
        (point.kind == "before" and first.line < point.line <= last.line)
        or (point.kind == "after" and first.line <= point.line < last.line)
        for point in here
    )


def _points(log: Log, order: Order, race: Race) -> set[Point]:
    """The points that a task passes between two operations, and the copies that would order them if they blocked."""
    lines = order.line[race.first : min(race.second, race.first + _MOST_STEPS) + 1]
    steps = np.unique(np.stack([lines[:-1], lines[1:]], axis=1), axis=0)
    points = {Point(3, "copy", site.file, site.line) for site in race.finding.sites if _could_block(site) and site.line}
    for one, other in steps.tolist():
        (file, line, function), (next_file, next_line, next_function) = log.lines[one], log.lines[other]
        points |= {Point(0, "before", next_file, next_line), Point(1, "after", file, line)}
        if (file, function) == (next_file, next_function) and next_line <= line:
            begin = _loop_around(file, next_line, line)
            if begin:
                points.add(Point(2, "loop", file, begin))
    return points


def _could_block(site: Site) -> bool:
    return site.operation == "memcpy" and site.pipe != "vector"


def _reported_together(chief: Finding, others: list[Finding], point: Point) -> Finding:
    """A finding with those that the same sync mends under it, and the remedy for all."""
    findings = [chief, *others]
    syncs = {finding.fields["sync"] for finding in findings}
    sync = syncs.pop() if len(syncs) == 1 else FULL_SYNC
    site = chief.sites[0]
    name = f"{point.file.rpartition('/')[2]}:{point.line}"
    waits = f"{site.call(f'{sync}()')}, which waits for {SYNC_PIPES[sync]}"
    between = {(finding.sites[0].place, finding.sites[1].place) for finding in findings}
    if point.kind == "copy":
        remedy = f"wait for the copy at {name}: {site.call('memcpy(...)')}"
        sync = chief.fields["sync"]
    elif point.kind == "loop":
        remedy = f"{waits}, at the end of the loop at {name}"
    elif len(between) == 1:
        remedy = f"{waits}, between {chief.sites[0].place} and {chief.sites[1].place}"
    else:
        remedy = f"{waits}, {point.kind} {name}"
    return replace(chief, folded=(*chief.folded, *others), remedy=remedy, fields=chief.fields | {"sync": sync})


def _loop_around(file: str, first: int, last: int) -> int:
    """The line at which the innermost loop with both lines begins; 0 where there is none, or no Python source."""
    around = [loop for loop in _loops(file) if loop[0] <= first and last <= loop[1]]
    return max(around, default=(0, 0))[0]


@lru_cache(maxsize=64)
def _loops(file: str) -> tuple[tuple[int, int], ...]:
    """First and last line of every loop of a Python file."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    loops = (node for node in ast.walk(tree) if isinstance(node, ast.For | ast.AsyncFor | ast.While))
    return tuple((loop.lineno, loop.end_lineno or loop.lineno) for loop in loops)

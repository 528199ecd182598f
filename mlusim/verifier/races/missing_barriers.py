"""Grouping of races that one additional barrier between tasks would fix into one finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.verifier.findings import Finding
from mlusim.verifier.races.atomic_remedies import counted
from mlusim.verifier.races.missing_syncs import Point
from mlusim.verifier.source_file import source_file


class Span(NamedTuple):
    """The source lines between which a barrier would order two tasks; spans with different keys share no barrier."""

    key: tuple[Any, ...]
    begin: int
    end: int


def fold_between(findings: Sequence[tuple[Span, Finding]]) -> list[Finding]:
    """Return one finding per barrier missing between tasks, in the order of the first race of each.

    A barrier just before the end of a span fixes all spans with the same key that begin before it and end no earlier.
    Races at the same two lines, in either order, and races of two tasks at one of these lines belong to the same
    finding. So do races that one barrier next to an operation of both fixes, such as those of the first load of a
    pipeline and of the loads of its loop, and two writes at lines of the same finding: the tasks do the work twice.
    """
    remaining = sorted(findings, key=lambda item: (str(item[0].key), item[0].end, -item[0].begin))
    fixed_together: list[list[Finding]] = []
    while remaining:
        main = remaining[0][0]
        fixed = [item for item in remaining if item[0].key == main.key and item[0].begin < main.end <= item[0].end]
        remaining = [item for item in remaining if item not in fixed]
        fixed_together.append([finding for _, finding in fixed])
    position = {id(finding): number for number, (_, finding) in enumerate(findings)}
    groups: list[list[Finding]] = []
    for group in sorted(fixed_together, key=lambda races: position[id(races[0])]):
        matching = next((races for is_same in _SAME_FAULT for races in groups if is_same(races, group)), None)
        if matching is None:
            groups.append(group)
        elif _ends_loop_before(group[0], matching[0]):
            matching[:0] = group
        else:
            matching += group
    return [_fold_group(main, others) if others else main for main, *others in groups]


def _same_lines(races: Sequence[Finding], group: Sequence[Finding]) -> bool:
    """Return whether both are at the same two lines, in either order, or one of them is at one of these lines alone."""
    lines, others = races[0].lines, group[0].lines
    return lines <= others or others <= lines


def _same_work(races: Sequence[Finding], group: Sequence[Finding]) -> bool:
    """Return whether two writes are at lines of the others: the tasks do the work twice."""
    return group[0].writes_twice and group[0].lines <= set().union(*(race.lines for race in races))


def _same_split(races: Sequence[Finding], group: Sequence[Finding]) -> bool:
    """Return whether both are of one function and tensor whose split gives some of the work to two tasks."""
    one, other = races[0], group[0]
    same_tensor = (
        one.fields["buffer"] == other.fields["buffer"] and one.clues["splits_twice"] == other.clues["splits_twice"]
    )
    functions = {(site.file, site.function) for race in (one, other) for site in race.sites}
    return same_tensor and one.clues["splits_twice"] and len(functions) == 1


def _wrong_read(races: Sequence[Finding], others: Sequence[Finding]) -> bool:
    """Return whether a line that reads too early also races with another line in both orders: it reads a wrong part.

    No single barrier would fix all of these.
    """
    one = races[0]
    directions = {tuple(site.at for site in race.sites) for race in others}
    in_both_orders = {(first, second) for first, second in directions if (second, first) in directions}
    same_buffer = all(race.fields["buffer"] == one.fields["buffer"] and not race.writes_twice for race in others)
    reads = [site.role for site in one.sites] == ["writes", "reads"]
    return reads and bool(in_both_orders) and same_buffer and all(one.sites[1].at in pair for pair in in_both_orders)


def _fold_group(main: Finding, others: Sequence[Finding]) -> Finding:
    """Return a finding with others folded into it; a number that tells which task is the last needs an atomic."""
    folded = main.fold(*others)
    atomic = next((remedy for race in others if (remedy := counted(main, race))), "")
    return replace(folded, remedies=(atomic, *main.remedies)) if atomic else folded


def _same_barrier(races: Sequence[Finding], group: Sequence[Finding]) -> bool:
    """Return whether one barrier fixes both: after their first operation, before their second, or their later line.

    Or at the end of a loop, which is between the operations of the other.
    """
    one, other = races[0], group[0]
    if not _orders(one.fields["sync"], other.fields["sync"]):
        return False
    if _is_at_one_line(one) or _is_at_one_line(other):
        return False
    places = [race.clues["place"] for race in (one, other)]
    if places[0].loop and places[0] == places[1] and one.sites[0].file == other.sites[0].file:
        return True
    (first, second), (other_first, other_second) = ([site.at for site in race.sites] for race in (one, other))
    later = max(first, second) == max(other_first, other_second) and one.fields["buffer"] == other.fields["buffer"]
    return (
        _ends_loop_before(one, other)
        or first == other_first
        or second == other_second
        or (later and not other.writes_twice)
    )


def _ends_loop_before(one: Finding, other: Finding) -> bool:
    """Return whether the barrier of one race is at the end of a loop, and the other race is with what follows it."""
    begin, (first, second) = one.fields.get("loop"), (site.at for site in other.sites)
    if (
        not begin
        or not one.sites[0].file == first.file == second.file
        or not _orders(one.fields["sync"], other.fields["sync"])
    ):
        return False
    end = max(loop[1] for loop in source_file(first.file).loops if loop[0] == begin)
    return bool(begin <= first.line <= end < second.line)


def _orders(sync: str, other: str) -> bool:
    """Return whether a barrier also orders the tasks of another one: it is that barrier, or spans its clusters, too."""
    wide, narrow = BARRIERS.get(sync), BARRIERS.get(other)
    return wide is not None and narrow is not None and wide in (narrow, narrow._replace(within_cluster=False))


# Whether two groups of races between tasks are one fault, the surest reason first.
_SAME_FAULT = (_same_lines, _same_barrier, _same_work, _same_split, _wrong_read)


def _is_at_one_line(finding: Finding) -> bool:
    """Return whether tasks execute one line on the same bytes: no barrier fixes that."""
    return len(finding.lines) == 1


def fold_under_barriers(
    within_tasks: Sequence[tuple[Finding, set[Point]]], between_tasks: Sequence[Finding]
) -> list[Finding]:
    """Fold races within a task into the missing barrier between tasks that would also fix them: it is a full sync.

    Args:
        within_tasks: races within a task, each with the locations where a sync would fix it.
        between_tasks: races between tasks.
    """
    unfolded: list[Finding] = []
    folded = list(between_tasks)
    for finding, points in within_tasks:
        number = next((number for number, race in enumerate(between_tasks) if _barrier_fixes(race, points)), None)
        if number is None:
            unfolded.append(finding)
        else:
            folded[number] = folded[number].fold(finding)
    return unfolded + folded


def _barrier_fixes(finding: Finding, points: set[Point]) -> bool:
    """Return whether the barrier missing in a race between tasks could be added at one of the points."""
    first, last = sorted(finding.sites, key=lambda site: site.line)
    if finding.fields["sync"] not in BARRIERS or first.file != last.file or _is_at_one_line(finding):
        return False
    begin, end = (site.line for site in finding.sites)
    in_file = [point for point in points if point.file == first.file]
    return any(
        (point.kind == "loop" and point.line == finding.fields.get("loop"))
        or (point.kind == "before" and (first.line < point.line <= last.line or point.line == end))
        or (point.kind == "after" and (first.line <= point.line < last.line or point.line == begin))
        for point in in_file
    )

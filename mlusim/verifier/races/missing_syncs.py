"""Grouping of races that one additional sync would fix into one finding.

A sync has a location in the source: before a line, after a line, at the end or the beginning of a loop body, or in a
copy that blocks.
It fixes a race within a task if the task passes that location between the two operations. Races with a common location
are therefore one missing sync, and are reported together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mlusim.units import group_digits
from mlusim.verifier.findings import Finding, Remedy, Site, Way, between, in_one_function, place_between
from mlusim.verifier.races.lane_syncs import FULL_SYNC, SYNC_PIPES, blocking_copy, on_the_vector_pipe
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import SourceLine, either_of, function_around, locations_of, source_file

# Steps of a task examined between the two operations of a race.
_MAX_STEPS = 10_000
# A missing sync makes (nearly) every execution of a line race, a wrong index of a pipeline some of them: at most this
# share, and only if each task executes the line this often.
_SELDOM = 0.6
_FEW_EXECUTIONS = 4
# Added to the rank of a location where no sync may stand.
_CANNOT_WAIT = 10


class Point(NamedTuple):
    """A location for a sync; `rank` decides between locations that fix equally many races."""

    rank: int
    kind: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Race:
    """A race within a task: the positions of its two operations, several times, and its finding.

    `part`: the remedy if a part of the buffer is wrong there; empty if nothing tells so.
    """

    positions: Sequence[tuple[int, int]]
    finding: Finding
    part: str = ""


def fold_races(run: Run, races: Sequence[Race]) -> list[tuple[Finding, set[Point]]]:
    """Return one finding per missing sync, in the order of the races, with the locations where it could be added."""
    copies = {site.at for race in races for site in race.finding.sites if _could_block(site)}
    remaining = {number: _points(run, race, copies) for number, race in enumerate(races)}
    racing, helpers = _racing_lines_and_helpers(races)
    result: dict[int, tuple[Finding, set[Point]]] = {}
    while remaining:
        fixed_by = _fixed_by(races, remaining)
        if not fixed_by:
            result |= {
                number: (_with_part_remedy(races[number].finding, [races[number]]), points)
                for number, points in remaining.items()
            }
            break
        # Prefer the sync that fixes the most races, then the one that waits for less, then that of the earliest race.
        candidates = [
            (-len(numbers), sync == FULL_SYNC, numbers[0], _is_in_helper(point, racing, helpers), (point, sync))
            for (point, sync), numbers in fixed_by.items()
        ]
        *_, (point, sync) = min(candidates)
        together = fixed_by[point, sync]
        main = next((number for number in together if _is_next_to(point, races[number].finding)), together[0])
        others = [races[number].finding for number in together if number != main]
        shared = set.intersection(*(remaining.pop(number) for number in together))
        finding = races[main].finding
        if others or _is_one_call(finding):
            finding = _merge(finding, others, point)
        result[together[0]] = (_with_part_remedy(finding, [races[number] for number in (main, *together)]), shared)
    return _fold_overlaps(_fold_wrong_indices([result[number] for number in sorted(result)]))


def _racing_lines_and_helpers(races: Sequence[Race]) -> tuple[set[tuple[str, int]], set[tuple[str, str]]]:
    """Return the files and lines of races, and the files and names of the helper functions that contain some."""
    sites = [site for race in races for site in race.finding.sites]
    helpers = {(site.file, function_around(site.file, site.line)) for site in sites if site.called_at}
    # A lambda is in the function that calls it.
    helpers -= {(call.file, function_around(call.file, call.line)) for site in sites for call in site.called_at}
    return {(site.file, site.line) for site in sites}, helpers


def _is_in_helper(point: Point, racing: set[tuple[str, int]], helpers: set[tuple[str, str]]) -> bool:
    """Return whether a point is in a helper function that races, and at none of its racing lines."""
    line = point.file, point.line
    return line not in racing and (point.file, function_around(*line)) in helpers


def _fixed_by(races: Sequence[Race], remaining: Mapping[int, set[Point]]) -> dict[tuple[Point, str], list[int]]:
    """By location and sync, return the races that it would fix; a full sync fixes whatever any other would."""
    fixed_by: dict[tuple[Point, str], list[int]] = {}
    for number, points in remaining.items():
        for sync in {races[number].finding.fields["sync"], FULL_SYNC}:
            for point in points:
                fixed_by.setdefault((point, sync), []).append(number)
    return fixed_by


def _with_part_remedy(finding: Finding, races: Iterable[Race]) -> Finding:
    """Return a finding of races with the remedy of the first one that accesses a wrong part of the buffer."""
    remedy = next((race.part for race in races if race.part), "")
    return replace(finding, remedies=(remedy, *finding.remedies)) if remedy else finding


def _fold_wrong_indices(races: Sequence[tuple[Finding, set[Point]]]) -> list[tuple[Finding, set[Point]]]:
    """Return the races with a remedy for those that only some executions of a line have: an index is wrong there.

    Such races of one line with two others are one finding: no single sync would fix them.
    """
    result: list[tuple[Finding, set[Point]]] = []
    for finding, points in races:
        seldom = _is_seldom(finding)
        main_index = next(
            (at for at, (race, _) in enumerate(result) if _share_a_line(race, finding, seldom=seldom)), None
        )
        if main_index is None:
            index = _other_index(finding, *finding.sites)
            reported = finding
            if seldom:
                fields = finding.fields | {"wrong_index": True}
                reported = replace(finding, remedies=(index, *finding.remedies), fields=fields)
            elif _is_partial(finding):
                reported = replace(finding, remedies=(*finding.remedies, index))
            result.append((reported, points))
        else:
            main, main_points = result[main_index]
            common = next(site for site in main.sites if site.at in finding.lines)
            remedies = (_other_index(main, common),) if seldom and _is_seldom(main) else main.remedies
            result[main_index] = replace(main.fold(finding), remedies=remedies), main_points
    return result


def _fold_overlaps(races: Sequence[tuple[Finding, set[Point]]]) -> list[tuple[Finding, set[Point]]]:
    """Return the races with those of one buffer folded that overlap in part only: its parts are misplaced."""
    result: list[tuple[Finding, set[Point]]] = []
    for finding, points in races:
        main_index = next((at for at, (race, _) in enumerate(result) if _overlap_in_one_buffer(race, finding)), None)
        if main_index is None:
            result.append((finding, points))
            continue
        main = result[main_index][0].fold(finding)
        lines = locations_of({site.at for race in main.unfolded for site in race.sites})
        text = f"correct the parts of {main.fields['buffer']} at {lines}: only some of their bytes overlap"
        remedy = Remedy(text, Way.ACCESS)
        result[main_index] = replace(main, remedies=(remedy, *result[main_index][0].remedies)), points
    return result


def _overlap_in_one_buffer(one: Finding, other: Finding) -> bool:
    buffers = {race.fields["buffer"] for finding in (one, other) for race in finding.unfolded}
    return len(buffers) == 1 and all(race.clues["overlaps"] for race in (*one.unfolded, *other.unfolded))


def _is_seldom(finding: Finding) -> bool:
    """Return whether the first line of each of its races is executed far more often than it races.

    Not counted are executions that the second line does not follow, or that something else orders before it. If only
    the first executions race, a sync is missing before a loop.
    """
    return _is_partial(finding) and all(
        race.fields["comparable"] >= _FEW_EXECUTIONS * race.fields["tasks"] for race in finding.unfolded
    )


def _is_partial(finding: Finding) -> bool:
    """Return whether only a part of the executions of each first line race, and not only the first ones."""
    races = finding.unfolded
    if any(_is_one_call(race) for race in races):
        # The executions of such a line do different things.
        return False
    partial = all(race.times <= _SELDOM * race.fields["comparable"] for race in races)
    return partial and not all(race.fields["first_executions"] for race in races)


def _share_a_line(one: Finding, other: Finding, *, seldom: bool) -> bool:
    """Return whether two races have a line in common, of which an index is wrong, or which replaces unread results."""
    has_wrong_part = (seldom and _is_seldom(one)) or one.clues["replaces_unread"]
    return has_wrong_part and one.fields["buffer"] == other.fields["buffer"] and bool(one.lines & other.lines)


def _other_index(finding: Finding, *sites: Site) -> str:
    times, executions = (group_digits(number) for number in (finding.times, finding.fields["executions"]))
    why = f"only {times} of {executions} executions of {finding.sites[0].location} race"
    return Remedy(f"correct the index of {finding.fields['buffer']} at {either_of(sites)}: {why}", Way.ACCESS)


def _points(run: Run, race: Race, racing: Collection[SourceLine]) -> set[Point]:
    """Return the locations that a task passes between two operations, and the copies that could block instead.

    These are its own, and of the copies that race, those that the task issues between the two: a blocking copy also
    waits for what comes before it. The last time, a pipeline may pass fewer lines than the first time: it no longer
    loads. Functions that cannot wait rank last.
    """
    copies = {Point(4, "copy", site.file, site.line) for site in race.finding.sites if _could_block(site) and site.line}
    points_passed, *later = (_points_between(run, *positions) for positions in race.positions)
    lines_between = {(point.file, point.line) for point in points_passed if point.kind == "after"}
    copies |= {
        Point(4, "copy", copy.file, copy.line)
        for copy in racing
        if (copy.file, copy.line) in lines_between and copy.line
    }
    points = copies | (points_passed.intersection(*later) or points_passed)
    return {
        point
        if source_file(point.file).can_wait(point.line, run.calls(point.file))
        else point._replace(rank=point.rank + _CANNOT_WAIT)
        for point in points
    }


def _points_between(run: Run, first: int, second: int) -> set[Point]:
    """Return the locations that a task passes between two positions."""
    log, order = run.log, run.order
    end = min(second, first + _MAX_STEPS) + 1
    lines, ops = order.line[first:end], order.op[first:end]
    # Different operations of one line are one statement, if it calls more than once: nothing can stand between them.
    is_single_call = np.array([line in source_file(file).single_calls for file, line, _ in log.lines], bool)
    is_boundary = (lines[:-1] != lines[1:]) | (ops[:-1] == ops[1:]) | is_single_call[lines[1:]]
    steps = np.unique(np.stack([lines[:-1], lines[1:]], axis=1)[is_boundary], axis=0)
    points = set()
    task = int(order.task[first])
    times = np.bincount(order.line[order.of_task(task)], minlength=len(log.lines))
    for one, other in steps.tolist():
        (file, line, _), (next_file, next_line, _) = log.lines[one], log.lines[other]
        points |= {Point(0, "before", next_file, next_line), Point(1, "after", file, line)}
        once = bool(times[one] == 1 == times[other])
        source, recorded = source_file(file), run.calls(file)
        begin = source.loop_repeated(line, next_line, recorded, once=once) if file == next_file else 0
        if begin:
            points.add(Point(2, "loop", file, begin))
        for loop in source_file(next_file).loops_around(next_line):
            if loop[0] == begin or file != next_file or not loop[0] <= line <= loop[1]:
                points.add(Point(3, "begin", next_file, loop[0]))
    return points


def _is_next_to(point: Point, race: Finding) -> bool:
    """Return whether a sync at a point is one just before or just after an operation of the race."""
    first, second = race.sites
    return {"before": second, "after": first}.get(point.kind, first).line == point.line


def _is_one_call(race: Finding) -> bool:
    """Return whether one call, executed again and again, issues both operations: nothing can stand between them."""
    one, other = in_one_function(*race.sites)
    return one == other and (len(race.lines) > 1 or one.line in source_file(one.file).single_calls)


def _could_block(site: Site) -> bool:
    return site.operation == "memcpy" and site.pipe != "vector"


def _merge(main: Finding, others: list[Finding], point: Point) -> Finding:
    """Return one finding with the others folded into it, and a remedy that fixes all of them."""
    findings = [main, *others]
    syncs = {finding.fields["sync"] for finding in findings}
    sync = syncs.pop() if len(syncs) == 1 else FULL_SYNC
    site, second = main.sites
    begin, end = in_one_function(site, second)
    line = {("before", second.line): end, ("after", site.line): begin}.get(
        (point.kind, point.line), SourceLine(point.file, point.line)
    )
    name = line.location
    locations = {between(*finding.sites) for finding in findings}
    is_between_both = len(locations) == 1 and not _is_one_call(main) and point.kind not in ("copy", "loop", "begin")
    at = place_between(site, second)[1] if is_between_both else line
    sync_text = f"{site.call(f'{sync}()', at)}, which waits for {SYNC_PIPES[sync]}"
    if point.kind == "copy":
        remedy: str = blocking_copy(site, name)
        sync = main.fields["sync"]
    elif point.kind in ("loop", "begin"):
        end_or_beginning = "end" if point.kind == "loop" else "beginning"
        remedy = f"{sync_text}, at the {end_or_beginning} of the loop at {name}"
    elif is_between_both:
        remedy = f"{sync_text}, {locations.pop()}"
    else:
        remedy = f"{sync_text}, {point.kind} {name}"
    moves = {finding.fields.get("moves", "") for finding in findings}
    vector_remedy = [on_the_vector_pipe(moves.pop())] if len(moves) == 1 and "" not in moves else []
    return replace(main.fold(*others), remedies=(remedy, *vector_remedy), fields=main.fields | {"sync": sync})

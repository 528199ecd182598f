"""Remedies in the order that the results of other runs of the kernel tell.

In order: each operation of a core is done before its next one is issued. If that result is right, a sync is missing. If
it is wrong, none would fix the kernel: an operation accesses a wrong part of its buffer. C++ code tells nothing of
that: it reads memory as soon as it runs, however late the operations before it are issued. Tasks that do the same stay
in step. If no task is ahead of another where a barrier may be missing, the result also tells whether it is.

From zeros: fresh memory is 0. If most elements that differ are right then, uninitialised bytes are to be written first:
the others may have what earlier iterations left there. Otherwise, another write should have brought these bytes.

With a change: if another index, size or buffer at one line makes every output right, and the checker finds no error
then, that is the first remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mlusim.log import Log
from mlusim.verifier.columns import Columns
from mlusim.verifier.consequences.one_fault import stopped_at
from mlusim.verifier.findings import ERROR, Finding, Site, Way, fixes_by, outermost_loop, write_bytes, wrong_part
from mlusim.verifier.source_file import SourceLine, location_of

# What fixes a race, other than a sync or a barrier.
_NO_SYNC = (Way.PART, Way.ACCESS)
_OF_NUMBERS = (
    "wrong-value",
    "uninitialised",
    "never-written",
    "written-again",
    "access",
    "copy",
    "operand",
    "hang",
    "endless",
    "stopped",
)


class OtherRun(NamedTuple):
    """Another run.

    Attributes:
        log: its log.
        is_right: whether its result is right; None if that tells nothing.
        wrong: the names of its wrong outputs.
    """

    log: Log
    is_right: bool | None
    wrong: frozenset[str] = frozenset()


def by_other_results(
    findings: tuple[Finding, ...],
    in_order: Callable[[], OtherRun],
    from_zeros: Callable[[], OtherRun],
    fixing: Callable[[Sequence[int], Collection[SourceLine]], Sequence[str]],
    fixing_barriers: Callable[..., Sequence[str]],
) -> tuple[Finding, ...]:
    """Return findings with their remedies in the order that other results tell."""
    races = [finding for finding in findings if _may_lack_order(finding)]
    ordered: Sequence[Finding] = races
    if races and (other := in_order()).is_right is not None:
        findings, ordered = _rank_races(findings, races, other)
    unwritten = [finding for finding in findings if any(map(_is_write, finding.remedies))]
    if len(unwritten) == 1 and (other := from_zeros()).is_right is not None:
        findings = tuple(_write_ranked(read, other) if read in unwritten else read for read in findings)
    return _with_changes(findings, ordered, fixing, fixing_barriers)


def _rank_races(
    findings: tuple[Finding, ...], races: Sequence[Finding], other: OtherRun
) -> tuple[tuple[Finding, ...], list[Finding]]:
    """Return findings with the remedies of races in the order that a run without these races tells.

    And the races that a sync or a barrier fixes, as far as it tells.
    """
    # A race without a wrong output may hide one.
    hidden = other.wrong.difference(*map(_wrong_outputs, findings))
    suspects = [race for race in races if (_wrong_outputs(race) or hidden) & other.wrong]
    ranked = [race for race in races if race.kind == "race" or (race in suspects and _keeps_order(other.log, race))]
    in_place = tuple(
        _ranked(finding, is_right=finding not in suspects) if finding in ranked else finding for finding in findings
    )
    return in_place, [race for race in races if race not in suspects]


def _with_changes(
    findings: tuple[Finding, ...],
    ordered: Collection[Finding],
    fixing: Callable[[Sequence[int], Collection[SourceLine]], Sequence[str]],
    fixing_barriers: Callable[..., Sequence[str]],
) -> tuple[Finding, ...]:
    """Return findings with the changes that fix all outputs first in the first error.

    `ordered`: races between tasks that a barrier may fix are not searched.
    """
    errors = [finding for finding in findings if finding.severity == ERROR]
    remedies: Sequence[str] = ()
    is_hang, is_stopped = (
        bool(errors) and all(finding.kind == kind for finding in errors) for kind in ("hang", "stopped")
    )
    if is_hang or is_stopped:
        remedies = fixing_barriers(is_hang=is_hang)
    if errors and not remedies and all(_may_be_changed(finding, ordered) for finding in errors):
        wrong_values = [part for finding in errors for part in finding.unfolded if part.kind == "wrong-value"]
        records = [record for part in wrong_values for record in part.clues["records"]]
        sites = [site for finding in errors if finding.kind != "wrong-value" for site in finding.sites]
        accessed = (line for site in sites for line in (site.at, *site.called_at))
        lines = dict.fromkeys((*accessed, *map(stopped_at, errors)))
        remedies = fixing(records, lines)
    if errors and not remedies and all(finding.kind == "task-race" for finding in errors):
        remedies = fixing_barriers(is_hang=False)
    fixed = replace(errors[0], remedies=(*remedies, *errors[0].remedies)) if remedies else None
    return tuple(fixed if fixed and finding is errors[0] else finding for finding in findings)


def _may_be_changed(finding: Finding, ordered: Collection[Finding]) -> bool:
    """Return whether another number at one line may fix a fault: what is known of it is no sync, barrier or atomic."""
    if finding.kind == "task-race" and (_wrong_outputs(finding) or finding.writes_twice):
        return finding.writes_twice or finding not in ordered
    first = finding.remedies[0] if finding.remedies else ""
    return finding.kind in _OF_NUMBERS or (finding.kind in ("race", "task-race") and fixes_by(first, *_NO_SYNC))


def _wrong_outputs(finding: Finding) -> frozenset[str]:
    """Return the names of the outputs that are wrong because of a fault."""
    return frozenset(part.fields["tensor"] for part in finding.unfolded if part.kind == "wrong-value")


def _may_lack_order(finding: Finding) -> bool:
    """Return whether a sync may be the remedy of a race, or a barrier below the first line that of one of tasks."""
    if any(site.is_compiled and site.pipe == "scalar" for site in finding.sites):
        return False
    first = finding.remedies[0] if finding.remedies else ""
    return finding.kind == "race" or (finding.kind == "task-race" and fixes_by(first, Way.BARRIER))


def _keeps_order(log: Log, race: Finding) -> bool:
    """Return whether all tasks run the first line of a race before any runs the second, each time."""
    at = [log.lines.index(line) for line in log.lines for site in race.sites if line[:2] == (site.file, site.line)]
    columns = Columns(log.records)
    records_by_line = [np.flatnonzero(columns["line"] == code) for code in at]
    tasks = [np.bincount(columns["task"][records], minlength=len(log.tasks)) for records in records_by_line]
    max_times = [int(times.max(initial=0)) for times in tasks]
    if len(at) != 2 or not all(
        np.isin(times, (0, number)).all() for times, number in zip(tasks, max_times, strict=True)
    ):
        return False
    iterations = min(max_times)
    if max(max_times) % iterations:
        return False
    first, second = (records[np.argsort(columns["task"][records], kind="stable")] for records in records_by_line)
    end_ps = columns["end_ps"][first].reshape(-1, iterations, max_times[0] // iterations).max(axis=(0, 2))
    starts = columns["start_ps"][second].reshape(-1, iterations, max_times[1] // iterations).min(axis=(0, 2))
    return bool((end_ps <= starts).all())


def _is_write(remedy: str) -> bool:
    return fixes_by(remedy, Way.WRITE)


def _ranked(race: Finding, *, is_right: bool) -> Finding:
    syncs = [remedy for remedy in race.remedies if not fixes_by(remedy, *_NO_SYNC)]
    others = [remedy for remedy in race.remedies if fixes_by(remedy, *_NO_SYNC)]
    if is_right:
        return replace(race, remedies=(*syncs, *others))
    if not others:
        why = "with each operation done before the next, the values are wrong all the same"
        others = [wrong_part(race.fields["buffer"], race.sites, why)]
    return replace(race, remedies=(*others, *syncs))


def _write_ranked(finding: Finding, other: OtherRun) -> Finding:
    """Return a finding with the write first if zeros are right: before all loops if one write is enough."""
    remedies = sorted(finding.remedies, key=lambda remedy: _is_write(remedy) is not other.is_right)
    site, user, log, before_line = finding.sites[0], finding.sites[-1], other.log, finding.fields["before_line"]
    is_one = sum(allocation.name == finding.fields["buffer"] for allocation in log.allocations) <= len(log.tasks)
    if not other.wrong and before_line and is_one and _times(log, user) > 1 and (loop := outermost_loop(site)):
        first = min(before_line, int(loop.rpartition(":")[2]))
        if fixes_by(write := remedies[0], Way.WRITE):
            remedies[0] = write_bytes(f"before {location_of(site.file, first)}", write.of)
    return replace(finding, remedies=tuple(remedies))


def _times(log: Log, site: Site) -> int:
    """Return how often a task runs the line of an operation, at most."""
    columns = Columns(log.records)
    codes = [code for code, line in enumerate(log.lines) if line[:2] == (site.file, site.line)]
    return int(np.bincount(columns["task"][np.isin(columns["line"], codes)], minlength=1).max())

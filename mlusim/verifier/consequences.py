"""What follows from one fault: findings that go under the one that names it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from mlusim.verifier.findings import Finding
from mlusim.verifier.order import BY_OFFSETS

_CAUSES = ("race", "release", "task-race")
# What a value that was never there may do to the run.
_BAD_VALUES = ("race", "task-race", "uninitialised")


def fold_consequences(found: Iterable[Finding]) -> list[Finding]:
    """Put what one fault explains under the finding that names it.

    Whether the one fault is the reason shows when it is mended. Without a cause, findings stay.
    """
    findings = list(found)
    number = 0
    while number < len(findings):
        consequence = findings[number]
        explains = _EXPLAINS.get(consequence.kind, _nothing)
        chosen = next((at for at, one in enumerate(findings) if at != number and explains(one, consequence)), None)
        if chosen is None:
            number += 1
            continue
        cause = findings[chosen]
        findings[chosen] = replace(cause, folded=(*cause.folded, replace(consequence, folded=()), *consequence.folded))
        del findings[number]
    return findings


def _nothing(cause: Finding, consequence: Finding) -> bool:
    del cause, consequence
    return False


def _stop(cause: Finding, stop: Finding) -> bool:
    """Whether a bad value reaches scalar code or an address of the task that an error ended."""
    if cause.kind not in _BAD_VALUES or not cause.sites:
        return False
    reader = cause.sites[-1]
    reads = reader.role != "writes" and (reader.pipe == "scalar" or reader.operation in BY_OFFSETS)
    here = f"{reader.task} (cluster {reader.cluster}, {reader.core})"
    return reads and (cause.times > 1 or stop.place.startswith(here))


def _race(cause: Finding, race: Finding) -> bool:
    """Whether the line that races for a buffer reads bytes of it that nobody has written: it is the wrong part."""
    if cause.kind != "uninitialised" or cause.fields["buffer"] != race.fields["buffer"]:
        return False
    return _lines(replace(cause, sites=cause.sites[:1])) <= _lines(race)


def _task_race(cause: Finding, race: Finding) -> bool:
    """Whether tasks of these clusters wait for a barrier: then some are at another barrier than the others."""
    if cause.kind == "hang":
        return {site.cluster for site in cause.sites}.issuperset(site.cluster for site in race.sites)
    return _race(cause, race)


def _wrong_value(cause: Finding, wrong: Finding) -> bool:
    """Wrong values go under the first missing sync."""
    del wrong
    return cause.kind in _CAUSES


def _uninitialised(cause: Finding, read: Finding) -> bool:
    """Whether bytes that are read belong to an output of which a part is never written."""
    return cause.kind == "never-written" and cause.fields["tensor"] == read.fields["buffer"]


def _never_written(cause: Finding, gap: Finding) -> bool:
    """Whether the same operations write as many bytes twice instead."""
    if cause.kind != "written-again" or cause.fields["tensor"] != gap.fields["tensor"]:
        return False
    return cause.nbytes == gap.nbytes and _lines(cause) == _lines(gap)


def _written_again(cause: Finding, again: Finding) -> bool:
    """Whether the same lines race."""
    races = (cause, *cause.folded) if cause.kind == "task-race" else ()
    return any(_lines(one) == _lines(again) for one in races)


# By kind of a consequence: whether a cause explains it.
_EXPLAINS: dict[str, Callable[[Finding, Finding], bool]] = {
    **dict.fromkeys(("access", "allocation", "copy", "operand", "endless"), _stop),
    "race": _race,
    "task-race": _task_race,
    "wrong-value": _wrong_value,
    "uninitialised": _uninitialised,
    "never-written": _never_written,
    "written-again": _written_again,
}


def _lines(finding: Finding) -> set[tuple[str, int]]:
    return {(site.file, site.line) for site in finding.sites}

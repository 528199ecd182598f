"""Faults that show in two findings: what tells that both have one cause, for their fold and for its remedy."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from mlusim.cores.atomics import ATOMIC_NAMES
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.verifier.accesses.table import COLLECT, SORTING
from mlusim.verifier.findings import PRIVATE, Finding, Site
from mlusim.verifier.order.happens_before import BY_OFFSETS
from mlusim.verifier.races.updates import COUNTER_BYTES
from mlusim.verifier.source_file import SourceLine

CAUSES = ("race", "release", "task-race", "uninitialised")
# A wrong value may stop the run or change its control flow.
BAD_VALUES = ("race", "task-race", "uninitialised")
# In the text of an error that a bad value may raise in the kernel's own code.
_OF_ARITHMETIC = ("ZeroDivisionError", "OverflowError", "float NaN")


def stops(cause: Finding, stop: Finding) -> bool:
    """Return whether a bad value reaches scalar code or an address of the task that the error ended.

    If that is an error of arithmetic, any bad value that the task reads may have reached it.
    """
    if cause.kind in BAD_VALUES and any(error in stop.title for error in _OF_ARITHMETIC):
        return any(stop.location.startswith(site.owner) for finding in cause.unfolded for site in finding.sites)
    return cause.kind in BAD_VALUES and any(
        finding.times > 1 or stop.location.startswith(finding.sites[-1].owner) for finding in misleading(cause)
    )


def misleading(cause: Finding) -> list[Finding]:
    """Return the findings of one fault of which a bad value reaches scalar code or an address."""
    bad_values = (finding for finding in cause.unfolded if finding.kind in BAD_VALUES)
    return [finding for finding in bad_values if finding.sites and gives_a_number(finding.sites[-1])]


def swapped(cause: Finding, consequence: Finding) -> str:
    """Return the copy whose operands are swapped; empty if there is none.

    It reads a buffer of the core, which nothing has written, and replaces bytes that are written elsewhere, too.
    """
    if cause.kind != "uninitialised" or cause.fields["memory"] not in PRIVATE:
        return ""
    if consequence.kind != "written-again" and not (consequence.kind == "task-race" and consequence.writes_twice):
        return ""
    file = cause.sites[0].file
    copies = {SourceLine(file, line) for line in cause.fields["copied_lines"]}
    return next((site.location for site in consequence.sites if site.operation == "memcpy" and site.at in copies), "")


def of_queues(race: Finding) -> bool:
    """Return whether two launches race, on different queues."""
    return race.kind == "task-race" and race.fields["sync"] == "synchronize"


def of_two_launches(cause: Finding, gap: Finding) -> bool:
    """Return whether two launches write one tensor, while nobody writes another of the same size."""
    both_write = of_queues(cause) and cause.writes_twice
    return both_write and not gap.sites and gap.nbytes == cause.nbytes * cause.times


def writes_in_place_of(cause: Finding, other: Finding) -> bool:
    """Return whether a task writes what another one reads, and nobody a second tensor of the same size, or too late."""
    if cause.kind != "task-race" or cause.sites[-1].role != "writes" or cause.writes_twice:
        return False
    unwritten = not other.sites or (other.kind == "uninitialised" and other.fields["buffer"] != cause.fields["buffer"])
    return unwritten and other.fields["of_bytes"] == cause.clues["of_bytes"] > COUNTER_BYTES


def lacks_write(cause: Finding) -> bool:
    """Return whether a core reads a buffer of its own before anything writes any of it."""
    return cause.kind == "uninitialised" and cause.fields["memory"] in PRIVATE and not cause.fields["beside_line"]


def lacks_clear(cause: Finding) -> bool:
    """Return whether atomics read memory of all tasks that nothing has cleared."""
    return cause.kind == "uninitialised" and cause.sites[0].operation in ATOMIC_NAMES


def lacks_load(cause: Finding, rewrite: Finding) -> bool:
    """Return whether a buffer of a core is never filled, and nothing reads a tensor that tasks write again."""
    return lacks_write(cause) and rewrite.kind == "written-again" and not rewrite.clues["is_read"]


def lack_beside_one_line(first: Finding, second: Finding) -> bool:
    """Return whether one line writes beside what is missing in two buffers of a core, and one line reads both."""
    nearby_line = first.fields["beside_line"]
    if not nearby_line or nearby_line != second.fields["beside_line"]:
        return False
    readers = [{read.sites[0].at for read in finding.unfolded} for finding in (first, second)]
    private = first.fields["memory"] == second.fields["memory"] in PRIVATE
    return private and bool(readers[0] & readers[1])


def stopped_at(stop: Finding) -> SourceLine:
    """Return the line of an error that ended the run; line 0 if it is unknown."""
    return SourceLine(stop.fields.get("file", ""), stop.fields.get("line", 0))


def called_at_stop(stop: Finding, finding: Finding) -> bool:
    """Return whether the line of an error that ended the run also ran or called what a finding is about.

    Its index is wrong, out of range at last, and selects the wrong part before that.
    """
    at = stopped_at(stop)
    return (
        stop.kind == "stopped"
        and at.line > 0
        and any(at in (site.at, *site.called_at) for part in finding.unfolded for site in part.sites)
    )


def gives_a_number(reader: Site) -> bool:
    """Return whether an operation passes what it reads to scalar code, or uses it as addresses."""
    instruction = INSTRUCTIONS.get(reader.operation)
    passes = reader.pipe == "scalar" or (instruction is not None and (instruction.to_register or instruction.counts))
    return reader.role != "writes" and (passes or reader.operation in (*BY_OFFSETS, COLLECT, *SORTING))


def wrong_stage(cause: Finding, race: Finding) -> Site | None:
    """Return the racing operation that is called in place of a load or a store; None if there is none.

    Several lines call it, and nothing stores an output, or loads the buffer that it reads.
    """
    lacks_store = cause.kind == "never-written" and not cause.sites
    if race.kind != "race" or not (lacks_store or lacks_write(cause)):
        return None
    stages = (site for site in race.sites if len(site.called_at) > 1)
    return next((site for site in stages if lacks_store or site.at == cause.sites[0].at), None)


def same_wrong_part(cause: Finding, other: Finding) -> bool:
    """Return whether the tasks of a race have the wrong number of another finding, too: both lack the same part."""
    if not (cause.kind == "task-race" and cause.writes_twice and missing_share(cause) == missing_share(other)):
        return False
    if not missing_share(cause):
        # Tasks do the same work: they write as much of another tensor or part again, in the same function.
        return other.kind == "task-race" and other.writes_twice and _does(cause) == _does(other)
    if other.kind == "never-written":
        return bool(other.lines) and other.lines == cause.lines
    return other.kind == "task-race" and other.writes_twice and _distance(cause) == _distance(other) != 0


def _does(race: Finding) -> tuple[Any, ...]:
    """Return which tasks write twice in which function, and how often."""
    first = race.sites[0]
    return {site.owner for site in race.sites}, first.file, first.function, race.times, len(race.lines), len(race.sites)


def missing_share(finding: Finding) -> Fraction:
    """Return the share of an output that is never written, also by a finding that is folded into the given one."""
    gap = next((part for part in finding.unfolded if part.kind == "never-written"), None)
    return Fraction(0) if gap is None else Fraction(gap.nbytes, gap.fields["of_bytes"])


def _distance(race: Finding) -> int:
    """Return the difference between the numbers of the two tasks of a race; 0 if a memory core is one of them."""
    numbers = [int(site.task.removeprefix("task ")) for site in race.sites if site.task != "memory core"]
    return abs(numbers[0] - numbers[-1]) if len(numbers) == len(race.sites) else 0

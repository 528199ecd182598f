"""Causes: whether a finding is the cause of another, by a rule for each kind of consequence."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from mlusim.verifier.consequences.one_fault import (
    called_at_stop,
    gives_a_number,
    lack_beside_one_line,
    lacks_load,
    lacks_write,
    missing_share,
    of_queues,
    of_two_launches,
    stopped_at,
    swapped,
    writes_in_place_of,
    wrong_stage,
)
from mlusim.verifier.findings import PRIVATE, Finding, outermost_loop
from mlusim.verifier.races.atomic_remedies import counted
from mlusim.verifier.races.updates import COUNTER_BYTES
from mlusim.verifier.source_file import SourceLine

_CAUSES = ("race", "release", "task-race", "uninitialised")
# A wrong value may stop the run or change its control flow.
_BAD_VALUES = ("race", "task-race", "uninitialised")
# In the text of an error that a bad value may raise in the kernel's own code.
_OF_ARITHMETIC = ("ZeroDivisionError", "OverflowError", "float NaN")
_STOPS = ("access", "allocation", "copy", "operand", "endless", "stopped")
# What a kernel may do because its plan is wrong, races of its stores aside.
_OF_PLAN = (*_STOPS, "never-written", "written-again", "wrong-value")


def explains(cause: Finding, consequence: Finding) -> bool:
    """Return whether one finding is the cause of another: by the rule of its kind, or because of what comes first.

    That is a wrong plan, or an operation that was not awaited, and did not run.
    """
    rule = _RULES.get(consequence.kind)
    lacks = cause.kind == "await" and consequence.kind in _BAD_VALUES
    return lacks or (rule is not None and rule(cause, consequence)) or _of_plan(cause, consequence)


def has_wrong_part(cause: Finding, race: Finding) -> bool:
    """Return whether a racing line reads the uninitialised bytes of a buffer, or writes beside them."""
    return cause.kind == "uninitialised" and _race(cause, race)


def _of_plan(cause: Finding, consequence: Finding) -> bool:
    """Return whether a wrong plan may cause it: wrong, missing or repeated stores, a buffer that does not fit."""
    if cause.kind != "bad-plan":
        return False
    return consequence.kind in _OF_PLAN or (consequence.kind == "task-race" and consequence.writes_twice)


def _stop(cause: Finding, stop: Finding) -> bool:
    """Return whether a bad value reaches scalar code or an address of the task that the error ended.

    If that is an error of arithmetic, any bad value that the task reads may have reached it.
    """
    if cause.kind in _BAD_VALUES and any(error in stop.title for error in _OF_ARITHMETIC):
        return any(stop.location.startswith(site.owner) for finding in cause.unfolded for site in finding.sites)
    return cause.kind in _BAD_VALUES and any(
        finding.times > 1 or stop.location.startswith(finding.sites[-1].owner) for finding in _misleading(cause)
    )


def _misleading(cause: Finding) -> list[Finding]:
    """Return the findings of one fault of which a bad value reaches scalar code or an address."""
    bad = (finding for finding in cause.unfolded if finding.kind in _BAD_VALUES)
    return [finding for finding in bad if finding.sites and gives_a_number(finding.sites[-1])]


def _race(cause: Finding, race: Finding) -> bool:
    """Return whether a racing line reads uninitialised bytes of the buffer, writes beside them, or leaves it.

    Its part is wrong.
    """
    if wrong_stage(cause, race) or (called_at_stop(cause, race) and not _stop(race, cause)):
        return True
    if cause.kind == "access":
        at = stopped_at(cause)
        if race.writes_twice and len(race.lines) == 1:
            # The part that a line stores is wrong in other tasks, too.
            return race.lines == {at} or race.kind == "task-race"
        return at in race.lines
    if cause.kind != "uninitialised" or race.kind not in ("race", "task-race") or of_queues(race):
        return False
    reader = cause.sites[0].at
    if race.kind == "race" and not race.writes_twice and race.fields["buffer"] == cause.fields["buffer"]:
        # The line that writes the buffer beside the bytes that are read.
        beside = SourceLine(reader.file, cause.fields["beside_line"])
        if any(beside in finding.lines for finding in race.unfolded):
            return True
    return any(
        (finding.fields.get("buffer") == cause.fields["buffer"] or race.fields.get("wrong_index"))
        and reader in finding.lines
        for finding in race.unfolded
    )


def _release(cause: Finding, release: Finding) -> bool:
    """Return whether the transfer races with a use of its buffer, or of one that reuses the memory.

    A copy that comes too early, and is not waited for, should block.
    """
    released = release.sites[0]
    return any(
        (site.location, site.operation, site.role) == (released.location, released.operation, released.role)
        for race in cause.unfolded
        if race.kind == "race" and (race.fields["buffer"] == release.fields["buffer"] or "reused_by" in race.fields)
        for site in (race.sites if released.operation == "memcpy" else race.sites[:1])
    )


def _task_race(cause: Finding, race: Finding) -> bool:
    """Return whether tasks hang at a barrier, or do the same twice since a number that they load races.

    Where tasks of these clusters hang, tasks are at different barriers. Stores of one line that leave their tensor
    meet for the same reason.
    """
    if cause.kind == "hang" or _out_of_step(cause, race) or swapped(cause, race):
        return True
    if cause.kind == "endless":
        # The tasks do the same again and again.
        return race.writes_twice and len(race.lines) == 1
    if counted(cause, race):
        return True
    if cause.kind in _BAD_VALUES and race.writes_twice and len(race.lines) == 1:
        small = cause.kind == "task-race" and cause.nbytes <= COUNTER_BYTES
        counts = any(gives_a_number(site) or (small and site.role == "reads") for site in cause.sites)
        if counts and race.fields["buffer"] != cause.fields["buffer"]:
            return True
    return _race(cause, race)


def _out_of_step(cause: Finding, race: Finding) -> bool:
    """Return whether a lock was not acquired, or a barrier not passed, or an atomic left its tensor.

    Or the task goes by an uninitialised number.
    """
    if cause.kind == "operand":
        return bool(cause.fields["operation"] == "unlock")
    if cause.kind == "access":
        return "atomic_" in cause.location
    if cause.kind == "stopped":
        return str(cause.fields.get("operation")).startswith("sync_")
    reads = cause.kind == "uninitialised" and not race.writes_twice and gives_a_number(cause.sites[0])
    return reads and (cause.times > 1 or cause.sites[0].owner == race.sites[-1].owner)


def _wrong_value(cause: Finding, wrong: Finding) -> bool:
    """Fold wrong values into the first bad value, and those that are not written, or written again, into that."""
    if cause.kind == "swallowed":
        return True
    if any(finding.kind in _CAUSES for finding in cause.unfolded):
        return not _is_made_elsewhere(cause, wrong)
    if cause.kind == "wrong-value":
        # Outputs that nothing writes lack the same store; others may have been computed by the same line or loop.
        if not (cause.sites and wrong.sites):
            return not cause.sites and not wrong.sites
        return bool({*cause.fields["through"]} & {*wrong.fields["through"]}) or _in_one_loop(cause, wrong)
    structural = [finding for finding in cause.unfolded if finding.kind in ("never-written", "written-again")]
    wrongly = [finding for finding in structural if finding.fields["tensor"] == wrong.fields["tensor"]]
    if len(wrongly) < len(structural):
        # What tasks exchange through the other tensor is wrong.
        return True
    if any(finding.fields.get("repeats") for finding in wrongly):
        # What tasks exchange, or keep from one iteration to the next, is wrong, too.
        return True
    writer = {site.at for site in wrong.sites[:1]}
    return wrong.nbytes <= sum(finding.nbytes for finding in wrongly) and any(
        writer <= finding.lines for finding in wrongly if finding.kind == "written-again" or not writer
    )


def _is_made_elsewhere(cause: Finding, wrong: Finding) -> bool:
    """Return whether all operations that made a wrong value are known, and no bad value reaches one of them.

    A bad value may be the address or the size of an operation, or that of an iteration which does not run. And a buffer
    that is released may share its memory with any other.
    """
    bad = [finding for finding in cause.unfolded if finding.kind in _CAUSES]
    if any(finding.kind == "release" or "reused_by" in finding.fields for finding in bad):
        return False
    if any(gives_a_number(site) for finding in bad for site in finding.sites):
        return False
    made_by = wrong.fields["made_by"]
    return bool(made_by) and not any(line.location in made_by for finding in bad for line in finding.lines)


def _in_one_loop(first: Finding, second: Finding) -> bool:
    """Return whether the first lines of two findings are in one loop, whose turns or numbers may be wrong."""
    loop = outermost_loop(first.sites[0])
    return bool(loop) and loop == outermost_loop(second.sites[0])


def _unread(cause: Finding, unread: Finding) -> bool:
    """Return whether an operation whose result nothing reads comes too late, or lacks its reader or its store.

    It races, or makes what is missing: in a wrong value, in a buffer of the core that nothing writes or that is stored
    in its place, or in an output.
    """
    if cause.kind == "never-written":
        return not cause.sites or _in_one_loop(cause, unread)
    if cause.kind == "wrong-value":
        return True
    is_stored = (
        cause.kind == "uninitialised" and cause.fields["memory"] in PRIVATE and cause.sites[0].operation == "memcpy"
    )
    if lacks_write(cause) or (is_stored and _in_one_loop(cause, unread)):
        return unread.times > 1 or unread.sites[0].owner == cause.sites[0].owner
    same = [part for part in cause.unfolded if part.fields.get("buffer") == unread.fields["buffer"]]
    if cause.kind in ("uninitialised", "task-race") or any(part.fields.get("replaces_unread") for part in same):
        # The part of the buffer is wrong.
        return bool(same)
    races = (race for race in same if race.kind == "race")
    return any(unread.sites[0].at in race.lines and unread.sites[0].operation != "memcpy" for race in races)


def _unused(cause: Finding, unused: Finding) -> bool:
    """Return whether an input that no operation reads is missing in a wrong value, or in a buffer of a core."""
    return bool(unused.fields["is_input"]) and (cause.kind == "wrong-value" or lacks_write(cause))


def _lookup(cause: Finding, lookup: Finding) -> bool:
    """Return whether the lookup itself reads bytes that race: then its indices may be any."""
    if cause.kind not in ("race", "task-race"):
        return False
    reader, site = cause.sites[-1], lookup.sites[0]
    return (reader.role, reader.location, reader.operation) == ("reads", site.location, site.operation)


def _uninitialised(cause: Finding, read: Finding) -> bool:
    """Return whether a part of the output read is never written, or two tasks write other bytes in their place.

    Buffers that lack the same part lack the same iteration of a loop. A line that reads too much of its buffer, and
    then leaves it or its tensor, has a wrong size.
    """
    buffer = read.fields["buffer"]
    if cause.kind == "swallowed" or (read.fields["memory"] == "gdram" and writes_in_place_of(cause, read)):
        return True
    if cause.kind == "uninitialised":
        # Buffers that change places lack the same load: other executions of one line read all of them.
        of_all = all(finding.nbytes == finding.fields["of_bytes"] for finding in (cause, read))
        in_turn = of_all and [site.at for site in cause.sites] == [site.at for site in read.sites]
        if (in_turn and cause.sites[0].record != read.sites[0].record) or lack_beside_one_line(cause, read):
            return True
        return read.nbytes < read.fields["of_bytes"] and _share(cause) == _share(read)
    if cause.kind == "access":
        # A line that leaves a tensor of all tasks also writes other parts of it than it should.
        shared = read.fields["memory"] not in PRIVATE and cause.fields.get("buffer") == buffer
        at = stopped_at(cause)
        # An iteration that should not run may read what nothing writes, before it leaves a tensor.
        extra = cause.location.startswith(read.sites[0].owner) and not _stop(read, cause)
        return shared or read.sites[0].at == at or extra
    if cause.kind == "hang":
        return read.fields["memory"] not in PRIVATE
    if cause.kind == "race" and cause.fields["replaces_unread"] and read.sites[0].at in cause.lines:
        # Its operands are swapped.
        return True
    if of_queues(cause) and cause.fields["buffer"] == buffer:
        return any(read.sites[0].at in race.lines for race in cause.unfolded)
    if cause.kind in ("race", "task-race") and cause.writes_twice:
        if cause.fields["buffer"] == buffer:
            return cause.kind == "task-race" or cause.nbytes == read.nbytes
        # A copy that is too long is so at both ends.
        return cause.nbytes == read.nbytes and read.sites[0].at in cause.lines
    # The store of an iteration that is skipped reads what that should compute.
    if cause.kind != "never-written" or _races(read):
        return False
    return read.sites[0].at in cause.lines or cause.fields["tensor"] == buffer


def _races(read: Finding) -> bool:
    """Return whether tasks race on the tensor that one reads: they exchange a part of it, and another is written."""
    return any(race.kind == "task-race" and race.fields["buffer"] == read.fields["buffer"] for race in read.folded)


def _never_written(cause: Finding, gap: Finding) -> bool:
    """Return whether the same line writes other bytes twice instead, or another output twice in place of this one.

    An operation whose error the kernel caught does not happen, nor may one whose bound or address is a bad value.
    Outputs that lack the same part lack the same iteration of a loop.
    """
    if cause.kind == "swallowed" or _misleading(cause):
        return True
    if cause.kind == "never-written":
        # Nothing writes either, or as much is missing of both.
        return not (gap.sites or cause.sites) or (bool(gap.sites and cause.sites) and _share(cause) == _share(gap))
    if of_two_launches(cause, gap) or writes_in_place_of(cause, gap):
        return True
    if cause.kind == "uninitialised":
        findings = cause.unfolded if _races(cause) else cause.folded
        reads = (finding for finding in findings if finding.kind == "uninitialised")
        return any(read.fields["buffer"] == gap.fields["tensor"] for read in reads)
    if cause.kind == "task-race" and cause.writes_twice and missing_share(cause) and not gap.sites:
        # Tasks have a wrong number, and none has that of the one that stores it.
        return True
    # A racing line may write as many bytes of the tensor as are missing.
    if cause.kind == "task-race" and (cause.fields["buffer"], cause.nbytes * cause.times) == (
        gap.fields["tensor"],
        gap.nbytes,
    ):
        return True
    instead = cause.kind == "written-again" or (cause.kind == "task-race" and cause.writes_twice)
    if cause.kind == "written-again" and cause.fields["tensor"] != gap.fields["tensor"]:
        return not gap.sites and gap.nbytes == cause.nbytes and len(cause.lines) > 1
    tensor = cause.fields.get("tensor", cause.fields.get("buffer"))
    same = gap.lines == cause.lines or (
        gap.lines < cause.lines and (cause.kind == "task-race" or gap.nbytes == cause.nbytes)
    )
    # Of the stores of one line that meet, some may be those that are missing.
    same |= cause.kind == "task-race" and len(cause.lines) == 1 and gap.nbytes <= cause.nbytes * cause.times
    return instead and tensor == gap.fields["tensor"] and bool(gap.lines) and same


def _not_planned(cause: Finding, deviation: Finding) -> bool:
    """Return whether the line that writes another task's bytes also races with that task, or writes them again."""
    return cause.kind in ("task-race", "written-again") and cause.writes_twice and deviation.lines <= cause.lines


def _share(gap: Finding) -> tuple[Fraction, ...]:
    """Return where in its tensor a gap begins and ends, and its size."""
    first, end, nbytes = (gap.fields[name] for name in ("first_byte", "end_byte", "of_bytes"))
    return Fraction(first, nbytes), Fraction(end, nbytes), Fraction(gap.nbytes, nbytes)


def _written_again(cause: Finding, again: Finding) -> bool:
    """Return whether the second writer races on the same tensor, or the same lines race on another, or write it again.

    Without the race, it might read what it replaces.
    """
    if _misleading(cause):
        return True
    if cause.kind == "written-again":
        return cause.lines == again.lines or _in_one_loop(cause, again)
    if cause.kind == "uninitialised":
        # The load of what is replaced is missing.
        at_once = cause.sites[0].at in again.lines
        return (
            at_once
            or bool(swapped(cause, again))
            or {site.at for site in cause.sites[1:]} == again.lines
            or SourceLine(cause.sites[0].file, cause.fields["beside_line"]) in again.lines
            or lacks_load(cause, again)
        )
    if cause.kind == "race":
        # A wrong index selects what is stored again.
        return again.lines <= cause.lines
    races = cause.unfolded if cause.kind == "task-race" else ()
    writer = again.sites[-1].at
    return any(
        (race.fields.get("buffer") == again.fields["tensor"] and writer in race.lines)
        or (race.writes_twice and race.lines == again.lines)
        for race in races
    )


def _memory_core(cause: Finding, passed: Finding) -> bool:
    """Return whether a memory core passes a barrier of the cores in place of the one that would order a race."""
    if cause.kind != "task-race":
        return False
    barrier, _ = cause.fields["barrier_of_cores"]
    return bool(barrier) and passed.sites[0].operation.removeprefix("__") == barrier != cause.fields["sync"]


def _unawaited(cause: Finding, copies: Finding) -> bool:
    """Return whether copies that their task never waits for race: one sync would wait for both reasons."""
    races = (race for race in cause.unfolded if race.kind == "race")
    return copies.lines <= {site.at for race in races for site in race.sites if site.operation == "memcpy"}


def _unselected(cause: Finding, unselected: Finding) -> bool:
    """Return whether the line that stores more than a filter selected writes its tensor again."""
    return cause.kind == "written-again" and unselected.sites[0].at in cause.lines


# By kind of consequence, a predicate: whether a cause explains it.
_RULES: dict[str, Callable[[Finding, Finding], bool]] = {
    **dict.fromkeys(_STOPS, _stop),
    "race": _race,
    "release": _release,
    "task-race": _task_race,
    "wrong-value": _wrong_value,
    "lookup": _lookup,
    "uninitialised": _uninitialised,
    "never-written": _never_written,
    "written-again": _written_again,
    "not-planned": _not_planned,
    "memory-core": _memory_core,
    "unselected": _unselected,
    "unawaited": _unawaited,
    "unread": _unread,
    "unused": _unused,
}

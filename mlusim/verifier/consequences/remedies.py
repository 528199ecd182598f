"""The remedies of a finding that others are folded into: what follows from a fault may tell what mends it."""

from __future__ import annotations

import re
from collections.abc import Callable

from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.verifier.consequences.causes import has_wrong_part
from mlusim.verifier.consequences.one_fault import (
    lacks_load,
    of_two_launches,
    stopped_at,
    swapped,
    writes_in_place_of,
    wrong_stage,
)
from mlusim.verifier.findings import (
    IN_PLACE,
    SAME_BYTES,
    WRONG_OPERANDS,
    Finding,
    Site,
    dividing_loop,
    in_one_function,
    wrong_part,
)
from mlusim.verifier.races.atomic_remedies import counted
from mlusim.verifier.races.lane_syncs import blocking_copy
from mlusim.verifier.source_file import SourceLine, location_of, locations_of, source_file

# The number of a lock, where Python releases it.
_RELEASED = re.compile(r"\.unlock\((.+)\)")


def remedies_with(cause: Finding, consequence: Finding) -> tuple[str, ...]:
    """Return the remedies of a cause, which its consequence may make more precise."""
    rules = _RULES.get(consequence.kind, ())
    return next((given for rule in rules if (given := rule(cause, consequence)) is not None), cause.remedies)


def _released_buffer(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """A buffer is released while the copy of a race uses it: the copy should block."""
    if "wait for the copy" in cause.remedy:
        return None
    sync, *others = cause.remedies
    return blocking_copy(consequence.sites[0]), f"{sync}, and {consequence.remedy}", *others


def _unawaited_copy(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """The task reuses what its copy reads, and never waits for that copy: it should block."""
    copy = cause.sites[0]
    if copy.role == "writes" or consequence.lines != {copy.at} or "wait for the copy" in cause.remedies[0]:
        return None
    return blocking_copy(copy), *cause.remedies


def _wrong_stage(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """Several lines call one stage, and no line the load or the store that is missing."""
    stage = wrong_stage(cause, consequence)
    if stage is None:
        return None
    calls = " and ".join(call.location for call in stage.called_at)
    lacks = f"loads {cause.fields['buffer']}" if cause.kind == "uninitialised" else f"stores {cause.fields['tensor']}"
    return f"correct the call at {calls}: they all run {stage.location}, and nothing {lacks}", *cause.remedies


def _wrong_part(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """The line that should write uninitialised bytes of a buffer writes others of it."""
    by = next((site for site in consequence.sites if site.role == "writes"), None)
    if by is None or not has_wrong_part(cause, consequence):
        return None
    buffer = cause.fields["buffer"]
    others = (remedy for remedy in cause.remedies if not remedy.startswith(wrong_part(buffer, ())))
    return wrong_part(buffer, (by, cause.sites[0])), *others


def _barrier(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """Some cores wait in a barrier that others, which race, never reach."""
    sync, late, where = (consequence.fields["sync"], consequence.sites[-1], consequence.fields["where"])
    barriers = cause.fields.get("barriers", ())
    if barriers == ["sync_all"]:
        # The wider one orders them, too.
        sync = "sync_all"
    who = "memory cores" if late.task == "memory core" else "cores"
    at_end = where.startswith("at the end of the loop") and sync in barriers
    if at_end or consequence.fields["passed"] != 0:
        return (f"{late.call(f'{sync}()')} in the {who}, {where}", *cause.remedies) if at_end else None
    if sync not in barriers:
        return None
    if skipped := _skipped(cause, sync, late):
        return f"let all {who} reach the barrier {skipped}", *cause.remedies
    first, source = consequence.sites[0], source_file(late.file)
    loops = source.loops_around(late.line)
    begin, end = min(loops, default=(0, 0))
    waits = _waits_for(cause, sync, late)
    passed = any(site.operation == sync and begin <= site.line <= end for site in cause.sites if site is not waits)
    one_each = waits is not None and len(loops) == len(source_file(waits.file).loops_around(waits.line)) == 1
    alike = (first.task == "memory core") == (late.task == "memory core") and first.line < late.line
    all_pass = source.line_passed_by_all(first.line, late.line) if first.file == late.file else late.line
    if alike and source.loop_around(first.line, late.line)[0]:
        where = f"before {location_of(late.file, all_pass)}"
    elif one_each and not passed and not alike:
        # The others reach it in each iteration of their loop.
        where = f"at the beginning of the loop at {location_of(late.file, begin)}"
    else:
        before = min(begin or late.line, all_pass)
        where = f"once before {'the loop at ' if before == begin else ''}{location_of(late.file, before)}"
    return f"{late.call(f'{sync}()')} in the {who}, {where}", *cause.remedies


def _wrong_index(cause: Finding, _: Finding) -> tuple[str, ...] | None:
    """An index selects a wrong part, until it is out of range and ends the run."""
    if cause.kind != "stopped" or cause.remedies:
        return None
    return (f"correct the index at {stopped_at(cause).location}: before it is out of range, it selects a wrong part",)


def _swapped(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """A copy reads what nothing has written, and replaces what others write."""
    at = swapped(cause, consequence)
    if not at:
        return None
    what = consequence.fields.get("tensor", consequence.fields.get("buffer"))
    why = f"it reads {cause.fields['buffer']}, which nothing has written, and replaces {what}"
    return f"swap the source and the destination of {at}: {why}", *cause.remedies


def _race_of_tasks(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """Tasks race because a lock is missing, or an atomic, or because of something that has no remedy of its own."""
    if atomic := counted(cause, consequence):
        return atomic, *cause.remedies
    if cause.fields.get("lock") is not None:
        return _missing_lock(cause, consequence)
    return consequence.remedies if not cause.remedies and cause.kind != "stopped" else None


def _unread(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """Nothing reads the result of an operation: its store is missing, or it comes too late."""
    late, buffer = consequence.sites[0], consequence.fields["buffer"]
    replaced_at = consequence.fields["replaced_at"]
    if cause.kind == "task-race" or cause.remedy.startswith(
        (wrong_part(buffer, ()), f"{WRONG_OPERANDS} {replaced_at}:")
    ):
        return None
    if cause.kind == "wrong-value" and any(words in cause.remedies[0] for words in (SAME_BYTES, IN_PLACE)):
        return None
    if cause.kind == "race":
        order = f"let what uses {buffer} come after {late.location}: nothing reads what it writes"
        return order, *cause.remedies
    read_at = cause.fields["read_at"].get(buffer, "") if cause.kind == "wrong-value" else ""
    # A line above has read the buffer before.
    if read_at and int(read_at.rpartition(":")[2]) >= late.line:
        where = f"{read_at} or {late.location}"
        part = f"correct the part of {buffer} at {where}: nothing reads what {late.operation} writes there"
        return part, *cause.remedies
    if cause.kind != "never-written":
        nothing = f"nothing reads what {late.operation} writes to {buffer} at {late.location}"
        if replaced_at:
            used = f"correct the destination at {replaced_at} or {late.location}: {nothing}"
        elif cause.kind == "uninitialised":
            lacks, before = cause.fields["buffer"], cause.sites[0].location
            used = f"make {lacks} from {buffer} before {before}, or read {buffer} there: {nothing}"
        else:
            used = f"read {buffer}, or correct the destination at {late.location}: nothing reads what it writes"
        return used, *cause.remedies
    made = f"store {buffer} to {cause.fields['tensor']}"
    store = f"{made}: nothing reads what {late.operation} writes there at {late.location}"
    # The correction of a call comes first.
    return tuple(sorted((store, *cause.remedies), key=lambda remedy: not remedy.startswith("correct the call")))


def _written_again(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """A store goes to a wrong place, or the load of what it replaces is missing."""
    if _at_a_wrong_place(cause, consequence):
        part = wrong_part(consequence.fields["tensor"], consequence.sites, "it is written again, and not read before")
        return part, *cause.remedies
    return _load(cause, consequence.fields["tensor"]) if lacks_load(cause, consequence) else None


def _unused(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """An input that nothing reads is missing."""
    name = consequence.fields["buffer"]
    return (f"read {name}: no operation does", *cause.remedies) if cause.kind == "wrong-value" else _load(cause, name)


def _load(cause: Finding, tensor: str) -> tuple[str, ...]:
    into = f"into {cause.fields['buffer']} before {cause.sites[0].location}"
    return f"load {tensor}, which nothing reads, {into}", *cause.remedies


def _wrong_value(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """A tensor is written again and not read, and another one is wrong."""
    if cause.kind != "written-again" or cause.fields["is_read"]:
        return None
    tensor = cause.fields["tensor"]
    if tensor == consequence.fields["tensor"]:
        if not cause.fields["is_partial"] or any(finding.kind == "unselected" for finding in cause.folded):
            return None
        return wrong_part(tensor, cause.sites, "it replaces what was written there before"), *cause.remedies
    if any(finding.kind == "wrong-value" and finding.fields["tensor"] == tensor for finding in cause.folded):
        return None
    return f"read {tensor} after it is written at {locations_of(cause.lines)}: nothing reads it", *cause.remedies


def _never_written(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """A launch gets the tensor of another one, or a line writes the wrong part of its tensor."""
    unwritten = consequence.fields["tensor"]
    if of_two_launches(cause, consequence):
        return f"pass {unwritten}, which is never written, to one of the two launches", *cause.remedies
    elsewhere = cause.fields.get("buffer") != unwritten
    if cause.kind not in ("written-again", "task-race") or (
        cause.kind == "task-race" and elsewhere and not consequence.sites
    ):
        return None
    part = wrong_part(unwritten, (site for site in cause.sites if site.role == "writes"))
    loop = dividing_loop(cause.sites[0]) if len(cause.lines) == 1 else ""
    gives = f"; the loop at {loop} gives each task its part" if loop and cause.kind == "task-race" else ""
    return f"{part}: other bytes of it are never written{gives}", *cause.remedies


def _in_place_of(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """A task writes what another one reads, and nobody writes a second tensor of the same size."""
    if not writes_in_place_of(cause, consequence):
        return None
    tensor = consequence.fields.get("tensor", consequence.fields.get("buffer"))
    launch = f", or pass it to the launch at {at}" if (at := cause.fields["launched_at"]) else ""
    place = f"in place of {cause.fields['buffer']} at {cause.sites[-1].location}"
    return f"write {tensor}, which is never written, {place}{launch}", *cause.remedies


def _barrier_of_cores(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """A memory core passes a barrier of the MLU cores, with which it races."""
    passed, (barrier, at) = consequence.sites[0], cause.fields["barrier_of_cores"]
    places = " and ".join(dict.fromkeys((passed.location, at)))
    sync = f"{cause.fields['sync']}()"
    return f"{passed.call(sync)} in place of {passed.call(f'{barrier}()')} at {places}", *cause.remedies


def _unselected(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """A line stores more elements than a filter selected."""
    return f"{consequence.remedy}, at {consequence.sites[0].location}", *cause.remedies


def _read_elsewhere(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """Tasks write the same bytes of a buffer, and others of it are read and never written."""
    if cause.kind != "task-race" or not cause.writes_twice:
        return None
    buffer = cause.fields["buffer"]
    if consequence.fields["buffer"] != buffer or consequence.fields["memory"] != "sram":
        # Of an output, other bytes are never written.
        return None
    return wrong_part(buffer, cause.sites, "other bytes of it are read, and never written"), *cause.remedies


# By kind of consequence, rules of which the first that applies decides; a rule that does not apply returns None.
_RULES: dict[str, tuple[Callable[[Finding, Finding], tuple[str, ...] | None], ...]] = {
    "release": (_released_buffer,),
    "race": (_wrong_stage, _wrong_part, _wrong_index),
    "task-race": (_wrong_part, _barrier, _swapped, _race_of_tasks),
    "uninitialised": (_wrong_index, _in_place_of, _read_elsewhere),
    "written-again": (_swapped, _written_again),
    "wrong-value": (_wrong_value,),
    "never-written": (_in_place_of, _never_written),
    "unread": (_unread,),
    "unused": (_unused,),
    "memory-core": (_barrier_of_cores,),
    "unselected": (_unselected,),
    "unawaited": (_unawaited_copy,),
}


def _missing_lock(unlock: Finding, race: Finding) -> tuple[str, ...]:
    """Return the remedies of an unlock without a lock, behind an update that races: only the lock is missing."""
    sites = [site for part in (*unlock.folded, race) for site in part.sites if part.kind == "task-race"]
    first = min(sites, key=lambda site: site.line)
    last = SourceLine(unlock.fields["file"], unlock.fields["line"])
    number = _RELEASED.search(last.source)
    lock = first.call(f"lock({number[1] if number and not last.is_compiled else unlock.fields['lock']})")
    return f"{lock} in every task, before {first.location}", *race.remedies[1:]


def _waits_for(hang: Finding, sync: str, late: Site) -> Site | None:
    """Return where tasks of the other kind, in the function of a racing line, wait for its task; None if nowhere."""
    for site in hang.sites:
        other_kind = (site.task == "memory core") != (late.task == "memory core")
        if other_kind and (site.role, site.operation, site.file) == ("waits", sync, late.file):
            return site if site.function == late.function else None
    return None


def _skipped(hang: Finding, sync: str, late: Site) -> str:
    """Return where the barrier is that some cores wait in and others skip, before a racing line; empty if nowhere."""
    alike = [site for site in hang.sites if (site.task == "memory core") == (late.task == "memory core")]
    waits = next((site for site in alike if site.role == "waits" and site.operation == sync), None)
    if waits is None or all(site.role != "last" for site in alike):
        return ""
    barrier, line = in_one_function(waits, late)
    if barrier.file != line.file or barrier.line >= line.line:
        return ""
    return f"at {barrier.location} before {line.location}"


def _at_a_wrong_place(race: Finding, again: Finding) -> bool:
    """Return whether a barrier would not mend a race: one line writes the same bytes in several tasks, unread."""
    if race.kind != "task-race" or race.writes_twice or race.fields["sync"] not in BARRIERS:
        return False
    twice = (part for part in race.unfolded if part.kind == "task-race" and part.writes_twice and len(part.lines) == 1)
    return any(part.lines <= again.lines for part in twice)

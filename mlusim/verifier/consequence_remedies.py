"""The remedies of a finding that others are folded into: what follows from a fault may tell what mends it."""

from __future__ import annotations

from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.verifier.findings import Finding, Site, in_one_function, outermost_loop
from mlusim.verifier.one_fault import exchanged, lacks_load, of_two_launches, stopped_at, wrong_in_order, wrong_stage
from mlusim.verifier.races.lane_syncs import blocking_copy
from mlusim.verifier.source_file import SourceLine, location_of, source_file


def remedies_with(cause: Finding, consequence: Finding, *, wrong_part: bool) -> tuple[str, ...]:
    """Return the remedies of a cause, which its consequence may make more precise.

    `wrong_part`: whether a racing line reads uninitialised bytes, or writes beside them.
    """
    by = next((site for site in consequence.sites if site.role == "writes"), None)
    if consequence.kind == "release" and "wait for the copy" not in cause.remedy:
        copy = consequence.sites[0]
        sync, *others = cause.remedies
        return blocking_copy(copy), f"{sync}, and {consequence.remedy}", *others
    if (stage := wrong_stage(cause, consequence)) is not None:
        calls = " and ".join(call.location for call in stage.called_at)
        lacks = (
            f"loads {cause.fields['buffer']}" if cause.kind == "uninitialised" else f"stores {cause.fields['tensor']}"
        )
        return f"correct the call at {calls}: they all run {stage.location}, and nothing {lacks}", *cause.remedies
    if wrong_part and by is not None:
        # The line that should write these bytes writes others of the buffer.
        where = dict.fromkeys((by.location, cause.sites[0].location))
        part = f"correct the part of {cause.fields['buffer']} at"
        return f"{part} {' or '.join(where)}", *(one for one in cause.remedies if not one.startswith(part))
    if cause.kind == "hang" and consequence.kind == "task-race" and consequence.fields["passed"] == 0:
        sync, late = consequence.fields["sync"], consequence.sites[-1]
        more_precise = any(one in cause.remedy for one in ("once before", "reach the barrier", "at the beginning"))
        if sync in cause.fields.get("barriers", ()) and not more_precise:
            who = "memory cores" if late.task == "memory core" else "cores"
            if skipped := _skipped(cause, sync, late):
                return f"let all {who} reach the barrier {skipped}", *cause.remedies
            loops = source_file(late.file).loops_around(late.line)
            begin = min((loop[0] for loop in loops), default=0)
            waits = _waits_for(cause, sync, late)
            if waits is not None and len(loops) == len(source_file(waits.file).loops_around(waits.line)) == 1:
                # The others reach it in each iteration of their loop.
                in_loop = f"at the beginning of the loop at {location_of(late.file, begin)}"
                return f"{late.call(f'{sync}()')} in the {who}, {in_loop}", *cause.remedies
            first = f"the loop at {location_of(late.file, begin)}" if begin else late.location
            barrier = f"{late.call(f'{sync}()')} in the {who}, once before {first}"
            return barrier, *cause.remedies
    if cause.kind == "stopped" and consequence.kind in ("race", "uninitialised") and not cause.remedies:
        return (
            f"correct the index at {stopped_at(cause).location}: before it is out of range, it selects a wrong part",
        )
    if wrong_in_order(cause, consequence) and not cause.remedy.startswith("correct the "):
        lines = " or ".join(dict.fromkeys(site.location for site in cause.sites))
        why = "they came in this order in the run, and the values are wrong all the same"
        return f"correct the part of {cause.fields['buffer']} at {lines}: {why}", *cause.remedies
    if (at := exchanged(cause, consequence)) and "exchange " not in cause.remedy:
        what = consequence.fields.get("tensor", consequence.fields.get("buffer"))
        why = f"it reads {cause.fields['buffer']}, which nothing has written, and replaces {what}"
        return f"exchange the source and the destination of {at}: {why}", *cause.remedies
    if consequence.kind == "task-race" and cause.fields.get("lock") is not None:
        return _missing_lock(cause, consequence)
    if consequence.kind == "task-race" and not cause.remedies and cause.kind != "stopped":
        return consequence.remedies
    if consequence.kind == "unread":
        late = consequence.sites[0]
        if cause.kind == "never-written":
            made = f"store {consequence.fields['buffer']} to {cause.fields['tensor']}"
            store = f"{made}: nothing reads what {late.operation} writes there at {late.location}"
            called = [one for one in cause.remedies if one.startswith("correct the call")]
            return *called, store, *(one for one in cause.remedies if one not in called)
        order = f"let what uses {consequence.fields['buffer']} come after {late.location}: nothing reads what it writes"
        return order, *cause.remedies
    if consequence.kind == "written-again" and _at_a_wrong_place(cause, consequence):
        lines = " or ".join(dict.fromkeys(site.location for site in consequence.sites))
        tensor = consequence.fields["tensor"]
        return f"correct the part of {tensor} at {lines}: it is written again, and not read before", *cause.remedies
    if lacks_load(cause, consequence):
        load = f"load {consequence.fields['tensor']}, which nothing reads, into {cause.fields['buffer']}"
        return f"{load} before {cause.sites[0].location}", *cause.remedies
    if consequence.kind == "wrong-value" and cause.kind == "written-again" and not cause.fields["is_read"]:
        tensor = cause.fields["tensor"]
        if tensor != consequence.fields["tensor"]:
            lines = " and ".join(dict.fromkeys(site.location for site in cause.sites))
            return f"read {tensor} after it is written at {lines}: nothing reads it", *cause.remedies
    if consequence.kind == "never-written" and of_two_launches(cause, consequence):
        unwritten = consequence.fields["tensor"]
        return f"pass {unwritten}, which is never written, to one of the two launches", *cause.remedies
    elsewhere = consequence.kind == "never-written" and cause.fields.get("buffer") != consequence.fields["tensor"]
    if elsewhere and cause.kind == "task-race" and not consequence.sites:
        return cause.remedies
    if consequence.kind == "never-written" and cause.kind in ("written-again", "task-race"):
        lines = " or ".join(dict.fromkeys(site.location for site in cause.sites if site.role == "writes"))
        part = f"correct the part of {consequence.fields['tensor']} at {lines}"
        loop = outermost_loop(cause.sites[0]) if len(cause.lines) == 1 else ""
        gives = f"; the loop at {loop} gives each task its part" if loop and cause.kind == "task-race" else ""
        return f"{part}: other bytes of it are never written{gives}", *cause.remedies
    return cause.remedies


def _missing_lock(unlock: Finding, race: Finding) -> tuple[str, ...]:
    """Return the remedies of an unlock without a lock, behind an update that races: only the lock is missing."""
    sites = [site for one in (*unlock.folded, race) for site in one.sites if one.kind == "task-race"]
    first = min(sites, key=lambda site: site.line)
    last = SourceLine(unlock.fields["file"], unlock.fields["line"])
    if any((site.file, site.function) != (first.file, first.function) for site in sites) or last.file != first.file:
        return race.remedies
    if not first.line < last.line:
        return race.remedies
    lock = first.call(f"lock({unlock.fields['lock']})")
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
    twice = [one.lines for one in race.unfolded if one.kind == "task-race" and one.writes_twice and len(one.lines) == 1]
    return any(lines <= again.lines for lines in twice)

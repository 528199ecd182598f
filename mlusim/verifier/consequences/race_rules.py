"""Rules for consequences that are races, releases, lookups and syncs: see `rules`."""

from __future__ import annotations

import re

from mlusim.verifier.consequences.one_fault import (
    BAD_VALUES,
    called_at_stop,
    gives_a_number,
    lacks_clear,
    of_queues,
    stopped_at,
    stops,
    swapped,
    wrong_stage,
)
from mlusim.verifier.findings import Finding, Remedy, Site, Way, fixes_by, in_one_function, wrong_part
from mlusim.verifier.races.atomic_remedies import counted
from mlusim.verifier.races.lane_syncs import blocking_copy
from mlusim.verifier.races.updates import COUNTER_BYTES
from mlusim.verifier.source_file import SourceLine, location_of, source_file

# The number of a lock, where Python releases it.
_RELEASED = re.compile(r"\.unlock\((.+)\)")


def race(cause: Finding, race: Finding) -> tuple[str, ...] | None:
    """A racing line runs in place of a missing one, accesses a wrong part, or leaves its buffer."""
    if stage := wrong_stage(cause, race):
        calls = " and ".join(call.location for call in stage.called_at)
        lacks = (
            f"loads {cause.fields['buffer']}" if cause.kind == "uninitialised" else f"stores {cause.fields['tensor']}"
        )
        text = f"correct the call at {calls}: they all run {stage.location}, and nothing {lacks}"
        return Remedy(text, Way.CALL), *cause.remedies
    if called_at_stop(cause, race) and not stops(race, cause):
        # The index is wrong before it is out of range.
        at = stopped_at(cause).location
        return cause.remedies or (f"correct the index at {at}: before it is out of range, it selects a wrong part",)
    if cause.kind == "access" and _leaves_buffer(cause, race):
        return cause.remedies
    return _wrong_part(cause, race) if cause.kind == "uninitialised" and _touches_part(cause, race) else None


def _leaves_buffer(stop: Finding, race: Finding) -> bool:
    """Return whether a racing line leaves its buffer: its part is wrong."""
    at = stopped_at(stop)
    if race.writes_twice and len(race.lines) == 1:
        # The part that a line stores is wrong in other tasks, too.
        return race.lines == {at} or race.kind == "task-race"
    return at in race.lines


def _touches_part(cause: Finding, race: Finding) -> bool:
    """Return whether a racing line reads the uninitialised bytes of a buffer, or writes beside them."""
    if of_queues(race):
        return False
    reader = cause.sites[0].at
    if race.kind == "race" and not race.writes_twice and race.fields["buffer"] == cause.fields["buffer"]:
        # The line that writes the buffer beside the bytes that are read.
        nearby = SourceLine(reader.file, cause.fields["beside_line"])
        if any(nearby in finding.lines for finding in race.unfolded):
            return True
    return any(
        (finding.fields.get("buffer") == cause.fields["buffer"] or race.fields.get("wrong_index"))
        and reader in finding.lines
        for finding in race.unfolded
    )


def _wrong_part(cause: Finding, race: Finding) -> tuple[str, ...] | None:
    """Return the remedies for a line that should write uninitialised bytes of a buffer, and writes others of it."""
    writer = next((site for site in race.sites if site.role == "writes"), None)
    if writer is None:
        return cause.remedies
    buffer = cause.fields["buffer"]
    others = (remedy for remedy in cause.remedies if not fixes_by(remedy, Way.PART, of=buffer))
    return wrong_part(buffer, (writer, cause.sites[0])), *others


def release(cause: Finding, release: Finding) -> tuple[str, ...] | None:
    """The transfer races with a use of its buffer, or of one that reuses the memory.

    A copy that comes too early, and is not waited for, should block.
    """
    released = release.sites[0]
    races = any(
        (site.location, site.operation, site.role) == (released.location, released.operation, released.role)
        for race in cause.unfolded
        if race.kind == "race" and (race.fields["buffer"] == release.fields["buffer"] or "reused_by" in race.fields)
        for site in (race.sites if released.operation == "memcpy" else race.sites[:1])
    )
    if not races:
        return None
    if any(fixes_by(remedy, Way.BLOCK) for remedy in cause.remedies):
        return cause.remedies
    sync, *others = cause.remedies
    return blocking_copy(released), f"{sync}, and {release.remedy}", *others


def task_race(cause: Finding, race: Finding) -> tuple[str, ...] | None:
    """Tasks hang at a barrier, are out of step, or do the same twice since a number that they load races.

    Where tasks of these clusters hang, tasks are at different barriers. Stores of one line that leave their tensor
    meet for the same reason.
    """
    if cause.kind == "hang":
        return _missing_barrier(cause, race) or cause.remedies or race.remedies
    if lacks_clear(cause) and gives_a_number(cause.sites[-1]) and cause.sites[-1].function == race.sites[-1].function:
        # A task goes on before another one has written.
        return cause.remedies
    if cause.kind == "uninitialised" and _touches_part(cause, race):
        return _wrong_part(cause, race)
    if at := swapped(cause, race):
        why = f"it reads {cause.fields['buffer']}, which nothing has written, and replaces {race.fields['buffer']}"
        return f"swap the source and the destination of {at}: {why}", *cause.remedies
    if atomic := counted(cause, race):
        return atomic, *cause.remedies
    if cause.kind == "stopped":
        follows = _is_out_of_step(cause, race) or (called_at_stop(cause, race) and not stops(race, cause))
        return cause.remedies if follows else None
    if not (
        _is_out_of_step(cause, race)
        or _write_again(cause, race)
        or (cause.kind == "access" and _leaves_buffer(cause, race))
    ):
        return None
    if cause.clues.get("lock") is not None:
        return _missing_lock(cause, race)
    return cause.remedies or race.remedies


def _write_again(cause: Finding, race: Finding) -> bool:
    """Return whether tasks write at one line again: without end, or because of a number that they load."""
    if not (race.writes_twice and len(race.lines) == 1):
        return False
    if cause.kind == "endless":
        return True
    small = cause.kind == "task-race" and cause.nbytes <= COUNTER_BYTES
    return (
        cause.kind in BAD_VALUES
        and any(gives_a_number(site) or (small and site.role == "reads") for site in cause.sites)
        and bool(race.fields["buffer"] != cause.fields["buffer"])
    )


def _is_out_of_step(cause: Finding, race: Finding) -> bool:
    """Return whether a lock was not acquired, or a barrier not passed, or an atomic left its tensor.

    Or the task goes by an uninitialised number.
    """
    if cause.kind == "operand":
        return bool(cause.clues["operation"] == "unlock")
    if cause.kind == "access":
        return "atomic_" in cause.location
    if cause.kind == "stopped":
        return str(cause.clues.get("operation")).startswith("sync_")
    reads = cause.kind == "uninitialised" and not race.writes_twice and gives_a_number(cause.sites[0])
    return reads and (cause.times > 1 or cause.sites[0].owner == race.sites[-1].owner)


def _missing_barrier(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """Some cores wait in a barrier that others, which race, never reach."""
    sync, racer, planned_place = consequence.fields["sync"], consequence.sites[-1], consequence.clues["place"]
    barriers = cause.fields.get("barriers", ())
    if barriers == ["sync_all"]:
        # The wider one orders them, too.
        sync = "sync_all"
    cores_text = "memory cores" if racer.task == "memory core" else "cores"
    at_end = planned_place is not None and planned_place.is_at_end and sync in barriers
    if at_end:
        return f"{racer.call(f'{sync}()')} in the {cores_text}, {planned_place.text}", *cause.remedies
    if consequence.fields["passed"] != 0:
        return None
    if sync not in barriers:
        return None
    if skipped := _skipped(cause, sync, racer):
        return f"let all {cores_text} reach the barrier {skipped}", *cause.remedies
    first, source = consequence.sites[0], source_file(racer.file)
    loops = source.loops_around(racer.line)
    begin, end = min(loops, default=(0, 0))
    waiting = _waiting_site(cause, sync, racer)
    waits_elsewhere = any(
        site.operation == sync and begin <= site.line <= end for site in cause.sites if site is not waiting
    )
    one_each = waiting is not None and len(loops) == len(source_file(waiting.file).loops_around(waiting.line)) == 1
    same_kind = (first.task == "memory core") == (racer.task == "memory core") and first.line < racer.line
    all_pass = source.line_passed_by_all(first.line, racer.line) if first.file == racer.file else racer.line
    if same_kind and source.loop_around(first.line, racer.line)[0]:
        place_text = f"before {location_of(racer.file, all_pass)}"
    elif one_each and not waits_elsewhere and not same_kind:
        # The others reach it in each iteration of their loop.
        place_text = f"at the beginning of the loop at {location_of(racer.file, begin)}"
    else:
        first_line = min(begin or racer.line, all_pass)
        place_text = f"once before {'the loop at ' if first_line == begin else ''}{location_of(racer.file, first_line)}"
    return f"{racer.call(f'{sync}()')} in the {cores_text}, {place_text}", *cause.remedies


def _waiting_site(hang: Finding, sync: str, racer: Site) -> Site | None:
    """Return where tasks of the other kind, in the function of a racing line, wait for its task; None if nowhere."""
    for site in hang.sites:
        other_kind = (site.task == "memory core") != (racer.task == "memory core")
        if other_kind and (site.role, site.operation, site.file) == ("waits", sync, racer.file):
            return site if site.function == racer.function else None
    return None


def _skipped(hang: Finding, sync: str, racer: Site) -> str:
    """Return where the barrier is that some cores wait in and others skip, before a racing line; empty if nowhere."""
    same_kind = [site for site in hang.sites if (site.task == "memory core") == (racer.task == "memory core")]
    waiting = next((site for site in same_kind if site.role == "waits" and site.operation == sync), None)
    if waiting is None or all(site.role != "last" for site in same_kind):
        return ""
    barrier, line = in_one_function(waiting, racer)
    if barrier.file != line.file or barrier.line >= line.line:
        return ""
    return f"at {barrier.location} before {line.location}"


def _missing_lock(unlock: Finding, race: Finding) -> tuple[str, ...]:
    """Return the remedies of an unlock without a lock, behind an update that races: only the lock is missing."""
    sites = [site for part in (*unlock.folded, race) for site in part.sites if part.kind == "task-race"]
    first = min(sites, key=lambda site: site.line)
    last = SourceLine(unlock.fields["file"], unlock.fields["line"])
    number = _RELEASED.search(last.source)
    lock = first.call(f"lock({number[1] if number and not last.is_compiled else unlock.clues['lock']})")
    return f"{lock} in every task, before {first.location}", *race.remedies[1:]


def lookup(cause: Finding, lookup: Finding) -> tuple[str, ...] | None:
    """The lookup itself reads bytes that race: then its indices may be any."""
    if cause.kind not in ("race", "task-race"):
        return None
    reader, site = cause.sites[-1], lookup.sites[0]
    is_lookup = (reader.role, reader.location, reader.operation) == ("reads", site.location, site.operation)
    return cause.remedies if is_lookup else None


def memory_core(cause: Finding, hint: Finding) -> tuple[str, ...] | None:
    """A memory core passes a barrier of the cores in place of the one that would order a race."""
    if cause.kind != "task-race":
        return None
    site, (barrier, at), sync = hint.sites[0], cause.clues["barrier_of_cores"], cause.fields["sync"]
    if not barrier or site.operation.removeprefix("__") != barrier or barrier == sync:
        return None
    places = " and ".join(dict.fromkeys((site.location, at)))
    return f"{site.call(f'{sync}()')} in place of {site.call(f'{barrier}()')} at {places}", *cause.remedies


def unawaited(cause: Finding, copies: Finding) -> tuple[str, ...] | None:
    """Copies that their task never waits for race: one sync would wait for both reasons, or the copy should block."""
    races = (race for race in cause.unfolded if race.kind == "race")
    if not copies.lines <= {site.at for race in races for site in race.sites if site.operation == "memcpy"}:
        return None
    copy = cause.sites[0]
    if copy.role == "writes" or copies.lines != {copy.at} or fixes_by(cause.remedies[0], Way.BLOCK):
        return cause.remedies
    return blocking_copy(copy), *cause.remedies

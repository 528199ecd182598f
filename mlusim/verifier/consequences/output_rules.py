"""Rules for consequences in what a kernel reads and writes: see `rules`."""

from __future__ import annotations

from fractions import Fraction

from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.verifier.consequences.one_fault import (
    CAUSES,
    gives_a_number,
    lack_beside_one_line,
    lacks_clear,
    lacks_load,
    lacks_write,
    misleading,
    missing_share,
    of_queues,
    of_two_launches,
    stopped_at,
    stops,
    swapped,
    writes_in_place_of,
)
from mlusim.verifier.findings import (
    PRIVATE,
    Finding,
    Remedy,
    Way,
    dividing_loop,
    fixes_by,
    outermost_loop,
    wrong_part,
)
from mlusim.verifier.source_file import SourceLine, locations_of


def wrong_value(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """A wrong value follows from the first bad value, or from bytes that are not written, or written again."""
    if not _makes_wrong(cause, consequence):
        return None
    if cause.kind != "written-again" or cause.clues["is_read"]:
        return cause.remedies
    tensor = cause.fields["tensor"]
    if tensor == consequence.fields["tensor"]:
        if not cause.clues["is_partial"] or any(finding.kind == "unselected" for finding in cause.folded):
            return cause.remedies
        return wrong_part(tensor, cause.sites, "it replaces what was written there before"), *cause.remedies
    if any(finding.kind == "wrong-value" and finding.fields["tensor"] == tensor for finding in cause.folded):
        return cause.remedies
    return f"read {tensor} after it is written at {locations_of(cause.lines)}: nothing reads it", *cause.remedies


def _makes_wrong(cause: Finding, consequence: Finding) -> bool:
    """Return whether a wrong value follows from a bad value, or from bytes that are not written, or written again."""
    if cause.kind == "swallowed":
        return True
    if any(finding.kind in CAUSES for finding in cause.unfolded):
        return not _is_made_elsewhere(cause, consequence)
    if cause.kind == "wrong-value":
        # Outputs that nothing writes lack the same store; others may have been computed by the same line or loop.
        if not (cause.sites and consequence.sites):
            return not cause.sites and not consequence.sites
        return bool({*cause.fields["through"]} & {*consequence.fields["through"]}) or _share_a_loop(cause, consequence)
    structural = [finding for finding in cause.unfolded if finding.kind in ("never-written", "written-again")]
    of_same_tensor = [finding for finding in structural if finding.fields["tensor"] == consequence.fields["tensor"]]
    if len(of_same_tensor) < len(structural):
        # What tasks exchange through the other tensor is wrong.
        return True
    if any(finding.clues.get("repeats") for finding in of_same_tensor):
        # What tasks exchange, or keep from one iteration to the next, is wrong, too.
        return True
    writer = {site.at for site in consequence.sites[:1]}
    return consequence.nbytes <= sum(finding.nbytes for finding in of_same_tensor) and any(
        writer <= finding.lines for finding in of_same_tensor if finding.kind == "written-again" or not writer
    )


def _is_made_elsewhere(cause: Finding, consequence: Finding) -> bool:
    """Return whether all operations that made a wrong value are known, and no bad value reaches one of them.

    A bad value may be the address or the size of an operation, or that of an iteration which does not run. And a buffer
    that is released may share its memory with any other.
    """
    causes = [finding for finding in cause.unfolded if finding.kind in CAUSES]
    if any(finding.kind == "release" or "reused_by" in finding.fields for finding in causes):
        return False
    if any(gives_a_number(site) for finding in causes for site in finding.sites):
        return False
    made_by = consequence.clues["made_by"]
    return bool(made_by) and not any(line.location in made_by for finding in causes for line in finding.lines)


def _share_a_loop(first: Finding, second: Finding) -> bool:
    """Return whether the first lines of two findings are in one loop, whose bounds or numbers may be wrong."""
    loop = outermost_loop(first.sites[0])
    return bool(loop) and loop == outermost_loop(second.sites[0])


def unread(cause: Finding, unread: Finding) -> tuple[str, ...] | None:
    """Nothing reads the result of an operation: its store is missing, or it comes too late."""
    if not _leaves_unread(cause, unread):
        return None
    site, buffer = unread.sites[0], unread.fields["buffer"]
    replaced_at = unread.clues["replaced_at"]
    first = cause.remedies[0] if cause.remedies else ""
    names_the_change = fixes_by(first, Way.PART, of=buffer) or fixes_by(first, Way.OPERANDS, of=replaced_at)
    if cause.kind in ("race", "task-race") or names_the_change or fixes_by(first, Way.IN_PLACE):
        return cause.remedies
    read_at = cause.clues["read_at"].get(buffer, "") if cause.kind == "wrong-value" else ""
    # A line above has read the buffer before.
    if read_at and int(read_at.rpartition(":")[2]) >= site.line:
        places = f"{read_at} or {site.location}"
        text = f"correct the part of {buffer} at {places}: nothing reads what {site.operation} writes there"
        return Remedy(text, Way.PART, buffer), *cause.remedies
    if cause.kind != "never-written":
        nothing_reads = f"nothing reads what {site.operation} writes to {buffer} at {site.location}"
        if replaced_at:
            fix = f"correct the destination at {replaced_at} or {site.location}: {nothing_reads}"
        elif cause.kind == "uninitialised":
            unwritten, reader = cause.fields["buffer"], cause.sites[0].location
            fix = f"make {unwritten} from {buffer} before {reader}, or read {buffer} there: {nothing_reads}"
        else:
            fix = f"read {buffer}, or correct the destination at {site.location}: nothing reads what it writes"
        return fix, *cause.remedies
    nothing_reads = f"nothing reads what {site.operation} writes there at {site.location}"
    store = f"store {buffer} to {cause.fields['tensor']}: {nothing_reads}"
    # The correction of a call comes first.
    return tuple(sorted((store, *cause.remedies), key=lambda remedy: not fixes_by(remedy, Way.CALL)))


def _leaves_unread(cause: Finding, unread: Finding) -> bool:
    """Return whether an operation whose result nothing reads comes too late, or lacks its reader or its store.

    It races, or makes what is missing: in a wrong value, in a buffer of the core that nothing writes or that is stored
    in its place, or in an output.
    """
    if cause.kind == "never-written":
        return not cause.sites or _share_a_loop(cause, unread)
    if cause.kind == "wrong-value":
        return True
    is_stored = (
        cause.kind == "uninitialised" and cause.fields["memory"] in PRIVATE and cause.sites[0].operation == "memcpy"
    )
    if lacks_write(cause) or (is_stored and _share_a_loop(cause, unread)):
        return unread.times > 1 or unread.sites[0].owner == cause.sites[0].owner
    of_same_buffer = [finding for finding in cause.unfolded if finding.fields.get("buffer") == unread.fields["buffer"]]
    if cause.kind in ("uninitialised", "task-race") or any(
        finding.clues.get("replaces_unread") for finding in of_same_buffer
    ):
        # The part of the buffer is wrong.
        return bool(of_same_buffer)
    races = (race for race in of_same_buffer if race.kind == "race")
    return any(unread.sites[0].at in race.lines and unread.sites[0].operation != "memcpy" for race in races)


def unused(cause: Finding, unused: Finding) -> tuple[str, ...] | None:
    """An input that no operation reads is missing in a wrong value, or in a buffer of a core."""
    name = unused.fields["buffer"]
    if unused.clues["is_input"] and cause.kind == "wrong-value":
        return f"read {name}: no operation does", *cause.remedies
    return _load_missing(cause, name) if unused.clues["is_input"] and lacks_write(cause) else None


def _load_missing(cause: Finding, tensor: str) -> tuple[str, ...]:
    destination = f"into {cause.fields['buffer']} before {cause.sites[0].location}"
    return f"load {tensor}, which nothing reads, {destination}", *cause.remedies


def uninitialised(cause: Finding, read: Finding) -> tuple[str, ...] | None:
    """A part of what is read is never written, or tasks write other bytes in its place."""
    buffer, memory = read.fields["buffer"], read.fields["memory"]
    if memory == "gdram" and writes_in_place_of(cause, read):
        return _write_in_place_of(cause, buffer)
    if not _leaves_unwritten(cause, read):
        return None
    if memory == "sram" and cause.kind == "task-race" and cause.writes_twice and cause.fields["buffer"] == buffer:
        # Of an output, other bytes are never written.
        return wrong_part(buffer, cause.sites, "other bytes of it are read, and never written"), *cause.remedies
    return cause.remedies


def _leaves_unwritten(cause: Finding, read: Finding) -> bool:
    """Return whether a part of what is read is never written, or two tasks write other bytes in its place.

    Buffers that lack the same part lack the same iteration of a loop. A line that reads too much of its buffer, and
    then leaves it or its tensor, has a wrong size.
    """
    buffer = read.fields["buffer"]
    if cause.kind == "swallowed":
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
        extra = cause.location.startswith(read.sites[0].owner) and not stops(read, cause)
        return shared or read.sites[0].at == at or extra
    if cause.kind == "hang":
        return read.fields["memory"] not in PRIVATE
    if cause.kind == "race" and cause.clues["replaces_unread"] and read.sites[0].at in cause.lines:
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
    if cause.kind != "never-written" or _has_race(read) or lacks_clear(read):
        return False
    return read.sites[0].at in cause.lines or cause.fields["tensor"] == buffer


def _has_race(read: Finding) -> bool:
    """Return whether tasks race on the tensor that one reads: they exchange a part of it, and another is written."""
    return any(race.kind == "task-race" and race.fields["buffer"] == read.fields["buffer"] for race in read.folded)


def _write_in_place_of(race: Finding, tensor: str) -> tuple[str, ...]:
    """Return the remedies for a task that writes what another one reads, while nobody writes a second tensor."""
    launch = f", or pass it to the launch at {at}" if (at := race.clues["launched_at"]) else ""
    replaced = f"in place of {race.fields['buffer']} at {race.sites[-1].location}"
    return f"write {tensor}, which is never written, {replaced}{launch}", *race.remedies


def never_written(cause: Finding, gap: Finding) -> tuple[str, ...] | None:
    """A launch gets the tensor of another one, or a line writes another tensor, or the wrong part of its own."""
    tensor = gap.fields["tensor"]
    if writes_in_place_of(cause, gap):
        return _write_in_place_of(cause, tensor)
    if lacks_clear(cause) and cause.fields["buffer"] == tensor:
        return cause.remedies
    if of_two_launches(cause, gap):
        return f"pass {tensor}, which is never written, to one of the two launches", *cause.remedies
    if not _leaves_out(cause, gap):
        return None
    if cause.clues.get("only_read"):
        return *cause.remedies, *gap.remedies
    is_elsewhere = cause.kind == "task-race" and cause.fields["buffer"] != tensor and not gap.sites
    if cause.kind not in ("written-again", "task-race") or is_elsewhere:
        return cause.remedies
    text = wrong_part(tensor, (site for site in cause.sites if site.role == "writes"))
    loop = dividing_loop(cause.sites[0]) if len(cause.lines) == 1 else ""
    loop_text = f"; the loop at {loop} gives each task its part" if loop and cause.kind == "task-race" else ""
    return f"{text}: other bytes of it are never written{loop_text}", *cause.remedies


def _leaves_out(cause: Finding, gap: Finding) -> bool:
    """Return whether the same line writes other bytes twice instead, or another output twice in place of this one.

    An operation whose error the kernel caught does not happen, nor may one whose bound or address is a bad value.
    Outputs that lack the same part lack the same iteration of a loop.
    """
    if cause.kind == "swallowed" or misleading(cause):
        return True
    if cause.kind == "never-written":
        if cause.clues["only_read"] != gap.clues["only_read"]:
            return False
        # Nothing writes either, or as much is missing of both.
        return not (gap.sites or cause.sites) or (bool(gap.sites and cause.sites) and _share(cause) == _share(gap))
    if cause.kind == "uninitialised":
        findings = cause.unfolded if _has_race(cause) else cause.folded
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
    writes_twice = cause.kind == "written-again" or (cause.kind == "task-race" and cause.writes_twice)
    if cause.kind == "written-again" and cause.fields["tensor"] != gap.fields["tensor"]:
        return not gap.sites and gap.nbytes == cause.nbytes and len(cause.lines) > 1
    tensor = cause.fields.get("tensor", cause.fields.get("buffer"))
    same_lines = gap.lines == cause.lines or (
        gap.lines < cause.lines and (cause.kind == "task-race" or gap.nbytes == cause.nbytes)
    )
    # Of the stores of one line that meet, some may be those that are missing.
    same_lines |= cause.kind == "task-race" and len(cause.lines) == 1 and gap.nbytes <= cause.nbytes * cause.times
    return writes_twice and tensor == gap.fields["tensor"] and bool(gap.lines) and same_lines


def _share(gap: Finding) -> tuple[Fraction, ...]:
    """Return where in its tensor a gap begins and ends, and its size."""
    first, end, nbytes = (gap.fields[name] for name in ("first_byte", "end_byte", "of_bytes"))
    return Fraction(first, nbytes), Fraction(end, nbytes), Fraction(gap.nbytes, nbytes)


def written_again(cause: Finding, rewrite: Finding) -> tuple[str, ...] | None:
    """A copy has its operands swapped, a store goes to a wrong place, or the load of what it replaces is missing."""
    tensor = rewrite.fields["tensor"]
    if at := swapped(cause, rewrite):
        why = f"it reads {cause.fields['buffer']}, which nothing has written, and replaces {tensor}"
        return f"swap the source and the destination of {at}: {why}", *cause.remedies
    if lacks_load(cause, rewrite):
        return _load_missing(cause, tensor)
    if not _stores_again(cause, rewrite):
        return None
    if _writes_wrong_place(cause, rewrite):
        return wrong_part(tensor, rewrite.sites, "it is written again, and not read before"), *cause.remedies
    return cause.remedies


def _stores_again(cause: Finding, rewrite: Finding) -> bool:
    """Return whether the second writer races on the same tensor, or the same lines race on another, or write it again.

    Without the race, it might read what it replaces.
    """
    if misleading(cause):
        return True
    if cause.kind == "written-again":
        return cause.lines == rewrite.lines or _share_a_loop(cause, rewrite)
    if cause.kind == "uninitialised":
        # The load of what is replaced is missing.
        at_once = cause.sites[0].at in rewrite.lines
        return (
            at_once
            or {site.at for site in cause.sites[1:]} == rewrite.lines
            or SourceLine(cause.sites[0].file, cause.fields["beside_line"]) in rewrite.lines
        )
    if cause.kind == "race":
        # A wrong index selects what is stored again.
        return rewrite.lines <= cause.lines
    races = cause.unfolded if cause.kind == "task-race" else ()
    writer = rewrite.sites[-1].at
    return any(
        (race.fields.get("buffer") == rewrite.fields["tensor"] and writer in race.lines)
        or (race.writes_twice and race.lines == rewrite.lines)
        for race in races
    )


def _writes_wrong_place(race: Finding, rewrite: Finding) -> bool:
    """Return whether a barrier would not fix a race: one line writes the same bytes in several tasks, unread."""
    if race.kind != "task-race" or race.writes_twice or race.fields["sync"] not in BARRIERS:
        return False
    parts = (part for part in race.unfolded if part.kind == "task-race" and part.writes_twice and len(part.lines) == 1)
    return any(part.lines <= rewrite.lines for part in parts)


def not_planned(cause: Finding, deviation: Finding) -> tuple[str, ...] | None:
    """The line that writes another task's bytes also races with that task, or writes them again."""
    twice = cause.kind in ("task-race", "written-again") and cause.writes_twice
    return cause.remedies if twice and deviation.lines <= cause.lines else None


def unselected(cause: Finding, unselected: Finding) -> tuple[str, ...] | None:
    """The line that stores more than a filter selected writes its tensor again."""
    site = unselected.sites[0]
    if cause.kind != "written-again" or site.at not in cause.lines:
        return None
    return f"{unselected.remedy}, at {site.location}", *cause.remedies

"""Uninitialised reads as findings: where they are, whether they have an effect, and what is missing before them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mlusim.cores.atomics import ATOMIC_NAMES
from mlusim.errors import for_caller
from mlusim.log import NONE, Log
from mlusim.log_tables import AllocationRecord
from mlusim.units import group_digits
from mlusim.verifier.accesses.coordinates import describe
from mlusim.verifier.accesses.geometry import union
from mlusim.verifier.findings import PRIVATE, Finding, Remedy, Site, Way, fixes_by, write_bytes, wrong_part
from mlusim.verifier.replaced import replaced_before
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import SourceLine, location_of
from mlusim.verifier.uninitialised.allocation_flow import AllocationFlow
from mlusim.verifier.uninitialised.equal_tasks import reads_to_follow
from mlusim.verifier.uninitialised.flow import Flow
from mlusim.verifier.uninitialised.marks import is_copy
from mlusim.verifier.uninitialised.nearby import (
    NearbyWrite,
    fills_in_turn,
    lines_that_write,
    missing_write,
    nearby_write,
)
from mlusim.verifier.uninitialised.reads import (
    Ranges,
    UninitialisedRead,
    reads_to_check,
    undefined_scratch,
    uninitialised_reads,
)
from mlusim.verifier.uninitialised.unselected import Unselected


def find_uninitialised(run: Run) -> tuple[list[Finding], set[int]]:
    """Find uninitialised bytes that flow into an output, a register or an address, one finding per reading line.

    Reads without effect are not reported (`flow.py`). Also returns the records of the lookups whose indices beyond the
    table are all uninitialised.
    """
    rows = reads_to_check(run)
    scratch = undefined_scratch(run)
    if not len(rows) and not scratch:
        return [], set()
    flow = AllocationFlow(run)
    rows = rows[flow.leads_somewhere()[run.accesses.alloc[rows]]]
    reads = scratch + uninitialised_reads(run, rows)
    if not reads:
        return [], set()
    followed = reads_to_follow(run, flow, reads)
    marks = Flow(run, flow, [reads[number] for number in followed])
    effects = {followed[number]: record for number, record in marks.follow().items()}
    with_effect = [_Effect(reads[number], effects[number]) for number in sorted(effects)]
    return [_with_copies(run, finding, reads) for finding in _findings(run, with_effect)], marks.padding


class _Effect(NamedTuple):
    """A read, and the record through which its bytes take effect; NONE or that of the read if they do there."""

    read: UninitialisedRead
    record: int


def _findings(run: Run, effects: Sequence[_Effect]) -> list[Finding]:
    """Return one finding for each buffer and line; those that lack the same write are folded."""
    unselected = Unselected(run)
    groups: dict[tuple[int, str, str, bool], list[_Effect]] = {}
    for effect in effects:
        read = effect.read
        allocation = run.log.allocations[read.alloc]
        is_hint = effect.record in (NONE, read.record) and unselected.stored(read)
        line = int(run.columns["line"][read.record])
        groups.setdefault((line, allocation.name, allocation.memory, is_hint), []).append(effect)
    return _fold_readers(
        run.log,
        [
            (_finding(run, group[0], len(group), is_hint=is_hint), _byte_ranges(run, group))
            for (*_, is_hint), group in groups.items()
        ],
    )


def _byte_ranges(run: Run, effects: Sequence[_Effect]) -> Ranges:
    """Return the bytes of buffers that are as the first one: the cores of a kernel may have different ones."""
    shapes = [run.log.allocations[effect.read.alloc].shape for effect in effects]
    reads = [effect.read for effect, shape in zip(effects, shapes, strict=True) if shape == shapes[0]]
    starts, stops = (np.concatenate([getattr(read, edge) for read in reads]) for edge in ("starts", "stops"))
    return union(starts, stops)


def _finding(run: Run, effect: _Effect, times: int, *, is_hint: bool) -> Finding:
    read, allocation = effect.read, run.log.allocations[effect.read.alloc]
    sites, missing_write_line, nearby = _sites(run, effect), 0, NearbyWrite()
    if is_hint:
        finding = _unselected(allocation.name, sites)
    elif run.accesses.write[read.row]:
        finding = _undefined(allocation.name, sites)
    else:
        in_gdram = allocation.memory == "gdram"
        later = _later_launch(run, read.row) if in_gdram else ""
        bytes_read = int(read.starts[0]), int(read.stops[-1])
        nearby = nearby_write(run, read.row, *bytes_read)
        if allocation.memory in PRIVATE:
            missing_write_line = missing_write(run, read.row, sites, nearby)
        likely, other = _wrong_parts(run, effect.read, allocation, nearby)
        finding = _uninitialised(allocation, sites, partly=read.partly, later=later, likely=likely, other=other)
    return replace(
        finding,
        region=f"{describe(allocation, read.starts, read.stops)} in {allocation.memory.upper()}",
        nbytes=int((read.stops - read.starts).sum()),
        sites=sites,
        times=times,
        clues={"alloc": read.alloc},
        fields={
            "buffer": allocation.name,
            "memory": allocation.memory,
            "first_byte": int(read.starts[0]),
            "end_byte": int(read.stops[-1]),
            "of_bytes": allocation.nbytes,
            "before_line": missing_write_line,
            "beside_line": nearby.at.line,
        },
    )


def _with_copies(run: Run, finding: Finding, reads: Sequence[UninitialisedRead]) -> Finding:
    """Add the lines of the copies that read the buffer before anything writes any of it, even without effect."""
    columns, log, accesses = run.columns, run.log, run.accesses
    lines, buffer = set(), (finding.fields["buffer"], finding.fields["memory"], finding.sites[0].file)
    for read in reads:
        allocation, (file, line, _) = log.allocations[read.alloc], log.lines[int(columns["line"][read.record])]
        if line in lines or (allocation.name, allocation.memory, file) != buffer:
            continue
        if is_copy(log.ops[int(columns["op"][read.record])], int(columns["pipe"][read.record])):
            earlier = accesses.write & (accesses.alloc == read.alloc) & (accesses.record < read.record)
            if not earlier.any():
                lines.add(line)
    return replace(finding, fields=finding.fields | {"copied_lines": sorted(lines)})


def _wrong_parts(
    run: Run, read: UninitialisedRead, allocation: AllocationRecord, nearby: NearbyWrite
) -> tuple[list[str], list[str]]:
    """Return the remedies for writes to a wrong part of the buffer: the likely ones, and the others.

    A write is likely to be wrong if it replaces an unread result, or if it is a copy next to bytes of a core's own
    buffer that nothing writes in the whole run, or only this copy, later. In a buffer that tasks share, it is likely
    only if no other line has written the buffer before.
    """
    likely: list[str] = []
    other: list[str] = []
    name, private, reader = allocation.name, allocation.memory in PRIVATE, SourceLine(*run.source(read.row)[:2])
    row = replaced_before(run, read.row)
    replacing = SourceLine(*run.source(row)[:2]) if row >= 0 else None
    if replacing is not None:
        likely.append(wrong_part(name, (replacing,), "it replaces what was written there before anything reads it"))
    if private and not nearby.at.line and (line := fills_in_turn(run, read.row)):
        why = f"it fills the others that {reader.location} reads in turn, and not {name}"
        likely.append(Remedy(f"correct the buffer at {line}: {why}", Way.ACCESS))
    if bytes_for_elements := _bytes_for_elements(run, read, allocation, nearby):
        return [bytes_for_elements, *likely], other
    if nearby.at.line and replacing != nearby.at:
        written_by = lines_that_write(run, read.row, int(read.starts[0]), int(read.stops[-1]))
        if private and not read.partly and nearby.at in written_by and _writes_slot(run, read, nearby.at):
            likely.append(wrong_part(name, (reader, nearby.at), which="writes these bytes only later"))
            return likely, other
        earlier = (run.accesses.alloc == read.alloc) & (run.accesses.record < read.record)
        only_writer = run.lines_of(earlier & run.accesses.write) == {nearby.at}
        unlikely = nearby.is_scalar or (written_by if private else not only_writer)
        (other if unlikely else likely).append(wrong_part(name, (nearby.at,), which="writes other bytes of it"))
    return likely, other


def _bytes_for_elements(run: Run, read: UninitialisedRead, allocation: AllocationRecord, nearby: NearbyWrite) -> str:
    """Return the remedy for a size of BANG C in elements: as many bytes are written as elements are read, or ""."""
    if not nearby.at.line or not run.site(int(run.accesses.record[nearby.row]), "").is_compiled:
        return ""
    (write_low, read_low), (write_end, read_end) = (
        edge[[nearby.row, read.row]].tolist() for edge in (run.accesses.low, run.accesses.high)
    )
    # Arrays of BANG C are recorded as bytes.
    if write_low != read_low or read_end - read_low not in (
        (write_end - write_low) * itemsize for itemsize in (2, 4, 8)
    ):
        return ""
    written_share = (
        f"{group_digits(write_end - write_low)} of the {group_digits(read_end - read_low)} bytes that are read"
    )
    return Remedy(
        f"multiply the size at {nearby.at.location}, which is in bytes: it writes {written_share}",
        Way.PART,
        allocation.name,
    )


def _writes_slot(run: Run, read: UninitialisedRead, line: SourceLine) -> bool:
    """Return whether a line writes just the bytes of a read in some iterations: a slot, not the edge of a tile.

    Other lines may write them, too, unless the read belongs to an update, which would carry them on.
    """
    accesses = run.accesses
    of_record = accesses.record == accesses.record[read.row]
    of_buffer = accesses.alloc == accesses.alloc[read.row]
    first, end = int(read.starts[0]), int(read.stops[-1])
    inner_writes = of_buffer & accesses.write & (accesses.low >= first) & (accesses.high <= end)
    beginning_lines, ending_lines = (
        run.lines_of(inner_writes & edge) for edge in (accesses.low == first, accesses.high == end)
    )
    updates = bool((of_record & of_buffer & accesses.write).any())
    return line in beginning_lines & ending_lines and not (
        updates and lines_that_write(run, read.row, first, end) != {line}
    )


def _sites(run: Run, effect: _Effect) -> tuple[Site, ...]:
    """Return the read and, if it is another operation, that through which the bytes take effect."""
    read = effect.read
    role = "leaves" if run.accesses.write[read.row] else "reads"
    operations = [(read.record, role)]
    if effect.record not in (NONE, read.record):
        operations.append((effect.record, "passes"))
    return tuple(run.site(record, role) for record, role in operations)


def _fold_readers(log: Log, findings: list[tuple[Finding, Ranges]]) -> list[Finding]:
    """Return one finding for all lines of a kernel that read uninitialised bytes of a buffer: it lacks a write.

    In GDRAM, where tasks share a tensor, only for lines that have bytes in common, and for atomics.
    """
    groups: list[tuple[tuple[str, ...], list[Ranges], list[Finding]]] = []
    for finding, ranges in findings:
        buffer = _buffer_key(log, finding)
        for name, members, group in groups:
            is_one = "gdram" not in name or any(_overlap(ranges, member) for member in members)
            if name == buffer and (is_one or _by_atomics(finding, group[0])):
                members.append(ranges)
                group.append(finding)
                break
        else:
            groups.append((buffer, [ranges], [finding]))
    return [_fold_with_place(_with_all_bytes(log, main, members), others) for _, members, (main, *others) in groups]


def _with_all_bytes(log: Log, finding: Finding, ranges: Sequence[Ranges]) -> Finding:
    """Return a finding with all bytes of a core's own buffer that are uninitialised somewhere: one write is missing."""
    allocation = log.allocations[finding.clues["alloc"]]
    if allocation.memory not in PRIVATE:
        return finding
    starts, stops = union(*(np.concatenate(edges) for edges in zip(*ranges, strict=True)))
    inside = stops <= allocation.nbytes
    starts, stops = starts[inside], stops[inside]
    region = f"{describe(allocation, starts, stops)} in {allocation.memory.upper()}"
    return replace(finding, region=region, nbytes=int((stops - starts).sum()))


def _fold_with_place(main: Finding, others: Sequence[Finding]) -> Finding:
    """Return a finding with others folded into it, and with the line before which their missing write belongs."""
    lines = [finding.fields["before_line"] for finding in (main, *others)]
    folded = main.fold(*others)
    if all(lines) and len({finding.sites[0].file for finding in (main, *others)}) == 1:
        location = location_of(main.sites[0].file, min(lines))
        remedies = (
            write_bytes(f"before {location}", remedy.of) if fixes_by(remedy, Way.WRITE) else remedy
            for remedy in main.remedies
        )
        folded = replace(folded, remedies=tuple(remedies))
    return folded


def _by_atomics(*findings: Finding) -> bool:
    return all(finding.sites[0].operation in ATOMIC_NAMES for finding in findings)


def _buffer_key(log: Log, finding: Finding) -> tuple[str, ...]:
    """Return what the findings of one buffer have in common: kind and role, its memory and name, and the kernel."""
    site = finding.sites[0]
    launch = log.launches[log.tasks[log.records.values(site.record)["task"]].launch]
    return finding.kind, site.role, finding.fields["memory"], finding.fields["buffer"], launch.kernel


def _overlap(one: Ranges, other: Ranges) -> bool:
    """Return whether two sets of byte ranges, each in ascending order, have bytes in common."""
    candidate = np.searchsorted(other[1], one[0], side="right")
    exists = candidate < len(other[0])
    return bool((other[0][candidate[exists]] < one[1][exists]).any())


def _later_launch(run: Run, read: int) -> str:
    """Return the kernel of the first later launch that writes bytes of a read, unless a loop repeats it; else ""."""
    log, order, accesses = run.log, run.order, run.accesses
    launch = order.launch[order.task_of[accesses.record]]
    writes = accesses.meeting(read) & accesses.write & (launch > launch[read])
    if not writes.any():
        return ""
    reader, writer = (log.launches[int(number)] for number in (launch[read], launch[writes].min()))
    return writer.kernel if (writer.kernel, writer.launched_at) != (reader.kernel, reader.launched_at) else ""


def _uninitialised(
    allocation: AllocationRecord,
    sites: tuple[Site, ...],
    *,
    partly: bool,
    later: str,
    likely: Sequence[str],
    other: Sequence[str],
) -> Finding:
    """Return the words of a finding: a read of bytes that nothing has written.

    `later`: the kernel of a later launch that writes them. `likely`, `other`: remedies that come first, and last.
    """
    buffer = allocation.name
    write = write_bytes("first", _writers(sites[0]))
    is_atomic = sites[0].operation in ATOMIC_NAMES
    if is_atomic:
        write = _clear(allocation, sites[0])
    remedies = [*likely, write, *other]
    if later:
        remedies.insert(0, f"launch {later}, which writes these bytes later, before this kernel")
    # Memory without a parameter's name is not an argument, such as what a host program allocates.
    if allocation.memory == "gdram" and sites[0].is_compiled and not buffer.isidentifier():
        fill = "if it is an input, copy it there on the host before the launch: cnrtMemcpy, cnrtMemset"
        remedies.insert(len(remedies) if partly or later or likely else 0, fill)
    if allocation.memory == "gdram" and buffer.isidentifier() and not (partly or allocation.workspace or is_atomic):
        remedies.append(
            f"if {buffer} has values before the run, pass them: an array, or InOut(array) if it is written, too; on "
            f"the command line --arg {buffer}=FILE.npy, inout:FILE.npy or random:DTYPE:SHAPE"
        )
    return Finding(
        kind="uninitialised",
        title=f"{sites[0].operation} reads {buffer}, part of which is uninitialised"
        if partly
        else f"{sites[0].operation} reads {buffer} before anything is written there",
        rule="fresh memory holds its previous contents, not zeros" + _effect_text(sites),
        remedies=tuple(remedies),
    )


def _clear(allocation: AllocationRecord, site: Site) -> Remedy:
    """Return the remedy for atomics on memory that nothing has written."""
    name = allocation.name
    if site.is_compiled:
        return Remedy(f"clear {name} on the host before the launch: cnrtMemset")
    option = f"`--arg {name}=inout:FILE.npy`"
    if site.operation.endswith(("max", "min", "and")):
        values = for_caller(option, "`InOut(array)` in place of an Output")
        return Remedy(f"pass the first values of {name} to the launch: {values}")
    shape = allocation.shape[0] if len(allocation.shape) == 1 else allocation.shape
    zeros = f'`InOut(np.zeros({shape}, "{allocation.dtype}"))` in place of an Output, or copy zeros to the device'
    text = f"clear {name} before the launch: pass {for_caller(f'{option}, a file of zeros', zeros)}"
    in_kernel = f"; or let one task clear it, {site.call(f'gdramset({name}, 0)')}, before a barrier of all"
    return Remedy(text + (in_kernel if name.isidentifier() else ""))


def _undefined(buffer: str, sites: tuple[Site, ...]) -> Finding:
    """As `_uninitialised`, for bytes that an instruction has used as scratch."""
    return Finding(
        kind="uninitialised",
        title=f"{buffer} is used after it was scratch of {sites[0].operation}, which leaves it undefined",
        rule="an instruction leaves its scratch undefined" + _effect_text(sites),
        remedies=(f"pass another buffer as scratch, or write {buffer} again before its next use",),
    )


def _unselected(buffer: str, sites: tuple[Site, ...]) -> Finding:
    """As `_uninitialised`, for elements beyond those that a filter has selected, stored with them: a hint."""
    return Finding(
        kind="unselected",
        title=f"{sites[0].operation} stores elements of {buffer} beyond those that a filter selected",
        rule="a filter writes only the selected elements; the others keep their previous values. A reader "
        "that takes their number from another output can skip them",
        remedies=("store as many elements as the filter returns, or fill the buffer before it",),
    )


def _effect_text(sites: tuple[Site, ...]) -> str:
    return "" if len(sites) == 1 else f"; at {sites[1].location} these bytes take effect"


def _writers(site: Site) -> str:
    return "__memcpy, __bang_write_value" if site.is_compiled else "memcpy, fill, write_zero"

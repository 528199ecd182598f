"""Tasks that wait for a number in memory that no other task sets, and what they have done before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.cores.atomics import ATOMIC_NAMES
from mlusim.dtypes import dtype_of
from mlusim.log import NONE, Log
from mlusim.verifier.accesses.coordinates import describe
from mlusim.verifier.columns import Columns, ops_among
from mlusim.verifier.findings import Site, wrong_part
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import locations_of

# Of a run that polls, the latest records show the loops that do.
_LATEST = 1000


def records_before_polls(log: Log) -> int:
    """Return the number of records before the last polls of a run that ended in them."""
    lines = Columns(log.records)["line"]
    others = np.flatnonzero(~np.isin(lines, lines[-_LATEST:]))
    return int(others.max(initial=0)) + 1


@dataclass(frozen=True, slots=True)
class Poll:
    """A read, again and again, of bytes that other tasks should set: its site, these bytes, and the remedy."""

    site: Site
    region: str
    remedy: str


def last_poll(run: Run) -> Poll | None:
    """Return a poll of shared memory at the end of a run: of bytes that nothing else writes if there is one."""
    log, columns = run.log, run.columns
    by_atomic = ops_among(log, ATOMIC_NAMES)[columns["op"]]
    alloc = np.where(by_atomic, columns["dst_alloc"], columns["a_alloc"])
    offset = np.where(by_atomic, columns["dst_offset"], columns["a_offset"])
    shared = np.array([allocation.memory in ("gdram", "sram") for allocation in log.allocations], bool)
    latest = np.arange(max(len(log) - _LATEST, 0), len(log))
    reads = latest[(alloc[latest] != NONE) & shared[alloc[latest]]]
    _, firsts = np.unique(np.stack([alloc[reads], offset[reads]]), axis=1, return_index=True)
    poll_lines = np.isin(columns["line"], columns["line"][latest])
    by_others = [(_writers(run, int(alloc[read]), poll_lines), read) for read in reads[np.sort(firsts)].tolist()]
    polls = [(writers[columns["dst_offset"][writers] == offset[read]], writers, read) for writers, read in by_others]
    if not polls:
        return None
    same, writers, read = min(polls, key=lambda poll: len(poll[0]))
    allocation, site = log.allocations[int(alloc[read])], run.site(read, "reads")
    start, end = np.array([int(offset[read])]), np.array([int(offset[read]) + dtype_of(allocation.dtype).itemsize])
    if len(same):
        remedy = f"let {locations_of(run.lines_at(same))} set the number that {site.location} waits for"
    elif len(writers):
        lines = (site.at, *sorted(run.lines_at(writers)))
        remedy = wrong_part(allocation.name, lines, f"{site.task} waits for bytes that nothing else writes")
    else:
        what = f"once what {site.task} waits for is done: nothing else writes it"
        remedy = f"let another task set {allocation.name} by an atomic {what}"
    return Poll(site, describe(allocation, start, end), remedy)


def _writers(run: Run, alloc: int, polls: Flags) -> Integers:
    """Return the records that write an allocation at other lines than those that poll."""
    return np.flatnonzero((run.columns["dst_alloc"] == alloc) & ~polls)

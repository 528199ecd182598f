"""Unwritten bytes: the write next to them, whose part may be wrong, and where the missing one belongs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlusim.log import NONE, SCALAR
from mlusim.verifier.findings import Site, in_one_function
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import SourceLine, function_around, location_of, source_file


class NearbyWrite(NamedTuple):
    """The write to other bytes of a buffer: its line, its row, and whether scalar code stores single elements there."""

    at: SourceLine = SourceLine("", 0)
    row: int = NONE
    is_scalar: bool = False


def nearby_write(run: Run, read: int, first: int, end: int) -> NearbyWrite:
    """Return the nearest write to other bytes of a buffer before a read of it.

    An update in place counts only if there is no other write: it would have read the bytes, too. Of equally near ones,
    a write that ends before the bytes comes first: it may be too short. Then the last one counts. Its line is 0 if
    there is none, or no source, and for the line that reads.

    Args:
        run: the run.
        read: row of the read.
        first, end: the bytes that nothing has written, in the allocation.
    """
    columns, accesses = run.columns, run.accesses
    record = int(accesses.record[read])
    earlier = np.flatnonzero((accesses.alloc == accesses.alloc[read]) & accesses.write & (accesses.record < record))
    line = columns["line"]
    earlier = earlier[line[accesses.record[earlier]] != line[record]]
    if not len(earlier):
        return NearbyWrite()
    reads = accesses.record[(accesses.alloc == accesses.alloc[read]) & ~accesses.write]
    without_updates = earlier[~np.isin(accesses.record[earlier], reads)]
    earlier = without_updates if len(without_updates) else earlier
    low, high = (edge[earlier].astype(np.int64) for edge in (accesses.low, accesses.high))
    gap_above, gap_below = first - high, low - end
    distance = np.maximum(np.maximum(gap_above, gap_below), 0)
    nearest = earlier[np.lexsort((earlier, gap_above >= 0, -distance))[-1]]
    at = SourceLine(*run.source(nearest)[:2])
    is_scalar = bool(columns["pipe"][accesses.record[nearest]] == SCALAR)
    return NearbyWrite(at, int(nearest), is_scalar) if at.line else NearbyWrite()


def missing_write(run: Run, read: int, sites: tuple[Site, ...], nearby: NearbyWrite) -> int:
    """Return the line before which the missing write of a core's own buffer belongs, in the file of its read.

    It belongs before the first line that writes the buffer, be it an accumulation or the write beside the bytes, and
    outside of the loops and branches around this line that end before the bytes are used, or that carry the bytes from
    one iteration to the next: there it would clear the results of earlier iterations. 0 if the line is unknown.

    Args:
        run: the run.
        read: row of the read.
        sites: the read and, if it is another operation, that through which the bytes take effect.
        nearby: as `nearby_write` returns it.
    """
    accesses, reads, user = run.accesses, sites[0], sites[-1]
    of_record = accesses.record == accesses.record[read]
    updates = bool((accesses.write[of_record] & (accesses.alloc[of_record] == accesses.alloc[read])).any())
    at = reads.at
    if nearby.at.line and not updates:
        at, user = nearby.at, reads
    if len({(line.file, function_around(line.file, line.line)) for line in (at, user, reads)}) > 1:
        # The line may be that of a call of the helper function which reads the bytes.
        reader_line, user_line = in_one_function(reads, user)
        if (
            reader_line == reads.at
            or user_line != user.at
            or reader_line.file != reads.file
            or (nearby.at.line and not updates)
        ):
            return 0
        return source_file(reader_line.file).begin_of_outermost(reader_line.line, user_line.line)
    source = source_file(at.file)
    first_line, inner = source.begin_of_outermost(at.line, user.line), source.loop_around(reads.line, reads.line)
    if updates:
        # The next line to read the sum is its user, if it is nearer.
        readers = run.lines_of((accesses.alloc == accesses.alloc[read]) & ~accesses.write)
        later = (line.line for line in readers if line.file == at.file and line.line > inner[1])
        first_line = max([first_line, *(source.begin_of_outermost(at.line, line) for line in later)])
    writes = run.lines_of(accesses.meeting(read) & accesses.write & (accesses.record >= accesses.record[read]))
    is_carried = at == reads.at and any(inner[0] <= write.line <= inner[1] for write in writes)
    if is_carried and first_line == at.line and inner[0]:
        return _loop_that_carries(run, read, inner, reads.file)
    return first_line


def _loop_that_carries(run: Run, read: int, inner: tuple[int, int], file: str) -> int:
    """Return the first line of the outermost loop that carries the bytes of a read from iteration to iteration.

    Such a loop around the inner one does not read the buffer outside of it, but what comes after the loop does.
    """
    reads = run.lines_of((run.accesses.alloc == run.accesses.alloc[read]) & ~run.accesses.write)
    lines = {at.line for at in reads if at.file == file}
    for loop in sorted(source_file(file).loops_around(inner[0]), reverse=True):
        begin, end = loop
        outer_lines = {line for line in lines if not inner[0] <= line <= inner[1]}
        if (
            loop != inner
            and any(line > end for line in outer_lines)
            and not any(begin <= line <= end for line in outer_lines)
        ):
            inner = loop
    return inner[0]


def lines_that_write(run: Run, read: int, first: int, end: int) -> set[SourceLine]:
    """Return the lines of the run, other than that of a read, that write between two bytes of its allocation.

    An update in place does not count: it reads them, too.
    """
    accesses = run.accesses
    line = run.columns["line"][accesses.record]
    overlaps = (accesses.alloc == accesses.alloc[read]) & (accesses.low < end) & (accesses.high > first)
    updates = np.isin(accesses.record, accesses.record[overlaps & ~accesses.write])
    return run.lines_of(overlaps & accesses.write & ~updates & (line != line[read]))


def fills_in_turn(run: Run, read: int) -> str:
    """Return the one line that fills the other buffers which a task reads in turn by the line of a read; or "".

    Buffers that C++ code reads without another line in between are operands of one expression.
    """
    columns, accesses = run.columns, run.accesses
    record = accesses.record[read]
    of_task = run.order.task_of == run.order.task_of[record]
    same_line = of_task & (columns["line"] == columns["line"][record])
    side = "a_alloc" if columns["a_alloc"][record] == accesses.alloc[read] else "b_alloc"
    own_buffers = [accesses.alloc[read], NONE]
    if columns["pipe"][record] == SCALAR:
        lines_passed = np.cumsum(of_task & ~same_line)
        own_buffers = [*own_buffers, *columns[side][same_line & (lines_passed == lines_passed[record])]]
    others = np.setdiff1d(columns[side][same_line], own_buffers)
    writers = accesses.record[np.isin(accesses.alloc, others) & accesses.write]
    codes = np.unique(columns["line"][writers[~same_line[writers]]]).tolist()
    return location_of(*run.log.lines[codes[0]][:2]) if len(codes) == 1 else ""

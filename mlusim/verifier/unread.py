"""Results on chip that nothing reads: a store of another buffer, or operations in the wrong order.

A source line is reported if nothing reads what it writes in any iteration. So the last load of a loop that loads ahead
is not reported. A line that updates a buffer, such as that of a sum, is no reader of its own results.
"""

from __future__ import annotations

import re

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.cores.atomics import ATOMIC_NAMES
from mlusim.log import NONE, SCALAR
from mlusim.verifier.accesses.geometry import expand
from mlusim.verifier.accesses.overlaps import Pairs
from mlusim.verifier.accesses.table import COLLECT, FILLS, FILTERS, Accesses, scratch_rows
from mlusim.verifier.columns import joint, ops_among
from mlusim.verifier.findings import Finding
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import SourceLine, location_of, source_file

# A fill may prepare for later writes; the others have another effect, or a result that they cannot omit.
OTHERWISE_USED = FILLS | ATOMIC_NAMES | {COLLECT, *FILTERS}
# The first accesses usually show what reads a line's results, so these are searched first.
_FIRST_ROWS = 1 << 12
# Lines with more pairs of writes and reads to compare count as read.
_MOST_PAIRS = 1 << 22


def find_unread(run: Run) -> list[Finding]:
    """Find lines whose results on chip nothing reads before other results replace them, one finding per line."""
    log, columns, accesses = run.log, run.columns, run.accesses
    line = columns["line"][accesses.record]
    may_be_unread = np.zeros(len(log.lines), bool)
    may_be_unread[line[accesses.write]] = True
    on_chip = np.array([record.memory in ("nram", "wram", "sram", "ldram") for record in log.allocations], bool)
    on_chip[list(accesses.unknown)] = False
    is_used = ops_among(log, OTHERWISE_USED)[columns["op"]][accesses.record] | ~on_chip[accesses.alloc]
    may_be_unread[line[accesses.write & is_used]] = False
    # Scratch is used only within its instruction, so nothing has to read it.
    is_result = on_chip[accesses.alloc] & ~scratch_rows(log, columns, accesses)
    rows = np.flatnonzero(is_result)
    rows = rows[_with_readers(run, rows, line)[accesses.alloc[rows]]]
    # Most lines are read within the first rows.
    count = _FIRST_ROWS
    while may_be_unread.any() and len(rows):
        batch = rows[:count]
        may_be_unread[line[batch[are_read(accesses.where(batch), may_be_unread[line[batch]], line[batch])]]] = False
        if count >= len(rows):
            break
        count *= 8
    lines = np.flatnonzero(may_be_unread).tolist()
    results_by_line = [np.flatnonzero(is_result & accesses.write & (line == number)) for number in lines]
    return [
        _finding(run, results)
        for results in results_by_line
        if len(results) and not (_is_for_next_iteration(run, results) or _may_be_in_register(run, results))
    ]


def _finding(run: Run, results: Integers) -> Finding:
    """Return the finding on the results of one line: rows in log order."""
    accesses = run.accesses
    site = run.site(int(accesses.record[results[0]]), "writes")
    name = run.log.allocations[int(accesses.alloc[results[0]])].name
    return Finding(
        kind="unread",
        title=f"nothing reads what {site.operation} writes to {name}",
        sites=(site,),
        rule="a result that is replaced, or left, before anything reads it has no effect",
        remedies=(f"check that the operations after it use {name}, and come after it; or remove it",),
        times=1 + int(np.count_nonzero(np.diff(accesses.record[results]))),
        fields={"buffer": name},
        clues={"replaced_at": _replaced_at(run, int(results[0]))},
    )


def _is_for_next_iteration(run: Run, writes: Integers) -> bool:
    """Return whether a line writes for the next iteration of a loop, of which each task happens to run only one.

    Its loop reads the buffer above the line.
    """
    accesses, (file, line, _) = run.accesses, run.source(int(writes[0]))
    loops = source_file(file).loops_around(line)
    if not loops or len(np.unique(accesses.record[writes])) > len(
        np.unique(run.order.task_of[accesses.record[writes]])
    ):
        return False
    reads = run.lines_of(np.isin(accesses.alloc, accesses.alloc[writes]) & ~accesses.write)
    return any(read.file == file and loop[0] <= read.line < line for read in reads for loop in loops)


def _may_be_in_register(run: Run, writes: Integers) -> bool:
    """Return whether plain C++ stores a value that it also uses later: the compiler then need not load it again.

    A later statement of its function names the buffer, and neither stores there nor passes it to an intrinsic.
    """
    accesses, site = run.accesses, run.site(int(run.accesses.record[writes[0]]), "writes")
    if not site.is_compiled or run.columns["pipe"][accesses.record[writes[0]]] != SCALAR:
        return False
    last = source_file(site.file).function(site.line)[0][1]
    lines = (SourceLine(site.file, line).source for line in range(site.line, last + 1))
    text = "\n".join(line.partition("//")[0] for line in lines)
    name = rf"\b{re.escape(run.log.allocations[int(accesses.alloc[writes[0]])].name)}\b"
    later = text.partition("=")[2].split(";")[1:]
    stores_or_calls = re.compile(rf"{name}[\w.\[\]>+\s-]*=(?!=)|\b__\w+\s*\(")
    return any(re.search(name, statement) and not stores_or_calls.search(statement) for statement in later)


def _with_readers(run: Run, rows: Integers, line: Integers) -> Flags:
    """By allocation, whether its contents may be read: not if one line accesses it, in updates only."""
    alloc, record, write = (column[rows] for column in (run.accesses.alloc, run.accesses.record, run.accesses.write))
    only_line = np.full(len(run.log.allocations), NONE, np.int64)
    only_line[alloc] = line[rows]
    updated = np.full(len(run.log), NONE, np.int64)
    updated[record[write]] = alloc[write]
    readers = np.zeros(len(only_line), bool)
    readers[alloc[(line[rows] != only_line[alloc]) | (~write & (updated[record] != alloc))]] = True
    return readers


def _replaced_at(run: Run, row: int) -> str:
    """Return the line below a write, in its file, that is the next of its task to write some of its bytes; or ""."""
    accesses, task, (file, line, _) = run.accesses, run.order.task_of, run.source(row)
    later = accesses.meeting(row) & accesses.write & (accesses.record > accesses.record[row])
    later &= task[accesses.record] == run.task(row)
    name, later_line, _ = run.source(int(np.argmax(later))) if later.any() else (file, line, "")
    return location_of(file, later_line) if name == file and later_line > line else ""


def are_read(accesses: Accesses, chosen: Flags, line: Integers | None = None) -> Integers:
    """Return the wanted writes of which a later operation may read something, before a write replaces all of it.

    "May": the bytes between an access's first and last count as accessed. A write replaces what lies within it if it is
    one run of bytes, or writes the same bytes.

    line: the source line of each access; if given, what an update reads of the results of its own line does not count.
    """
    # Operations read before they write, so a read of the same operation comes first.
    time = joint(accesses.record, accesses.write, 2)
    latest = int(time.max(initial=0)) + 1
    key = joint(accesses.alloc, time, latest + 1)
    by_key = np.argsort(key, kind="stable")
    updates = _updates(accesses, by_key)
    following = _next_of_same_bytes(accesses, time, np.flatnonzero(~updates))
    reads = by_key[~accesses.write[by_key]]
    writes = np.flatnonzero(chosen & accesses.write)
    writes = writes[_may_overlap_any(accesses, writes, reads)]
    next_of = following[writes]
    bounds = np.where(next_of == NONE, joint(accesses.alloc[writes], latest, latest + 1), key[next_of] + 1)
    pairs = _pairs_between(reads, key, key[writes], bounds)
    if pairs is None:
        return writes
    number, read = pairs
    write = writes[number]
    overlap = (accesses.low[write] < accesses.high[read]) & (accesses.low[read] < accesses.high[write])
    if line is not None:
        overlap &= ~updates[read] | (line[read] != line[write])
    first_read = np.full(len(writes), NONE, np.int64)
    # In descending order, so that the first read is assigned last.
    first_read[number[overlap][::-1]] = key[read[overlap]][::-1]
    read_writes: Integers = writes[first_read != NONE]
    first_read = first_read[first_read != NONE]
    replacing = by_key[(accesses.write & accesses.single_run[accesses.geometry])[by_key]]
    pairs = _pairs_between(replacing, key, key[read_writes] + 1, first_read)
    if pairs is None:
        return read_writes
    number, other = pairs
    write = read_writes[number]
    is_replaced = (accesses.low[other] <= accesses.low[write]) & (accesses.high[write] <= accesses.high[other])
    is_kept = np.ones(len(read_writes), bool)
    is_kept[number[is_replaced]] = False
    return read_writes[is_kept]


def _updates(accesses: Accesses, by_key: Integers) -> Flags:
    """By access, whether it reads a buffer that its operation writes; `by_key`: rows by allocation, then in time."""
    alloc, record, write = (column[by_key] for column in (accesses.alloc, accesses.record, accesses.write))
    # Of the accesses of an operation to a buffer, its writes come last.
    last = np.flatnonzero(np.append((alloc[1:] != alloc[:-1]) | (record[1:] != record[:-1]), len(alloc) > 0))
    updates = np.empty(len(alloc), bool)
    updates[by_key] = ~write & np.repeat(write[last], np.diff(last, prepend=-1))
    return updates


def _may_overlap_any(accesses: Accesses, rows: Integers, others: Integers) -> Flags:
    """By access of `rows`, whether one of the others, at any time, may have bytes in common with it."""
    length = int(accesses.high.max(initial=0)) + 1
    low, high = (joint(accesses.alloc, edge, length) for edge in (accesses.low, accesses.high))
    others = others[np.argsort(low[others])]
    # By number of the lowest others, how far they reach.
    reach = np.maximum.accumulate(np.concatenate(([0], high[others])))
    return np.asarray(reach[np.searchsorted(low[others], high[rows])] > low[rows], bool)


def _next_of_same_bytes(accesses: Accesses, time: Integers, rows: Integers) -> Integers:
    """By access, the next one of the same bytes, or NONE; among the accesses in `rows`."""
    # A run of bytes may have several geometries, as bytes of a copy and as elements.
    gaps = np.where(accesses.single_run[accesses.geometry], NONE, accesses.geometry)
    columns = accesses.alloc, accesses.low, accesses.high, gaps
    by_bytes = rows[np.lexsort((time[rows], *(column[rows] for column in reversed(columns))))]
    is_equal = np.ones(max(len(by_bytes) - 1, 0), bool)
    for column in columns:
        ordered = column[by_bytes]
        is_equal &= ordered[1:] == ordered[:-1]
    following = np.full(len(time), NONE, np.int64)
    following[by_bytes[:-1][is_equal]] = by_bytes[1:][is_equal]
    return following


def _pairs_between(rows: Integers, key: Integers, begin: Integers, end: Integers) -> Pairs | None:
    """Return all pairs (i, row) with begin[i] <= key[row] < end[i]; None if they are too many. `rows` ascend by key."""
    first, last = (np.searchsorted(key[rows], bound) for bound in (begin, end))
    if int(np.maximum(last - first, 0).sum()) > _MOST_PAIRS:
        return None
    number, index = expand(first, last)
    return number, rows[index]

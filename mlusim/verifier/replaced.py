"""Results that are replaced before anything reads them: a part of a buffer is wrong there, and no sync is missing."""

from __future__ import annotations

import numpy as np

from mlusim.arrays import Integers
from mlusim.verifier.accesses.table import Accesses, scratch_rows
from mlusim.verifier.findings import PRIVATE
from mlusim.verifier.run import Run
from mlusim.verifier.unread import OTHERWISE_USED, are_read

# Executions of a line that are examined for what they replace; the last one is examined, too.
_FIRST_EXECUTIONS = 8
# Writes before an uninitialised read that are examined likewise.
_FIRST_WRITES = 32


def replaces_unread(run: Run, rows: tuple[int, int]) -> str:
    """Return which line of a race replaces unread results: "first", "second" or "".

    The first one replaces what a copy or an instruction wrote to the same bytes. So does the second one with its
    result, and does not read these bytes: it may read others of the buffer instead. The first one of a race writes.
    """
    accesses, line_of = run.accesses, run.order.line_of
    if not accesses.write[rows[0]]:
        return ""
    record, near = accesses.record, _of_task_and_buffer(run, rows[0])
    for name, row in zip(("first", "second"), rows, strict=True):
        same_line = line_of[record[near]] == line_of[record[row]]
        writes = near[same_line & accesses.write[near]].tolist()
        if any(_replaced(accesses, near, write) >= 0 for write in (*writes[:_FIRST_EXECUTIONS], *writes[-1:])):
            return name
    return ""


def leaves_most_unread(run: Run, row: int) -> bool:
    """Return whether nothing reads most of what the line of a write writes to its buffer on chip, in its task.

    A missing sync leaves who reads what; a wrong part does not. A fill may prepare for later writes.
    """
    log, accesses, line_of = run.log, run.accesses, run.order.line_of
    record = int(accesses.record[row])
    memory, operation = log.allocations[int(accesses.alloc[row])].memory, log.ops[int(run.columns["op"][record])]
    if memory not in PRIVATE or operation in OTHERWISE_USED:
        return False
    near = accesses.where(_of_task_and_buffer(run, row))
    own = near.write & (line_of[near.record] == line_of[record]) & ~scratch_rows(log, run.columns, near)
    return 2 * len(are_read(near, own)) < int(own.sum())


def leaves_part_unread(run: Run, row: int) -> bool:
    """Return whether the line of a write also writes parts of its buffer that nothing ever reads.

    A task that reads the buffer may leave out its own part.
    """
    accesses, line_of, task_of = run.accesses, run.order.line_of, run.order.task_of
    rows = np.flatnonzero(accesses.alloc == accesses.alloc[row])
    reads = rows[~accesses.write[rows]]
    written = rows[accesses.write[rows] & (line_of[accesses.record[rows]] == line_of[accesses.record[row]])]
    written = written[~np.isin(task_of[accesses.record[written]], task_of[accesses.record[reads]])]
    parts = np.unique(np.stack([accesses.low[written], accesses.high[written]]), axis=1)
    return not all(
        ((accesses.low[reads] < high) & (accesses.high[reads] > low)).any() for low, high in parts.T.tolist()
    )


def replaced_before(run: Run, read: int) -> int:
    """Return the first write of a task to the buffer of its read, and before it, that replaces an unread result; or -1.

    Of the writes, the first ones are examined, and the last one.
    """
    accesses, near = run.accesses, _of_task_and_buffer(run, read)
    writes = near[accesses.write[near] & (accesses.record[near] < accesses.record[read])].tolist()
    examined = (*writes[:_FIRST_WRITES], *writes[-1:])
    return next((write for write in examined if _replaced(accesses, near, write) >= 0), -1)


def replaced_by(run: Run, record: int, alloc: int) -> int:
    """Return the operation whose result in an allocation another one replaces before anything reads it; or -1."""
    accesses = run.accesses
    writes = np.flatnonzero((accesses.record == record) & (accesses.alloc == alloc) & accesses.write).tolist()
    return max((_replaced(accesses, _of_task_and_buffer(run, write), write) for write in writes), default=-1)


def _of_task_and_buffer(run: Run, row: int) -> Integers:
    """Return the accesses by the task of an access to its allocation."""
    accesses = run.accesses
    of_task = run.order.task_of[accesses.record] == run.task(row)
    return np.flatnonzero(of_task & (accesses.alloc == accesses.alloc[row]))


def _replaced(accesses: Accesses, near: Integers, row: int) -> int:
    """Return the last earlier operation of its task on the bytes of a write, if it wrote the same bytes; else -1.

    An operation that reads the bytes that it writes uses what it replaces. A fill may clear what a copy then fills.

    Args:
        accesses: those of the run.
        near: the rows of the task and the allocation of the write.
        row: the write.
    """
    record = accesses.record
    rows = near[(accesses.low[near] < accesses.high[row]) & (accesses.high[near] > accesses.low[row])]
    rows = rows[record[rows] <= record[row]]
    own = record[rows] == record[row]
    if own.all() or not accesses.write[rows[own]].all():
        return -1
    last = rows[~own]
    last = last[record[last] == record[last].max()]
    same = (accesses.low[last] == accesses.low[row]) & (accesses.high[last] == accesses.high[row])
    is_fill = accesses.write[record == record[last[0]]].all()
    return int(record[last[0]]) if (accesses.write[last] & same).any() and not is_fill else -1

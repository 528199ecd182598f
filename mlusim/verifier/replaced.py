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
    """Return which line of a race overwrites results that nothing has read: "first", "second" or "".

    Either line may write bytes that a copy or an instruction has written before, with no read in between. The second
    one may read other bytes of the buffer. The first line of a race always writes.
    """
    accesses, line_of = run.accesses, run.order.line_of
    if not accesses.write[rows[0]]:
        return ""
    record, rows_of_buffer = accesses.record, _accesses_to_buffer(run, rows[0])
    for name, row in zip(("first", "second"), rows, strict=True):
        same_line = line_of[record[rows_of_buffer]] == line_of[record[row]]
        writes = rows_of_buffer[same_line & accesses.write[rows_of_buffer]].tolist()
        if any(
            _unread_replaced(accesses, rows_of_buffer, write) >= 0
            for write in (*writes[:_FIRST_EXECUTIONS], *writes[-1:])
        ):
            return name
    return ""


def leaves_most_unread(run: Run, row: int) -> bool:
    """Return whether nothing reads most of what the line of a write writes to its buffer on chip, in its task.

    A missing sync does not change which operation reads a buffer; a wrong index does. A fill may prepare for later
    writes.
    """
    log, accesses, line_of = run.log, run.accesses, run.order.line_of
    record = int(accesses.record[row])
    memory, operation = log.allocations[int(accesses.alloc[row])].memory, log.ops[int(run.columns["op"][record])]
    if memory not in PRIVATE or operation in OTHERWISE_USED:
        return False
    of_buffer = accesses.where(_accesses_to_buffer(run, row))
    stores = (
        of_buffer.write & (line_of[of_buffer.record] == line_of[record]) & ~scratch_rows(log, run.columns, of_buffer)
    )
    return 2 * len(are_read(of_buffer, stores)) < int(stores.sum())


def leaves_part_unread(run: Run, row: int) -> bool:
    """Return whether the line of a write also writes parts of its buffer that nothing ever reads.

    A task that reads the buffer may leave out its own part.
    """
    accesses, line_of, task_of = run.accesses, run.order.line_of, run.order.task_of
    rows = np.flatnonzero(accesses.alloc == accesses.alloc[row])
    reads = rows[~accesses.write[rows]]
    writes = rows[accesses.write[rows] & (line_of[accesses.record[rows]] == line_of[accesses.record[row]])]
    writes = writes[~np.isin(task_of[accesses.record[writes]], task_of[accesses.record[reads]])]
    parts = np.unique(np.stack([accesses.low[writes], accesses.high[writes]]), axis=1)
    return not all(
        ((accesses.low[reads] < high) & (accesses.high[reads] > low)).any() for low, high in parts.T.tolist()
    )


def replaced_before(run: Run, read: int) -> int:
    """Return the first write of a task to the buffer of its read, and before it, that replaces an unread result; or -1.

    Of the writes, the first ones are examined, and the last one.
    """
    accesses, rows_of_buffer = run.accesses, _accesses_to_buffer(run, read)
    writes = rows_of_buffer[
        accesses.write[rows_of_buffer] & (accesses.record[rows_of_buffer] < accesses.record[read])
    ].tolist()
    examined = (*writes[:_FIRST_WRITES], *writes[-1:])
    return next((write for write in examined if _unread_replaced(accesses, rows_of_buffer, write) >= 0), -1)


def replaced_by(run: Run, record: int, alloc: int) -> int:
    """Return the operation whose result in an allocation another one replaces before anything reads it; or -1."""
    accesses = run.accesses
    writes = np.flatnonzero((accesses.record == record) & (accesses.alloc == alloc) & accesses.write).tolist()
    return max((_unread_replaced(accesses, _accesses_to_buffer(run, write), write) for write in writes), default=-1)


def _accesses_to_buffer(run: Run, row: int) -> Integers:
    """Return the accesses by the task of an access to its allocation."""
    accesses = run.accesses
    of_task = run.order.task_of[accesses.record] == run.task(row)
    return np.flatnonzero(of_task & (accesses.alloc == accesses.alloc[row]))


def _unread_replaced(accesses: Accesses, rows_of_buffer: Integers, row: int) -> int:
    """Return the last earlier operation of its task on the bytes of a write, if it wrote the same bytes; else -1.

    An operation that reads the bytes that it writes uses what it replaces. A fill may clear what a copy then fills.

    Args:
        accesses: those of the run.
        rows_of_buffer: the rows of the task and the allocation of the write.
        row: the write.
    """
    record = accesses.record
    rows = rows_of_buffer[
        (accesses.low[rows_of_buffer] < accesses.high[row]) & (accesses.high[rows_of_buffer] > accesses.low[row])
    ]
    rows = rows[record[rows] <= record[row]]
    is_own_record = record[rows] == record[row]
    if is_own_record.all() or not accesses.write[rows[is_own_record]].all():
        return -1
    last = rows[~is_own_record]
    last = last[record[last] == record[last].max()]
    covers = (accesses.low[last] == accesses.low[row]) & (accesses.high[last] == accesses.high[row])
    is_fill = accesses.write[record == record[last[0]]].all()
    return int(record[last[0]]) if (accesses.write[last] & covers).any() and not is_fill else -1

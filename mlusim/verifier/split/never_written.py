"""Remedies for faults of the host that leave an output unwritten: too few tasks, arguments in the wrong order."""

from __future__ import annotations

import numpy as np

from mlusim.arrays import Integers
from mlusim.units import format_bytes
from mlusim.verifier.run import Run


def too_few_tasks(run: Run, rows: Integers, first: int, end: int) -> str:
    """Return the remedy for a gap that further tasks would fill; empty if there is none.

    There is one if each task writes an equal part of the output, in the order of the tasks, and nobody the rest.

    Args:
        run: the run.
        rows: the accesses to the output.
        first, end: the only gap.
    """
    accesses, order = run.accesses, run.order
    writes = rows[accesses.write[rows]]
    task = order.task_of[accesses.record[writes]]
    written_by = np.unique(task).tolist()
    records = [run.log.tasks[number] for number in written_by]
    if len({record.launch for record in records}) != 1 or any(record.is_memory_core for record in records):
        return ""
    parts = sorted(
        (record.task_id, int(accesses.low[writes[own]].min()), int(accesses.high[writes[own]].max()))
        for number, record in zip(written_by, records, strict=True)
        for own in (task == number,)
    )
    nbytes = parts[0][2] - parts[0][1]
    begin = first - len(parts) * nbytes
    regular = [(number, begin + number * nbytes, begin + (number + 1) * nbytes) for number in range(len(parts))]
    missing, rest = divmod(end - first, nbytes)
    if len(parts) < 2 or parts != regular or rest:
        return ""
    return (
        f"launch {len(parts) + missing} tasks, or let each task write more: the {len(parts)} tasks write "
        f"{format_bytes(nbytes)} each, one after the other, and no task writes the rest"
    )


def swapped_arguments(run: Run, identity: int, rows: Integers) -> str:
    """Return the remedy for an output that a launch reads, while it writes memory that the host has filled; else empty.

    Args:
        run: the run.
        identity: an allocation that is never written.
        rows: the accesses to it.
    """
    log, accesses, order = run.log, run.accesses, run.order
    launch = order.launch[order.task_of[accesses.record]]
    readers = np.unique(launch[rows]).tolist()
    for number in readers:
        own = launch == number
        written, read = (set(accesses.alloc[own & side].tolist()) for side in (accesses.write, ~accesses.write))
        filled = sorted((written - read) & log.host_writes)
        if filled:
            given, at = log.allocations[filled[0]].name, log.launches[number].launched_at
            name = log.allocations[identity].name
            return f"exchange {given} and {name} in the launch at {at}: it writes the one, which the host filled"
    return ""

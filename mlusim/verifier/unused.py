"""Allocations that are never used, and allocations of the host that are never freed."""

from __future__ import annotations

import numpy as np

from mlusim.log import NONE, Log
from mlusim.log_tables import AllocationRecord
from mlusim.units import format_bytes, plural
from mlusim.verifier.accesses.outputs import is_output
from mlusim.verifier.findings import Finding
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import source_file


def find_unused(run: Run) -> list[Finding]:
    """Find allocations never accessed, except outputs that a launch or the host gets: those count as never written."""
    log, accesses = run.log, run.accesses
    is_used = np.zeros(len(log.allocations), bool)
    is_used[accesses.alloc] = True
    is_used[list(accesses.unknown)] = True
    names: dict[tuple[str, str, str], list[int]] = {}
    in_use = set()
    for identity, record in enumerate(log.allocations):
        # Arrays of a file are for all its kernels. An operator without work launches nothing and accesses nothing.
        is_passed = identity in log.windows or identity in log.host.read_parts
        outputs = is_output(record) and is_passed and identity not in log.host.writes
        if record.nbytes and identity not in log.of_file and (record.task != NONE or (log.launches and not outputs)):
            key = (record.name, record.memory, "task" if record.task != NONE else f"host {identity}")
            names.setdefault(key, []).append(identity)
            if is_used[identity]:
                in_use.add(key)
    records = [(key, log.allocations[identities[0]], len(identities)) for key, identities in names.items()]
    return [
        _finding(run, record, times)
        for key, record, times in records
        if key not in in_use and (record.task == NONE or not _may_be_a_slot(run, record))
    ]


def _finding(run: Run, record: AllocationRecord, times: int) -> Finding:
    size = f"{format_bytes(record.nbytes)} of {record.memory.upper()}"
    if record.task == NONE and record.workspace:
        # Nothing tells whether a launch got its address.
        owner, remedy = "allocated by the host", "pass it to the kernel that should use it, or remove it"
    elif record.task == NONE:
        owner, remedy = "passed by the host", "remove it from the kernel's arguments"
    else:
        owner = f"allocated by task {run.log.tasks[record.task].task_id}"
        remedy = "remove it, or make the tiles larger"
    return Finding(
        kind="unused",
        title=f"no operation uses {record.name}, {size} {owner}",
        remedies=(remedy,),
        nbytes=record.nbytes,
        times=times,
        fields={"buffer": record.name},
        clues={"is_input": record.read_only},
    )


def _may_be_a_slot(run: Run, record: AllocationRecord) -> bool:
    """Return whether the loops of a task may have too few iterations to use its buffer, if that is a slot of a ring.

    A ring has at most as many slots as its task has buffers.
    """
    order, buffers = run.order, [(other.task, other.memory) for other in run.log.allocations]
    task_lines = order.line[order.of_task(record.task)]
    lines, times = np.unique(task_lines, return_counts=True)
    sources = (run.log.lines[line] for line in lines.tolist())
    looped = [bool(source_file(file).loops_around(line)) for file, line, _ in sources]
    return 0 < int(times[looped].max(initial=0)) <= buffers.count((record.task, record.memory))


def find_left(log: Log) -> list[Finding]:
    """Find host allocations that were not freed."""
    records = [record for record in log.allocations if record.end_ps < 0 and record.task == NONE]
    if not records:
        return []
    verb = "was" if len(records) == 1 else "were"
    names = ", ".join(f"{record.name} ({format_bytes(record.nbytes)})" for record in records[:4])
    others = f" and {len(records) - 4} more" if len(records) > 4 else ""
    return [
        Finding(
            kind="left",
            title=f"{plural(len(records), 'allocation')} in GDRAM {verb} not freed: {names}{others}",
            remedies=("free each one after its last use: device.free(view), or cnrtFree",),
            nbytes=sum(record.nbytes for record in records),
        )
    ]

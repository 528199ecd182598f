"""Detection of tasks that never end: too many operations, or polling of memory that no task will write.

Each task is checked from time to time. If the whole run has long done nothing but read the same few elements, and no
copy is in flight, no task will ever read another value. That is reported long before a task reaches the limit.

`mlusim.verify` also refuses a run that has long accessed only the same few operands in a `while` loop, as one without
its step does. A loop over a range ends, and one that decides by numbers that change may end: both may repeat a
calculation in NRAM. Other runs may repeat work on purpose, to measure it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mlusim.cores.atomics import ATOMIC_NAMES
from mlusim.cores.tasks.kernel_errors import foreign_core
from mlusim.errors import OperationLimitError
from mlusim.log import SYNC
from mlusim.memory.kinds import MemoryKind
from mlusim.units import group_digits

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.machine.chip import Chip

# A task is checked this often until it has issued the operations that it may.
_CHECKS = 250
# A run polls if this fraction, 1/n, of those operations have only read, and at least this number.
_SHARE = 25
_MIN_READS = 10_000
# Distinct elements that one task may poll: a task that reads more of them iterates over memory, and ends.
_MAX_POLLED = 16
# Distinct combinations of operands of one task in a run that is refused because it repeats itself.
_MAX_REPEATED = 64
# Combines the numbers of operands into one.
_FACTOR = 1_000_003


def first_check(max_operations: int) -> int:
    """Return the number of operations after which a task is first checked."""
    return max_operations // _CHECKS


def check_end(issuer: Issuer) -> None:
    """Raise for a task that has ended, did not await an operation or a coroutine, issues too many, or polls forever."""
    task, chip = issuer.task, issuer.chip
    if task.finished:
        raise foreign_core(task)
    if task.unawaited >= 0 or task.operations > chip.max_operations:
        raise task.refusal()
    dropped_error = task.dropped()
    if dropped_error is not None:
        raise task.refusal(dropped_error)
    if issuer.at_check is not None:
        issuer.at_check()
        return
    issuer.next_check = min(task.operations + max(first_check(chip.max_operations), 1), chip.max_operations)
    only_read = max(chip.max_operations // _SHARE, _MIN_READS)
    if _polls(chip, only_read):
        error = OperationLimitError(
            f"the latest {group_digits(only_read)} operations of the run wrote nothing: syncs, and reads of the same "
            "elements again and again. No task will write what they poll: let a concurrent task write it, or use a "
            "barrier. If the kernel needs more operations, raise max_operations"
        )
        error.polls = True
        raise task.refusal(error)
    if chip.refuses_repetition and task.loops_without_progress() and _repeats(chip, only_read):
        raise task.refusal(
            OperationLimitError(
                f"the latest {group_digits(only_read)} operations of the run access the same operands again and again: "
                "an endless loop? If the kernel needs them, raise max_operations"
            )
        )


def _polls(chip: Chip, only_read: int) -> bool:
    """Return whether the latest operations are syncs and reads of a few elements, with no other work in flight."""
    log = chip.log
    if only_read > log.count:
        return False
    latest = slice(log.count - only_read, log.count)
    element = log.records.column("a_alloc", latest)
    offset = log.records.column("a_offset", latest)
    written_allocations = log.records.column("dst_alloc", latest)
    of_task = log.records.column("task", latest)
    atomics = written_allocations >= 0
    if atomics.any():
        # Atomics that change nothing count as reads.
        atomics = np.isin(log.records.column("op", latest), [log.op(name) for name in ATOMIC_NAMES & {*log.ops}])
        if chip.changed_by_atomic > latest.start or ((written_allocations >= 0) & ~atomics).any():
            return False
        element = np.where(atomics, written_allocations, element)
        offset = np.where(atomics, log.records.column("dst_offset", latest), offset)
    if ((element < 0) & (log.records.column("pipe", latest) != SYNC)).any():
        return False
    if (element < 0).all():
        return True  # only syncs, which read nothing
    polling = {*np.unique(of_task).tolist()}
    tasks = [unit.task for unit in chip.units() if unit.task is not None]
    if len(polling) == 1 and not atomics.any():
        # If only this task can change the elements, other tasks do not matter even if they are still running.
        allocations = [log.allocations[index] for index in np.unique(element[element >= 0]).tolist()]
        private = all(allocation.read_only or allocation.memory == MemoryKind.NRAM.value for allocation in allocations)
        tasks = [task for task in tasks if task.index in polling] if private else tasks
    for task in tasks:
        # An atomic waits for all pending operations of its task, so after the first one only the next is pending.
        issues_atomics = int((atomics & (of_task == task.index)).sum()) > 1
        under_way = task.pending_io + task.pending_move > issues_atomics
        if under_way or not (task.index in polling or task.waits_for):
            return False
    read = np.stack([of_task, element, offset])
    return bool(np.unique(read, axis=1).shape[1] <= _MAX_POLLED * len(tasks))


def _repeats(chip: Chip, count: int) -> bool:
    """Return whether each running task has accessed only a few combinations of operands in the latest operations."""
    log = chip.log
    if count > log.count:
        return False
    max_distinct = _MAX_REPEATED * sum(unit.task is not None for unit in chip.units())
    # The latest part of them tells in most cases.
    for part in (count // 20, count):
        latest = slice(log.count - part, log.count)
        key = np.zeros(part, np.int64)
        for name in ("task", "dst_alloc", "dst_offset", "a_alloc", "a_offset", "b_alloc", "b_offset"):
            key = key * _FACTOR + log.records.column(name, latest)
        if len(np.unique(key)) > max_distinct:
            return False
    return True

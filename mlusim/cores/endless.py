"""Tasks that never end: one that issues more operations than the limit, and polls of what nobody will write.

A task is looked at now and then. Where the whole run has for long done nothing but read the same few elements, and no
copy is under way, no task will ever see another value. That is refused long before a task reaches the limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mlusim.cores.global_memory import ATOMIC_NAMES
from mlusim.errors import OperationLimitError
from mlusim.log import SYNC
from mlusim.memory.kinds import MemoryKind
from mlusim.units import group_digits

if TYPE_CHECKING:
    from mlusim.cores.chip import Chip
    from mlusim.cores.issuer import Issuer

# Looks at a task, and the operations of a run that only read, as shares of the operations that a task may issue.
_LOOKS, _SHARE, _LEAST = 250, 25, 10_000
# Elements that a task polls: more of them are a walk through memory, which ends.
_POLLED = 16


def first_look(max_operations: int) -> int:
    """The number of operations after which a task is looked at first."""
    return max_operations // _LOOKS


def check_end(issuer: Issuer) -> None:
    """Raise for a task with an operation that was not awaited, with too many operations, or that polls for ever."""
    task, chip = issuer.task, issuer.chip
    if task.unawaited >= 0 or task.operations > chip.max_operations:
        raise task.refusal()
    issuer.next_look = min(task.operations + max(first_look(chip.max_operations), 1), chip.max_operations)
    only_read = max(chip.max_operations // _SHARE, _LEAST)
    if _polls(chip, only_read):
        raise task.refusal(
            OperationLimitError(
                f"the latest {group_digits(only_read)} operations of the run wrote nothing: syncs, and reads of the "
                "same elements again and again. What they wait for never comes: let a task that runs beside this one "
                "write it, or use a barrier. Where the kernel needs more, raise max_operations"
            )
        )


def _polls(chip: Chip, only_read: int) -> bool:
    """Whether the latest operations are syncs and reads of a few elements, and no task has anything else under way."""
    log = chip.log
    if only_read > log.count:
        return False
    latest = slice(log.count - only_read, log.count)
    element = log.records.column("a_alloc", latest)
    offset = log.records.column("a_offset", latest)
    written = log.records.column("dst_alloc", latest)
    of_task = log.records.column("task", latest)
    atomics = written >= 0
    if atomics.any():
        # Atomics that found nothing to change only read.
        atomics = np.isin(log.records.column("op", latest), [log.op(name) for name in ATOMIC_NAMES & {*log.ops}])
        if chip.changed_by_atomic > latest.start or ((written >= 0) & ~atomics).any():
            return False
        element = np.where(atomics, written, element)
        offset = np.where(atomics, log.records.column("dst_offset", latest), offset)
    if ((element < 0) & (log.records.column("pipe", latest) != SYNC)).any():
        return False
    if (element < 0).all():
        return True  # syncs alone see nothing, whatever others do
    polling = {*np.unique(of_task).tolist()}
    tasks = [unit.task for unit in chip.units() if unit.task is not None]
    if len(polling) == 1 and not atomics.any():
        # What only this task could change: it reads that ahead of the others, which may still be at work.
        known = [log.allocations[one] for one in np.unique(element[element >= 0]).tolist()]
        private = all(one.read_only or one.memory == MemoryKind.NRAM.value for one in known)
        tasks = [task for task in tasks if task.index in polling] if private else tasks
    for task in tasks:
        # An atomic waits for all that its task has under way, so after a first one there is only the next.
        own = int((atomics & (of_task == task.index)).sum()) > 1
        under_way = task.pending_io + task.pending_move > own
        if under_way or not (task.index in polling or task.waits_for):
            return False
    read = np.stack([of_task, element, offset])
    return bool(np.unique(read, axis=1).shape[1] <= _POLLED * len(tasks))

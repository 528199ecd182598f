"""Equal tasks: those that do the same in memory that no other task accesses.

Tasks run the same code, and differ in what they load from shared memory and where they store it. If the uninitialised
bytes of one of them stay in its own memory and have no effect there, the same holds for all its equals. So the bytes of
one are followed, and those of the others only if that fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.log import NONE
from mlusim.verifier.run import Run
from mlusim.verifier.uninitialised.allocation_flow import AllocationFlow
from mlusim.verifier.uninitialised.flow import Flow
from mlusim.verifier.uninitialised.reads import UninitialisedRead

_SIDES = ("dst", "a", "b")
# In place of the number of an allocation that is not the task's own, or that no mark reaches.
_OTHER = -2
# The columns that decide how an operation propagates marks, besides those of `Log` by record.
_EFFECT = ("op", "pipe", "bytes_requested", "dst_box", "a_box", "b_box")


def reads_to_follow(run: Run, flow: AllocationFlow, reads: Sequence[UninitialisedRead]) -> list[int]:
    """Return the indices of the reads that may have an effect: without those of equal tasks that have been followed.

    Args:
        run, flow: the run.
        reads: its reads of uninitialised bytes.
    """
    all_numbers = list(range(len(reads)))
    alloc = np.array([read.alloc for read in reads], np.int64)
    owner = _owners(run)
    task = owner[alloc]
    if len(np.unique(task[task != NONE])) < 2:
        return all_numbers
    first = _EqualTasks(run, flow, reads, owner).first()
    has_equals = np.bincount(first, minlength=len(first))[first] > 1
    grouped = (task != NONE) & has_equals[task]
    if not grouped.any():
        return all_numbers
    # Marks of other reads must not come to the memory of equal tasks, nor theirs leave it.
    reached_tasks = owner[flow.reached_from(_flags(len(owner), alloc[~grouped]))]
    if has_equals[reached_tasks[reached_tasks != NONE]].any():
        return all_numbers
    models = [reads[number] for number in np.flatnonzero(grouped & (first[task] == task)).tolist()]
    if Flow(run, flow, models).stays_in(owner != NONE):
        return np.flatnonzero(~grouped).tolist()
    return all_numbers


def _owners(run: Run) -> Integers:
    """By allocation, return the only task that accesses it; NONE if there are several or none."""
    log, columns, accesses = run.log, run.columns, run.accesses
    owner = np.full(len(log.allocations), NONE)
    task = columns["task"][accesses.record]
    owner[accesses.alloc] = task
    owner[accesses.alloc[owner[accesses.alloc] != task]] = NONE
    owner[[*accesses.unknown]] = NONE
    return owner


class _EqualTasks:
    """The operations of each task on its own memory, as far as marks may reach it.

    Args:
        run, flow, reads: the run.
        owner: by allocation, the task that it belongs to, or NONE.
    """

    def __init__(self, run: Run, flow: AllocationFlow, reads: Sequence[UninitialisedRead], owner: Integers) -> None:
        self._log = run.log
        self._columns = run.columns
        self._reads = reads
        is_reached = flow.reached_from(_flags(len(owner), [read.alloc for read in reads])) & (owner != NONE)
        self._allocs = np.flatnonzero(is_reached)
        self._allocs = self._allocs[np.argsort(owner[self._allocs], kind="stable")]
        # By task, the first of its allocations among these.
        self._begins = np.searchsorted(owner[self._allocs], np.arange(len(run.log.tasks) + 1))
        # The number of each allocation among those of its task; the last entry stands for an absent operand.
        self._number = np.append(np.full(len(owner), _OTHER), NONE)
        self._number[self._allocs] = np.arange(len(self._allocs)) - self._begins[owner[self._allocs]]

    def first(self) -> Integers:
        """By task, return the first task that does the same."""
        first = np.arange(len(self._log.tasks))
        numbers = dict[Any, int]()
        for task, key in self._keys():
            first[task] = numbers.setdefault(key, task)
        return first

    def _keys(self) -> Iterator[tuple[int, Any]]:
        """Yield the tasks that have such memory, with what tasks that do the same have in common."""
        records = self._records()
        last_records = np.searchsorted(self._columns["task"][records], np.arange(len(self._begins))).tolist()
        tables = [self._effects(records), self._further(records)]
        for side in _SIDES:
            number = self._number[self._columns[f"{side}_alloc"][records]]
            tables += [number, np.where(number >= 0, self._columns[f"{side}_offset"][records], 0)]
        uninitialised = self._uninitialised(records, last_records)
        for task in np.flatnonzero(np.diff(self._begins)).tolist():
            part = slice(last_records[task], last_records[task + 1])
            yield task, (*uninitialised.get(task, ()), *(table[part].tobytes() for table in tables))

    def _records(self) -> Integers:
        """Return the operations on this memory, by task and in log order."""
        is_relevant = np.logical_or.reduce([self._number[self._columns[f"{side}_alloc"]] >= 0 for side in _SIDES])
        for record, operands in self._log.more_operands.items():
            is_relevant[record] |= any(self._number[alloc] >= 0 for alloc, _, _ in operands)
        records = np.flatnonzero(is_relevant)
        return records[np.argsort(self._columns["task"][records], kind="stable")]

    def _effects(self, records: Integers) -> Integers:
        """By operation, return a number that those of equal `_EFFECT` share."""
        table, instruction = self._log.records.instructions()
        effects = np.stack([table[name] for name in _EFFECT], axis=1)
        return np.unique(effects, axis=0, return_inverse=True)[1].reshape(-1)[instruction[records]]

    def _further(self, records: Integers) -> Integers:
        """By operation, return a number shared by those with equal attributes and additional operands.

        Where bytes decide which elements an operation accesses, no two are taken for equal.
        """
        log = self._log
        codes = np.zeros(len(records), np.int64)
        further = _positions_among(records, [*log.attributes, *log.more_operands, *log.addresses, *log.selected])
        numbers = dict[Any, int]()
        for position, record in zip(further.tolist(), records[further].tolist(), strict=True):
            operands = [self._operand(*operand) for operand in log.more_operands.get(record, ())]
            by_data = record if record in log.addresses or record in log.selected else NONE
            key = (by_data, *operands, *log.attributes.get(record, {}).items())
            codes[position] = numbers.setdefault(key, len(numbers) + 1)
        return codes

    def _operand(self, alloc: int, offset: int, box: int) -> tuple[int, int, int]:
        number = int(self._number[alloc])
        return number, offset if number >= 0 else 0, box

    def _uninitialised(self, records: Integers, last_records: Sequence[int]) -> dict[int, list[Any]]:
        """By task, return its uninitialised bytes: by operation, numbered in the task, and by allocation."""
        task_of = self._columns["task"]
        reads_by_task: dict[int, list[Any]] = {}
        for read in self._reads:
            number = int(self._number[read.alloc])
            if number >= 0:
                task = int(task_of[read.record])
                position = int(np.searchsorted(records[last_records[task] : last_records[task + 1]], read.record))
                reads_by_task.setdefault(task, []).append(
                    (position, number, read.starts.tobytes(), read.stops.tobytes())
                )
        return reads_by_task


def _positions_among(numbers: Integers, others: Sequence[int]) -> Integers:
    """Return the positions of those `numbers` that are among `others`."""
    return np.flatnonzero(np.isin(numbers, np.array(others, np.int64))) if others else np.empty(0, np.int64)


def _flags(count: int, indices: Any) -> Flags:
    flags = np.zeros(count, bool)
    flags[indices] = True
    return flags

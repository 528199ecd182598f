"""The log of one launch, extracted from the log of many.

A net or a host program runs many kernels on one device. Figures and pictures are made for one operator at a time, whose
inputs and output are host allocations; this module extracts such a log for each launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, NamedTuple, TypeVar

import numpy as np

from mlusim.arrays import Integers
from mlusim.dtypes import dtype_name
from mlusim.log import NONE, Log
from mlusim.log_tables import AllocationRecord
from mlusim.memory.view import View
from mlusim.records import COLUMNS

Value = TypeVar("Value")

_TASK, _WAITED_FOR = COLUMNS.index("task"), COLUMNS.index("waited_for")
_OPERANDS = tuple((COLUMNS.index(f"{name}_alloc"), COLUMNS.index(f"{name}_offset")) for name in ("dst", "a", "b"))


class Operand(NamedTuple):
    """A tensor argument of the launch: its name, its contiguous bytes, and whether the kernel only reads it."""

    name: str
    view: View
    read_only: bool


def log_of_launch(log: Log, launches: range, operands: Sequence[Operand], first_record: int = 0) -> Log:
    """Extract and renumber the records of a few successive launches, with their operands as host tensors.

    Args:
        log: log of a device whose launches have ended.
        launches: their indices in `log.launches`; empty for an operator that launched nothing. Earlier launches had
            ended when the first of these began.
        operands: the tensors, without repetition; each becomes an allocation, even if they are parts of one. Other host
            memory becomes an allocation of 0 bytes.
        first_record: lower bound on their first record.

    Times stay on the device's clock. The tables of names, lines and geometries are shared with `log`.
    """
    tasks = _trailing(log.tasks, lambda task: task.launch < launches.start, lambda task: task.launch in launches)
    new_task = _new_indices(tasks, len(log.tasks))
    # Not of the whole log, which is far longer than a launch in a program of many.
    table = np.stack(list(log.records.columns(first_record).values()), axis=1)
    rows = np.flatnonzero(new_task[table[:, _TASK]] != NONE)
    new_record = _new_indices(first_record + rows, log.count)
    table = table[rows]
    table[:, _TASK] = new_task[table[:, _TASK]]
    table[:, _WAITED_FOR] = new_record[table[:, _WAITED_FOR]]

    part = Log(log.board)
    allocations = _Allocations(log, operands, new_task)
    for identity, offset in _OPERANDS:
        table[:, identity], table[:, offset] = allocations.of(table[:, identity], table[:, offset])

    def selected(by_record: Mapping[int, Value]) -> dict[int, Value]:
        return {int(new_record[old]): value for old, value in by_record.items() if new_record[old] != NONE}

    part.addresses = selected(log.addresses)
    part.selected = selected(log.selected)
    part.attributes = selected(log.attributes)
    part.loops = selected(log.loops)
    part.joined = {call: int(new_record[copy]) for call, copy in selected(log.joined).items()}
    for record, extra in selected(log.more_operands).items():
        identity, offset, box = np.array(extra, np.int64).T
        operands_in_part = (*allocations.of(identity, offset), box)
        part.more_operands[record] = list(zip(*(column.tolist() for column in operands_in_part), strict=True))
    part.byte_copies = [*selected(dict.fromkeys(log.byte_copies))]
    part.seen = {*selected(dict.fromkeys(log.seen))}
    part.remarks = {
        key: replace(remark, task=int(new_task[remark.task]))
        for key, remark in log.remarks.items()
        if new_task[remark.task] != NONE
    }
    part.ops, part.lines, part.boxes = log.ops, log.lines, log.boxes
    part.calls, part.lambdas, part.sources = log.calls, log.lambdas, log.sources
    part.tasks = [replace(log.tasks[number], launch=log.tasks[number].launch - launches.start) for number in tasks]
    part.launches = [log.launches[number] for number in launches]
    part.allocations = allocations.records
    part.records.put_table(table)
    return part


def _trailing(
    records: Sequence[Value], is_earlier: Callable[[Value], bool], is_wanted: Callable[[Value], bool]
) -> list[int]:
    """Return the indices of the wanted records, all of which follow the last one that is of an earlier launch."""
    not_earlier = takewhile(lambda number: not is_earlier(records[number]), reversed(range(len(records))))
    return [number for number in not_earlier if is_wanted(records[number])][::-1]


def _new_indices(selected: Any, count: int) -> Integers:
    """Return new indices by old index; NONE for dropped ones, and as the last entry, so that NONE maps to NONE."""
    numbers = np.full(count + 1, NONE, np.int64)
    numbers[selected] = np.arange(len(selected))
    return numbers


class _Allocations:
    """The allocations of the extracted log, and the mapping from allocations and offsets of the device."""

    def __init__(self, log: Log, operands: Sequence[Operand], new_task: Integers) -> None:
        # A tensor passed twice is one allocation.
        distinct = {
            (operand.view.allocation, operand.view.offset, operand.view.nbytes): operand for operand in operands
        }
        self.operands = [*distinct.values()]
        self.records = [_record(log, operand) for operand in self.operands]
        self._new = np.full(len(log.allocations) + 1, NONE, np.int64)
        first = min(np.flatnonzero(new_task != NONE).tolist(), default=len(new_task))
        of_tasks = _trailing(
            log.allocations,
            lambda record: NONE < record.task < first,
            lambda record: bool(new_task[record.task] != NONE),
        )
        for identity in of_tasks:
            record = log.allocations[identity]
            self._new[identity] = len(self.records)
            self.records.append(replace(record, task=int(new_task[record.task])))
        self._log = log

    def of(self, identity: Integers, offset: Integers) -> tuple[Integers, Integers]:
        """Return new identities and offsets."""
        new_identity, new_offset = self._new[identity], offset.copy()
        for number, operand in enumerate(self.operands):
            start = operand.view.offset
            is_inside = (identity == operand.view.allocation.identity) & (offset >= start)
            is_inside &= offset < start + operand.view.nbytes
            new_identity[is_inside] = number
            new_offset[is_inside] -= start
        for old_identity in np.unique(identity[(new_identity == NONE) & (identity != NONE)]).tolist():
            self._new[old_identity] = len(self.records)
            new_identity[identity == old_identity] = len(self.records)
            record = self._log.allocations[old_identity]
            self.records.append(replace(record, nbytes=0, shape=(0,), read_only=True))
        return new_identity, new_offset


def _record(log: Log, operand: Operand) -> AllocationRecord:
    view = operand.view
    record = log.allocations[view.allocation.identity]
    return replace(
        record,
        name=operand.name,
        address=record.address + view.offset,
        nbytes=view.nbytes,
        dtype=dtype_name(view.dtype),
        shape=view.shape,
        read_only=operand.read_only,
    )

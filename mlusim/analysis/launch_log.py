"""The log of one launch, extracted from the log of many.

A net and a host program run many kernels on one device. Every figure and picture is made for one operator at a time,
with inputs and an output that are the host's allocations; here is that log for each launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mlusim.dtypes import dtype_name
from mlusim.log import NONE, AllocationRecord, Log
from mlusim.memory.view import View
from mlusim.records import COLUMNS

Integers = np.ndarray[Any, np.dtype[np.int64]]

_TASK, _WAITED_FOR = COLUMNS.index("task"), COLUMNS.index("waited_for")
_OPERANDS = tuple((COLUMNS.index(f"{name}_alloc"), COLUMNS.index(f"{name}_offset")) for name in ("dst", "a", "b"))


class Operand(NamedTuple):
    """A tensor that the launch was given: its name, its contiguous bytes, and whether the kernel only reads it."""

    name: str
    view: View
    read_only: bool


def log_of_launch(log: Log, launch: int | range | None, operands: Sequence[Operand], first_record: int = 0) -> Log:
    """The records of one launch, or of a few in a row, renumbered, its operands the only allocations of the host.

    Args:
        log: of a device whose launches have ended.
        launch: index in `log.launches`, or a range of them; None for an operator that launched nothing.
        operands: the tensors, each once; parts of one allocation become an allocation each. Memory of the host that is
            none of them becomes an allocation of no bytes.
        first_record: the launch has no record before this one.

    Times stay those of the device's clock. The tables of names, lines and geometries are shared with `log`.
    """
    launches = range(0) if launch is None else range(launch, launch + 1) if isinstance(launch, int) else launch
    tasks = [number for number, task in enumerate(log.tasks) if task.launch in launches]
    new_task = _renumbered(tasks, len(log.tasks))
    table = log.table()[first_record:]
    rows = np.flatnonzero(new_task[table[:, _TASK]] != NONE)
    new_record = _renumbered(first_record + rows, log.count)
    table = table[rows]
    table[:, _TASK] = new_task[table[:, _TASK]]
    table[:, _WAITED_FOR] = new_record[table[:, _WAITED_FOR]]

    one = Log(log.board)
    places = _Places(log, operands, new_task)
    for identity, offset in _OPERANDS:
        table[:, identity], table[:, offset] = places.of(table[:, identity], table[:, offset])
    one.addresses = {int(new_record[old]): kept for old, kept in log.addresses.items() if new_record[old] != NONE}
    for old, more in log.more_operands.items():
        if new_record[old] != NONE:
            identity, offset, box = np.array(more, np.int64).T
            moved = zip(*(column.tolist() for column in (*places.of(identity, offset), box)), strict=True)
            one.more_operands[int(new_record[old])] = list(moved)
    one.loops = {int(new_record[old]): loop for old, loop in log.loops.items() if new_record[old] != NONE}
    one.byte_copies = [int(new_record[old]) for old in log.byte_copies if new_record[old] != NONE]
    one.joined = {
        int(new_record[call]): int(new_record[copy]) for call, copy in log.joined.items() if new_record[call] != NONE
    }
    one.ops, one.lines, one.boxes = log.ops, log.lines, log.boxes
    one.tasks = [replace(log.tasks[number], launch=log.tasks[number].launch - launches.start) for number in tasks]
    one.launches = [log.launches[number] for number in launches]
    one.allocations = places.records
    one.records.put_table(table)
    return one


def _renumbered(kept: Any, count: int) -> Integers:
    """New numbers by old one; NONE for those that are left out, and at the end, so that NONE stays NONE."""
    numbers = np.full(count + 1, NONE, np.int64)
    numbers[kept] = np.arange(len(kept))
    return numbers


class _Places:
    """Allocations of the one launch, and where in them an allocation and offset of the device lie."""

    def __init__(self, log: Log, operands: Sequence[Operand], new_task: Integers) -> None:
        # A tensor that is given twice is in memory once.
        places = {(operand.view.allocation, operand.view.offset, operand.view.nbytes): operand for operand in operands}
        self.operands = [*places.values()]
        self.records = [_record(log, operand) for operand in self.operands]
        self._new = np.full(len(log.allocations) + 1, NONE, np.int64)
        for identity, record in enumerate(log.allocations):
            if record.task != NONE and new_task[record.task] != NONE:
                self._new[identity] = len(self.records)
                self.records.append(replace(record, task=int(new_task[record.task])))
        self._log = log

    def of(self, identity: Integers, offset: Integers) -> tuple[Integers, Integers]:
        """New identities and offsets."""
        new, moved = self._new[identity], offset.copy()
        for number, operand in enumerate(self.operands):
            start = operand.view.offset
            inside = (identity == operand.view.allocation.identity) & (offset >= start)
            inside &= offset < start + operand.view.nbytes
            new[inside] = number
            moved[inside] -= start
        for unknown in np.unique(identity[(new == NONE) & (identity != NONE)]).tolist():
            self._new[unknown] = len(self.records)
            new[identity == unknown] = len(self.records)
            record = self._log.allocations[unknown]
            self.records.append(replace(record, nbytes=0, shape=(0,), read_only=True))
        return new, moved


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

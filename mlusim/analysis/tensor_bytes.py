"""Bytes by allocation off chip: requested, on the DRAM bus, and compulsory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mlusim.analysis.distinct_bytes import distinct_bytes
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.log_parts import parts_of
from mlusim.arrays import Integers
from mlusim.log import NONE

# Columns of `bytes_by_allocation`.
READ, WRITTEN, BUS_READ, BUS_WRITE = range(4)


def bytes_by_allocation(records: LogColumns) -> Integers:
    """(allocations, 4) bytes read, written, read on the bus, written on the bus, of memory off chip.

    Bus bytes sum to those of the log. The bytes that a record reads belong to the operand that it reads or, if none of
    them is off chip, to the operand that it writes: partly written units are read first.
    """
    return sum((_sums(part) for part in parts_of(records)), np.zeros((len(records.log.allocations), 4), np.int64))


def _sums(records: LogColumns) -> Integers:
    count = len(records.log.allocations)
    source = np.where(records.off_chip(records.a_alloc), records.a_alloc, NONE)
    source = np.where((source == NONE) & records.off_chip(records.b_alloc), records.b_alloc, source)
    target = np.where(records.off_chip(records.dst_alloc), records.dst_alloc, NONE)
    read_for = np.where(source == NONE, target, source)

    def total(owner: Integers, amount: Integers) -> Integers:
        # The last entry is for operands without an allocation.
        sums = np.zeros(count + 1, np.int64)
        np.add.at(sums, owner, amount)
        return sums[:-1]

    return np.stack(
        [
            total(source, records.bytes_requested),
            total(target, records.bytes_requested),
            total(read_for, records.bus_read_bytes),
            total(target, records.bus_write_bytes),
        ],
        axis=1,
    )


def compulsory_by_allocation(records: LogColumns, roles: Mapping[int, str], moved: Integers) -> dict[int, int]:
    """Return the bytes of each tensor of the host that must move: all of it once, but at most what moved of it, once.

    An input is read, an output written; a workspace has none. If nothing at all moved in that direction, all bytes of
    the tensors count.

    Args:
        records: the records of the run.
        roles: as `Log.roles`.
        moved: as `bytes_by_allocation`.
    """
    any_moved = moved.sum(axis=0) > 0
    column = {"input": BUS_READ, "output": BUS_WRITE}
    distinct = distinct_bytes(records, roles)
    compulsory = {}
    for identity, role in roles.items():
        if role in column:
            compulsory[identity] = records.log.allocations[identity].nbytes
            if any_moved[column[role]]:
                limits = int(moved[identity, column[role]]), distinct.get(identity, compulsory[identity])
                compulsory[identity] = min(compulsory[identity], *limits)
    return compulsory

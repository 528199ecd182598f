"""Traffic by tensor in off-chip memory, and the compulsory bytes: as data, and as rows of a table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.page.parts import esc
from mlusim.analysis.windows import pieces
from mlusim.arrays import Integers
from mlusim.log import NONE
from mlusim.units import group_digits


class TensorTraffic(NamedTuple):
    """One tensor of the host, or the LDRAM of all tasks.

    Attributes:
        name, shape, dtype: the tensor.
        is_input: the host wrote it, and kernels only read it.
        compulsory_bytes: its size: an input read once, an output written once; 0 for workspace and LDRAM.
        read_bytes, written_bytes: bytes requested by kernels.
        bus_read_bytes, bus_write_bytes: its bytes on the DRAM bus, including units read because they are partly
            written.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_input: bool
    compulsory_bytes: int
    read_bytes: int
    written_bytes: int
    bus_read_bytes: int
    bus_write_bytes: int


LDRAM = "LDRAM of tasks"


def tensor_traffic(records: LogColumns) -> list[TensorTraffic]:
    """Return the tensors of the host in order of creation, then LDRAM if any was used.

    Bus bytes sum to those of the log. The bytes that a record reads belong to the operand that it reads or, if none of
    them is off chip, to the operand that it writes: partly written units are read first.
    """
    log = records.log
    sums = sum((_sums(part) for part in pieces(records)), np.zeros((len(log.allocations), 4), np.int64))
    rows = []
    local = np.zeros(4, np.int64)
    roles = log.roles()
    for identity, (record, moved) in enumerate(zip(log.allocations, sums, strict=True)):
        role = roles.get(identity)
        if role is not None:
            compulsory = 0 if role == "workspace" else record.nbytes
            rows.append(
                TensorTraffic(record.name, record.shape, record.dtype, role == "input", compulsory, *moved.tolist())
            )
        else:
            local += moved
    if local.any():
        rows.append(TensorTraffic(LDRAM, (), "", False, 0, *local.tolist()))
    return rows


def _sums(records: LogColumns) -> Integers:
    """(allocations, 4) bytes read, written, read on the bus, written on the bus."""
    count = len(records.log.allocations)
    source = np.where(records.off_chip(records.a_alloc), records.a_alloc, NONE)
    second = getattr(records, "b_alloc", source)
    source = np.where((source == NONE) & records.off_chip(second), second, source)
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


def tensor_row(tensor: TensorTraffic) -> list[str]:
    """Return the cells of a tensor: bytes, and the ratio to the compulsory bytes."""
    bus = tensor.bus_read_bytes + tensor.bus_write_bytes
    shape = f"{tensor.dtype} {list(tensor.shape)}, {'input' if tensor.is_input else 'output'}" if tensor.dtype else ""
    ratio = f"{bus / tensor.compulsory_bytes:.2f} x" if tensor.compulsory_bytes else ""
    amounts = (
        tensor.compulsory_bytes,
        tensor.read_bytes,
        tensor.written_bytes,
        tensor.bus_read_bytes,
        tensor.bus_write_bytes,
    )
    about = f"<br><small>{esc(shape)}</small>" if shape else ""
    return [f"{esc(tensor.name)}{about}", *map(group_digits, amounts), ratio]

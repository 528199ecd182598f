"""Traffic by tensor in off-chip memory, and the compulsory bytes: as data, and as rows of a table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.page.parts import esc
from mlusim.analysis.tensor_bytes import bytes_by_allocation, compulsory_by_allocation
from mlusim.units import group_digits, ratio


class TensorTraffic(NamedTuple):
    """One tensor of the host, or the LDRAM of all tasks.

    Attributes:
        name, shape, dtype: the tensor.
        is_input: the host wrote it, and kernels only read it.
        compulsory_bytes: an input read once, an output written once, but only what moved; 0 for workspace and LDRAM.
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
    """Return the tensors of the host in order of creation, then LDRAM if any was used; see `bytes_by_allocation`."""
    log = records.log
    sums = bytes_by_allocation(records)
    rows = []
    local = np.zeros(4, np.int64)
    roles = log.roles()
    compulsory = compulsory_by_allocation(records, roles, sums)
    for identity, (record, sums_of_tensor) in enumerate(zip(log.allocations, sums, strict=True)):
        role = roles.get(identity)
        if role is not None:
            compulsory_bytes = compulsory.get(identity, 0)
            rows.append(
                TensorTraffic(
                    record.name, record.shape, record.dtype, role == "input", compulsory_bytes, *sums_of_tensor.tolist()
                )
            )
        else:
            local += sums_of_tensor
    if local.any():
        rows.append(TensorTraffic(LDRAM, (), "", False, 0, *local.tolist()))
    return rows


def tensor_row(tensor: TensorTraffic) -> list[str]:
    """Return the cells of a tensor: bytes, and the ratio to the compulsory bytes."""
    bus = tensor.bus_read_bytes + tensor.bus_write_bytes
    shape = f"{tensor.dtype} {list(tensor.shape)}, {'input' if tensor.is_input else 'output'}" if tensor.dtype else ""
    amounts = (
        tensor.compulsory_bytes,
        tensor.read_bytes,
        tensor.written_bytes,
        tensor.bus_read_bytes,
        tensor.bus_write_bytes,
    )
    about = f"<br><small>{esc(shape)}</small>" if shape else ""
    return [f"{esc(tensor.name)}{about}", *map(group_digits, amounts), ratio(bus, tensor.compulsory_bytes)]

"""The tensors that leave the board, and the part of a tensor that launches get."""

from __future__ import annotations

import math

from mlusim.log import NONE, Log
from mlusim.log_tables import AllocationRecord, Box


def is_output(record: AllocationRecord) -> bool:
    """Return whether an allocation is a host tensor that kernels write."""
    return record.task == NONE and not (record.read_only or record.workspace)


def outputs_of(log: Log) -> list[bool]:
    """By allocation, return whether its bytes leave the board: an output, or memory that a program copies back."""
    return [is_output(record) or number in log.host.read_parts for number, record in enumerate(log.allocations)]


def window_of(log: Log, identity: int) -> tuple[int, Box] | None:
    """Return offset and box of the one part of a tensor passed to launches; None if all of it was passed."""
    windows = log.windows.get(identity, set())
    if len(windows) != 1:
        return None
    offset, code = next(iter(windows))
    box = log.boxes[code]
    return None if math.prod(box.shape) * box.itemsize == log.allocations[identity].nbytes else (offset, box)

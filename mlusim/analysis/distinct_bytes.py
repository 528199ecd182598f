"""Bytes on the DRAM bus that a run needs at least once: a unit that moves several times counts once."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from mlusim.analysis.intervals import intervals, lengths, no_intervals, union
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.log_parts import PART_RECORDS, parts_of
from mlusim.arrays import Integers
from mlusim.memory.layout import is_contiguous

# Operations that move rows: those that the log lists, else the first ones.
_BY_ROWS = ("memcpy_rows", "gather", "scatter")


def distinct_bytes(records: LogColumns, roles: Mapping[int, str]) -> dict[int, int]:
    """Return the bytes of the units that moved, each unit once: of an input those read, of an output those written.

    An access with gaps counts once for each place and geometry, so units that two such accesses share count twice. A
    tensor is left out if the log does not tell which of its rows moved: in a timing-only run whose kernel reads their
    numbers.

    Args:
        records: records of the run.
        roles: as `Log.roles`.
    """
    by_tensor: dict[int, int] = {}
    for role, write in (("input", False), ("output", True)):
        counter = _MovedBytes(records, {tensor for tensor, its_role in roles.items() if its_role == role}, write=write)
        for part in parts_of(records):
            counter.add(part)
        by_tensor |= counter.nbytes()
    return by_tensor


class _MovedBytes:
    """The bytes of some tensors that a run moved in one direction."""

    def __init__(self, records: LogColumns, tensors: set[int], *, write: bool) -> None:
        log = records.log
        self._tensors, self._write = tensors, write
        self._unit_bytes = records.board.dram_unit_bytes
        # The last element of each array is that of NONE.
        self._is_wanted = np.array([*(identity in tensors for identity in range(len(log.allocations))), False])
        self._address = np.array([*(record.address for record in log.allocations), 0], np.int64)
        self._by_rows = np.array([*(name in _BY_ROWS for name in log.ops), False])
        # By box, its size if it has no gaps, else 0.
        self._contiguous_bytes = np.array(
            [
                math.prod(box.shape) * box.itemsize if is_contiguous(box.shape, box.strides, box.itemsize) else 0
                for box in log.boxes
            ]
            + [0],
            np.int64,
        )
        self._records_of_unknown_rows = [record for record, rows in log.addresses.items() if "unknown" in rows]
        self._tensors_of_unknown_rows: set[int] = set()
        # Units by tensor, and those not yet joined with them.
        self._units = no_intervals()
        self._new_runs: list[Integers] = []
        self._runs_to_join = 0
        # Accesses with gaps: tensor, offset, box, bytes on the bus.
        self._gapped: Integers = np.empty((0, 4), np.int64)

    def add(self, part: LogColumns) -> None:
        """Add the accesses of a part of the log."""
        if self._write:
            owner, offset, box, bus = part.dst_alloc, part.dst_offset, part.dst_box, part.bus_write_bytes
        else:
            second = ~part.off_chip(part.a_alloc)
            owner = np.where(second, part.b_alloc, part.a_alloc)
            offset = np.where(second, part.b_offset, part.a_offset)
            box, bus = np.where(second, part.b_box, part.a_box), part.bus_read_bytes
        rows = np.flatnonzero(self._is_wanted[owner] & (bus > 0))
        unread = np.isin(part.number[rows], self._records_of_unknown_rows)
        self._tensors_of_unknown_rows.update(owner[rows[unread]].tolist())
        by_rows = self._by_rows[part.op[rows]]
        for row in rows[by_rows].tolist():
            first, nbytes = self._rows(part, row, int(box[row]))
            self._add_runs(int(owner[row]), int(offset[row]) + first, nbytes)
        others = rows[~by_rows]
        nbytes = np.minimum(self._contiguous_bytes[box[others]], part.bytes_requested[others])
        self._add_runs(owner[others], offset[others], nbytes)
        gapped = others[nbytes == 0]
        gapped_accesses = np.stack([column[gapped] for column in (owner, offset, box, bus)], axis=1)
        self._gapped = _largest_by_box(np.concatenate([self._gapped, gapped_accesses]))
        self._join()

    def _rows(self, part: LogColumns, row: int, number: int) -> tuple[Integers, Integers | int]:
        """Return the first byte, in its operand, of each row or run of rows that an operation moves, and its size."""
        box = part.log.boxes[number]
        row_bytes = box.itemsize * math.prod(box.shape[1:])
        addresses = part.log.addresses.get(int(part.number[row]), {})
        rows = addresses.get("dst" if self._write else "src")
        if rows is None:
            rows = np.arange(int(part.bytes_requested[row]) // row_bytes)
        lengths_of_runs = 1 if self._write else addresses.get("lengths", 1)
        return rows.astype(np.int64) * box.strides[0], lengths_of_runs * row_bytes

    def _add_runs(self, owner: Integers | int, offset: Integers, nbytes: Integers | int) -> None:
        first = self._address[owner] + offset
        end = np.where(np.asarray(nbytes) > 0, -(-(first + nbytes) // self._unit_bytes), 0)
        self._new_runs.append(intervals(owner, first // self._unit_bytes, end))
        self._runs_to_join += len(self._new_runs[-1])
        if self._runs_to_join > PART_RECORDS:
            self._join()

    def _join(self) -> None:
        """Join the new units with the others, to save memory."""
        self._units = union(self._units, *self._new_runs)
        self._new_runs.clear()
        self._runs_to_join = 0

    def nbytes(self) -> dict[int, int]:
        """Return the bytes by tensor."""
        total = lengths(self._units, len(self._is_wanted)) * self._unit_bytes
        np.add.at(total, self._gapped[:, 0], self._gapped[:, 3])
        return {tensor: int(total[tensor]) for tensor in self._tensors - self._tensors_of_unknown_rows}


def _largest_by_box(accesses: Integers) -> Integers:
    """Return one access for each tensor, offset and box: that with the most bytes."""
    by_box = accesses[np.lexsort(accesses.T[::-1])]
    last = np.ones(len(by_box), bool)
    last[:-1] = (by_box[1:, :3] != by_box[:-1, :3]).any(axis=1)
    return by_box[last]

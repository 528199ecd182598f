"""Lost writes: bytes overwritten within a launch before anything reads them.

A second write is not an error if it is an update, which reads what it replaces (an atomic, or a load, an addition and a
store), or if it overwrites an initial fill with a constant.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mlusim.cores.sets_and_atomics import SET_NAMES
from mlusim.log import NONE, Log
from mlusim.verifier.accesses import Accesses
from mlusim.verifier.cells import Cells, Flags
from mlusim.verifier.geometry import Integers
from mlusim.verifier.happens_before import Order

# Instructions that fill memory with one value.
FILLS = frozenset({*SET_NAMES, "write_zero", "write_value", "fill"})
_FIRST_STEP = 16


@dataclass(frozen=True, slots=True)
class Overwrites:
    """Counts lost writes in one log.

    Attributes:
        log, accesses, order: the run.
    """

    log: Log
    accesses: Accesses
    order: Order
    _fills: dict[int, bool] = field(default_factory=dict)
    _writes: dict[int, Integers] = field(default_factory=dict)

    def count(self, cells: Cells, joined: Accesses, rows: Integers, among: Flags) -> Integers:
        """By cell, count the writes to bytes whose earlier write in the same launch was never read.

        Args:
            cells: the cells of a tensor.
            joined: the accesses that the cells are made of.
            rows: the rows of `joined` that are accesses of the run, in log order.
            among: cells of interest.
        """
        lost_writes = np.zeros(len(cells), np.int64)
        # By cell, the record of its last write that has not been read.
        pending = np.full(len(cells), NONE, np.int64)
        # An atomic reads what it replaces, so reads sort before writes of the same record.
        rows = rows[np.lexsort((joined.write[rows], joined.record[rows]))]
        launch_of = self.order.launch[self.order.task[self.order.position[joined.record[rows]]]]
        for launch in np.unique(launch_of).tolist():
            pending[...] = NONE
            for row in rows[launch_of == launch].tolist():
                touched = cells.of(row)
                if not joined.write[row]:
                    pending[touched] = NONE
                    continue
                before = np.where(among[touched], pending[touched], NONE)
                record = int(joined.record[row])
                lost = [
                    writer
                    for writer in np.unique(before).tolist()
                    if writer != NONE and not self._may_replace(writer, record)
                ]
                if lost:
                    lost_writes[touched] += np.isin(before, lost)
                pending[touched] = record
        return lost_writes

    def _may_replace(self, record: int, later: int) -> bool:
        """Return whether an operation only initialises what `later` writes. Two equal fills count as a lost write."""
        if self._name(record) in FILLS:
            return True
        return self._is_fill(record) and not self._is_fill(later)

    def _is_fill(self, record: int) -> bool:
        """Return whether an operation writes a single value: a fill, or a copy of a buffer that a fill wrote."""
        is_fill = self._fills.get(record)
        if is_fill is None:
            is_fill = self._fills[record] = self._name(record) in FILLS or self._copies_a_fill(record)
        return is_fill

    def _name(self, record: int) -> str:
        return self.log.ops[self.log.records.op(record)]

    def _copies_a_fill(self, record: int) -> bool:
        accesses = self.accesses
        first, after = np.searchsorted(accesses.record, [record, record + 1])
        sources = first + np.flatnonzero(~accesses.write[first:after])
        if len(sources) != 1:
            return False
        alloc, low, high = (int(column[sources[0]]) for column in (accesses.alloc, accesses.low, accesses.high))
        writes = self._writes_of(alloc)
        stop, step = int(np.searchsorted(writes, first)), _FIRST_STEP
        while stop:
            # Search backwards in growing steps: the last write is usually near, but there may be a million.
            rows = writes[max(stop - step, 0) : stop]
            rows = rows[(accesses.low[rows] < high) & (accesses.high[rows] > low)]
            if len(rows):
                last = int(rows[-1])
                covers = int(accesses.low[last]) <= low and int(accesses.high[last]) >= high
                return covers and self._name(int(accesses.record[last])) in FILLS
            stop, step = max(stop - step, 0), 2 * step
        return False

    def _writes_of(self, alloc: int) -> Integers:
        """Return the accesses that write to an allocation, in log order."""
        if alloc not in self._writes:
            self._writes[alloc] = np.flatnonzero((self.accesses.alloc == alloc) & self.accesses.write)
        return self._writes[alloc]

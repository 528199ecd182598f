"""Lost writes: bytes that are overwritten within a launch before anything reads them.

A second write is no fault where it is meant to follow the first: an update reads what it replaces (an atomic, or a
load, an addition and a store), and a fill with one value is there to be written over.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mlusim.cores.global_memory import SET_NAMES
from mlusim.log import NONE, Log
from mlusim.verifier.accesses import Accesses
from mlusim.verifier.boxes import Integers
from mlusim.verifier.cells import Cells, Flags
from mlusim.verifier.order import Order

# Instructions that write one value all over, in whatever memory.
FILLS = frozenset({*SET_NAMES, "write_zero", "write_value", "fill"})
_LOOK_BACK = 16


@dataclass(frozen=True, slots=True)
class Overwrites:
    """Counts overwrites in one log.

    Attributes:
        log, accesses, order: of the run.
    """

    log: Log
    accesses: Accesses
    order: Order
    _fills: dict[int, bool] = field(default_factory=dict)
    _writes: dict[int, Integers] = field(default_factory=dict)

    def count(self, cells: Cells, joined: Accesses, rows: Integers, among: Flags) -> Integers:
        """By cell, how many writes fall on bytes whose earlier write in the same launch nobody has read.

        Args:
            cells: of a tensor.
            joined: the accesses that the cells are made of.
            rows: of them, the accesses of the run, in the order of the log.
            among: cells that matter.
        """
        found = np.zeros(len(cells), np.int64)
        # By cell, the record of its last write that nobody has read.
        pending = np.full(len(cells), NONE, np.int64)
        # An atomic reads what it replaces, whatever wrote that.
        rows = rows[np.lexsort((joined.write[rows], joined.record[rows]))]
        launch_of = self.order.launch[self.order.task[self.order.place[joined.record[rows]]]]
        for launch in np.unique(launch_of).tolist():
            pending[...] = NONE
            for row in rows[launch_of == launch].tolist():
                touched = cells.of(row)
                if not joined.write[row]:
                    pending[touched] = NONE
                    continue
                before = np.where(among[touched], pending[touched], NONE)
                record = int(joined.record[row])
                lost = [one for one in np.unique(before).tolist() if one != NONE and not self._may_replace(one, record)]
                if lost:
                    found[touched] += np.isin(before, lost)
                pending[touched] = record
        return found

    def _may_replace(self, record: int, later: int) -> bool:
        """Whether an operation only prepares what a later one writes. Two copies of a fill are one done twice."""
        if self._name(record) in FILLS:
            return True
        return self._is_fill(record) and not self._is_fill(later)

    def _is_fill(self, record: int) -> bool:
        """Whether an operation writes one value: itself, or from a buffer that such an instruction filled."""
        known = self._fills.get(record)
        if known is None:
            known = self._fills[record] = self._name(record) in FILLS or self._copies_a_fill(record)
        return known

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
        stop, step = int(np.searchsorted(writes, first)), _LOOK_BACK
        while stop:
            # Backwards in growing steps: the last write is mostly near, and there may be a million.
            rows = writes[max(stop - step, 0) : stop]
            rows = rows[(accesses.low[rows] < high) & (accesses.high[rows] > low)]
            if len(rows):
                last = int(rows[-1])
                covers = int(accesses.low[last]) <= low and int(accesses.high[last]) >= high
                return covers and self._name(int(accesses.record[last])) in FILLS
            stop, step = max(stop - step, 0), 2 * step
        return False

    def _writes_of(self, alloc: int) -> Integers:
        """The accesses that write to an allocation, in the order of the log."""
        if alloc not in self._writes:
            self._writes[alloc] = np.flatnonzero((self.accesses.alloc == alloc) & self.accesses.write)
        return self._writes[alloc]

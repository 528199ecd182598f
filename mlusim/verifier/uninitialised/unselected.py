"""Elements of a buffer beyond those that a filter selected, stored with them.

A filter writes the selected elements, and leaves the rest of its destination unchanged. A kernel that stores the whole
buffer is correct if its reader knows the number of selected elements. The log does not show whether it does, so such a
store is a hint if the kernel writes another output, which may hold the number, and otherwise an error.
"""

from __future__ import annotations

import numpy as np

from mlusim.verifier.accesses.outputs import outputs_of
from mlusim.verifier.accesses.table import FILTERS
from mlusim.verifier.columns import ops_among
from mlusim.verifier.run import Run
from mlusim.verifier.uninitialised.marks import is_copy
from mlusim.verifier.uninitialised.reads import UninitialisedRead


class Unselected:
    """The destinations of the filters of one run."""

    def __init__(self, run: Run) -> None:
        self._log, self._columns = log, columns = run.log, run.columns
        accesses = run.accesses
        self._filters = np.flatnonzero(ops_among(log, FILTERS)[columns["op"]])
        written_allocs = set(accesses.alloc[accesses.write].tolist()) if len(self._filters) else set()
        outputs = outputs_of(log)
        self._outputs = {alloc for alloc in written_allocs if outputs[alloc]}

    def stored(self, read: UninitialisedRead) -> bool:
        """Return whether a read copies elements to an output beyond those that an earlier filter of its task wrote."""
        columns, log = self._columns, self._log
        name, pipe = log.ops[int(columns["op"][read.record])], int(columns["pipe"][read.record])
        target, task = (int(columns[column][read.record]) for column in ("dst_alloc", "task"))
        if len(self._outputs) < 2 or target not in self._outputs or not is_copy(name, pipe):
            return False
        filters = self._filters[self._filters < read.record]
        is_equal = [columns[name][filters] == value for name, value in (("dst_alloc", read.alloc), ("task", task))]
        for record in filters[is_equal[0] & is_equal[1]].tolist():
            box, first = log.boxes[int(columns["dst_box"][record])], int(columns["dst_offset"][record])
            last = first + box.itemsize * int(np.prod(box.shape, dtype=np.int64))
            if first <= int(read.starts.min()) and int(read.stops.max()) <= last:
                return True
        return False

"""The write beside bytes that nothing has written: its part of the buffer may be the wrong one, or too short."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mlusim.arrays import Integers
from mlusim.log import Log
from mlusim.verifier.accesses.table import Accesses


def write_beside(log: Log, columns: dict[str, Integers], accesses: Accesses, read: int, first: int, end: int) -> str:
    """Return the line of the nearest write to other bytes of a buffer before a read of it, as `kernel.py:41`.

    Of equally near ones, a write that ends before the bytes comes first: it may be too short. Then the last one counts.
    It is empty if there is none, and for the line that reads.

    Args:
        log, columns, accesses: the run.
        read: row of the read.
        first, end: the bytes that nothing has written, in the allocation.
    """
    record = int(accesses.record[read])
    before = np.flatnonzero((accesses.alloc == accesses.alloc[read]) & accesses.write & (accesses.record < record))
    line = columns["line"]
    before = before[line[accesses.record[before]] != line[record]]
    if not len(before):
        return ""
    behind, ahead = first - accesses.high[before], accesses.low[before] - end
    distance = np.maximum(np.maximum(behind, ahead), 0)
    nearest = before[np.lexsort((before, behind >= 0, -distance))[-1]]
    file, number, _ = log.lines[int(line[accesses.record[nearest]])]
    return f"{Path(file).name}:{number}" if number else ""

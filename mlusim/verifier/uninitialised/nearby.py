"""The write beside bytes that nothing has written: its part of the buffer may be the wrong one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mlusim.arrays import Integers
from mlusim.log import Log
from mlusim.verifier.accesses.table import Accesses


def write_beside(log: Log, columns: dict[str, Integers], accesses: Accesses, read: int) -> str:
    """Return the line of the last write to other bytes of a buffer before a read of it, as `kernel.py:41`.

    It is empty if there is none, and for the line that reads.
    """
    record = int(accesses.record[read])
    before = np.flatnonzero((accesses.alloc == accesses.alloc[read]) & accesses.write & (accesses.record < record))
    line = columns["line"]
    before = before[line[accesses.record[before]] != line[record]]
    if not len(before):
        return ""
    file, number, _ = log.lines[int(line[accesses.record[before[-1]]])]
    return f"{Path(file).name}:{number}" if number else ""

"""The split proof as an image: the writer of each sampled element of a tensor, exactly as the checker counts writes.

All accesses count, and an element that was written more than once shows as a fault. The tile map of a report, in
`mlusim.analysis.tile_grid`, shows the last writer instead, and the task that the plan names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mlusim.arrays import Integers
from mlusim.dtypes import dtype_of
from mlusim.log import Log
from mlusim.verifier.accesses.cells import Cells
from mlusim.verifier.run import Run

NOBODY, AGAIN = -1, -2
_MAX_ROWS, _MAX_COLUMNS = 480, 960


@dataclass(frozen=True, slots=True, eq=False)
class ProofMap:
    """One output, flattened to two axes.

    Attributes:
        name, shape: the tensor.
        split: the axes before it form the rows, the others the columns.
        rows, columns: sampled rows and columns.
        writer: (rows, columns) task that wrote each element; `NOBODY` if none, `AGAIN` if there were several writes.
    """

    name: str
    shape: tuple[int, ...]
    split: int
    rows: Integers
    columns: Integers
    writer: Integers

    @property
    def extents(self) -> tuple[int, int]:
        """Rows and columns of the flattened tensor."""
        return math.prod(self.shape[: self.split]), math.prod(self.shape[self.split :])


def proof_maps(log: Log) -> list[ProofMap]:
    """Return a map of each non-empty output."""
    run = Run(log)
    accesses, task = run.accesses, run.columns["task"]
    maps = []
    for identity, role in log.roles().items():
        record = log.allocations[identity]
        if role != "output" or not record.nbytes:
            continue
        writes = accesses.where((accesses.alloc == identity) & accesses.write)
        cells = Cells(writes, record.nbytes)
        times, total = cells.count(), cells.count(task[writes.record])
        writer = np.where(times == 1, total, np.where(times == 0, NOBODY, AGAIN))
        shape = record.shape or (1,)
        split = _split(shape)
        rows = _samples(math.prod(shape[:split]), _MAX_ROWS)
        columns = _samples(math.prod(shape[split:]), _MAX_COLUMNS)
        byte = (rows[:, None] * math.prod(shape[split:]) + columns) * dtype_of(record.dtype).itemsize
        cell = np.searchsorted(cells.cuts, byte.reshape(-1), side="right") - 1
        maps.append(ProofMap(record.name, shape, split, rows, columns, writer[cell].reshape(byte.shape)))
    return maps


def _split(shape: tuple[int, ...]) -> int:
    """Return the split that makes the image closest to square."""
    return min(
        range(len(shape)),
        key=lambda rank: abs(math.log(math.prod(shape[:rank])) - math.log(math.prod(shape[rank:]))),
    )


def _samples(extent: int, limit: int) -> Integers:
    count = min(extent, limit)
    return np.arange(count, dtype=np.int64) * extent // max(count, 1)

"""The task that wrote each part of the output, on a grid of sample elements.

Tiles of a plan and destination boxes of copies are both sets of contiguous runs in the output's bytes. A tensor of
any size is sampled at no more than a few hundred thousand of its elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlusim.analysis.records import Integers, Records
from mlusim.analysis.windows import pieces
from mlusim.log import NONE, Box
from mlusim.planning.tiles import Tiles

MAX_ROWS, MAX_COLUMNS = 360, 1000
_RUNS_AT_ONCE = 1 << 20
# A kernel that writes single elements has a run for each; past this the map shows the first ones only.
_MAX_RUNS = 1 << 25
_NOBODY = NONE


@dataclass(frozen=True, eq=False)
class Grid:
    """A tensor flattened to two axes, and the elements of it that are examined.

    Attributes:
        shape: of the tensor.
        split: axes before it make the rows, the others the columns.
        inner: trailing axes that every tile covers whole: left out of the columns.
        rows, columns: sampled rows and columns.
    """

    shape: tuple[int, ...]
    split: int
    inner: int
    rows: Integers
    columns: Integers

    @property
    def row_extent(self) -> int:
        """Rows of the flattened tensor."""
        return math.prod(self.shape[: self.split])

    @property
    def column_extent(self) -> int:
        """Columns of the flattened tensor, the inner axes left out."""
        return math.prod(self.shape[self.split : len(self.shape) - self.inner])

    def elements(self) -> Integers:
        """(rows * columns,) flat numbers of the sampled elements, rising."""
        inner = math.prod(self.shape[len(self.shape) - self.inner :])
        return ((self.rows[:, None] * self.column_extent + self.columns) * inner).reshape(-1)


@dataclass(frozen=True, eq=False)
class Owners:
    """(rows, columns) of a grid: the task that wrote each sample (-1: none), and the ordinal of that write.

    `complete` is false where there were too many writes to look at all.
    """

    task: Integers
    iteration: Integers
    complete: bool = True


def grid_of(shape: Sequence[int], tiles: Tiles) -> Grid:
    """Flatten a tensor so that its tiles are rectangles: [N, T, C, HW] in tiles of T x HW as (N T) x C."""
    shape = tuple(shape)
    boxes = tiles.stop - tiles.start
    kinds = np.unique(boxes, axis=0) if len(boxes) else np.array([shape], np.int64)
    whole = (kinds == np.array(shape, np.int64)).all(axis=0) if shape else np.empty(0, bool)
    inner = 0
    while inner < len(shape) - 2 and whole[len(shape) - 1 - inner]:
        inner += 1
    rank = len(shape) - inner

    def cost(split: int) -> tuple[float, float]:
        pieces = _pieces(kinds[:, :split], shape[:split]) * _pieces(kinds[:, split:rank], shape[split:rank])
        ratio = math.log(max(math.prod(shape[:split]), 1)) - math.log(max(math.prod(shape[split:rank]), 1))
        return float(np.mean(pieces)), abs(ratio)

    split = min(range(rank), key=cost) if rank else 0
    return Grid(
        shape,
        split,
        inner,
        _samples(math.prod(shape[:split]), MAX_ROWS),
        _samples(math.prod(shape[split:rank]), MAX_COLUMNS),
    )


def _pieces(kinds: Integers, shape: tuple[int, ...]) -> Any:
    """Runs that boxes of each kind have when these axes are flattened to one."""
    pieces = np.ones(len(kinds))
    for axis in range(len(shape) - 1):
        rest_whole = (kinds[:, axis + 1 :] == shape[axis + 1 :]).all(axis=1)
        pieces *= np.where(rest_whole, 1, kinds[:, axis])
    return pieces


def _samples(extent: int, most: int) -> Integers:
    count = min(extent, most)
    return ((2 * np.arange(count, dtype=np.int64) + 1) * extent) // (2 * count) if count else np.empty(0, np.int64)


def planned_owners(grid: Grid, tiles: Tiles) -> Owners:
    """The task that writes each sample by the plan."""
    painter = _Painter(grid, 1)
    strides = [math.prod(grid.shape[axis + 1 :]) for axis in range(len(grid.shape))]
    boxes = tiles.stop - tiles.start
    offsets = tiles.start @ np.array(strides, np.int64) if grid.shape else np.zeros(len(tiles), np.int64)
    for kind, members in _groups(boxes):
        run, loops = _runs(Box(tuple(kind), tuple(strides), 1))
        painter.paint(members, offsets[members], run, loops)
    return painter.owners(tiles.task, tiles.iteration)


def logged_owners(grid: Grid, records: Records, output: int, itemsize: int) -> Owners:
    """The task that wrote each sample by the log: the last copy or scalar store to allocation `output`."""
    painter = _Painter(grid, itemsize)
    addresses = records.log.addresses
    found = [np.empty((5, 0), np.int64)]
    for part in pieces(records):
        some = part.dst_alloc == output
        columns = (part.number, part.end_ps, part.dst_box, part.dst_offset, part.task)
        found.append(np.array([column[some] for column in columns]))
    table = np.concatenate(found, axis=1)
    # Bytes move when a copy completes, and a task's own time may run ahead of the others': the log is in neither order.
    writes, _, boxes, offsets, task = table[:, np.argsort(table[1], kind="stable")]
    loose = [member for member, record in enumerate(writes.tolist()) if "dst" in addresses.get(record, ())]
    plain = np.ones(len(writes), bool)
    plain[loose] = False
    for code in np.unique(boxes[plain]).tolist():
        members = np.flatnonzero(plain & (boxes == code))
        run, loops = _runs(records.log.boxes[code])
        painter.paint(members, offsets[members], run, loops)
    for member in sorted(loose, key=lambda member: int(writes[member])):
        # A counted loop: rows of the box at the addresses that the record keeps.
        box = records.log.boxes[int(boxes[member])]
        run, loops = _runs(Box(box.shape[1:], box.strides[1:], box.itemsize))
        rows = np.asarray(addresses[int(writes[member])]["dst"], np.int64) * box.strides[0]
        painter.paint(np.full(len(rows), member), offsets[member] + rows, run, loops)
    order = np.argsort(task, kind="stable")
    iteration = np.empty(len(task), np.int64)
    first = np.searchsorted(task[order], task[order], side="left")
    iteration[order] = np.arange(len(task)) - first
    return painter.owners(task, iteration)


def _groups(boxes: Integers) -> Iterator[tuple[list[int], Integers]]:
    kinds, which = np.unique(boxes, axis=0, return_inverse=True)
    for code, kind in enumerate(kinds.tolist()):
        yield kind, np.flatnonzero(which.reshape(-1) == code)


def _runs(box: Box) -> tuple[int, list[tuple[int, int]]]:
    """Length of the contiguous runs of a box in bytes, and the (count, stride) of the loops over them."""
    run = box.itemsize
    loops: list[tuple[int, int]] = []
    for extent, stride in zip(reversed(box.shape), reversed(box.strides), strict=True):
        if not loops and stride == run:
            run *= extent
        elif extent != 1:
            loops.append((extent, stride))
    return run, loops


class _Painter:
    """Finds the samples that runs of bytes cover."""

    def __init__(self, grid: Grid, itemsize: int) -> None:
        self._shape = (len(grid.rows), len(grid.columns))
        self._samples = grid.elements() * itemsize
        self._covered: list[Integers] = []
        self._writer: list[Integers] = []
        self._left = _MAX_RUNS

    def paint(self, writer: Integers, offset: Integers, run: int, loops: list[tuple[int, int]]) -> None:
        """Note the samples in the runs of equal boxes, at `offset` each."""
        each = math.prod(count for count, _ in loops)
        if not each or not run:
            return
        inside = np.zeros(1, np.int64)
        for count, stride in loops:
            inside = (inside[:, None] + np.arange(count, dtype=np.int64) * stride).reshape(-1)
        step = max(_RUNS_AT_ONCE // each, 1)
        for first in range(0, len(offset), step):
            if self._left <= 0:
                return
            self._left -= each * min(step, len(offset) - first)
            start = (offset[first : first + step, None] + inside).reshape(-1)
            low = np.searchsorted(self._samples, start)
            samples = np.searchsorted(self._samples, start + run) - low
            hit = np.flatnonzero(samples)
            low, samples = low[hit], samples[hit]
            before = np.cumsum(samples) - samples
            self._covered.append(np.repeat(low - before, samples) + np.arange(int(samples.sum())))
            self._writer.append(np.repeat(writer[first : first + step][hit // each], samples))

    def owners(self, task: Integers, iteration: Integers) -> Owners:
        """The last writer of each sample, as its task and iteration."""
        found = np.full(len(self._samples), _NOBODY, np.int64)
        if self._covered:
            covered, writer = np.concatenate(self._covered), np.concatenate(self._writer)
            order = np.argsort(writer, kind="stable")
            found[covered[order]] = writer[order]
        known = found >= 0
        tasks, iterations = np.full(len(found), _NOBODY, np.int64), np.full(len(found), _NOBODY, np.int64)
        tasks[known], iterations[known] = task[found[known]], iteration[found[known]]
        return Owners(tasks.reshape(self._shape), iterations.reshape(self._shape), complete=self._left > 0)

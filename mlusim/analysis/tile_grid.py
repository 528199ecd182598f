"""The task that wrote each part of the output last, or should according to the plan, on a grid of sample elements.

For the tile map of a report. The image of the split proof, which shows elements that were written twice or never, is
that of `mlusim.verifier.split.proof_map`.

Both the tiles of a plan and the destination boxes of copies are sets of contiguous runs of the output's bytes. A tensor
is sampled at no more than a few hundred thousand elements, whatever its size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.log_parts import parts_of
from mlusim.arrays import Integers
from mlusim.log import NONE
from mlusim.log_tables import Box
from mlusim.planning.tiles import Tiles

MAX_ROWS, MAX_COLUMNS = 360, 1000
_BATCH_RUNS = 1 << 20
# A kernel that writes single elements has a run for each; beyond this number, the map ignores further ones.
_MAX_RUNS = 1 << 25
_NOBODY = NONE


@dataclass(frozen=True, eq=False)
class TileGrid:
    """A tensor flattened to two axes, and the sampled elements.

    Attributes:
        shape: shape of the tensor.
        split: the axes before it form the rows, the others the columns.
        inner: trailing axes covered entirely by every tile: left out of the columns.
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
        """Columns of the flattened tensor, without the inner axes."""
        return math.prod(self.shape[self.split : len(self.shape) - self.inner])

    def elements(self) -> Integers:
        """The flat indices of the sampled elements, row by row, ascending."""
        inner = math.prod(self.shape[len(self.shape) - self.inner :])
        return ((self.rows[:, None] * self.column_extent + self.columns) * inner).reshape(-1)


@dataclass(frozen=True, eq=False)
class Writers:
    """(rows, columns) of a grid: the task that wrote each sample (-1: none), and the ordinal of that write.

    `complete` is False if there were too many writes to process all of them.
    """

    task: Integers
    iteration: Integers
    complete: bool = True


def tile_grid(shape: Sequence[int], tiles: Tiles) -> TileGrid:
    """Flatten a tensor so that its tiles are rectangles: [N, T, C, HW] in tiles of T x HW as (N T) x C."""
    shape = tuple(shape)
    boxes = tiles.stop - tiles.start
    kinds = np.unique(boxes, axis=0) if len(boxes) else np.array([shape], np.int64)
    is_whole = (kinds == np.array(shape, np.int64)).all(axis=0) if shape else np.empty(0, bool)
    inner = 0
    while inner < len(shape) - 2 and is_whole[len(shape) - 1 - inner]:
        inner += 1
    rank = len(shape) - inner

    def cost(split: int) -> tuple[float, float]:
        runs = _runs_if_flat(kinds[:, :split], shape[:split]) * _runs_if_flat(kinds[:, split:rank], shape[split:rank])
        ratio = math.log(max(math.prod(shape[:split]), 1)) - math.log(max(math.prod(shape[split:rank]), 1))
        return float(np.mean(runs)), abs(ratio)

    split = min(range(rank), key=cost) if rank else 0
    return TileGrid(
        shape,
        split,
        inner,
        _samples(math.prod(shape[:split]), MAX_ROWS),
        _samples(math.prod(shape[split:rank]), MAX_COLUMNS),
    )


def _runs_if_flat(kinds: Integers, shape: tuple[int, ...]) -> Any:
    """Return the number of runs of each kind of box if these axes are flattened to one."""
    runs = np.ones(len(kinds))
    for axis in range(len(shape) - 1):
        rest_whole = (kinds[:, axis + 1 :] == shape[axis + 1 :]).all(axis=1)
        runs *= np.where(rest_whole, 1, kinds[:, axis])
    return runs


def _samples(extent: int, limit: int) -> Integers:
    count = min(extent, limit)
    return ((2 * np.arange(count, dtype=np.int64) + 1) * extent) // (2 * count) if count else np.empty(0, np.int64)


def planned_writers(grid: TileGrid, tiles: Tiles) -> Writers:
    """Return the task that writes each sample according to the plan."""
    painter = _Painter(grid, 1)
    strides = [math.prod(grid.shape[axis + 1 :]) for axis in range(len(grid.shape))]
    boxes = tiles.stop - tiles.start
    offsets = tiles.start @ np.array(strides, np.int64) if grid.shape else np.zeros(len(tiles), np.int64)
    for kind, members in _groups(boxes):
        run, loops = _runs(Box(tuple(kind), tuple(strides), 1))
        painter.paint(members, offsets[members], run, loops)
    return painter.writers(tiles.task, tiles.iteration)


def logged_writers(grid: TileGrid, records: LogColumns, output: int, itemsize: int) -> Writers:
    """Return the task that wrote each sample last, by a copy or scalar store to allocation `output`."""
    painter = _Painter(grid, itemsize)
    addresses = records.log.addresses
    columns_of_parts = [np.empty((5, 0), np.int64)]
    for part in parts_of(records):
        stores = part.dst_alloc == output
        columns = (part.number, part.end_ps, part.dst_box, part.dst_offset, part.task)
        columns_of_parts.append(np.array([column[stores] for column in columns]))
    table = np.concatenate(columns_of_parts, axis=1)
    # Copies take effect when they complete, and tasks may run ahead of each other, so the log is not in that order.
    writes, _, boxes, offsets, task = table[:, np.argsort(table[1], kind="stable")]
    by_rows = [member for member, record in enumerate(writes.tolist()) if "dst" in addresses.get(record, ())]
    is_box = np.ones(len(writes), bool)
    is_box[by_rows] = False
    for code in np.unique(boxes[is_box]).tolist():
        members = np.flatnonzero(is_box & (boxes == code))
        run, loops = _runs(records.log.boxes[code])
        painter.paint(members, offsets[members], run, loops)
    for member in sorted(by_rows, key=lambda member: int(writes[member])):
        # A counted loop: rows of the box at the addresses in the record.
        box = records.log.boxes[int(boxes[member])]
        run, loops = _runs(Box(box.shape[1:], box.strides[1:], box.itemsize))
        rows = np.asarray(addresses[int(writes[member])]["dst"], np.int64) * box.strides[0]
        painter.paint(np.full(len(rows), member), offsets[member] + rows, run, loops)
    order = np.argsort(task, kind="stable")
    iteration = np.empty(len(task), np.int64)
    first = np.searchsorted(task[order], task[order], side="left")
    iteration[order] = np.arange(len(task)) - first
    return painter.writers(task, iteration)


def _groups(boxes: Integers) -> Iterator[tuple[list[int], Integers]]:
    kinds, kind_of = np.unique(boxes, axis=0, return_inverse=True)
    for code, kind in enumerate(kinds.tolist()):
        yield kind, np.flatnonzero(kind_of.reshape(-1) == code)


def _runs(box: Box) -> tuple[int, list[tuple[int, int]]]:
    """Return the bytes of a box's contiguous runs, and the (count, stride) of the loops over them."""
    run = box.itemsize
    loops: list[tuple[int, int]] = []
    for extent, stride in zip(reversed(box.shape), reversed(box.strides), strict=True):
        if not loops and stride == run:
            run *= extent
        elif extent != 1:
            loops.append((extent, stride))
    return run, loops


class _Painter:
    """Determines the samples covered by runs of bytes."""

    def __init__(self, grid: TileGrid, itemsize: int) -> None:
        self._shape = (len(grid.rows), len(grid.columns))
        self._samples = grid.elements() * itemsize
        self._cells: list[Integers] = []
        self._writer: list[Integers] = []
        self._remaining_runs = _MAX_RUNS

    def paint(self, writer: Integers, offset: Integers, run: int, loops: list[tuple[int, int]]) -> None:
        """Record the samples in the runs of equal boxes, at one `offset` each."""
        positions = math.prod(count for count, _ in loops)
        if not positions or not run:
            return
        run_offsets = np.zeros(1, np.int64)
        for count, stride in loops:
            run_offsets = (run_offsets[:, None] + np.arange(count, dtype=np.int64) * stride).reshape(-1)
        step = max(_BATCH_RUNS // positions, 1)
        for first in range(0, len(offset), step):
            if self._remaining_runs <= 0:
                return
            self._remaining_runs -= positions * min(step, len(offset) - first)
            start = (offset[first : first + step, None] + run_offsets).reshape(-1)
            low = np.searchsorted(self._samples, start)
            samples = np.searchsorted(self._samples, start + run) - low
            painted = np.flatnonzero(samples)
            low, samples = low[painted], samples[painted]
            samples_before = np.cumsum(samples) - samples
            self._cells.append(np.repeat(low - samples_before, samples) + np.arange(int(samples.sum())))
            self._writer.append(np.repeat(writer[first : first + step][painted // positions], samples))

    def writers(self, task: Integers, iteration: Integers) -> Writers:
        """Return the last writer of each sample, as its task and iteration."""
        last_writer = np.full(len(self._samples), _NOBODY, np.int64)
        if self._cells:
            cells, writer = np.concatenate(self._cells), np.concatenate(self._writer)
            order = np.argsort(writer, kind="stable")
            last_writer[cells[order]] = writer[order]
        has_writer = last_writer >= 0
        tasks, iterations = np.full(len(last_writer), _NOBODY, np.int64), np.full(len(last_writer), _NOBODY, np.int64)
        tasks[has_writer], iterations[has_writer] = task[last_writer[has_writer]], iteration[last_writer[has_writer]]
        return Writers(tasks.reshape(self._shape), iterations.reshape(self._shape), complete=self._remaining_runs > 0)

"""The tiles of a plan: the boxes of the output that each task writes; and the check that they cover the output."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import count, repeat
from operator import sub
from typing import Any, NamedTuple

import numpy as np

from mlusim.arrays import Integers
from mlusim.errors import PlanError, shown
from mlusim.units import plural

_MAX_EXTENT = (1 << 63) - 1
# Cells that are counted at once.
_MAX_CELLS = 1 << 22


class Tile(NamedTuple):
    """One box of the output that one task writes in one iteration: [start, stop) along each axis."""

    task: int
    iteration: int
    start: tuple[int, ...]
    stop: tuple[int, ...]
    nram_bytes: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return tuple(map(sub, self.stop, self.start))


class Tiles:
    """All tiles of a plan, by column.

    Args:
        task: by tile, the task that writes it.
        start, stop: (tiles, rank) its box.
        nram_bytes: by tile, NRAM in use while it is processed; or one number for all tiles.

    Iterations number the tiles of a task in the order given. Raises `PlanError` for columns of different lengths or
    ranks, and for anything but integers.
    """

    def __init__(self, task: Any, start: Any, stop: Any, nram_bytes: Any) -> None:
        self.task: Integers = _column("task", task)
        if self.task.ndim != 1:
            raise PlanError(f"task of Tiles has shape {list(self.task.shape)}: give one task for each tile")
        count = len(self.task)
        self.start: Integers = _corners("start", start, count)
        self.stop: Integers = _corners("stop", stop, count)
        if count and self.start.shape != self.stop.shape:
            raise PlanError(
                f"start has {plural(self.start.shape[1], 'coordinate')} and stop {self.stop.shape[1]}: both need one "
                "for each axis of the output"
            )
        nram = _column("nram_bytes", nram_bytes)
        if nram.ndim and nram.shape not in {(1,), (count,)}:
            raise PlanError(
                f"{plural(nram.size, 'value')} of nram_bytes for {plural(count, 'task')}: give one for each tile, or "
                "one for all"
            )
        if nram.size and nram.min() < 0:
            raise PlanError(f"nram_bytes holds {nram.min()}: a tile needs 0 bytes or more")
        self.nram_bytes: Integers = np.broadcast_to(nram, (count,))
        self._order = np.argsort(self.task, kind="stable")
        self._sorted_tasks = self.task[self._order]
        self.iteration: Integers = np.empty(count, np.int64)
        first = np.searchsorted(self._sorted_tasks, self._sorted_tasks, side="left")
        self.iteration[self._order] = np.arange(count) - first

    def freeze(self) -> None:
        """Make the columns read-only: a plan may be shared by several calls."""
        for column in (self.task, self.start, self.stop, self.iteration):
            column.setflags(write=False)

    def __len__(self) -> int:
        return len(self.task)

    def _rows(self, task: int) -> Integers:
        if not isinstance(task, int | np.integer) or task < 0:
            raise PlanError(f"tiles of task {shown(task)}: pass its number, core.task_id, an integer of at least 0")
        first, last = (np.searchsorted(self._sorted_tasks, task, side) for side in ("left", "right"))
        return self._order[first:last]

    def of_task(self, task: int) -> Iterator[Tile]:
        """Iterate over the tiles of one task, in the order in which it writes them."""
        rows = self._rows(task)
        starts = map(tuple, self.start[rows].tolist())
        stops = map(tuple, self.stop[rows].tolist())
        return map(Tile, repeat(task), count(), starts, stops, self.nram_bytes[rows].tolist())

    def __iter__(self) -> Iterator[Tile]:
        """Iterate over all tiles, task by task."""
        for task in np.unique(self.task).tolist():
            yield from self.of_task(task)

    def elements(self) -> Integers:
        """By tile, return the number of its elements."""
        return np.asarray(np.prod(self.stop - self.start, axis=1, dtype=np.int64))


def _column(name: str, values: Any) -> Integers:
    """Return a column as integers. Raises `PlanError` for fractions and other values."""
    integers = None
    try:
        array = np.asarray(values)
        with np.errstate(invalid="ignore"):
            integers = array.astype(np.int64) if array.dtype.kind in "biufO" else None
    except (TypeError, ValueError, OverflowError):
        pass
    if integers is None:
        raise PlanError(f"{name} of Tiles is {shown(values)}: it must be an array of integers")
    if not array.ndim and name != "nram_bytes":
        raise PlanError(f"{name} of Tiles is {shown(values)}: pass an array with an entry for each tile")
    if (array != integers).any():
        value = np.atleast_1d(array)[np.atleast_1d(array != integers)][0]
        raise PlanError(f"{name} of Tiles holds {value}: it must be an array of integers of 64 bits; round fractions")
    return integers


def _corners(name: str, bounds: Any, count: int) -> Integers:
    """Return bounds as (tiles, rank); without tiles, a 2-D array still determines the rank."""
    array = _column(name, bounds)
    if array.ndim == 2 and len(array) != count:
        boxes = "1 box" if len(array) == 1 else f"{len(array)} boxes"
        raise PlanError(f"{plural(count, 'task')} for {boxes}: each tile has one task and one box")
    if array.ndim != 2 and (array.size % count if count else array.size):
        raise PlanError(
            f"{name} of Tiles has shape {list(array.shape)} for {plural(count, 'task')}: it is (tiles, rank)"
        )
    return array if array.ndim == 2 else array.reshape(count, array.size // max(count, 1))


def check_cover(tiles: Tiles, shape: Sequence[int]) -> None:
    """Raise `PlanError` unless the tiles cover every element of `shape` exactly once."""
    if 0 in shape:
        if len(tiles):
            raise PlanError(f"{len(tiles)} tiles for an output of shape {list(shape)}, which has no elements")
        return
    if max(shape, default=0) > _MAX_EXTENT:
        raise PlanError(f"the output {list(shape)}: 64 bits do not hold an extent of {max(shape)}")
    rank = tiles.start.shape[1]
    if len(tiles) and rank != len(shape):
        raise PlanError(
            f"the tiles have {plural(rank, 'coordinate')}, and the output {list(shape)} has rank {len(shape)}: start "
            "and stop need one coordinate for each axis"
        )
    bounds = np.array(shape, np.int64)
    start, stop = (corners.reshape(len(tiles), len(shape)) for corners in (tiles.start, tiles.stop))
    is_outside = (start < 0) | (stop > bounds) | (start >= stop)
    if is_outside.any():
        tile = int(np.argmax(is_outside.any(axis=1)))
        raise PlanError(
            f"tile {tile} (task {int(tiles.task[tile])}) is {start[tile].tolist()} to {stop[tile].tolist()}, empty or "
            f"outside the output {list(shape)}; clip stop to the output, and omit empty tiles"
        )
    fault = _fault(start, stop, np.zeros_like(bounds), bounds)
    if fault is not None:
        low, high, covers = fault
        owners = tiles.task[((start <= low) & (stop >= high)).all(axis=1)].tolist()
        tasks = f" by tasks {owners[:4]}" if covers else ""
        how_often = f"written {covers} times{tasks}" if covers else "never written"
        raise PlanError(
            f"elements {low.tolist()} to {high.tolist()} of the output {list(shape)} are {how_often}; every element "
            "must be written exactly once"
        )


def _fault(start: Integers, stop: Integers, low: Integers, high: Integers) -> tuple[Integers, Integers, int] | None:
    """Return a part of [low, high) that not exactly one tile covers, and how many do; None if there is none.

    Args:
        start, stop: (tiles, rank) boxes within [low, high).
        low, high: by axis, a range of the output.
    """
    cuts = [
        np.unique(np.concatenate([start[:, d], stop[:, d], low[d : d + 1], high[d : d + 1]])) for d in range(len(low))
    ]
    if math.prod(len(cut) - 1 for cut in cuts) <= _MAX_CELLS:
        counts = _cover_counts(start, stop, cuts)
        wrong_cells = np.argwhere(counts != 1)
        if not len(wrong_cells):
            return None
        cell = tuple(wrong_cells[0].tolist())
        first, last = (
            np.array([cut[index + add] for cut, index in zip(cuts, cell, strict=True)], np.int64) for add in (0, 1)
        )
        return first, last, int(counts[cell])
    # Halve the axis with the most cuts: fewer tiles, and fewer of their cuts, reach into each half.
    axis = max(range(len(cuts)), key=lambda d: len(cuts[d]))
    first_high, second_low = high.copy(), low.copy()
    first_high[axis] = second_low[axis] = cuts[axis][len(cuts[axis]) // 2]
    for bottom, top in ((low, first_high), (second_low, high)):
        overlaps = (start[:, axis] < top[axis]) & (stop[:, axis] > bottom[axis])
        fault = _fault(np.maximum(start[overlaps], bottom), np.minimum(stop[overlaps], top), bottom, top)
        if fault is not None:
            return fault
    return None


def _cover_counts(start: Integers, stop: Integers, cuts: Sequence[Integers]) -> Integers:
    """Count the tiles that cover each cell of the grid that the cuts of all axes form."""
    grid = np.zeros([len(cut) - 1 for cut in cuts], np.int64)
    # Difference array: +1 and -1 at the corners of each box, then cumulative sums along each axis. An axis that no tile
    # splits has a single cell, which all tiles cover.
    split = [d for d, cut in enumerate(cuts) if len(cut) > 2]
    low = [np.searchsorted(cut, start[:, d]) for d, cut in enumerate(cuts)]
    high = [np.searchsorted(cut, stop[:, d]) for d, cut in enumerate(cuts)]
    stops_inside = [end < extent for end, extent in zip(high, grid.shape, strict=True)]
    if not split:
        return grid + len(start)
    for corner in range(1 << len(split)):
        upper = {d for position, d in enumerate(split) if corner >> position & 1}
        selected = np.logical_and.reduce([stops_inside[d] for d in upper], axis=0) if upper else slice(None)
        corners = tuple((high[d] if d in upper else low[d])[selected] for d in range(len(cuts)))
        np.add.at(grid, corners, -1 if corner.bit_count() & 1 else 1)
    for d in split:
        np.cumsum(grid, axis=d, out=grid)
    return grid

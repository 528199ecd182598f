"""The tiles of a plan: the boxes of the output that each task writes; and the check that they cover the output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, repeat
from operator import sub
from typing import Any, NamedTuple

import numpy as np

from mlusim.arrays import Integers
from mlusim.errors import PlanError, shown
from mlusim.units import plural


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
        sorted_tasks = self.task[self._order]
        self.iteration: Integers = np.empty(count, np.int64)
        first = np.searchsorted(sorted_tasks, sorted_tasks, side="left")
        self.iteration[self._order] = np.arange(count) - first
        self._first_of_task = np.searchsorted(sorted_tasks, np.arange(int(sorted_tasks[-1]) + 2)) if count else None

    def freeze(self) -> None:
        """Make the columns read-only: a plan may be shared by several calls."""
        for column in (self.task, self.start, self.stop, self.iteration):
            column.setflags(write=False)

    def __len__(self) -> int:
        return len(self.task)

    def _rows(self, task: int) -> Integers:
        if not isinstance(task, int | np.integer) or task < 0:
            raise PlanError(f"tiles of task {shown(task)}: pass its number, core.task_id, an integer of at least 0")
        first = self._first_of_task
        if first is None or task + 1 >= len(first):
            return np.empty(0, np.int64)
        return self._order[first[task] : first[task + 1]]

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
    try:
        given = np.asarray(values)
        integers = np.asarray(given, np.int64)
    except (TypeError, ValueError, OverflowError):
        raise PlanError(f"{name} of Tiles is {shown(values)}: it must be an array of integers") from None
    if not given.ndim and name != "nram_bytes":
        raise PlanError(f"{name} of Tiles is {shown(values)}: pass an array with an entry for each tile")
    if given.dtype.kind == "f" and (given != integers).any():
        fraction = given[given != integers][0]
        raise PlanError(f"{name} of Tiles holds {fraction}: it must be an array of integers; round it")
    return integers


def _corners(name: str, bounds: Any, count: int) -> Integers:
    """Return bounds as (tiles, rank); without tiles, a 2-D array still determines the rank."""
    array = _column(name, bounds)
    if array.ndim == 2 and len(array) != count:
        boxes = "1 box" if len(array) == 1 else f"{len(array)} boxes"
        raise PlanError(f"{plural(count, 'task')} for {boxes}: each tile has one task and one box")
    if array.ndim != 2 and array.size % max(count, 1):
        raise PlanError(
            f"{name} of Tiles has shape {list(array.shape)} for {plural(count, 'task')}: it is (tiles, rank)"
        )
    return array if array.ndim == 2 else array.reshape(count, array.size // max(count, 1))


def check_cover(tiles: Tiles, shape: Sequence[int]) -> None:
    """Raise `PlanError` unless the tiles cover every element of `shape` exactly once."""
    total = int(np.prod(np.asarray(shape, dtype=object))) if len(shape) else 1
    if not total:
        if len(tiles):
            raise PlanError(f"{len(tiles)} tiles for an output of shape {list(shape)}, which has no elements")
        return
    bounds = np.asarray(shape, np.int64)
    rank = tiles.start.shape[1]
    if len(tiles) and rank != len(shape):
        raise PlanError(
            f"the tiles have {plural(rank, 'coordinate')}, and the output {list(shape)} has rank {len(shape)}: start "
            "and stop need one coordinate for each axis"
        )
    wrong = (tiles.start < 0) | (tiles.stop > bounds) | (tiles.start >= tiles.stop)
    if wrong.any():
        tile = int(np.argmax(wrong.any(axis=1)))
        raise PlanError(
            f"tile {tile} (task {int(tiles.task[tile])}) is {tiles.start[tile].tolist()} to "
            f"{tiles.stop[tile].tolist()}, empty or outside the output {list(shape)}; clip stop to the output, "
            "and omit empty tiles"
        )
    counts, cuts = _times_covered(tiles, shape)
    bad = np.argwhere(counts != 1)
    if len(bad):
        cell = bad[0]
        low = [int(cut[index]) for cut, index in zip(cuts, cell, strict=True)]
        high = [int(cut[index + 1]) for cut, index in zip(cuts, cell, strict=True)]
        times = int(counts[tuple(cell)])
        owners = [
            int(task)
            for task, start, stop in zip(tiles.task, tiles.start, tiles.stop, strict=True)
            if times and (start <= low).all() and (stop >= high).all()
        ]
        tasks = f" by tasks {owners[:4]}" if owners else ""
        fault = f"written {times} times{tasks}" if times else "never written"
        raise PlanError(
            f"elements {low} to {high} of the output {list(shape)} are {fault}; every element must be written exactly "
            "once"
        )


def _times_covered(tiles: Tiles, shape: Sequence[int]) -> tuple[Integers, list[Integers]]:
    """Count the tiles that cover each cell of the grid formed by all tile boundaries."""
    cuts = [np.unique(np.concatenate([tiles.start[:, d], tiles.stop[:, d], [0, n]])) for d, n in enumerate(shape)]
    grid = np.zeros([len(cut) - 1 for cut in cuts], np.int64)
    # Difference array: +1 and -1 at the corners of each box, then cumulative sums along each axis. An axis that no tile
    # splits has a single cell, which all tiles cover.
    split = [d for d, cut in enumerate(cuts) if len(cut) > 2]
    low = [np.searchsorted(cut, tiles.start[:, d]) for d, cut in enumerate(cuts)]
    high = [np.searchsorted(cut, tiles.stop[:, d]) for d, cut in enumerate(cuts)]
    inside = [stop < extent for stop, extent in zip(high, grid.shape, strict=True)]
    for corner in range(1 << len(split)):
        upper = {d for bit, d in enumerate(split) if corner >> bit & 1}
        chosen = np.logical_and.reduce([inside[d] for d in upper], axis=0) if upper else slice(None)
        corners = tuple((high[d] if d in upper else low[d])[chosen] for d in range(len(shape)))
        np.add.at(grid, corners, -1 if corner.bit_count() & 1 else 1)
    for d in split:
        np.cumsum(grid, axis=d, out=grid)
    return grid, cuts

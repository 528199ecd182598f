"""`Plan`: a split as data. It says which task writes which box of the output, when, in how much NRAM, and why.

Planners make it, kernels follow it, and everyone else prints, draws, proves or compares it. A *unit* is what one core
would best hold at once. Three tiers, for all operators: whole units; a unit cut along its outer axis; a row cut in
chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mlusim.dtypes import dtype_of
from mlusim.errors import PlanError
from mlusim.hardware import Board, board
from mlusim.units import PS_PER_US, format_bytes, group_digits

Integers = np.ndarray[Any, np.dtype[np.int64]]

TIER_NAMES = {0: "nothing to do", 1: "whole units", 2: "unit split", 3: "row split"}


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
        return tuple(stop - start for start, stop in zip(self.start, self.stop, strict=True))


class Tiles:
    """All tiles of a plan, in columns.

    Args:
        task: (tiles,) the task that writes each.
        start, stop: (tiles, rank) the box.
        nram_bytes: (tiles,) NRAM in use while it is handled, or one number for all.

    Iterations count the tiles of a task in the order given. Raises `PlanError` for columns of different lengths.
    """

    def __init__(self, task: Any, start: Any, stop: Any, nram_bytes: Any) -> None:
        self.task: Integers = np.asarray(task, np.int64)
        count = len(self.task)
        self.start: Integers = _corners(start, count)
        self.stop: Integers = _corners(stop, count)
        self.nram_bytes: Integers = np.broadcast_to(np.asarray(nram_bytes, np.int64), (count,))
        self._order = np.argsort(self.task, kind="stable")
        sorted_tasks = self.task[self._order]
        self.iteration: Integers = np.empty(count, np.int64)
        first = np.searchsorted(sorted_tasks, sorted_tasks, side="left")
        self.iteration[self._order] = np.arange(count) - first
        self._first_of_task = np.searchsorted(sorted_tasks, np.arange(int(sorted_tasks[-1]) + 2)) if count else None

    def __len__(self) -> int:
        return len(self.task)

    def _rows(self, task: int) -> Integers:
        first = self._first_of_task
        if first is None or task + 1 >= len(first):
            return np.empty(0, np.int64)
        return self._order[first[task] : first[task + 1]]

    def of_task(self, task: int) -> Iterator[Tile]:
        """The tiles of one task, in the order in which it writes them."""
        rows = self._rows(task)
        starts = map(tuple, self.start[rows].tolist())
        stops = map(tuple, self.stop[rows].tolist())
        return map(Tile, repeat(task), count(), starts, stops, self.nram_bytes[rows].tolist())

    def __iter__(self) -> Iterator[Tile]:
        """All tiles, task by task."""
        for task in np.unique(self.task).tolist():
            yield from self.of_task(task)

    def elements(self) -> Integers:
        """(tiles,) elements of each box."""
        return np.asarray(np.prod(self.stop - self.start, axis=1, dtype=np.int64))


def _corners(bounds: Any, count: int) -> Integers:
    """As (tiles, rank); where there are no tiles, an array of rank 2 still says the rank."""
    array: Integers = np.asarray(bounds, np.int64)
    if array.ndim == 2 and len(array) != count:  # noqa: PLR2004
        raise PlanError(f"{count} tasks for {len(array)} boxes: each tile has one of both")
    return array if array.ndim == 2 else array.reshape(count, array.size // max(count, 1))  # noqa: PLR2004


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The split of one operator on one shape and one board.

    Attributes:
        operator, strategy: names; strategy is what the user may choose.
        board: the board's record.
        tier: 1 whole units, 2 unit split, 3 row split, 0 nothing to do.
        reason: why this tier (and, where times decide, the predicted times of the others).
        arithmetic: lines of numbers that lead to it.
        unit, unit_bytes: what one core would best hold at once.
        kind, dim: task type and grid of the launch.
        output_shape, itemsize: of the tensor that the tiles cover.
        tiles: who writes what.
        nram_bytes: NRAM that a core allocates.
        parameters: what the kernel needs besides the tiles.
        predicted_ps: estimate by the board's cost functions, where the planner made one.
        nram_limit_bytes: the most NRAM of a core that the planner was allowed, where that is not all usable of it.
    """

    operator: str
    strategy: str
    board: Board
    tier: int
    reason: str
    arithmetic: tuple[str, ...]
    unit: str
    unit_bytes: int
    kind: str
    dim: tuple[int, int, int]
    output_shape: tuple[int, ...]
    itemsize: int
    tiles: Tiles
    nram_bytes: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    predicted_ps: int | None = None
    nram_limit_bytes: int | None = None

    @classmethod
    def from_tiles(  # noqa: PLR0913 - all but the first two have defaults
        cls,
        tiles: Tiles,
        shape: Sequence[int],
        dtype: object = "float32",
        *,
        device: str | Path | Board = "mlu370-x4",
        name: str = "kernel",
        strategy: str = "own",
        tier: int = 1,
        reason: str = "",
        kind: str = "UNION1",
        dim: tuple[int, int, int] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> Plan:
        """A plan of your own, from its tiles and what they cover.

        Args:
            tiles: who writes what, in how much NRAM.
            shape, dtype: of the output.
            device: a preset's name, a TOML file, or a board.
            name, strategy, tier, reason: what `explain` and messages say of it.
            kind, dim: of the launch; by default a task for every core.
            parameters: what the kernel needs besides.

        Nothing is proved here: `check` does that, and `mlusim.verify` does both.
        """
        on = board(device)
        itemsize = dtype_of(dtype).itemsize
        largest = int(np.argmax(tiles.elements())) if len(tiles) else -1
        extents = (tiles.stop[largest] - tiles.start[largest]).tolist() if len(tiles) else [0]
        return cls(
            operator=name,
            strategy=strategy,
            board=on,
            tier=tier,
            reason=reason or "as its planner says",
            arithmetic=(),
            unit=f"the largest tile, {' x '.join(map(str, extents))} elements of {itemsize} B",
            unit_bytes=int(np.prod(extents)) * itemsize,
            kind=kind,
            dim=(on.cores_per_cluster, on.clusters, 1) if dim is None else dim,
            output_shape=tuple(int(extent) for extent in shape),
            itemsize=itemsize,
            tiles=tiles,
            nram_bytes=int(tiles.nram_bytes.max()) if len(tiles) else 0,
            parameters=parameters or {},
        )

    def __repr__(self) -> str:
        how = f"strategy {self.strategy}, tier {self.tier}, {len(self.tiles)} tiles"
        return f"<plan of {self.operator} on {self.board.name}: {how}>"

    @property
    def allowed_nram_bytes(self) -> int:
        """NRAM of a core that the plan may use: the limit, or all that is usable on the board."""
        return self.board.nram_usable_bytes if self.nram_limit_bytes is None else self.nram_limit_bytes

    @property
    def tasks(self) -> int:
        """Tasks of the launch."""
        return self.dim[0] * self.dim[1] * self.dim[2]

    def tiles_of(self, task: int) -> Iterator[Tile]:
        """The tiles of one task, in order: what a kernel iterates over."""
        return self.tiles.of_task(task)

    def elements_by_task(self) -> Integers:
        """(tasks,) output elements that each task writes."""
        return np.bincount(self.tiles.task, self.tiles.elements(), minlength=self.tasks).astype(np.int64)

    def check(self) -> None:
        """Prove the split before anything runs.

        Raises `PlanError` where tiles leave the output, overlap, miss a part of it, or do not fit in NRAM. In tier 0
        there are no tiles: the output has no elements, or is a view of the input.
        """
        if not self.tier and not len(self.tiles):
            return
        if len(self.tiles) and int(self.tiles.nram_bytes.max()) > self.allowed_nram_bytes:
            whose = f"{self.board.name} has" if self.nram_limit_bytes is None else "its limit is"
            raise PlanError(
                f"{self.operator}, strategy {self.strategy}: a tile takes "
                f"{format_bytes(int(self.tiles.nram_bytes.max()))} of NRAM and {whose} "
                f"{format_bytes(self.allowed_nram_bytes)}"
            )
        for task in (int(self.tiles.task.min()), int(self.tiles.task.max())) if len(self.tiles) else ():
            if not 0 <= task < self.tasks:
                raise PlanError(
                    f"{self.operator}: a tile of task {task} in a grid of {self.tasks}, 0 to {self.tasks - 1}"
                )
        check_cover(self.tiles, self.output_shape)

    def to_json(self, *, boxes: bool = True) -> dict[str, Any]:
        """The plan for programs: numbers in the unit that ends their key. `boxes`: with every tile."""
        found: dict[str, Any] = {
            "strategy": self.strategy,
            "tier": self.tier,
            "tier_name": TIER_NAMES.get(self.tier, "unknown"),
            "reason": self.reason,
            "arithmetic": list(self.arithmetic),
            "unit": self.unit,
            "unit_bytes": self.unit_bytes,
            "launch_kind": self.kind,
            "launch_dim": list(self.dim),
            "output_shape": list(self.output_shape),
            "output_itemsize_bytes": self.itemsize,
            "tiles": len(self.tiles),
            "tiles_by_task": np.bincount(self.tiles.task, minlength=self.tasks).tolist(),
            "elements_by_task": self.elements_by_task().tolist(),
            "nram_bytes": self.nram_bytes,
            "nram_allowed_bytes": self.allowed_nram_bytes,
            "predicted_ps": self.predicted_ps,
        }
        return found | {"boxes": [tile._asdict() for tile in self.tiles]} if boxes else found

    def explain(self) -> str:
        """The plan in words: unit, tier, arithmetic, launch, tiles per task, balance."""
        usable = self.board.nram_usable_bytes
        limit = "" if self.nram_limit_bytes is None else f", limited to {format_bytes(self.nram_limit_bytes)}"
        lines = [
            f"{self.operator} on {self.board.name}, strategy {self.strategy}",
            f"  output     {list(self.output_shape)} of {self.itemsize} B",
            f"  unit       {self.unit}: {format_bytes(self.unit_bytes)}; usable NRAM {format_bytes(usable)}{limit}",
            f"  tier       {self.tier} ({TIER_NAMES[self.tier]}): {self.reason}",
            *(f"             {line}" for line in self.arithmetic),
            f"  launch     {self.kind}, dim {self.dim}: {self.tasks} tasks on {self.board.cores} cores"
            if self.tier
            else "  launch     none",
        ]
        if len(self.tiles):
            per_task = self.elements_by_task()
            counts = np.bincount(self.tiles.task, minlength=self.tasks)
            busiest, mean = int(per_task.max()), float(per_task.mean())
            lines += [
                (
                    f"  tiles      {group_digits(len(self.tiles))}: {counts.min()} to {counts.max()} a task; "
                    f"NRAM {format_bytes(self.nram_bytes)}, {100 * self.nram_bytes / usable:.1f} % of usable"
                ),
                (
                    f"  balance    busiest task {group_digits(busiest * self.itemsize)} B, mean "
                    f"{group_digits(round(mean * self.itemsize))} B: {100 * mean / busiest:.1f} % even; "
                    f"{int((per_task == 0).sum())} tasks idle"
                ),
            ]
        else:
            lines.append("  tiles      none")
        if self.predicted_ps is not None:
            lines.append(f"  predicted  {self.predicted_ps / PS_PER_US:.2f} us by the board's cost functions")
        return "\n".join(lines)


def empty_plan(  # noqa: PLR0913 - all but the first five have defaults
    *,
    operator: str,
    strategy: str,
    board: Board,
    shape: tuple[int, ...],
    itemsize: int,
    reason: str = "the output has no elements and nothing is launched",
    arithmetic: tuple[str, ...] = (),
    unit: str = "the tensor",
    unit_bytes: int = 0,
    parameters: Any = None,
) -> Plan:
    """The plan of a call that launches nothing: tier 0, no tiles.

    shape: of the output, as the planner's tiles would cover it.
    """
    rank = len(shape)
    return Plan(
        operator=operator,
        strategy=strategy,
        board=board,
        tier=0,
        reason=reason,
        arithmetic=arithmetic,
        unit=unit,
        unit_bytes=unit_bytes,
        kind="BLOCK",
        dim=(1, 1, 1),
        output_shape=shape,
        itemsize=itemsize,
        tiles=Tiles([], np.empty((0, rank)), np.empty((0, rank)), 0),
        nram_bytes=0,
        parameters={} if parameters is None else parameters,
        predicted_ps=0,
    )


def check_cover(tiles: Tiles, shape: Sequence[int]) -> None:
    """Raise `PlanError` unless the tiles cover every element of `shape` exactly once."""
    total = int(np.prod(np.asarray(shape, dtype=object))) if len(shape) else 1
    if not total:
        if len(tiles):
            raise PlanError(f"{len(tiles)} tiles for an output of shape {list(shape)}, which has no elements")
        return
    bounds = np.asarray(shape, np.int64)
    wrong = (tiles.start < 0) | (tiles.stop > bounds) | (tiles.start >= tiles.stop)
    if wrong.any():
        tile = int(np.argmax(wrong.any(axis=1)))
        raise PlanError(
            f"tile {tile} (task {int(tiles.task[tile])}) is {tiles.start[tile].tolist()} to "
            f"{tiles.stop[tile].tolist()}, empty or outside the output {list(shape)}"
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
        by = f" by tasks {owners[:4]}" if owners else ""
        raise PlanError(
            f"elements {low} to {high} of the output {list(shape)} are written {times} times{by}; every element is "
            "written exactly once"
        )


def _times_covered(tiles: Tiles, shape: Sequence[int]) -> tuple[Integers, list[Integers]]:
    """The number of tiles over each cell, on the grid of all cuts between tiles."""
    rank = len(shape)
    cuts = [np.unique(np.concatenate([tiles.start[:, d], tiles.stop[:, d], [0, shape[d]]])) for d in range(rank)]
    # A difference array: +1 and -1 at the corners of each box, then sums along each axis.
    grid = np.zeros([len(cut) for cut in cuts], np.int64)
    low = [np.searchsorted(cuts[d], tiles.start[:, d]) for d in range(rank)]
    high = [np.searchsorted(cuts[d], tiles.stop[:, d]) for d in range(rank)]
    for corner in range(1 << rank):
        place = tuple(high[d] if corner >> d & 1 else low[d] for d in range(rank))
        np.add.at(grid, place, -1 if corner.bit_count() & 1 else 1)
    for d in range(rank):
        np.cumsum(grid, axis=d, out=grid)
    return grid[tuple(slice(0, -1) for _ in range(rank))], cuts

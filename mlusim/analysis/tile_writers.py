"""The writers of an output, by its plan and by the log, on a grid of sample elements; and whether both agree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.tile_grid import TileGrid, Writers, logged_writers, planned_writers, tile_grid
from mlusim.arrays import Integers
from mlusim.log import NONE
from mlusim.units import percent

if TYPE_CHECKING:
    from mlusim.planning.plan import Plan


@dataclass(frozen=True, eq=False)
class TileWriters:
    """The writers of an output.

    Attributes:
        grid: the sampled elements.
        cores: by task of the plan, the core that ran it.
        planned, planned_core: the writers by the plan; (rows, columns) their cores, NONE where no tile is.
        logged: (rows, columns) the core that wrote by the log, and the ordinal of its write; None if nothing ran, or if
            this agrees with the plan.
        agree: whether every sample was written by the planned core.
        verdict: that in words.
    """

    grid: TileGrid
    cores: Integers
    planned: Writers
    planned_core: Integers
    logged: tuple[Integers, Integers] | None
    agree: bool
    verdict: str


def tile_writers(records: LogColumns, plan: Plan) -> TileWriters | None:
    """Return the writers of the output of a plan; None without tiles, and for an output without elements."""
    if not len(plan.tiles):
        return None
    grid = tile_grid(plan.output_shape, plan.tiles)
    if not len(grid.rows) * len(grid.columns):
        return None
    cores = _core_of_task(records, plan)
    planned = planned_writers(grid, plan.tiles)
    planned_core = np.where(planned.task >= 0, cores[planned.task], NONE)
    output = _output_allocation(records, plan)
    if output == NONE or not records.log.tasks:
        return TileWriters(grid, cores, planned, planned_core, None, agree=False, verdict="nothing ran")
    logged = logged_writers(grid, records, output, plan.itemsize)
    logged_core = np.where(logged.task >= 0, records.task_unit[logged.task], NONE)
    equal_share = float((logged_core == planned_core).mean())
    verdict = _verdict(equal_share, float((logged_core < 0).mean()), logged)
    differing = None if equal_share == 1 else (logged_core, logged.iteration)
    return TileWriters(grid, cores, planned, planned_core, differing, agree=equal_share == 1, verdict=verdict)


def _output_allocation(records: LogColumns, plan: Plan) -> int:
    """Return the index of the allocation that the plan's tiles cover; -1 if there is none."""
    writable = [identity for identity, role in records.log.roles().items() if role == "output"]
    shaped = [identity for identity in writable if records.log.allocations[identity].shape == plan.output_shape]
    return next(iter(shaped + writable), NONE)


def _core_of_task(records: LogColumns, plan: Plan) -> Integers:
    """By task of the plan, return its core, from the log; tasks that did not run are assigned in turn."""
    cores = np.arange(plan.tasks, dtype=np.int64) % max(records.board.cores, 1)
    for task, unit in zip(records.log.tasks, records.task_unit.tolist(), strict=True):
        if not task.is_memory_core and task.task_id < plan.tasks:
            cores[task.task_id] = unit
    return cores


def _verdict(equal_share: float, unwritten: float, logged: Writers) -> str:
    """Describe the agreement of the log with the plan."""
    if equal_share == 1:
        return "every part was written by the planned core"
    text = f"{percent(1 - equal_share)} was written by another core than planned"
    if unwritten:
        text += f", {percent(unwritten)} by none (white)"
    return text if logged.complete else text + " (first writes only: there are too many)"


def axis_label(grid: TileGrid, first: int, last: int) -> str:
    """Return an axis label such as `axes 0 to 1 of the output (2 x 8)`; columns also name the axes inside a cell."""
    extents = " x ".join(str(extent) for extent in grid.shape[first:last])
    inner = grid.shape[len(grid.shape) - grid.inner :]
    elements = "element" if math.prod(inner) == 1 else "elements"
    cell = f", {' x '.join(str(extent) for extent in inner)} {elements} each" if inner and first == grid.split else ""
    if first == last:
        return f"one row{cell}" if first == 0 else f"one column{cell}"
    name = f"axis {first}" if last - first == 1 else f"axes {first} to {last - 1}"
    return f"{name} of the output ({extents}{cell})"

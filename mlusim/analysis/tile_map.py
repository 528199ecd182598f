"""The tile map: the core that wrote each part of the output, and in which iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.analysis.log_columns import Integers, Records
from mlusim.analysis.style import core_colours, new_figure, nothing_ran
from mlusim.analysis.tile_owner import Grid, Owners, grid_of, logged_owners, planned_owners
from mlusim.log import NONE
from mlusim.units import group_digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mlusim.planning.plan import Plan

_FEW_TILES = 64
_FEW_COLOURS = 24
_UNWRITTEN = "#FFFFFF"


def output_allocation(records: Records, plan: Plan) -> int:
    """Return the index of the allocation that the plan's tiles cover; -1 if there is none."""
    writable = [identity for identity, role in records.log.roles().items() if role == "output"]
    shaped = [identity for identity in writable if records.log.allocations[identity].shape == plan.output_shape]
    return next(iter(shaped + writable), NONE)


@dataclass(frozen=True, eq=False)
class TileMap:
    """Who writes each part of an output, as drawn.

    Attributes:
        grid: the sampled elements; None for an output without elements.
        panels: for each row of the picture its origin, and (rows, columns) the core and the iteration.
        about: the number of tiles, and whether plan and log agree.
        numbered: whether the tiles are few enough to be labelled.
        cores, cores_per_cluster: of the board.
    """

    grid: Grid | None
    panels: list[tuple[str, Integers, Integers]]
    about: str
    numbered: bool
    cores: int
    cores_per_cluster: int


def tile_map_of(records: Records, plan: Plan) -> TileMap:
    """Compare the tiles of a plan with the writes of the log: as planned and, below, as logged if that differs."""
    board = records.board
    grid = grid_of(plan.output_shape, plan.tiles)
    if not len(plan.tiles) or not len(grid.rows) * len(grid.columns):
        return TileMap(None, [], "", numbered=False, cores=board.cores, cores_per_cluster=board.cores_per_cluster)
    cores = core_of_task(records, plan)
    planned = planned_owners(grid, plan.tiles)
    planned_core = cores[planned.task]
    panels: list[tuple[str, Integers, Integers]] = [("planned", planned_core, planned.iteration)]
    agreed = "nothing ran"
    output = output_allocation(records, plan)
    if output != NONE and records.log.tasks:
        logged = logged_owners(grid, records, output, plan.itemsize)
        logged_core = np.where(logged.task >= 0, records.task_unit[logged.task], NONE)
        same = float((logged_core == planned_core).mean())
        agreed = verdict(same, float((logged_core < 0).mean()), logged)
        if same == 1:
            panels = [("planned and logged", planned_core, planned.iteration)]
        else:
            panels.append(("logged", logged_core, logged.iteration))
    examined = len(grid.rows) * len(grid.columns)
    if examined < grid.row_extent * grid.column_extent:
        agreed += f"; {group_digits(examined)} of {group_digits(grid.row_extent * grid.column_extent)} cells examined"
    return TileMap(
        grid,
        panels,
        f"{group_digits(len(plan.tiles))} tiles; {agreed}",
        numbered=len(plan.tiles) <= _FEW_TILES,
        cores=board.cores,
        cores_per_cluster=board.cores_per_cluster,
    )


def draw_tile_map(records: Records, plan: Plan, title: str = "Tile map", about: str = "") -> Figure:
    """Draw core and iteration in two panels: as planned and, below, as logged if that differs."""
    return draw_map(tile_map_of(records, plan), title, about)


def draw_map(tile_map: TileMap, title: str, about: str) -> Figure:
    """Draw a tile map that has been computed."""
    grid, panels = tile_map.grid, tile_map.panels
    if grid is None:
        figure = new_figure(2.2, title, about)
        nothing_ran(figure.subplots(), "the output has no elements: no tiles")
        return figure
    figure = new_figure(1.0 + 3.4 * len(panels), title, about, tile_map.about)
    axes = figure.subplots(len(panels), 2, squeeze=False, sharex=True, sharey=True)
    for row, (origin, core, iteration) in enumerate(panels):
        heads = (f"core that writes ({origin})", f"its {'write' if origin == 'logged' else 'iteration'} ({origin})")
        top = max(int(core.max()), 0)
        listed = core_colours(max(tile_map.cores, top + 1), tile_map.cores_per_cluster)[: top + 1]
        for column, (values, colours) in enumerate(((core, listed), (iteration, None))):
            _panel(figure, axes[row, column], grid, values, colours)
            axes[row, column].set_title(heads[column], fontsize=10)
        axes[row, 0].set_ylabel(axis_label(grid, 0, grid.split))
        if origin != "logged" and tile_map.numbered:
            _name_tiles(axes[row], grid, core, iteration)
    for column in range(2):
        axes[-1, column].set_xlabel(axis_label(grid, grid.split, len(grid.shape) - grid.inner))
    return figure


def core_of_task(records: Records, plan: Plan) -> Integers:
    """(tasks,) the core that ran each task of the plan, from the log; tasks that did not run are assigned in turn."""
    cores = np.arange(plan.tasks, dtype=np.int64) % max(records.board.cores, 1)
    for task, unit in zip(records.log.tasks, records.task_unit.tolist(), strict=True):
        if not task.is_memory_core and task.task_id < plan.tasks:
            cores[task.task_id] = unit
    return cores


def verdict(same: float, unwritten: float, logged: Owners) -> str:
    """Describe the agreement of the log with the plan."""
    if same == 1:
        return "by the log each part is written by the core that the plan names"
    text = f"by the log {100 * (1 - same):.1f} % is written by another core than planned"
    if unwritten:
        text += f", {100 * unwritten:.1f} % by none (white)"
    return text if logged.complete else text + " (first writes only: there are too many)"


def _panel(figure: Figure, axes: Axes, grid: Grid, values: Integers, colours: list[str] | None) -> None:
    """Draw one map with its colour bar, by default on a scale; unwritten parts stay white."""
    from matplotlib import colormaps
    from matplotlib.colors import BoundaryNorm, ListedColormap, Normalize
    from matplotlib.ticker import MaxNLocator

    top = max(int(values.max()), 0)
    norm: Any
    if colours is not None:
        colour_map: Any = ListedColormap(colours).with_extremes(bad=_UNWRITTEN)
        norm = BoundaryNorm(np.arange(top + 2) - 0.5, top + 1)
    else:
        colour_map = colormaps["cividis"].with_extremes(bad=_UNWRITTEN)
        # Discrete colours for few values, a continuous scale for many.
        norm = BoundaryNorm(np.arange(top + 2) - 0.5, colour_map.N) if top < _FEW_COLOURS else Normalize(0, top)
    image = axes.imshow(
        np.ma.masked_less(values, 0),
        cmap=colour_map,
        norm=norm,
        aspect="auto",
        extent=(0, grid.column_extent, grid.row_extent, 0),
    )
    bar: Any = figure.colorbar(image, ax=axes, pad=0.015, fraction=0.05)
    bar.outline.set_visible(False)
    ticks = [int(tick) for tick in MaxNLocator(9, integer=True, steps=[1, 2, 4, 5, 8, 10]).tick_values(0, top)]
    bar.set_ticks(sorted({tick for tick in ticks if 0 <= tick <= top}))
    bar.ax.tick_params(length=0)
    bar.ax.minorticks_off()
    for spine in axes.spines.values():
        spine.set_visible(True)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(8, integer=True))


def _name_tiles(axes: Any, grid: Grid, core: Integers, iteration: Integers) -> None:
    """Label the tiles with their numbers, if there are few."""
    labels = core * (int(iteration.max()) + 1) + iteration
    for label in np.unique(labels).tolist():
        rows, columns = np.nonzero(labels == label)
        y = float(grid.rows[rows].mean() + 0.5)
        x = float(grid.columns[columns].mean() + 0.5)
        for panel, values in zip(axes, (core, iteration), strict=True):
            value = int(values[rows[0], columns[0]])
            bright = value > 0.6 * max(int(values.max()), 1)
            colour = "black" if bright else "white"
            panel.text(x, y, str(value), ha="center", va="center", fontsize=8, color=colour, clip_on=True)


def axis_label(grid: Grid, first: int, last: int) -> str:
    """Return an axis label such as `axes 0 and 1 (2 x 8)`; columns also name the axes inside a cell."""
    extents = " x ".join(str(extent) for extent in grid.shape[first:last])
    inner = grid.shape[len(grid.shape) - grid.inner :]
    cell = f", {' x '.join(str(extent) for extent in inner)} elements each" if inner and first == grid.split else ""
    if first == last:
        return f"one row{cell}" if first == 0 else f"one column{cell}"
    name = f"axis {first}" if last - first == 1 else f"axes {first} to {last - 1}"
    return f"{name} of the output ({extents}{cell})"

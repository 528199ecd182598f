"""The tile map: the core that wrote each part of the output, and in which iteration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mlusim.analysis.canvas import WIDTH, Canvas, rgb, width_of
from mlusim.analysis.log_columns import Integers, LogColumns
from mlusim.analysis.plot import Plot, left_of, ticks
from mlusim.analysis.style import core_colours
from mlusim.analysis.tile_owner import Owners, TileGrid, logged_owners, planned_owners, tile_grid
from mlusim.log import NONE
from mlusim.units import group_digits, plural

if TYPE_CHECKING:
    from mlusim.planning.plan import Plan

_FEW_TILES = 64
_BRIGHT = 127
_LABEL_SIZE = 8
_UNWRITTEN = (255, 255, 255)
_PANEL_PX, _BAR_PX, _GAP_PX = 430, 21, 21
# cividis, which looks the same with any colour vision, at 18 even steps, as in matplotlib.
_CIVIDIS = """
    00224e 002d68 163770 2e416d 3f4c6c 4e566c 5c616e 696b71 767676 838179 928c78 a09875 afa471 bfb06b cfbd62 dfca57
    f0d846 fee838
""".split()  # noqa: SIM905 - a list of strings would be longer


def output_allocation(records: LogColumns, plan: Plan) -> int:
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

    grid: TileGrid | None
    panels: list[tuple[str, Integers, Integers]]
    about: str
    numbered: bool
    cores: int
    cores_per_cluster: int


def tile_map_of(records: LogColumns, plan: Plan) -> TileMap:
    """Compare the tiles of a plan with the writes of the log: as planned and, below, as logged if that differs."""
    board = records.board
    grid = tile_grid(plan.output_shape, plan.tiles)
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
        f"{plural(len(plan.tiles), 'tile')}; {agreed}",
        numbered=len(plan.tiles) <= _FEW_TILES,
        cores=board.cores,
        cores_per_cluster=board.cores_per_cluster,
    )


def draw_tile_map(records: LogColumns, plan: Plan, title: str = "Tile map", about: str = "") -> Canvas:
    """Draw core and iteration in two panels: as planned and, below, as logged if that differs."""
    return draw_map(tile_map_of(records, plan), title, about)


def draw_map(tile_map: TileMap, title: str, about: str) -> Canvas:
    """Draw a tile map that has been computed."""
    grid, panels = tile_map.grid, tile_map.panels
    if grid is None:
        canvas = Canvas(title, about)
        canvas.message("the output has no elements: no tiles")
        return canvas
    canvas = Canvas(title, about, tile_map.about)
    names = ticks(0, grid.row_extent, 8, whole=True)[1]
    for row, (origin, core, iteration) in enumerate(panels):
        heads = (f"core that writes ({origin})", f"its {'write' if origin == 'logged' else 'iteration'} ({origin})")
        most = max(int(core.max()), 0)
        listed = core_colours(max(tile_map.cores, most + 1), tile_map.cores_per_cluster)[: most + 1]
        top, right = canvas.height, 0.0
        for column, (values, colours) in enumerate(
            ((core, np.array([rgb(colour) for colour in listed])), (iteration, cividis(int(iteration.max()) + 1)))
        ):
            left = right + left_of(names, 10, label=True) * (1 - column) + _GAP_PX * column
            right = (column + 1) * WIDTH / 2 + 10 * (1 - column)
            end = right - _GAP_PX - _BAR_PX - 18 - width_of(str(len(colours) - 1), 10)
            plot = Plot(
                canvas,
                left,
                _PANEL_PX,
                x=(0, grid.column_extent),
                y=(0, grid.row_extent),
                right=end,
                title=heads[column],
                top=top,
            )
            _panel(plot, values, colours)
            plot.y_axis(axis_label(grid, 0, grid.split) if not column else "", whole=True, numbered=not column)
            last = row == len(panels) - 1
            plot.x_axis(axis_label(grid, grid.split, len(grid.shape) - grid.inner) if last else "", whole=True)
            if origin != "logged" and tile_map.numbered:
                _name_tiles(plot, grid, core * (int(iteration.max()) + 1) + iteration, values, colours)
    return canvas


def cividis(count: int) -> Integers:
    """(count, 3) colours from dark blue to yellow."""
    steps = np.array([rgb(f"#{colour}") for colour in _CIVIDIS])
    at = np.linspace(0, len(steps) - 1, max(count, 1))
    return np.stack([np.interp(at, np.arange(len(steps)), steps[:, band]) for band in range(3)], axis=1).round()


def core_of_task(records: LogColumns, plan: Plan) -> Integers:
    """(tasks,) the core that ran each task of the plan, from the log; tasks that did not run are assigned in turn."""
    cores = np.arange(plan.tasks, dtype=np.int64) % max(records.board.cores, 1)
    for task, unit in zip(records.log.tasks, records.task_unit.tolist(), strict=True):
        if not task.is_memory_core and task.task_id < plan.tasks:
            cores[task.task_id] = unit
    return cores


def verdict(same: float, unwritten: float, logged: Owners) -> str:
    """Describe the agreement of the log with the plan."""
    if same == 1:
        return "every part was written by the planned core"
    text = f"{100 * (1 - same):.1f} % was written by another core than planned"
    if unwritten:
        text += f", {100 * unwritten:.1f} % by none (white)"
    return text if logged.complete else text + " (first writes only: there are too many)"


def _panel(plot: Plot, values: Integers, colours: Integers) -> None:
    """Draw one map with its colour bar; unwritten parts stay white."""
    table = np.concatenate([colours, [_UNWRITTEN]]).astype(np.uint8)
    plot.image(table[np.where(values < 0, len(colours), values)], *plot.x, *plot.y)
    plot.close()
    left = plot.right + _GAP_PX
    bar = Plot(
        plot.canvas,
        left,
        plot.bottom - plot.top,
        x=(0, 1),
        y=(len(colours) - 0.5, -0.5),
        right=left + _BAR_PX,
        top=plot.top,
    )
    bar.image(table[-2::-1, None], *bar.x, *bar.y)
    for value, name in zip(*ticks(0, len(colours) - 1, 8, whole=True), strict=True):
        plot.canvas.text(bar.right + 7, float(bar.at_y(value)), name, anchor="l")


def _name_tiles(plot: Plot, grid: TileGrid, tiles: Integers, values: Integers, colours: Integers) -> None:
    """Label the tiles that have room for it with their numbers."""
    for tile in np.unique(tiles).tolist():
        rows, columns = np.nonzero(tiles == tile)
        value = int(values[rows[0], columns[0]])
        left, right = plot.at_x(grid.columns[[columns.min(), columns.max()]] + [0, 1])
        top, bottom = plot.at_y(grid.rows[[rows.min(), rows.max()]] + [0, 1])
        if right - left > width_of(str(value), _LABEL_SIZE) and bottom - top > 2 * _LABEL_SIZE:
            colour = "#000000" if colours[value].mean() > _BRIGHT else "#FFFFFF"
            y, x = float(grid.rows[rows].mean() + 0.5), float(grid.columns[columns].mean() + 0.5)
            plot.text(x, y, str(value), _LABEL_SIZE, colour=colour)


def axis_label(grid: TileGrid, first: int, last: int) -> str:
    """Return an axis label such as `axes 0 and 1 (2 x 8)`; columns also name the axes inside a cell."""
    extents = " x ".join(str(extent) for extent in grid.shape[first:last])
    inner = grid.shape[len(grid.shape) - grid.inner :]
    elements = "element" if math.prod(inner) == 1 else "elements"
    cell = f", {' x '.join(str(extent) for extent in inner)} {elements} each" if inner and first == grid.split else ""
    if first == last:
        return f"one row{cell}" if first == 0 else f"one column{cell}"
    name = f"axis {first}" if last - first == 1 else f"axes {first} to {last - 1}"
    return f"{name} of the output ({extents}{cell})"

"""The tile map: the core that wrote each part of the output, and in which iteration."""

from __future__ import annotations

import numpy as np

from mlusim.analysis.canvas import WIDTH, Canvas, rgb, text_on, width_of
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.plot import Plot, left_of, ticks
from mlusim.analysis.style import core_colours
from mlusim.analysis.tile_grid import TileGrid
from mlusim.analysis.tile_writers import axis_label, tile_writers
from mlusim.arrays import Integers
from mlusim.hardware import Board
from mlusim.inputs import as_text, check_is
from mlusim.planning.plan import Plan
from mlusim.units import group_digits, plural

_FEW_TILES = 64
_LABEL_SIZE = 8
_UNWRITTEN = (255, 255, 255)
_PANEL_PX, _BAR_PX, _GAP_PX = 430, 21, 21
# cividis, which looks the same with any colour vision, at 18 even steps, as in matplotlib.
_CIVIDIS = """
    00224e 002d68 163770 2e416d 3f4c6c 4e566c 5c616e 696b71 767676 838179 928c78 a09875 afa471 bfb06b cfbd62 dfca57
    f0d846 fee838
""".split()  # noqa: SIM905 - a list of strings would be longer


def draw_tile_map(records: LogColumns, plan: Plan, title: str = "Tile map", about: str = "") -> Canvas:
    """Draw core and iteration in two panels: as planned and, below, as logged if that differs."""
    check_is("records", records, LogColumns, "pass LogColumns(result.log, result.board)")
    check_is("plan", plan, Plan, "pass the plan of a result; a kernel of your own has none")
    title, about = as_text("title", title), as_text("about", about)
    writers = tile_writers(records, plan)
    if writers is None:
        canvas = Canvas(title, about)
        canvas.message("the output has no elements: no tiles")
        return canvas
    grid = writers.grid
    by_plan = "planned and logged" if writers.agree else "planned"
    panels = [(by_plan, writers.planned_core, writers.planned.iteration)]
    if writers.logged is not None:
        panels.append(("logged", *writers.logged))
    lines = f"{plural(len(plan.tiles), 'tile')}; {writers.verdict}"
    samples, cells = len(grid.rows) * len(grid.columns), grid.row_extent * grid.column_extent
    if samples < cells:
        lines += f"; {group_digits(samples)} of {group_digits(cells)} cells examined"
    canvas = Canvas(title, about, lines)
    for panel in panels:
        numbered = panel[0] != "logged" and len(plan.tiles) <= _FEW_TILES
        _draw_maps(canvas, grid, records.board, panel, last=panel is panels[-1], numbered=numbered)
    return canvas


def _draw_maps(
    canvas: Canvas, grid: TileGrid, board: Board, panel: tuple[str, Integers, Integers], *, last: bool, numbered: bool
) -> None:
    """Draw two maps side by side: the core that writes, and its iteration; the last ones have a label on the x axis."""
    origin, core, iteration = panel
    names = ticks(0, grid.row_extent, 8, integers=True)[1]
    cores = max(int(core.max()), 0) + 1
    core_shades = np.array([rgb(colour) for colour in core_colours(max(board.cores, cores), board.cores_per_cluster)])
    middle, top = WIDTH / 2 + 10, canvas.height
    order_name = "write" if origin == "logged" else "iteration"
    maps = (
        (f"core that writes ({origin})", core, core_shades[:cores], left_of(names, 10, label=True), middle),
        (f"its {order_name} ({origin})", iteration, cividis(int(iteration.max()) + 1), middle + _GAP_PX, WIDTH),
    )
    for column, (title, values, colours, left, right) in enumerate(maps):
        end = right - _GAP_PX - _BAR_PX - 18 - width_of(str(len(colours) - 1), 10)
        x, y = (0, grid.column_extent), (0, grid.row_extent)
        plot = Plot(canvas, left, _PANEL_PX, x=x, y=y, right=end, title=title, top=top)
        _panel(plot, values, colours)
        plot.y_axis(axis_label(grid, 0, grid.split) if not column else "", integers=True, numbered=not column)
        plot.x_axis(axis_label(grid, grid.split, len(grid.shape) - grid.inner) if last else "", integers=True)
        if numbered:
            _name_tiles(plot, grid, core * (int(iteration.max()) + 1) + iteration, values, colours)


def cividis(count: int) -> Integers:
    """(count, 3) colours from dark blue to yellow."""
    steps = np.array([rgb(f"#{colour}") for colour in _CIVIDIS])
    positions = np.linspace(0, len(steps) - 1, max(count, 1))
    return np.stack([np.interp(positions, np.arange(len(steps)), steps[:, band]) for band in range(3)], axis=1).round()


def _panel(plot: Plot, values: Integers, colours: Integers) -> None:
    """Draw one map with its colour bar; unwritten parts stay white."""
    table = np.concatenate([colours, [_UNWRITTEN]]).astype(np.uint8)
    plot.image(table[np.where(values < 0, len(colours), values)], *plot.x, *plot.y)
    plot.close_frame()
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
    for value, name in zip(*ticks(0, len(colours) - 1, 8, integers=True), strict=True):
        plot.canvas.text(bar.right + 7, float(bar.at_y(value)), name, anchor="l")


def _name_tiles(plot: Plot, grid: TileGrid, tiles: Integers, values: Integers, colours: Integers) -> None:
    """Label the tiles that have room for it with their numbers."""
    for tile in np.unique(tiles[values >= 0]).tolist():
        rows, columns = np.nonzero(tiles == tile)
        value = int(values[rows[0], columns[0]])
        left, right = plot.at_x(grid.columns[[columns.min(), columns.max()]] + [0, 1])
        top, bottom = plot.at_y(grid.rows[[rows.min(), rows.max()]] + [0, 1])
        if right - left > width_of(str(value), _LABEL_SIZE) and bottom - top > 2 * _LABEL_SIZE:
            y, x = float(grid.rows[rows].mean() + 0.5), float(grid.columns[columns].mean() + 0.5)
            plot.text(x, y, str(value), _LABEL_SIZE, colour=text_on(colours[value].tolist()))

"""The tile map of the page: cells of the flattened output, and the tile that writes each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.page.embed import pack
from mlusim.analysis.tile_writers import axis_label, tile_writers
from mlusim.arrays import Integers
from mlusim.log import NONE
from mlusim.planning.plan import Plan
from mlusim.planning.tiles import Tiles
from mlusim.units import group_digits

# More cells than this result in a page of several megabytes.
MAX_CELLS = 24_000
_PACKED = ("tile", "task", "iteration", "unit", "nbytes", "nram_bytes", "logged_unit", "logged_write")


@dataclass(frozen=True, eq=False)
class TileMap:
    """The output as a table of rectangles; neighbours with the same writers are merged.

    Attributes:
        row_edges, column_edges: by edge of a row or column, the element of the flattened output that begins there.
        row_label, column_label: labels of the axes.
        tile: (rows, columns) index into `task`, `start`, ...; NONE if no tile covers it.
        task, iteration, unit, nbytes, nram_bytes: by tile shown.
        start, stop: (tiles, rank) their boxes.
        logged_unit, logged_write: (rows, columns) the writer according to the log, and the ordinal of that write; None
            if that agrees with the plan, or nothing ran.
        verdict: comparison of plan and log, and what was left out.
    """

    row_edges: Integers
    column_edges: Integers
    row_label: str
    column_label: str
    tile: Integers
    task: Integers
    iteration: Integers
    unit: Integers
    nbytes: Integers
    nram_bytes: Integers
    start: Integers
    stop: Integers
    logged_unit: Integers | None
    logged_write: Integers | None
    verdict: str


def tile_map(records: LogColumns, plan: Plan | None, max_cells: int = MAX_CELLS) -> TileMap | None:
    """Return the map of a run; None if there is no plan, or it has no tiles."""
    writers = None if plan is None else tile_writers(records, plan)
    if plan is None or writers is None:
        return None
    grid = writers.grid
    layers, descriptions = [_numbers(plan.tiles, writers.planned.task, writers.planned.iteration)], [writers.verdict]
    layers += writers.logged or ()
    every = grid.row_extent * grid.column_extent
    looked = len(grid.rows) * len(grid.columns)
    rows, columns = _changes(layers, 0), _changes(layers, 1)
    if len(rows) * len(columns) > max_cells:
        rows, columns = _fewer(rows, columns, max_cells)
        looked = len(rows) * len(columns)
    if looked < every:
        descriptions.append(f"{group_digits(looked)} of its {group_digits(every)} cells are examined")
    tile_of_cell, *logged = (layer[np.ix_(rows, columns)] for layer in layers)
    tiles_shown, number = np.unique(tile_of_cell, return_inverse=True)
    # NONE sorts first, and stays NONE.
    number = number.reshape(tile_of_cell.shape) - int(tiles_shown[0] == NONE)
    tiles_shown = tiles_shown[tiles_shown != NONE]
    tiles = plan.tiles
    return TileMap(
        row_edges=_edges(grid.rows, rows, grid.row_extent),
        column_edges=_edges(grid.columns, columns, grid.column_extent),
        row_label=axis_label(grid, 0, grid.split),
        column_label=axis_label(grid, grid.split, len(grid.shape) - grid.inner),
        tile=number,
        task=tiles.task[tiles_shown],
        iteration=tiles.iteration[tiles_shown],
        unit=writers.cores[tiles.task[tiles_shown]],
        nbytes=tiles.elements()[tiles_shown] * plan.itemsize,
        nram_bytes=tiles.nram_bytes[tiles_shown],
        start=tiles.start[tiles_shown],
        stop=tiles.stop[tiles_shown],
        logged_unit=logged[0] if logged else None,
        logged_write=logged[1] if logged else None,
        verdict="; ".join(descriptions),
    )


def _numbers(tiles: Tiles, task: Integers, iteration: Integers) -> Integers:
    """Return the index of the tile with this ordinal among its task's tiles; NONE if there is none."""
    iterations = int(tiles.iteration.max()) + 1
    key = tiles.task * iterations + tiles.iteration
    order = np.argsort(key)
    keys = task * iterations + iteration
    index = np.minimum(np.searchsorted(key[order], keys), len(key) - 1)
    return np.where((task >= 0) & (key[order][index] == keys), order[index], NONE)


def _changes(layers: list[Integers], axis: int) -> Integers:
    """Return the rows or columns that differ from the previous one."""
    changed = np.zeros(layers[0].shape[axis] - 1, bool)
    for layer in layers:
        changed |= (np.diff(layer, axis=axis) != 0).any(axis=1 - axis)
    return np.flatnonzero(np.concatenate([[True], changed]))


def _fewer(rows: Integers, columns: Integers, max_cells: int) -> tuple[Integers, Integers]:
    """Select rows and columns evenly, so that there are at most `max_cells` cells."""
    ratio = max_cells / (len(rows) * len(columns))
    wanted_rows = max(min(len(rows), round(len(rows) * max(ratio**0.5, 1 / len(rows)))), 1)
    wanted_columns = max(min(len(columns), max_cells // wanted_rows), 1)
    wanted_rows = max(min(len(rows), max_cells // wanted_columns), 1)

    def evenly(samples: Integers, count: int) -> Integers:
        return np.asarray(samples[np.linspace(0, len(samples) - 1, count).round().astype(np.int64)])

    return evenly(rows, wanted_rows), evenly(columns, wanted_columns)


def _edges(samples: Integers, selected: Integers, extent: int) -> Integers:
    """Return the edges of the cells: half way between samples, and the end of the last."""
    middle = (samples[1:] + samples[:-1] + 1) // 2
    starts = np.concatenate([[0], middle])[selected]
    starts[0] = 0
    return np.concatenate([starts, [extent]])


def tile_data(records: LogColumns, tiles: TileMap, shape: Sequence[int]) -> dict[str, Any]:
    """Return the map's cells and the tiles that they refer to."""
    columns = {name: getattr(tiles, name) for name in _PACKED}
    return {
        "rows": tiles.row_edges.tolist(),
        "columns": tiles.column_edges.tolist(),
        "row_label": tiles.row_label,
        "column_label": tiles.column_label,
        "shape": list(shape),
        **{name: None if column is None else pack(column.reshape(-1)) for name, column in columns.items()},
        "start": [pack(axis) for axis in tiles.start.T],
        "stop": [pack(axis) for axis in tiles.stop.T],
        "units": [records.unit_name(unit) for unit in range(records.units)],
    }

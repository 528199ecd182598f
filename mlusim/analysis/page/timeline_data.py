"""The JSON from which page.js draws the timeline and the tile map."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.page.cause_spans import LANE_NAMES, CauseSpans
from mlusim.analysis.page.embed import pack
from mlusim.analysis.page.tiles import TileMap
from mlusim.analysis.style import CAUSE_COLOURS, time_unit


def timeline_data(records: LogColumns, spans: CauseSpans) -> dict[str, Any]:
    """Return the spans in columns, with the names that their numbers refer to."""
    unit, scale = time_unit(records.time_ps)
    first = np.searchsorted(spans.lane, np.arange(len(spans.lanes) + 1))
    units = sorted({lane.unit for lane in spans.lanes})
    return {
        "end_ps": records.time_ps,
        "unit": unit,
        "unit_ps": scale,
        "causes": list(CAUSES.values()),
        "colours": [CAUSE_COLOURS[name] for name in CAUSES],
        "lane_names": list(LANE_NAMES),
        "lanes": [[units.index(lane.unit), lane.kind] for lane in spans.lanes],
        "units": [records.unit_name(unit) for unit in units],
        "first": first.tolist(),
        "start_ps": pack(spans.start_ps),
        "length_ps": pack(spans.length_ps),
        "cause": pack(spans.cause),
        "label": pack(spans.label),
        "line": pack(spans.line),
        "nbytes": pack(spans.nbytes),
        "times": pack(spans.times),
        "labels": spans.labels,
        "lines": [f"{PurePath(file).name}:{number}" for file, number, _ in records.log.lines],
        "within_ps": spans.within_ps,
    }


def tile_data(records: LogColumns, tiles: TileMap, shape: Sequence[int]) -> dict[str, Any]:
    """Return the map's cells and the tiles that they refer to."""
    logged = tiles.logged_unit is not None
    return {
        "rows": tiles.row_edges.tolist(),
        "columns": tiles.column_edges.tolist(),
        "row_label": tiles.row_label,
        "column_label": tiles.column_label,
        "shape": list(shape),
        "tile": pack(tiles.tile.reshape(-1)),
        "task": pack(tiles.task),
        "iteration": pack(tiles.iteration),
        "unit": pack(tiles.unit),
        "nbytes": pack(tiles.nbytes),
        "nram_bytes": pack(tiles.nram_bytes),
        "start": [pack(axis) for axis in tiles.start.T],
        "stop": [pack(axis) for axis in tiles.stop.T],
        "logged_unit": pack(tiles.logged_unit.reshape(-1)) if tiles.logged_unit is not None else None,
        "logged_write": pack(tiles.logged_write.reshape(-1)) if logged and tiles.logged_write is not None else None,
        "units": [records.unit_name(unit) for unit in range(records.units)],
    }

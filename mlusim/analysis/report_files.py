"""The files written by `--report`: pictures as PNG and SVG, report.html, summary.json, trace.json."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mlusim.analysis.bandwidth import draw_bandwidth
from mlusim.analysis.log_columns import LogColumns, check_run
from mlusim.analysis.page.embed import plotly_bundle
from mlusim.analysis.page.html import page
from mlusim.analysis.page.roofline import roofline
from mlusim.analysis.provenance import provenance
from mlusim.analysis.roofline_picture import draw_roofline
from mlusim.analysis.summary import to_json
from mlusim.analysis.tile_map import draw_tile_map
from mlusim.analysis.timeline_picture import draw_timeline
from mlusim.analysis.trace import stream_trace
from mlusim.analysis.traffic import draw_traffic
from mlusim.files import atomic_write, directory_for, utf8
from mlusim.inputs import as_path
from mlusim.units import format_us, percent

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlusim.analysis.canvas import Canvas
    from mlusim.results.result import Result

PICTURES = ("timeline", "tile_map", "traffic", "bandwidth", "roofline")
SUFFIXES = (".png", ".svg")


def write_report(result: Result, directory: str | os.PathLike[str]) -> list[Path]:
    """Write the report of a run; return the files, the most important ones first.

    Args:
        result: the run.
        directory: output directory; created if missing. Existing files of the same names are replaced, all at once when
            the report is complete; others are left alone.

    Equal runs write equal bytes. Raises `InputError` if the directory cannot be created or written, or plotly is not
    installed.
    """
    target = as_path(directory)
    check_run(result)
    # Without plotly, no directory is made.
    plotly_bundle()
    # All files are renamed to their final names together, when the last one is complete.
    with directory_for(target), ExitStack() as files:
        names = _write_all(result, lambda name: files.enter_context(atomic_write(target / name)))
    return [target / name for name in names]


def draw(result: Result) -> dict[str, Canvas]:
    """Return the pictures by name; no tile map without a plan."""
    records = LogColumns(result.log, result.board)
    metrics = result.metrics
    plan = result.plan
    run = f"{result.operator} on {result.board.name}"
    about = f"{format_us(metrics.time_ps)} by the model, io_efficiency {percent(metrics.io_efficiency)}"
    tile_map = {}
    if plan is not None:
        shape = " x ".join(map(str, plan.output_shape))
        about = f"output {shape}, strategy {plan.strategy}, tier {plan.tier}: {about}"
        tile_map["tile_map"] = draw_tile_map(records, plan, f"Tile map: {run}", about)
    return {
        "timeline": draw_timeline(records, f"Timeline: {run}", about),
        **tile_map,
        "traffic": draw_traffic(metrics, f"Bytes by direction: {run}", about),
        "bandwidth": draw_bandwidth(records, f"DRAM bandwidth: {run}", about),
        "roofline": draw_roofline(roofline(records, metrics), f"Roofline: {run}", about),
    }


def report_names(*, tile_map: bool = True) -> list[str]:
    """Return the names of a report's files, the most important ones first; `tile_map`: for a run with a plan."""
    pictures = [f"{name}{suffix}" for name in PICTURES for suffix in SUFFIXES if tile_map or name != "tile_map"]
    return ["report.html", *pictures, "summary.json", "trace.json"]


def _write_all(result: Result, stream_of: Callable[[str], BinaryIO]) -> list[str]:
    """Write every file of a report to its stream; return their names."""
    stream_of("report.html").write(utf8(page(result)))
    summary = json.dumps(to_json(result), indent=2, allow_nan=False) + "\n"
    stream_of("summary.json").write(summary.encode())
    text = TextIOWrapper(stream_of("trace.json"), encoding="utf-8", newline="\n")
    stream_trace(LogColumns(result.log, result.board), text, provenance(result))
    text.detach()
    for name, canvas in draw(result).items():
        stream_of(f"{name}.png").write(canvas.png())
        stream_of(f"{name}.svg").write(canvas.svg())
    return report_names(tile_map=result.plan is not None)

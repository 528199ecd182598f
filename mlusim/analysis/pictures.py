"""The files written by `--report`: pictures as PNG and SVG, report.html, summary.json, trace.json."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mlusim.analysis.bandwidth import bandwidth_of, draw_bandwidth
from mlusim.analysis.drawing_process import SUFFIXES, DrawingProcess
from mlusim.analysis.log_columns import Records
from mlusim.analysis.page.html import page
from mlusim.analysis.provenance import provenance
from mlusim.analysis.style import drawing, render
from mlusim.analysis.summary import percent, to_json, us_text
from mlusim.analysis.tile_map import draw_map, tile_map_of
from mlusim.analysis.timeline import draw_timeline
from mlusim.analysis.trace import stream_trace
from mlusim.analysis.traffic import draw_traffic
from mlusim.errors import InputError
from mlusim.files import atomic_write
from mlusim.inputs import as_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.figure import Figure

    from mlusim.results.result import Result

PICTURES = ("timeline", "tile_map", "traffic", "bandwidth")
# These take half of the drawing time.
_IN_SECOND = ("tile_map", "traffic")


def write_report(
    result: Result,
    directory: str | os.PathLike[str],
    second: DrawingProcess | None = None,
    more: Mapping[str, Callable[[], Figure]] | None = None,
) -> list[Path]:
    """Write the report of a run; return the files, the most important ones first.

    Args:
        result: the run.
        directory: output directory; created if missing. Existing files of the same names are replaced, all at once when
            the report is complete; others are left alone.
        second: a process that draws some of the pictures.
        more: further pictures to write as PNG, by name; their files are not returned.

    Equal runs give equal bytes. Raises `InputError` if the directory cannot be created or written.
    """
    target = as_path(directory)
    try:
        target.mkdir(parents=True, exist_ok=True)
        # All files are renamed to their final names together, when the last one is complete.
        with ExitStack() as files:
            made = _write_all(
                result,
                lambda name: files.enter_context(atomic_write(target / name)),
                second or DrawingProcess(),
                more or {},
            )
    except OSError as error:
        raise InputError(
            f"cannot write the report to {target}: {error.strerror or error}; name a directory that can be written "
            "and has room"
        ) from error
    return [target / name for name in made]


def draw(result: Result) -> dict[str, Callable[[], Figure]]:
    """Return a drawing function per picture, to be called inside `style.drawing()`; no tile map without a plan.

    Those drawn by the second process can be pickled, without the log.
    """
    records = Records(result.log, result.board)
    metrics = result.metrics
    plan = result.plan
    run = f"{result.operator} on {result.board.name}"
    about = f"{us_text(metrics.time_ps)} by the model, io_efficiency {percent(metrics.io_efficiency)}"
    tile_map = {}
    if plan is not None:
        shape = " x ".join(map(str, plan.output_shape))
        about = f"output {shape}, strategy {plan.strategy}, tier {plan.tier}: {about}"
        tile_map["tile_map"] = partial(draw_map, tile_map_of(records, plan), f"Tile map: {run}", about)
    return {
        "timeline": partial(draw_timeline, records, f"Timeline: {run}", about),
        **tile_map,
        "traffic": partial(draw_traffic, metrics, f"Bytes by direction: {run}", about),
        "bandwidth": partial(draw_bandwidth, bandwidth_of(records), f"DRAM bandwidth: {run}", about),
    }


def report_names(*, tile_map: bool = True) -> list[str]:
    """Return the names of a report's files, the most important ones first; `tile_map`: for a run with a plan."""
    pictures = [f"{name}{suffix}" for name in PICTURES for suffix in SUFFIXES if tile_map or name != "tile_map"]
    return ["report.html", *pictures, "summary.json", "trace.json"]


def _write_all(
    result: Result,
    stream_of: Callable[[str], BinaryIO],
    second: DrawingProcess,
    more: Mapping[str, Callable[[], Figure]],
) -> list[str]:
    """Write every file of a report to its stream; return their names."""
    pictures = draw(result)
    there = [name for name in _IN_SECOND if name in pictures]
    here = [name for name in pictures if name not in there]
    draws = [pictures[name] for name in there]
    second.begin(draws)
    stream_of("report.html").write(page(result).encode())
    summary = json.dumps(to_json(result), indent=2, allow_nan=False) + "\n"
    stream_of("summary.json").write(summary.encode())
    text = TextIOWrapper(stream_of("trace.json"), encoding="utf-8", newline="\n")
    stream_trace(Records(result.log, result.board), text, provenance(result))
    text.detach()
    with drawing():
        drawn = [render(pictures[name], SUFFIXES) for name in here]
        for name, figure_of in more.items():
            stream_of(f"{name}.png").write(render(figure_of, (".png",))[0])
        drawn += second.files(draws)
    for name, files in zip(here + there, drawn, strict=True):
        for suffix, content in zip(SUFFIXES, files, strict=True):
            stream_of(f"{name}{suffix}").write(content)
    return report_names(tile_map=result.plan is not None)

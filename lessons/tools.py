"""Functions shared by the lessons: running a kernel, a table of the steps, and pictures of their time."""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mlusim import Board, Device
from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.canvas import Canvas
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.style import (
    BLACK,
    CAUSE_COLOURS,
    GREEN,
    ORANGE,
    PURPLE,
    READ,
    SKY,
    WRITE,
    YELLOW,
    drawing,
    save_to,
)
from mlusim.log import IO, MOVE, SCALAR, SYNC, TENSOR, VECTOR
from mlusim.units import PS_PER_NS, PS_PER_US

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mlusim.results.result import Result

# As narrow as a page's column.
_WIDTH_IN = 9.0
# Bytes that an operation leaves unchanged, and those that it writes.
STEPPED = ("#ececec", "#9ecae1")
# Width of a letter beside the axis, and the sum of red, green and blue above which letters are black.
_LETTER, _BRIGHT = 0.0085, 380

# The pipes of a core, in drawing order.
_LANES = {IO: "io", MOVE: "move", VECTOR: "vector", TENSOR: "tensor", SCALAR: "scalar", SYNC: "sync"}
_KINDS = {
    "io read": READ,
    "io write": WRITE,
    "DMA start-up": YELLOW,
    "move": GREEN,
    "vector": PURPLE,
    "tensor": BLACK,
    "scalar": ORANGE,
    "waiting in a sync": SKY,
}


class _Span(NamedTuple):
    """A part of an operation on its pipe: one of `_LANES`, one of `_KINDS`, its time, and its index in the log."""

    lane: int
    kind: str
    start_ps: int
    end_ps: int
    record: int


@dataclass(frozen=True)
class Step:
    """One run of a lesson.

    Attributes:
        result: its figures, from the log.
        output: the output of the kernel; None in a timing-only run.
        moved_bytes: bytes of the inputs and the output, once.
    """

    result: Result
    output: np.ndarray[Any, Any] | None
    moved_bytes: int

    @property
    def gbytes_per_s(self) -> float:
        """Useful bytes over time, in GB/s."""
        return self.moved_bytes / self.result.time_ps * 1000


def run(
    kernel: Any,
    *inputs: np.ndarray[Any, Any],
    out: tuple[tuple[int, ...], Any],
    board: str | Board = "mlu370-x4",
    extra: tuple[Any, ...] = (),
    dim: int | tuple[int, int, int] | None = None,
    kind: str = "UNION1",
    dma: str = "complete",
) -> Step:
    """Run `kernel(core, *inputs, out, *extra)` on a device of its own; `out` is the output's shape and type."""
    device = Device(board, dma=dma)
    views = [device.upload(array) for array in inputs]
    target = device.alloc(*out)
    device.launch(kernel, *views, target, *extra, dim=dim, kind=kind)
    device.synchronize()
    output = device.download(target).copy()
    return Step(device.result(), output, sum(array.nbytes for array in inputs) + output.nbytes)


def table(steps: Mapping[str, Step], causes: int = 2) -> None:
    """Print a line for each step: time, bandwidth, speed relative to the first, and the largest causes."""
    width = max(map(len, steps))
    first = next(iter(steps.values())).result.time_ps
    print(f"{'':{width}}      time   useful bytes   speed   most of the working cores' time")
    for name, step in steps.items():
        result = step.result
        share = _working(result).mean(axis=0) / result.time_ps
        most = ", ".join(f"{list(CAUSES.values())[k]} {share[k]:.0%}" for k in np.argsort(-share)[:causes])
        figures = f"{result.time_us:8.1f} us {step.gbytes_per_s:8.1f} GB/s {first / result.time_ps:7.2f} x"
        print(f"{name:{width}} {figures}  {most}")


def draw_causes(steps: Mapping[str, Step], title: str) -> Figure:
    """One bar for each step: time by cause, per working core on average."""
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(_WIDTH_IN, 1.4 + 0.45 * len(steps)), layout="constrained")
        axes = figure.subplots()
        names = list(steps)
        left = np.zeros(len(names))
        mean = np.array([_working(step.result).mean(axis=0) for step in steps.values()]) / PS_PER_US
        for column, (cause, words) in enumerate(CAUSES.items()):
            if mean[:, column].max() > 0.002 * mean.sum(axis=1).max():
                axes.barh(names, mean[:, column], left=left, label=words, color=CAUSE_COLOURS[cause], height=0.7)
            left += mean[:, column]
        axes.invert_yaxis()
        axes.set_xlabel("time per working core on average [us]")
        axes.set_title(title)
        figure.legend(loc="outside lower center", ncols=3)
    return figure


def draw_pipes(steps: Mapping[str, Step], title: str, *, until_us: float | None = None, units: int = 1) -> Figure:
    """Draw the pipes of the first unit (or units: cores, then the memory core) of each step over time.

    A bar has the name of its operation if it fits.
    """
    with drawing():
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch

        rows = [(name, step, task) for name, step in steps.items() for task in _tasks(step.result, units)]
        every = [(name, step, task, _spans(step, task)) for name, step, task in rows]
        every = [row for row in every if row[3]]
        heights = [0.3 + 0.24 * len({span.lane for span in row[3]}) for row in every]  # room for the name of each lane
        figure = Figure(figsize=(_WIDTH_IN, 1.3 + 1.1 * sum(heights)), layout="constrained")
        axes = figure.subplots(len(every), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        end_us = until_us or max(step.result.time_us for _, step, *_ in every)
        used: set[str] = set()
        for axis, (name, step, task, mine) in zip(axes, every, strict=True):
            lanes = [lane for lane in _LANES if any(span.lane == lane for span in mine)]
            _draw_bars(axis, step.result, mine, lanes, end_us)
            used |= {span.kind for span in mine}
            axis.set_yticks(range(len(lanes)), [_LANES[lane] for lane in lanes])
            axis.set_ylim(len(lanes) - 0.5, -0.5)
            record = step.result.log.tasks[task]
            who = "memory core" if record.is_memory_core else f"core {record.core}"
            axis.set_title(f"{name}: {who}" if units > 1 else name, fontsize=10)
        axes[-1].set_xlim(0, end_us)
        axes[-1].set_xlabel("time since the launch [us]")
        figure.suptitle(title, x=0.01, ha="left", weight="bold")
        figure.legend(
            handles=[Patch(color=colour, label=kind) for kind, colour in _KINDS.items() if kind in used],
            loc="outside lower center",
            ncols=5,
        )
    return figure


def draw_steps(result: Result, count: int, title: str) -> Figure:
    """Draw the buffers of core 0 after each of its first `count` operations that write memory: the path of a tile.

    The result is that of `mlusim.verify`, which provides values.
    """
    records = LogColumns(result.log, result.board)
    writes = np.flatnonzero((records.task == 0) & (records.dst_alloc >= 0))[:count]
    moments = [(int(record), result.memory_at(int(records.end_ps[record]) / PS_PER_NS, 0)) for record in writes]
    names = [buffer.name for buffer in moments[0][1].buffers]
    tensors = [place.name for place in result.log.allocations if place.memory == "gdram" and place.name]
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(_WIDTH_IN, 0.9 + 0.42 * (len(names) + len(tensors))), layout="constrained")
        axes = figure.subplots()
        rows = [*tensors, *names]
        for column, (record, moment) in enumerate(moments):
            written = result.log.allocations[records.dst_alloc[record]].name
            for row, name in enumerate(rows):
                colour = STEPPED[1] if name == written else STEPPED[0]
                axes.barh(row, 0.94, left=column + 0.03, height=0.86, color=colour)
                if name in names:
                    buffer = moment[name]
                    text = "not written" if buffer.written is None else _few(buffer.values)
                    axes.text(column + 0.5, row, text, ha="center", va="center", fontsize=8)
                elif name == written:
                    axes.text(column + 0.5, row, "the tile is stored", ha="center", va="center", fontsize=8)
        labels = [
            f"{result.log.ops[records.op[record]]}\ndone at {records.end_ps[record] / PS_PER_NS:.0f} ns"
            for record in writes
        ]
        axes.set_xticks([column + 0.5 for column in range(len(writes))], labels)
        axes.set_yticks(range(len(rows)), [*(f"GDRAM {name}" for name in tensors), *(f"NRAM {name}" for name in names)])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(0, len(writes))
        axes.grid(visible=False)
        axes.tick_params(length=0)
        figure.suptitle(title, x=0.01, ha="left", weight="bold")
    return figure


def _few(values: np.ndarray[Any, Any] | None) -> str:
    """Return the first elements of a buffer."""
    assert values is not None
    return " ".join(f"{value:.3g}" for value in values.reshape(-1)[:4].tolist()) + " ..."


def _spans(step: Step, task: int) -> list[_Span]:
    """Return the operations of a task; a copy is two spans, its start-up and its transfer. Empty ones are left out."""
    records = LogColumns(step.result.log, step.result.board)
    spans, starts = [], []
    columns = (records.pipe, records.start_ps, records.moving_ps, records.free_ps, records.is_write)
    own = np.flatnonzero(records.task == task)
    for record, pipe, start, moving, end, write in zip(
        own.tolist(), *(column[own].tolist() for column in columns), strict=True
    ):
        kind = ("io write" if write else "io read") if pipe == IO else _LANES[pipe]
        kind = "waiting in a sync" if pipe == SYNC else kind
        spans.append(_Span(pipe, kind, moving if pipe == IO else start, end, record))
        if pipe == IO:
            starts.append(_Span(pipe, "DMA start-up", start, moving, record))
    return [span for span in (*spans, *starts) if span.end_ps > span.start_ps]


def _draw_bars(axes: Axes, result: Result, mine: list[_Span], lanes: list[int], end_us: float) -> None:
    """Draw a bar for each span, with the name of its operation if there is room."""
    log = result.log
    begin_ps, op = min(launch.start_ps for launch in log.launches), log.columns()["op"]
    for lane, kind, start_ps, end_ps, record in mine:
        start, stop = ((at - begin_ps) / PS_PER_US for at in (start_ps, end_ps))
        if start >= end_us:
            continue
        colour = _KINDS[kind]
        axes.barh(lanes.index(lane), stop - start, left=start, color=colour, edgecolor="white", linewidth=0.4)
        words = "start-up" if kind == "DMA start-up" else log.ops[op[record]]
        if min(stop, end_us) - start > _LETTER * (len(words) + 1) * end_us:
            bright = sum(int(colour[at : at + 2], 16) for at in (1, 3, 5)) > _BRIGHT
            axes.text(
                (start + min(stop, end_us)) / 2, lanes.index(lane), words, ha="center", va="center", fontsize=7,
                color="black" if bright else "white", clip_on=True,
            )  # fmt: skip


def svg_of(figure: Figure | Canvas) -> bytes:
    """Return a picture as SVG, the same on every machine."""
    if isinstance(figure, Canvas):
        return figure.svg()
    stream = io.BytesIO()
    with drawing():
        save_to(figure, stream, ".svg")
    return stream.getvalue()


def show(figure: Figure | Canvas, name: str) -> None:
    """Show a figure: on the page being built, in a notebook, or as a file whose name is printed."""
    if _FIGURES is not None:
        _FIGURES.append((name, figure))
        return
    if "ipykernel" in sys.modules:
        from IPython.display import SVG, display

        display(SVG(svg_of(figure)))
        return
    path = _pictures() / f"{name}.svg"
    path.write_bytes(svg_of(figure))
    print(f"(picture: {path})", file=sys.stderr)


@cache
def _pictures() -> Path:
    """Make a temporary folder of this run: a fixed one may belong to another user."""
    return Path(tempfile.mkdtemp(prefix="mlusim-lesson-"))


# The list in which `build.py` collects the figures of a lesson; None if the lesson runs as a script.
_FIGURES: list[tuple[str, Figure | Canvas]] | None = None


def collect(figures: list[tuple[str, Figure | Canvas]] | None) -> None:
    """Make `show` add figures to a list."""
    global _FIGURES  # noqa: PLW0603 - one lesson is rendered at a time
    _FIGURES = figures


def _working(result: Result) -> np.ndarray[Any, Any]:
    """(cores, causes) core-picoseconds of the cores that had a task."""
    causes: np.ndarray[Any, Any] = result.metrics.core_causes_ps
    idle = [list(CAUSES).index(name) for name in ("launch", "idle")]
    return causes[causes.sum(axis=1) > causes[:, idle].sum(axis=1)]


def _tasks(result: Result, units: int) -> list[int]:
    """Task numbers of the first cores, and with more than one unit of the memory core of their cluster last."""
    tasks = list(enumerate(result.log.tasks))
    cores = [number for number, task in tasks if not task.is_memory_core]
    memory = [number for number, task in tasks if task.is_memory_core]
    return cores[:1] if units == 1 else [*cores[: units - 1], *memory[:1]]

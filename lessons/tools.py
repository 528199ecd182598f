"""What the lessons share: run a kernel on a board, a table of the steps, and two pictures of where their time went."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim import Board, Device
from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.records import Records
from mlusim.analysis.style import BLUE, CAUSE_COLOURS, GREEN, ORANGE, PURPLE, VERMILION, drawing
from mlusim.log import IO, MOVE, SCALAR, VECTOR
from mlusim.units import PS_PER_US

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mlusim.results.result import Result

# As narrow as a page's column.
_WIDTH_IN = 9.0


@dataclass(frozen=True)
class Step:
    """One run of a lesson.

    Attributes:
        result: its figures, from the log.
        output: what the kernel wrote; None in a timing-only run.
        moved_bytes: inputs and output, once.
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
    """Print a line for each step: time, bandwidth, how much faster than the first, and what cost most."""
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
    """One bar for each step: the time of the average working core, by cause."""
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
        axes.set_xlabel("time of the average working core (us)")
        axes.set_title(title)
        figure.legend(loc="outside lower center", ncols=3)
    return figure


_PIPES = {IO: "IO", MOVE: "Move", VECTOR: "vector", SCALAR: "scalar"}


def draw_pipes(steps: Mapping[str, Step], title: str, *, until_us: float | None = None, units: int = 1) -> Figure:
    """What the pipes of the first unit (or units: cores, then the memory core) of each step did, over time."""
    with drawing():
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch

        rows = [(name, step, task) for name, step in steps.items() for task in _tasks(step.result, units)]
        rows = [row for row in rows if (Records(row[1].result.log, row[1].result.board).task == row[2]).any()]
        figure = Figure(figsize=(_WIDTH_IN, 1.3 + 0.85 * len(rows)), layout="constrained")
        axes = figure.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
        longest = 0.0
        for one, (name, step, task) in zip(axes, rows, strict=True):
            records = Records(step.result.log, step.result.board)
            mine = records.task == task
            lanes = [pipe for pipe in _PIPES if (mine & (records.pipe == pipe)).any()]
            for lane, pipe in enumerate(lanes):
                seen = records.start_ps < records.start_of_run_ps + (until_us or np.inf) * PS_PER_US
                chosen = np.flatnonzero(mine & seen & (records.pipe == pipe))
                start = (records.start_ps[chosen] - records.start_of_run_ps) / PS_PER_US
                length = (records.end_ps[chosen] - records.start_ps[chosen]) / PS_PER_US
                reads = records.bus_read_bytes[chosen] > records.bus_write_bytes[chosen]
                colour = np.where(reads, BLUE, np.where(records.bus_write_bytes[chosen] > 0, VERMILION, GREEN))
                colours = {VECTOR: PURPLE, SCALAR: ORANGE}.get(pipe, colour)
                axes_y = np.full(len(chosen), lane)
                one.barh(axes_y, length, left=start, color=colours, edgecolor="white", linewidth=0.4, height=0.75)
            one.set_yticks(range(len(lanes)), [_PIPES[pipe] for pipe in lanes])
            one.invert_yaxis()
            who = (
                "memory core"
                if step.result.log.tasks[task].is_memory_core
                else f"core {step.result.log.tasks[task].core}"
            )
            one.set_title(f"{name}: {who}" if units > 1 else name, fontsize=10)
            longest = max(longest, step.result.time_us)
        axes[-1].set_xlim(0, until_us or longest)
        axes[-1].set_xlabel("time since the launch (us)")
        figure.suptitle(title, x=0.01, ha="left", weight="bold")
        kinds = {
            "loads from DRAM": BLUE,
            "stores to DRAM": VERMILION,
            "copies on chip": GREEN,
            "vector": PURPLE,
            "scalar": ORANGE,
        }
        figure.legend(
            handles=[Patch(color=colour, label=words) for words, colour in kinds.items()],
            loc="outside lower center",
            ncols=5,
        )
    return figure


def show(figure: Figure, name: str) -> None:
    """Give a figure to whoever renders the lesson; as a script, write it to `<name>.svg` in this directory's `out`."""
    if _FIGURES is not None:
        _FIGURES.append((name, figure))
        return
    target = Path("out")
    target.mkdir(exist_ok=True)
    figure.savefig(target / f"{name}.svg")
    print(f"(picture: {target / name}.svg)", file=sys.stderr)


# Where `build.py` collects what a lesson shows; None where the lesson runs as a script.
_FIGURES: list[tuple[str, Figure]] | None = None


def collect(figures: list[tuple[str, Figure]] | None) -> None:
    """Let `show` add to a list."""
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

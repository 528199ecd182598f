"""Build the gallery: every operator on three boards, from saved runs.

    python reports/build.py            README.md, index.html and pictures/, from runs/; missing runs are created
    python reports/build.py --rerun    repeat all runs, after a change of the model or of a kernel
    python reports/build.py --pages    also the full pages, in pages/: about 10 MB, with a shared plotly.min.js

The same runs give the same bytes. `cases.py` defines the runs, and the statements about them.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import mlusim
from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.page.embed import plotly_bundle
from mlusim.analysis.page.html import page
from mlusim.analysis.page.pages import document, largest_loss
from mlusim.analysis.page.parts import esc, table
from mlusim.analysis.small_pictures import CURVE_PX, bandwidth_areas, cause_rectangles
from mlusim.analysis.style import BLACK, CAUSE_COLOURS, INK, PAPER, READ, WRITE, time_unit
from mlusim.analysis.summary import percent
from mlusim.units import format_us, short_bytes
from mlusim.verifier.check import check_log

if TYPE_CHECKING:
    from mlusim.results.result import Result

_spec = importlib.util.spec_from_file_location("gallery_cases", HERE / "cases.py")
assert _spec is not None
assert _spec.loader is not None
_cases: Any = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _cases
_spec.loader.exec_module(_cases)
CASES, BOARDS = _cases.CASES, _cases.BOARDS

INTRODUCTION = (
    "This page shows every operator of mlusim on three boards, on small realistic shapes. Times are those of the "
    "model, not measurements. The upper part of each picture is the DRAM bandwidth over time: reads dark, writes "
    "stacked on them, and a line at the board's peak. The lower part is the breakdown of the time, per core on "
    "average. All runs of an operator have the same time scale. The column x bound is the time over its lower bound."
)
ABOUT = """\
## Files

- `runs/`: the runs, saved by `Result.save`. `mlusim report reports/runs/flip-mlu370-x4.zip -o flip/` makes the full
  page of one, with a zoomable timeline, the tile map, memory, a roofline, and the cost of each source line.
- `index.html`: this page for a browser. `python reports/build.py --pages` writes the full pages of all runs, which are
  not in the repository, and `pages/index.html` with links to them.
- `cases.py`: the runs, and the statements about them; the build stops if a statement is false.

`python reports/build.py` builds everything from the saved runs; the same runs give the same bytes. After a change of
the model or of a kernel, `python reports/build.py --rerun` repeats the runs.
"""


def name_of(case: Any, board: str) -> str:
    """Return the name of a run's files, such as `flip-mlu370-x4`."""
    return f"{case.name}-{board}"


def portable(run: Result) -> Result:
    """Return the run with source files named relative to the repository."""
    top = HERE.parent

    def short(file: str) -> str:
        path = Path(file)
        return path.relative_to(top).as_posix() if path.is_relative_to(top) else path.name

    sources = {short(file): text for file, text in run.sources.items()}
    run.log.lines = [(short(file), number, function) for file, number, function in run.log.lines]
    return mlusim.Result(
        operator=run.operator,
        output=None,
        board=run.board,
        plan=run.plan,
        log=run.log,
        theory_ops=run.theory_ops,
        request=run.request,
        sources=sources,
    )


def get_runs(folder: Path, cases: Iterable[Any], *, rerun: bool) -> dict[str, Result]:
    """Return the saved runs by name; creates missing ones, or all of them with `rerun`."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = {}
    for case in cases:
        for board in BOARDS:
            path = folder / f"{name_of(case, board)}.zip"
            if rerun or not path.exists():
                portable(case.run(board)).save(path)
            run = mlusim.load(path)
            if not case.holds(run):
                raise SystemExit(f"{path.name}: what cases.py says of it does not hold:\n{case.about} {case.look(run)}")
            runs[name_of(case, board)] = run
    return runs


def words(case: Any, run: Result) -> str:
    """Return the remark about a run."""
    loss = largest_loss(run)
    return case.look(run) + (f" The largest part of the time above the lower bound: {loss}." if loss else "")


def figures(run: Result) -> tuple[str, str, str, str]:
    """Return time, time over its lower bound, io_efficiency and bytes on the bus."""
    times = f"{run.time_ps / run.lower_bound.time_ps:.2f}" if run.lower_bound.time_ps else ""
    return format_us(run.time_ps), times, percent(run.io_efficiency), short_bytes(sum(run.bus_bytes.values()))


def readme(cases: Iterable[Any], runs: dict[str, Result]) -> str:
    """Return the gallery as Markdown."""
    lines = ["# Gallery", "", INTRODUCTION, "", "![Colours of the causes](pictures/legend.svg)", ""]
    for case in cases:
        lines += [f"## {case.title}", "", f"Input: {case.shape}. {case.about}", ""]
        lines += ["| board | time | x bound | io_efficiency | bus | |", "|---|--:|--:|--:|--:|---|"]
        for board in BOARDS:
            name = name_of(case, board)
            cells = " | ".join(figures(runs[name]))
            picture = f"![Bandwidth and causes of {name}](pictures/{name}.svg)"
            lines.append(f"| {board} | {cells} | {picture} |")
        lines.append("")
        lines += [f"- {board}: {words(case, runs[name_of(case, board)])}" for board in BOARDS]
        lines.append("")
    return "\n".join([*lines, ABOUT])


def index(cases: Iterable[Any], runs: dict[str, Result], *, pages: bool) -> str:
    """Return the gallery as HTML; `pages`: the version beside the full pages, with links to them."""
    folder = "../pictures" if pages else "pictures"
    parts = [
        f"<p>{esc(INTRODUCTION)}</p>",
        "<p>The full page of each run is behind the name of its board.</p>"
        if pages
        else "<p>The full page of each run, in <code>pages/index.html</code>, is made by "
        "<code>python reports/build.py --pages</code>.</p>",
        f'<p><img src="{folder}/legend.svg" alt="Colours of the causes"></p>',
    ]
    for case in cases:
        rows = []
        for board in BOARDS:
            name = name_of(case, board)
            picture = f'<img src="{folder}/{name}.svg" alt="Bandwidth and causes of {name}">'
            link = f'<a href="{name}.html">{board}</a>' if pages else board
            rows.append((link, *map(esc, figures(runs[name])), f"{picture}<br>{esc(words(case, runs[name]))}"))
        heads = ("board", "time", "x bound", "io_efficiency", "bus", "what to look at")
        parts.append(
            f'<section id="{case.name}"><h2>{esc(case.title)}</h2><p>Input: {esc(case.shape)}. {esc(case.about)}</p>'
            f"{table(heads, rows, range(1, 5))}</section>"
        )
    return document("Gallery", "\n".join(parts))


# Height of the bar of causes, margins of a picture, and the maximum number of time ticks.
_BAR_PX = 18
_LEFT, _RIGHT, _TOP, _TICKS, _MAX_TICKS = 72, 16, 8, 20, 6


def small_picture(result: Result, longest_ps: int, width: int = 420) -> str:
    """Render a run as a standalone SVG: DRAM bandwidth in GB/s under the board's peak, above the time by cause.

    The width is proportional to the run's share of `longest_ps`. The output is reproducible.
    """
    metrics, records = result.metrics, LogColumns(result.log, result.board)
    name = f"{result.operator} on {result.board.name}"
    label = escape(f"{name}: DRAM bandwidth over {format_us(metrics.time_ps)}, and where the time went")
    body = f'<text x="0" y="20" font-family="sans-serif" font-size="13" fill="{INK}">nothing ran: no byte moved</text>'
    if metrics.time_ps:
        part = (width - _LEFT - _RIGHT) * metrics.time_ps / longest_ps
        peak = f'<path d="M0 0H{part:.1f}" stroke="{BLACK}" stroke-width="1.5"/>'
        areas = "".join(bandwidth_areas(records, part))
        body = f'<g transform="translate({_LEFT} {_TOP})">{areas}{peak}{_axes(result, longest_ps, part)}</g>'
        bar = "".join(cause_rectangles(metrics, part, _BAR_PX))
        body += f'<g transform="translate({_LEFT} {_TOP + CURVE_PX + _TICKS})">{bar}</g>'
    height = _TOP + CURVE_PX + _TICKS + _BAR_PX + 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><title>{label}</title>'
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>{body}</svg>\n'
    )


def _axes(result: Result, longest_ps: int, width: float) -> str:
    """Render the peak in GB/s, and time ticks at round values, which are the same for all runs of one `longest_ps`."""
    unit, scale = time_unit(longest_ps)
    exact = longest_ps / scale / _MAX_TICKS
    power = 10.0 ** math.floor(math.log10(exact))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= exact)
    peak = result.metrics.peak_bandwidth_bytes_per_s / 1e9
    parts = [f'<text x="-6" y="4">{peak:.4g} GB/s</text>', f'<text x="-6" y="{CURVE_PX}">0</text>']
    ticks = []
    for number in range(int(result.time_ps / scale / step) + 1):
        at = width * number * step * scale / result.time_ps
        ticks.append(f'<path d="M{at:.1f} {CURVE_PX}v3" stroke="{INK}"/>')
        ticks.append(
            f'<text x="{at:.1f}" y="{CURVE_PX + 13}">{number * step:.4g}{f" {unit}" if not number else ""}</text>'
        )
    look = f'font-family="sans-serif" font-size="10" fill="{INK}"'
    return f'<g {look} text-anchor="end">{"".join(parts)}</g><g {look} text-anchor="middle">{"".join(ticks)}</g>'


_PEAK, _FRAME = "peak of the board", ' stroke="#666"'


def legend_picture() -> str:
    """Render the colours of all causes, of reads and writes and of the peak as a standalone SVG."""
    columns, step, width = 5, 18, 172
    names = [(CAUSE_COLOURS[name], text) for name, text in CAUSES.items()]
    names += [(READ, "read"), (WRITE, "write"), (BLACK, _PEAK)]
    items = "".join(
        f'<rect x="{index % columns * width + 1}" y="{index // columns * step + (8 if text == _PEAK else 3)}" '
        f'width="11" height="{2 if text == _PEAK else 11}" fill="{colour}"'
        f'{"" if text == _PEAK else _FRAME}/><text x="{index % columns * width + 17}" '
        f'y="{index // columns * step + 13}">{escape(text)}</text>'
        for index, (colour, text) in enumerate(names)
    )
    size = f'width="{columns * width}" height="{(len(names) + columns - 1) // columns * step + 4}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="Colours of the causes" {size}>'
        f'<rect width="100%" height="100%" fill="{PAPER}"/>'
        f'<g font-family="sans-serif" font-size="11" fill="{INK}">{items}</g></svg>\n'
    )


def build(target: Path, *, rerun: bool = False, pages: bool = False, cases: Iterable[Any] = CASES) -> list[Path]:
    """Build the gallery in a directory; returns the files written, without the runs."""
    cases = tuple(cases)
    runs = get_runs(target / "runs", cases, rerun=rerun)
    made: dict[Path, str] = {}
    for case in cases:
        mine = {board: runs[name_of(case, board)] for board in BOARDS}
        longest = max(run.time_ps for run in mine.values())
        for board, run in mine.items():
            made[target / "pictures" / f"{name_of(case, board)}.svg"] = small_picture(run, longest)
    made[target / "pictures" / "legend.svg"] = legend_picture()
    made[target / "README.md"] = readme(cases, runs)
    made[target / "index.html"] = index(cases, runs, pages=False)
    if pages:
        made[target / "pages" / "index.html"] = index(cases, runs, pages=True)
        made[target / "pages" / "plotly.min.js"] = plotly_bundle()
        for name, run in runs.items():
            run.report = check_log(run.log, run.board, name=run.operator, plan=run.plan)
            made[target / "pages" / f"{name}.html"] = page(run, home="index.html", bundle="plotly.min.js")
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return list(made)


def main() -> None:
    """Build the gallery in this directory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rerun", action="store_true", help="run everything again")
    parser.add_argument("--pages", action="store_true", help="the full pages too")
    options = parser.parse_args()
    for path in build(HERE, rerun=options.rerun, pages=options.pages):
        print(path.relative_to(HERE.parent))


if __name__ == "__main__":
    main()

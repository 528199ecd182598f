"""Build the gallery: every operator on three boards, from saved runs.

    python reports/build.py            README.md, index.html and pictures/, from runs/; missing runs are created
    python reports/build.py --rerun    repeat all runs, after a change of the model or of a kernel
    python reports/build.py --pages    also the full pages, in pages/: about 10 MB, with a shared plotly.min.js

The same runs give the same bytes. `cases.py` defines the runs, and the statements about them.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import mlusim
from mlusim.analysis.lower_bound import LOSSES
from mlusim.analysis.page.embed import plotly_bundle
from mlusim.analysis.page.html import page
from mlusim.analysis.page.pages import document
from mlusim.analysis.page.parts import esc, table
from mlusim.analysis.small_pictures import legend_picture, small_picture
from mlusim.analysis.summary import percent, us_text
from mlusim.units import short_bytes
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
    found = {}
    for case in cases:
        for board in BOARDS:
            path = folder / f"{name_of(case, board)}.zip"
            if rerun or not path.exists():
                portable(case.run(board)).save(path)
            run = mlusim.load(path)
            if not case.holds(run):
                raise SystemExit(f"{path.name}: what cases.py says of it does not hold:\n{case.about} {case.look(run)}")
            found[name_of(case, board)] = run
    return found


def words(case: Any, run: Result) -> str:
    """Return the remark about a run."""
    above = run.time_ps - run.lower_bound.time_ps
    text: str = case.look(run)
    if above:
        first = max(run.lower_bound.losses_ps, key=lambda key: run.lower_bound.losses_ps[key])
        share = run.lower_bound.losses_ps[first] / run.board.cores / above
        text += f" The largest part of the time above the lower bound: {LOSSES[first]} ({percent(share)})."
    return text


def figures(run: Result) -> tuple[str, str, str, str]:
    """Return time, time over its lower bound, io_efficiency and bytes on the bus."""
    times = f"{run.time_ps / run.lower_bound.time_ps:.2f}" if run.lower_bound.time_ps else ""
    return us_text(run.time_ps), times, percent(run.io_efficiency), short_bytes(sum(run.bus_bytes.values()))


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

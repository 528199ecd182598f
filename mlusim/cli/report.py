"""`mlusim report RUN...`: saved runs as HTML pages, and a page that compares them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlusim.cli.command_files import check_directory
from mlusim.cli.option_types import DIRECTORY, FILE
from mlusim.cli.options import output_options
from mlusim.errors import InputError

if TYPE_CHECKING:
    from mlusim.results.result import Result

_HELP = """\
Show saved runs as HTML pages, one per run, which open offline in any browser.

A page has the summary, a description of the split, where the time went, a zoomable timeline, the tile map, bandwidth,
memory, roofline, traffic by tensor, and the kernel's source with the cost of each line. For one run, the pictures,
summary.json and trace.json (for Perfetto) are also written, as by `--report`. For several runs, index.html compares
them, and all pages share one plotly.min.js.

\b
Examples:
  mlusim run tin_shift --shape 2,8,256,196 --save-run shift.zip
  mlusim report shift.zip -o shift/
  mlusim report before.zip after.zip -o both/
"""


@click.command(help=_HELP)
@click.argument("runs", type=FILE, metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--out",
    "--output",
    "-o",
    type=DIRECTORY,
    metavar="DIR",
    default="report",
    show_default=True,
    help="Directory for the pages; created if missing.",
)
@click.option("--check", is_flag=True, help="Verify the runs first, and show the findings.")
@output_options
def report(*, runs: tuple[str, ...], out: str, check: bool, as_json: bool, quiet: bool) -> None:
    """Show saved runs as HTML pages, one per run, which open offline in any browser."""
    from mlusim.results.saved import load

    names = _names(runs)
    check_directory("--out", out, None if len(runs) == 1 else _files(names))
    results = {}
    for run, name in zip(runs, names, strict=True):
        results[name] = load(run)
        if check:
            _verify(results[name])
    files = _write(results, Path(out))
    if as_json:
        _print_json(results, files)
    elif not quiet:
        for file in files:
            click.echo(str(file))


def _print_json(results: dict[str, Result], files: list[Path]) -> None:
    from mlusim.analysis.provenance import provenance
    from mlusim.cli.provenance import print_with_provenance, provenance_without_runs

    runs = [
        {"name": name, "operator": run.operator, "time_ps": run.time_ps, "provenance": provenance(run)}
        for name, run in results.items()
    ]
    print_with_provenance("report", {"files": [str(file) for file in files], "runs": runs}, provenance_without_runs())


def _files(names: list[str]) -> list[str]:
    from mlusim.analysis.page.pages import BUNDLE

    return [*(f"{name}.html" for name in (*names, "index")), BUNDLE]


def _names(runs: tuple[str, ...]) -> list[str]:
    """Return a name for each page. Raises `InputError` if two runs would have the same page."""
    names = [Path(run).stem for run in runs]
    for index, name in enumerate(names):
        if name in names[:index]:
            other = runs[names.index(name)]
            raise InputError(f"{other} and {runs[index]} would both be {name}.html: name the files differently")
        if name == "index" and len(runs) > 1:
            raise InputError(f"{runs[index]} would be index.html, which compares the runs: name the file differently")
    return names


def _verify(result: Result) -> None:
    """Verify a run, as `--check` of `mlusim run` does; the findings are on the page."""
    from mlusim.verifier.check import check_log

    result.report = check_log(result.log, result.board, name=result.operator, plan=result.plan)


def _write(results: dict[str, Result], directory: Path) -> list[Path]:
    from mlusim.analysis.page.pages import write_pages
    from mlusim.analysis.report_files import write_report

    if len(results) == 1:
        return write_report(next(iter(results.values())), directory)
    return write_pages(results, directory)

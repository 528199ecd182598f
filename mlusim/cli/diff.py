"""`mlusim diff A B`: two runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli import console
from mlusim.cli.command_files import check_directory
from mlusim.cli.option_types import DIRECTORY, FILE
from mlusim.cli.options import output_options
from mlusim.cli.provenance import provenance_of
from mlusim.cli.saved_or_run import run_of
from mlusim.units import signed_percent, signed_us

if TYPE_CHECKING:
    from mlusim.explore.diff import Difference
    from mlusim.explore.suggestions import Suggestion

_HELP = """\
Compare two runs: where the difference between their times comes from, by cause and by source line, and every figure.

Each of A and B is a saved run, or the arguments of `mlusim run` in quotes, which is then run (timing only if it needs
no data). The causes, and likewise the lines, add up exactly to the difference, per core on average; cores without work
in both runs are left out. With --report, diff.html shows both timelines on one scale.

\b
Examples:
  mlusim diff before.zip after.zip
  mlusim diff "tin_shift --shape 2,8,64,49 --strategy tight" "tin_shift --shape 2,8,64,49 --strategy pingpong"
  mlusim diff "add.py:add --shape 1000000" "add.py:add --shape 1000000 --set tile=8192" --report diff/
"""
_SHOWN = 8


@click.command(help=_HELP)
@click.argument("before", type=FILE, metavar="A")
@click.argument("after", type=FILE, metavar="B")
@click.option("--report", type=DIRECTORY, metavar="DIR", help="Write diff.html to DIR, with both timelines.")
@click.option("--full", is_flag=True, help=f"Print all lines and figures, not only the first {_SHOWN} that changed.")
@output_options
def diff(*, before: str, after: str, report: str | None, full: bool, as_json: bool, quiet: bool) -> None:
    """Compare two runs."""
    from mlusim.explore.diff import diff as compare
    from mlusim.explore.suggestions import what_to_try

    check_directory("--report", report, ("diff.html",))
    difference = compare(run_of(before), run_of(after))
    is_shown = as_json or not quiet or report is not None
    tries = what_to_try(difference.after, progress=not quiet) if is_shown else []
    files = []
    if report is not None:
        from mlusim.analysis.page.difference import write_difference

        files.append(write_difference(difference, tries, Path(report)))
    if as_json:
        extra: dict[str, Any] = {"what_to_try": [suggestion.to_json() for suggestion in tries]}
        extra["provenance"] = {
            "before": provenance_of(difference.before),
            "after": provenance_of(difference.after),
        }
        console.print_json(difference.to_json() | extra | {"written": [str(path) for path in files]})
    elif not quiet:
        _print(difference, tries, full=full)
        for path in files:
            console.print_text(f"wrote {path}")


def _print(difference: Difference, tries: list[Suggestion], *, full: bool) -> None:
    from mlusim.analysis.breakdown import CAUSES
    from mlusim.analysis.page.difference import figure_cells
    from mlusim.units import format_us

    before, after = difference.before, difference.after
    change = f" ({signed_percent(after.time_ps / before.time_ps - 1)})" if before.time_ps else ""
    for letter, result, name in zip("AB", (before, after), difference.names, strict=True):
        console.print_text(f"{letter}  {format_us(result.time_ps)}  {name}")
    console.print_text(f"\n{signed_us(difference.time_ps)} us{change}, per core on average:\n")
    causes = sorted((item for item in difference.causes_ps.items() if item[1]), key=lambda item: -abs(item[1]))
    if causes:
        console.print_columns(("us", "cause"), [(signed_us(value), CAUSES[name]) for name, value in causes], right=(0,))
    else:
        console.print_text("no cause took more or less time")
    lines = [line for line in difference.lines if line.time_ps]
    shown_lines = lines if full else lines[:_SHOWN]
    other_ps = difference.time_ps - sum(line.time_ps for line in shown_lines)
    rows = [(signed_us(line.time_ps), line.location, line.text) for line in shown_lines]
    if len(lines) > len(shown_lines):
        rows.append((signed_us(other_ps), "", f"{len(lines) - len(shown_lines)} other lines; --full shows them"))
    if rows:
        console.print_text("")
        console.print_columns(("us", "line A -> B", "source"), rows, right=(0,), cut=not full)
    figures = [metric for metric in difference.metrics if full or metric.before != metric.after]
    cells = [(metric.name, *figure_cells(metric)) for metric in (figures if full else figures[:_SHOWN])]
    if cells:
        console.print_text("")
        console.print_columns(("figure", "A", "B", "B / A"), cells, right=(1, 2, 3))
    console.print_suggestions("What to try for B", tries, after)

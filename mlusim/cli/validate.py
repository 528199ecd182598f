"""`mlusim validate`: the model against measurements of real boards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlusim.cli import console
from mlusim.cli.command_files import check_picture
from mlusim.cli.option_types import NEW_FILE, complete_from
from mlusim.cli.options import full_option, output_options
from mlusim.cli.provenance import print_with_provenance, provenance_without_runs
from mlusim.units import percent, signed_percent

if TYPE_CHECKING:
    from mlusim.validation.report import Accuracy, Outcome

_HELP = """\
Re-create published measurements on the simulated boards, and compare the times.

Each row is a published measurement of a kernel on a real board, run again here as a kernel of the same shape.
ERROR is simulated over measured time, minus 1. LEFT OUT is the error of a prediction by a fit to all other rows, and BY
KIND by a fit to all rows except those of the same kind of kernel on the same family of boards.

\b
Examples:
  mlusim validate
  mlusim validate copy stream --json
  mlusim validate -o accuracy.svg
"""
_HEADS = ("measurement", "measured us", "simulated us", "error", "left out", "by kind")
_MORE = ("board", "dtype", "shape", "launch", "grade", "source")
_NUMBERS = (1, 2, 3, 4, 5)


def _names() -> list[str]:
    from mlusim.validation.measurements import measurements

    return [row.name for row in measurements()]


@click.command(help=_HELP)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_from(_names))
@click.option("--plot", "-o", type=NEW_FILE, metavar="FILE", help="Draw the errors to FILE, as .svg or .png.")
@full_option
@output_options
def validate(names: tuple[str, ...], *, plot: str | None, full: bool, as_json: bool, quiet: bool) -> None:
    """Re-create published measurements on the simulated boards, and compare the times."""
    from mlusim.progress import Bar
    from mlusim.validation import report

    rows = report.chosen(names)
    if plot is not None:
        check_picture("--plot", plot)
    outcomes = []
    with Bar("validating", len(rows), shown=not (quiet or as_json)) as bar:
        for outcome in report.validate(names, causes=as_json):
            outcomes.append(outcome)
            bar.step(outcome.row.name)
    outcomes.sort(key=lambda outcome: rows.index(outcome.row))
    if plot is not None:
        from mlusim.analysis.accuracy import save_accuracy

        save_accuracy(
            plot, [(outcome.row.name, outcome.error, outcome.left_out_error, outcome.row.use) for outcome in outcomes]
        )
    if as_json:
        from mlusim.hardware import board

        boards = {row.board: board(row.board) for row in (outcome.row for outcome in outcomes)}
        print_with_provenance("validation", report.to_json(outcomes), provenance_without_runs(boards.values()))
    elif not quiet:
        _print(outcomes, report.accuracy(outcomes), full=full)


def _print(outcomes: list[Outcome], figures: Accuracy, *, full: bool) -> None:
    lines = []
    for outcome in outcomes:
        row = outcome.row
        cells = [
            row.name,
            f"{row.time_us:,.2f}".replace(",", " "),
            f"{outcome.simulated_us:,.2f}".replace(",", " "),
            signed_percent(outcome.error),
            row.use if outcome.left_out_error is None else signed_percent(outcome.left_out_error),
            signed_percent(outcome.kind_left_out_error),
        ]
        if full:
            cells += [row.board, row.dtype, row.shape, row.launch, row.grade, row.source]
        lines.append(cells)
    console.print_columns([*_HEADS, *_MORE] if full else _HEADS, lines, right=_NUMBERS)
    from mlusim.validation import report

    aims = percent(report.AIM_MEAN), percent(report.AIM_WORST)
    text = f"\nfit       {figures.rows} rows: mean error {percent(figures.mean)} (aim {aims[0]}), "
    text += f"worst {percent(figures.worst)} (aim {aims[1]})\n"
    if figures.read_off:
        text += f"          {figures.read_off} of them agree by construction: a parameter is read off the row\n"
    if figures.left_out_rows:
        aims = percent(report.AIM_LEFT_OUT_MEAN), percent(report.AIM_LEFT_OUT_WORST)
        text += f"left out  {figures.left_out_rows} rows: mean error {percent(figures.left_out_mean)} (aim {aims[0]}), "
        text += f"worst {percent(figures.left_out_worst)} (aim {aims[1]})\n"
        by_kind = percent(figures.kind_left_out_mean), percent(figures.kind_left_out_worst)
        text += f"by kind   mean error {by_kind[0]}, worst {by_kind[1]}\n"
    console.print_text(text.rstrip("\n"))

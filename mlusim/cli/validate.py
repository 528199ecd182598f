"""`mlusim validate`: real measurements against the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlusim.cli import show
from mlusim.cli.options import FILE, complete_from, output_options
from mlusim.errors import InputError, nearest

if TYPE_CHECKING:
    from mlusim.validation.report import Accuracy, Outcome

_HELP = """\
Re-create real measurements on the simulated boards: measured, simulated, error.

Each row is a published measurement of a kernel on a real board, run again here as a kernel of the same shape.
ERROR is simulated over measured, less 1. LEFT OUT is the error of a prediction by a fit to all the other rows.

\b
Examples:
  mlusim validate
  mlusim validate copy stream --json
  mlusim validate -o accuracy.svg
"""
_HEADS = ("measurement", "board", "measured us", "simulated us", "error", "left out", "most time", "")
_NUMBERS = (2, 3, 4, 5)


def _names() -> list[str]:
    from mlusim.validation.measurements import measurements

    return [row.name for row in measurements()]


@click.command(help=_HELP, short_help="Real measurements against the model.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_from(_names))
@click.option("--plot", "-o", type=FILE, metavar="FILE", help="Draw the errors there, as .svg or .png.")
@output_options
def validate(names: tuple[str, ...], *, plot: str | None, as_json: bool, quiet: bool) -> None:
    """Re-create real measurements on the simulated boards: measured, simulated, error."""
    from pathlib import Path

    from mlusim.validation import report

    known = _names()
    for name in names:
        if not any(row.startswith(name) for row in known):
            near = nearest(name, known)
            raise InputError(f"no measurement begins with {name!r}; {near}there are {', '.join(known)}")
    if plot is not None:
        from mlusim.cli.files import check_file

        if Path(plot).suffix.lower() not in {".svg", ".png"}:
            raise InputError(f"--plot {plot}: name a .svg or .png file")
        check_file("--plot", plot)
    outcomes = list(report.validate(names))
    if plot is not None:
        from mlusim.analysis.accuracy import save_accuracy

        save_accuracy(plot, [(one.row.name, one.error, one.left_out_error, one.row.use) for one in outcomes])
    if as_json:
        show.print_json(report.to_json(outcomes))
    elif not quiet:
        _print(outcomes, report.accuracy(outcomes))


def _print(outcomes: list[Outcome], figures: Accuracy) -> None:
    show.print_columns(
        _HEADS,
        [
            (
                one.row.name,
                one.row.board,
                f"{one.row.time_us:,.2f}".replace(",", " "),
                f"{one.simulated_us:,.2f}".replace(",", " "),
                _signed(one.error),
                _signed(one.left_out_error),
                f"{one.dominated_by} {100 * one.share:.0f} %",
                one.row.use if one.row.use != "fit" else "one source" if one.one_source else "",
            )
            for one in outcomes
        ],
        right=_NUMBERS,
    )
    from mlusim.validation.report import AIM_LEFT_OUT, AIM_MEAN, AIM_WORST

    show.print_text(
        f"\nfit       {figures.rows} rows: mean error {_part(figures.mean)} (aim {_part(AIM_MEAN)}), "
        f"worst {_part(figures.worst)} (aim {_part(AIM_WORST)}), mean with its sign {_signed(figures.bias)}"
    )
    if figures.left_out_rows:
        show.print_text(
            f"left out  {figures.left_out_rows} rows: mean error {_part(figures.left_out_mean)} "
            f"(aim {_part(AIM_LEFT_OUT)}), worst {_part(figures.left_out_worst)}; "
            f"{_part(figures.all_left_out_mean)} with those whose parameters rest on one source"
        )
    for one in outcomes:
        if one.row.why:
            show.print_text(f"{one.row.name}: {one.row.use}: {one.row.why}")


def _signed(part: float | None) -> str:
    return "" if part is None else f"{100 * part:+.1f} %"


def _part(part: float) -> str:
    return f"{100 * part:.1f} %"

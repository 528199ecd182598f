"""`mlusim explain RUN`: where the time of a run went, line by line, and what to try."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlusim.cli import console
from mlusim.cli.option_types import FILE
from mlusim.cli.options import print_options
from mlusim.cli.provenance import provenance_of
from mlusim.cli.saved_or_run import run_of
from mlusim.units import PS_PER_US

if TYPE_CHECKING:
    from mlusim.explore.explanation import Explanation

_HELP = """\
Explain the time of one run: what it lost above its lower bound, which lines took it, and what to try.

RUN is a saved run, or the arguments of `mlusim run` in quotes, which is then run (timing only if it needs no data).
What to try comes with predicted times: one loss is removed, in most cases by retiming the run on a board without it.

\b
Examples:
  mlusim explain run.zip
  mlusim explain "tin_shift --shape 2,8,256,196 --strategy tight"
  mlusim explain "add.py:add --shape 1000000 --set tile=1024" --json
"""
_SHOWN = 8


@click.command(help=_HELP)
@click.argument("run", type=FILE, metavar="RUN")
@click.option("--full", is_flag=True, help=f"Print all lines, not only the first {_SHOWN}.")
@print_options
def explain(*, run: str, full: bool, as_json: bool, quiet: bool) -> None:
    """Explain the time of one run."""
    from mlusim.explore.explanation import explain as explained

    explanation = explained(run_of(run), progress=not quiet)
    if as_json:
        console.print_json(explanation.to_json() | {"provenance": provenance_of(explanation.result)})
    elif not quiet:
        _print(explanation, full=full)


def _print(explanation: Explanation, *, full: bool) -> None:
    from mlusim.analysis.breakdown import CAUSES
    from mlusim.analysis.lower_bound import LOSSES
    from mlusim.units import format_us

    result = explanation.result
    console.print_text(f"{result.operator} on {result.board.name}: {format_us(result.time_ps)}")
    bound = format_us(result.lower_bound.time_ps)
    console.print_text(f"{format_us(explanation.above_ps)} above the lower bound of {bound}\n")
    losses = sorted(explanation.losses_ps.items(), key=lambda item: -item[1])
    rows = [(f"{value / PS_PER_US:.2f}", LOSSES[name]) for name, value in losses if value]
    if rows:
        console.print_columns(("us", "lost to"), rows, right=(0,))
    lines = explanation.lines if full else explanation.lines[:_SHOWN]
    cells = [
        (
            f"{line.time_ps / PS_PER_US:.2f}",
            f"{line.file}:{line.line}" if line.file else "",
            CAUSES[max(line.causes_ps, key=lambda name: line.causes_ps[name])],
            line.text,
        )
        for line in lines
    ]
    if cells:
        console.print_text("")
        console.print_columns(("us", "line", "mostly", "source"), cells, right=(0,), keys=2, cut=not full)
    console.print_suggestions("What to try", explanation.what_to_try, result)

"""`mlusim inspect RUN --at TIME`: the memories of a core at one moment."""

from __future__ import annotations

import click

from mlusim.cli import console
from mlusim.cli.option_types import FILE
from mlusim.cli.options import print_options
from mlusim.cli.provenance import print_with_provenance, provenance_of
from mlusim.errors import InputError
from mlusim.quantities import quantity
from mlusim.units import PS_PER_NS

_HELP = """\
Show one core of a saved run at one moment: its buffers, the last writer of each, and the operations in flight.

TIME is a number of nanoseconds, as reports show it, or has a unit: 1780, 1.78us, 1780000ps. Values are
available in Python only: mlusim.verify(...).result.memory_at(1780).

\b
Examples:
  mlusim run tin_shift --shape 2,8,64,196 --save-run run.zip
  mlusim inspect run.zip --at 2.5us --core 5
"""


@click.command(help=_HELP)
@click.argument("run", type=FILE, metavar="RUN")
@click.option("--at", "at", required=True, metavar="TIME", help="Simulated time.")
@click.option("--core", type=int, default=0, show_default=True, metavar="N", help="Number of the core on the board.")
@print_options
def inspect(*, run: str, at: str, core: int, as_json: bool, quiet: bool) -> None:
    """Show one core of a saved run at one moment."""
    from mlusim.results.saved import load

    result = load(run)
    moment = result.memory_at(time_ps(at) / PS_PER_NS, core)
    if as_json:
        print_with_provenance("inspect", moment.to_json(), provenance_of(result))
    elif not quiet:
        console.print_text(moment.text())


def time_ps(text: str) -> int:
    """Parse a time such as `1780` (nanoseconds) or `1.78us`; returns picoseconds. Raises `InputError`."""
    compact = text.replace(" ", "")
    try:
        return round(quantity("time_ps", compact if compact[-1:].isalpha() else f"{compact}ns", integer=False))
    except InputError:
        raise InputError(f"--at {text}: a time is a number of nanoseconds, or has a unit: 1780, 1.78us") from None

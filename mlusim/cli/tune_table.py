"""The table that `mlusim tune` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlusim.cli import console
from mlusim.cli.provenance import print_with_provenance, provenance
from mlusim.units import PS_PER_US, plural, ratio

if TYPE_CHECKING:
    from mlusim.explore.tuning import Tuning

PLANS_SHOWN = 8
_REASONS = 3


def print_tuning(tuning: Tuning, *, show_all: bool, full: bool, as_json: bool, quiet: bool) -> None:
    """Print the result of tuning: a table and the best command, or JSON."""
    if as_json:
        print_with_provenance("tune", tuning.to_json(), provenance([tuning.board]))
        return
    if quiet:
        click.echo(tuning.command)
        return
    from mlusim.explore.table_cells import tuning_cells

    rows = tuning.rows if show_all else tuning.rows[:PLANS_SHOWN]
    shape = f" {tuning.best['shape'].replace('x', ',')}" if "shape" in tuning.best else ""
    console.print_text(f"{tuning.operator}{shape} on {tuning.board.name}, the fastest first:\n")
    table = tuning_cells(rows, tuning.axes, full=full)
    console.print_columns(table.heads, table.lines, right=table.right, keys=table.keys)
    slower = len(tuning.rows) - len(rows)
    hidden = [f"{slower} slower ones are not shown; --all shows them"] if slower else []
    console.print_text("\n" + "\n".join([*hidden, *_notes(tuning)]))
    console.print_text("\nTo run the best one, from the shell or from Python:")
    console.print_command(tuning.command)
    console.print_call(tuning.call)


def _has_plans(tuning: Tuning) -> bool:
    """Return whether an operator was tuned, whose points have plans with tiers; else a kernel."""
    return "tier" in tuning.best


def _notes(tuning: Tuning) -> list[str]:
    """Return the lines below the table: what was tried, and how good the best is."""
    from mlusim.units import format_us

    best = tuning.best
    summary = f"{plural(len(tuning.rows), 'plan' if _has_plans(tuning) else 'setting')} ran"
    if tuning.repeats:
        summary += f"; {tuning.repeats} more settings led to the same plans"
    if tuning.refused:
        summary += f"; {len(tuning.refused)} {'did not fit' if _has_plans(tuning) else 'could not run'}"
    notes = [summary]
    if not _has_plans(tuning):
        notes += [f"could not run: {refusal.strategy}: {refusal.message}" for refusal in tuning.refused[:_REASONS]]
    bound_ps = round(best["lower_bound_us"] * PS_PER_US)
    launch_ps = tuning.board.kernel_start_ps + tuning.board.kernel_end_ps
    early_end = ", so the search ended early" if tuning.at_lower_bound else ""
    if bound_ps >= launch_ps:
        times = ratio(best["time_us"], best["lower_bound_us"])
        notes.append(f"the best takes {times} the lower bound of {format_us(bound_ps)}{early_end}")
    else:
        time = format_us(round(best["time_us"] * PS_PER_US))
        notes.append(f"the best takes {time}, the launch alone {format_us(launch_ps)}{early_end}")
    if tuning.as_good:
        others = "1 other is" if tuning.as_good == 1 else f"{tuning.as_good} others are"
        notes.append(f"{others} within 2 % of the best, which is less than the error of the model")
    return notes

"""The table that `mlusim sweep` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mlusim.cli import console
from mlusim.units import plural

if TYPE_CHECKING:
    from mlusim.explore.sweeping import Sweep

_WORDS_SHOWN = 48
_REASONS_SHOWN = 8


def print_sweep(sweep: Sweep, db: str | None, *, full: bool, reported: str) -> None:
    """Print the points with their figures and outcomes.

    Args:
        sweep: the sweep.
        db: the file of its points, if there is one.
        full: all rows, columns and reasons.
        reported: the reason that the error of the command states, which is not printed twice; "" if there is none.
    """
    from mlusim.explore.table_cells import MOST_ROWS, sweep_cells

    rows = sweep.rows
    shown_rows = rows if full else rows[:MOST_ROWS]
    table = sweep_cells(shown_rows, sweep.axes, full=full, most_words=0 if full else _WORDS_SHOWN)
    console.print_columns(table.heads, table.lines, right=table.right, keys=table.keys, cut=not full)
    if not full:
        _print_reasons(rows, reported)
        if len(rows) > MOST_ROWS:
            console.print_text(f"... and {len(rows) - MOST_ROWS} more; --full and -o table.csv have all of them")
    counts = ", ".join(f"{count} {status}" for status, count in sweep.counts.items() if count) or "this shard is empty"
    found_text = f", {sweep.found} of them from before" if sweep.found else ""
    file_text = f" (in {db}{found_text})" if db else ""
    console.print_text(f"\n{plural(len(sweep), 'point')}: {counts}{file_text}")


def _print_reasons(rows: Sequence[dict[str, Any]], reported: str) -> None:
    """Print the reasons of which the table has only the first words."""
    messages = dict.fromkeys(
        f"{row['status']}: {row['message']}" for row in rows if row["status"] != "done" and row["message"] != reported
    )
    # A narrow terminal may have no room for longer ones.
    cut_messages = [words for words in messages if len(words) > console.MIN_TEXT_WIDTH]
    if cut_messages:
        console.print_text("")
    for words in cut_messages[:_REASONS_SHOWN]:
        console.print_text(words)
    if len(cut_messages) > _REASONS_SHOWN:
        others = len(cut_messages) - _REASONS_SHOWN
        console.print_text(f"... and {others} more reasons; --full and -o table.csv have all of them")

"""The table that `mlusim sweep` prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlusim.cli import show
from mlusim.units import PS_PER_US, plural, short_bytes

if TYPE_CHECKING:
    from mlusim.explore.sweeping import Sweep

Row = dict[str, Any]

_ROWS_SHOWN = 60
_WORDS_SHOWN = 48
_REASONS_SHOWN = 8


def print_sweep(sweep: Sweep, db: str | None, *, full: bool) -> None:
    """Print the points with their figures and outcomes.

    Args:
        sweep: the sweep.
        db: the file of its points, if there is one.
        full: all rows, columns and reasons.
    """
    _print_rows(sweep, full=full)
    _print_end(sweep, db)


def _print_rows(sweep: Sweep, *, full: bool) -> None:
    from mlusim.explore.axis_values import text_of

    rows = sweep.rows
    axes = sweep.axes or ["device", "shape"]
    columns = _figures(operators=any("tier" in row for row in rows), full=full)
    heads = [*axes, *columns, "" if not full else "outcome"]
    shown = rows if full else rows[:_ROWS_SHOWN]
    lines = []
    for row in shown:
        cells = ["" if row.get(axis) is None else text_of(axis, row[axis]) for axis in axes]
        if row["status"] == "done":
            cells += [*(cell(row) for cell in columns.values()), "done" if full else ""]
        else:
            words = f"{row['status']}: {row['message']}"
            short = words if full or len(words) <= _WORDS_SHOWN else f"{words[: _WORDS_SHOWN - 3]}..."
            cells += [*("" for _ in columns), short]
        lines.append(cells)
    numbers = [n for n, axis in enumerate(axes) if any(isinstance(row.get(axis), int | float) for row in rows)]
    show.print_columns(heads, lines, right=[*numbers, *range(len(axes), len(heads) - 1)], keys=len(axes), cut=not full)
    if not full:
        _print_cut(rows)


def _figures(*, operators: bool, full: bool) -> dict[str, Callable[[Row], str]]:
    """Return the columns of figures: header, and the text of a completed row."""
    from mlusim.analysis.summary import percent, us_text

    columns: dict[str, Callable[[Row], str]] = {}
    if operators:
        columns["tier"] = lambda row: str(row.get("tier", ""))
    columns |= {
        "time": lambda row: us_text(row["time_ps"]),
        "io_eff.": lambda row: percent(row["io_efficiency"]),
        "bus/min.": lambda row: f"{row['traffic_ratio']:.2f} x",
    }
    if full:
        if operators:
            columns["plan"] = lambda row: str(row.get("plan_strategy", ""))
            columns["tiles"] = lambda row: str(row.get("tiles", ""))
        columns |= {
            "bound": lambda row: us_text(round(row["lower_bound_us"] * PS_PER_US)),
            "read": lambda row: short_bytes(row["bus_read_bytes"]),
            "written": lambda row: short_bytes(row["bus_write_bytes"]),
            "NRAM": lambda row: short_bytes(row["peak_nram_bytes"]),
            "copies": lambda row: str(row["copies"]),
        }
    return columns


def _print_cut(rows: Sequence[Row]) -> None:
    """Print below the table the truncated reasons, and the number of rows omitted."""
    messages = dict.fromkeys(f"{row['status']}: {row['message']}" for row in rows if row["status"] != "done")
    cut = [
        words for words in messages if len(words) > show.MIN_TEXT_WIDTH
    ]  # a narrow terminal may have no room for more
    if cut:
        show.print_text("")
    for words in cut[:_REASONS_SHOWN]:
        show.print_text(words)
    if len(cut) > _REASONS_SHOWN:
        show.print_text(f"... and {len(cut) - _REASONS_SHOWN} more reasons; --full and -o table.csv have all of them")
    if len(rows) > _ROWS_SHOWN:
        show.print_text(f"... and {len(rows) - _ROWS_SHOWN} more; --full and -o table.csv have all of them")


def _print_end(sweep: Sweep, db: str | None) -> None:
    counts = ", ".join(f"{count} {status}" for status, count in sweep.counts.items() if count)
    before = f", {sweep.found} of them from before" if sweep.found else ""
    where = f" (in {db}{before})" if db else ""
    show.print_text(f"\n{plural(len(sweep), 'point')}: {counts}{where}")

"""The texts of the tables of a sweep and of a tuning, for the terminal and for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mlusim.quantities import text_of
from mlusim.units import PS_PER_US, format_us, percent, short_bytes

Row = Mapping[str, Any]

# Rows that a notebook shows, and a terminal without --full.
MOST_ROWS = 60


class Cells(NamedTuple):
    """A table as texts.

    Attributes:
        heads: the headers.
        lines: the rows, each with a text per header.
        right: columns of numbers, which are aligned to the right.
        keys: the leading columns that identify a row.
    """

    heads: list[str]
    lines: list[list[str]]
    right: list[int]
    keys: int


def sweep_cells(rows: Sequence[Row], axes: Sequence[str], *, full: bool, most_words: int = 0) -> Cells:
    """Return the table of a sweep: axes, figures, and the outcome of points that are not done.

    Args:
        rows: rows of the sweep.
        axes: its columns with several values; device and shape if there are none.
        full: all figures, and the outcome of every point.
        most_words: characters of an outcome; 0: all.
    """
    axes = axes or ["device", "shape"]
    columns = _figures(operators=any("tier" in row for row in rows), full=full)
    heads = [*axes, *columns, "outcome" if full else ""]
    lines = []
    for row in rows:
        cells = ["" if row.get(axis) is None else text_of(axis, row[axis]) for axis in axes]
        if row["status"] == "done":
            cells += [*(cell(row) for cell in columns.values()), "done" if full else ""]
        else:
            outcome = f"{row['status']}: {row['message']}"
            outcome_text = f"{outcome[: most_words - 3]}..." if 0 < most_words < len(outcome) else outcome
            cells += [*("" for _ in columns), outcome_text]
        lines.append(cells)
    numbers = [n for n, axis in enumerate(axes) if any(isinstance(row.get(axis), int | float) for row in rows)]
    return Cells(heads, lines, [*numbers, *range(len(axes), len(heads) - 1)], len(axes))


def _figures(*, operators: bool, full: bool) -> dict[str, Callable[[Row], str]]:
    """Return the columns of figures: header, and the text of a completed row."""
    columns: dict[str, Callable[[Row], str]] = {}
    if operators:
        columns["tier"] = lambda row: str(row.get("tier", ""))
    columns |= {
        "time": lambda row: format_us(row["time_ps"]),
        "io_eff.": lambda row: percent(row["io_efficiency"]),
        "traffic": lambda row: f"{row['traffic_ratio']:.2f} x",
    }
    if full:
        if operators:
            columns["plan"] = lambda row: str(row.get("plan_strategy", ""))
            columns["tiles"] = lambda row: str(row.get("tiles", ""))
        columns |= {
            "bound": lambda row: format_us(round(row["lower_bound_us"] * PS_PER_US)),
            "read": lambda row: short_bytes(row["bus_read_bytes"]),
            "written": lambda row: short_bytes(row["bus_write_bytes"]),
            "NRAM": lambda row: short_bytes(row["peak_nram_bytes"]),
            "copies": lambda row: str(row["copies"]),
        }
    return columns


def tuning_cells(rows: Sequence[Row], axes: Sequence[str], *, full: bool) -> Cells:
    """Return the table of a tuning: settings, time, and why each is slower than the best, which is the first.

    Args:
        rows: the first rows of the tuning.
        axes: for a kernel: the settings with several values.
        full: all columns, and whole reasons.
    """
    # An operator's rows have plans with tiers; a kernel's do not.
    plans = "tier" in rows[0]
    plan_heads = ["strategy", "NRAM limit", "tier", *(["tiles", "NRAM"] if full else [])]
    settings = plan_heads if plans else list(axes)
    lines = []
    for row in rows:
        cells = _plan_cells(row, full=full) if plans else [str(row.get(axis, "")) for axis in settings]
        reason = row["why"] if full else row["why"].partition(";")[0].partition(":")[0]
        lines.append([*cells, format_us(row["time_ps"]), "best" if row is rows[0] else _slower(row["slower"]), reason])
    heads = [*settings, "time", "", "why it is slower"]
    first_number, keys = (1, 2) if plans else (0, len(axes))
    return Cells(heads, lines, [*range(first_number, len(heads) - 1)], keys)


def _plan_cells(row: Row, *, full: bool) -> list[str]:
    return [
        row["strategy"] if row["strategy"] != "auto" else f"auto: {row['plan_strategy']}",
        "" if row["nram_limit_bytes"] is None else text_of("nram_bytes", row["nram_limit_bytes"]),
        str(row["tier"]),
        *([str(row["tiles"]), short_bytes(row["plan_nram_bytes"])] if full else []),
    ]


def _slower(part: float | None) -> str:
    if not part:
        return "equal" if part is not None else ""
    return f"+{percent(part)}"

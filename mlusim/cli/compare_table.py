"""The table and the JSON of `mlusim compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlusim.cli import console
from mlusim.units import format_us, percent, short_bytes

if TYPE_CHECKING:
    from mlusim.explore.compare import Row

_CAUSES_SHOWN = 3


def print_comparison(
    title: str, what: str, rows: Sequence[Row], refused: Mapping[str, str], *, data: bool, full: bool
) -> None:
    """Print the table of a comparison.

    Args:
        title: above the table.
        what: header of the first column.
        rows: rows of `mlusim.explore.compare.compare`.
        refused: cases without a plan, with the reason.
        data: whether outputs were compared.
        full: all columns.
    """
    console.print_text(f"{title}\n")
    tiers = any(row.tier for row in rows)
    heads = [what, *(["tier"] if tiers else []), "time", "speed", "io_eff."]
    heads += [*(["DRAM bus", "peak NRAM"] if full else []), "where the time went" if full else "largest share of time"]
    lines = [_line(row, rows[0], tiers=tiers, full=full) for row in rows]
    console.print_columns(heads, lines, right=range(1, len(heads) - 1))
    for reason in refused.values():
        console.print_text(f"\nNot possible here: {reason}")
    if not data:
        console.print_text("\nTiming only: results were not compared.")
    elif len(rows) > 1:
        every = "Both" if len(rows) == 2 else f"All {len(rows)}"
        console.print_text(f"\n{every} results are equal, bit for bit. Speed is relative to {rows[0].name}.")


def _line(row: Row, first: Row, *, tiers: bool, full: bool) -> tuple[str, ...]:
    from mlusim.analysis.breakdown import CAUSES

    shares = sorted(row.where_time_went.items(), key=lambda item: -item[1])[: _CAUSES_SHOWN if full else 1]
    went = "; ".join(f"{CAUSES[cause]} {percent(spent / row.core_time_ps)}" for cause, spent in shares if spent)
    speed = f"{first.time_ps / row.time_ps:.2f} x" if first.time_ps and row.time_ps else ""
    # A strategy such as auto chooses another one, whose name is in its plan.
    name = row.name if row.strategy in ("", row.name.rpartition(", ")[2]) else f"{row.name}: {row.strategy}"
    sizes = (short_bytes(sum(row.bus_bytes.values())), short_bytes(row.peak_nram_bytes))
    return (
        name,
        *((str(row.tier),) if tiers else ()),
        format_us(row.time_ps),
        speed,
        percent(row.io_efficiency),
        *(sizes if full else ()),
        went,
    )


def comparison_json(rows: Sequence[Row], refused: Mapping[str, str], *, data: bool) -> dict[str, Any]:
    """Return the results of a comparison as JSON types."""
    return {
        "results_equal": True if data else None,
        "strategies": [_record(row) for row in rows],
        "refused": [{"strategy": name, "reason": reason} for name, reason in refused.items()],
    }


def _record(row: Row) -> dict[str, Any]:
    return {
        "strategy": row.name,
        "plan_strategy": row.strategy,
        "tier": row.tier,
        "time_ps": row.time_ps,
        "time_us": row.time_us,
        "bytes_requested": dict(row.bytes_requested),
        "bus_bytes": dict(row.bus_bytes),
        "io_efficiency": row.io_efficiency,
        "peak_nram_bytes": row.peak_nram_bytes,
        "core_time_ps": row.core_time_ps,
        "where_time_went_core_ps": dict(row.where_time_went),
    }

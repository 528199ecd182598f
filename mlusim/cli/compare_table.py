"""The table and the JSON of `mlusim compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlusim.cli import console
from mlusim.units import PS_PER_US, format_us, percent, ratio, short_bytes

if TYPE_CHECKING:
    from mlusim.explore.compare import Row

_CAUSES_SHOWN = 3


def print_comparison(
    title: str, case_heading: str, rows: Sequence[Row], refused: Mapping[str, str], *, data: bool, full: bool
) -> None:
    """Print the table of a comparison.

    Args:
        title: above the table.
        case_heading: header of the first column.
        rows: rows of `mlusim.explore.compare.compare`.
        refused: cases without a plan, with the reason.
        data: whether outputs were compared.
        full: all columns.
    """
    console.print_text(f"{title}\n")
    tiers = any(row.tier for row in rows)
    heads = [case_heading, *(["tier"] if tiers else []), "time", "speed", "io_eff."]
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

    metrics, first_ps = row.metrics, first.metrics.time_ps
    shares = sorted(metrics.where_time_went.items(), key=lambda item: -item[1])[: _CAUSES_SHOWN if full else 1]
    went = "; ".join(f"{CAUSES[cause]} {percent(spent / metrics.core_time_ps)}" for cause, spent in shares if spent)
    # A strategy such as auto chooses another one, whose name is in its plan.
    name = row.name if row.strategy in ("", row.name.rpartition(", ")[2]) else f"{row.name}: {row.strategy}"
    sizes = (short_bytes(sum(metrics.bus_bytes.values())), short_bytes(metrics.peak_nram_bytes))
    return (
        name,
        *((str(row.tier),) if tiers else ()),
        format_us(metrics.time_ps),
        ratio(first_ps, metrics.time_ps) if first_ps else "",
        percent(metrics.io_efficiency),
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
    metrics = row.metrics
    return {
        "strategy": row.name,
        "plan_strategy": row.strategy,
        "tier": row.tier,
        "time_ps": metrics.time_ps,
        "time_us": metrics.time_ps / PS_PER_US,
        "bytes_requested": dict(metrics.bytes_requested),
        "bus_bytes": dict(metrics.bus_bytes),
        "io_efficiency": metrics.io_efficiency,
        "peak_nram_bytes": metrics.peak_nram_bytes,
        "core_time_ps": metrics.core_time_ps,
        "where_time_went_core_ps": dict(metrics.where_time_went),
    }

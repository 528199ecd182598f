"""A plan as text, and as JSON types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.units import format_bytes, format_us, group_digits, percent, plural

if TYPE_CHECKING:
    from mlusim.planning.plan import Plan

TIER_NAMES = {0: "nothing to do", 1: "whole units", 2: "unit split", 3: "row split"}


def explain(plan: Plan) -> str:
    """Describe the plan: unit, tier, arithmetic, launch, tiles per task, balance."""
    usable = plan.board.nram_usable_bytes
    limit = "" if plan.nram_limit_bytes is None else f", limited to {format_bytes(plan.nram_limit_bytes)}"
    lines = [
        f"{plan.operator} on {plan.board.name}, strategy {plan.strategy}",
        f"  output     {list(plan.output_shape)} of {plan.itemsize} B",
        f"  unit       {plan.unit}: {format_bytes(plan.unit_bytes)}; usable NRAM {format_bytes(usable)}{limit}",
        f"  tier       {plan.tier} ({TIER_NAMES.get(plan.tier, 'unknown')}): {plan.reason}",
        *(f"             {line}" for line in plan.arithmetic),
        f"  launch     {plan.kind}, dim {plan.dim}: {plural(plan.tasks, 'task')} on {plan.board.cores} cores"
        if plan.tier
        else "  launch     none",
    ]
    if len(plan.tiles):
        per_task = plan.elements_by_task()
        counts = np.bincount(plan.tiles.task, minlength=plan.tasks)
        tiles_per_task = str(counts.max()) if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
        busiest, mean = int(per_task.max()), float(per_task.mean())
        lines += [
            (
                f"  tiles      {group_digits(len(plan.tiles))}: {tiles_per_task} per task; "
                f"NRAM {format_bytes(plan.nram_bytes)}, {percent(plan.nram_bytes / usable)} of usable"
            ),
            (
                f"  balance    busiest task {group_digits(busiest * plan.itemsize)} B, mean "
                f"{group_digits(round(mean * plan.itemsize))} B: {percent(mean / busiest if busiest else 0)} even; "
                f"{plural(int((per_task == 0).sum()), 'task')} idle"
            ),
        ]
    else:
        lines.append("  tiles      none")
    if plan.predicted_ps is not None:
        lines.append(f"  predicted  {format_us(plan.predicted_ps)} by the board's cost functions")
    return "\n".join(lines)


def to_json(plan: Plan, *, boxes: bool) -> dict[str, Any]:
    """Return the plan as JSON types; the unit of a number is the suffix of its key. `boxes`: include every tile."""
    elements = plan.elements_by_task().tolist()
    values: dict[str, Any] = {
        "strategy": plan.strategy,
        "tier": plan.tier,
        "tier_name": TIER_NAMES.get(plan.tier, "unknown"),
        "reason": plan.reason,
        "arithmetic": list(plan.arithmetic),
        "unit": plan.unit,
        "unit_bytes": plan.unit_bytes,
        "launch_kind": plan.kind,
        "launch_dim": list(plan.dim),
        "output_shape": list(plan.output_shape),
        "output_itemsize_bytes": plan.itemsize,
        "tiles": len(plan.tiles),
        "tiles_by_task": np.bincount(plan.tiles.task, minlength=plan.tasks).tolist(),
        "elements_by_task": elements,
        "nram_bytes": plan.nram_bytes,
        "nram_allowed_bytes": plan.allowed_nram_bytes,
        "predicted_ps": plan.predicted_ps,
    }
    return values | {"boxes": [tile._asdict() for tile in plan.tiles]} if boxes else values

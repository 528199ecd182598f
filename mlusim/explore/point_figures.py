"""The figures of a finished point, by column of a sweep's table: how each is computed from the run."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from mlusim.analysis.breakdown import CAUSES
from mlusim.units import PS_PER_S, PS_PER_US

if TYPE_CHECKING:
    from mlusim.planning.plan import Plan
    from mlusim.results.result import Result


def _compulsory_bytes(run: Result) -> int:
    return sum(run.metrics.compulsory_bytes.values())


def _traffic_ratio(run: Result) -> float:
    compulsory = _compulsory_bytes(run)
    return sum(run.bus_bytes.values()) / compulsory if compulsory else 0.0


def _achieved_bytes_per_s(run: Result) -> float:
    return _compulsory_bytes(run) / run.time_ps * PS_PER_S if run.time_ps else 0.0


def _copies(run: Result) -> int:
    return sum(count for name, count in run.metrics.operations.items() if name.startswith("memcpy"))


def _cause_us(cause: str, run: Result) -> float:
    """Return the time of a cause per core on average."""
    return run.metrics.where_time_went[cause] / run.board.cores / PS_PER_US


# Figures of operators.
PLAN_FIGURES: dict[str, Callable[[Plan], Any]] = {
    "plan_strategy": lambda plan: plan.strategy,
    "tier": lambda plan: plan.tier,
    "tasks": lambda plan: plan.tasks if plan.tier else 0,
    "tiles": lambda plan: len(plan.tiles),
    "plan_nram_bytes": lambda plan: plan.nram_bytes,
}
# Figures of all runs.
FIGURES: dict[str, Callable[[Result], Any]] = {
    "time_us": lambda run: run.metrics.time_ps / PS_PER_US,
    "time_ps": lambda run: run.metrics.time_ps,
    "cycles": lambda run: run.cycles,
    "lower_bound_us": lambda run: run.lower_bound.time_ps / PS_PER_US,
    "bus_read_bytes": lambda run: run.bus_bytes["read"],
    "bus_write_bytes": lambda run: run.bus_bytes["write"],
    "requested_bytes": lambda run: sum(run.bytes_requested.values()),
    "compulsory_bytes": _compulsory_bytes,
    "traffic_ratio": _traffic_ratio,
    "achieved_bytes_per_s": _achieved_bytes_per_s,
    "io_efficiency": lambda run: run.io_efficiency,
    "compute_efficiency": lambda run: run.metrics.compute_efficiency,
    "peak_nram_bytes": lambda run: run.metrics.peak_nram_bytes,
    "peak_sram_bytes": lambda run: run.metrics.peak_sram_bytes,
    "copies": _copies,
    "launches": lambda run: len(run.log.launches),
    **{f"{cause}_us": partial(_cause_us, cause) for cause in CAUSES},
}
# Further figures of runs with steady-state timing.
STEADY_FIGURES: dict[str, Callable[[Result], Any]] = {
    "extrapolated_us": lambda run: run.steady.skipped_ps / PS_PER_US,
    "bound_us": lambda run: run.steady.bound_ps / PS_PER_US,
}


def figures_of(run: Result, plan: Plan | None, *, steady: bool) -> dict[str, Any]:
    """Return all figures of a run; without a plan, the tasks are those of its launches."""
    if plan is None:
        figures: dict[str, Any] = {"tasks": sum(math.prod(launch.dim) for launch in run.log.launches)}
    else:
        figures = {name: figure(plan) for name, figure in PLAN_FIGURES.items()}
    figures["tensors"] = " ".join(
        f"{tensor.name}={tensor.dtype}:{','.join(map(str, tensor.shape))}" for tensor in run.log.tensors
    )
    return figures | {name: figure(run) for name, figure in (FIGURES | (STEADY_FIGURES if steady else {})).items()}

"""The summary of a run as table rows, and as JSON types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.lower_bound import LOSSES, most_sensitive_to
from mlusim.analysis.provenance import MODEL, provenance
from mlusim.errors import for_caller
from mlusim.hardware.describe import assumed_fields
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.sizes import OWNERS, memory_sizes
from mlusim.planning.plan_text import TIER_NAMES
from mlusim.source_code import source_name
from mlusim.units import (
    GIGA,
    KIB,
    MEGA,
    PS_PER_US,
    format_us,
    group_digits,
    percent,
    plural,
    ratio,
    short_bytes,
)

if TYPE_CHECKING:
    from mlusim.analysis.metrics import Metrics
    from mlusim.hardware import Board
    from mlusim.results.result import Result

FORMAT = "mlusim-summary/1"
_LINES = 5


class Row(NamedTuple):
    """A line of the summary: label, value, and an explanatory note."""

    label: str
    value: str
    note: str = ""


def rows(result: Result) -> list[Row]:
    """Return the summary: time, bytes, efficiencies with the verdict, bottleneck, tier, memory, time by cause."""
    return [*figures(result), *split_rows(result), *_losses(result), *_lines(result), *_causes(result)]


def figures(result: Result) -> list[Row]:
    """Return the rows of time, bytes, efficiencies with the vendor's verdict, and bottleneck."""
    metrics, board = result.metrics, result.board
    steady_text = result.steady.text(result.time_ps)
    table = [
        Row("time", format_us(metrics.time_ps), f"model of {board.name}, not a measurement"),
        *([Row("steady state", "", steady_text)] if steady_text else []),
        Row("known error", "", result.known.text),
        _lower_bound(result),
        Row("cycles", group_digits(metrics.cycles), f"at {board.clock_hz / MEGA:g} MHz"),
    ]
    for name, nbytes in metrics.bytes_requested.items():
        table.append(
            Row(f"{name} requested", f"{group_digits(nbytes)} B", short_bytes(nbytes) if nbytes >= KIB else "")
        )
    for name in ("read", "write"):
        nbytes, compulsory = metrics.bus_bytes[name], metrics.compulsory_bytes[name]
        io_ratio = ratio(nbytes, compulsory)
        note = f"{io_ratio} the compulsory {group_digits(compulsory)} B" if io_ratio else "nothing compulsory"
        table.append(Row(f"DRAM bus, {name}", f"{group_digits(nbytes)} B", note))
    peak = board.dram_bandwidth_bytes_per_s / GIGA
    vendors = metrics.vendor_io_efficiency
    has_other_bytes = metrics.theory_io_bytes != sum(metrics.compulsory_bytes.values())
    table.append(
        Row(
            "io_efficiency",
            percent(metrics.io_efficiency),
            f"compulsory bytes at {peak:g} GB/s"
            + ("" if has_other_bytes and vendors is not None else f"; {metrics.verdict}"),
        )
    )
    if has_other_bytes and vendors is not None:
        note = f"all tensors once, {group_digits(metrics.theory_io_bytes)} B; {metrics.verdict}"
        table.append(Row("the vendor's io_efficiency", percent(vendors), note))
    return [*table, *_compute_rows(metrics)]


def _compute_rows(metrics: Metrics) -> list[Row]:
    """Return the rows of compute efficiency and bottleneck, which is unknown if the operations are not declared."""
    if metrics.compute_efficiency is None:
        option = for_caller("give --theory-ops", "pass theory_ops")
        note = f"{option}, the operations that the result requires, to see the bottleneck"
        return [Row("compute_efficiency", "unknown", note)]
    compute = (
        f"of {metrics.peak_ops_per_s / GIGA:g} Gop/s, the peak of the {metrics.peak_pipe} pipes"
        if metrics.theory_ops
        else "the operator only moves data"
    )
    if metrics.compute_efficiency > 1:
        compute += (
            "; above 100 %: theory_ops is too high, or the kernel has 8-bit elements or instructions of several "
            "operations, which that peak does not count"
        )
    return [
        Row("compute_efficiency", percent(metrics.compute_efficiency), compute),
        Row("bottleneck", metrics.bottleneck, "the larger of the two efficiencies"),
    ]


def split_rows(result: Result) -> list[Row]:
    """Return the rows of strategy, tier, and memory."""
    board, plan = result.board, result.plan
    table = []
    if plan is not None:
        table += [
            Row(
                "strategy",
                plan.strategy,
                f"{plan.kind} {plan.dim}: {plural(plan.tasks, 'task')} on {board.cores} cores",
            ),
            Row("tier", str(plan.tier), f"{TIER_NAMES.get(plan.tier, 'unknown')}: {plan.reason}"),
        ]
    table += [Row(f"peak {kind.name}", f"{group_digits(nbytes)} B", part) for kind, nbytes, part in peaks(result)]
    return table


def peaks(result: Result) -> list[tuple[MemoryKind, int, str]]:
    """Return the peaks of NRAM and, if it was used, of SRAM: the memory, the bytes, and which part of it they are."""
    metrics, sizes = result.metrics, memory_sizes(result.board)
    nbytes = {MemoryKind.NRAM: metrics.peak_nram_bytes}
    if metrics.peak_sram_bytes:
        nbytes[MemoryKind.SRAM] = metrics.peak_sram_bytes
    return [(kind, peak, sizes[kind].filled(peak, OWNERS[kind])) for kind, peak in nbytes.items()]


def _causes(result: Result) -> list[Row]:
    metrics = result.metrics
    if not metrics.core_time_ps:
        return []
    cores = result.board.cores
    shares = sorted(metrics.where_time_went.items(), key=lambda item: -item[1])
    return [
        Row(
            "where time went" if position == 0 else "",
            percent(total / metrics.core_time_ps),
            f"{CAUSES[name]} ({format_us(total / cores)} per core on average)",
        )
        for position, (name, total) in enumerate(shares)
        if total
    ]


def _lower_bound(result: Result) -> Row:
    bound = result.lower_bound
    by_compute = bound.compute_ps > bound.io_ps
    reason = "the operator's work on all cores" if by_compute else "compulsory bytes at peak bandwidth"
    time_ratio = f"; the run takes {ratio(result.time_ps, bound.time_ps)}" if bound.time_ps else ""
    return Row("lower bound", format_us(bound.time_ps), f"{reason}{time_ratio}")


def _losses(result: Result) -> list[Row]:
    bound, cores = result.lower_bound, result.board.cores
    above_ps = result.time_ps - bound.time_ps
    if not above_ps:
        return []
    uncertain = ", ".join(most_sensitive_to(result.board, bound, result.metrics))
    table = [Row("above the bound", format_us(above_ps), f"most sensitive to {uncertain}" if uncertain else "")]
    for name, total in sorted(bound.losses_ps.items(), key=lambda item: -item[1]):
        if total:
            table.append(Row("", format_us(total // cores), f"{LOSSES[name]} ({percent(total / cores / above_ps)})"))
    return table


def _lines(result: Result) -> list[Row]:
    """Return the rows of the most expensive source lines, each with its main cause."""
    total_ps = result.metrics.core_time_ps
    table: list[Row] = []
    for line in result.lines:
        if line.line and len(table) < _LINES:
            causes = line.spent_ps
            main_cause = list(CAUSES)[int(causes.argmax())]
            location = f"{source_name(line.file)}:{line.line}"
            share = percent(int(causes.sum()) / total_ps)
            note = f"{location} {line.function}: mostly {CAUSES[main_cause]}"
            table.append(Row("" if table else "time by line", share, note))
    return table


def to_json(result: Result) -> dict[str, Any]:
    """Return the summary as JSON types; keys end with units, and an `efficiency` or `fraction` of 1 is the whole."""
    metrics, board, plan = result.metrics, result.board, result.plan
    core_time_ps = metrics.core_time_ps
    return {
        "format": FORMAT,
        "model": MODEL,
        "operator": result.operator,
        "provenance": provenance(result),
        "board": _board_json(board),
        "plan": None if plan is None else plan.to_json(boxes=False),
        "time_ps": metrics.time_ps,
        "time_us": metrics.time_ps / PS_PER_US,
        "steady": result.steady.to_json(),
        "known": result.known.to_json(),
        "lower_bound": _lower_bound_json(result),
        "lines": _lines_json(result),
        "cycles": metrics.cycles,
        "bytes_requested": dict(metrics.bytes_requested),
        "bus_bytes": dict(metrics.bus_bytes),
        "compulsory_bytes": dict(metrics.compulsory_bytes),
        "theory_io_bytes": metrics.theory_io_bytes,
        "theory_ops": metrics.theory_ops,
        "io_efficiency": metrics.io_efficiency,
        "vendor_io_efficiency": metrics.vendor_io_efficiency,
        "compute_efficiency": metrics.compute_efficiency,
        "peak_ops_per_s": metrics.peak_ops_per_s,
        "verdict": metrics.verdict,
        "bottleneck": metrics.bottleneck,
        "peak_nram_bytes": metrics.peak_nram_bytes,
        "peak_sram_bytes": metrics.peak_sram_bytes,
        "core_time_ps": core_time_ps,
        "where_time_went_core_ps": dict(metrics.where_time_went),
        "where_time_went_fraction": {
            name: total / core_time_ps if core_time_ps else 0.0 for name, total in metrics.where_time_went.items()
        },
        "cores_ps": [dict(zip(CAUSES, core, strict=True)) for core in metrics.core_causes_ps.tolist()],
        "pipe_busy_ps": dict(metrics.pipe_busy_ps),
        "operations": dict(metrics.operations),
        "records": metrics.records,
        "launches": _launches_json(result),
        "tasks": len(result.log.tasks),
        "task_busy_ps": _min_mean_max(metrics.task_busy_ps),
        "task_idle_ps": _min_mean_max(metrics.task_idle_ps),
    }


def _board_json(board: Board) -> dict[str, Any]:
    return {
        "name": board.name,
        "family": board.family,
        "arch": board.arch,
        "clusters": board.clusters,
        "cores": board.cores,
        "clock_hz": board.clock_hz,
        "dram_bandwidth_bytes_per_s": board.dram_bandwidth_bytes_per_s,
        "nram_usable_bytes": board.nram_usable_bytes,
        "sram_usable_bytes": board.sram_usable_bytes,
        "assumed_parameters": assumed_fields(board),
    }


def _lower_bound_json(result: Result) -> dict[str, Any]:
    bound = result.lower_bound
    return {
        "time_ps": bound.time_ps,
        "io_ps": bound.io_ps,
        "compute_ps": bound.compute_ps,
        "above_core_ps": dict(bound.losses_ps),
        "above_by_core_ps": [dict(zip(LOSSES, core, strict=True)) for core in bound.core_losses_ps.tolist()],
        "most_sensitive_to": most_sensitive_to(result.board, bound, result.metrics),
    }


def _lines_json(result: Result) -> list[dict[str, Any]]:
    return [
        {
            "file": source_name(line.file),
            "line": line.line,
            "function": line.function,
            "core_ps": line.by_cause,
        }
        for line in result.lines
    ]


def _launches_json(result: Result) -> list[dict[str, Any]]:
    return [
        {
            "kernel": launch.kernel,
            "kind": launch.kind,
            "dim": list(launch.dim),
            "queue": launch.queue,
            "start_ps": launch.start_ps,
            "end_ps": launch.end_ps,
        }
        for launch in result.log.launches
    ]


def _min_mean_max(values: Any) -> dict[str, float]:
    if not len(values):
        return {"min": 0, "mean": 0.0, "max": 0}
    return {"min": int(values.min()), "mean": float(values.mean()), "max": int(values.max())}

"""Suggestions for a run: for each loss, the change that removes it, and the predicted time without it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from mlusim.analysis.bandwidth import bus_bytes_over_time
from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.log_parts import parts_of
from mlusim.analysis.lower_bound import mixed_ps
from mlusim.errors import MlusimError
from mlusim.log import TENSOR, VECTOR
from mlusim.results.result import Result
from mlusim.retiming.retime import retime
from mlusim.units import PS_PER_S


class Suggestion(NamedTuple):
    """A change to a kernel, and the predicted time without a certain loss.

    The gain is larger only if the change also reduces another loss; docs/retime.md compares both.

    Attributes:
        loss: the loss concerned, as in `LowerBound.losses_ps`.
        change: the change to the kernel.
        assumption: the assumption of the prediction.
        time_ps: the predicted time.
    """

    loss: str
    change: str
    assumption: str
    time_ps: int

    def to_json(self) -> dict[str, Any]:
        """Return the suggestion as JSON types."""
        return {**self._asdict(), "prediction": True}


class _Remedy(NamedTuple):
    """The remedy for a loss.

    Attributes:
        change, assumption: as in `Suggestion`.
        parameters: board values without the loss; a pair is a multiple of another field of the board.
        if_overlapping: the change for a kernel whose loads already overlap with its other work; empty for the same.
    """

    change: str
    assumption: str
    parameters: Mapping[str, Any]
    if_overlapping: str = ""


# ASSUMED: smaller savings, as a fraction of the run's time, are below what the model can tell (docs/accuracy.md).
_LEAST_SAVING = 0.01
# Causes that are not work of the core itself.
_WAITING = {"bandwidth_wait", "sync", "launch", "idle"}
_SEGMENTS = {"dma_segment_ps": 0, "dma_element_ps": 0}
_REMEDIES = {
    "latency": _Remedy(
        "hide the start-up of copies: larger tiles, or double buffering",
        "copies started at once",
        {"dma_read_latency_ps": 0, "dma_write_latency_ps": 0},
        "hide the start-up of copies: larger tiles",
    ),
    "strided": _Remedy(
        "make accesses contiguous: another split, or whole rows staged in SRAM",
        "strided copies were as fast as contiguous ones",
        {
            # A board requires this order of efficiencies.
            "dram_strided_read_efficiency": ("dram_write_efficiency", 0.9999),
            "dram_strided_write_efficiency": ("dram_write_efficiency", 0.9998),
            **_SEGMENTS,
        },
    ),
    "port": _Remedy(
        "longer rows in strided copies: wider tiles, or another layout",
        "rows of copies took no time of their own",
        _SEGMENTS,
    ),
    "mixed": _Remedy(
        "read and write in phases, not at once",
        "mixing reads and writes cost nothing",
        {"dram_mixed_efficiency": 1.0},
    ),
    "sync": _Remedy(
        "fewer barriers, or more work between them",
        "no task waited for others at a barrier",
        {},
    ),
    "launch": _Remedy(
        "one launch instead of several, or fewer tasks",
        "launches took no time",
        {"kernel_start_ps": 0, "kernel_end_ps": 0, "core_start_skew_ps": 0},
    ),
    "compute": _Remedy(
        "overlap compute with copies by another buffer; longer vector instructions",
        "compute and on-chip copies started at once",
        {"vector_startup_cycles": 0, "move_startup_cycles": 0},
        "longer vector instructions",
    ),
}


def what_to_try(result: Result, count: int = 3, *, progress: bool = False) -> list[Suggestion]:
    """For the largest losses, return the change that would help, and the time without this loss.

    The time is that of the same instructions, retimed on a board without the loss. Losses that no parameter of the
    board removes, imbalance and excess bytes, are subtracted. Returns only changes that save at least 1 % of the time,
    the largest saving first; a smaller loss is not retimed, which takes about as long as the run itself. With
    `progress`, each retiming that takes longer than a second or two shows a progress bar.
    """
    suggestions = [*_evenly(result), _each_byte_once(result)]
    overlaps = _copies_overlap(result)
    for loss, total in result.lower_bound.losses_ps.items():
        is_small = total < _LEAST_SAVING * result.metrics.core_time_ps
        if not total or is_small or loss not in _REMEDIES or (loss == "launch" and _launched_once(result)):
            continue
        remedy = _REMEDIES[loss]
        values = {
            name: getattr(result.board, value[0]) * value[1] if isinstance(value, tuple) else value
            for name, value in remedy.parameters.items()
        }
        try:
            changes = _lowest(result, values)
            retimed = retime(result, keep_split=True, barriers=loss != "sync", progress=progress, **changes)
        except MlusimError:
            continue
        change = remedy.if_overlapping if overlaps and remedy.if_overlapping else remedy.change
        suggestions.append(Suggestion(loss, change, remedy.assumption, retimed.time_ps))
    highest_ps = (1 - _LEAST_SAVING) * result.time_ps
    worthwhile = (suggestion for suggestion in suggestions if suggestion.time_ps <= highest_ps)
    return sorted(worthwhile, key=lambda suggestion: suggestion.time_ps)[:count]


def _evenly(result: Result) -> list[Suggestion]:
    """Return the suggestion for imbalance: no core waits for the others, and the DRAM moves the same bytes as fast.

    Tasks on cores without work add the start-up of their copies. None for the plan of an operator whose search has
    compared more tasks with fewer.
    """
    table = result.metrics.core_causes_ps
    work_ps = table[:, [name not in _WAITING for name in CAUSES]].sum(axis=1)
    without_work = int((work_ps == 0).sum())
    plan, board = result.plan, result.board
    if without_work and plan is not None and plan.predicted_ps is not None and plan.board == board:
        return []
    added_ps = without_work * sum(
        latency_ps
        for way, latency_ps in (("read", board.dma_read_latency_ps), ("write", board.dma_write_latency_ps))
        if result.bus_bytes[way]
    )
    # Cores with the same work end at different times, too, where they share the DRAM.
    uneven = max(1 - (work_ps.mean() + added_ps / board.cores) / max(work_ps.max(), 1), 0)
    idle_ps = min(result.lower_bound.losses_ps["idle"] // board.cores, round(result.time_ps * uneven))
    return [
        Suggestion(
            "idle",
            "divide the work evenly among the cores"
            + (f"; {without_work} of {board.cores} cores have none" if without_work else ""),
            "all cores had the same share of the work",
            max(
                result.time_ps - idle_ps,
                min(_dram_ps(result), result.time_ps),
                0 if without_work else _at_full_rate_ps(result),
            ),
        )
    ]


def _copies_overlap(result: Result) -> bool:
    """Return whether most loads from DRAM overlap with other work of their task, as with two buffers.

    Other work is a vector or tensor instruction, or a store to DRAM, that the task issues while the load is in flight.
    """
    loads = overlapping = 0
    for part in parts_of(LogColumns(result.log, result.board)):
        by_task = np.argsort(part.task, kind="stable")
        task, issue_ps = part.task[by_task], part.issue_ps[by_task]
        is_load = (part.is_copy & (part.bus_read_bytes > 0) & ~part.is_write)[by_task]
        is_other = np.isin(part.pipe, (VECTOR, TENSOR))[by_task] | (part.is_write & part.is_copy)[by_task]
        others = np.append(np.flatnonzero(is_other), len(task))
        load = np.flatnonzero(is_load)
        following = others[np.searchsorted(others, load)]
        load, following = load[following < len(task)], following[following < len(task)]
        in_flight = (task[following] == task[load]) & (issue_ps[following] < part.end_ps[by_task][load])
        loads += int(is_load.sum())
        overlapping += int(in_flight.sum())
    return overlapping > loads / 2


def _at_full_rate_ps(result: Result) -> int:
    """Return the time of a run whose bytes all move at the rate measured until the first core finishes.

    After that, fewer cores share the DRAM, and each is faster. 0 if no bytes move before.
    """
    records = LogColumns(result.log, result.board)
    on_cores = records.task_unit < result.board.cores
    last = np.zeros(result.board.cores, np.int64)
    np.maximum.at(last, records.task_unit[on_cores], records.task_end_ps[on_cores])
    start, end = records.start_of_run_ps, records.end_of_run_ps
    first_done = int(last[last > 0].min(initial=end))
    bytes_before, bytes_after = np.add(*bus_bytes_over_time(records, np.array([start, first_done, end])))
    return round((first_done - start) * (1 + bytes_after / bytes_before)) if bytes_before else 0


def _each_byte_once(result: Result) -> Suggestion:
    """Return the suggestion for excess bytes: they would take their share of the DRAM's time."""
    board = result.board
    nominal_ps = sum(result.bus_bytes.values()) * PS_PER_S / board.dram_bandwidth_bytes_per_s
    excess_ps = result.lower_bound.losses_ps["extra_bytes"] // board.cores
    return Suggestion(
        "extra_bytes",
        f"load data once: keep it on chip, or share it in SRAM; whole units of {board.dram_unit_bytes} B",
        "each byte moved once",
        result.time_ps - round(excess_ps * _dram_ps(result) / max(nominal_ps, 1)),
    )


def _dram_ps(result: Result) -> int:
    """Return the time that the DRAM needs for all bytes of a run, contiguous, and mixed as they were."""
    board, bus = result.board, result.bus_bytes
    work = bus["read"] / board.dram_read_efficiency + bus["write"] / board.dram_write_efficiency
    mixed_share = mixed_ps(LogColumns(result.log, board)) / max(result.time_ps, 1)
    efficiency = 1 - mixed_share * (1 - board.dram_mixed_efficiency)
    return round(work * PS_PER_S / board.dram_bandwidth_bytes_per_s / efficiency)


def _launched_once(result: Result) -> bool:
    """Return whether there is a single launch whose tasks all start at once, so that nothing can be gained there."""
    log, board = result.log, result.board
    return len(log.launches) == 1 and len(log.tasks) <= board.cores + board.clusters


def _lowest(result: Result, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values, with 1 instead of 0 where the board rejects 0."""

    def must_be_positive(name: str) -> bool:
        try:
            result.board.replace(**{name: 0})
        except MlusimError:
            return True
        return False

    return {name: 1 if value == 0 and must_be_positive(name) else value for name, value in values.items()}

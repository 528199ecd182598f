"""What to try for a run: for each loss, the change that removes it, and the time without it, by retiming."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mlusim.errors import MlusimError
from mlusim.results.result import Result
from mlusim.retiming.retime import retime


class Suggestion(NamedTuple):
    """A change to a kernel, and the predicted time (by retiming) without a certain loss.

    The gain is larger only if the change also reduces another loss; docs/retime.md compares both.

    Attributes:
        loss: the loss concerned, as in `LowerBound.losses_ps`.
        change: the change to the kernel.
        assumption: the assumption of the retiming.
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
    change: str
    assumption: str
    parameters: Mapping[str, Any]


_SEGMENTS = {"dma_segment_ps": 0, "dma_element_ps": 0}
# The remedy for each loss, and board values without it; a pair is a multiple of another field of the board.
_REMEDIES = {
    "latency": _Remedy(
        "hide the start-up of copies: larger tiles, or double buffering",
        "copies started at once",
        {"dma_read_latency_ps": 0, "dma_write_latency_ps": 0},
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
        "one launch for several, or fewer tasks",
        "launches took no time",
        {"kernel_start_ps": 0, "kernel_end_ps": 0, "core_start_skew_ps": 0},
    ),
    "compute": _Remedy(
        "overlap compute with copies by another buffer; longer vector instructions",
        "compute and on-chip copies started at once",
        {"vector_startup_cycles": 0, "move_startup_cycles": 0},
    ),
}


def what_to_try(result: Result, count: int = 3) -> list[Suggestion]:
    """For the largest losses, return the change that would help, and the time without this loss, by retiming.

    Losses without a corresponding board parameter (excess bytes, imbalance) have no suggestion. Returns only changes
    that save time, the largest saving first.
    """
    suggestions = []
    for loss, total in sorted(result.lower_bound.losses_ps.items(), key=lambda item: -item[1]):
        if not total or loss not in _REMEDIES or (loss == "launch" and _launched_once(result)):
            continue
        remedy = _REMEDIES[loss]
        values = {
            name: getattr(result.board, value[0]) * value[1] if isinstance(value, tuple) else value
            for name, value in remedy.parameters.items()
        }
        try:
            retimed = retime(result, keep_split=True, barriers=loss != "sync", **_lowest(result, values))
        except MlusimError:
            continue
        if retimed.time_ps < result.time_ps:
            suggestions.append(Suggestion(loss, remedy.change, remedy.assumption, retimed.time_ps))
    return sorted(suggestions, key=lambda suggestion: suggestion.time_ps)[:count]


def _launched_once(result: Result) -> bool:
    """Return whether there is a single launch whose tasks all start at once, so that nothing can be gained there."""
    log, board = result.log, result.board
    return len(log.launches) == 1 and len(log.tasks) <= board.cores + board.clusters


def _lowest(result: Result, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values, with 1 instead of 0 where the board rejects 0."""

    def refused(name: str) -> bool:
        try:
            result.board.replace(**{name: 0})
        except MlusimError:
            return True
        return False

    return {name: 1 if value == 0 and refused(name) else value for name, value in values.items()}

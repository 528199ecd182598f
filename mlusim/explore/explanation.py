"""Explanation of one run: its losses above the lower bound, its most expensive lines, and suggested changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any, NamedTuple

from mlusim.analysis.lower_bound import LOSSES
from mlusim.explore.diff import shares, source_text
from mlusim.explore.suggestions import Suggestion
from mlusim.explore.suggestions import what_to_try as suggestions_of
from mlusim.results.result import Result
from mlusim.results.saved import as_result
from mlusim.source_code import source_name
from mlusim.units import format_us


class LineShare(NamedTuple):
    """A source line and its time, per core on average.

    Attributes:
        file, line, function: its location; empty and 0 for time outside operations.
        text: the line; empty if the source is unknown.
        time_ps: of all causes; the sum over lines is exactly the run's time.
        causes_ps: by cause; their sum is exactly `time_ps`.
    """

    file: str
    line: int
    function: str
    text: str
    time_ps: int
    causes_ps: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, repr=False)
class Explanation:
    """The explanation of a run's time.

    Attributes:
        result: the run.
        above_ps: its time minus its lower bound.
        losses_ps: that time by loss, per core on average; their sum is exactly `above_ps`.
        lines: by source line, the longest first.
        progress: whether `what_to_try` shows progress bars.
    """

    result: Result
    above_ps: int
    losses_ps: Mapping[str, int]
    lines: Sequence[LineShare]
    progress: bool = False

    @cached_property
    def what_to_try(self) -> Sequence[Suggestion]:
        """The changes with the largest predicted savings; retimes the run when it is first read."""
        return suggestions_of(self.result, progress=self.progress)

    def __repr__(self) -> str:
        text = f"{format_us(self.above_ps)} above the lower bound"
        if self.above_ps:
            text += f", most of it {LOSSES[self.result.lower_bound.largest_loss]}"
        return f"<explanation of {self.result.operator} on {self.result.board.name}: {text}>"

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as JSON types."""
        result = self.result
        return {
            "format": "mlusim-explain/1",
            "operator": result.operator,
            "strategy": result.strategy,
            "board": result.board.name,
            "time_ps": result.time_ps,
            "lower_bound_ps": result.lower_bound.time_ps,
            "io_efficiency": result.io_efficiency,
            "losses_ps": dict(self.losses_ps),
            "lines": [line._asdict() for line in self.lines],
            "what_to_try": [suggestion.to_json() for suggestion in self.what_to_try],
        }


def explain(run: Result | str | PathLike[str], *, progress: bool = False) -> Explanation:
    """Explain the time of a run, a result or a file that `Result.save` wrote; `progress` as in `what_to_try`."""
    result = as_result(run)
    cores = result.board.cores
    totals = {number: int(line.spent_ps.sum()) for number, line in enumerate(result.lines)}
    time_by_line = shares(totals, cores, result.time_ps)
    lines = [
        LineShare(
            source_name(line.file),
            line.line,
            line.function,
            source_text(result, line.file, line.line),
            time_by_line[number],
            shares(line.by_cause, cores, time_by_line[number]),
        )
        for number, line in enumerate(result.lines)
    ]
    above_ps = result.time_ps - result.lower_bound.time_ps
    return Explanation(
        result=result,
        above_ps=above_ps,
        losses_ps=shares(result.lower_bound.losses_ps, cores, above_ps),
        lines=sorted(lines, key=lambda line: -line.time_ps),
        progress=progress,
    )

"""Comparison of two runs: the difference of their times by cause and by source line, complete and exact."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from mlusim.analysis.breakdown import CAUSES
from mlusim.arrays import Integers
from mlusim.results.result import Result
from mlusim.results.saved import as_result
from mlusim.source_code import source_name
from mlusim.units import PS_PER_US, signed_us

OTHER = "no operation"
# Options of `mlusim run` that say what runs, and how `Difference.names` writes them before their value.
_OPTIONS = {"--set": "", "--arg": "", **{f"--{name}": f"{name} " for name in ("shape", "dtype", "dim", "kind", "seed")}}


class LineChange(NamedTuple):
    """A source line of both runs, matched by file, function and text.

    Attributes:
        file, function: its location; empty for time outside operations. `file` is that of the first run.
        text: the line; empty if the source is unknown.
        before, after: its line number in each run; 0: not in that run.
        time_ps: time of the second run minus that of the first, per core on average.
        file_after: the file of the second run, where it is another version of that of the first; else empty.
    """

    file: str
    function: str
    text: str
    before: int
    after: int
    time_ps: int
    file_after: str = ""

    @property
    def location(self) -> str:
        """The file and the line numbers as text, such as `add.py:7 > 9`; empty for time outside operations."""
        if not self.file:
            return ""
        if self.file_after:
            return f"{self.file}:{self.before or '-'} -> {self.file_after}:{self.after or '-'}"
        numbers = f"{self.before or '-'} -> {self.after or '-'}" if self.before != self.after else str(self.before)
        return f"{self.file}:{numbers}"


class MetricChange(NamedTuple):
    """A figure of both runs."""

    name: str
    before: float
    after: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Difference:
    """The difference between two runs.

    Attributes:
        before, after: the runs.
        time_ps: time of the second minus that of the first.
        causes_ps: by cause, per core on average, of the cores that work in either run; the sum is exactly `time_ps`.
        lines: by source line, the largest change first; the sum is exactly `time_ps`.
        metrics: figures with a value in either run.
    """

    before: Result
    after: Result
    time_ps: int
    causes_ps: Mapping[str, int]
    lines: Sequence[LineChange]
    metrics: Sequence[MetricChange]

    def __repr__(self) -> str:
        first, second = self.names
        return f"<difference of {first} and {second}: {signed_us(self.time_ps)} us>"

    @property
    def names(self) -> tuple[str, str]:
        """Descriptions of the runs: kernel, board, strategy, and the options that only this run's command has."""
        options = [_options(result) for result in (self.before, self.after)]
        first, second = (
            ", ".join(
                (
                    f"{result.operator} on {result.board.name}",
                    *filter(None, [result.strategy and f"strategy {result.strategy}"]),
                    *(word for word in options_here if word not in other),
                )
            )
            for result, options_here, other in zip((self.before, self.after), options, reversed(options), strict=True)
        )
        return first, second

    def to_json(self) -> dict[str, Any]:
        """Return the difference as JSON types."""
        return {
            "format": "mlusim-diff/1",
            "before": _run_json(self.before),
            "after": _run_json(self.after),
            "time_ps": self.time_ps,
            "causes_ps": dict(self.causes_ps),
            "lines": [line._asdict() for line in self.lines],
            "metrics": [metric._asdict() for metric in self.metrics],
        }


def _options(result: Result) -> list[str]:
    """Return the options of a run's command that say what runs."""
    arguments = shlex.split(result.made_by.get("command") or "")
    pairs = [word.partition("=")[::2] if word.startswith("--") and "=" in word else (word, "") for word in arguments]
    options = []
    for (option, value), (following, _) in pairwise([*pairs, ("", "")]):
        if option in _OPTIONS:
            options.append(f"{_OPTIONS[option]}{value or following}")
    return options


def diff(before: Result | str | PathLike[str], after: Result | str | PathLike[str]) -> Difference:
    """Compare two runs, of any kernels and boards: results, or files that `Result.save` wrote.

    Cores that have no work in both runs are left out of averages: their idle time changes by the whole difference,
    which would hide its causes.
    """
    before, after = as_result(before), as_result(after)
    spent = [_time_by_core(run) for run in (before, after)]
    max_working = max(working for _, working in spent)
    counted_cores = [
        max(working, min(max_working, run.board.cores))
        for run, (_, working) in zip((before, after), spent, strict=True)
    ]
    causes = [
        shares(dict(zip(CAUSES, by_core[:cores].sum(axis=0).tolist(), strict=True)), cores, run.time_ps)
        for run, (by_core, _), cores in zip((before, after), spent, counted_cores, strict=True)
    ]
    return Difference(
        before=before,
        after=after,
        time_ps=after.time_ps - before.time_ps,
        causes_ps={name: causes[1][name] - causes[0][name] for name in CAUSES},
        lines=_lines(_by_line(before, counted_cores[0]), _by_line(after, counted_cores[1])),
        metrics=_metrics(before, after),
    )


def _time_by_core(result: Result) -> tuple[Integers, int]:
    """Return (cores, causes) picoseconds, as `Metrics.core_causes_ps`, the cores that work first, and their number.

    A core works if it spends time on anything but `issue`, `launch` and `idle`.
    """
    by_core = result.metrics.core_causes_ps
    is_working = by_core[:, [name not in ("issue", "launch", "idle") for name in CAUSES]].any(axis=1)
    return by_core[np.argsort(~is_working, kind="stable")], max(int(is_working.sum()), 1)


def shares(core_ps: Mapping[Any, int], cores: int, total_ps: int) -> dict[Any, int]:
    """Convert core-picoseconds to whole picoseconds per core on average, whose sum is exactly `total_ps`."""
    floors = {name: total // cores for name, total in core_ps.items()}
    remainder = total_ps - sum(floors.values())
    # Round up the largest remainders.
    for name in sorted(core_ps, key=lambda name: -(core_ps[name] % cores))[:remainder]:
        floors[name] += 1
    return floors


def source_text(result: Result, file: str, line: int) -> str:
    """Return the text of a source line, its number if the source is unknown, or `OTHER` for line 0."""
    lines = result.sources.get(file, "").splitlines()
    if 0 < line <= len(lines):
        return lines[line - 1].strip()
    return f"line {line}" if line else OTHER


class _LineKey(NamedTuple):
    """What identifies a line in both runs; `repeat`: the number of equal lines before it."""

    file: str
    function: str
    text: str
    repeat: int


class _LineTotal(NamedTuple):
    """The number of a line in a run, and its time."""

    line: int
    time_ps: int


def _lines(old: dict[_LineKey, _LineTotal], new: dict[_LineKey, _LineTotal]) -> list[LineChange]:
    changes = []
    renamed = _renamed(old, new)
    file_after = {file: new_file for new_file, file in renamed.items()}
    new = {key._replace(file=renamed.get(key.file, key.file)): total for key, total in new.items()}
    for key in {**old, **new}:
        before, after = old.get(key, _LineTotal(0, 0)), new.get(key, _LineTotal(0, 0))
        changes.append(
            LineChange(
                key.file,
                key.function,
                key.text,
                before.line,
                after.line,
                after.time_ps - before.time_ps,
                file_after.get(key.file, ""),
            )
        )
    return sorted(changes, key=lambda change: (-abs(change.time_ps), change.file, change.before, change.after))


def _renamed(old: Iterable[_LineKey], new: Iterable[_LineKey]) -> dict[str, str]:
    """Return the file of the first run, by that of the second, where each has one that the other has not.

    They are two versions of a kernel, such as v1.py and v2.py, if they have a function in common.
    """
    functions = [{(key.file, key.function) for key in keys if key.file} for keys in (old, new)]
    old_files, new_files = ({file for file, _ in pairs} for pairs in functions)
    if len(old_files - new_files) != 1 or len(new_files - old_files) != 1:
        return {}
    (old_file,), (new_file,) = old_files - new_files, new_files - old_files
    is_version = any((new_file, function) in functions[1] for file, function in functions[0] if file == old_file)
    return {new_file: old_file} if is_version else {}


def _by_line(result: Result, cores: int) -> dict[_LineKey, _LineTotal]:
    """Return the lines of a run with their number and time; `cores`: how many are counted."""
    totals = {(line.file, line.line, line.function): int(line.spent_ps.sum()) for line in result.lines}
    if cores < result.board.cores and totals:  # a run without a launch has no lines
        # Cores without work have no time in a line.
        totals["", 0, ""] -= (result.board.cores - cores) * result.time_ps
    lines: dict[_LineKey, _LineTotal] = {}
    for (file, line, function), spent in sorted(shares(totals, cores, result.time_ps).items()):
        text = source_text(result, file, line)
        repeat = 0
        while (key := _LineKey(source_name(file), function, text, repeat)) in lines:
            repeat += 1
        lines[key] = _LineTotal(line, spent)
    return lines


def _metrics(before: Result, after: Result) -> list[MetricChange]:
    def figures(result: Result) -> dict[str, float]:
        metrics = result.metrics
        efficiencies = {
            "io_efficiency": metrics.io_efficiency,
            "compute_efficiency": metrics.compute_efficiency,
        }
        return {
            "time_us": result.time_us,
            "lower_bound_us": result.lower_bound.time_ps / PS_PER_US,
            **{name: share for name, share in efficiencies.items() if share is not None},
            **{f"bus_{name}_bytes": value for name, value in metrics.bus_bytes.items()},
            **{f"{name}_bytes": value for name, value in metrics.bytes_requested.items()},
            "peak_nram_bytes": metrics.peak_nram_bytes,
            "peak_sram_bytes": metrics.peak_sram_bytes,
            "tasks": len(result.log.tasks),
            **{f"operations: {name}": count for name, count in metrics.operations.items()},
        }

    old, new = figures(before), figures(after)
    pairs = (MetricChange(name, old.get(name, 0), new.get(name, 0)) for name in {**old, **new})
    return [pair for pair in pairs if pair.before or pair.after]


def _run_json(result: Result) -> dict[str, Any]:
    return {
        "operator": result.operator,
        "strategy": result.strategy,
        "board": result.board.name,
        "time_ps": result.time_ps,
    }

"""`mlusim.tune`: the fastest strategy and tiles for one shape on one board, by simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlusim.errors import InputError, MlusimError
from mlusim.explore.axes import Axes
from mlusim.explore.axis_arguments import axes_of, is_operator, operator_by_name
from mlusim.explore.point import Point, kernel_call, prepare_point
from mlusim.explore.point_commands import (
    kernel_command_line,
    kernel_name,
    kernel_python,
    operator_command_line,
    operator_python,
)
from mlusim.explore.python_files import check_not_loading
from mlusim.explore.runner import Runner
from mlusim.explore.store import DONE, Store
from mlusim.explore.sweeping import run_axes
from mlusim.explore.table_cells import MOST_ROWS, tuning_cells
from mlusim.explore.tuning_search import Refusal, Search
from mlusim.hardware import DEFAULT_BOARD, Board
from mlusim.inputs import check_flags
from mlusim.progress import Bar
from mlusim.units import format_us, percent, plural

if TYPE_CHECKING:
    from mlusim.results.result import Result

# Times within this ratio count as equal: the model is not more accurate than that.
NEAR = 1.02
_MIN_RATIO = 1.25


@dataclass(frozen=True, kw_only=True, repr=False)
class Tuning:
    """The result of `tune`.

    Attributes:
        operator, board: the operator tuned, and the board.
        rows: every plan that ran, the fastest first: columns as in a sweep, plus `slower` (time over the best, minus 1)
            and `why` it is slower, as text.
        refused: the settings that do not fit, or cannot run.
        repeats: settings that led to a plan tried before.
        at_lower_bound: whether the search ended early because nothing can be significantly faster.
        command, call: the command line and the Python call that run the best plan. A board that is neither a preset nor
            from a file is the file NAME.toml there, as `mlusim.hardware.toml_board.to_toml` writes it.
        axes: for a kernel: the settings with several values.
    """

    operator: str
    board: Board
    rows: list[dict[str, Any]]
    refused: list[Refusal]
    repeats: int
    at_lower_bound: bool
    command: str
    call: str
    axes: tuple[str, ...] = ()
    _best: Point

    @property
    def best(self) -> dict[str, Any]:
        """The row of the fastest plan."""
        return self.rows[0]

    @property
    def as_good(self) -> int:
        """Number of other plans within 2 % of the best, which the model cannot distinguish from it."""
        return sum(row["time_ps"] <= NEAR * self.best["time_ps"] for row in self.rows[1:])

    def run(self, *, data: bool = True, progress: bool = False) -> Result:
        """Run the best plan again on the same random inputs, for a complete result."""
        from mlusim.ops.call import run

        check_flags(data=data, progress=progress)
        point = replace(self._best, axes=replace(self._best.axes, data=data))
        if point.axes.kernel is not None:
            return kernel_call(point.payload()).run(point.board, data=data, progress=progress)
        return run(prepare_point(point), data=data, progress=progress)

    def __repr__(self) -> str:
        best = self.best
        settings = _settings(best, self.axes) if self.axes else str(best.get("plan_strategy", ""))
        return (
            f"<tuning of {self.operator} on {self.board.name}: best {settings or 'as it is'}, "
            f"{format_us(best['time_ps'])}, {plural(len(self.rows), 'run')}>"
        )

    def _repr_html_(self) -> str:
        from mlusim.analysis.notebook import table_html

        table = tuning_cells(self.rows[:MOST_ROWS], self.axes, full=False)
        rows_left = len(self.rows) - len(table.lines)
        note = f"... and {plural(rows_left, 'slower one')}; rows has all" if rows_left else ""
        return table_html(f"{self.operator} on {self.board.name}, the fastest first", table.heads, table.lines, note)

    def to_json(self) -> dict[str, Any]:
        """Return the tuning as JSON types."""
        return {
            "operator": self.operator,
            "board": self.board.name,
            "best": self.best,
            "runners_up": self.rows[1:],
            "refused": [refusal._asdict() for refusal in self.refused],
            "repeats": self.repeats,
            "at_lower_bound": self.at_lower_bound,
            "command": self.command,
            "python": self.call,
        }


def tune(
    operator: str | Callable[..., Any],
    *,
    shape: Any = None,
    arguments: Sequence[str] = (),
    dtype: Any = None,
    device: Any = DEFAULT_BOARD,
    strategy: Any = None,
    seed: int = 0,
    steady: bool = False,
    db: str | Path | None = None,
    workers: int | None = None,
    client: Any = None,
    progress: bool = False,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> Tuning:
    """Find the fastest strategy and tiles for one shape on one board, timing only; for a kernel, the fastest settings.

    Args:
        operator: its name, as in `mlusim run NAME`, or its function in `mlusim.ops`; or a kernel of your own, as in
            `sweep`.
        shape: the shape of the inputs, a single one.
        arguments: the arguments of a kernel, as in `sweep`.
        dtype: element type, a single one; for cast and bitcast_convert as in `sweep`.
        device: a single preset's name, TOML file or board.
        strategy: the strategies to try; by default all.
        seed: seed of the random inputs: shifts, lengths, indices.
        steady: as in `sweep`.
        db, workers, client, progress: as in `sweep`; a sweep's file may be used.
        options: attributes of the operator and of its random inputs, one value each. For a kernel: its settings, and
            `dim` and `kind` of its launch, each as a list of values to try; every combination runs.
        settings: settings of a kernel, even with the name of a parameter of `tune`.

    Returns the plans that ran, the fastest first, with the command and the call that run the best one.

    Raises `InputError` for several values where a single one is required, and if no plan fits; otherwise like `sweep`.
    """
    check_not_loading()
    check_flags(progress=progress)
    name = operator_by_name(operator)
    is_kernel = not is_operator(name)
    if strategy is None and not is_kernel:
        strategy = "all"
    axes = axes_of(
        name,
        shape=shape,
        dtype=dtype,
        device=device,
        strategy=strategy,
        seed=seed,
        steady=steady,
        options=options,
        settings=settings,
        arguments=arguments,
    )
    axes.count()
    if is_kernel:
        _check_single(axes, exempt=(*map(axes.column, axes.options), *axes.launch))
        return _tune_kernel(axes, name, device, db=db, workers=workers, client=client, progress=progress)
    _check_single(axes)
    with (
        Runner(workers, client) as runner,
        Store(db) as store,
        Bar("tuning", len(axes.strategies), shown=progress) as bar,
    ):
        search = Search(axes, store, runner, bar)
        search.run()
    return _tuning(search, device)


def _tune_kernel(axes: Axes, kernel: Any, device: Any, **execution: Any) -> Tuning:
    """Run every combination of a kernel's settings and launches, and sort them by time.

    execution: `db`, `workers`, `client` and `progress`, as in `sweep`.
    """
    sweep = run_axes(axes, **execution)
    points_and_rows = [
        (point, row)
        for point, row in zip(axes.points(), sweep.rows, strict=True)
        if isinstance(point, Point) and row["status"] == DONE
    ]
    if not points_and_rows:
        raise MlusimError(f"{axes.operator}: no setting can run: {sweep.rows[0]['message']}")
    best, rows = _fastest_first(points_and_rows)
    return Tuning(
        operator=axes.operator,
        board=best.board,
        rows=rows,
        refused=[
            Refusal(_settings(row, sweep.axes), None, row["message"]) for row in sweep.rows if row["status"] != DONE
        ],
        repeats=0,
        at_lower_bound=False,
        command=kernel_command_line(best, kernel_name(kernel), device),
        call=kernel_python(best, device),
        axes=tuple(sweep.axes),
        _best=best,
    )


def _settings(row: Mapping[str, Any], axes: Sequence[str]) -> str:
    return ", ".join(f"{axis} = {row.get(axis)}" for axis in axes)


def _fastest_first(points_and_rows: list[tuple[Point, dict[str, Any]]]) -> tuple[Point, list[dict[str, Any]]]:
    """Return the fastest point, and the rows of all, the fastest first, each with how much and why it is slower."""
    points_and_rows = sorted(points_and_rows, key=lambda item: item[1]["time_ps"])
    point, best = points_and_rows[0]
    rows = [
        {**row, "slower": _slower(row, best), "why": why_slower(row, best) if row is not best else ""}
        for _, row in points_and_rows
    ]
    return point, rows


def _check_single(axes: Axes, exempt: Sequence[str] = ("strategy",)) -> None:
    several = [axis for axis in axes.columns() if axis not in exempt]
    if several:
        raise InputError(f"{several[0]} has several values: tune takes one; sweep takes several")


def _tuning(search: Search, device: Any) -> Tuning:
    """Return the result. Raises `MlusimError` if nothing fits."""
    axes, board = search.axes, search.board
    if not search.tried:
        message = search.refused[0].message if search.refused else "no strategy"
        raise MlusimError(f"{axes.operator}: no plan can run on {board.name}: {message}")
    best, rows = _fastest_first(search.tried)
    return Tuning(
        operator=axes.operator,
        board=board,
        rows=rows,
        refused=search.refused,
        repeats=search.repeats,
        at_lower_bound=search.at_lower_bound,
        command=operator_command_line(best, device),
        call=operator_python(best, device),
        _best=best,
    )


def _slower(row: Mapping[str, Any], best: Mapping[str, Any]) -> float | None:
    """Return the time relative to the best, minus 1; None if the best takes no time."""
    if best["time_ps"]:
        return float(row["time_ps"] / best["time_ps"] - 1)
    return None if row["time_ps"] else 0.0


def why_slower(row: Mapping[str, Any], best: Mapping[str, Any]) -> str:
    """Explain why a run is slower than the best: the cause that grew most, and increased amounts."""
    from mlusim.analysis.breakdown import CAUSES

    if row["time_ps"] <= best["time_ps"]:
        return "as fast"
    if not best["time_ps"]:
        return "the best one launches nothing"
    grown = {cause: row[f"{cause}_us"] - best[f"{cause}_us"] for cause in CAUSES}
    cause = max(grown, key=lambda name: grown[name])
    share = row[f"{cause}_us"] / row["time_us"]
    reasons = [f"{CAUSES[cause]}: {grown[cause]:.2f} us more, {percent(share)} of its time"]
    for name, label in (("copies", "the copies"), ("traffic_ratio", "the bytes on the bus")):
        if best[name] and row[name] > _MIN_RATIO * best[name]:
            reasons.append(f"{row[name] / best[name]:.1f} x {label}")
    if row["tasks"] < best["tasks"]:
        reasons.append(f"{row['tasks']} tasks, not {best['tasks']}")
    return "; ".join(reasons)

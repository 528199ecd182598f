"""The points of a sweep: all combinations of the axes' values, each with its board and its key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

from mlusim.errors import BoardError, InputError
from mlusim.explore.kernel_call import without_folder
from mlusim.explore.point import USABLE_NRAM, Point, option_json
from mlusim.explore.point_figures import FIGURES, PLAN_FIGURES, STEADY_FIGURES
from mlusim.explore.store import IMPOSSIBLE, Outcome
from mlusim.explore.user_kernels import UserKernel
from mlusim.hardware import Board

# A larger sweep is most likely a mistake.
MAX_POINTS = 1_000_000

CORES = "cores"
# Columns of every table, but that of a strategy, which only operators have.
_COLUMNS = frozenset(
    {*FIGURES, *PLAN_FIGURES, *STEADY_FIGURES, CORES, USABLE_NRAM}
    | {"operator", "device", "arguments", "shape", "elements", "dtype", "nram_limit_bytes", "clusters"}
    | {"dram_bandwidth_bytes_per_s", "dim", "kind", "theory_ops", "status", "message"}
)


@dataclass(frozen=True, kw_only=True)
class Axes:
    """A sweep: its axes, each a list of values, and what all of its points have in common.

    Attributes:
        operator: its name, as in `mlusim run NAME`, or that of the user's function.
        kernel: the user's function, if any.
        arguments: its arguments, as in `KernelCall`.
        data: whether tensors have bytes.
        seed: seed of the random numbers.
        steady: extrapolate times by the steady state of launches.
        dtype_name: name of the element type's column.
        shapes: of the inputs; None if every input has an argument.
        dtypes: of the inputs.
        boards: the boards, without changes.
        board_changes: values of the board by column: `USABLE_NRAM`, `CORES`, and parameters by name; None: unchanged.
        strategies: None: the operator's default, or none for a user's function.
        nram_limits: as in `RunOptions`.
        options: attributes of the operator and of its random inputs; settings of a function.
        launch: `dim`, `kind` and `theory_ops` of a user's kernel, if given.
    """

    operator: str
    kernel: UserKernel | None = None
    arguments: tuple[str, ...] = ()
    data: bool = False
    seed: int = 0
    steady: bool = False
    dtype_name: str = "dtype"
    shapes: Sequence[tuple[int, ...] | None] = (None,)
    dtypes: Sequence[Any]
    boards: Sequence[Board] = ()
    board_changes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    strategies: Sequence[str | None] = (None,)
    nram_limits: Sequence[int | None] = (None,)
    options: Mapping[str, Sequence[Any]]
    launch: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def _lists(self) -> dict[str, Sequence[Any]]:
        return {
            "shape": self.shapes,
            self.dtype_name: self.dtypes,
            "device": self.boards,
            **self.board_changes,
            "strategy": self.strategies,
            "nram_limit_bytes": self.nram_limits,
            **{self.column(name): values for name, values in self.options.items()},
            **self.launch,
        }

    def column(self, option: str) -> str:
        """Return the column of an option: its name, or `set_NAME` for a setting with the name of another column."""
        is_ambiguous = self.kernel is not None and (
            option in _COLUMNS or option in self.board_changes or option.startswith("shape_")
        )
        return f"set_{option}" if is_ambiguous else option

    def columns(self) -> list[str]:
        """Return the axes with several values, as columns of the table."""
        columns = []
        for name, values in self._lists().items():
            if len(values) > 1:
                shapes = [shape or () for shape in self.shapes]
                if name == "shape" and len({len(shape) for shape in shapes}) == 1:
                    columns += [
                        f"shape_{axis}" for axis, extents in enumerate(zip(*shapes, strict=True)) if len({*extents}) > 1
                    ]
                else:
                    columns.append(name)
        return columns

    def count(self) -> int:
        """Return the number of points. Raises `InputError` for none, and for too many."""
        lists = self._lists()
        empty = [name for name, values in lists.items() if not values]
        if empty:
            raise InputError(f"nothing to sweep: {' and '.join(empty)} has no values; pass at least one")
        count = prod(len(values) for values in lists.values())
        if count > MAX_POINTS:
            sizes = " x ".join(f"{len(values)} of {name}" for name, values in lists.items() if len(values) > 1)
            raise InputError(f"{count} points ({sizes}): a sweep has at most {MAX_POINTS}; omit some values")
        return count

    def figures(self) -> list[str]:
        """Return the columns of a finished point's figures."""
        of_plan = ("tasks",) if self.kernel else PLAN_FIGURES
        return [*of_plan, "tensors", *FIGURES, *(STEADY_FIGURES if self.steady else ())]

    def points(self) -> Iterator[Point | Outcome]:
        """Yield every combination: a point, or its outcome if its board is invalid."""
        changes = _combinations(self.board_changes)
        for shape, dtype, base, changed in product(self.shapes, self.dtypes, self.boards, changes):
            columns = self._columns(shape, dtype, base, changed)
            try:
                board = changed_board(base, changed)
            except BoardError as error:
                for point in self._on_board(shape, dtype, base, columns):
                    yield Outcome(IMPOSSIBLE, str(error), dict(point.columns))
                continue
            on_board = {
                CORES: board.cores,
                "clusters": board.clusters,
                USABLE_NRAM: board.nram_usable_bytes,
                "dram_bandwidth_bytes_per_s": board.dram_bandwidth_bytes_per_s,
            }
            yield from self._on_board(shape, dtype, board, columns | on_board)

    def _on_board(
        self, shape: tuple[int, ...] | None, dtype: Any, board: Board, columns: dict[str, Any]
    ) -> Iterator[Point]:
        for strategy, limit, options, values in product(
            self.strategies, self.nram_limits, _combinations(self.options), _combinations(self.launch)
        ):
            launch = {name: value for name, value in values.items() if value is not None}
            planner_columns = {"strategy": strategy} if strategy is not None else {}
            planner_columns |= {"nram_limit_bytes": limit} if limit is not None else {}
            settings = {self.column(name): value for name, value in options.items()}
            setting_cells = {name: _cell(value) for name, value in settings.items() if value is not None}
            setting_cells |= {name: _cell(value) for name, value in launch.items()}
            yield Point(
                axes=self,
                shape=shape,
                dtype=dtype,
                board=board,
                strategy=strategy,
                nram_limit_bytes=limit,
                options=options,
                launch=launch,
                columns=columns | planner_columns | setting_cells,
            )

    def _columns(
        self, shape: tuple[int, ...] | None, dtype: Any, base: Board, changed: Mapping[str, Any]
    ) -> dict[str, Any]:
        columns: dict[str, Any] = {"operator": self.operator, "device": base.name}
        if self.arguments:
            columns["arguments"] = " ".join(without_folder(text) for text in self.arguments)
        if shape is not None:
            columns["shape"] = "x".join(map(str, shape))
            columns |= {f"shape_{axis}": extent for axis, extent in enumerate(shape)}
            columns |= {"elements": prod(shape), self.dtype_name: option_json(dtype)}
        return columns | {name: value for name, value in changed.items() if value is not None}


def _combinations(lists: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return every choice of a value for each name."""
    return [dict(zip(lists, values, strict=True)) for values in product(*lists.values())]


def _cell(value: Any) -> Any:
    """Return an option's value as a table cell."""
    value = option_json(value)
    return ",".join(map(str, value)) if isinstance(value, tuple) else value


def changed_board(base: Board, changes: Mapping[str, Any]) -> Board:
    """Return a board with the changes of a point, as in `Axes.board_changes`.

    Fewer cores are fewer clusters, or a part of one, as if a launch used only these while the rest of the chip is idle:
    they share the whole DRAM. More cores share the same DRAM. Raises `BoardError`.
    """
    values = {name: value for name, value in changes.items() if value is not None}
    if USABLE_NRAM in values:
        usable = values.pop(USABLE_NRAM)
        values["nram_bytes"] = usable + int(values.get("nram_reserved_bytes", base.nram_reserved_bytes))
    if CORES in values:
        cores = values.pop(CORES)
        per_cluster = base.cores_per_cluster
        if cores > per_cluster and cores % per_cluster:
            whole_cores = cores // per_cluster * per_cluster
            raise BoardError(
                f"{base.name}: {cores} cores are not whole clusters of {per_cluster}; use {whole_cores} or "
                f"{whole_cores + per_cluster}"
            )
        values |= {"clusters": max(cores // per_cluster, 1), "cores_per_cluster": min(cores, per_cluster)}
    return base.replace(**values) if values else base

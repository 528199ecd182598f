"""The points of a sweep: all combinations of the axes' values, each with its board and its key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from mlusim.errors import BoardError, InputError
from mlusim.explore.kernel_call import without_folder
from mlusim.explore.point import FIGURES, PLAN_FIGURES, Point, option_json
from mlusim.explore.store import IMPOSSIBLE, Outcome
from mlusim.explore.user_kernels import UserKernel
from mlusim.hardware import Board

# A larger sweep is most likely a mistake.
MAX_POINTS = 1_000_000

_COLUMN_OF_NRAM = "nram_usable_bytes"
# Columns of every table, but that of a strategy, which only operators have.
_COLUMNS = frozenset(
    {*FIGURES, *PLAN_FIGURES, "operator", "device", "arguments", "shape", "elements", "dtype", "nram_limit_bytes"}
    | {"cores", "clusters", "dram_bandwidth_bytes_per_s", "dim", "kind", "theory_ops", "status", "message"}
    | {_COLUMN_OF_NRAM, "extrapolated_us", "bound_us"}
)


@dataclass(frozen=True, kw_only=True)
class Axes:
    """The axes of a sweep, each a list of values.

    Attributes:
        operator: name.
        kernel: the user's function, if any.
        arguments: its arguments, as in `KernelCall`; the same for all points.
        shapes, dtypes, strategies, nram_limits, nram_sizes, core_counts: None in a list means the default of the board
            or operator.
        boards: the boards, without changes.
        vary: parameters of the board, by name.
        options: attributes of the operator and of its random inputs; settings of a function.
        launch: `dim`, `kind`.
        dtype_name: name of the element type's column.
        data, seed, steady: as in `Point`.
    """

    operator: str
    kernel: UserKernel | None = None
    arguments: tuple[str, ...] = ()
    shapes: Sequence[tuple[int, ...] | None]
    dtypes: Sequence[Any]
    boards: Sequence[Board]
    strategies: Sequence[str | None] = (None,)
    nram_limits: Sequence[int | None] = (None,)
    nram_sizes: Sequence[int | None] = (None,)
    core_counts: Sequence[int | None] = (None,)
    vary: Mapping[str, Sequence[Any]]
    options: Mapping[str, Sequence[Any]]
    launch: Mapping[str, Sequence[Any]]
    dtype_name: str = "dtype"
    data: bool = False
    seed: int = 0
    steady: bool = False

    def _lists(self) -> dict[str, Sequence[Any]]:
        return {
            "shape": self.shapes,
            self.dtype_name: self.dtypes,
            "device": self.boards,
            _COLUMN_OF_NRAM: self.nram_sizes,
            "cores": self.core_counts,
            **self.vary,
            "strategy": self.strategies,
            "nram_limit_bytes": self.nram_limits,
            **{self.column(name): values for name, values in self.options.items()},
            **self.launch,
        }

    def column(self, option: str) -> str:
        """Return the column of an option: its name, or `set_NAME` for a setting with the name of another column."""
        taken = self.kernel is not None and (option in _COLUMNS or option in self.vary or option.startswith("shape_"))
        return f"set_{option}" if taken else option

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

    def points(self) -> Iterator[Point | Outcome]:
        """Yield every combination: a point, or its outcome if its board is invalid."""
        names = list(self.vary)
        for shape, dtype, base in product(self.shapes, self.dtypes, self.boards):
            for nram, cores, *changes in product(self.nram_sizes, self.core_counts, *self.vary.values()):
                changed = dict(zip(names, changes, strict=True))
                columns = self._columns(shape, dtype, base, nram, cores, changed)
                try:
                    board = changed_board(base, nram, cores, changed)
                except BoardError as error:
                    for point in self._on_board(shape, dtype, base, nram, columns):
                        yield Outcome(IMPOSSIBLE, str(error), dict(point.columns))
                    continue
                on_board = {
                    "cores": board.cores,
                    "clusters": board.clusters,
                    _COLUMN_OF_NRAM: board.nram_usable_bytes,
                    "dram_bandwidth_bytes_per_s": board.dram_bandwidth_bytes_per_s,
                }
                yield from self._on_board(shape, dtype, board, nram, columns | on_board)

    def _on_board(
        self, shape: tuple[int, ...] | None, dtype: Any, board: Board, nram: int | None, columns: dict[str, Any]
    ) -> Iterator[Point]:
        option_sets = [dict(zip(self.options, values, strict=True)) for values in product(*self.options.values())]
        launches = [dict(zip(self.launch, values, strict=True)) for values in product(*self.launch.values())]
        for strategy, limit, options, launch in product(self.strategies, self.nram_limits, option_sets, launches):
            more = {"strategy": strategy} if strategy is not None else {}
            more |= {"nram_limit_bytes": limit} if limit is not None else {}
            own = {self.column(name): value for name, value in options.items()}
            shown = {name: _cell(value) for name, value in {**own, **launch}.items() if value is not None}
            yield Point(
                operator=self.operator,
                kernel=self.kernel,
                arguments=self.arguments,
                shape=shape,
                dtype=dtype,
                board=board,
                strategy=strategy,
                nram_limit_bytes=limit,
                options=options,
                launch=launch,
                data=self.data,
                seed=self.seed,
                steady=self.steady,
                columns=columns | more | shown,
                nram_is_swept=nram is not None,
            )

    def _columns(
        self,
        shape: tuple[int, ...] | None,
        dtype: Any,
        base: Board,
        nram: int | None,
        cores: int | None,
        changed: Mapping[str, Any],
    ) -> dict[str, Any]:
        columns: dict[str, Any] = {"operator": self.operator, "device": base.name}
        if self.arguments:
            columns["arguments"] = " ".join(without_folder(text) for text in self.arguments)
        if shape is not None:
            columns["shape"] = "x".join(map(str, shape))
            columns |= {f"shape_{axis}": extent for axis, extent in enumerate(shape)}
            columns |= {"elements": prod(shape), self.dtype_name: option_json(dtype)}
        if nram is not None:
            columns[_COLUMN_OF_NRAM] = nram
        if cores is not None:
            columns["cores"] = cores
        return columns | dict(changed)


def _cell(value: Any) -> Any:
    """Return an option's value as a table cell."""
    value = option_json(value)
    return ",".join(map(str, value)) if isinstance(value, tuple) else value


def changed_board(base: Board, nram_usable_bytes: int | None, cores: int | None, changes: Mapping[str, Any]) -> Board:
    """Return a board with another usable NRAM size, number of cores, and other parameters.

    Fewer cores are fewer clusters, or a part of one, as if a launch used only these while the rest of the chip is idle:
    they share the whole DRAM. More cores share the same DRAM. Raises `BoardError`.
    """
    values = dict(changes)
    if nram_usable_bytes is not None:
        values["nram_bytes"] = nram_usable_bytes + int(values.get("nram_reserved_bytes", base.nram_reserved_bytes))
    if cores is not None:
        per_cluster = base.cores_per_cluster
        if cores > per_cluster and cores % per_cluster:
            whole = cores // per_cluster * per_cluster
            raise BoardError(
                f"{base.name}: {cores} cores are not whole clusters of {per_cluster}; use {whole} or "
                f"{whole + per_cluster}"
            )
        values |= {"clusters": max(cores // per_cluster, 1), "cores_per_cluster": min(cores, per_cluster)}
    return base.replace(**values) if values else base

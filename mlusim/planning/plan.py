"""`Plan`: a split as data: which task writes which box of the output, in which order, in how much NRAM, and why.

Planners create plans, kernels follow them, and other code prints, draws, checks or compares them. A *unit* is the
amount of data that one core would ideally process at once. Tier 1: tiles are whole units. Tier 2: a unit is cut into
several tiles. Tier 3: a row is cut into chunks, or a gather or scatter accesses GDRAM for each lookup.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.tasks.launch_checks import as_grid
from mlusim.dtypes import dtype_of
from mlusim.errors import PlanError, shown
from mlusim.hardware import DEFAULT_BOARD, Board, board
from mlusim.inputs import as_count, as_shape, as_text, check_flags, check_is
from mlusim.planning import plan_text
from mlusim.planning.tiles import Tile, Tiles, check_cover
from mlusim.units import format_bytes, plural

Parameters = TypeVar("Parameters")
_AXES = 3


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The split of one operator for one shape on one board.

    Attributes:
        operator, strategy: names; users may choose the strategy.
        board: the board.
        tier: 1 whole units, 2 unit split, 3 row split, 0 nothing to do.
        reason: why this tier, with the predicted times of the alternatives where time decides.
        arithmetic: the calculation behind the split, as lines of text.
        unit, unit_bytes: description and size of a unit.
        kind, dim: task type and grid of the launch.
        output_shape, itemsize: shape and element size of the tensor that the tiles cover.
        tiles: the boxes that each task writes.
        nram_bytes: NRAM that a core allocates.
        parameters: parameters of the kernel besides the tiles: a record of the operator or, in user-defined plans, a
            mapping.
        predicted_ps: time predicted by the board's cost functions, if the planner predicts one.
        nram_limit_bytes: NRAM per core that the planner was allowed to use, if less than all usable NRAM.
    """

    operator: str
    strategy: str
    board: Board
    tier: int
    reason: str
    arithmetic: tuple[str, ...]
    unit: str
    unit_bytes: int
    kind: str
    dim: tuple[int, int, int]
    output_shape: tuple[int, ...]
    itemsize: int
    tiles: Tiles
    nram_bytes: int
    parameters: Any = field(default_factory=dict)
    predicted_ps: int | None = None
    nram_limit_bytes: int | None = None

    @classmethod
    def from_tiles(
        cls,
        tiles: Tiles,
        shape: Sequence[int],
        dtype: object = "float32",
        *,
        device: str | Path | Board = DEFAULT_BOARD,
        name: str = "kernel",
        strategy: str = "own",
        tier: int = 1,
        reason: str = "",
        kind: str = "UNION1",
        dim: tuple[int, ...] | int | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> Plan:
        """Create a user-defined plan from its tiles and the shape that they cover.

        Args:
            tiles: the boxes that each task writes, and their NRAM.
            shape, dtype: of the output.
            device: a preset's name, a TOML file, or a board.
            name, strategy, tier, reason: descriptions for `explain` and messages.
            kind, dim: of the launch, as in `Device.launch`; by default one task per core.
            parameters: parameters of the kernel besides the tiles.

        The tiles are not checked here: see `check` and `mlusim.verify`. Raises `PlanError` for anything but `Tiles`,
        and for a grid of other than one to three integers above 0; `InputError` for a shape of other than integers.
        """
        if not isinstance(tiles, Tiles):
            raise PlanError(f"tiles={shown(tiles)} are not tiles: pass mlusim.Tiles(task, start, stop, nram_bytes)")
        for label, text in {"name": name, "strategy": strategy, "reason": reason, "kind": kind}.items():
            as_text(f"the {label} of the plan", text)
        check_is(
            "the parameters of the plan", {} if parameters is None else parameters, Mapping, "pass names and values"
        )
        target = board(device)
        itemsize = dtype_of(dtype).itemsize
        largest = int(np.argmax(tiles.elements())) if len(tiles) else -1
        extents = (tiles.stop[largest] - tiles.start[largest]).tolist() if len(tiles) else [0]
        return cls(
            operator=name,
            strategy=strategy,
            board=target,
            tier=as_count("the tier of the plan", tier),
            reason=reason or "a plan made from tiles",
            arithmetic=(),
            unit=f"the largest tile, {' x '.join(map(str, extents))} elements of {itemsize} B",
            unit_bytes=math.prod(extents) * itemsize,
            kind=kind,
            dim=(target.cores_per_cluster, target.clusters, 1) if dim is None else _grid(dim),
            output_shape=as_shape("the output of the plan", shape),
            itemsize=itemsize,
            tiles=tiles,
            nram_bytes=int(tiles.nram_bytes.max()) if len(tiles) else 0,
            parameters=parameters or {},
        )

    def __repr__(self) -> str:
        summary = f"strategy {self.strategy}, tier {self.tier}, {plural(len(self.tiles), 'tile')}"
        return f"<plan of {self.operator} on {self.board.name}: {summary}>"

    def parameters_as(self, kind: type[Parameters]) -> Parameters:
        """Return the parameters as the type that a kernel expects. Raises `PlanError` for those of another kernel."""
        check_is("parameters_as: kind", kind, type, "pass the class of the parameters that the kernel expects")
        if not isinstance(self.parameters, kind):
            raise PlanError(
                f"a plan of {self.operator} has {type(self.parameters).__name__}, and this kernel needs "
                f"{kind.__name__}: pass a plan of its own operator"
            )
        return self.parameters

    @property
    def named_parameters(self) -> dict[str, Any]:
        """The parameters as a dict."""
        if isinstance(self.parameters, Mapping):
            return dict(self.parameters)
        return {item.name: getattr(self.parameters, item.name) for item in fields(self.parameters)}

    @property
    def rewrites(self) -> bool:
        """Whether the kernel writes parts of the output more than once, on purpose."""
        return bool(self.named_parameters.get("rewrites"))

    @property
    def allowed_nram_bytes(self) -> int:
        """NRAM per core that the plan may use: the limit, or all usable NRAM of the board."""
        return self.board.nram_usable_bytes if self.nram_limit_bytes is None else self.nram_limit_bytes

    @property
    def tasks(self) -> int:
        """Number of tasks of the launch."""
        return self.dim[0] * self.dim[1] * self.dim[2]

    def tiles_of(self, task: int) -> Iterator[Tile]:
        """Return the tiles of one task, in order. Kernels iterate over them."""
        return self.tiles.of_task(task)

    def elements_by_task(self) -> Integers:
        """By task, return the number of elements that it writes. Raises `PlanError` for a task not in the grid."""
        self._check_tasks()
        return np.bincount(self.tiles.task, self.tiles.elements(), minlength=self.tasks).astype(np.int64)

    def check(self) -> None:
        """Check the split without running it.

        Raises `PlanError` if tiles exceed the output, overlap, leave gaps, or do not fit in NRAM. Plans of tier 0 have
        no tiles: the output has no elements, or is a view of the input.
        """
        if not self.tier and not len(self.tiles):
            return
        if len(self.tiles) and int(self.tiles.nram_bytes.max()) > self.allowed_nram_bytes:
            owner = f"{self.board.name} has" if self.nram_limit_bytes is None else "its limit is"
            raise PlanError(
                f"{self.operator}, strategy {self.strategy}: a tile needs "
                f"{format_bytes(int(self.tiles.nram_bytes.max()))} of NRAM and {owner} "
                f"{format_bytes(self.allowed_nram_bytes)}; make the tiles smaller"
            )
        self._check_tasks()
        check_cover(self.tiles, self.output_shape)

    def _check_tasks(self) -> None:
        for task in (int(self.tiles.task.min()), int(self.tiles.task.max())) if len(self.tiles) else ():
            if not 0 <= task < self.tasks:
                raise PlanError(
                    f"{self.operator}: a tile is assigned to task {task}, and the grid has tasks 0 to "
                    f"{self.tasks - 1}; assign it to one of these, or change dim"
                )

    def to_json(self, *, boxes: bool = True) -> dict[str, Any]:
        """Return the plan as JSON types; the unit of a number is the suffix of its key. `boxes`: include every tile."""
        check_flags(boxes=boxes)
        return plan_text.to_json(self, boxes=boxes)

    def explain(self) -> str:
        """Describe the plan: unit, tier, arithmetic, launch, tiles per task, balance."""
        return plan_text.explain(self)


def _grid(dim: Any) -> tuple[int, int, int]:
    """Return a grid with three axes. Raises `PlanError` for anything but one to three integers above 0."""
    grid = as_grid(dim)
    if len(grid) != _AXES or not all(isinstance(extent, int) and extent > 0 for extent in grid):
        raise PlanError(f"dim={shown(dim)} is not a grid: pass one to three integers above 0, such as (4, 8, 1)")
    return grid


def empty_plan(
    *,
    operator: str,
    strategy: str,
    board: Board,
    shape: tuple[int, ...],
    itemsize: int,
    reason: str = "the output has no elements, so nothing is launched",
    arithmetic: tuple[str, ...] = (),
    unit: str = "the tensor",
    unit_bytes: int = 0,
    parameters: Any = None,
) -> Plan:
    """Return the plan of a call that launches nothing: tier 0, no tiles.

    `shape` is that of the output as covered by the planner's tiles; the other arguments are fields of `Plan`.
    """
    rank = len(shape)
    return Plan(
        operator=operator,
        strategy=strategy,
        board=board,
        tier=0,
        reason=reason,
        arithmetic=arithmetic,
        unit=unit,
        unit_bytes=unit_bytes,
        kind="BLOCK",
        dim=(1, 1, 1),
        output_shape=shape,
        itemsize=itemsize,
        tiles=Tiles([], np.empty((0, rank)), np.empty((0, rank)), 0),
        nram_bytes=0,
        parameters={} if parameters is None else parameters,
        predicted_ps=0,
    )

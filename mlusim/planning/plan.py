"""`Plan`: a split as data. It says which task writes which box of the output, when, in how much NRAM, and why.

Planners make it, kernels follow it, and everyone else prints, draws, proves or compares it. A *unit* is what one core
would best hold at once. Three tiers, for all operators: whole units; a unit cut along its outer axis; a row cut in
chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mlusim.dtypes import dtype_of
from mlusim.errors import PlanError
from mlusim.hardware import Board, board
from mlusim.planning import plan_text
from mlusim.planning.tiles import Integers, Tile, Tiles, check_cover
from mlusim.units import format_bytes

Parameters = TypeVar("Parameters")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The split of one operator on one shape and one board.

    Attributes:
        operator, strategy: names; strategy is what the user may choose.
        board: the board's record.
        tier: 1 whole units, 2 unit split, 3 row split, 0 nothing to do.
        reason: why this tier (and, where times decide, the predicted times of the others).
        arithmetic: lines of numbers that lead to it.
        unit, unit_bytes: what one core would best hold at once.
        kind, dim: task type and grid of the launch.
        output_shape, itemsize: of the tensor that the tiles cover.
        tiles: who writes what.
        nram_bytes: NRAM that a core allocates.
        parameters: what the kernel needs in addition to the tiles: a record of its operator's own, or, in a plan
            of your own, a mapping.
        predicted_ps: estimate by the board's cost functions, where the planner made one.
        nram_limit_bytes: the most NRAM of a core that the planner was allowed, where that is not all usable of it.
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
    def from_tiles(  # noqa: PLR0913 - all but the first two have defaults
        cls,
        tiles: Tiles,
        shape: Sequence[int],
        dtype: object = "float32",
        *,
        device: str | Path | Board = "mlu370-x4",
        name: str = "kernel",
        strategy: str = "own",
        tier: int = 1,
        reason: str = "",
        kind: str = "UNION1",
        dim: tuple[int, int, int] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> Plan:
        """A plan of your own, from its tiles and what they cover.

        Args:
            tiles: who writes what, in how much NRAM.
            shape, dtype: of the output.
            device: a preset's name, a TOML file, or a board.
            name, strategy, tier, reason: what `explain` and messages say of it.
            kind, dim: of the launch; by default a task for every core.
            parameters: what the kernel needs in addition.

        Nothing is proved here: `check` does that, and `mlusim.verify` does both.
        """
        on = board(device)
        itemsize = dtype_of(dtype).itemsize
        largest = int(np.argmax(tiles.elements())) if len(tiles) else -1
        extents = (tiles.stop[largest] - tiles.start[largest]).tolist() if len(tiles) else [0]
        return cls(
            operator=name,
            strategy=strategy,
            board=on,
            tier=tier,
            reason=reason or "as its planner says",
            arithmetic=(),
            unit=f"the largest tile, {' x '.join(map(str, extents))} elements of {itemsize} B",
            unit_bytes=int(np.prod(extents)) * itemsize,
            kind=kind,
            dim=(on.cores_per_cluster, on.clusters, 1) if dim is None else dim,
            output_shape=tuple(int(extent) for extent in shape),
            itemsize=itemsize,
            tiles=tiles,
            nram_bytes=int(tiles.nram_bytes.max()) if len(tiles) else 0,
            parameters=parameters or {},
        )

    def __repr__(self) -> str:
        how = f"strategy {self.strategy}, tier {self.tier}, {len(self.tiles)} tile{'s' * (len(self.tiles) != 1)}"
        return f"<plan of {self.operator} on {self.board.name}: {how}>"

    def parameters_as(self, kind: type[Parameters]) -> Parameters:
        """The parameters, of the type that a kernel takes. Raises `PlanError` where they are another kernel's."""
        if not isinstance(self.parameters, kind):
            raise PlanError(
                f"a plan of {self.operator} has {type(self.parameters).__name__}, and this kernel takes "
                f"{kind.__name__}: give it a plan of its own operator"
            )
        return self.parameters

    @property
    def named_parameters(self) -> dict[str, Any]:
        """The parameters by name."""
        if isinstance(self.parameters, Mapping):
            return dict(self.parameters)
        return {item.name: getattr(self.parameters, item.name) for item in fields(self.parameters)}

    @property
    def rewrites(self) -> bool:
        """Whether the kernel writes parts of the output again, by intent."""
        return bool(self.named_parameters.get("rewrites"))

    @property
    def allowed_nram_bytes(self) -> int:
        """NRAM of a core that the plan may use: the limit, or all that is usable on the board."""
        return self.board.nram_usable_bytes if self.nram_limit_bytes is None else self.nram_limit_bytes

    @property
    def tasks(self) -> int:
        """Tasks of the launch."""
        return self.dim[0] * self.dim[1] * self.dim[2]

    def tiles_of(self, task: int) -> Iterator[Tile]:
        """The tiles of one task, in order: what a kernel iterates over."""
        return self.tiles.of_task(task)

    def elements_by_task(self) -> Integers:
        """(tasks,) output elements that each task writes."""
        return np.bincount(self.tiles.task, self.tiles.elements(), minlength=self.tasks).astype(np.int64)

    def check(self) -> None:
        """Prove the split before anything runs.

        Raises `PlanError` where tiles leave the output, overlap, miss a part of it, or do not fit in NRAM. In tier 0
        there are no tiles: the output has no elements, or is a view of the input.
        """
        if not self.tier and not len(self.tiles):
            return
        if len(self.tiles) and int(self.tiles.nram_bytes.max()) > self.allowed_nram_bytes:
            whose = f"{self.board.name} has" if self.nram_limit_bytes is None else "its limit is"
            raise PlanError(
                f"{self.operator}, strategy {self.strategy}: a tile takes "
                f"{format_bytes(int(self.tiles.nram_bytes.max()))} of NRAM and {whose} "
                f"{format_bytes(self.allowed_nram_bytes)}"
            )
        for task in (int(self.tiles.task.min()), int(self.tiles.task.max())) if len(self.tiles) else ():
            if not 0 <= task < self.tasks:
                raise PlanError(
                    f"{self.operator}: a tile of task {task} in a grid of {self.tasks}, 0 to {self.tasks - 1}"
                )
        check_cover(self.tiles, self.output_shape)

    def to_json(self, *, boxes: bool = True) -> dict[str, Any]:
        """The plan for programs: numbers in the unit that ends their key. `boxes`: with every tile."""
        return plan_text.to_json(self, boxes=boxes)

    def explain(self) -> str:
        """The plan in words: unit, tier, arithmetic, launch, tiles per task, balance."""
        return plan_text.explain(self)


def empty_plan(  # noqa: PLR0913 - all but the first five have defaults
    *,
    operator: str,
    strategy: str,
    board: Board,
    shape: tuple[int, ...],
    itemsize: int,
    reason: str = "the output has no elements and nothing is launched",
    arithmetic: tuple[str, ...] = (),
    unit: str = "the tensor",
    unit_bytes: int = 0,
    parameters: Any = None,
) -> Plan:
    """The plan of a call that launches nothing: tier 0, no tiles.

    shape: of the output, as the planner's tiles would cover it.
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

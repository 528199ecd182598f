"""The common part of the planners of gather and scatter: the request, the candidates, and the choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlusim.errors import PlanError
from mlusim.hardware import Board
from mlusim.planning.box_sizes import ROUNDS, Extents
from mlusim.planning.index_arithmetic import IndexArithmetic
from mlusim.planning.lookup_geometry import Lookups
from mlusim.planning.plan import Plan, empty_plan
from mlusim.planning.search import Candidate, best_by_strategy, predicted_text, tile_counts_below
from mlusim.planning.split import MORE_NRAM, buffer_bytes, union1_launch
from mlusim.planning.tiles import Tiles
from mlusim.units import ceil_div, group_digits, round_up

_WIDE = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupProblem:
    """A gather or scatter to plan.

    Attributes:
        board: the board.
        lookups: the geometry.
        itemsize, index_itemsize: bytes of an element of x, of an index value.
        strategy, operator: names.
        repeats: whether the index is constant along the axes that it shares with x (`Lookups.batch_dims`).
    """

    board: Board
    lookups: Lookups
    itemsize: int
    index_itemsize: int
    strategy: str
    operator: str
    repeats: bool = False

    def arithmetic(self, *, positional: bool, narrowed: int = 0) -> IndexArithmetic:
        """Return the address arithmetic on the index."""
        # Row numbers, and the extents added to negative values, may need more than 32 bits.
        needs_64_bits = math.prod(self.lookups.x_shape) >= _WIDE
        return IndexArithmetic(
            columns=self.lookups.columns, positional=positional, narrowed=narrowed, wide=needs_64_bits
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupParameters:
    """Parameters of every gather and scatter kernel besides the tiles.

    Attributes:
        lookups: the geometry.
        strategy: of the plan, or "none" if nothing is launched.
        arithmetic: the address arithmetic of a core; None if there are no lookups.
        method: the method of copying rows within NRAM; empty if not used.
    """

    lookups: Lookups
    strategy: str
    arithmetic: IndexArithmetic | None = None
    method: str = ""

    @property
    def index_arithmetic(self) -> IndexArithmetic:
        """The address arithmetic; raises `PlanError` if the plan has no lookups."""
        if self.arithmetic is None:
            raise PlanError(f"strategy {self.strategy}: a plan without lookups has no address arithmetic")
        return self.arithmetic


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupSplit:
    """The split of a gather or scatter plan.

    Attributes:
        tier: tier of the plan.
        sizes: extents of a tile along each axis that the tiles cover.
        nram_bytes: NRAM that a core allocates.
        order: loop order over the tiles of a gather, outermost axis first.
        details: returns the arithmetic behind the split as text.
        parameters: parameters of the kernel.
        sorts: whether a scatter sorts its updates in a launch of their own.
    """

    tier: int
    sizes: Extents
    nram_bytes: int
    order: Extents = ()
    details: Callable[[], tuple[str, ...]]
    parameters: LookupParameters
    sorts: bool = False


LookupCandidate = Candidate[LookupSplit]


def check_room(problem: LookupProblem) -> None:
    """Raise `PlanError` if not one element fits in NRAM."""
    if buffer_bytes(problem.board) < problem.itemsize:
        raise _no_room(problem)


def _no_room(problem: LookupProblem, *, rows_fit: bool = False) -> PlanError:
    """Return the error of a plan that does not fit in NRAM; `rows_fit`: strategy "rows" does."""
    board = problem.board
    nram_text = (
        f"in the {group_digits(board.nram_usable_bytes)} B of usable NRAM of {board.name}, where each buffer is "
        f"rounded up to {board.vector_alignment_bytes} B"
    )
    smallest = group_digits(problem.lookups.slab_elements * problem.itemsize)
    return PlanError(
        f"{problem.operator}, strategy {problem.strategy}: "
        + (
            f"the {smallest} B of x that an index can address and one lookup do not fit {nram_text}; choose strategy "
            "'rows' or 'auto'"
            if rows_fit
            else f"the buffers of one lookup of {group_digits(problem.itemsize)} B do not fit {nram_text}; {MORE_NRAM}"
        )
    )


def choose(problem: LookupProblem, candidates: Sequence[LookupCandidate]) -> tuple[LookupCandidate, str]:
    """Choose the fastest candidate that the strategy allows, with a reason that compares the others' times."""
    fastest = best_by_strategy(candidates)
    # Without lookups x is copied, whatever the strategy.
    eligible = (
        candidate
        for candidate in fastest.values()
        if problem.strategy in ("auto", candidate.strategy) or not problem.lookups.columns
    )
    candidate = next(eligible, None)
    if candidate is None:
        raise _no_room(problem, rows_fit=problem.strategy == "slab" and bool(candidates))
    if not problem.lookups.columns:
        return candidate, "an index without columns selects all of x, which is copied"
    tier_text = {
        1: "a whole unit fits in NRAM",
        2: "a unit is cut into tiles",
        3: "each lookup accesses GDRAM",
    }[candidate.split.tier]
    if candidate.split.sorts:
        tier_text = f"updates are sorted by region, and {tier_text}"
    requested = "" if problem.strategy == "auto" else ", as requested"
    reason = f"{candidate.strategy}{requested}: {tier_text}"
    if len(fastest) == 1 and candidate.strategy == "rows":
        slab, usable = problem.lookups.slab_elements * problem.itemsize, problem.board.nram_usable_bytes
        reason += f"; slab does not fit: {group_digits(slab)} B in {group_digits(usable)} B"
    return candidate, f"{reason}; {predicted_text(fastest)}"


def plan_of(
    problem: LookupProblem,
    candidate: LookupCandidate,
    reason: str,
    *,
    shape: Extents,
    parts: int,
    tiles: Tiles,
    tiles_text: tuple[str, ...] = (),
    parameters: LookupParameters,
) -> Plan:
    """Return the plan of the candidate that was chosen for `reason`.

    Args:
        problem: the gather or scatter.
        candidate, reason: the result of `choose`.
        shape: shape of the output, which the tiles cover.
        parts: number of parts that are divided among the tasks; no more clusters are used than they occupy.
        tiles, tiles_text: the tiles, and a description of them.
        parameters: parameters of the kernel.
    """
    split = candidate.split
    kind, dim = union1_launch(problem.board, parts)
    return Plan(
        operator=problem.operator,
        strategy=candidate.strategy,
        board=problem.board,
        tier=split.tier,
        reason=reason,
        arithmetic=(*split.details(), *tiles_text),
        unit=unit_text(problem.lookups),
        unit_bytes=unit_elements(problem.lookups) * problem.itemsize,
        kind=kind,
        dim=dim,
        output_shape=shape,
        itemsize=problem.itemsize,
        tiles=tiles,
        nram_bytes=split.nram_bytes,
        parameters=parameters,
        predicted_ps=candidate.predicted_ps,
    )


def nothing_to_do(problem: LookupProblem, shape: Extents) -> Plan:
    """Return the plan of a gather or scatter whose output has no elements."""
    return empty_plan(
        operator=problem.operator,
        strategy=problem.strategy,
        board=problem.board,
        shape=shape,
        itemsize=problem.itemsize,
        unit=unit_text(problem.lookups),
        reason=f"the output {list(shape)} has no elements, so nothing is launched",
        parameters=LookupParameters(lookups=problem.lookups, strategy="none"),
    )


def leading(lookups: Lookups) -> Extents:
    """Return the shared axes of x before all indexed axes: each of their coordinates has a contiguous slab."""
    return tuple(range(min(lookups.axes))) if lookups.axes else ()


def unit_elements(lookups: Lookups) -> int:
    """Return the elements of x spanned by one coordinate of the leading shared axes."""
    first = len(leading(lookups))
    return math.prod(lookups.slab_of((0,) * len(lookups.value_shape), lookups.value_shape)[1][first:])


def unit_text(lookups: Lookups) -> str:
    """Describe a unit."""
    first = len(leading(lookups))
    return (
        f"the part of x {list(lookups.x_shape)} that an index can address: axes {first} to {len(lookups.x_shape) - 1}"
    )


def counts_to_hold(coordinates: int, capacities: Sequence[int], cores: int) -> list[int]:
    """Return tile sizes to try, in coordinates: the largest that fit, and those that spread over the cores.

    Args:
        coordinates: total number of coordinates.
        capacities: the capacity by several measures; a capacity of 0 still tries one coordinate.
        cores: number of cores.
    """
    limits = {min(max(limit, 1), coordinates) for limit in capacities}
    largest = max(limits)
    evenly = {ceil_div(coordinates, cores * rounds) for rounds in ROUNDS}
    evenly |= {ceil_div(coordinates, count) for count in tile_counts_below(cores)}
    # Equal tiles for the number of rounds that the limit implies.
    evenly |= {ceil_div(coordinates, ceil_div(ceil_div(coordinates, limit), cores) * cores) for limit in limits}
    return sorted(limits | {size for size in evenly if size <= largest})


def nram_bytes(board: Board, buffers: Sequence[int]) -> int:
    """Return the NRAM that buffers of these sizes need, each rounded up to the alignment of allocations."""
    return sum(round_up(max(buffer, 1), board.vector_alignment_bytes) for buffer in buffers)

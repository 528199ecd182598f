"""The common part of the planners of gather and scatter: the job, the candidates, and the choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlusim.errors import PlanError
from mlusim.hardware import Board
from mlusim.planning.index_arithmetic import IndexArithmetic
from mlusim.planning.lookup_geometry import ROUNDS, Extents, Lookups
from mlusim.planning.pivot import FEW
from mlusim.planning.plan import Plan, empty_plan
from mlusim.planning.search import Candidate, best_by_strategy
from mlusim.planning.split import MORE_NRAM
from mlusim.units import PS_PER_US, ceil_div, group_digits, round_up

_WIDE = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job of a planner of gather or scatter.

    Attributes:
        board: the board's record.
        lookups: the geometry.
        itemsize, index_itemsize: bytes of an element of x, of an index value.
        strategy, operator: names.
        repeats: whether the index is the same at every place of the axes that it shares with x (`Lookups.batch_dims`).
    """

    board: Board
    lookups: Lookups
    itemsize: int
    index_itemsize: int
    strategy: str
    operator: str
    repeats: bool = False

    def arithmetic(self, *, positional: bool, narrowed: int = 0) -> IndexArithmetic:
        """The address arithmetic on the index."""
        # Row numbers, and the extents that negative values wrap by, may need more than 32 bits.
        wide = math.prod(self.lookups.x_shape) >= _WIDE
        return IndexArithmetic(columns=self.lookups.columns, positional=positional, narrowed=narrowed, wide=wide)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupParameters:
    """What every kernel of gather and scatter needs in addition to the tiles.

    Attributes:
        lookups: the geometry.
        strategy: of the plan, or "none" where nothing is launched.
        arithmetic: what a core makes of the index; None where it looks nothing up.
        method: how rows are copied within NRAM; empty where they are not.
    """

    lookups: Lookups
    strategy: str
    arithmetic: IndexArithmetic | None = None
    method: str = ""

    @property
    def index_arithmetic(self) -> IndexArithmetic:
        """The address arithmetic of a kernel that looks something up."""
        if self.arithmetic is None:
            raise PlanError(f"strategy {self.strategy}: a plan without lookups has no address arithmetic")
        return self.arithmetic


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupSplit:
    """What a plan of gather or scatter is made of.

    Attributes:
        tier: of the plan.
        sizes: of a tile, along each axis of what the tiles cover.
        nram_bytes: NRAM that a core allocates.
        order: the axes as nested loops run over the tiles of a gather, the outermost first.
        words: gives the numbers that lead to it, for people.
        parameters: what the kernel needs.
    """

    tier: int
    sizes: Extents
    nram_bytes: int
    order: Extents = ()
    words: Callable[[], tuple[str, ...]]
    parameters: LookupParameters


LookupCandidate = Candidate[LookupSplit]


def choose(job: Job, found: Sequence[LookupCandidate]) -> tuple[LookupCandidate, str]:
    """The fastest candidate of those that the strategy allows, and why, with the times of the others."""
    fastest = best_by_strategy(found)
    usable = group_digits(job.board.nram_usable_bytes)
    # Where there is nothing to look up, x is copied, whatever the strategy.
    allowed = [one for one in fastest.values() if job.strategy in ("auto", one.strategy) or not job.lookups.columns]
    if not allowed:
        smallest = _n(job.lookups.slab_elements * job.itemsize)
        raise PlanError(
            f"{job.operator}, strategy {job.strategy}: "
            + (
                f"the {smallest} B of x that an index can address and one lookup do not fit in the {usable} B of "
                f"usable NRAM of {job.board.name}; take strategy 'rows' or 'auto'"
                if job.strategy == "slab" and found
                else f"not one lookup of {_n(job.itemsize)} B fits in the {usable} B of usable NRAM of "
                f"{job.board.name}; {MORE_NRAM}"
            )
        )
    chosen = allowed[0]
    if not job.lookups.columns:
        return chosen, "an index without columns chooses nothing: x is copied"
    what = {1: "a unit fits whole", 2: "a unit is cut", 3: "each lookup goes to GDRAM"}[chosen.split.tier]
    if chosen.strategy == "bins":
        what = f"updates are sorted by region, {what}"
    others = [
        f"{name} {us(other.predicted_ps)}" for name, other in sorted(fastest.items()) if name != chosen.strategy
    ] or [f"slab does not fit: {_n(job.lookups.slab_elements * job.itemsize)} B in {usable} B"]
    requested = "" if job.strategy == "auto" else ", as requested"
    return chosen, f"{chosen.strategy}{requested}: {what}; predicted {us(chosen.predicted_ps)}, {'; '.join(others)}"


def nothing_to_do(job: Job, shape: Extents) -> Plan:
    """The plan of a gather or scatter whose output has no elements."""
    return empty_plan(
        operator=job.operator,
        strategy=job.strategy,
        board=job.board,
        shape=shape,
        itemsize=job.itemsize,
        unit=unit_words(job.lookups),
        reason=f"the output {list(shape)} has no elements and nothing is launched",
        parameters=LookupParameters(lookups=job.lookups, strategy="none"),
    )


def leading(lookups: Lookups) -> Extents:
    """The tied axes of x before all indexed ones: each of their coordinates has a contiguous slab of its own."""
    return tuple(range(min(lookups.axes))) if lookups.axes else ()


def unit_elements(lookups: Lookups) -> int:
    """Elements of x that one coordinate of the leading tied axes spans."""
    first = len(leading(lookups))
    return math.prod(lookups.slab_of((0,) * len(lookups.value_shape), lookups.value_shape)[1][first:])


def unit_words(lookups: Lookups) -> str:
    """A unit, for people."""
    first = len(leading(lookups))
    return f"what one index can address: axes {first} to {len(lookups.x_shape) - 1} of x {list(lookups.x_shape)}"


def counts_to_hold(coordinates: int, most: Sequence[int], cores: int) -> list[int]:
    """How many of some coordinates a tile may hold: what fits, by several measures, or what spreads over the cores.

    Args:
        coordinates: in all.
        most: as many fit, by each measure; where none does, one is tried all the same.
        cores: to spread over.
    """
    limits = {min(max(limit, 1), coordinates) for limit in most}
    largest = max(limits)
    evenly = {ceil_div(coordinates, cores * rounds) for rounds in ROUNDS}
    # Clusters start one after the other, so that a small tensor is done sooner by a few cores.
    evenly |= {ceil_div(coordinates, count) for count in FEW if count < cores}
    # As many tiles for each core as the limit leaves, and these of one size.
    evenly |= {ceil_div(coordinates, ceil_div(ceil_div(coordinates, limit), cores) * cores) for limit in limits}
    return sorted(limits | {size for size in evenly if size <= largest})


def nram_bytes(board: Board, buffers: Sequence[int]) -> int:
    """Bytes of NRAM that buffers of these sizes take, each rounded up to the alignment of allocations."""
    return sum(round_up(max(buffer, 1), board.vector_alignment_bytes) for buffer in buffers)


def whole_nram_bytes(board: Board) -> int:
    """Bytes of the largest buffer that NRAM takes, which is rounded up to the alignment of allocations."""
    return board.nram_usable_bytes // board.vector_alignment_bytes * board.vector_alignment_bytes


def us(time_ps: int) -> str:
    """A time for people."""
    return f"{time_ps / PS_PER_US:.1f} us"


_n: Callable[[int], str] = group_digits

"""The common part of the planners of gather and scatter: the job, the candidates, and the choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlusim.errors import PlanError
from mlusim.hardware import Board
from mlusim.planning.index_form import IndexForm
from mlusim.planning.lookup_geometry import Extents, Lookups
from mlusim.planning.plan import Plan, empty_plan
from mlusim.planning.prediction import NEAR
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
    """

    board: Board
    lookups: Lookups
    itemsize: int
    index_itemsize: int
    strategy: str
    operator: str

    def form(self, *, positional: bool, narrowed: int = 0) -> IndexForm:
        """The address arithmetic on the index."""
        # Row numbers, and the extents that negative values wrap by, may need more than 32 bits.
        wide = math.prod(self.lookups.x_shape) >= _WIDE
        return IndexForm(columns=self.lookups.columns, positional=positional, narrowed=narrowed, wide=wide)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way to split, with its predicted time."""

    strategy: str
    tier: int
    sizes: Extents
    tiles: int
    predicted_ps: int
    nram_bytes: int
    arithmetic: tuple[str, ...]
    order: Extents
    parameters: dict[str, Any]


def choose(job: Job, found: Sequence[Candidate]) -> tuple[Candidate, str]:
    """The fastest candidate of those that the strategy allows, and why, with the times of the others."""
    best: dict[str, Candidate] = {}
    for name in {candidate.strategy for candidate in found}:
        same = [candidate for candidate in found if candidate.strategy == name]
        least_ps = min(candidate.predicted_ps for candidate in same)
        near = [candidate for candidate in same if candidate.predicted_ps <= NEAR * least_ps]
        best[name] = min(near, key=lambda candidate: (candidate.tiles, candidate.predicted_ps))
    usable = group_digits(job.board.nram_usable_bytes)
    allowed = [best[name] for name in best if job.strategy in ("auto", name)]
    if not job.lookups.columns:
        # Nothing to look up: whatever is asked for, x is copied.
        allowed = list(best.values())
    if not allowed:
        smallest = _n(job.lookups.slab_elements * job.itemsize)
        raise PlanError(
            f"{job.operator}, strategy {job.strategy}: "
            + (
                f"the {smallest} B of x that an index can address and one lookup do not fit in the {usable} B of "
                f"usable NRAM of {job.board.name}; take strategy 'rows' or 'auto'"
                if job.strategy == "slab" and found
                else f"not one lookup of {_n(job.itemsize)} B fits in the {usable} B of usable NRAM of "
                f"{job.board.name}; give the board more nram_bytes or fewer nram_reserved_bytes"
            )
        )
    chosen = min(allowed, key=lambda candidate: candidate.predicted_ps)
    if not job.lookups.columns:
        return chosen, "an index without columns chooses nothing: x is copied"
    what = {1: "a unit fits whole", 2: "a unit is cut", 3: "each lookup goes to GDRAM"}[chosen.tier]
    if chosen.strategy == "bins":
        what = f"updates are sorted by region, {what}"
    others = [
        f"{name} {us(other.predicted_ps)}" for name, other in sorted(best.items()) if name != chosen.strategy
    ] or [f"slab does not fit: {_n(job.lookups.slab_elements * job.itemsize)} B in {usable} B"]
    asked = "" if job.strategy == "auto" else ", asked for"
    return chosen, f"{chosen.strategy}{asked}: {what}; predicted {us(chosen.predicted_ps)}, {'; '.join(others)}"


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
        parameters={"lookups": job.lookups, "strategy": "none"},
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


def even_size(extent: int, limit: int, cores: int) -> int:
    """The largest size up to `limit` of parts of an extent that leaves the busiest core the least."""
    least = ceil_div(extent, limit)
    sizes = _ceil(extent, np.arange(least, min(least + 4 * cores, extent) + 1))
    return int(sizes[np.argmin(_ceil(_ceil(extent, sizes), cores) * sizes)])


def _ceil(value: Any, divisor: Any) -> Any:
    return -(-value // divisor)


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

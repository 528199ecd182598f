"""The planner of scatters that sort the updates by region of x first, then apply them region by region.

There are two launches; the end of the first is the barrier between all cores. x and the output are flat.

sort    The lookups are dealt out in chunks. A core computes the row numbers of a chunk, sorts rows and values into
        bins, one per region of x, and stores them in a GDRAM workspace together with the start of each bin.
apply   A core applies the updates of its region from all chunks, in order. Strategy "bins": it loads the region,
        updates it in NRAM, and stores it; tier 1 or 2. Strategy "rows": it copies the region to the output and updates
        it there; tier 3.

Each update is therefore loaded and stored by one core, instead of being read by every core with a window. The last of
several updates of an element wins: chunks are in order, and sorting is stable. Where a row also depends on the position
of its lookup, a chunk reaches only a few regions, and is sorted into these; vector instructions sort it only if there
are several.

From arch 300 on vector instructions sort, a few for each bin, and many bins in two levels
(`memory.bin_costs.bin_levels`). Those before that need whole, aligned 128 B, so scalar loops do a counting sort, in a
time that hardly depends on the number of bins. Supports updates of single elements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mlusim.errors import PlanError
from mlusim.memory.bin_costs import MAX_BINS
from mlusim.planning.box_sizes import Extents, blocks
from mlusim.planning.index_arithmetic import IndexArithmetic
from mlusim.planning.lookup import (
    LookupCandidate,
    LookupParameters,
    LookupProblem,
    LookupSplit,
    nram_bytes,
    plan_of,
    unit_elements,
)
from mlusim.planning.lookup_cost import selection_method
from mlusim.planning.plan import Plan
from mlusim.planning.scatter_binning import (
    BOUNDS_BYTES,
    Binning,
    applying_ps,
    applying_rows_ps,
    binning_that_fits,
    sorting_ps,
)
from mlusim.planning.search import Candidate
from mlusim.planning.split import boxes, buffer_bytes, cut, in_turn
from mlusim.planning.tiles import Tiles
from mlusim.units import ceil_div, group_digits, round_up

BINS, ROWS = "bins", "rows"
# Bytes of the counter of a bin, for a counting sort.
_COUNTER_BYTES = 4
# Fraction of NRAM that a region may occupy on a core that applies updates.
_REGION_PART = 15 / 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedParameters(LookupParameters):
    """Parameters of both kernels besides the tiles.

    Attributes:
        binning: the parameters common to both launches.
        regions: the regions of x, by task.
        tile: elements of the largest tile.
        rewrites: the rows of x are stored first, and updated rows are stored again: strategy "rows".
    """

    binning: Binning
    regions: Tiles
    tile: int
    rewrites: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedSplit(LookupSplit):
    """The split of a scatter that sorts; the regions have the size of the bins, `sizes` is that of the tiles."""

    binning: Binning


def refusal(problem: LookupProblem) -> str:
    """Return why bins do not apply to a scatter; empty if they do. Ignores NRAM."""
    row = math.prod(problem.lookups.row_shape)
    if row > 1:
        return f"it sorts single elements, and each lookup here replaces a row of {row}"
    return ""


def no_bins(problem: LookupProblem) -> PlanError:
    """Return the error for a request of "bins" without a candidate."""
    board = problem.board
    reason = refusal(problem) or (
        f"a region of x and an update do not fit together in the {group_digits(board.nram_usable_bytes)} B of usable "
        f"NRAM of {board.name}, or only as more than {group_digits(MAX_BINS)} regions"
    )
    return PlanError(f"{problem.operator}, strategy {BINS}: {reason}; choose strategy 'rows' or 'auto'")


def sorted_candidates(problem: LookupProblem, strategy: str) -> list[LookupCandidate]:
    """Return the candidates that sort; none if sorting does not apply or NRAM is too small.

    strategy: "rows" for updates in GDRAM; any other for updates in NRAM.
    """
    if refusal(problem):
        return []
    board = problem.board
    elements = math.prod(problem.lookups.x_shape)
    # A region is updated in NRAM, together with a list of updates, or in GDRAM.
    max_size = elements if strategy == ROWS else int(board.nram_usable_bytes * _REGION_PART) // problem.itemsize
    min_regions = ceil_div(elements, max(max_size, 1))
    multiple = board.dram_unit_bytes // math.gcd(board.dram_unit_bytes, problem.itemsize)
    by_size: dict[int, LookupCandidate] = {}
    for parts in sorted({min_regions, *(round_up(min_regions, board.cores) * rounds for rounds in (1, 2, 3))}):
        # Regions begin on a bus unit if possible.
        size = min(round_up(ceil_div(elements, parts), multiple), elements)
        size = size if size <= max_size else max_size // multiple * multiple or max_size
        candidate = None
        while size and not candidate:
            candidate = by_size.get(size) or _candidate(problem, size, ceil_div(elements, size), strategy)
            if candidate:
                by_size[size] = candidate
            # Halve the region until an update fits next to it.
            size //= 2
    return list(by_size.values())


def _candidate(problem: LookupProblem, size: int, bins: int, strategy: str) -> LookupCandidate | None:
    """Return the candidate with regions of this size, or None if NRAM is too small."""
    lookups, board, itemsize = problem.lookups, problem.board, problem.itemsize
    arithmetic = _arithmetic(problem)
    bytes_per_lookup = _sorting_bytes(problem, arithmetic)
    in_nram = strategy != ROWS
    counters = 0 if arithmetic.binned else bins * _COUNTER_BYTES
    region = size if in_nram else 0
    binning = binning_that_fits(problem, size, bins, region, arithmetic.width(), bytes_per_lookup, counters)
    if binning is None:
        return None
    count, capacity = math.prod(lookups.positions), binning.updates_at_once
    tile = size if in_nram else blocks((size,), buffer_bytes(board) // itemsize)[0]
    update_bytes = [capacity * (binning.width + itemsize), binning.bounds_at_once * BOUNDS_BYTES]
    # In GDRAM, a region is copied before its updates are loaded.
    phase_bytes = [nram_bytes(board, [*(binning.lookups_at_once * nbytes for nbytes in bytes_per_lookup), counters])]
    phase_bytes += (
        [nram_bytes(board, [size * itemsize, *update_bytes])]
        if in_nram
        else [nram_bytes(board, [tile * itemsize]), nram_bytes(board, update_bytes)]
    )
    method = selection_method(board, 1, itemsize, arithmetic) if in_nram else "a copy each"

    if in_nram:
        tier = 1 if bins == 1 or size % unit_elements(lookups) == 0 else 2
        second_ps = applying_ps(problem, binning, method)
    else:
        tier = 3
        second_ps = applying_rows_ps(problem, binning, tile)
    tiles = bins * ceil_div(size, tile)
    updates = ceil_div(ceil_div(count, bins), capacity) * bins
    return Candidate(
        strategy=strategy,
        predicted_ps=sorting_ps(problem, binning, arithmetic) + board.queued_kernel_gap_ps + second_ps,
        tasks=min(board.cores, bins),
        # Operations besides the address arithmetic: 6 for each chunk, 4 for each region, 3 for each list of updates.
        operations=binning.chunks * (6 + arithmetic.instructions(board)) + tiles * 4 + updates * 3,
        split=SortedSplit(
            tier=tier,
            sizes=(tile,),
            nram_bytes=max(phase_bytes),
            details=partial(_details, problem, binning, bytes_per_lookup, method),
            parameters=LookupParameters(lookups=lookups, strategy=strategy, arithmetic=arithmetic, method=method),
            binning=binning,
            sorts=True,
        ),
    )


def _details(
    problem: LookupProblem, binning: Binning, bytes_per_lookup: tuple[int, ...], method: str
) -> tuple[str, ...]:
    """Describe a binning: its chunks, its regions and its lists of updates."""
    lookups, capacity = math.prod(problem.lookups.positions), binning.updates_at_once
    region_bytes, list_bytes = binning.size * problem.itemsize, capacity * (binning.width + problem.itemsize)
    return (
        (
            f"{group_digits(lookups)} lookups in {group_digits(binning.chunks)} chunks of up to "
            f"{group_digits(binning.lookups_at_once)}; each lookup takes "
            f"{group_digits(sum(bytes_per_lookup))} B of NRAM"
        ),
        (
            f"{group_digits(binning.bins)} regions of up to {group_digits(binning.size)} elements, "
            f"{group_digits(region_bytes)} B"
        ),
        f"a list of up to {group_digits(capacity)} updates: {group_digits(list_bytes)} B, applied by {method}",
    )


def _arithmetic(problem: LookupProblem) -> IndexArithmetic:
    """Return the address arithmetic of the first launch."""
    lookups = problem.lookups
    positional = any(
        to is not None and extent > 1 for to, extent in zip(lookups.x_axes, lookups.positions, strict=False)
    )
    return replace(problem.arithmetic(positional=positional), binned=not problem.board.needs_aligned_vectors)


def _sorting_bytes(problem: LookupProblem, arithmetic: IndexArithmetic) -> tuple[int, ...]:
    """Return the bytes per lookup of each buffer of the first launch: index arithmetic, sorted rows, two of values."""
    arithmetic_bytes = arithmetic.buffer_bytes(problem.board, problem.index_itemsize)
    return *arithmetic_bytes, arithmetic.width(), problem.itemsize, problem.itemsize


def sorted_plan(problem: LookupProblem, candidate: LookupCandidate, reason: str) -> Plan:
    """Return the plan of a candidate: its tiles are the regions, or parts of them."""
    elements = math.prod(problem.lookups.x_shape)
    split = candidate.split
    assert isinstance(split, SortedSplit)
    binning, (tile,) = split.binning, split.sizes
    start, stop = boxes([cut(elements, binning.size)], (0,))
    tasks = in_turn(np.prod(stop - start, axis=1), candidate.tasks)
    regions = Tiles(tasks, start, stop, split.nram_bytes)
    # Every region is cut in the same way; the last one may have fewer parts.
    part = (start + np.arange(0, binning.size, tile)).reshape(-1, 1)
    ends = np.minimum(part.reshape(len(start), -1) + tile, stop).reshape(-1, 1)
    is_part = (part < ends)[:, 0]
    owner = np.repeat(tasks, len(part) // len(start))
    return plan_of(
        problem,
        candidate,
        reason,
        shape=(elements,),
        parts=max(binning.bins, binning.chunks),
        tiles=Tiles(owner[is_part], part[is_part], ends[is_part], split.nram_bytes),
        parameters=SortedParameters(
            lookups=problem.lookups,
            strategy=candidate.strategy,
            arithmetic=split.parameters.arithmetic,
            method=split.parameters.method,
            binning=binning,
            regions=regions,
            tile=tile,
            rewrites=candidate.strategy == ROWS,
        ),
    )


def workspaces(plan: Plan, dtype: np.dtype[Any]) -> dict[str, tuple[Extents, np.dtype[Any], bool]]:
    """Return shape and element type of each workspace tensor by name, and whether scalar code reads it."""
    settings = plan.parameters_as(SortedParameters)
    binning = settings.binning
    count = math.prod(settings.lookups.positions)
    return {
        "bin starts": ((binning.chunks, binning.bins + 1), np.dtype(np.int32), True),
        "sorted updates": ((count * (binning.width + dtype.itemsize),), np.dtype(np.uint8), False),
    }

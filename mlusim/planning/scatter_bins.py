"""The planner of scatters that sort the updates by region of x first, then apply them region by region.

There are two launches; the end of the first is the barrier between all cores. x and the output are flat.

sort    The lookups are dealt out in chunks. A core computes the row numbers of a chunk, sorts rows and values into
        bins, one per region of x, and stores them in a GDRAM workspace together with the start of each bin.
apply   A core applies the updates of its region from all chunks, in order. Strategy "bins": it loads the region,
        updates it in NRAM, and stores it; tier 1 or 2. Strategy "rows": it copies the region to the output and updates
        it there; tier 3.

Each update is therefore loaded and stored by one core, instead of being read by every core with a window. The last of
several updates of an element wins: chunks are in order, and sorting is stable. Where a row also depends on the position
of its lookup, a chunk reaches only a few regions, and is sorted into those.

From arch 300 on vector instructions sort, a few for each bin, and many bins in two levels (`memory.loops.bin_levels`).
Those before that need whole, aligned 128 B, so scalar loops do a counting sort, in a time that hardly depends on the
number of bins. Supports updates of single elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from mlusim.errors import PlanError
from mlusim.hardware import Board
from mlusim.memory.loops import (
    address_instructions,
    bin_counter_cycles,
    bin_levels,
    scalar_bins_cycles,
)
from mlusim.memory.view import View
from mlusim.planning.cost import Cost
from mlusim.planning.index_arithmetic import IndexArithmetic
from mlusim.planning.lookup import (
    LookupCandidate,
    LookupParameters,
    LookupProblem,
    LookupSplit,
    nram_bytes,
    plan_of,
    unit_elements,
    whole_nram_bytes,
)
from mlusim.planning.lookup_cost import LOAD, SCALAR, STORE, Costs, selection_method
from mlusim.planning.lookup_geometry import Extents, Lookups, blocks, count_boxes
from mlusim.planning.plan import Plan
from mlusim.planning.prediction import Grid, predict_serial_ps
from mlusim.planning.search import Candidate
from mlusim.planning.split import Integers, boxes, cut, in_turn
from mlusim.planning.tiles import Tiles
from mlusim.units import ceil_div, round_up
from mlusim.units import group_digits as digits

BINS, ROWS = "bins", "rows"
# Bin numbers have 16 bits.
_MAX_BINS = 1 << 16
# Bytes of the counter of a bin, for a counting sort.
_COUNTER_BYTES = 4
# Bytes of the bounds of a bin of a chunk, and the fraction 1/n of NRAM for them.
BOUNDS_BYTES, _BOUNDS_PART = 8, 64
# Fraction of NRAM that a region may occupy on a core that applies updates.
_REGION_PART = 15 / 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Binning:
    """The parameters common to both launches.

    Attributes:
        size, bins: rows per region, and number of regions.
        sizes: largest extents of a chunk along the axes of the positions.
        lookups_at_once, chunks: largest number of lookups in a chunk, and number of chunks.
        updates_at_once: capacity of the update list in the second launch.
        bounds_at_once: chunks whose bounds of a bin are in NRAM at once in the second launch.
        width: bytes of a row number.
    """

    size: int
    bins: int
    sizes: Extents
    lookups_at_once: int
    chunks: int
    updates_at_once: int
    bounds_at_once: int
    width: int

    def boxes(self, lookups: Lookups) -> tuple[Integers, Integers, Integers]:
        """Return the chunks in order of lookups: first lookup, start and stop of the box."""
        return _chunks(lookups.positions, self.sizes)

    def sections(self, updates: View, dtype: np.dtype[Any]) -> tuple[View, View]:
        """Return the rows and the values of all updates in the workspace."""
        rows = updates.size // (self.width + dtype.itemsize) * self.width
        return updates[:rows].view(f"i{self.width}"), updates[rows:].view(dtype)

    def lowest_rows(self, lookups: Lookups) -> Integers:
        """Return the lowest row of x that each chunk can address."""
        _, start, _ = self.boxes(lookups)
        return start @ np.array(lookups.steps(), np.int64)

    def bins_updated(self, lookups: Lookups) -> int:
        """Return the number of bins with updates, if index values are evenly distributed.

        Where the index is smaller than x along a shared axis whose coordinates are in different bins, some have none.
        """
        shape, bins = lookups.x_shape, float(self.bins)
        for extent, to, step in zip(lookups.positions, lookups.x_axes, lookups.steps(), strict=False):
            if to is not None and step >= self.size:
                bins *= extent / shape[to]
        return math.ceil(bins)

    def bins_reached(self, lookups: Lookups) -> float:
        """Return the mean number of bins that the lookups of a chunk can address."""
        return min(lookups.reach(self.sizes) / self.size + 1, self.bins)


@lru_cache(maxsize=8)
def _chunks(positions: Extents, sizes: Extents) -> tuple[Integers, Integers, Integers]:
    """Return the chunks of these sizes: first lookup, start and stop of the box. All cores share the arrays."""
    cuts = [cut(extent, size) for extent, size in zip(positions, sizes, strict=True)]
    start, stop = boxes(cuts, range(len(positions)))
    counts = np.prod(stop - start, axis=1)
    chunks = np.cumsum(counts) - counts, start, stop
    for part in chunks:
        part.setflags(write=False)
    return chunks


@dataclass(frozen=True, slots=True, kw_only=True)
class BinsParameters(LookupParameters):
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
class BinsSplit(LookupSplit):
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
    why = refusal(problem) or (
        f"a region of x and an update do not fit together in the {digits(board.nram_usable_bytes)} B of usable NRAM "
        f"of {board.name}, or only as more than {digits(_MAX_BINS)} regions"
    )
    return PlanError(f"{problem.operator}, strategy {BINS}: {why}; choose strategy 'rows' or 'auto'")


def bin_candidates(problem: LookupProblem, strategy: str = BINS) -> list[LookupCandidate]:
    """Return the candidates that sort; none if sorting does not apply or NRAM is too small.

    strategy: "rows" for updates in GDRAM; any other for updates in NRAM.
    """
    if refusal(problem):
        return []
    board = problem.board
    elements = math.prod(problem.lookups.x_shape)
    # A region is updated in NRAM, beside a list of updates, or in GDRAM.
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
            # Halve the region until an update fits beside it.
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
    binning = _binning(problem, size, bins, region, arithmetic.width(), bytes_per_lookup, counters)
    if binning is None:
        return None
    count, room = math.prod(lookups.positions), binning.updates_at_once
    tile = size if in_nram else blocks((size,), whole_nram_bytes(board) // itemsize)[0]
    update_bytes = [room * (binning.width + itemsize), binning.bounds_at_once * BOUNDS_BYTES]
    # In GDRAM, a region is copied before its updates are loaded.
    used = [nram_bytes(board, [*(binning.lookups_at_once * nbytes for nbytes in bytes_per_lookup), counters])]
    used += (
        [nram_bytes(board, [size * itemsize, *update_bytes])]
        if in_nram
        else [nram_bytes(board, [tile * itemsize]), nram_bytes(board, update_bytes)]
    )
    method = selection_method(board, 1, itemsize, arithmetic) if in_nram else "a copy each"

    def details() -> tuple[str, ...]:
        return (
            (
                f"{digits(count)} lookups in {digits(binning.chunks)} chunks of up to "
                f"{digits(binning.lookups_at_once)}; each lookup takes {digits(sum(bytes_per_lookup))} B of NRAM"
            ),
            f"{digits(bins)} regions of up to {digits(size)} elements, {digits(size * itemsize)} B",
            f"a list of up to {digits(room)} updates: {digits(update_bytes[0])} B, applied by {method}",
        )

    if in_nram:
        tier = 1 if bins == 1 or size % unit_elements(lookups) == 0 else 2
        applying_ps = _applying_ps(problem, binning, method)
    else:
        tier = 3
        applying_ps = _applying_rows_ps(problem, binning, tile)
    tiles = bins * ceil_div(size, tile)
    updates = ceil_div(ceil_div(count, bins), room) * bins
    return Candidate(
        strategy=strategy,
        predicted_ps=_sorting_ps(problem, binning, arithmetic) + board.queued_kernel_gap_ps + applying_ps,
        tasks=min(board.cores, bins),
        # Operations: 8 for each chunk, 4 for each region, 3 for each list of updates.
        tiles=binning.chunks * 8 + tiles * 4 + updates * 3,
        split=BinsSplit(
            tier=tier,
            sizes=(tile,),
            nram_bytes=max(used),
            details=details,
            parameters=LookupParameters(lookups=lookups, strategy=strategy, arithmetic=arithmetic, method=method),
            binning=binning,
            sorts=True,
        ),
    )


def _arithmetic(problem: LookupProblem) -> IndexArithmetic:
    """Return the address arithmetic of the first launch."""
    lookups = problem.lookups
    positional = any(
        to is not None and extent > 1 for to, extent in zip(lookups.x_axes, lookups.positions, strict=False)
    )
    wide = problem.arithmetic(positional=positional).wide
    binned = not problem.board.needs_aligned_vectors
    return IndexArithmetic(columns=lookups.columns, positional=positional, narrowed=0, wide=wide, binned=binned)


def _sorting_bytes(problem: LookupProblem, arithmetic: IndexArithmetic) -> tuple[int, ...]:
    """Return the bytes per lookup of each buffer of the first launch: index arithmetic, sorted rows, two of values."""
    arithmetic_bytes = arithmetic.buffer_bytes(problem.board, problem.index_itemsize)
    return *arithmetic_bytes, arithmetic.width(), problem.itemsize, problem.itemsize


def _binning(
    problem: LookupProblem,
    size: int,
    bins: int,
    in_nram: int,
    width: int,
    bytes_per_lookup: Sequence[int],
    counters: int,
) -> Binning | None:
    """Return the chunks and the update list that fit with these regions; None if not one lookup does.

    Args:
        problem: the scatter.
        size, bins: elements of a region, and number of regions.
        in_nram: elements of x in NRAM during the second launch.
        width: bytes of a row number.
        bytes_per_lookup: of each buffer of the first launch.
        counters: bytes of the counters of a counting sort in the first launch.
    """
    lookups, board, itemsize = problem.lookups, problem.board, problem.itemsize
    padding = board.vector_alignment_bytes - 1
    count = math.prod(lookups.positions)
    room = board.nram_usable_bytes - len(bytes_per_lookup) * padding - (counters + padding if counters else 0)
    lookups_that_fit = room // sum(bytes_per_lookup)
    chunks = min(round_up(ceil_div(count, max(lookups_that_fit, 1)), board.cores), count)
    bounds_at_once = min(chunks, max(board.nram_usable_bytes // _BOUNDS_PART // BOUNDS_BYTES, 1))
    left = board.nram_usable_bytes - nram_bytes(board, [in_nram * itemsize, bounds_at_once * BOUNDS_BYTES]) - padding
    updates_at_once = min(left // (width + itemsize), count)
    if bins > _MAX_BINS or lookups_that_fit < 1 or updates_at_once < 1:
        return None
    sizes = blocks(lookups.positions, ceil_div(count, chunks))
    # Rounding up the cut axis instead may save the chunks beyond a whole number for each core.
    larger = blocks(lookups.positions, ceil_div(count, chunks) + math.prod(sizes[1:]) - 1)
    if math.prod(larger) <= lookups_that_fit and count_boxes(lookups.positions, larger) >= board.cores:
        sizes = larger
    return Binning(
        size=size,
        bins=bins,
        sizes=sizes,
        lookups_at_once=math.prod(sizes),
        chunks=count_boxes(lookups.positions, sizes),
        updates_at_once=updates_at_once,
        bounds_at_once=bounds_at_once,
        width=width,
    )


def _sorting_ps(problem: LookupProblem, binning: Binning, arithmetic: IndexArithmetic) -> int:
    """Predict the time of the first launch."""
    board, lookups = problem.board, problem.lookups
    costs = Costs(board)
    lookups_at_once = binning.lookups_at_once
    columns, bins = lookups.columns, binning.bins_reached(lookups)
    if arithmetic.binned:
        widest = lookups_at_once * max(binning.width, problem.itemsize)
        _, sorting = bin_levels(board, widest, bins)
        cycles: float = arithmetic.vector_cycles(board, lookups_at_once) + sorting
    else:
        address = address_instructions(columns, positional=arithmetic.positional)
        cycles = scalar_bins_cycles(board, lookups_at_once, address) + bins * bin_counter_cycles(board)
    chunk = (lookups_at_once,)
    stages = (
        costs.box(LOAD, (*lookups.positions, columns), (*binning.sizes, columns), problem.index_itemsize),
        costs.box(LOAD, chunk, chunk, problem.itemsize),
        Cost(board.cycles_ps(round(cycles))),
        costs.box(STORE, chunk, chunk, binning.width),
        costs.box(STORE, chunk, chunk, problem.itemsize),
    )
    # The stores of bin starts are posted; only the sync at the end waits for the last ones.
    posted = Cost((binning.bins + 1) * board.scalar_gdram_latency_ps)
    return predict_serial_ps(_grid_of(board, binning.chunks), stages, before=(posted,))


def _grid_of(board: Board, parts: int) -> Grid:
    """Return a launch with a number of parts dealt out to its tasks."""
    return Grid(board=board, tiles=parts, tasks=min(board.cores, parts), union=True)


def _applying_ps(problem: LookupProblem, binning: Binning, method: str) -> int:
    """Predict the time of the second launch in NRAM, assuming evenly distributed index values."""
    board, itemsize = problem.board, problem.itemsize
    costs = Costs(board)
    count, loaded = _loaded(problem, binning)
    if method == SCALAR:
        updated_ps = costs.select(method, 1, itemsize, count, count, board.scalar_nram_cycles).own_ps
    else:
        updated_ps = board.cycles_ps(board.move_startup_cycles + count * board.scalar_nram_cycles)
    region = (binning.size,)
    stages = (
        costs.box(LOAD, region, region, itemsize),
        loaded,
        Cost(updated_ps),
        costs.box(STORE, region, region, itemsize),
    )
    return predict_serial_ps(_grid_of(board, binning.bins_updated(problem.lookups)), stages)


def _applying_rows_ps(problem: LookupProblem, binning: Binning, tile: int) -> int:
    """Predict the time of the second launch in GDRAM; `tile`: elements of a copy of x."""
    board, itemsize = problem.board, problem.itemsize
    costs = Costs(board)
    count, loaded = _loaded(problem, binning)
    if board.has_gather:
        updated = costs.instruction(STORE, itemsize, count)
    else:
        updated = costs.rows(STORE, itemsize, count, address=board.scalar_nram_cycles)
    copies = ceil_div(binning.size, tile)
    stages = (
        costs.box(LOAD, (tile,), (tile,), itemsize) * copies,
        costs.box(STORE, (tile,), (tile,), itemsize) * copies,
        loaded,
        updated,
    )
    return predict_serial_ps(_grid_of(board, binning.bins_updated(problem.lookups)), stages)


def _loaded(problem: LookupProblem, binning: Binning) -> tuple[int, Cost]:
    """Return the updates of a region, and the cost of loading them: the bounds of runs, then the runs."""
    board, lookups = problem.board, problem.lookups
    bins = binning.bins_updated(lookups)
    count = ceil_div(math.prod(lookups.positions), bins)
    chunks = min(math.ceil(binning.chunks * binning.bins_reached(lookups) / bins), binning.chunks)
    costs = Costs(board)
    run = max(ceil_div(count, chunks), 1)
    bounds = costs.box(LOAD, (chunks, binning.bins + 1), (chunks, 2), BOUNDS_BYTES // 2)
    bounds += Cost(board.cycles_ps(2 * chunks * board.scalar_nram_cycles))
    mean_bytes = ceil_div(run * (binning.width + problem.itemsize), 2)
    return count, bounds + costs.rows(LOAD, mean_bytes, 2 * chunks)


def bins_plan(problem: LookupProblem, candidate: LookupCandidate, reason: str) -> Plan:
    """Return the plan of a candidate: its tiles are the regions, or parts of them."""
    elements = math.prod(problem.lookups.x_shape)
    chosen = candidate.split
    assert isinstance(chosen, BinsSplit)  # noqa: S101 - for the type checker
    binning, (tile,) = chosen.binning, chosen.sizes
    start, stop = boxes([cut(elements, binning.size)], (0,))
    tasks = in_turn(np.prod(stop - start, axis=1), candidate.tasks)
    regions = Tiles(tasks, start, stop, chosen.nram_bytes)
    # Every region is cut alike; the last one may have fewer parts.
    part = (start + np.arange(0, binning.size, tile)).reshape(-1, 1)
    ends = np.minimum(part.reshape(len(start), -1) + tile, stop).reshape(-1, 1)
    inside = (part < ends)[:, 0]
    owner = np.repeat(tasks, len(part) // len(start))
    return plan_of(
        problem,
        candidate,
        reason,
        shape=(elements,),
        parts=max(binning.bins, binning.chunks),
        tiles=Tiles(owner[inside], part[inside], ends[inside], chosen.nram_bytes),
        parameters=BinsParameters(
            lookups=problem.lookups,
            strategy=candidate.strategy,
            arithmetic=chosen.parameters.arithmetic,
            method=chosen.parameters.method,
            binning=binning,
            regions=regions,
            tile=tile,
            rewrites=candidate.strategy == ROWS,
        ),
    )


def workspaces(plan: Plan, dtype: np.dtype[Any]) -> dict[str, tuple[Extents, np.dtype[Any], bool]]:
    """Return shape and element type of each workspace tensor by name, and whether scalar code reads it."""
    settings = plan.parameters_as(BinsParameters)
    binning = settings.binning
    count = math.prod(settings.lookups.positions)
    return {
        "bin starts": ((binning.chunks, binning.bins + 1), np.dtype(np.int32), True),
        "sorted updates": ((count * (binning.width + dtype.itemsize),), np.dtype(np.uint8), False),
    }

"""How a scatter's updates are sorted into bins: the chunks, the regions, the lists that fit in NRAM, and their times.

`mlusim.planning.sorted_scatter` describes both launches and selects among binnings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from mlusim.arrays import Integers
from mlusim.memory.bin_costs import MAX_BINS, bin_counter_cycles, bin_levels, scalar_bins_cycles
from mlusim.memory.loop_costs import address_instructions
from mlusim.memory.view import View
from mlusim.planning.box_sizes import Extents, blocks, count_boxes
from mlusim.planning.cost import Cost
from mlusim.planning.index_arithmetic import IndexArithmetic
from mlusim.planning.lookup import LookupProblem, nram_bytes
from mlusim.planning.lookup_cost import LOAD, SCALAR, STORE, Costs
from mlusim.planning.lookup_geometry import Lookups
from mlusim.planning.prediction import Grid, predict_serial_ps
from mlusim.planning.split import boxes, cut
from mlusim.units import ceil_div, round_up

# Bytes of the bounds of a bin of a chunk, and the fraction 1/n of NRAM for them.
BOUNDS_BYTES, _BOUNDS_PART = 8, 64


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

    def bins_reached(self, lookups: Lookups) -> Integers:
        """Return the number of bins that the lookups of each chunk can address."""
        lowest = self.lowest_rows(lookups)
        highest = np.minimum((lowest + lookups.reach(self.sizes)) // self.size, self.bins - 1)
        return highest - lowest // self.size + 1


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


def binning_that_fits(
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
    available = board.nram_usable_bytes - len(bytes_per_lookup) * padding - (counters + padding if counters else 0)
    lookups_that_fit = available // sum(bytes_per_lookup)
    chunks = min(round_up(ceil_div(count, max(lookups_that_fit, 1)), board.cores), count)
    bounds_at_once = min(chunks, max(board.nram_usable_bytes // _BOUNDS_PART // BOUNDS_BYTES, 1))
    list_bytes = (
        board.nram_usable_bytes - nram_bytes(board, [in_nram * itemsize, bounds_at_once * BOUNDS_BYTES]) - padding
    )
    updates_at_once = min(list_bytes // (width + itemsize), count)
    if bins > MAX_BINS or lookups_that_fit < 1 or updates_at_once < 1:
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


def sorting_ps(problem: LookupProblem, binning: Binning, arithmetic: IndexArithmetic) -> int:
    """Predict the time of the first launch."""
    board, lookups = problem.board, problem.lookups
    costs = Costs(board)
    lookups_at_once = binning.lookups_at_once
    columns, bins_reached = lookups.columns, binning.bins_reached(lookups)
    if arithmetic.binned:
        widest = lookups_at_once * max(binning.width, problem.itemsize)
        # Chunks that reach only one bin are not sorted.
        several = bins_reached[bins_reached > 1]
        _, sorting = bin_levels(board, widest, float(several.mean())) if len(several) else (1, 0)
        cycles: float = arithmetic.vector_cycles(board, lookups_at_once) + sorting * len(several) / len(bins_reached)
    else:
        address = address_instructions(columns, positional=arithmetic.positional)
        cycles = scalar_bins_cycles(board, lookups_at_once, address) + float(bins_reached.mean()) * bin_counter_cycles(
            board
        )
    chunk = (lookups_at_once,)
    stages = (
        costs.box(LOAD, (*lookups.positions, columns), (*binning.sizes, columns), problem.index_itemsize),
        costs.box(LOAD, chunk, chunk, problem.itemsize),
        Cost(board.cycles_ps(round(cycles))),
        costs.box(STORE, chunk, chunk, binning.width),
        costs.box(STORE, chunk, chunk, problem.itemsize),
    )
    # The stores of bin starts are posted; only the sync at the end waits for the last ones. Those of a core complete
    # one after another, beside its next chunks.
    posted = Cost((binning.bins + 1) * board.scalar_gdram_latency_ps)
    grid = Grid.of_unions(board, binning.chunks)
    return max(
        predict_serial_ps(grid, stages, preparation=(posted,)), predict_serial_ps(grid, (posted,), preparation=stages)
    )


def applying_ps(problem: LookupProblem, binning: Binning, method: str) -> int:
    """Predict the time of the second launch in NRAM, assuming evenly distributed index values."""
    board, itemsize = problem.board, problem.itemsize
    costs = Costs(board)
    count, load = _updates_and_load(problem, binning)
    if method == SCALAR:
        updated_ps = costs.select(method, 1, itemsize, count, count, board.scalar_nram_cycles).own_ps
    else:
        updated_ps = board.cycles_ps(board.move_startup_cycles + count * board.scalar_nram_cycles)
    region = (binning.size,)
    stages = (
        costs.box(LOAD, region, region, itemsize),
        load,
        Cost(updated_ps),
        costs.box(STORE, region, region, itemsize),
    )
    return predict_serial_ps(Grid.of_unions(board, binning.bins_updated(problem.lookups)), stages)


def applying_rows_ps(problem: LookupProblem, binning: Binning, tile: int) -> int:
    """Predict the time of the second launch in GDRAM; `tile`: elements of a copy of x."""
    board, itemsize = problem.board, problem.itemsize
    costs = Costs(board)
    count, load = _updates_and_load(problem, binning)
    if board.has_gather:
        updated = costs.instruction(STORE, itemsize, count)
    else:
        updated = costs.rows(STORE, itemsize, count, address=board.scalar_nram_cycles)
    copies = ceil_div(binning.size, tile)
    stages = (
        costs.box(LOAD, (tile,), (tile,), itemsize) * copies,
        costs.box(STORE, (tile,), (tile,), itemsize) * copies,
        load,
        updated,
    )
    return predict_serial_ps(Grid.of_unions(board, binning.bins_updated(problem.lookups)), stages)


def _updates_and_load(problem: LookupProblem, binning: Binning) -> tuple[int, Cost]:
    """Return the updates of a region, and the cost of loading them: the bounds of runs, then the runs."""
    board, lookups = problem.board, problem.lookups
    bins = binning.bins_updated(lookups)
    count = ceil_div(math.prod(lookups.positions), bins)
    chunks = min(ceil_div(int(binning.bins_reached(lookups).sum()), bins), binning.chunks)
    costs = Costs(board)
    run = max(ceil_div(count, chunks), 1)
    bounds = costs.box(LOAD, (chunks, binning.bins + 1), (chunks, 2), BOUNDS_BYTES // 2)
    bounds += Cost(board.cycles_ps(2 * chunks * board.scalar_nram_cycles))
    mean_bytes = ceil_div(run * (binning.width + problem.itemsize), 2)
    return count, bounds + costs.rows(LOAD, mean_bytes, 2 * chunks)

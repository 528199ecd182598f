"""The planner of scatter with strategy "bins": sort the updates by region of x, then apply them region by region.

There are two launches; the end of the first is the barrier between all cores. x and the output are flat.

bin     The lookups are dealt out in chunks. A core computes the row numbers of a chunk, sorts rows and values into
        bins, one per region of x, and stores them in a GDRAM workspace together with the start of each bin.
apply   A core loads a region of x, applies the updates of its bin from all chunks, in order, and stores the region.

Each update is therefore loaded and stored by one core, instead of being read by every core with a window. The last of
several updates of an element wins: chunks are in order, and sorting is stable.

Supports updates of single elements, on boards whose vector instructions accept any length (3xx on).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlusim.errors import PlanError
from mlusim.hardware import Board
from mlusim.memory.loops import COLLECT_BINS_PASSES
from mlusim.planning.cost import Cost, load_cost
from mlusim.planning.index_arithmetic import IndexArithmetic
from mlusim.planning.lookup import (
    Job,
    LookupCandidate,
    LookupParameters,
    LookupSplit,
    nram_bytes,
    unit_elements,
    unit_text,
)
from mlusim.planning.lookup_cost import LOAD, SCALAR, STORE, Costs, selection_method
from mlusim.planning.lookup_geometry import Extents, Lookups, blocks, count_boxes
from mlusim.planning.plan import Plan
from mlusim.planning.prediction import Grid, predict_serial_ps
from mlusim.planning.search import Candidate
from mlusim.planning.split import Integers, boxes, cut, in_turn, union1_launch
from mlusim.planning.tiles import Tiles
from mlusim.units import ceil_div, round_up
from mlusim.units import group_digits as digits

BINS = "bins"
# Bin numbers have 16 bits.
_MAX_BINS = 1 << 16
# Fraction of NRAM that a region may occupy on a core that applies updates.
_REGION_PART = 15 / 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Binning:
    """The parameters common to both launches.

    Attributes:
        size, bins: rows per region, and number of regions.
        sizes: largest extents of a chunk along the axes of the positions.
        lookups_at_once, chunks: largest number of lookups in a chunk, and number of chunks.
        updates_at_once: capacity of an update list in the second launch; there are two lists.
        width: bytes of a row number.
    """

    size: int
    bins: int
    sizes: Extents
    lookups_at_once: int
    chunks: int
    updates_at_once: int
    width: int

    def boxes(self, lookups: Lookups) -> tuple[Integers, Integers, Integers]:
        """Return the chunks in order of lookups: first lookup, start and stop of the box."""
        axes = range(len(lookups.positions))
        cuts = [cut(extent, size) for extent, size in zip(lookups.positions, self.sizes, strict=True)]
        start, stop = boxes(cuts, axes)
        counts = np.prod(stop - start, axis=1)
        return np.cumsum(counts) - counts, start, stop


@dataclass(frozen=True, slots=True, kw_only=True)
class BinsParameters(LookupParameters):
    """Parameters of both kernels besides the tiles.

    Attributes:
        binning: the parameters common to both launches.
        regions: sizes of the regions.
        rewrites: always False: each region is stored once.
    """

    binning: Binning
    regions: Extents
    rewrites: bool = False


def refusal(job: Job) -> str:
    """Return why bins do not apply to a scatter; empty if they do. Ignores NRAM."""
    lookups, board = job.lookups, job.board
    if board.needs_aligned_vectors:
        return (
            f"it sorts by vector instructions at any position of a list, and those of {board.name} (arch "
            f"{board.arch}) need whole, aligned 128 B"
        )
    row = math.prod(lookups.row_shape)
    if row > 1:
        return f"it sorts single elements, and each lookup here replaces a row of {row}"
    return ""


def no_bins(job: Job) -> PlanError:
    """Return the error for a request of "bins" without a candidate."""
    board = job.board
    why = refusal(job) or (
        f"a region of x and an update do not fit together in the {digits(board.nram_usable_bytes)} B of usable NRAM "
        f"of {board.name}, or only as more than {digits(_MAX_BINS)} regions"
    )
    return PlanError(f"{job.operator}, strategy {BINS}: {why}; choose strategy 'rows' or 'auto'")


def bin_candidates(job: Job) -> list[LookupCandidate]:
    """Return the candidates of strategy "bins"; none if it does not apply or NRAM is too small."""
    if refusal(job):
        return []
    board = job.board
    elements = math.prod(job.lookups.x_shape)
    max_size = int(board.nram_usable_bytes * _REGION_PART) // job.itemsize
    min_regions = ceil_div(elements, max(max_size, 1))
    multiple = board.dram_unit_bytes // math.gcd(board.dram_unit_bytes, job.itemsize)
    by_size: dict[int, LookupCandidate] = {}
    for parts in sorted({min_regions, *(round_up(min_regions, board.cores) * rounds for rounds in (1, 2, 3))}):
        # Regions begin on a bus unit if possible.
        size = min(round_up(ceil_div(elements, parts), multiple), elements)
        size = size if size <= max_size else max_size // multiple * multiple or max_size
        candidate = None
        while size and not candidate:
            candidate = by_size.get(size) or _candidate(job, size, ceil_div(elements, size))
            if candidate:
                by_size[size] = candidate
            # Halve the region until an update fits beside it.
            size //= 2
    return list(by_size.values())


def _candidate(job: Job, size: int, bins: int) -> LookupCandidate | None:
    """Return the candidate with regions of this size, or None if NRAM is too small."""
    lookups, board, itemsize = job.lookups, job.board, job.itemsize
    arithmetic = _arithmetic(job)
    each = _sorting_bytes(job, arithmetic)
    binning = _binning(job, size, bins, arithmetic.width(), each)
    if binning is None:
        return None
    count, lists = math.prod(lookups.positions), binning.updates_at_once
    sorting = [binning.lookups_at_once * nbytes for nbytes in each]
    applying = [size * itemsize, *2 * [lists * binning.width, lists * itemsize]]
    method = selection_method(board, 1, itemsize, arithmetic)

    def details() -> tuple[str, ...]:
        return (
            (
                f"{digits(count)} lookups in {digits(binning.chunks)} chunks of up to "
                f"{digits(binning.lookups_at_once)}; each lookup takes {digits(sum(each))} B of NRAM"
            ),
            f"{digits(bins)} regions of up to {digits(size)} elements, {digits(size * itemsize)} B",
            f"two lists of up to {digits(lists)} updates: {digits(sum(applying[1:]))} B, applied by {method}",
        )

    return Candidate(
        strategy=BINS,
        predicted_ps=_sorting_ps(job, binning, arithmetic)
        + board.queued_kernel_gap_ps
        + _applying_ps(job, binning, method),
        tasks=min(board.cores, bins),
        tiles=binning.chunks * 8 + bins * (3 + 2 * binning.chunks) + 4 * ceil_div(count, lists),
        split=LookupSplit(
            tier=1 if bins == 1 or size % unit_elements(lookups) == 0 else 2,
            sizes=(size,),
            nram_bytes=max(nram_bytes(board, sorting), nram_bytes(board, applying)),
            details=details,
            parameters=BinsParameters(
                lookups=lookups, strategy=BINS, arithmetic=arithmetic, method=method, binning=binning, regions=(size,)
            ),
        ),
    )


def _arithmetic(job: Job) -> IndexArithmetic:
    """Return the address arithmetic of the first launch."""
    lookups = job.lookups
    positional = any(
        to is not None and extent > 1 for to, extent in zip(lookups.x_axes, lookups.positions, strict=False)
    )
    wide = job.arithmetic(positional=positional).wide
    return IndexArithmetic(columns=lookups.columns, positional=positional, narrowed=0, wide=wide, binned=True)


def _sorting_bytes(job: Job, arithmetic: IndexArithmetic) -> tuple[int, ...]:
    """Return the bytes per lookup of each buffer of the first launch: index arithmetic, sorted rows, two of values."""
    arithmetic_bytes = arithmetic.buffer_bytes(job.board, job.index_itemsize)
    return *arithmetic_bytes, arithmetic.width(), job.itemsize, job.itemsize


def _binning(job: Job, size: int, bins: int, width: int, each: Sequence[int]) -> Binning | None:
    """Return the chunks and update lists that fit with regions of this size; None if not one lookup does.

    `width`: bytes of a row number; `each`: bytes per lookup of the buffers of the first launch.
    """
    lookups, board, itemsize = job.lookups, job.board, job.itemsize
    padding = board.vector_alignment_bytes - 1
    count = math.prod(lookups.positions)
    lookups_that_fit = (board.nram_usable_bytes - len(each) * padding) // sum(each)
    left = board.nram_usable_bytes - nram_bytes(board, [size * itemsize]) - 4 * padding
    updates_at_once = min(left // (2 * (width + itemsize)), count)
    if bins > _MAX_BINS or lookups_that_fit < 1 or updates_at_once < 1:
        return None
    chunks = min(round_up(ceil_div(count, lookups_that_fit), board.cores), count)
    sizes = blocks(lookups.positions, ceil_div(count, chunks))
    return Binning(
        size=size,
        bins=bins,
        sizes=sizes,
        lookups_at_once=math.prod(sizes),
        chunks=count_boxes(lookups.positions, sizes),
        updates_at_once=updates_at_once,
        width=width,
    )


def _sorting_ps(job: Job, binning: Binning, arithmetic: IndexArithmetic) -> int:
    """Predict the time of the first launch."""
    board, lookups = job.board, job.lookups
    costs = Costs(board)
    lookups_at_once = binning.lookups_at_once
    widest = lookups_at_once * max(binning.width, job.itemsize)
    instructions = COLLECT_BINS_PASSES * binning.bins
    cycles = arithmetic.vector_cycles(board, lookups_at_once)
    cycles += instructions * (board.vector_startup_cycles + ceil_div(widest, board.vector_bytes_per_cycle))
    columns = lookups.columns
    chunk = (lookups_at_once,)
    stages = (
        costs.box(LOAD, (*lookups.positions, columns), (*binning.sizes, columns), job.index_itemsize),
        costs.box(LOAD, chunk, chunk, job.itemsize),
        Cost(board.cycles_ps(cycles) + (binning.bins + 1) * board.scalar_gdram_latency_ps),
        costs.box(STORE, chunk, chunk, binning.width),
        costs.box(STORE, chunk, chunk, job.itemsize),
    )
    return predict_serial_ps(_grid_of(board, binning.chunks), stages)


def _grid_of(board: Board, parts: int) -> Grid:
    """Return a launch with a number of parts dealt out to its tasks."""
    return Grid(board=board, tiles=parts, tasks=min(board.cores, parts), union=True)


def _applying_ps(job: Job, binning: Binning, method: str) -> int:
    """Predict the time of the second launch, assuming evenly distributed index values."""
    board, itemsize = job.board, job.itemsize
    costs = Costs(board)
    count = ceil_div(math.prod(job.lookups.positions), binning.bins)
    part = max(ceil_div(count, binning.chunks), 1)
    # Back-to-back copies hide their start-up.
    loaded = sum((load_cost(board, part * width, behind=True) for width in (binning.width, itemsize)), Cost())
    loaded *= binning.chunks
    if method == SCALAR:
        updated_ps = costs.select(method, 1, itemsize, count, count, board.scalar_nram_cycles).own_ps
    else:
        updated_ps = board.cycles_ps(board.move_startup_cycles + count * board.scalar_nram_cycles)
    table_ps = 2 * binning.chunks * board.scalar_gdram_latency_ps
    # The updates of one list are applied while the next is loaded, except for the first and the last.
    lists = ceil_div(count, binning.updates_at_once)
    hidden_ps = (lists - 1) / lists * min(loaded.alone_ps, updated_ps)
    region = (binning.size,)
    stages = (
        costs.box(LOAD, region, region, itemsize),
        loaded,
        Cost(table_ps + updated_ps - hidden_ps),
        costs.box(STORE, region, region, itemsize),
    )
    return predict_serial_ps(_grid_of(board, binning.bins), stages)


def bins_plan(job: Job, candidate: LookupCandidate, reason: str) -> Plan:
    """Return the plan of a candidate: its tiles are the regions."""
    elements = math.prod(job.lookups.x_shape)
    chosen = candidate.split
    assert isinstance(chosen.parameters, BinsParameters)  # noqa: S101 - for the type checker
    binning = chosen.parameters.binning
    start, stop = boxes([cut(elements, binning.size)], (0,))
    kind, dim = union1_launch(job.board, max(binning.bins, binning.chunks))
    tasks = in_turn(np.prod(stop - start, axis=1), min(dim[0] * dim[1], binning.bins))
    return Plan(
        operator=job.operator,
        strategy=candidate.strategy,
        board=job.board,
        tier=chosen.tier,
        reason=reason,
        arithmetic=chosen.details(),
        unit=unit_text(job.lookups),
        unit_bytes=unit_elements(job.lookups) * job.itemsize,
        kind=kind,
        dim=dim,
        output_shape=(elements,),
        itemsize=job.itemsize,
        tiles=Tiles(tasks, start, stop, chosen.nram_bytes),
        nram_bytes=chosen.nram_bytes,
        parameters=chosen.parameters,
        predicted_ps=candidate.predicted_ps,
    )


def workspaces(plan: Plan, dtype: np.dtype[Any]) -> dict[str, tuple[Extents, np.dtype[Any], bool]]:
    """Return shape and element type of each workspace tensor by name, and whether scalar code reads it.

    Row numbers and values of equal width form one tensor, so that a single strided copy transfers both.
    """
    settings = plan.parameters_as(BinsParameters)
    binning = settings.binning
    count = math.prod(settings.lookups.positions)
    row = np.dtype(f"i{binning.width}")
    starts = {"bin starts": ((binning.chunks, binning.bins + 1), np.dtype(np.int32), True)}
    if dtype.itemsize == binning.width:
        return starts | {"sorted updates": ((2, count), row, False)}
    return starts | {"sorted rows": ((count,), row, False), "sorted values": ((count,), dtype, False)}

"""The planner of scatter and scatter_nd. It splits the output, so that one core applies all updates of an element.

slab   A core loads a box of x, applies the updates that reach it in NRAM, and stores it. Tier 1 if a unit (all of the
       indexed axes at one coordinate of the leading shared ones) stays whole; tier 2 if it is cut.
rows   A core copies its region of x to the output and applies each update in GDRAM. Tier 3.
bins   Updates are first sorted by region of x, then applied in NRAM (`mlusim.planning.sorted_scatter`). Tier 1 or 2.

Boxes and regions are parts of the shared axes, and windows of the indexed axes if those are too few or too large. The
updates of windows are also sorted first if that is faster. Otherwise a core with a window reads every index value that
may fall in it and filters: from arch 300 on by vector instructions, which list the updates to apply, before that in the
scalar loop. In standard mode it can then fetch only the listed rows. Without a window, from arch 300 on, either vector
instructions compute the row numbers or the scalar loop does.

Predicted time decides (`mlusim.planning.lookup_cost`), assuming evenly distributed index values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mlusim.arrays import Integers
from mlusim.planning.box_sizes import Extents, blocks, count_boxes, sizes_of_at_most
from mlusim.planning.cost import Cost
from mlusim.planning.index_arithmetic import IndexArithmetic
from mlusim.planning.lookup import (
    LookupCandidate,
    LookupParameters,
    LookupProblem,
    LookupSplit,
    check_room,
    choose,
    counts_to_hold,
    leading,
    nothing_to_do,
    nram_bytes,
    plan_of,
)
from mlusim.planning.lookup_cost import LOAD, STORE, Costs, selection_method
from mlusim.planning.plan import Plan
from mlusim.planning.prediction import Grid, predict_serial_ps
from mlusim.planning.scatter_chunk import Chunk, buffers_of, chunk_of, details_of, update_stages, ways_to_read
from mlusim.planning.search import Candidate, best_by_strategy, fractions_of
from mlusim.planning.sorted_scatter import BINS, no_bins, sorted_candidates, sorted_plan
from mlusim.planning.split import boxes, buffer_bytes, cut, in_turn
from mlusim.planning.tiles import Tiles
from mlusim.units import ceil_div, group_digits

# Chunks of updates are tried at these fractions (1/n) of the NRAM available to them.
_CHUNK_FRACTIONS = (2, 3, 4, 6, 8, 16)

STRATEGIES: dict[str, str] = {
    "auto": "the strategy with the shortest predicted time",
    "slab": "update boxes of the output within NRAM",
    "rows": "copy x, then access GDRAM for each update",
    "bins": "sort the updates by region of x, then update each region within NRAM",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterParameters(LookupParameters):
    """Parameters of the kernels of strategies "slab" and "rows" besides the tiles.

    Attributes:
        regions: the boxes of the output whose updates belong to one task.
        tile: elements of the largest tile.
        chunk: the updates that a core handles at once; None if there are none.
        rewrites: the rows of x are stored first, and updated rows are stored again.
    """

    regions: Tiles
    tile: int
    chunk: Chunk | None
    rewrites: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split(LookupSplit):
    """The split of strategies "slab" and "rows"; `regions`: sizes of the boxes whose updates belong to one task."""

    regions: Extents
    tile: int
    chunk: Chunk | None


def plan_scatter(problem: LookupProblem) -> Plan:
    """Plan a scatter. The plan does not depend on index values: the kernel reads them on the board.

    Raises `PlanError` if no strategy, or not the requested one, fits in NRAM.
    """
    lookups, shape = problem.lookups, problem.lookups.x_shape
    if 0 in shape:
        return nothing_to_do(problem, shape)
    check_room(problem)
    candidate, reason = _choose(problem)
    if candidate.split.sorts:
        return sorted_plan(problem, candidate, reason)
    split = candidate.split
    assert isinstance(split, _Split)
    regions = split.regions
    start, stop = _grid(shape, regions, split.sizes)
    region_start, region_stop = _grid(shape, regions, regions)
    tasks = in_turn(np.prod(region_stop - region_start, axis=1), candidate.tasks)
    owner = _region_of(start, shape, regions)
    order = np.argsort(owner, kind="stable")
    return plan_of(
        problem,
        candidate,
        reason,
        shape=shape,
        parts=len(region_start),
        tiles=Tiles(tasks[owner][order], start[order], stop[order], split.nram_bytes),
        tiles_text=(
            f"{group_digits(len(region_start))} regions of up to {list(regions)}, assigned to the tasks in turn",
            f"{group_digits(len(start))} tiles of up to {list(split.sizes)}",
        ),
        parameters=ScatterParameters(
            lookups=lookups,
            strategy=candidate.strategy,
            arithmetic=split.parameters.arithmetic,
            method=split.parameters.method,
            regions=Tiles(tasks, region_start, region_stop, split.nram_bytes),
            tile=split.tile,
            chunk=split.chunk,
            rewrites=candidate.strategy == "rows",
        ),
    )


def _choose(problem: LookupProblem) -> tuple[LookupCandidate, str]:
    """Return the candidate of the requested strategy, and why it was chosen."""
    lookups = problem.lookups
    if 0 in lookups.value_shape:
        return _copy_candidate(problem), "there are no updates, so x is copied"
    if not lookups.columns:
        return _copy_candidate(problem), "an index without columns selects all of x, which src replaces"
    candidates: list[LookupCandidate] = [*_slab_candidates(problem), *_row_candidates(problem)]
    candidates += _smaller_chunks(problem, best_by_strategy(candidates))
    # Sorted updates of regions in NRAM are strategy "bins", but also what "slab" does if x must be cut into windows.
    strategies = ("rows", "slab") if problem.strategy == "slab" else ("rows", BINS)
    candidates += [candidate for strategy in strategies for candidate in sorted_candidates(problem, strategy)]
    if problem.strategy == BINS and not any(candidate.strategy == BINS for candidate in candidates):
        raise no_bins(problem)
    return choose(problem, candidates)


def _grid(shape: Extents, regions: Extents, sizes: Extents) -> tuple[Integers, Integers]:
    """Return boxes of these sizes within regions of these sizes, in row-major order."""
    cuts = []
    for extent, region, size in zip(shape, regions, sizes, strict=True):
        low, high = cut(extent, region)
        starts = (low[:, None] + np.arange(0, region, size)).reshape(-1)
        stops = np.minimum(starts + size, np.repeat(high, len(starts) // len(low)))
        is_inside = starts < stops
        cuts.append((starts[is_inside], stops[is_inside]))
    return boxes(cuts, range(len(shape)))


def _region_of(start: Integers, shape: Extents, regions: Extents) -> Integers:
    """Return the index of the region that contains each tile, by its first corner."""
    number = np.zeros(len(start), np.int64)
    for axis, (extent, size) in enumerate(zip(shape, regions, strict=True)):
        number = number * ceil_div(extent, size) + start[:, axis] // size
    return number


def _copy_candidate(problem: LookupProblem) -> LookupCandidate:
    """Return the candidate without lookups: tiles that fill NRAM, or one per core."""
    board, shape = problem.board, problem.lookups.x_shape
    elements = math.prod(shape)
    limit = min(buffer_bytes(board) // problem.itemsize, ceil_div(elements, board.cores))
    sizes = blocks(shape, limit)
    tiles = count_boxes(shape, sizes)
    grid = Grid.of_unions(board, tiles)
    return Candidate(
        strategy="slab",
        predicted_ps=predict_serial_ps(grid, _copy_stages(problem, sizes)),
        tasks=grid.tasks,
        operations=2 * tiles,
        split=_Split(
            tier=1 if tiles <= 1 or elements * problem.itemsize <= board.nram_usable_bytes else 2,
            sizes=sizes,
            nram_bytes=nram_bytes(board, [math.prod(sizes) * problem.itemsize]),
            details=lambda: (
                f"up to {group_digits(limit)} elements per tile: what fits in NRAM, or an equal share for each core",
            ),
            parameters=LookupParameters(lookups=problem.lookups, strategy="slab"),
            regions=sizes,
            tile=math.prod(sizes),
            chunk=None,
        ),
    )


def _slab_candidates(problem: LookupProblem) -> Iterator[LookupCandidate]:
    """Yield candidates with slabs for one to a few rounds of the cores, and for each fraction of NRAM."""
    lookups, board = problem.lookups, problem.board
    shared_extents, indexed = _axes(problem)
    coordinates, slab_elements = math.prod(shared_extents), lookups.slab_elements
    limit = max(board.nram_usable_bytes * 3 // 4 // problem.itemsize, 1)
    limits = [limit_bytes // slab_elements for limit_bytes in fractions_of(limit)]
    tried_sizes = set[tuple[Extents, Extents]]()
    for shared_limit in counts_to_hold(coordinates, limits, board.cores):
        fewest = ceil_div(slab_elements * shared_limit, limit)
        regions = ceil_div(coordinates, shared_limit)
        cores_per_region = ceil_div(board.cores, regions)
        for windows in sorted({fewest, *(max(fewest, rounds * cores_per_region) for rounds in (1, 2))}):
            for shared_left, indexed_left in _halved_limits(shared_limit, ceil_div(slab_elements, windows)):
                sizes = sizes_of_at_most(shared_extents, shared_left), blocks(indexed, indexed_left)
                if sizes in tried_sizes:
                    break
                candidates = list(_slab_candidate(problem, _sizes(problem, *sizes)))
                yield from candidates
                # Otherwise no lookup fits next to the slab.
                if candidates:
                    tried_sizes.add(sizes)
                    break


def _halved_limits(shared_limit: int, indexed_limit: int) -> Iterator[tuple[int, int]]:
    """Yield limits on the shared and on the indexed axes, each pair half the one before: the shared ones first."""
    while shared_limit > 1:
        yield shared_limit, indexed_limit
        shared_limit //= 2
    while indexed_limit:
        yield shared_limit, indexed_limit
        indexed_limit //= 2


def _smaller_chunks(problem: LookupProblem, fastest: Mapping[str, LookupCandidate]) -> Iterator[LookupCandidate]:
    """Yield the fastest splits with smaller chunks of updates: after the first chunk, cores are out of step."""
    for strategy, candidate_of in (("slab", _slab_candidate), ("rows", _row_candidate)):
        if strategy in fastest:
            split = fastest[strategy].split
            assert isinstance(split, _Split)
            for parts in _CHUNK_FRACTIONS:
                yield from candidate_of(problem, split.regions, parts)


def _slab_candidate(problem: LookupProblem, sizes: Extents, parts: int = 1) -> Iterator[LookupCandidate]:
    """Yield candidates with boxes of x of these sizes, and 1/`parts` of the remaining NRAM for updates."""
    board, itemsize, lookups = problem.board, problem.itemsize, problem.lookups
    shape = lookups.x_shape
    slab_bytes = math.prod(sizes) * itemsize
    available = board.nram_usable_bytes - nram_bytes(board, [slab_bytes])
    tiles = count_boxes(shape, sizes)
    grid = Grid.of_unions(board, tiles)
    first = len(leading(lookups))
    rows = lookups.batch_dims + lookups.columns
    even = all(extent % size == 0 for extent, size in zip(shape[rows:], sizes[rows:], strict=True))
    for arithmetic, fetch in _ways_to_update(problem, _arithmetic(problem, sizes)):
        chunk = chunk_of(problem, sizes, arithmetic, available // parts, strategy="slab", fetch=fetch)
        if chunk is None:
            continue
        method = selection_method(board, chunk.row, itemsize, arithmetic, even=even)
        updates = _updates(problem, "slab", grid, chunk, arithmetic, sizes, method)
        buffers = buffers_of(problem, arithmetic, chunk)
        yield Candidate(
            strategy="slab",
            predicted_ps=predict_serial_ps(
                grid, _copy_stages(problem, sizes), rounds=updates, rounds_per_tile=chunk.count
            ),
            tasks=grid.tasks,
            operations=tiles * (2 + chunk.count * (3 + arithmetic.instructions(board))),
            split=_Split(
                tier=1 if sizes[first:] == shape[first:] else 2,
                sizes=sizes,
                nram_bytes=nram_bytes(board, [slab_bytes, *buffers]),
                details=partial(_slab_details, problem, chunk, arithmetic, method, sizes),
                parameters=LookupParameters(lookups=lookups, strategy="slab", arithmetic=arithmetic, method=method),
                regions=sizes,
                tile=math.prod(sizes),
                chunk=chunk,
            ),
        )


def _ways_to_update(problem: LookupProblem, arithmetic: IndexArithmetic) -> Iterator[tuple[IndexArithmetic, bool]]:
    """Yield the alternatives for addresses of updates in NRAM, and for fetching rows by list (`ways_to_read`)."""
    for fetch in ways_to_read(problem, arithmetic):
        yield arithmetic, fetch
    if not (problem.board.has_gather or problem.board.needs_aligned_vectors or arithmetic.narrowed):
        yield replace(arithmetic, numbered=True), False


def _slab_details(
    problem: LookupProblem, chunk: Chunk, arithmetic: IndexArithmetic, method: str, sizes: Extents
) -> tuple[str, ...]:
    box = f"a box {list(sizes)} of x: {group_digits(math.prod(sizes) * problem.itemsize)} B"
    return box, *details_of(problem, chunk, arithmetic, method)


def _row_candidates(problem: LookupProblem) -> Iterator[LookupCandidate]:
    board = problem.board
    shared_extents, indexed = _axes(problem)
    coordinates, indexed_size = math.prod(shared_extents), math.prod(indexed)
    for shared_limit in counts_to_hold(coordinates, [coordinates], board.cores):
        max_windows = min(ceil_div(board.cores, ceil_div(coordinates, shared_limit)), indexed_size)
        windows = 1
        while windows < 2 * max_windows:
            indexed_limit = ceil_div(indexed_size, min(windows, max_windows))
            yield from _row_candidate(
                problem, _sizes(problem, sizes_of_at_most(shared_extents, shared_limit), blocks(indexed, indexed_limit))
            )
            windows *= 2


def _row_candidate(problem: LookupProblem, regions: Extents, parts: int = 1) -> Iterator[LookupCandidate]:
    """Yield candidates with regions of x of these sizes, and 1/`parts` of NRAM for updates."""
    board, itemsize, lookups = problem.board, problem.itemsize, problem.lookups
    arithmetic = _arithmetic(problem, regions, in_whole=True)
    sizes = blocks(regions, buffer_bytes(board) // itemsize)
    staged = math.prod(sizes)
    tiles, count = count_boxes(regions, sizes), count_boxes(lookups.x_shape, regions)
    grid = Grid.of_unions(board, count)
    for fetch in ways_to_read(problem, arithmetic):
        chunk = chunk_of(problem, regions, arithmetic, board.nram_usable_bytes // parts, strategy="rows", fetch=fetch)
        if chunk is None:
            continue
        copy_stages = [stage * tiles for stage in _copy_stages(problem, sizes)]
        updates = _updates(problem, "rows", grid, chunk, arithmetic, regions, "")
        buffers = buffers_of(problem, arithmetic, chunk)
        yield Candidate(
            strategy="rows",
            predicted_ps=predict_serial_ps(grid, copy_stages, rounds=updates, rounds_per_tile=chunk.count),
            tasks=grid.tasks,
            operations=count * (2 * tiles + chunk.count * (3 + arithmetic.instructions(board))),
            split=_Split(
                tier=3,
                sizes=sizes,
                nram_bytes=max(nram_bytes(board, [staged * itemsize]), nram_bytes(board, buffers)),
                details=partial(details_of, problem, chunk, arithmetic, "a copy each"),
                parameters=LookupParameters(lookups=lookups, strategy="rows", arithmetic=arithmetic),
                regions=regions,
                tile=staged,
                chunk=chunk,
            ),
        )


def _copy_stages(problem: LookupProblem, sizes: Extents) -> tuple[Cost, Cost]:
    """Return the cost of loading and storing a box of x."""
    costs, shape, itemsize = Costs(problem.board), problem.lookups.x_shape, problem.itemsize
    return costs.box(LOAD, shape, sizes, itemsize), costs.box(STORE, shape, sizes, itemsize)


def _updates(
    problem: LookupProblem,
    strategy: str,
    grid: Grid,
    chunk: Chunk,
    arithmetic: IndexArithmetic,
    sizes: Extents,
    method: str,
) -> list[Cost]:
    """Return the cost of a chunk of updates for the busiest task, with the DRAM load of an average one.

    Evenly distributed index values still vary in number per window. The largest of k random counts with mean m is about
    m + sqrt(2 m ln k).
    """
    shape = problem.lookups.x_shape
    part = math.prod(sizes[axis] / shape[axis] for axis in problem.lookups.axes)
    selected = part * chunk.lookups_at_once * chunk.count * grid.most_tiles
    busiest = min(part * (1 + math.sqrt(2 * math.log(grid.tasks) / selected)), 1.0)
    busiest_costs, mean_costs = (
        update_stages(problem, strategy, chunk, arithmetic, share, method) for share in (busiest, part)
    )
    return [cost.with_dram_of(other) for cost, other in zip(busiest_costs, mean_costs, strict=True)]


def _axes(problem: LookupProblem) -> tuple[Extents, Extents]:
    """Return the extents of the shared and of the indexed axes of x, in its order."""
    shape, indexed = problem.lookups.x_shape, set(problem.lookups.axes)
    return (
        tuple(extent for axis, extent in enumerate(shape) if axis not in indexed),
        tuple(extent for axis, extent in enumerate(shape) if axis in indexed),
    )


def _sizes(problem: LookupProblem, shared_sizes: Extents, indexed_sizes: Extents) -> Extents:
    """Merge sizes of the shared and of the indexed axes into sizes along the axes of x."""
    shared_iterator, indexed_iterator = iter(shared_sizes), iter(indexed_sizes)
    indexed_axes = set(problem.lookups.axes)
    return tuple(
        next(indexed_iterator if axis in indexed_axes else shared_iterator)
        for axis in range(len(problem.lookups.x_shape))
    )


def _arithmetic(problem: LookupProblem, sizes: Extents, *, in_whole: bool = False) -> IndexArithmetic:
    """Return the address arithmetic for boxes of these sizes; `in_whole`: rows are numbered in all of x."""
    lookups = problem.lookups
    positional = any(to is not None and (in_whole or sizes[to] > 1) for to in lookups.x_axes[: len(lookups.positions)])
    return problem.arithmetic(
        positional=positional, narrowed=sum(sizes[axis] < lookups.x_shape[axis] for axis in lookups.axes)
    )

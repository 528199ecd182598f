"""The planner of gather and gather_nd.

slab   A core loads the slab of x that a tile's index can address and selects within NRAM. Tier 1 where a unit, that is
       the slab and the lookups of one coordinate of the leading tied axes, goes whole; tier 2 where it is cut, along
       the lookups or along tied axes further in, which makes the slab smaller.
rows   A core goes to GDRAM for each lookup: for its row, as long as it is contiguous, or its one element. Tier 3, and
       the only one where the indexed axes by themselves are larger than NRAM.

Which it is, is decided by predicted time (`mlusim.planning.lookup_cost`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from mlusim.planning.cost import Cost, move_ps
from mlusim.planning.index_arithmetic import LOADED_REPEATS, IndexArithmetic
from mlusim.planning.lookup import (
    Job,
    LookupCandidate,
    LookupParameters,
    LookupSplit,
    choose,
    counts_to_hold,
    leading,
    nothing_to_do,
    nram_bytes,
    unit_elements,
    unit_words,
)
from mlusim.planning.lookup_cost import (
    INSTRUCTION,
    LOAD,
    STORE,
    Costs,
    scalar_address,
    selection_method,
)
from mlusim.planning.lookup_geometry import ROUNDS, Extents, blocks, sizes_of_at_most, spread
from mlusim.planning.plan import Plan
from mlusim.planning.prediction import Grid, predict_serial_ps
from mlusim.planning.search import Candidate, rooms
from mlusim.planning.split import boxes, cut, in_runs, run_lengths, union1_launch
from mlusim.planning.tiles import Tiles
from mlusim.units import ceil_div, group_digits

STRATEGIES: dict[str, str] = {
    "auto": "what is predicted to be fastest",
    "slab": "load what the index can address, select within NRAM",
    "rows": "go to GDRAM for each lookup",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherParameters(LookupParameters):
    """What the kernels of gather need in addition to the tiles.

    Attributes:
        slab, values, lookups_at_once: elements of the largest slab and of the values of a tile, and its lookups.
    """

    slab: int = 0
    values: int
    lookups_at_once: int


def plan_gather(job: Job) -> Plan:
    """Split one gather. The index values play no part: the kernel reads them on the board.

    Raises `PlanError` where neither way fits in the NRAM of the board, or not the one requested.
    """
    lookups, board = job.lookups, job.board
    shape = lookups.value_shape
    if 0 in shape:
        return nothing_to_do(job, shape)
    found = list(_slab_candidates(job))
    if lookups.columns:
        found += _row_candidates(job)
    candidate, reason = choose(job, found)
    chosen = candidate.split
    start, stop = boxes([cut(extent, size) for extent, size in zip(shape, chosen.sizes, strict=True)], chosen.order)
    kind, dim = union1_launch(board, len(start))
    tasks = min(dim[0] * dim[1], len(start))
    return Plan(
        operator=job.operator,
        strategy=candidate.strategy,
        board=board,
        tier=chosen.tier,
        reason=reason,
        arithmetic=(*chosen.words(), f"{_n(len(start))} tiles of up to {list(chosen.sizes)}, in runs of neighbours"),
        unit=unit_words(lookups),
        unit_bytes=unit_elements(lookups) * job.itemsize,
        kind=kind,
        dim=dim,
        output_shape=shape,
        itemsize=job.itemsize,
        tiles=Tiles(in_runs(len(start), tasks), start, stop, chosen.nram_bytes),
        nram_bytes=chosen.nram_bytes,
        parameters=chosen.parameters,
        predicted_ps=candidate.predicted_ps,
    )


def _slab_candidates(job: Job) -> Iterator[LookupCandidate]:
    lookups, board = job.lookups, job.board
    shape = lookups.value_shape
    tied_extents = tuple(shape[axis] for axis in lookups.tied)
    free_extents = tuple(shape[axis] for axis in lookups.free)
    each = max(lookups.slab_elements * job.itemsize, 1)
    placed = bool(lookups.tied_positions)
    beside = job.itemsize + (
        sum(job.arithmetic(positional=True).buffer_bytes(board, job.index_itemsize)) if placed else 0
    )
    # As much as fits beside a quarter for the lookups, and as much as fits with all lookups of the slab.
    most = [
        limit
        for room in rooms(board.nram_usable_bytes)
        for limit in (room * 3 // 4 // each, room // (each + math.prod(free_extents) * beside))
    ]
    tied = {
        sizes
        for limit in counts_to_hold(math.prod(tied_extents), most, board.cores)
        if (sizes := _tied_sizes_that_fit(job, tied_extents, limit)) is not None
    }
    # Sizes at most a limit are rounded down, which may leave a slab more than there are cores; these are rounded up.
    tied |= {sizes for sizes in spread(tied_extents, max(*most, 1), board.cores) if _room_beside(job, sizes)}
    for tied_sizes in sorted(tied):
        slabs = math.prod(ceil_div(extent, size) for extent, size in zip(tied_extents, tied_sizes, strict=True))
        for sizes in sorted(spread(free_extents, _room_beside(job, tied_sizes), ceil_div(board.cores, slabs))):
            yield _slab_candidate(job, tied_sizes, sizes)


def _tied_sizes_that_fit(job: Job, extents: Extents, limit: int) -> Extents | None:
    """Sizes of at most `limit` coordinates, or of half as many and so on, until lookups fit beside the slab."""
    while limit:
        sizes = sizes_of_at_most(extents, limit)
        if _room_beside(job, sizes):
            return sizes
        limit //= 2
    return None


def _tied_positions(job: Job, tied_sizes: Extents) -> int:
    """Coordinates of a tile on the tied axes that are axes of the index."""
    lookups = job.lookups
    return math.prod(
        size for axis, size in zip(lookups.tied, tied_sizes, strict=True) if axis in lookups.tied_positions
    )


def _arithmetic(job: Job, tied_sizes: Extents) -> IndexArithmetic:
    """Within a slab the place of a lookup counts where a tile has several coordinates of tied axes of the index."""
    return job.arithmetic(positional=_tied_positions(job, tied_sizes) > 1)


def _buffers(job: Job, arithmetic: IndexArithmetic, values: int, lookups_at_once: int) -> list[int]:
    """Buffers of a tile: its values and what becomes of its index."""
    each = arithmetic.buffer_bytes(job.board, job.index_itemsize)
    return [values * job.itemsize, *(lookups_at_once * nbytes for nbytes in each)] if job.lookups.columns else []


def _room_beside(job: Job, tied_sizes: Extents) -> int:
    """Coordinates of the free axes that a tile may have beside its slab; 0: none fits."""
    lookups, board = job.lookups, job.board
    slab_bytes = nram_bytes(board, [lookups.slab_elements * math.prod(tied_sizes) * job.itemsize])
    if slab_bytes > board.nram_usable_bytes:
        return 0
    if not lookups.columns:
        return max(math.prod(lookups.positions), 1)
    lookups_at_once = _tied_positions(job, tied_sizes)
    each = _buffers(job, _arithmetic(job, tied_sizes), math.prod(tied_sizes), lookups_at_once)
    rounding = len(each) * (board.vector_alignment_bytes - 1)
    return max(board.nram_usable_bytes - slab_bytes - rounding, 0) // sum(each)


def _slab_candidate(job: Job, tied_sizes: Extents, free_sizes: Extents) -> LookupCandidate:
    lookups, board = job.lookups, job.board
    shape, itemsize = lookups.value_shape, job.itemsize
    slabs = math.prod(ceil_div(shape[axis], size) for axis, size in zip(lookups.tied, tied_sizes, strict=True))
    free_extents = tuple(shape[axis] for axis in lookups.free)
    size_of = dict(zip((*lookups.tied, *lookups.free), (*tied_sizes, *free_sizes), strict=True))
    sizes = tuple(size_of[axis] for axis in range(len(shape)))
    positions = sizes[: len(lookups.positions)]
    arithmetic = _arithmetic(job, tied_sizes)
    values, lookups_at_once = math.prod(sizes), math.prod(positions)
    row = values // lookups_at_once
    slab_box = lookups.slab_of((0,) * len(shape), sizes)[1]
    rank = len(lookups.positions)
    even = all(extent % size == 0 for extent, size in zip(shape[rank:], sizes[rank:], strict=True))
    method = selection_method(board, row, itemsize, arithmetic, even=even)
    parts = math.prod(ceil_div(extent, size) for extent, size in zip(free_extents, free_sizes, strict=True))
    tiles = slabs * parts
    tasks = min(board.cores, tiles)
    each_task = ceil_div(tiles, tasks)
    costs = Costs(board)
    load = costs.box(LOAD, lookups.x_shape, slab_box, itemsize)
    # The first tile of each task has to load a slab, and each of the others some part of one, on average.
    most, loads = _slab_loads(tiles, tasks, parts)
    stages = [(load * ((most - 1) / each_task)).with_dram_of(load * ((loads - tasks) / tiles))]
    if lookups.columns:
        stages += _index_stages(job, costs, positions)
        stages.append(
            costs.select_at_once(row, itemsize, lookups_at_once, arithmetic)
            if method == INSTRUCTION
            else costs.select(
                method, row, itemsize, lookups_at_once, lookups_at_once, scalar_address(board, arithmetic)
            )
        )
    stages.append(costs.box(STORE, shape, sizes, itemsize))
    first = len(leading(lookups))
    whole = all(size == extent for size, extent in zip(sizes[first:], shape[first:], strict=True))
    slab_bytes = math.prod(slab_box) * itemsize
    buffers = _buffers(job, arithmetic, values, lookups_at_once)

    def words() -> tuple[str, ...]:
        return (
            (
                f"slab {list(slab_box)} of x: {_n(slab_bytes)} B; beside it {_n(lookups_at_once)} lookups of "
                f"{_n(row)} values: {_n(values * itemsize)} B and {_n(sum(buffers[1:]))} B of index"
            ),
            f"selected by {method}" if lookups.columns else "stored as it is",
        )

    return Candidate(
        strategy="slab",
        predicted_ps=predict_serial_ps(Grid(board=board, tiles=tiles, tasks=tasks, union=True), stages, before=[load]),
        tasks=tasks,
        tiles=tiles,
        split=LookupSplit(
            tier=1 if whole else 2,
            sizes=sizes,
            nram_bytes=nram_bytes(board, [slab_bytes, *buffers]),
            order=(*lookups.tied, *lookups.free),
            words=words,
            parameters=GatherParameters(
                lookups=lookups,
                strategy="slab",
                arithmetic=arithmetic,
                method=method,
                slab=slab_bytes // itemsize,
                values=values,
                lookups_at_once=lookups_at_once,
            ),
        ),
    )


def _slab_loads(tiles: int, tasks: int, parts: int) -> tuple[int, int]:
    """Slabs that a task with the most tiles loads, at most, and that all tasks load.

    Tasks take runs of tiles, and `parts` tiles in a row have the same slab. A task that begins within one loads it.
    """
    runs = run_lengths(tiles, tasks)
    stop = np.cumsum(runs)
    loads = (stop - 1) // parts - (stop - runs) // parts + 1
    return int(loads[runs == runs.max()].max()), int(loads.sum())


def _index_stages(job: Job, costs: Costs, sizes: Extents) -> list[Cost]:
    """The index of a tile comes into NRAM; where it repeats it is loaded once, and repeated there."""
    lookups, columns = job.lookups, job.lookups.columns
    shared = lookups.batch_dims if job.repeats else 0
    load = costs.box(LOAD, (*lookups.positions[shared:], columns), (*sizes[shared:], columns), job.index_itemsize)
    repeats = math.prod(sizes[:shared])
    if repeats <= LOADED_REPEATS:
        return [load * repeats]
    nbytes = (repeats - 1) * math.prod(sizes[shared:]) * columns * job.index_itemsize
    return [load, Cost(move_ps(costs.board, nbytes))]


def _row_candidates(job: Job) -> Iterator[LookupCandidate]:
    lookups, board, itemsize = job.lookups, job.board, job.itemsize
    arithmetic = job.arithmetic(positional=lookups.aligned or bool(lookups.tied_positions))
    each = arithmetic.buffer_bytes(board, job.index_itemsize)
    room = board.nram_usable_bytes - (len(each) + 1) * (board.vector_alignment_bytes - 1)
    most, positions = max((room - sum(each)) // itemsize, 1), math.prod(lookups.positions)
    # Fewer lookups than cores leave cores to parts of a row.
    fewest = [board.cores * rounds // positions for rounds in ROUNDS if positions < board.cores]
    parts = {count for least in fewest for count in (least, least + 1)}
    evenly = {ceil_div(math.prod(lookups.row_shape), count) for count in parts}
    for row_sizes in sorted({blocks(lookups.row_shape, limit) for limit in {most} | {s for s in evenly if s < most}}):
        fits = room // (sum(each) + math.prod(row_sizes) * itemsize)
        chunks = math.prod(ceil_div(e, s) for e, s in zip(lookups.row_shape, row_sizes, strict=True))
        wanted = max(board.cores // chunks, 1)
        found = {sizes for room in rooms(fits) for sizes in spread(lookups.positions, room, wanted)} if fits else set()
        for position_sizes in sorted(found):
            yield _row_candidate(job, arithmetic, position_sizes, row_sizes)


def _row_candidate(
    job: Job, arithmetic: IndexArithmetic, position_sizes: Extents, row_sizes: Extents
) -> LookupCandidate:
    lookups, board, itemsize = job.lookups, job.board, job.itemsize
    row, sizes = math.prod(row_sizes), position_sizes + row_sizes
    lookups_at_once = math.prod(position_sizes)
    shape = lookups.value_shape
    tiles = math.prod(ceil_div(extent, size) for extent, size in zip(shape, sizes, strict=True))
    tasks = min(board.cores, tiles)
    costs = Costs(board)
    stages = (
        *_index_stages(job, costs, position_sizes),
        costs.rows_at_once(LOAD, row * itemsize, lookups_at_once, arithmetic)
        if board.has_gather
        else costs.rows(LOAD, row * itemsize, lookups_at_once, address=scalar_address(board, arithmetic)),
        costs.box(STORE, shape, sizes, itemsize),
    )
    buffers = _buffers(job, arithmetic, lookups_at_once * row, lookups_at_once)

    def words() -> tuple[str, ...]:
        return (
            (
                f"a row of {_n(math.prod(lookups.row_shape))} values, {_n(row)} at once; "
                f"{_n(lookups_at_once)} lookups: "
                f"{_n(lookups_at_once * row * itemsize)} B and {_n(sum(buffers[1:]))} B of index"
            ),
            "by the gather instruction" if board.has_gather else "by a copy each",
        )

    return Candidate(
        strategy="rows",
        predicted_ps=predict_serial_ps(Grid(board=board, tiles=tiles, tasks=tasks, union=True), stages),
        tasks=tasks,
        tiles=tiles,
        split=LookupSplit(
            tier=3,
            sizes=sizes,
            nram_bytes=nram_bytes(board, buffers),
            order=tuple(range(len(shape))),
            words=words,
            parameters=GatherParameters(
                lookups=lookups,
                strategy="rows",
                arithmetic=arithmetic,
                values=lookups_at_once * row,
                lookups_at_once=lookups_at_once,
            ),
        ),
    )


_n: Callable[[int], str] = group_digits

"""How scatter and scatter_nd are split: by what they write, so that each place has one core and keeps the last update.

slab   A core loads a box of x, lets the updates that reach it happen in NRAM, and stores it. Tier 1 where a unit, that
       is all of the indexed axes at one coordinate of the leading tied ones, stays whole; tier 2 where it is cut, along
       tied axes further in, or along indexed axes: then a core reads updates that are not for it, and leaves them out.
rows   A core copies its region of x to the output and lets each update happen in GDRAM. Tier 3. Regions are boxes of
       tied axes, and windows of indexed axes where there are fewer of those than cores.

Which it is, is decided by predicted time (`mlusim.kernels.lookup_cost`), index values taken to be spread evenly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from mlusim.kernels.index_tiles import IndexForm
from mlusim.kernels.indexing import Extents, blocks
from mlusim.kernels.lookup_cost import LOAD, STORE, box_cost, how_to_select, predict, rows_ps, select_ps
from mlusim.kernels.lookup_plan import (
    Candidate,
    Job,
    choose,
    empty_plan,
    even_size,
    leading,
    nram_bytes,
    unit_elements,
    unit_words,
)
from mlusim.kernels.plan import Plan, Tiles
from mlusim.kernels.split import Integers, boxes, cut, in_turn, union1_launch
from mlusim.units import ceil_div, group_digits

STRATEGIES: dict[str, str] = {
    "auto": "what is predicted to be fastest",
    "slab": "update boxes of the output within NRAM",
    "rows": "copy x, then go to GDRAM for each update",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """What a core takes of the updates at once.

    Attributes:
        sizes: values along each axis, at most.
        turns, row: lookups, and values of each.
        count: chunks of a region, at most.
    """

    sizes: Extents
    turns: int
    row: int
    count: int


def plan_scatter(job: Job) -> Plan:
    """Split one scatter. The index values play no part: the kernel reads them on the board.

    Raises `PlanError` where neither way fits in the NRAM of the board, or not the one asked for.
    """
    lookups, board = job.lookups, job.board
    shape = lookups.x_shape
    if 0 in shape:
        return empty_plan(job, shape, f"the output {list(shape)} has no elements and nothing is launched")
    if lookups.columns and 0 not in lookups.value_shape:
        chosen, reason = choose(job, [*_slab_candidates(job), *_row_candidates(job)])
    else:
        chosen = _copy_candidate(job)
        reason = (
            "an index without columns chooses nothing: src replaces what it covers"
            if 0 not in lookups.value_shape
            else "there are no updates: x is copied"
        )
    start, stop = _grid(shape, chosen.sizes)
    regions: Extents = chosen.parameters["regions"]
    region_start, region_stop = _grid(shape, regions)
    kind, dim = union1_launch(board, len(region_start))
    tasks = in_turn(np.prod(region_stop - region_start, axis=1), min(dim[0] * dim[1], len(region_start)))
    owner = _region_of(start, shape, regions)
    order = np.argsort(owner, kind="stable")
    return Plan(
        operator=job.operator,
        strategy=job.strategy,
        board=board,
        tier=chosen.tier,
        reason=reason,
        arithmetic=(
            *chosen.arithmetic,
            f"{_n(len(region_start))} regions of up to {list(regions)}, which tasks take in turn",
            f"{_n(len(start))} tiles of up to {list(chosen.sizes)}",
        ),
        unit=unit_words(lookups),
        unit_bytes=unit_elements(lookups) * job.itemsize,
        kind=kind,
        dim=dim,
        output_shape=shape,
        itemsize=job.itemsize,
        tiles=Tiles(tasks[owner][order], start[order], stop[order], chosen.nram_bytes),
        nram_bytes=chosen.nram_bytes,
        parameters={
            **chosen.parameters,
            "lookups": lookups,
            "regions": Tiles(tasks, region_start, region_stop, chosen.nram_bytes),
        },
        predicted_ps=chosen.predicted_ps,
    )


def _grid(shape: Extents, sizes: Extents) -> tuple[Integers, Integers]:
    """Boxes of these sizes, in row-major order."""
    cuts = [cut(extent, size) for extent, size in zip(shape, sizes, strict=True)]
    return boxes(cuts, range(len(shape)))


def _region_of(start: Integers, shape: Extents, regions: Extents) -> Integers:
    """The region that each tile lies in, by the place of its first corner."""
    number = np.zeros(len(start), np.int64)
    for axis, (extent, size) in enumerate(zip(shape, regions, strict=True)):
        number = number * ceil_div(extent, size) + start[:, axis] // size
    return number


def _copy_candidate(job: Job) -> Candidate:
    """No address to work out: tiles that fill NRAM, or as many as cores."""
    board, shape = job.board, job.lookups.x_shape
    elements = math.prod(shape)
    limit = min(board.nram_usable_bytes // job.itemsize, ceil_div(elements, board.cores))
    sizes = blocks(shape, limit)
    tiles = _boxes_in(shape, sizes)
    both = [box_cost(board, direction, shape, sizes, job.itemsize) for direction in (LOAD, STORE)]
    busy_ps = ceil_div(tiles, board.cores) * sum(cost.alone_ps for cost in both)
    return Candidate(
        strategy="slab",
        tier=1 if tiles <= 1 or elements * job.itemsize <= board.nram_usable_bytes else 2,
        sizes=sizes,
        tiles=tiles,
        predicted_ps=predict(board, busy_ps, tiles * sum(cost.work for cost in both)),
        nram_bytes=nram_bytes(board, [math.prod(sizes) * job.itemsize]),
        arithmetic=(f"{_n(limit)} elements at once: NRAM, or an equal share of each core",),
        order=(),
        parameters={"strategy": "slab", "regions": sizes, "tile": math.prod(sizes), "chunk": None},
    )


def _slab_candidates(job: Job) -> Iterator[Candidate]:
    lookups, board = job.lookups, job.board
    tied, indexed = _axes(job)
    coordinates, each = math.prod(tied), lookups.slab_elements
    most = max(board.nram_usable_bytes * 3 // 4 // job.itemsize, 1)
    whole = max(min(most // each, coordinates), 1)
    tied_limits = {whole, even_size(coordinates, whole, board.cores)}
    for tied_limit in sorted(tied_limits):
        fewest = ceil_div(each * tied_limit, most)
        regions = ceil_div(coordinates, tied_limit)
        for windows in sorted({fewest, max(fewest, ceil_div(board.cores, regions))}):
            tied_left, indexed_left = tied_limit, ceil_div(each, windows)
            while tied_left:
                candidate = _slab_candidate(job, blocks(tied, tied_left), blocks(indexed, indexed_left))
                if candidate:
                    yield candidate
                    break
                # Halve the box of x until a lookup fits beside it.
                tied_left, indexed_left = (
                    (tied_left // 2, indexed_left) if tied_left > 1 else (int(indexed_left > 1), indexed_left // 2)
                )


def _slab_candidate(job: Job, tied_sizes: Extents, indexed_sizes: Extents) -> Candidate | None:
    board, itemsize, lookups = job.board, job.itemsize, job.lookups
    shape = lookups.x_shape
    sizes = _sizes(job, tied_sizes, indexed_sizes)
    slab_bytes = math.prod(sizes) * itemsize
    form = _form(job, sizes)
    chunk = _chunk(job, sizes, form, board.nram_usable_bytes - nram_bytes(board, [slab_bytes]), whole_rows=True)
    if chunk is None:
        return None
    how = how_to_select(board, chunk.row, itemsize, form)
    tiles = _boxes_in(shape, sizes)
    kept = math.prod(sizes[axis] / shape[axis] for axis in lookups.axes)
    load, store = (box_cost(board, direction, shape, sizes, itemsize) for direction in (LOAD, STORE))
    reading_ps, reading_work = _reading(job, chunk)
    update_ps = reading_ps + select_ps(board, how, chunk.row, itemsize, chunk.turns, kept, form)
    each_task = ceil_div(tiles, min(board.cores, tiles))
    busy_ps = each_task * (load.alone_ps + store.alone_ps + chunk.count * update_ps)
    buffers = _buffers(job, form, chunk)
    first = len(leading(lookups))
    return Candidate(
        strategy="slab",
        tier=1 if sizes[first:] == shape[first:] else 2,
        sizes=sizes,
        tiles=tiles * (2 + 3 * chunk.count),
        predicted_ps=predict(board, busy_ps, tiles * (load.work + store.work + chunk.count * reading_work)),
        nram_bytes=nram_bytes(board, [slab_bytes, *buffers]),
        arithmetic=(
            f"a box {list(sizes)} of x: {_n(slab_bytes)} B",
            _words(chunk, buffers),
            f"{_n(chunk.count)} chunks of updates for each box, by {how}; {100 * kept:.3g} % of them are for it",
        ),
        order=(),
        parameters={
            "strategy": "slab",
            "regions": sizes,
            "tile": math.prod(sizes),
            "form": form,
            "how": how,
            "chunk": chunk,
        },
    )


def _row_candidates(job: Job) -> Iterator[Candidate]:
    board = job.board
    tied, indexed = _axes(job)
    coordinates, each = math.prod(tied), math.prod(indexed)
    for tied_limit in sorted({even_size(coordinates, ceil_div(coordinates, board.cores), board.cores), coordinates}):
        most = min(ceil_div(board.cores, ceil_div(coordinates, tied_limit)), each)
        windows = 1
        while windows < 2 * most:
            yield from _row_candidate(
                job, blocks(tied, tied_limit), blocks(indexed, ceil_div(each, min(windows, most)))
            )
            windows *= 2


def _row_candidate(job: Job, tied_sizes: Extents, indexed_sizes: Extents) -> Iterator[Candidate]:
    board, itemsize, lookups = job.board, job.itemsize, job.lookups
    shape = lookups.x_shape
    regions = _sizes(job, tied_sizes, indexed_sizes)
    form = _form(job, regions, in_whole=True)
    chunk = _chunk(job, regions, form, board.nram_usable_bytes, whole_rows=False)
    if chunk is None:
        return
    sizes = blocks(regions, board.nram_usable_bytes // itemsize)
    staged = math.prod(sizes)
    tiles = _boxes_in(regions, sizes)
    kept = math.prod(regions[axis] / shape[axis] for axis in lookups.axes)
    load, store = (box_cost(board, direction, shape, sizes, itemsize) for direction in (LOAD, STORE))
    reading_ps, reading_work = _reading(job, chunk)
    rows = rows_ps(board, STORE, chunk.row * itemsize, chunk.turns, kept, form)
    vectors_ps = board.cycles_ps(form.vector_cycles(board, chunk.turns)) if board.has_gather else 0
    region_ps = tiles * (load.alone_ps + store.alone_ps) + chunk.count * (reading_ps + rows.alone_ps + vectors_ps)
    count = _boxes_in(shape, regions)
    work = count * (tiles * (load.work + store.work) + chunk.count * (reading_work + rows.work))
    buffers = _buffers(job, form, chunk)
    yield Candidate(
        strategy="rows",
        tier=3,
        sizes=sizes,
        tiles=count * (2 * tiles + 3 * chunk.count),
        predicted_ps=predict(board, ceil_div(count, min(board.cores, count)) * region_ps, work),
        nram_bytes=max(nram_bytes(board, [staged * itemsize]), nram_bytes(board, buffers)),
        arithmetic=(
            _words(chunk, buffers),
            f"{_n(chunk.count)} chunks of updates for each region, {100 * kept:.3g} % of them for it, "
            + ("by the scatter instruction" if board.has_gather else "by a copy each"),
        ),
        order=(),
        parameters={
            "strategy": "rows",
            "regions": regions,
            "tile": staged,
            "form": form,
            "chunk": chunk,
            # Updates happen in GDRAM, over the copy of x.
            "rewrites": True,
        },
    )


def _axes(job: Job) -> tuple[Extents, Extents]:
    """Extents of the tied and of the indexed axes of x, in its order."""
    shape, indexed = job.lookups.x_shape, set(job.lookups.axes)
    return (
        tuple(extent for axis, extent in enumerate(shape) if axis not in indexed),
        tuple(extent for axis, extent in enumerate(shape) if axis in indexed),
    )


def _sizes(job: Job, tied_sizes: Extents, indexed_sizes: Extents) -> Extents:
    """Sizes along the axes of x from those of its tied and its indexed axes."""
    tied, indexed = iter(tied_sizes), iter(indexed_sizes)
    chosen = set(job.lookups.axes)
    return tuple(next(indexed if axis in chosen else tied) for axis in range(len(job.lookups.x_shape)))


def _form(job: Job, sizes: Extents, *, in_whole: bool = False) -> IndexForm:
    """What boxes of these sizes make of the index; `in_whole`: addressed in all of x."""
    lookups = job.lookups
    tied = any(to is not None and (in_whole or sizes[to] > 1) for to in lookups.tied_to[: len(lookups.positions)])
    return job.form(positional=tied, narrowed=sum(sizes[axis] < lookups.x_shape[axis] for axis in lookups.axes))


def _chunk(job: Job, sizes: Extents, form: IndexForm, room: int, *, whole_rows: bool) -> Chunk | None:
    """The most updates of a box of x that NRAM takes at once; None where not one row fits."""
    lookups, board = job.lookups, job.board
    extents = lookups.values_of((0,) * len(sizes), sizes)[1]
    rank = len(lookups.positions)
    each = form.buffer_bytes(board, job.index_itemsize)
    left = room - (len(each) + 1) * (board.vector_alignment_bytes - 1)
    rows = extents[rank:]
    row_sizes = rows if whole_rows else blocks(rows, max((left - sum(each)) // job.itemsize, 1))
    row = math.prod(row_sizes)
    fits = left // (sum(each) + row * job.itemsize)
    if fits < 1:
        return None
    tied = tuple(axis for axis in lookups.tied if axis < rank)
    tied_sizes = blocks(tuple(extents[axis] for axis in tied), fits)
    free_sizes = blocks(tuple(extents[axis] for axis in lookups.free), fits // math.prod(tied_sizes))
    size_of = dict(zip((*tied, *lookups.free), (*tied_sizes, *free_sizes), strict=True))
    turns = math.prod(size_of.values())
    chosen = (*(size_of[axis] for axis in range(rank)), *row_sizes)
    return Chunk(sizes=chosen, turns=turns, row=row, count=_boxes_in(extents, chosen))


def _buffers(job: Job, form: IndexForm, chunk: Chunk) -> list[int]:
    each = form.buffer_bytes(job.board, job.index_itemsize)
    return [chunk.turns * chunk.row * job.itemsize, *(chunk.turns * nbytes for nbytes in each)]


def _words(chunk: Chunk, buffers: list[int]) -> str:
    values, index = _n(buffers[0]), _n(sum(buffers[1:]))
    return f"{_n(chunk.turns)} lookups of {_n(chunk.row)} values at once: {values} B and {index} B of index"


def _reading(job: Job, chunk: Chunk) -> tuple[int, float]:
    """Time and DRAM work of loading the index and the values of a chunk."""
    lookups, board = job.lookups, job.board
    rank, columns = len(lookups.positions), lookups.columns
    index = box_cost(board, LOAD, (*lookups.positions, columns), (*chunk.sizes[:rank], columns), job.index_itemsize)
    values = box_cost(board, LOAD, lookups.value_shape, chunk.sizes, job.itemsize)
    return index.alone_ps + values.alone_ps, index.work + values.work


def _boxes_in(shape: Extents, sizes: Extents) -> int:
    return math.prod(ceil_div(extent, size) for extent, size in zip(shape, sizes, strict=True))


_n: Callable[[int], str] = group_digits

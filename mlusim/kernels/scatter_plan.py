"""How scatter and scatter_nd are split: by what they write, so that each place has one core and keeps the last update.

slab   A core loads a box of x, lets the updates that reach it happen in NRAM, and stores it. Tier 1 where a unit, that
       is all of the indexed axes at one coordinate of the leading tied ones, stays whole; tier 2 where it is cut.
rows   A core copies its region of x to the output and lets each update happen in GDRAM. Tier 3.

Boxes and regions are parts of tied axes, and windows of indexed axes where those are too few or too large. A core with
a window reads all the index that may concern it and leaves out what does not: from arch 300 on by vector instructions,
which give lists of the updates for it, before in the scalar loop. In standard mode it may then fetch the rows that are
listed, instead of all.

Which it is, is decided by predicted time (`mlusim.kernels.lookup_cost`), index values taken to be spread evenly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from mlusim.kernels.index_tiles import IndexForm
from mlusim.kernels.indexing import Extents, blocks
from mlusim.kernels.lookup_cost import LOAD, STORE, Costs, Spent, how_to_select, predict, scalar_address
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
        fetch: whether rows are fetched by list, instead of all of src.
        held: lookups whose values NRAM holds at once.
    """

    sizes: Extents
    turns: int
    row: int
    count: int
    fetch: bool
    held: int


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
            # The rows of x are stored first, and those that are looked up again over them.
            "rewrites": chosen.parameters["strategy"] == "rows",
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
    spent = _copied(job, Costs(board, min(tiles, board.cores)), sizes)
    return Candidate(
        strategy="slab",
        tier=1 if tiles <= 1 or elements * job.itemsize <= board.nram_usable_bytes else 2,
        sizes=sizes,
        tiles=tiles,
        predicted_ps=predict(board, Spent(ceil_div(tiles, board.cores) * spent.time_ps, tiles * spent.work)),
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
                found = list(_slab_candidate(job, blocks(tied, tied_left), blocks(indexed, indexed_left)))
                yield from found
                if found:
                    break
                # Halve the box of x until a lookup fits beside it.
                tied_left, indexed_left = (
                    (tied_left // 2, indexed_left) if tied_left > 1 else (int(indexed_left > 1), indexed_left // 2)
                )


def _slab_candidate(job: Job, tied_sizes: Extents, indexed_sizes: Extents) -> Iterator[Candidate]:
    board, itemsize, lookups = job.board, job.itemsize, job.lookups
    shape = lookups.x_shape
    sizes = _sizes(job, tied_sizes, indexed_sizes)
    slab_bytes = math.prod(sizes) * itemsize
    form = _form(job, sizes)
    room = board.nram_usable_bytes - nram_bytes(board, [slab_bytes])
    tiles = _boxes_in(shape, sizes)
    costs = Costs(board, min(board.cores, tiles))
    first = len(leading(lookups))
    for fetch in _ways_to_read(job, form):
        chunk = _chunk(job, sizes, form, room, strategy="slab", fetch=fetch)
        if chunk is None:
            continue
        how = how_to_select(board, chunk.row, itemsize, form)
        spent = (
            _copied(job, costs, sizes) + _updated(job, "slab", costs, chunk, form, _kept(job, sizes), how) * chunk.count
        )
        buffers = _buffers(job, form, chunk)
        yield Candidate(
            strategy="slab",
            tier=1 if sizes[first:] == shape[first:] else 2,
            sizes=sizes,
            tiles=tiles * (2 + 3 * chunk.count),
            predicted_ps=predict(board, Spent(ceil_div(tiles, costs.tasks) * spent.time_ps, tiles * spent.work)),
            nram_bytes=nram_bytes(board, [slab_bytes, *buffers]),
            arithmetic=(f"a box {list(sizes)} of x: {_n(slab_bytes)} B", *_words(job, chunk, form, buffers, how)),
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
            indexed_limit = ceil_div(each, min(windows, most))
            yield from _row_candidate(job, blocks(tied, tied_limit), blocks(indexed, indexed_limit))
            windows *= 2


def _row_candidate(job: Job, tied_sizes: Extents, indexed_sizes: Extents) -> Iterator[Candidate]:
    board, itemsize, lookups = job.board, job.itemsize, job.lookups
    shape = lookups.x_shape
    regions = _sizes(job, tied_sizes, indexed_sizes)
    form = _form(job, regions, in_whole=True)
    sizes = blocks(regions, board.nram_usable_bytes // itemsize)
    staged = math.prod(sizes)
    tiles, count = _boxes_in(regions, sizes), _boxes_in(shape, regions)
    costs = Costs(board, min(board.cores, count))
    for fetch in _ways_to_read(job, form):
        chunk = _chunk(job, regions, form, board.nram_usable_bytes, strategy="rows", fetch=fetch)
        if chunk is None:
            continue
        updates = _updated(job, "rows", costs, chunk, form, _kept(job, regions), "")
        spent = _copied(job, costs, sizes) * tiles + updates * chunk.count
        buffers = _buffers(job, form, chunk)
        yield Candidate(
            strategy="rows",
            tier=3,
            sizes=sizes,
            tiles=count * (2 * tiles + 3 * chunk.count),
            predicted_ps=predict(board, Spent(ceil_div(count, costs.tasks) * spent.time_ps, count * spent.work)),
            nram_bytes=max(nram_bytes(board, [staged * itemsize]), nram_bytes(board, buffers)),
            arithmetic=_words(job, chunk, form, buffers, "a copy each"),
            order=(),
            parameters={
                "strategy": "rows",
                "regions": regions,
                "tile": staged,
                "form": form,
                "chunk": chunk,
            },
        )


def _copied(job: Job, costs: Costs, sizes: Extents) -> Spent:
    """A box of x into NRAM and out again."""
    shape, itemsize = job.lookups.x_shape, job.itemsize
    return costs.box(LOAD, shape, sizes, itemsize) + costs.box(STORE, shape, sizes, itemsize)


def _updated(job: Job, strategy: str, costs: Costs, chunk: Chunk, form: IndexForm, part: float, how: str) -> Spent:
    """A chunk of updates, `part` of which are kept; how: values are copied within NRAM."""
    lookups, board, itemsize = job.lookups, job.board, job.itemsize
    rank, columns = len(lookups.positions), lookups.columns
    row_bytes = chunk.row * itemsize
    spent = costs.box(LOAD, (*lookups.positions, columns), (*chunk.sizes[:rank], columns), job.index_itemsize)
    if not chunk.fetch:
        spent += costs.box(LOAD, lookups.value_shape, chunk.sizes, itemsize)
    kept = max(math.ceil(chunk.turns * part), 1)
    if form.lists(board):
        spent += Spent(board.cycles_ps(form.vector_cycles(board, chunk.turns)))
        one, both = board.scalar_nram_cycles, 2 * board.scalar_nram_cycles
        if strategy == "rows":
            spent += costs.rows(STORE, row_bytes, kept, address=one if chunk.fetch else both)
            return spent + costs.rows(LOAD, row_bytes, kept, address=one) if chunk.fetch else spent
        if chunk.fetch:
            return spent + costs.rows(LOAD, row_bytes, kept, address=both)
        return spent + costs.select(how, chunk.row, itemsize, kept, kept, both)
    address = scalar_address(board, form)
    if strategy == "rows":
        return spent + (
            costs.rows_at_once(STORE, row_bytes, chunk.turns, form)
            if board.has_gather
            else costs.rows(STORE, row_bytes, kept, turns=chunk.turns, address=address)
        )
    return spent + (
        costs.select_at_once(chunk.row, itemsize, chunk.turns, form)
        if board.has_gather
        else costs.select(how, chunk.row, itemsize, chunk.turns, kept, address)
    )


def _ways_to_read(job: Job, form: IndexForm) -> tuple[bool, ...]:
    """Whether to fetch rows by list. One by one, the elements of an aligned src are not worth it."""
    return (False, True) if form.lists(job.board) and not job.lookups.aligned else (False,)


def _kept(job: Job, sizes: Extents) -> float:
    """The part of the updates that a window keeps, where index values are spread evenly."""
    return math.prod(sizes[axis] / job.lookups.x_shape[axis] for axis in job.lookups.axes)


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


def _chunk(job: Job, sizes: Extents, form: IndexForm, room: int, strategy: str, *, fetch: bool) -> Chunk | None:
    """The most updates of a box of x that NRAM takes at once; None where not one row fits."""
    lookups, board, itemsize = job.lookups, job.board, job.itemsize
    extents = lookups.values_of((0,) * len(sizes), sizes)[1]
    rank = len(lookups.positions)
    each = form.buffer_bytes(board, job.index_itemsize)
    left = room - (len(each) + 1) * (board.vector_alignment_bytes - 1)
    rows = extents[rank:]
    row_sizes = rows
    if strategy == "rows":
        # Rows that are fetched have a quarter of the room, lists and index the rest.
        row_sizes = blocks(rows, max((left // 4 if fetch else left - sum(each)) // itemsize, 1))
    row = math.prod(row_sizes)
    held = 0
    if not fetch:
        fits = left // (sum(each) + row * itemsize)
    else:
        held = left // 4 // (row * itemsize) if strategy == "rows" else 0
        fits = (left - held * row * itemsize) // sum(each)
    if fits < 1 or (fetch and strategy == "rows" and not held):
        return None
    tied = tuple(axis for axis in lookups.tied if axis < rank)
    tied_sizes = blocks(tuple(extents[axis] for axis in tied), fits)
    free_sizes = blocks(tuple(extents[axis] for axis in lookups.free), fits // math.prod(tied_sizes))
    size_of = dict(zip((*tied, *lookups.free), (*tied_sizes, *free_sizes), strict=True))
    turns = math.prod(size_of.values())
    chosen = (*(size_of[axis] for axis in range(rank)), *row_sizes)
    return Chunk(
        sizes=chosen,
        turns=turns,
        row=row,
        count=_boxes_in(extents, chosen),
        fetch=fetch,
        held=min(held, turns) if fetch else turns,
    )


def _buffers(job: Job, form: IndexForm, chunk: Chunk) -> list[int]:
    each = form.buffer_bytes(job.board, job.index_itemsize)
    values = [chunk.held * chunk.row * job.itemsize] if chunk.held else []
    return [*values, *(chunk.turns * nbytes for nbytes in each)]


def _words(job: Job, chunk: Chunk, form: IndexForm, buffers: list[int], how: str) -> tuple[str, ...]:
    if form.lists(job.board):
        how = f"listed by vector instructions, then {'fetched by a copy each' if chunk.fetch else how}"
    return (
        (
            f"{_n(chunk.turns)} lookups at once, {_n(chunk.held)} of them with {_n(chunk.row)} values: "
            f"{_n(sum(buffers))} B"
        ),
        f"{_n(chunk.count)} chunks of updates for each region, {how}",
    )


def _boxes_in(shape: Extents, sizes: Extents) -> int:
    return math.prod(ceil_div(extent, size) for extent, size in zip(shape, sizes, strict=True))


_n: Callable[[int], str] = group_digits

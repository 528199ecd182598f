"""How gather and gather_nd are split.

slab   A core loads the slab of x that a tile's index can address and selects within NRAM. Tier 1 where a unit, that is
       the slab and the lookups of one coordinate of the leading tied axes, goes whole; tier 2 where it is cut, along
       the lookups or along tied axes further in, which makes the slab smaller.
rows   A core goes to GDRAM for each lookup: for its row, as long as it is contiguous, or its one element. Tier 3, and
       the only one where the indexed axes by themselves are larger than NRAM.

Which it is, is decided by predicted time (`mlusim.kernels.lookup_cost`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mlusim.errors import PlanError
from mlusim.hardware import Board
from mlusim.kernels.index_tiles import IndexForm
from mlusim.kernels.indexing import Extents, Lookups, blocks
from mlusim.kernels.lookup_cost import LOAD, STORE, box_cost, how_to_select, predict, rows_ps, select_ps
from mlusim.kernels.plan import Plan, Tiles
from mlusim.kernels.split import boxes, cut, in_runs, union1_launch
from mlusim.units import PS_PER_US, ceil_div, group_digits, round_up

STRATEGIES: dict[str, str] = {
    "auto": "what is predicted to be fastest",
    "slab": "load what the index can address, select within NRAM",
    "rows": "go to GDRAM for each lookup",
}

_WIDE = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a planner of gather or scatter is asked.

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
        """What a core makes of the index."""
        # Row numbers, and the extents that negative values wrap by, may need more than 32 bits.
        wide = math.prod(self.lookups.x_shape) >= _WIDE
        return IndexForm(columns=self.lookups.columns, positional=positional, narrowed=narrowed, wide=wide)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way to split, with its predicted time."""

    strategy: str
    tier: int
    sizes: Extents
    predicted_ps: int
    nram_bytes: int
    arithmetic: tuple[str, ...]
    order: Extents
    parameters: dict[str, object]


def plan_gather(job: Job) -> Plan:
    """Split one gather. The index values play no part: the kernel reads them on the board.

    Raises `PlanError` where neither way fits in the NRAM of the board, or not the one asked for.
    """
    lookups, board = job.lookups, job.board
    shape = lookups.value_shape
    if 0 in shape:
        return empty_plan(job, shape, f"the output {list(shape)} has no elements and nothing is launched")
    found = list(_slab_candidates(job))
    if lookups.columns:
        found += _row_candidates(job)
    chosen, reason = choose(job, found)
    start, stop = boxes([cut(extent, size) for extent, size in zip(shape, chosen.sizes, strict=True)], chosen.order)
    kind, dim = union1_launch(board, len(start))
    tasks = min(dim[0] * dim[1], len(start))
    return Plan(
        operator=job.operator,
        strategy=job.strategy,
        board=board,
        tier=chosen.tier,
        reason=reason,
        arithmetic=(*chosen.arithmetic, f"{_n(len(start))} tiles of up to {list(chosen.sizes)}, in runs of neighbours"),
        unit=unit_words(lookups),
        unit_bytes=unit_elements(lookups) * job.itemsize,
        kind=kind,
        dim=dim,
        output_shape=shape,
        itemsize=job.itemsize,
        tiles=Tiles(in_runs(len(start), tasks), start, stop, chosen.nram_bytes),
        nram_bytes=chosen.nram_bytes,
        parameters={"lookups": lookups, **chosen.parameters},
        predicted_ps=chosen.predicted_ps,
    )


def choose(job: Job, found: Sequence[Candidate]) -> tuple[Candidate, str]:
    """The fastest candidate of those that the strategy allows, and why, with the times of the others."""
    best: dict[str, Candidate] = {}
    for candidate in found:
        known = best.get(candidate.strategy)
        if known is None or candidate.predicted_ps < known.predicted_ps:
            best[candidate.strategy] = candidate
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
                f"the {smallest} B of x that an index can address and one lookup do not fit in the {usable} B of usable "
                f"NRAM of {job.board.name}; take strategy 'rows' or 'auto'"
                if job.strategy == "slab" and found
                else f"not one lookup of {_n(job.itemsize)} B fits in the {usable} B of usable NRAM of "
                f"{job.board.name}; give the board more nram_bytes or fewer nram_reserved_bytes"
            )
        )
    chosen = min(allowed, key=lambda candidate: candidate.predicted_ps)
    if not job.lookups.columns:
        return chosen, "an index without columns chooses nothing: x is copied"
    what = {1: "a unit fits whole", 2: "a unit is cut", 3: "each lookup goes to GDRAM"}[chosen.tier]
    others = [
        f"{name} {_us(other.predicted_ps)}" for name, other in sorted(best.items()) if name != chosen.strategy
    ] or [f"slab does not fit: {_n(job.lookups.slab_elements * job.itemsize)} B in {usable} B"]
    asked = "" if job.strategy == "auto" else ", asked for"
    return chosen, f"{chosen.strategy}{asked}: {what}; predicted {_us(chosen.predicted_ps)}, {'; '.join(others)}"


def empty_plan(job: Job, shape: Extents, reason: str) -> Plan:
    """A plan of no tiles: nothing is launched."""
    return Plan(
        operator=job.operator,
        strategy=job.strategy,
        board=job.board,
        tier=0,
        reason=reason,
        arithmetic=(),
        unit=unit_words(job.lookups),
        unit_bytes=unit_elements(job.lookups) * job.itemsize,
        kind="UNION1",
        dim=(job.board.cores_per_cluster, 1, 1),
        output_shape=shape,
        itemsize=job.itemsize,
        tiles=Tiles([], np.empty((0, len(shape))), np.empty((0, len(shape))), 0),
        nram_bytes=0,
        parameters={"lookups": job.lookups, "strategy": "none"},
        predicted_ps=0,
    )


def leading(lookups: Lookups) -> Extents:
    """The tied axes of x before all indexed ones: each of their coordinates has a contiguous slab of its own."""
    return tuple(range(min(lookups.axes))) if lookups.aligned and lookups.axes else ()


def unit_elements(lookups: Lookups) -> int:
    """Elements of x that one coordinate of the leading tied axes spans."""
    first = len(leading(lookups))
    return math.prod(lookups.slab_of((0,) * len(lookups.value_shape), lookups.value_shape)[1][first:])


def unit_words(lookups: Lookups) -> str:
    """A unit, for people."""
    first = len(leading(lookups))
    return f"what one index can address: axes {first} to {len(lookups.x_shape) - 1} of x {list(lookups.x_shape)}"


def _slab_candidates(job: Job) -> Iterator[Candidate]:
    lookups, board = job.lookups, job.board
    shape = lookups.value_shape
    tied, free = lookups.tied, lookups.free
    tied_extents = tuple(shape[axis] for axis in tied)
    free_extents = tuple(shape[axis] for axis in free)
    each = lookups.slab_elements * job.itemsize
    largest = max(board.nram_usable_bytes * 3 // 4 // max(each, 1), 1)
    limits = {largest, max(min(largest, math.prod(tied_extents) // board.cores), 1)}
    for limit in sorted(limits):
        shrunk = limit
        while shrunk:
            tied_sizes = blocks(tied_extents, shrunk)
            room = _room_beside(job, tied_sizes)
            if room:
                yield _slab_candidate(job, tied_sizes, free_extents, room)
                break
            shrunk //= 2


def _slab_form(job: Job, tied_sizes: Extents) -> IndexForm:
    """Within a slab the place counts where a tile has lookups at several coordinates of tied axes."""
    return job.form(positional=any(size > 1 for size in _looked_up(job.lookups, tied_sizes)))


def _looked_up(lookups: Lookups, tied_sizes: Extents) -> Extents:
    """Of the sizes of tied axes those of axes that the index has; the others are part of the row."""
    return tied_sizes if lookups.aligned else ()


def _room_beside(job: Job, tied_sizes: Extents) -> int:
    """Coordinates of the free axes that a tile may have beside its slab; 0: none fits."""
    lookups, board = job.lookups, job.board
    alignment = board.vector_alignment_bytes
    slab_bytes = round_up(lookups.slab_elements * math.prod(tied_sizes) * job.itemsize, alignment)
    if slab_bytes > board.nram_usable_bytes:
        return 0
    if not lookups.columns:
        return max(math.prod(lookups.positions), 1)
    each, buffers = _slab_form(job, tied_sizes).bytes_each(board, job.index_itemsize)
    per_free = math.prod(tied_sizes) * job.itemsize + math.prod(_looked_up(lookups, tied_sizes)) * each
    return max(board.nram_usable_bytes - slab_bytes - (buffers + 1) * (alignment - 1), 0) // per_free


def _slab_candidate(job: Job, tied_sizes: Extents, free_extents: Extents, room: int) -> Candidate:
    lookups, board = job.lookups, job.board
    shape, itemsize = lookups.value_shape, job.itemsize
    slabs = math.prod(
        ceil_div(shape[axis], size) for axis, size in zip(lookups.tied, tied_sizes, strict=True)
    )
    wanted = ceil_div(math.prod(free_extents), max(ceil_div(board.cores, slabs), 1))
    free_sizes = blocks(free_extents, min(room, wanted))
    size_of = dict(zip((*lookups.tied, *lookups.free), (*tied_sizes, *free_sizes), strict=True))
    sizes = tuple(size_of[axis] for axis in range(len(shape)))
    form = _slab_form(job, tied_sizes)
    values, turns = math.prod(sizes), math.prod(sizes[: len(lookups.positions)])
    row = values // turns
    slab_box = lookups.slab_of((0,) * len(shape), sizes)[1]
    how = how_to_select(board, row, itemsize, form)
    load = box_cost(board, LOAD, lookups.x_shape, slab_box, itemsize)
    store = box_cost(board, STORE, shape, sizes, itemsize)
    parts = math.prod(ceil_div(extent, size) for extent, size in zip(free_extents, free_sizes, strict=True))
    tiles = slabs * parts
    each_task = ceil_div(tiles, min(board.cores, tiles))
    loads = min(each_task, ceil_div(each_task, parts) + (1 if each_task % parts else 0))
    busy_ps: float = loads * load.alone_ps + each_task * store.alone_ps
    work = tiles * store.work + max(slabs, min(board.cores, tiles)) * load.work
    each, buffers = form.bytes_each(board, job.index_itemsize)
    alignment = board.vector_alignment_bytes
    slab_elements = math.prod(slab_box)
    nram_bytes = round_up(slab_elements * itemsize, alignment)
    if lookups.columns:
        index = box_cost(
            board,
            LOAD,
            (*lookups.positions, lookups.columns),
            (*sizes[: len(lookups.positions)], lookups.columns),
            job.index_itemsize,
        )
        busy_ps += each_task * (index.alone_ps + select_ps(board, how, row, itemsize, turns, 1.0, form))
        work += tiles * index.work
        nram_bytes += round_up(values * itemsize + turns * each, alignment) + buffers * alignment
    first = len(leading(lookups))
    whole = all(size == extent for size, extent in zip(sizes[first:], shape[first:], strict=True))
    return Candidate(
        strategy="slab",
        tier=1 if whole else 2,
        sizes=sizes,
        predicted_ps=predict(board, busy_ps, work),
        nram_bytes=min(nram_bytes, board.nram_usable_bytes),
        order=(*lookups.tied, *lookups.free),
        arithmetic=(
            f"slab {list(slab_box)} of x: {_n(slab_elements * itemsize)} B; beside it {_n(turns)} lookups of "
            f"{_n(row)} values: {_n(values * itemsize)} B and {_n(turns * each)} B of index",
            f"selected by {how}" if lookups.columns else "stored as it is",
        ),
        parameters={
            "strategy": "slab",
            "form": form,
            "how": how,
            "slab": slab_elements,
            "values": values,
            "turns": turns,
        },
    )


def _row_candidates(job: Job) -> Iterator[Candidate]:
    lookups, board, itemsize = job.lookups, job.board, job.itemsize
    form = job.form(positional=lookups.aligned)
    each, buffers = form.bytes_each(board, job.index_itemsize)
    room = board.nram_usable_bytes - (buffers + 1) * (board.vector_alignment_bytes - 1)
    row_sizes = blocks(lookups.row_shape, max((room - each) // itemsize, 1))
    row = math.prod(row_sizes)
    fits = room // (each + row * itemsize)
    if fits < 1:
        return
    chunks = math.prod(ceil_div(e, s) for e, s in zip(lookups.row_shape, row_sizes, strict=True))
    wanted = ceil_div(math.prod(lookups.positions) * chunks, board.cores)
    position_sizes = blocks(lookups.positions, min(fits, wanted))
    sizes = position_sizes + row_sizes
    turns = math.prod(position_sizes)
    shape = lookups.value_shape
    tiles = math.prod(ceil_div(extent, size) for extent, size in zip(shape, sizes, strict=True))
    each_task = ceil_div(tiles, min(board.cores, tiles))
    columns = lookups.columns
    index = box_cost(board, LOAD, (*lookups.positions, columns), (*position_sizes, columns), job.index_itemsize)
    rows = rows_ps(board, LOAD, row * itemsize, turns, 1.0, form)
    store = box_cost(board, STORE, shape, sizes, itemsize)
    vectors_ps = board.cycles_ps(form.vector_cycles(board, turns)) if board.has_gather else 0
    busy_ps = each_task * (index.alone_ps + rows.alone_ps + vectors_ps + store.alone_ps)
    yield Candidate(
        strategy="rows",
        tier=3,
        sizes=sizes,
        predicted_ps=predict(board, busy_ps, tiles * (index.work + rows.work + store.work)),
        nram_bytes=min(
            round_up(turns * (each + row * itemsize), board.vector_alignment_bytes)
            + buffers * board.vector_alignment_bytes,
            board.nram_usable_bytes,
        ),
        order=tuple(range(len(shape))),
        arithmetic=(
            f"a row of {_n(math.prod(lookups.row_shape))} values, {_n(row)} at once; {_n(turns)} lookups: "
            f"{_n(turns * row * itemsize)} B and {_n(turns * each)} B of index",
            "by the gather instruction" if board.has_gather else "by a copy each",
        ),
        parameters={"strategy": "rows", "form": form, "values": turns * row, "turns": turns},
    )


def _us(time_ps: int) -> str:
    return f"{time_ps / PS_PER_US:.1f} us"


_n: Callable[[int], str] = group_digits

"""A chunk of updates of scatter, by strategies "slab" and "rows": sizes, NRAM, predicted time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from mlusim.planning.cost import Cost
from mlusim.planning.index_arithmetic import IndexArithmetic
from mlusim.planning.lookup import Job
from mlusim.planning.lookup_cost import LOAD, STORE, Costs, scalar_address
from mlusim.planning.lookup_geometry import Extents, blocks
from mlusim.units import ceil_div, group_digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The updates that a core handles at once.

    Attributes:
        sizes: values along each axis, at most.
        lookups_at_once, row: lookups, and values of each.
        count: chunks of a region, at most.
        fetch: whether rows are fetched by list, instead of all of src.
        values_at_once: lookups whose values NRAM holds at once.
    """

    sizes: Extents
    lookups_at_once: int
    row: int
    count: int
    fetch: bool
    values_at_once: int


def chunk_of(
    job: Job, sizes: Extents, arithmetic: IndexArithmetic, room: int, strategy: str, *, fetch: bool
) -> Chunk | None:
    """The most updates of a box of x that NRAM takes at once; None where not one row fits."""
    lookups, board, itemsize = job.lookups, job.board, job.itemsize
    extents = lookups.values_of((0,) * len(sizes), sizes)[1]
    rank = len(lookups.positions)
    each = arithmetic.buffer_bytes(board, job.index_itemsize)
    left = room - (len(each) + 1) * (board.vector_alignment_bytes - 1)
    rows = extents[rank:]
    row_sizes = rows
    if strategy == "rows":
        # Rows that are fetched have a quarter of the room, lists and index the rest.
        row_sizes = blocks(rows, max((left // 4 if fetch else left - sum(each)) // itemsize, 1))
    row = math.prod(row_sizes)
    values_at_once = 0
    if not fetch:
        fits = left // (sum(each) + row * itemsize)
    else:
        values_at_once = left // 4 // (row * itemsize) if strategy == "rows" else 0
        fits = (left - values_at_once * row * itemsize) // sum(each)
    if fits < 1 or (fetch and strategy == "rows" and not values_at_once):
        return None
    tied = tuple(axis for axis in lookups.tied if axis < rank)
    tied_sizes = blocks(tuple(extents[axis] for axis in tied), fits)
    free_sizes = blocks(tuple(extents[axis] for axis in lookups.free), fits // math.prod(tied_sizes))
    size_of = dict(zip((*tied, *lookups.free), (*tied_sizes, *free_sizes), strict=True))
    lookups_at_once = math.prod(size_of.values())
    chosen = (*(size_of[axis] for axis in range(rank)), *row_sizes)
    return Chunk(
        sizes=chosen,
        lookups_at_once=lookups_at_once,
        row=row,
        count=boxes_in(extents, chosen),
        fetch=fetch,
        values_at_once=min(values_at_once, lookups_at_once) if fetch else lookups_at_once,
    )


def updated(
    job: Job, strategy: str, chunk: Chunk, arithmetic: IndexArithmetic, part: float, method: str
) -> tuple[Cost, ...]:
    """The stages of a chunk of updates, `part` of which are selected; method: how values are copied within NRAM."""
    lookups, board, itemsize = job.lookups, job.board, job.itemsize
    rank, columns = len(lookups.positions), lookups.columns
    row_bytes = chunk.row * itemsize
    costs = Costs(board)
    index = costs.box(LOAD, (*lookups.positions, columns), (*chunk.sizes[:rank], columns), job.index_itemsize)
    values = Cost() if chunk.fetch else costs.box(LOAD, lookups.value_shape, chunk.sizes, itemsize)
    selected = max(math.ceil(chunk.lookups_at_once * part), 1)
    if arithmetic.lists(board):
        # Lists are made while values are loaded.
        listed_ps = board.cycles_ps(arithmetic.vector_cycles(board, chunk.lookups_at_once))
        read = index, values.beside(listed_ps)
        one, both = board.scalar_nram_cycles, 2 * board.scalar_nram_cycles
        if strategy == "rows":
            if not chunk.fetch:
                return *read, costs.rows(STORE, row_bytes, selected, address=both)
            # As many at once as NRAM holds: each batch is loaded, then stored, and starts up anew.
            batch = min(selected, chunk.values_at_once)
            batches = ceil_div(selected, batch)
            return *read, *(costs.rows(way, row_bytes, batch, address=one) * batches for way in (LOAD, STORE))
        if chunk.fetch:
            return *read, costs.rows(LOAD, row_bytes, selected, address=both)
        return *read, costs.select(method, chunk.row, itemsize, selected, selected, both)
    address = scalar_address(board, arithmetic)
    count = chunk.lookups_at_once
    if strategy == "rows" and board.has_gather:
        written = costs.rows_at_once(STORE, row_bytes, count, arithmetic)
    elif strategy == "rows":
        written = costs.rows(STORE, row_bytes, selected, iterations=count, address=address)
    elif board.has_gather:
        written = costs.select_at_once(chunk.row, itemsize, count, arithmetic)
    else:
        written = costs.select(method, chunk.row, itemsize, count, selected, address)
    return index, values, written


def ways_to_read(job: Job, arithmetic: IndexArithmetic) -> tuple[bool, ...]:
    """Whether to fetch rows by list. One by one, the elements of an aligned src are not worth it."""
    return (False, True) if arithmetic.lists(job.board) and not job.lookups.aligned else (False,)


def buffers_of(job: Job, arithmetic: IndexArithmetic, chunk: Chunk) -> list[int]:
    """Bytes of the NRAM buffers that a chunk takes."""
    each = arithmetic.buffer_bytes(job.board, job.index_itemsize)
    values = [chunk.values_at_once * chunk.row * job.itemsize] if chunk.values_at_once else []
    return [*values, *(chunk.lookups_at_once * nbytes for nbytes in each)]


def words_of(job: Job, chunk: Chunk, arithmetic: IndexArithmetic, method: str) -> tuple[str, ...]:
    """A chunk for people: what is taken at once, and how."""
    if arithmetic.lists(job.board):
        method = f"listed by vector instructions, then {'fetched by a copy each' if chunk.fetch else method}"
    return (
        (
            f"{_n(chunk.lookups_at_once)} lookups at once, {_n(chunk.values_at_once)} of them with {_n(chunk.row)} "
            f"values: {_n(sum(buffers_of(job, arithmetic, chunk)))} B"
        ),
        f"{_n(chunk.count)} chunks of updates for each region, {method}",
    )


def boxes_in(shape: Extents, sizes: Extents) -> int:
    """The number of boxes of these sizes in a shape."""
    return math.prod(ceil_div(extent, size) for extent, size in zip(shape, sizes, strict=True))


_n: Callable[[int], str] = group_digits

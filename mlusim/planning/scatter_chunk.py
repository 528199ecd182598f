"""A chunk of updates of scatter with strategy "slab" or "rows": sizes, NRAM, predicted time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlusim.planning.box_sizes import Extents, blocks, count_boxes
from mlusim.planning.cost import Cost
from mlusim.planning.index_arithmetic import IndexArithmetic
from mlusim.planning.lookup import LookupProblem
from mlusim.planning.lookup_cost import LOAD, STORE, Costs, scalar_address
from mlusim.units import ceil_div, group_digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The updates that a core handles at once.

    Attributes:
        sizes: largest extents of the values along each axis.
        lookups_at_once, row: lookups, and values per lookup.
        count: largest number of chunks per region.
        fetch: whether only listed rows of src are fetched, instead of all.
        values_at_once: lookups whose values fit in NRAM at once.
    """

    sizes: Extents
    lookups_at_once: int
    row: int
    count: int
    fetch: bool
    values_at_once: int


def chunk_of(
    problem: LookupProblem, sizes: Extents, arithmetic: IndexArithmetic, nram_bytes: int, strategy: str, *, fetch: bool
) -> Chunk | None:
    """Return the largest chunk of updates of a box of x that fits in NRAM; None if not one row fits."""
    lookups, board, itemsize = problem.lookups, problem.board, problem.itemsize
    extents = lookups.values_of((0,) * len(sizes), sizes)[1]
    rank = len(lookups.positions)
    index_bytes = arithmetic.buffer_bytes(board, problem.index_itemsize)
    available = nram_bytes - (len(index_bytes) + 1) * (board.vector_alignment_bytes - 1)
    rows = extents[rank:]
    row_sizes = rows
    if strategy == "rows":
        # Fetched rows may use a quarter of the NRAM, lists and index the rest.
        row_sizes = blocks(rows, max((available // 4 if fetch else available - sum(index_bytes)) // itemsize, 1))
    row = math.prod(row_sizes)
    values_at_once = 0
    if not fetch:
        max_lookups = available // (sum(index_bytes) + row * itemsize)
    else:
        values_at_once = available // 4 // (row * itemsize) if strategy == "rows" else 0
        max_lookups = (available - values_at_once * row * itemsize) // sum(index_bytes)
    if max_lookups < 1 or (fetch and strategy == "rows" and not values_at_once):
        return None
    shared_axes = tuple(axis for axis in lookups.shared_axes if axis < rank)
    shared_sizes = blocks(tuple(extents[axis] for axis in shared_axes), max_lookups)
    gathered_sizes = blocks(
        tuple(extents[axis] for axis in lookups.gathered_axes), max_lookups // math.prod(shared_sizes)
    )
    size_of = dict(zip((*shared_axes, *lookups.gathered_axes), (*shared_sizes, *gathered_sizes), strict=True))
    lookups_at_once = math.prod(size_of.values())
    sizes_of_chunk = (*(size_of[axis] for axis in range(rank)), *row_sizes)
    return Chunk(
        sizes=sizes_of_chunk,
        lookups_at_once=lookups_at_once,
        row=row,
        count=count_boxes(extents, sizes_of_chunk),
        fetch=fetch,
        values_at_once=min(values_at_once, lookups_at_once) if fetch else lookups_at_once,
    )


def update_stages(
    problem: LookupProblem, strategy: str, chunk: Chunk, arithmetic: IndexArithmetic, part: float, method: str
) -> tuple[Cost, ...]:
    """Return the stages of a chunk of updates, of which a fraction `part` is selected.

    method: the method of copying values within NRAM.
    """
    lookups, board, itemsize = problem.lookups, problem.board, problem.itemsize
    rank, columns = len(lookups.positions), lookups.columns
    costs = Costs(board)
    index = costs.box(LOAD, (*lookups.positions, columns), (*chunk.sizes[:rank], columns), problem.index_itemsize)
    values = Cost() if chunk.fetch else costs.box(LOAD, lookups.value_shape, chunk.sizes, itemsize)
    count = chunk.lookups_at_once
    selected = max(math.ceil(count * part), 1)
    lists = arithmetic.lists(board)
    if lists or arithmetic.numbered:
        # Vector instructions compute lists or row numbers while values are loaded.
        values = values.overlapped_with(board.cycles_ps(arithmetic.vector_cycles(board, count)))
    if lists:
        return index, values, *_list_stages(costs, strategy, chunk, itemsize, selected, method)
    if arithmetic.numbered:
        value_stages = costs.select(method, chunk.row, itemsize, count, count, board.scalar_nram_cycles)
    else:
        value_stages = _vector_stages(costs, strategy, chunk, itemsize, selected, method, arithmetic)
    return index, values, value_stages


def _list_stages(
    costs: Costs, strategy: str, chunk: Chunk, itemsize: int, selected: int, method: str
) -> tuple[Cost, ...]:
    """Return the stages that move the values of listed updates; each access to a list is a scalar load from NRAM."""
    row_bytes = chunk.row * itemsize
    one_list = costs.board.scalar_nram_cycles
    two_lists = 2 * one_list
    if strategy == "rows" and chunk.fetch:
        # Batches of as many rows as NRAM holds: each is loaded, then stored, with its own start-up.
        batch = min(selected, chunk.values_at_once)
        batches = ceil_div(selected, batch)
        return tuple(costs.rows(direction, row_bytes, batch, address=one_list) * batches for direction in (LOAD, STORE))
    if strategy == "rows":
        return (costs.rows(STORE, row_bytes, selected, address=two_lists),)
    if chunk.fetch:
        return (costs.rows(LOAD, row_bytes, selected, address=two_lists),)
    return (costs.select(method, chunk.row, itemsize, selected, selected, two_lists),)


def _vector_stages(
    costs: Costs,
    strategy: str,
    chunk: Chunk,
    itemsize: int,
    selected: int,
    method: str,
    arithmetic: IndexArithmetic,
) -> Cost:
    """Return the stage that writes values to rows whose addresses are computed one by one, or by the instruction."""
    board, row_bytes, count = costs.board, chunk.row * itemsize, chunk.lookups_at_once
    address = scalar_address(board, arithmetic)
    if strategy == "rows":
        if board.has_gather:
            return costs.rows_at_once(STORE, row_bytes, count, arithmetic)
        return costs.rows(STORE, row_bytes, selected, iterations=count, address=address)
    if board.has_gather:
        return costs.select_at_once(chunk.row, itemsize, count, arithmetic)
    return costs.select(method, chunk.row, itemsize, count, selected, address)


def ways_to_read(problem: LookupProblem, arithmetic: IndexArithmetic) -> tuple[bool, ...]:
    """Return the alternatives for fetching rows by list. Fetching single elements of an aligned src never pays off."""
    return (False, True) if arithmetic.lists(problem.board) and not problem.lookups.aligned else (False,)


def buffers_of(problem: LookupProblem, arithmetic: IndexArithmetic, chunk: Chunk) -> list[int]:
    """Return the bytes of the NRAM buffers of a chunk."""
    index_bytes = arithmetic.buffer_bytes(problem.board, problem.index_itemsize)
    values = [chunk.values_at_once * chunk.row * problem.itemsize] if chunk.values_at_once else []
    return [*values, *(chunk.lookups_at_once * nbytes for nbytes in index_bytes)]


def details_of(problem: LookupProblem, chunk: Chunk, arithmetic: IndexArithmetic, method: str) -> tuple[str, ...]:
    """Describe a chunk: its size and method."""
    if arithmetic.lists(problem.board):
        applying_text = "fetched by a copy each" if chunk.fetch else f"applied by {method}"
        method = f"listed by vector instructions, then {applying_text}"
    elif arithmetic.numbered:
        method = f"numbered by vector instructions, then applied by {method}"
    else:
        method = f"applied by {method or 'the instruction of arch 592'}"
    return (
        (
            f"{group_digits(chunk.lookups_at_once)} lookups at once, {group_digits(chunk.values_at_once)} of them with "
            f"{group_digits(chunk.row)} values each: {group_digits(sum(buffers_of(problem, arithmetic, chunk)))} B"
        ),
        f"{group_digits(chunk.count)} chunks of updates per region, {method}",
    )

"""Predicted times of the plans of gather and scatter, by the board's cost functions.

A prediction is the time of the busiest task with the board to itself, or that of the DRAM for all bytes of all tasks,
whichever is more. It does not know how tasks wait for each other, nor the data.
"""

from __future__ import annotations

import math

from mlusim.hardware import Board
from mlusim.kernels.index_tiles import IndexForm
from mlusim.kernels.indexing import Extents, segments
from mlusim.memory.copy import CopyShape
from mlusim.memory.kinds import Direction
from mlusim.memory.loops import address_cycles, rows_cost, scalar_copy_cycles
from mlusim.memory.timing import CopyCost, copy_cost
from mlusim.units import PS_PER_S, ceil_ps, round_up

LOAD, STORE, INSIDE = Direction.GDRAM2NRAM, Direction.NRAM2GDRAM, Direction.NRAM2NRAM

# How values are selected within NRAM.
SCALAR, MOVES, INSTRUCTION = "scalar loop", "a move for each row", "gather instruction"


def box_cost(board: Board, direction: Direction, shape: Extents, box: Extents, itemsize: int) -> CopyCost:
    """Cost of a copy of a box of a contiguous tensor of GDRAM, its first element on a bus unit."""
    run, count = segments(shape, box)
    return copy_cost(board, _rows_shape(board, direction, run * itemsize, count), memory_core=False)


def rows_ps(board: Board, direction: Direction, row_bytes: int, turns: int, kept: float, form: IndexForm) -> CopyCost:
    """Cost of going to GDRAM for rows, one for each of `turns` lookups, of which `kept` of 1 lie within a window."""
    if board.has_gather:
        return rows_cost(board, _rows_shape(board, direction, row_bytes, turns), "instruction")
    count = max(math.ceil(turns * kept), 1)
    address = address_cycles(board, form.columns, form.narrowed, positional=form.positional)
    return rows_cost(board, _rows_shape(board, direction, row_bytes, count), "queued", turns=turns, address=address)


def select_ps(
    board: Board, how: str, row_elements: int, itemsize: int, turns: int, kept: float, form: IndexForm
) -> int:
    """Time to copy rows within NRAM, by one of `SCALAR`, `MOVES` and `INSTRUCTION`, address arithmetic included."""
    if how == INSTRUCTION:
        shape = _rows_shape(board, INSIDE, row_elements * itemsize, turns)
        cycles = form.vector_cycles(board, turns)
        return rows_cost(board, shape, "instruction").alone_ps + board.cycles_ps(cycles)
    address = address_cycles(board, form.columns, form.narrowed, positional=form.positional)
    count = max(math.ceil(turns * kept), 1)
    if how == MOVES:
        shape = _rows_shape(board, INSIDE, row_elements * itemsize, count)
        return rows_cost(board, shape, "queued", turns=turns, address=address).alone_ps
    return board.cycles_ps(scalar_copy_cycles(board, turns, count, row_elements, address))


def how_to_select(board: Board, row_elements: int, itemsize: int, form: IndexForm) -> str:
    """The fastest way to copy rows within NRAM on a board. On 2xx a move takes multiples of 128 B only (B)."""
    if board.has_gather:
        return INSTRUCTION
    turns = 1024
    moves_fit = not board.needs_aligned_vectors or (row_elements * itemsize) % board.vector_alignment_bytes == 0
    if moves_fit and row_elements > 1:
        moves_ps = select_ps(board, MOVES, row_elements, itemsize, turns, 1.0, form)
        if moves_ps < select_ps(board, SCALAR, row_elements, itemsize, turns, 1.0, form):
            return MOVES
    return SCALAR


def predict(board: Board, busy_ps: float, work: float) -> int:
    """Time of a launch whose busiest task takes `busy_ps`, all tasks together having `work` bytes of DRAM time."""
    bandwidth = board.dram_bandwidth_bytes_per_s * board.dram_mixed_efficiency / PS_PER_S
    return board.kernel_start_ps + board.kernel_end_ps + ceil_ps(max(busy_ps, work / bandwidth))


def _rows_shape(board: Board, direction: Direction, row_bytes: int, count: int) -> CopyShape:
    unit_bytes = board.dram_unit_bytes
    touched = count * round_up(row_bytes, unit_bytes)
    partly = count * unit_bytes if row_bytes % unit_bytes else 0
    bus_read = touched if direction is LOAD else partly if direction is STORE else 0
    bus_write = touched if direction is STORE else 0
    return CopyShape(direction, row_bytes * count, row_bytes, count, (), (), bus_read, bus_write, count > 1)

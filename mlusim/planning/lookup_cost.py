"""Costs of the operations of gather and scatter: boxes of a tensor, rows by index, rows selected within NRAM."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlusim.hardware import Board
from mlusim.memory.copy_shape import CopyShape
from mlusim.memory.kinds import Direction
from mlusim.memory.layout import contiguous_strides
from mlusim.memory.loop_costs import address_instructions, rows_cost, scalar_copy_cycles
from mlusim.planning.box_sizes import Extents
from mlusim.planning.cost import Cost, load_cost, store_cost, transfer_cost
from mlusim.planning.index_arithmetic import IndexArithmetic
from mlusim.units import round_up

LOAD, STORE, INSIDE = Direction.GDRAM2NRAM, Direction.NRAM2GDRAM, Direction.NRAM2NRAM

# Methods of copying rows within NRAM.
SCALAR, MOVES, INSTRUCTION = "a scalar loop", "a move for each row", "the instruction of arch 592"


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of operations on one board.

    Arguments of several methods:
        direction: of the copies, between GDRAM and NRAM.
        row_bytes, row_elements, itemsize: the size of a row.
        count, selected: number of rows copied.
        iterations: trip count of the loop; 0: the number of rows.
        address: scalar cycles that compute the address of one row.
        arithmetic: the index arithmetic that computes all offsets by vector instructions.
    """

    board: Board

    def cycles(self, cycles: int) -> Cost:
        """Return the cost of scalar or vector cycles within the core."""
        return Cost(self.board.cycles_ps(cycles))

    def box(self, direction: Direction, shape: Extents, box: Extents, itemsize: int) -> Cost:
        """Return the cost of copying a box of a contiguous GDRAM tensor, starting on a bus unit.

        The last box along the axis of its runs may have shorter ones. If they are below a bus unit, which costs more,
        the result is the cost of that box.
        """
        axis = next((axis for axis in reversed(range(len(box))) if box[axis] != shape[axis]), 0)
        strides = contiguous_strides(shape, itemsize)
        run = math.prod(box[axis:]) * itemsize
        shorter = shape[axis] % box[axis] * strides[axis] if box else 0
        if 0 < shorter < self.board.dram_unit_bytes <= run:
            run = shorter
        loops = tuple((box[outer], strides[outer]) for outer in range(axis) if box[outer] > 1)
        return (load_cost if direction is LOAD else store_cost)(self.board, run, loops)

    def rows(self, direction: Direction, row_bytes: int, count: int, *, iterations: int = 0, address: int = 0) -> Cost:
        """Return the cost of rows of GDRAM copied one by one, queued."""
        return self._rows(direction, row_bytes, count, "queued", iterations=iterations, address=address)

    def rows_at_once(self, direction: Direction, row_bytes: int, count: int, arithmetic: IndexArithmetic) -> Cost:
        """Return the cost of rows of GDRAM copied by one `__gather` or `__scatter`, including its offsets."""
        offsets = self.cycles(arithmetic.vector_cycles(self.board, count))
        return offsets + self.instruction(direction, row_bytes, count)

    def instruction(self, direction: Direction, row_bytes: int, count: int) -> Cost:
        """Return the cost of rows of GDRAM copied by one `__gather` or `__scatter` whose offsets are in NRAM."""
        return self._rows(direction, row_bytes, count, "instruction")

    def select(
        self, method: str, row_elements: int, itemsize: int, iterations: int, selected: int, address: int
    ) -> Cost:
        """Return the cost of copying `selected` rows within NRAM by `SCALAR` or `MOVES`, in a loop of `iterations`."""
        if method == MOVES:
            return self._rows(
                INSIDE, row_elements * itemsize, selected, "queued", iterations=iterations, address=address
            )
        return self.cycles(scalar_copy_cycles(self.board, iterations, selected, row_elements, address))

    def select_at_once(self, row_elements: int, itemsize: int, iterations: int, arithmetic: IndexArithmetic) -> Cost:
        """Return the cost of copying rows within NRAM by `INSTRUCTION`, including its offsets."""
        offsets = self.cycles(arithmetic.vector_cycles(self.board, iterations))
        return offsets + self._rows(INSIDE, row_elements * itemsize, iterations, "instruction")

    def _rows(
        self,
        direction: Direction,
        row_bytes: int,
        count: int,
        method: str,
        *,
        iterations: int = 0,
        address: int = 0,
    ) -> Cost:
        shaped = _rows_shape(self.board, direction, row_bytes, count)
        cost = rows_cost(self.board, shaped, method, iterations=iterations, address=address)
        return transfer_cost(self.board, cost)


def scalar_address(board: Board, arithmetic: IndexArithmetic) -> int:
    """Return the scalar cycles that compute the address of one lookup."""
    columns, narrowed = arithmetic.columns, arithmetic.narrowed
    return address_instructions(columns, narrowed, positional=arithmetic.positional).cycles(board)


def selection_method(
    board: Board, row_elements: int, itemsize: int, arithmetic: IndexArithmetic, *, even: bool = True
) -> str:
    """Return the fastest method of copying rows within NRAM. On 2xx a move needs multiples of 128 B (B).

    even: whether all tiles have rows of this size; cutting a row may leave a shorter one.
    """
    if board.has_gather and not arithmetic.lists(board):
        return INSTRUCTION
    aligned = even and (row_elements * itemsize) % board.vector_alignment_bytes == 0
    moves_fit = aligned or not board.needs_aligned_vectors
    if row_elements > 1 and moves_fit:
        costs, iterations = Costs(board), 1024
        time_of = {
            method: costs.select(
                method, row_elements, itemsize, iterations, iterations, scalar_address(board, arithmetic)
            ).alone_ps
            for method in (SCALAR, MOVES)
        }
        return min(time_of, key=time_of.__getitem__)
    return SCALAR


def _rows_shape(board: Board, direction: Direction, row_bytes: int, count: int) -> CopyShape:
    unit_bytes = board.dram_unit_bytes
    unit_bytes_of_rows = count * round_up(row_bytes, unit_bytes)
    partly = count * unit_bytes if row_bytes % unit_bytes else 0
    bus_read = unit_bytes_of_rows if direction is LOAD else partly if direction is STORE else 0
    bus_write = unit_bytes_of_rows if direction is STORE else 0
    return CopyShape(direction, row_bytes * count, row_bytes, count, (), (), bus_read, bus_write, count > 1)

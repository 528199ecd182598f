"""Predicted times of the plans of gather and scatter, by the board's cost functions.

A prediction is the time of the busiest task while all of them move bytes at once, as tasks do that start together and
do the same, or that of the DRAM for the bytes of all tasks, whichever is more. It does not know the data.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlusim.hardware import Board
from mlusim.memory.copy import CopyShape
from mlusim.memory.kinds import Direction
from mlusim.memory.loops import address_cycles, rows_cost, scalar_copy_cycles
from mlusim.memory.timing import CopyCost, copy_cost
from mlusim.planning.index_arithmetic import IndexArithmetic
from mlusim.planning.lookup_geometry import Extents, segments
from mlusim.planning.prediction import launch_ps
from mlusim.units import PS_PER_S, ceil_div, round_up

LOAD, STORE, INSIDE = Direction.GDRAM2NRAM, Direction.NRAM2GDRAM, Direction.NRAM2NRAM

# How rows are copied within NRAM.
SCALAR, MOVES, INSTRUCTION = "a scalar loop", "a move for each row", "the instruction of arch 592"


@dataclass(frozen=True, slots=True)
class Spent:
    """Time of a task in picoseconds, and bytes of DRAM time."""

    time_ps: float = 0.0
    work: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.time_ps + other.time_ps, self.work + other.work)

    def __mul__(self, times: float) -> Spent:
        return Spent(self.time_ps * times, self.work * times)


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of the operations of one task while `tasks` tasks run on the board."""

    board: Board
    tasks: int

    def box(self, direction: Direction, shape: Extents, box: Extents, itemsize: int) -> Spent:
        """A box of a contiguous tensor of GDRAM, its first element on a bus unit."""
        run, count = segments(shape, box)
        shaped = _rows_shape(self.board, direction, run * itemsize, count)
        return self._shared(copy_cost(self.board, shaped, memory_core=False))

    def rows(self, direction: Direction, row_bytes: int, count: int, *, iterations: int = 0, address: int = 0) -> Spent:
        """Rows of GDRAM, by a queued copy each."""
        shaped = _rows_shape(self.board, direction, row_bytes, count)
        return self._shared(rows_cost(self.board, shaped, "queued", iterations=iterations, address=address))

    def rows_at_once(self, direction: Direction, row_bytes: int, count: int, arithmetic: IndexArithmetic) -> Spent:
        """Rows of GDRAM, by one `__gather` or `__scatter` and the vector instructions that make its offsets."""
        shaped = _rows_shape(self.board, direction, row_bytes, count)
        vectors_ps = self.board.cycles_ps(arithmetic.vector_cycles(self.board, count))
        return self._shared(rows_cost(self.board, shaped, "instruction")) + Spent(vectors_ps)

    def select(
        self, method: str, row_elements: int, itemsize: int, iterations: int, selected: int, address: int
    ) -> Spent:
        """`selected` rows within NRAM, by `SCALAR` or `MOVES`, in a loop of `iterations`."""
        if method == MOVES:
            shaped = _rows_shape(self.board, INSIDE, row_elements * itemsize, selected)
            return Spent(rows_cost(self.board, shaped, "queued", iterations=iterations, address=address).alone_ps)
        return Spent(self.board.cycles_ps(scalar_copy_cycles(self.board, iterations, selected, row_elements, address)))

    def select_at_once(self, row_elements: int, itemsize: int, iterations: int, arithmetic: IndexArithmetic) -> Spent:
        """Rows within NRAM by `INSTRUCTION`, and the vector instructions that make its offsets."""
        shaped = _rows_shape(self.board, INSIDE, row_elements * itemsize, iterations)
        vectors_ps = self.board.cycles_ps(arithmetic.vector_cycles(self.board, iterations))
        return Spent(rows_cost(self.board, shaped, "instruction").alone_ps + vectors_ps)

    def _shared(self, cost: CopyCost) -> Spent:
        """A transfer at its share of the cluster's port and of the DRAM."""
        board = self.board
        sharing = min(self.tasks, board.cores_per_cluster)
        port = min(board.cluster_read_bandwidth_bytes_per_s, board.cluster_write_bandwidth_bytes_per_s) / sharing
        rate = min(cost.limit, port * cost.ratio / PS_PER_S, board.dram_bandwidth_bytes_per_s / self.tasks / PS_PER_S)
        return Spent(cost.latency_ps + cost.work / rate, cost.work)


def scalar_address(board: Board, arithmetic: IndexArithmetic) -> int:
    """Scalar cycles to work out the address of one lookup."""
    return address_cycles(board, arithmetic.columns, arithmetic.narrowed, positional=arithmetic.positional)


def selection_method(
    board: Board, row_elements: int, itemsize: int, arithmetic: IndexArithmetic, *, even: bool = True
) -> str:
    """The fastest way to copy rows within NRAM on a board. On 2xx a move takes multiples of 128 B only (B).

    even: whether all tiles have rows of this size; a row that is cut may leave a shorter one.
    """
    if board.has_gather and not arithmetic.lists(board):
        return INSTRUCTION
    aligned = even and (row_elements * itemsize) % board.vector_alignment_bytes == 0
    moves_fit = aligned or not board.needs_aligned_vectors
    if row_elements > 1 and moves_fit:
        costs, iterations = Costs(board, 1), 1024
        times = {
            method: costs.select(
                method, row_elements, itemsize, iterations, iterations, scalar_address(board, arithmetic)
            ).time_ps
            for method in (SCALAR, MOVES)
        }
        return min(times, key=times.__getitem__)
    return SCALAR


def predict(board: Board, spent: Spent, tiles: int) -> int:
    """Time of a UNION1 launch of `tiles` tiles; `spent` has the busiest task's time and the DRAM work of all."""
    bandwidth = board.dram_bandwidth_bytes_per_s * board.dram_mixed_efficiency / PS_PER_S
    tasks = min(tiles, board.cores)
    each_ps = spent.time_ps / ceil_div(tiles, tasks)
    return launch_ps(board, (each_ps, each_ps), spent.work / bandwidth, tiles=tiles, tasks=tasks, union=True)


def _rows_shape(board: Board, direction: Direction, row_bytes: int, count: int) -> CopyShape:
    unit_bytes = board.dram_unit_bytes
    touched = count * round_up(row_bytes, unit_bytes)
    partly = count * unit_bytes if row_bytes % unit_bytes else 0
    bus_read = touched if direction is LOAD else partly if direction is STORE else 0
    bus_write = touched if direction is STORE else 0
    return CopyShape(direction, row_bytes * count, row_bytes, count, (), (), bus_read, bus_write, count > 1)

"""The cost of loops of equal small instructions: address arithmetic, element and row copies.

Planners and the simulator use the same functions. For each column of its index, an iteration of a loop performs a
scalar load, the comparison with 0 and the addition that wrap a negative value, the multiplication by the row length and
an addition; two more comparisons if the loop processes only a window of the axis; and one addition if the address
depends on the position.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mlusim.arrays import Integers
from mlusim.hardware import Board
from mlusim.memory import element_loops
from mlusim.memory.copy_cost import CopyCost, copy_cost, rate_alone
from mlusim.memory.copy_shape import CopyShape
from mlusim.memory.view import View
from mlusim.units import ceil_div, ceil_ps


class AddressInstructions(NamedTuple):
    """Scalar instructions that compute the address of an iteration: loads from NRAM, plain operations, additions."""

    loads: int = 0
    operations: int = 0
    additions: int = 0

    def plus(self, other: AddressInstructions) -> AddressInstructions:
        """Return the sum of two sets of instructions."""
        return AddressInstructions(
            self.loads + other.loads, self.operations + other.operations, self.additions + other.additions
        )

    def cycles(self, board: Board) -> int:
        """Return their time on a board, in cycles."""
        return (
            self.loads * board.scalar_nram_cycles
            + self.operations * board.scalar_op_cycles
            + self.additions * board.scalar_add_cycles
        )


# For row numbers that need no computation.
NO_ADDRESS = AddressInstructions()


def address_instructions(columns: int, narrowed: int = 0, *, positional: bool) -> AddressInstructions:
    """Return the cost of one address from `columns` index values in NRAM, `narrowed` of them within a window."""
    return AddressInstructions(columns, 2 * columns + 2 * narrowed, 2 * columns + positional)


def scalar_copy_cycles(board: Board, iterations: int, selected: int, row_elements: int, address: int) -> int:
    """Cycles of a scalar loop of `iterations`, `selected` of which copy a row within NRAM element by element.

    Each iteration costs its address and the loop overhead; each element a load and a store, and in rows of more than
    one element the overhead of an inner loop.
    """
    element = 2 * board.scalar_nram_cycles + (board.scalar_loop_cycles if row_elements > 1 else 0)
    return iterations * (address + board.scalar_loop_cycles) + selected * row_elements * element


def rows_cost(
    board: Board, copy: CopyShape, method: str, *, iterations: int = 0, address: int = 0, memory_core: bool = False
) -> CopyCost:
    """Return the cost of copying the rows (segments) of a `CopyShape`, one instruction each or one for all.

    Args:
        copy: the copy; its segments are the rows.
        method: "blocking": a loop of `__memcpy`, each awaited before the next is issued; "queued", or "runs" for copies
            of several rows each: a loop of `__memcpy_async` and a sync; "instruction": one `__gather` or `__scatter`.
        iterations: number of iterations if there are more than rows, because some copy nothing.
        address: scalar cycles of each iteration, without issue and loop overhead.
        memory_core: whether the memory core issues the copies.

    From and to DRAM, a row of a queued loop takes at least `gather_element_ps` or `dma_segment_ps`: single copies are
    not faster than the instruction that does the same, or than segments. Within NRAM each copy has its own start-up; a
    row of the instruction takes at least one scalar access to NRAM (ASSUMED: nothing is published).
    """
    one_copy = copy_cost(board, copy, memory_core=memory_core)
    rows = copy.segments
    iteration_cycles = address + board.scalar_loop_cycles
    scalar_ps = (
        0
        if method == "instruction"
        else board.cycles_ps(max(iterations, rows) * iteration_cycles + rows * board.issue_cycles)
    )
    if not one_copy.work:
        row_cycles = ceil_div(copy.segment_bytes, board.move_bytes_per_cycle)
        if method == "instruction":
            cycles = board.move_startup_cycles + rows * max(board.scalar_nram_cycles, row_cycles)
        else:
            cycles = rows * (board.move_startup_cycles + row_cycles)
        moving_ps = board.cycles_ps(cycles)
        duration_ps = moving_ps + scalar_ps if method == "blocking" else max(moving_ps, scalar_ps)
        return CopyCost(0.0, 1.0, 1.0, one_copy.traffic, duration_ps, duration_ps)
    off_chip = copy.direction.off_chip
    row_ps = one_copy.work / one_copy.limit / rows
    if method == "instruction":
        latency_ps = one_copy.latency_ps
        total_ps = rows * max(row_ps, board.gather_element_ps)
    else:
        # Loops are awaited, so their latency is part of the rate and overlaps nothing.
        latency_ps = 0
        if method == "blocking":
            total_ps = rows * (row_ps + one_copy.latency_ps) + scalar_ps
        else:
            slowest_ps = max(row_ps, board.dma_segment_ps, board.gather_element_ps) if off_chip else row_ps
            total_ps = one_copy.latency_ps + max(rows * slowest_ps, scalar_ps)
    limit = one_copy.work / total_ps
    mixes = copy.direction.source.off_chip and copy.direction.destination.off_chip
    alone_ps = latency_ps + ceil_ps(one_copy.work / rate_alone(board, limit, off_chip=off_chip, mixes=mixes))
    return CopyCost(one_copy.work, limit, one_copy.work_per_byte, one_copy.traffic, latency_ps, alone_ps)


def row_units(view: View, rows: Integers | None, count: int, row_bytes: int, unit_bytes: int) -> tuple[int, int]:
    """Return the bus bytes that rows of a view touch, and those of partly touched units. None: the first `count`."""
    base = (view.allocation.address + view.offset) % unit_bytes
    stride = view.strides[0]
    if unit_bytes % row_bytes == 0 and base % row_bytes == 0 and stride % row_bytes == 0:
        # Rows that never cross a unit boundary, such as single elements.
        return count * unit_bytes, count * unit_bytes * (row_bytes < unit_bytes)
    units, parts = _units_by_row(base, stride % unit_bytes, row_bytes, unit_bytes)
    period = len(units)
    if period == 1:
        return int(units[0]) * count * unit_bytes, int(parts[0]) * count * unit_bytes
    phases = np.arange(count) % period if rows is None else rows % period
    # The reduction of `sum`, without its calls in Python.
    return int(np.add.reduce(units[phases])) * unit_bytes, int(np.add.reduce(parts[phases])) * unit_bytes


def run_units(
    view: View, starts: Integers, lengths: Integers, row_bytes: int, unit_bytes: int, *, writes: bool
) -> tuple[int, int]:
    """As `row_units` for runs of contiguous rows; partly touched units matter to writes only, and are 0 otherwise."""
    base = (view.allocation.address + view.offset) % unit_bytes
    units, covered_units = element_loops.units_of_runs(starts, lengths, base, row_bytes, unit_bytes)
    return units * unit_bytes, (units - covered_units) * unit_bytes if writes else 0


def worst_row_units(view: View, count: int, row_bytes: int, unit_bytes: int) -> tuple[int, int]:
    """As `row_units` for rows that no scalar code has read: each is charged as the worst of the view."""
    base = (view.allocation.address + view.offset) % unit_bytes
    extent = max(min(view.shape[0], unit_bytes), 1)
    units, parts = _most_units(base, view.strides[0] % unit_bytes, extent, row_bytes, unit_bytes)
    return units * count * unit_bytes, parts * count * unit_bytes


@lru_cache(maxsize=1024)
def _most_units(base: int, stride: int, extent: int, row_bytes: int, unit_bytes: int) -> tuple[int, int]:
    """Return the most units, and partly touched units, of any of the first `extent` rows."""
    units, parts = _units_by_row(base, stride, row_bytes, unit_bytes)
    return int(units[:extent].max()), int(parts[:extent].max())


@lru_cache(maxsize=1024)
def _units_by_row(base: int, stride: int, row_bytes: int, unit_bytes: int) -> tuple[Integers, Integers]:
    """Return the bus units that a row touches, and how many of these only partly, by row number modulo their period.

    base, stride: of the rows, in bytes, modulo a unit.
    """
    period = unit_bytes // math.gcd(stride, unit_bytes)
    starts = (base + stride * np.arange(period, dtype=np.int64)) % unit_bytes
    stops = starts + row_bytes
    units = -(-stops // unit_bytes)
    return units, units - np.maximum(0, stops // unit_bytes - (starts > 0))

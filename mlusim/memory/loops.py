"""The cost of loops of equal small instructions: address arithmetic, element and row copies.

Planners use these functions as the simulator does. An iteration of a loop pays for each column of its index a scalar
load, the comparison with 0 and the add that wrap a negative value, the multiplication by the row length and its add;
two comparisons more where the loop works on a window of the axis only; and one add where the address depends on the
position.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mlusim.hardware import Board
from mlusim.memory.copy import CopyShape
from mlusim.memory.timing import CopyCost, copy_cost, rate_alone
from mlusim.memory.view import View
from mlusim.units import ceil_div, ceil_ps

Indices = np.ndarray[Any, np.dtype[np.int64]]

# Vector instructions that deal rows and values out to one bin: subtract, compare, collect twice, count.
COLLECT_BINS_PASSES = 5


class AddressInstructions(NamedTuple):
    """Scalar instructions of one iteration that work its addresses out: loads from NRAM, ordinary ones, adds."""

    loads: int = 0
    operations: int = 0
    additions: int = 0

    def and_also(self, other: AddressInstructions) -> AddressInstructions:
        """The instructions of both."""
        return AddressInstructions(*(mine + its for mine, its in zip(self, other, strict=True)))

    def cycles(self, board: Board) -> int:
        """Their time on a board."""
        return (
            self.loads * board.scalar_nram_cycles
            + self.operations * board.scalar_op_cycles
            + self.additions * board.scalar_add_cycles
        )


def address_instructions(columns: int, narrowed: int = 0, *, positional: bool = False) -> AddressInstructions:
    """The cost of one address from `columns` index values in NRAM, `narrowed` of them within a window."""
    return AddressInstructions(columns, 2 * columns + 2 * narrowed, 2 * columns + positional)


def address_cycles(board: Board, columns: int, narrowed: int = 0, *, positional: bool = False) -> int:
    """The same in cycles of a board."""
    return address_instructions(columns, narrowed, positional=positional).cycles(board)


def scalar_copy_cycles(board: Board, iterations: int, selected: int, row_elements: int, address: int) -> int:
    """Cycles of a scalar loop of `iterations`, of which `selected` copy a row of elements within NRAM one by one.

    Each iteration costs its address and the loop; each element a load and a store, and in rows of several its own
    loop.
    """
    element = 2 * board.scalar_nram_cycles + (board.scalar_loop_cycles if row_elements > 1 else 0)
    return iterations * (address + board.scalar_loop_cycles) + selected * row_elements * element


def rows_cost(
    board: Board, copy: CopyShape, method: str, *, iterations: int = 0, address: int = 0, memory_core: bool = False
) -> CopyCost:
    """Cost of copying the rows (segments) of a `CopyShape` by an instruction each, or by one for all.

    Args:
        board: the board's record.
        copy: what moves; its segments are the rows.
        method: "blocking": a loop of `__memcpy`, each waited for before the next is issued; "queued": a loop of
            `__memcpy_async` and a sync; "instruction": one `__gather` or `__scatter`.
        iterations: of the loop, where more than rows: some copy nothing.
        address: scalar cycles of each iteration apart from the issue and the loop.
        memory_core: whether the memory core issues it.

    From and to DRAM, a row of a queued loop takes no less than `gather_element_ps` or `dma_segment_ps`: single copies
    are no faster than the instruction that does the same, or than segments. Within NRAM each copy starts up; a row of
    the instruction takes no less than one scalar access to NRAM (ASSUMED: nothing is published).
    """
    plain = copy_cost(board, copy, memory_core=memory_core)
    rows = copy.segments
    iteration_cycles = address + board.scalar_loop_cycles
    scalar_ps = (
        0
        if method == "instruction"
        else board.cycles_ps(max(iterations, rows) * iteration_cycles + rows * board.issue_cycles)
    )
    if not plain.work:
        row_cycles = ceil_div(copy.segment_bytes, board.move_bytes_per_cycle)
        if method == "instruction":
            cycles = board.move_startup_cycles + rows * max(board.scalar_nram_cycles, row_cycles)
        else:
            cycles = rows * (board.move_startup_cycles + row_cycles)
        moving_ps = board.cycles_ps(cycles)
        duration_ps = moving_ps + scalar_ps if method == "blocking" else max(moving_ps, scalar_ps)
        return CopyCost(0.0, 1.0, 1.0, plain.traffic, duration_ps, duration_ps)
    off_chip = copy.direction.off_chip
    row_ps = plain.work / plain.limit / rows
    if method == "instruction":
        latency_ps = plain.latency_ps
        total_ps = rows * max(row_ps, board.gather_element_ps)
    else:
        # Loops are waited for, so their latency is in the rate and overlaps nothing.
        latency_ps = 0
        if method == "blocking":
            total_ps = rows * (row_ps + plain.latency_ps) + scalar_ps
        else:
            slowest_ps = max(row_ps, board.dma_segment_ps, board.gather_element_ps) if off_chip else row_ps
            total_ps = plain.latency_ps + max(rows * slowest_ps, scalar_ps)
    limit = plain.work / total_ps
    both = copy.direction.source.off_chip and copy.direction.destination.off_chip
    alone_ps = latency_ps + ceil_ps(plain.work / rate_alone(board, limit, off_chip=off_chip, both=both))
    return CopyCost(plain.work, limit, plain.ratio, plain.traffic, latency_ps, alone_ps)


def row_units(view: View, rows: Indices | None, count: int, row_bytes: int, unit_bytes: int) -> tuple[int, int]:
    """Bus bytes that rows of a view touch, and those of units touched in part; rows None: its first `count`."""
    base = (view.allocation.address + view.offset) % unit_bytes
    stride = view.strides[0]
    if unit_bytes % row_bytes == 0 and base % row_bytes == 0 and stride % row_bytes == 0:
        # Aligned parts of a unit, such as single elements.
        return count * unit_bytes, count * unit_bytes * (row_bytes < unit_bytes)
    if stride % unit_bytes == 0:
        starts = np.full(1, base, np.int64)
    else:
        starts = (base + stride * (np.arange(count, dtype=np.int64) if rows is None else rows)) % unit_bytes
    units, parts = _units(starts, row_bytes, unit_bytes)
    times = count if len(starts) != count else 1
    return int(units.sum()) * times * unit_bytes, int(parts.sum()) * times * unit_bytes


def most_row_units(view: View, count: int, row_bytes: int, unit_bytes: int) -> tuple[int, int]:
    """The same for rows that no scalar code has read: each charged as the worst of the view, whatever the data."""
    base = (view.allocation.address + view.offset) % unit_bytes
    starts = (base + view.strides[0] * np.arange(max(min(view.shape[0], unit_bytes), 1), dtype=np.int64)) % unit_bytes
    units, parts = _units(starts, row_bytes, unit_bytes)
    return int(units.max()) * count * unit_bytes, int(parts.max()) * count * unit_bytes


def _units(starts: Indices, row_bytes: int, unit_bytes: int) -> tuple[Indices, Indices]:
    stops = starts + row_bytes
    units = -(-stops // unit_bytes)
    return units, units - np.maximum(0, stops // unit_bytes - (starts > 0))

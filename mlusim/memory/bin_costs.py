"""The cost of sorting elements into bins: by vector instructions, or by a counting sort in scalar loops.

Planners and the simulator use the same functions; `mlusim.cores.counted.bin_sort` has the instructions.
"""

from __future__ import annotations

import math

from mlusim.hardware import Board
from mlusim.memory.loop_costs import AddressInstructions, scalar_copy_cycles
from mlusim.units import ceil_div

# Bin numbers have 16 bits, which NumPy sorts by radix.
MAX_BINS = 1 << 16
# Vector instructions that distribute rows and values to one bin: subtract, compare, collect twice, count.
COLLECT_BINS_PASSES = 5


def scalar_bins_instructions(address: AddressInstructions) -> AddressInstructions:
    """Return the instructions that sort one element into its bin, besides copying its value, in two scalar loops.

    Both loops compute the row, by the instructions of `address`, and its bin: a multiplication by the reciprocal of the
    size, and a shift. Both load, increment and store the counter of the bin. The second also computes the row within
    the bin, a multiplication and a subtraction, and stores it. Stores cost as much as loads.
    """
    return address.plus(address).plus(AddressInstructions(loads=5, operations=5, additions=3))


def bin_levels(board: Board, nbytes: int, bins: float) -> tuple[int, int]:
    """Return how `collect_bins` sorts elements of `nbytes` into bins: the number of groups, and its cycles.

    Each bin takes `COLLECT_BINS_PASSES` instructions over all elements. If that is faster, the elements are first
    sorted into groups of bins, about as many as there are bins in each, and then each group into its bins. The
    instructions for all groups read bins / groups times all elements in total, however the elements are distributed; a
    part that is not whole lines of the vector unit takes one more cycle. Two moves of rows and values follow, because
    the second level writes where the first one read. One group means that all bins are sorted at once.
    """
    startup, lines = board.vector_startup_cycles, ceil_div(nbytes, board.vector_bytes_per_cycle)
    at_once = COLLECT_BINS_PASSES * bins * (startup + lines)
    groups = math.isqrt(max(math.ceil(bins) - 1, 0)) + 1
    first = groups * (startup + lines)
    second = bins * (startup + 1) + math.ceil(bins / groups) * lines
    two_levels = COLLECT_BINS_PASSES * (first + second) + 2 * (startup + lines)
    return (groups, math.ceil(two_levels)) if two_levels < at_once else (1, math.ceil(at_once))


def bin_counter_cycles(board: Board) -> int:
    """Return the cycles for the counter of a bin: a loop clears it, another one replaces it by the start of the bin."""
    return 3 * board.scalar_nram_cycles + board.scalar_add_cycles + 2 * board.scalar_loop_cycles


def scalar_bins_cycles(board: Board, elements: int, address: AddressInstructions) -> int:
    """Return the cycles of both loops over the elements; the counters are those of `bin_counter_cycles`."""
    element_cycles = scalar_bins_instructions(address).cycles(board) + board.scalar_loop_cycles
    return scalar_copy_cycles(board, elements, elements, 1, element_cycles)

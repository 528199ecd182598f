"""The cost of an instruction in cycles of its pipe: a start-up, then 128 B of the widest operand per cycle.

Functions that the vector unit computes in several steps cost more per 128 B; the numbers are parameters of the board
(`vector_log_cycles` and similar). Pools cost one pass over the result per element of the window; the tensor pipe counts
multiply-adds. A cost depends only on fields of the log, so that a run can be retimed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from mlusim.memory.bin_costs import COLLECT_BINS_PASSES, bin_levels
from mlusim.units import ceil_div

if TYPE_CHECKING:
    from mlusim.hardware.board_record import Board


@dataclass(frozen=True, slots=True)
class Work:
    """The operands of an instruction, as far as its cost depends on them.

    Attributes:
        widest_bytes: bytes of its widest operand.
        sizes: elements of each view among its operands, the result first.
        itemsizes: bytes per element of each.
        count: number of repetitions: passes, elements of a window, depth of a convolution.
        integers: whether it is a tensor instruction that multiplies integers.
    """

    widest_bytes: int
    sizes: tuple[int, ...]
    itemsizes: tuple[int, ...]
    count: int = 1
    integers: bool = False


Cost: TypeAlias = Callable[["Board", Work], int]


def lines(board: Board, nbytes: int) -> int:
    """Number of 128 B lines (`vector_bytes_per_cycle`) in `nbytes`, at least one."""
    return max(1, ceil_div(nbytes, board.vector_bytes_per_cycle))


def stream(board: Board, work: Work) -> int:
    """Cost of `count` passes over the widest operand, each with a start-up."""
    return work.count * (board.vector_startup_cycles + lines(board, work.widest_bytes))


def bins(board: Board, work: Work) -> int:
    """Cost of `collect_bins`, in one or two levels; `count`: instructions in one level."""
    return bin_levels(board, work.widest_bytes, work.count // COLLECT_BINS_PASSES)[1]


# Loops of instructions by the name of their operation; all others are passes.
LOOPS: dict[str, Cost] = {"collect_bins": bins}


def function(kind: str) -> Cost:
    """Return the cost of functions of class `kind`: a start-up and the board's `vector_<kind>_cycles` per 128 B."""

    def cost(board: Board, work: Work) -> int:
        cycles: int = getattr(board, f"vector_{kind}_cycles")
        return board.vector_startup_cycles + lines(board, work.widest_bytes) * cycles

    return cost


def window(board: Board, work: Work) -> int:
    """Cost of a pool: one pass over the smaller side per element of the window, at least one over the wider side."""
    pooled = min(size * itemsize for size, itemsize in zip(work.sizes[:2], work.itemsizes[:2], strict=True))
    steps = max(lines(board, work.widest_bytes), lines(board, pooled) * work.count)
    return board.vector_startup_cycles + steps

"""What an instruction costs in cycles of its pipe: the start-up once, then 128 B of the widest operand a cycle.

Functions that the vector unit works out in several steps cost more for each 128 B; the numbers are parameters of the
board (`vector_log_cycles` and its kin). Pools cost one pass over the result for each element of the window; the tensor
pipe counts multiply-adds. A cost depends on nothing but what the log keeps, so that a run can be timed again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from mlusim.hardware.board import Board


@dataclass(frozen=True, slots=True)
class Work:
    """The operands of an instruction, as far as its cost depends on them.

    Attributes:
        widest_bytes: bytes of its widest operand.
        sizes: elements of each view among its operands, the result first.
        itemsizes: bytes of an element of each.
        count: how often it does something: passes, elements of a window, depth of a convolution.
    """

    widest_bytes: int
    sizes: tuple[int, ...]
    itemsizes: tuple[int, ...]
    count: int = 1


Cost: TypeAlias = Callable[["Board", Work], int]


def lines(board: Board, nbytes: int) -> int:
    """128 B lines (`vector_bytes_per_cycle`) that `nbytes` take, at least one."""
    return max(1, -(-nbytes // board.vector_bytes_per_cycle))


def stream(board: Board, work: Work) -> int:
    """`count` passes over the widest operand, each with a start-up."""
    return work.count * (board.vector_startup_cycles + lines(board, work.widest_bytes))


def function(kind: str) -> Cost:
    """A function of the class `kind`: the board's `vector_<kind>_cycles` for each 128 B, the start-up once."""

    def cost(board: Board, work: Work) -> int:
        each: int = getattr(board, f"vector_{kind}_cycles")
        return board.vector_startup_cycles + lines(board, work.widest_bytes) * each

    return cost


def window(board: Board, work: Work) -> int:
    """A pool: one pass over the smaller side for each element of the window, and at least one over the wider."""
    pooled = min(size * itemsize for size, itemsize in zip(work.sizes[:2], work.itemsizes[:2], strict=True))
    steps = max(lines(board, work.widest_bytes), lines(board, pooled) * work.count)
    return board.vector_startup_cycles + steps

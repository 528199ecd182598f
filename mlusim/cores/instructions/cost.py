"""What an instruction costs in cycles of its pipe: the start-up once, then 128 B of the widest operand a cycle.

Functions that the vector unit works out in several steps cost more for each 128 B; the numbers are parameters of the
board (`vector_log_cycles` and its kin). Pools cost one pass for each element of the window; the tensor pipe counts
multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from mlusim.hardware.board import Board


@dataclass(frozen=True, slots=True)
class Work:
    """What an instruction works on, as far as its cost depends on it.

    Attributes:
        widest_bytes: bytes of its widest operand.
        sizes: elements of each operand, the result first; 1 for a number.
        itemsizes: bytes of an element of each operand.
        attributes: the arguments after the operands.
        integer: whether the first source has integers.
    """

    widest_bytes: int
    sizes: tuple[int, ...]
    itemsizes: tuple[int, ...]
    attributes: Mapping[str, Any]
    integer: bool = False


Cost: TypeAlias = Callable[["Board", Work], int]


def lines(board: Board, nbytes: int) -> int:
    """128 B lines (`vector_bytes_per_cycle`) that `nbytes` take, at least one."""
    return max(1, -(-nbytes // board.vector_bytes_per_cycle))


def stream(board: Board, work: Work) -> int:
    """One pass over the widest operand."""
    return board.vector_startup_cycles + lines(board, work.widest_bytes)


def passes(count: int) -> Cost:
    """Several passes, each with a start-up of its own."""

    def cost(board: Board, work: Work) -> int:
        return count * stream(board, work)

    return cost


def function(kind: str) -> Cost:
    """A function of the class `kind`: the board's `vector_<kind>_cycles` for each 128 B, the start-up once."""

    def cost(board: Board, work: Work) -> int:
        each: int = getattr(board, f"vector_{kind}_cycles")
        return board.vector_startup_cycles + lines(board, work.widest_bytes) * each

    return cost


def window(board: Board, work: Work) -> int:
    """A pool: one pass over the result for each element of the window."""
    elements = int(work.attributes["kernel_height"]) * int(work.attributes["kernel_width"])
    result_bytes = work.sizes[0] * work.itemsizes[1]
    return board.vector_startup_cycles + max(
        lines(board, work.widest_bytes), lines(board, result_bytes) * max(1, elements)
    )

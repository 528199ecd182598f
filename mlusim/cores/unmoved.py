"""Vector instructions on what an NRAM owes: loads whose bytes are still in the input (`mlusim.memory.deferred`).

A mirror of such a tile is the same input, looked at backwards. A conversion reads the input itself. A fill overwrites
what is owed, and its value is owed itself. All other instructions find their operands written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.memory.deferred import LEAST_BYTES, Deferred
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.instructions.record import Instruction


# Instructions that give every element of their result the same value: 0, or their `value`.
_FILLS = ("write_zero", "write_value", "fill")

# Bytes of a fill that is worth owing even where the last one there had to be written after all.
_LEAST_AGAIN_BYTES = 1 << 18


def done_unmoved(
    deferred: Deferred, instruction: Instruction, operands: Sequence[Any], effect: Callable[[], Any]
) -> bool:
    """Let an instruction act that can do without its operands being written.

    Args:
        deferred: what the NRAM of its core owes.
        instruction: its entry in the table.
        operands: the result, then the sources.
        effect: `instruction.compute` on the arrays of the operands, attributes included.

    Returns false, and does nothing, where it cannot.
    """
    result = operands[0]
    if len(operands) == 1:
        first, last = _span(result)
        least = _LEAST_AGAIN_BYTES if first in deferred.looked_at else LEAST_BYTES
        if instruction.name in _FILLS and result.nbytes >= least:
            value = getattr(effect, "keywords", {}).get("value", 0)
            deferred.put(first, last, _equal(result.size, result.dtype, _bytes_of(value, result.dtype)))
        else:
            deferred.forget(first, last)
            effect()
        return True
    source = operands[1]
    if len(operands) > 2 or result.nbytes < LEAST_BYTES or not isinstance(source, View):
        return False
    owed = deferred.find(*_span(source), source.shape, source.dtype)
    if owed is None:
        return False
    if instruction.name == "mirror":
        deferred.put(*_span(result), owed[..., ::-1])
        return True
    if instruction.name == "convert" and owed.flags.c_contiguous:
        deferred.forget(*_span(result))
        attributes = getattr(effect, "keywords", {})
        instruction.compute(result.typed(), owed, **attributes)
        return True
    return False


def settle_operands(deferred: Deferred, operands: Sequence[Any]) -> None:
    """Write what is owed to the operands of an instruction, its result included: it may write parts of it alone."""
    for operand in operands:
        if isinstance(operand, View):
            deferred.settle(*_span(operand))


@lru_cache(maxsize=256)
def _equal(count: int, dtype: np.dtype[Any], element: bytes) -> np.ndarray[Any, Any]:
    """An array of one element, seen as often as there are elements."""
    return np.ndarray((count,), dtype, element, 0, (0,))


def _bytes_of(value: Any, dtype: np.dtype[Any]) -> bytes:
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype).tobytes()


def _span(view: View) -> tuple[int, int]:
    """The bytes of a contiguous view in its memory, from the first to before the last."""
    first = view.allocation.address + view.offset
    return first, first + view.nbytes

"""Vector instructions on what an NRAM owes: loads whose bytes are still in the input (`mlusim.memory.deferred`).

A mirror of such a tile is the same input, looked at backwards. A conversion reads the input itself. A fill overwrites
what is owed, and zeros are owed themselves. All other instructions find their operands written.
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
        if instruction.name == "write_zero" and result.nbytes >= LEAST_BYTES:
            deferred.put(*_span(result), _zeros(result.size, result.dtype))
        else:
            deferred.forget(*_span(result))
            effect()
        return True
    source = operands[1]
    if len(operands) > 2 or result.nbytes < LEAST_BYTES or not isinstance(source, View):  # noqa: PLR2004
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


@lru_cache(maxsize=256)
def _zeros(count: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array of one zero, seen as often as there are elements."""
    return np.ndarray((count,), dtype, bytes(dtype.itemsize), 0, (0,))


def _span(view: View) -> tuple[int, int]:
    """The bytes of a contiguous view in its memory, from the first to before the last."""
    first = view.allocation.address + view.offset
    return first, first + view.nbytes

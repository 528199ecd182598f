"""Vector instructions on deferred loads, whose bytes are still in the input (`mlusim.memory.deferred`).

A mirror of such a tile is a reversed view of the input. A conversion is deferred like the load: the store converts from
the input to the output. A fill cancels the deferred load and is itself deferred. For all other instructions the
operands are written first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlusim.arrays import as_element
from mlusim.memory.deferred import MIN_BYTES, Conversion, DeferredWrite, DeferredWrites, memory_span
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.compute.vector_call import VectorCall


# Instructions that set every element of their result to the same value: 0, or their `value`.
_FILLS = ("write_zero", "write_value", "fill")

# Smallest fill that is deferred again where an earlier one had to be written after all.
_MIN_REPEATED_BYTES = 1 << 18


def apply_deferred(
    deferred: DeferredWrites, call: VectorCall, operands: Sequence[Any], effect: Callable[[], Any] | None
) -> bool:
    """Apply an instruction without writing its deferred operands, if possible.

    Args:
        deferred: deferred loads of the core's NRAM.
        call: the instruction and its attributes.
        operands: the result, then the sources.
        effect: its computation, if that is not `call.compute` on the arrays of the operands.

    Returns false, without any effect, if it is not possible.
    """
    instruction, result = call.instruction, operands[0]
    if len(operands) == 1:
        first, last = memory_span(result)
        min_bytes = _MIN_REPEATED_BYTES if first in deferred.written_early else MIN_BYTES
        if instruction.name in _FILLS and result.nbytes >= min_bytes:
            deferred.put(DeferredWrite(first, last, as_element(call.attributes.get("value", 0), result.dtype)))
        else:
            deferred.discard(first, last)
            if effect is None:
                call.compute(result.elements)
            else:
                effect()
        return True
    source = operands[1]
    if len(operands) > 2 or result.nbytes < MIN_BYTES or not isinstance(source, View):
        return False
    deferred_source = deferred.find(*memory_span(source), source.shape, source.dtype)
    if deferred_source is None:
        return False
    if instruction.name == "mirror":
        deferred.put(DeferredWrite(*memory_span(result), deferred_source[..., ::-1]))
        return True
    if instruction.name == "convert" and deferred_source.flags.c_contiguous:
        first, last = memory_span(result)
        if first in deferred.written_early:
            deferred.discard(first, last)
            call.compute(result.elements, deferred_source)
        else:
            deferred.put(DeferredWrite(first, last, deferred_source, Conversion(call.compute, result.dtype)))
        return True
    return False


def flush_operands(deferred: DeferredWrites, operands: Sequence[Any]) -> None:
    """Write deferred bytes of an instruction's operands, including its result, which it may write only in part."""
    deferred.count_other()
    for operand in operands:
        if isinstance(operand, View):
            deferred.flush(*memory_span(operand))

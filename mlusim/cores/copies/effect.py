"""The effect of a copy on memory when it completes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from mlusim.arrays import Array
from mlusim.memory.allocation import Allocation
from mlusim.memory.deferred import DeferredWrite

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer

# An allocation, and a byte in it.
Place = tuple[Allocation, int]


def copy_effect(to: Array, origin: Array) -> Any:
    """Return the effect of a copy between two arrays of equal size.

    For equal shapes a pair of arrays, which `Transfer.done` copies without a call, else a function.
    """
    return (to, origin) if to.shape == origin.shape else partial(_copy_reshaped, to, origin)


def large_copy_effect(issuer: Issuer, dst: Place, src: Place, to: Array, origin: Array) -> Any:
    """Return the effect of a large copy.

    If its bytes need not pass through NRAM, that is the `DeferredWrite` of a deferred load, or the arguments of
    `DeferredWrites.store`; otherwise it is that of `copy_effect`.
    """
    unit = issuer.unit
    deferred = unit.deferred
    if deferred is not None and src[0].memory is unit.nram:
        if origin.flags.c_contiguous:
            first = src[0].address + src[1]
            source = origin if origin.shape == to.shape else origin.reshape(to.shape)
            return to, source, first, first + origin.nbytes
    elif deferred is not None and src[0].read_only and to.flags.c_contiguous:
        first = dst[0].address + dst[1]
        if first not in deferred.written_early:
            return DeferredWrite(first, first + to.nbytes, origin)
    return copy_effect(to, origin)


def _copy_reshaped(to: Array, origin: Array) -> None:
    to[...] = origin.reshape(to.shape)

"""The effect of a copy on memory when it completes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.memory.deferred import DeferredLoad, DeferredStore
from mlusim.memory.view import Pointer, View

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer

Array = np.ndarray[Any, Any]


def copy_effect(to: Array, origin: Array) -> Any:
    """Return the effect of a copy between two arrays of equal size.

    For equal shapes a pair of arrays, which `Transfer.done` copies without a call, else a function.
    """
    return (to, origin) if to.shape == origin.shape else partial(_copy_reshaped, to, origin)


def large_copy_effect(issuer: Issuer, dst: View | Pointer, src: View | Pointer, to: Array, origin: Array) -> Any:
    """Return the effect of a large copy: deferred if its bytes need not pass through NRAM, else as `copy_effect`."""
    unit = issuer.unit
    deferred = unit.deferred
    from_nram = src.allocation.memory is unit.nram
    near, pointer = (origin, src) if from_nram else (to, dst)
    if deferred is not None and near.flags.c_contiguous:
        first = pointer.allocation.address + pointer.offset
        if from_nram:
            return DeferredStore(
                deferred,
                first,
                first + near.nbytes,
                to,
                origin if origin.shape == to.shape else origin.reshape(to.shape),
            )
        if src.allocation.read_only and first not in deferred.written_early:
            return DeferredLoad(deferred, first, first + near.nbytes, origin)
    return copy_effect(to, origin)


def _copy_reshaped(to: Array, origin: Array) -> None:
    to[...] = origin.reshape(to.shape)

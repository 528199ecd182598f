"""Atomics on GDRAM: each reads, combines and writes every element without interference from other cores.

They use the pipe of a copy to GDRAM. ASSUMED: an atomic is ordered on its core like a blocking copy (the vendor's
kernels reuse its operand without a sync), and costs a store that reads every bus unit first. Not modelled: contention
of cores on one bus unit beyond its bandwidth.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.instructions.record import INTEGERS, NUMBERS
from mlusim.cores.memory_sets import check_row, transfer_from_core
from mlusim.cores.operands import Passed, check_view, number
from mlusim.dtypes import dtype_name
from mlusim.errors import OperandError
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.instructions.limits import Value
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.tasks.waiting import Waiting


# The new value of an element, from its old value and the operand, by the formulas of the vendor's header: the operand
# replaces NaN, because a comparison with NaN is false.
ATOMICS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "max": lambda old, operand: np.where(old > operand, old, operand),
    "min": lambda old, operand: np.where(old < operand, old, operand),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, operand: np.broadcast_to(operand, old.shape),
    "inc": lambda old, limit: np.where(old >= limit, 0, old + 1),
    "dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - 1),
}
COMPARE_AND_SWAP = "cas"
# Names in the log: atomics that return the old value, and those that do not.
FETCHING = frozenset(f"atomic_{name}" for name in (*ATOMICS, COMPARE_AND_SWAP))
REDUCING = frozenset(f"atomic_reduce_{name}" for name in (*ATOMICS, COMPARE_AND_SWAP))
ATOMIC_NAMES = FETCHING | REDUCING
# An exchange that does not return the old value reads nothing.
BLIND_ATOMICS = frozenset({"atomic_reduce_exch"})


def atomic(
    issuer: Issuer,
    line: int,
    operation: str,
    target: Passed,
    operand: Value,
    *,
    old: Passed | None = None,
    compare: Value | None = None,
    register: Array | None = None,
) -> Waiting | None:
    """An atomic on GDRAM: `__bang_atomic_add` and related with `old` or `register`, else `__bang_atomic_reduce_add`.

    Args:
        operation: add, max, min, and, or, xor, exch, inc, dec or cas.
        target: elements in GDRAM.
        operand: elements in this core's NRAM, as many as `target` has, or a number; rows are contiguous.
        old: receives the old values of the target, in NRAM; None if they are not needed.
        register: array that receives the old values if they go to registers instead.
        compare: for cas: the value that the target must have to be replaced by `operand`.

    inc: 0 if the old value is at least the operand, else one more. dec: the operand if the old value is 0 or above it,
    else one less. Raises `OperandError` for other memories, types, sizes or alignment.
    """
    fetches = old is not None or register is not None
    name = f"atomic_{operation}" if fetches else f"atomic_reduce_{operation}"
    _check_atomic(issuer, name, operation, target, (operand, compare, old))
    sources = tuple(value for value in (operand, compare) if isinstance(value, View))
    effect = None
    if issuer.has_data:
        values = _values(name, operand, target.dtype)
        compared = None if compare is None else _values(name, compare, target.dtype)
        old_values = register if old is None else old.typed()
        combine = _combine if target.is_contiguous else _combine_rows
        effect = partial(combine, issuer, operation, target.typed(), values, compared, old_values)
    else:
        issuer.chip.changed_by_atomic = issuer.log.count  # without data it may have changed
    return transfer_from_core(
        issuer, line, name, target, sources, effect, old=old, is_atomic=True, fetches=fetches, blocking=True
    )


def reissue(issuer: Issuer, line: int, name: str, views: list[View], *, blocking: bool) -> Waiting | None:
    """Issue a set or an atomic again from a log: its target, sources and old value; nothing is computed."""
    target, *sources = views
    # The old value of an atomic on a number may have gone to a register.
    old = sources.pop() if name in FETCHING and sources else None
    is_atomic, fetches = name in ATOMIC_NAMES, name in FETCHING
    return transfer_from_core(
        issuer,
        line,
        name,
        target,
        tuple(sources),
        None,
        old=old,
        is_atomic=is_atomic,
        fetches=fetches,
        blocking=blocking,
    )


def _combine(
    issuer: Issuer, operation: str, target: Array, operand: Array, compare: Array | None, old: Array | None
) -> None:
    shaped = operand.reshape(target.shape) if operand.ndim else operand
    with np.errstate(all="ignore"):
        if compare is not None:
            compared = compare.reshape(target.shape) if compare.ndim else compare
            new_values = np.where(target == compared, shaped, target)
        else:
            new_values = ATOMICS[operation](target, shaped)
    if new_values.tobytes() != target.tobytes():
        issuer.chip.changed_by_atomic = issuer.log.count
    if old is not None:
        np.copyto(old, target.reshape(old.shape))
    np.copyto(target, new_values)


def _combine_rows(
    issuer: Issuer, operation: str, target: Array, operand: Array, compare: Array | None, old: Array | None
) -> None:
    """Combine row by row: rows of the target may overlap, and each adds to the result of the one before."""
    others = [
        value.reshape(target.shape) if value is not None and value.ndim else value for value in (operand, compare)
    ]
    old_rows = np.empty(target.shape, target.dtype)
    for row in np.ndindex(target.shape[:-1]):
        operand_row, compare_row = (value[row] if value is not None and value.ndim else value for value in others)
        assert operand_row is not None
        _combine(issuer, operation, target[row], operand_row, compare_row, old_rows[row])
    if old is not None:
        np.copyto(old, old_rows.reshape(old.shape))


def _values(name: str, value: Value, dtype: np.dtype[Any]) -> Array:
    """Return a view's current elements, or a number in the element type."""
    return value.typed() if isinstance(value, View) else number(name, value, dtype)


def _check_atomic(
    issuer: Issuer, name: str, operation: str, target: Passed, others: tuple[Passed, Passed, Passed]
) -> None:
    """Raise `OperandError` for a target, or an operand, compared or old value, that the atomic does not take."""
    old = others[-1]
    for view in (target, *(() if old is None else (old,))):
        check_view(name, view)
    if target.memory is not MemoryKind.GDRAM:
        raise OperandError(f"{name} of {target!r}: atomics work on GDRAM only; elsewhere, use a vector instruction")
    types = INTEGERS if operation in {"and", "or", "xor", "inc", "dec"} else NUMBERS
    if target.dtype not in types:
        takes = ", ".join(map(dtype_name, types))
        raise OperandError(f"{name} of {dtype_name(target.dtype)} elements: it takes {takes}; convert them first")
    address = target.allocation.address + target.offset
    if address % target.itemsize:
        raise OperandError(
            f"{name} of {target!r} at byte {address}: the address must be a multiple of {target.itemsize} B"
        )
    for view in others:
        if not isinstance(view, View):
            continue
        if view.allocation.memory is not issuer.unit.nram:
            use = "stores the old value in" if view is old else "takes its operand from"
            raise OperandError(f"{name} with {view!r}: an atomic {use} this core's NRAM; pass a buffer there")
        check_row(name, view, "memcpy it to a buffer")
        if view.dtype != target.dtype or view.size != target.size:
            raise OperandError(
                f"{name} of {target!r} with {view!r}: both must have the same number of elements and the same type"
            )

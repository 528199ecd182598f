"""Pairs of accesses by different tasks that something other than a barrier orders, which are no races.

Accesses are rows of the access table, and pairs two columns of them.
"""

from __future__ import annotations

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.cores.atomics import ATOMIC_NAMES
from mlusim.verifier.accesses.geometry import group_rows
from mlusim.verifier.accesses.overlaps import Pairs
from mlusim.verifier.columns import ops_among
from mlusim.verifier.run import Run


def drop_ordered(run: Run, a: Integers, b: Integers) -> Pairs:
    """Return the pairs that no shared copy, atomic, lock or handshake orders."""
    for ordered in (_by_shared_copy, _by_atomics, _by_lock, _by_handshake):
        if len(a):
            one, other = (run.order.position[run.accesses.record[rows]] for rows in (a, b))
            is_unordered = ~ordered(run, one, other)
            a, b = a[is_unordered], b[is_unordered]
    return a, b


def _by_shared_copy(run: Run, one: Integers, other: Integers) -> Flags:
    """By pair of positions, whether another task's call of a memory core's copy orders that and an operation."""
    log, order = run.log, run.order
    ordered = np.zeros(len(one), bool)
    copies = order.position[np.array([*log.joined.values()], np.int64)]
    for pair in np.flatnonzero(np.isin(one, copies) | np.isin(other, copies)).tolist():
        first, second = int(one[pair]), int(other[pair])
        ordered[pair] = order.before(first, second) or order.before(second, first)
    return ordered


def _by_atomics(run: Run, one: Integers, other: Integers) -> Flags:
    """By pair of positions, whether both are atomics: the hardware orders them."""
    atomic = ops_among(run.log, ATOMIC_NAMES)
    return np.asarray(atomic[run.order.op[one]] & atomic[run.order.op[other]], bool)


def _by_lock(run: Run, one: Integers, other: Integers) -> Flags:
    """By pair of positions, whether a common lock protects them: they exclude each other."""
    if "lock" not in run.log.ops:
        return np.zeros(len(one), bool)
    return run.order.have_a_common_lock(one, other)


def _by_handshake(run: Run, one: Integers, other: Integers) -> Flags:
    """By pair of positions, whether a handshake through atomics orders them."""
    handshakes = run.handshakes
    if not handshakes:
        return np.zeros(len(one), bool)
    first, kind, _ = group_rows(one, other)
    pairs = zip(one[first].tolist(), other[first].tolist(), strict=True)
    return np.array([handshakes.orders(x, y) or handshakes.orders(y, x) for x, y in pairs], bool)[kind]

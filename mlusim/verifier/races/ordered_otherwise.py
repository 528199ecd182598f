"""Pairs of accesses by different tasks that something other than a barrier orders, which are no races.

Accesses are rows of the access table, and pairs two columns of them.
"""

from __future__ import annotations

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.sets_and_atomics import ATOMIC_NAMES
from mlusim.verifier.accesses.geometry import group_rows
from mlusim.verifier.accesses.overlaps import Pairs
from mlusim.verifier.columns import ops_among
from mlusim.verifier.run import Run


def drop_ordered(run: Run, a: Integers, b: Integers) -> Pairs:
    """Return the pairs that no shared copy, atomic, lock or handshake orders."""
    for drop in (_drop_shared_copies, _drop_atomics, _drop_locked, _drop_handshakes):
        if len(a):
            a, b = drop(run, a, b)
    return a, b


def _drop_shared_copies(run: Run, a: Integers, b: Integers) -> Pairs:
    """Drop pairs of a memory core's copy and an operation that another task's call of that copy orders."""
    log, record, order = run.log, run.accesses.record, run.order
    if not log.joined:
        return a, b
    copies = list(set(log.joined.values()))
    one, other = record[a], record[b]
    chosen = np.ones(len(a), bool)
    for row in np.flatnonzero(np.isin(one, copies) | np.isin(other, copies)).tolist():
        first, second = int(order.position[one[row]]), int(order.position[other[row]])
        chosen[row] = not (order.before(first, second) or order.before(second, first))
    return a[chosen], b[chosen]


def _drop_atomics(run: Run, a: Integers, b: Integers) -> Pairs:
    """Drop pairs of atomics: the hardware orders them."""
    atomic = ops_among(run.log, ATOMIC_NAMES)
    one, other = (atomic[run.order.op_of[run.accesses.record[rows]]] for rows in (a, b))
    both = one & other
    return a[~both], b[~both]


def _drop_locked(run: Run, a: Integers, b: Integers) -> Pairs:
    """Drop pairs protected by a common lock: they exclude each other."""
    if "lock" not in run.log.ops:
        return a, b
    locks, order = run.order.locks_held, run.order
    one, other = (locks[order.position[run.accesses.record[rows]]] for rows in (a, b))
    both = (one & other) != 0
    return a[~both], b[~both]


def _drop_handshakes(run: Run, a: Integers, b: Integers) -> Pairs:
    """Drop pairs ordered by a handshake through atomics."""
    handshakes = run.handshakes
    if not handshakes:
        return a, b
    one, other = (run.order.position[run.accesses.record[rows]] for rows in (a, b))
    first, kind, _ = group_rows(one, other)
    pairs = zip(one[first].tolist(), other[first].tolist(), strict=True)
    ordered = np.array([handshakes.orders(x, y) or handshakes.orders(y, x) for x, y in pairs], bool)[kind]
    return a[~ordered], b[~ordered]

"""Pairs of accesses by different tasks that something other than a barrier orders, which are no races.

Accesses are rows of the access table, and pairs two columns of them.
"""

from __future__ import annotations

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.sets_and_atomics import ATOMIC_NAMES
from mlusim.log import Log
from mlusim.verifier.accesses.geometry import group_rows
from mlusim.verifier.accesses.overlaps import Pairs
from mlusim.verifier.accesses.table import Accesses
from mlusim.verifier.order.handshakes import Handshakes
from mlusim.verifier.order.happens_before import Order


def drop_ordered(
    log: Log, columns: dict[str, Integers], accesses: Accesses, order: Order, a: Integers, b: Integers
) -> Pairs:
    """Return the pairs that no shared copy, atomic, lock or handshake orders.

    Args:
        log, columns, accesses, order: the run.
        a, b: the pairs.
    """
    a, b = _drop_shared_copies(log, accesses, order, a, b)
    a, b = _drop_atomics(log, accesses, order, a, b)
    a, b = _drop_locked(log, accesses, order, a, b)
    return _drop_handshakes(Handshakes(log, columns, accesses, order), accesses, order, a, b) if len(a) else (a, b)


def _drop_shared_copies(log: Log, accesses: Accesses, order: Order, a: Integers, b: Integers) -> Pairs:
    """Drop pairs of a memory core's copy and an operation that another task's call of that copy orders."""
    if not log.joined or not len(a):
        return a, b
    copies = list(set(log.joined.values()))
    one, other = accesses.record[a], accesses.record[b]
    chosen = np.ones(len(a), bool)
    for row in np.flatnonzero(np.isin(one, copies) | np.isin(other, copies)).tolist():
        first, second = int(order.position[one[row]]), int(order.position[other[row]])
        chosen[row] = not (order.before(first, second) or order.before(second, first))
    return a[chosen], b[chosen]


def _drop_atomics(log: Log, accesses: Accesses, order: Order, a: Integers, b: Integers) -> Pairs:
    """Drop pairs of atomics: the hardware orders them."""
    atomic = np.array([name in ATOMIC_NAMES for name in log.ops], bool)[order.op_of]
    both = atomic[accesses.record[a]] & atomic[accesses.record[b]]
    return a[~both], b[~both]


def _drop_locked(log: Log, accesses: Accesses, order: Order, a: Integers, b: Integers) -> Pairs:
    """Drop pairs protected by a common lock: they exclude each other."""
    if "lock" not in log.ops or not len(a):
        return a, b
    locks = order.locks_held
    one, other = (locks[order.position[accesses.record[rows]]] for rows in (a, b))
    both = (one & other) != 0
    return a[~both], b[~both]


def _drop_handshakes(handshakes: Handshakes, accesses: Accesses, order: Order, a: Integers, b: Integers) -> Pairs:
    """Drop pairs ordered by a handshake through atomics."""
    if not handshakes:
        return a, b
    one, other = (order.position[accesses.record[rows]] for rows in (a, b))
    first, kind, _ = group_rows(one, other)
    pairs = zip(one[first].tolist(), other[first].tolist(), strict=True)
    ordered = np.array([handshakes.orders(x, y) or handshakes.orders(y, x) for x, y in pairs], bool)[kind]
    return a[~ordered], b[~ordered]

"""Copies that are replaced before anything reads them: a part of a buffer is wrong there, and no sync is missing."""

from __future__ import annotations

import numpy as np

from mlusim.log import Log
from mlusim.verifier.accesses.table import Accesses
from mlusim.verifier.order.happens_before import Order


def replaces_unread(log: Log, accesses: Accesses, order: Order, a: int, b: int) -> str:
    """Return which operation of a read that races with a write replaces an unread copy: "first", "second" or "".

    The first one, a copy itself, replaces another copy to the same bytes. The second one replaces a copy with its
    result, and does not read these bytes: it reads others instead.
    """
    if not accesses.write[a] or accesses.write[b]:
        return ""
    if _is_copy(log, accesses, order, a) and _replaces_copy(log, accesses, order, a):
        return "first"
    own = np.flatnonzero(accesses.record == accesses.record[b])
    for row in own[accesses.write[own]].tolist():
        reads = own[~accesses.write[own] & (accesses.alloc[own] == accesses.alloc[row])]
        apart = (accesses.low[reads] >= accesses.high[row]) | (accesses.high[reads] <= accesses.low[row])
        if accesses.alloc[row] == accesses.alloc[b] and apart.all() and _replaces_copy(log, accesses, order, row):
            return "second"
    return ""


def _replaces_copy(log: Log, accesses: Accesses, order: Order, row: int) -> bool:
    """Return whether the last access of its task to the bytes of a write is a copy to the same bytes."""
    before = accesses.meeting(row) & (accesses.record < accesses.record[row])
    before &= order.task_of[accesses.record] == order.task_of[accesses.record[row]]
    last = np.flatnonzero(before)[-1:].tolist()
    return any(
        bool(accesses.write[one])
        and _is_copy(log, accesses, order, one)
        and (accesses.low[one], accesses.high[one]) == (accesses.low[row], accesses.high[row])
        for one in last
    )


def _is_copy(log: Log, accesses: Accesses, order: Order, row: int) -> bool:
    return log.ops[int(order.op_of[accesses.record[row]])] == "memcpy"

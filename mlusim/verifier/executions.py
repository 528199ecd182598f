"""How often the line of a race is executed, and how often it could have raced."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlusim.arrays import Integers
from mlusim.verifier.accesses import Accesses
from mlusim.verifier.happens_before import Order


def executions_of(order: Order, accesses: Accesses, one: Integers, other: Integers) -> dict[str, Any]:
    """Return fields about the executions of the first line of pairs of accesses, all of the same two lines.

    `comparable` counts those that the second line follows as often, before anything orders the two, as in a race.
    """
    record = accesses.record
    first, second = order.line_of[record[one[0]]], order.line_of[record[other[0]]]
    firsts, seconds = (np.sort(order.position[np.flatnonzero(order.line_of == line)]) for line in (first, second))
    races = np.unique(np.stack([order.position[record[one]], order.position[record[other]]]), axis=1)
    races = races[:, np.unique(races[0], return_index=True)[1]]
    needed = np.median(np.searchsorted(seconds, races[1], "right") - np.searchsorted(seconds, races[0], "right"))
    following = np.searchsorted(seconds, order.done[firsts], "right") - np.searchsorted(seconds, firsts, "right")
    tasks, begins = np.unique(order.task[firsts], return_index=True)
    return {
        "executions": len(firsts),
        "tasks": len(tasks),
        "comparable": max(int((following >= needed).sum()), races.shape[1]),
        "first_turns": bool(np.isin(races[0], firsts[begins]).all()),
    }

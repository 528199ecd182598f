"""How often the line of a race is executed, and how often it could have raced."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlusim.arrays import Integers
from mlusim.verifier.run import Run


def executions_of(run: Run, one: Integers, other: Integers) -> dict[str, Any]:
    """Return fields about the executions of the first line of pairs of accesses, all of the same two lines.

    `comparable` counts those that the second line follows as often, before anything orders the two, as in a race.
    """
    order, record = run.order, run.accesses.record
    first, second = order.line_of[record[one[0]]], order.line_of[record[other[0]]]
    firsts, seconds = (np.sort(order.position[np.flatnonzero(order.line_of == line)]) for line in (first, second))
    # Of each execution that races, the first race.
    racing, number = np.unique(order.position[record[one]], return_inverse=True)
    ends = np.full(len(racing), np.iinfo(np.int64).max)
    np.minimum.at(ends, number, order.position[record[other]])
    needed = np.median(np.searchsorted(seconds, ends, "right") - np.searchsorted(seconds, racing, "right"))
    following = np.searchsorted(seconds, order.done[firsts], "right") - np.searchsorted(seconds, firsts, "right")
    tasks, begins = np.unique(order.task[firsts], return_index=True)
    return {
        "executions": len(firsts),
        "tasks": len(tasks),
        "comparable": max(int((following >= needed).sum()), len(racing)),
        "first_executions": bool(np.isin(racing, firsts[begins]).all()),
    }

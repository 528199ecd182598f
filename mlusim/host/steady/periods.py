"""Loops in what a task issues: where its operations repeat, in periods of how many."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mlusim.cores.syncs import BARRIERS
from mlusim.log import NONE, VECTOR, Log
from mlusim.records import INSTRUCTION

Integers = np.ndarray[Any, np.dtype[np.int64]]

# The longest period that is looked for, in operations: a loop of a hundred copies, with what belongs to them.
LONGEST = 512
# By how much costs may differ and count as equal.
ALIKE = 0.01


class Period(NamedTuple):
    """A stretch of repeats around an operation.

    Attributes:
        operations: in one period.
        before: whole periods up to that operation.
        after: whole periods beyond it.
    """

    operations: int
    before: int
    after: int


def codes_of(log: Log) -> Integers:
    """(records,) a number for the kind and cost of each operation, equal where these are.

    A planner that divides evenly makes tiles of 3,400 and of 3,402 rows alternately. So costs are equal within `ALIKE`.
    The rounds of a barrier are numbered in the log; here they are alike.
    """
    table, rows = log.records.instructions()
    of = {name: table[:, INSTRUCTION.index(name)] for name in INSTRUCTION}
    barriers = np.isin(of["op"], [number for number, name in enumerate(log.ops) if name in BARRIERS])
    # Of a vector instruction it is the number of elements, which its time says.
    detail = np.where(barriers | (of["pipe"] == VECTOR), 0, of["detail"])
    kind = _numbered(np.stack([of["op"], of["pipe"], of["direction"], detail], axis=1))
    for cost in ("alone_ps", "bus_read_bytes", "bus_write_bytes"):
        kind = _numbered(np.stack([kind, _alike(kind, of[cost])], axis=1))
    return kind[rows]


def _numbered(rows: Integers) -> Integers:
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)


def _alike(kind: Integers, cost: Integers) -> Integers:
    """A number for each cost, the same for costs of one kind that are nearly equal."""
    numbers = np.zeros(len(cost), np.int64)
    number, first, of = 0, 0, NONE
    for place in np.lexsort((cost, kind)).tolist():
        if kind[place] != of or cost[place] > first * (1 + ALIKE):
            number, first, of = number + 1, int(cost[place]), int(kind[place])
        numbers[place] = number
    return numbers


def period_at(codes: Integers, position: int, least: int, begin: int = 0) -> Period | None:
    """The repeats around an operation; None where fewer than `least` periods end with it.

    Args:
        codes: of all operations of a task, in order.
        position: the operation.
        least: how many periods count as a loop, 2 or more.
        begin: the first operation that counts.

    Of several periods, such as those of an inner and of an outer loop, it is the one that goes on longest.
    """
    first = max(begin, position - LONGEST)
    candidates = position - first - np.flatnonzero(codes[first:position] == codes[position])[::-1]
    best: Period | None = None
    for length in candidates.tolist():
        low = position + 1 - least * length
        if low < begin:
            break
        if not np.array_equal(codes[low : position + 1 - length], codes[low + length : position + 1]):
            continue
        differ = np.flatnonzero(codes[begin + length : position + 1] != codes[begin : position + 1 - length])
        since = begin + length + (int(differ[-1]) + 1 if len(differ) else 0)
        differ = np.flatnonzero(codes[position + 1 :] != codes[position + 1 - length : len(codes) - length])
        after = int(differ[0]) if len(differ) else len(codes) - position - 1
        found = Period(length, (position + 1 - since) // length + 1, after // length)
        if best is None or found.after * length > best.after * best.operations:
            best = found
        if after >= len(codes) - position - 1 - length:
            break
    return best


def repeated(codes: Integers, least: int) -> int:
    """Operations of a task, at least, that lie in loops of more than `least` periods, looked at from its middle."""
    if len(codes) < 2 * least:
        return 0
    found = period_at(codes, len(codes) // 2, least // 2)
    if found is None:
        return 0
    return max(0, found.before + found.after - least) * found.operations

"""Loops in the operations of a task: where they repeat, and the length of a period."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.log import NONE, VECTOR, Log

# The longest period considered, in operations: a loop of a hundred copies with their accompanying operations.
LONGEST = 512
# Costs that differ by less than this fraction count as equal.
SAME_COST = 0.01


class Period(NamedTuple):
    """Repeats around an operation.

    Attributes:
        operations: operations per period.
        before: whole periods up to that operation.
        after: whole periods beyond it.
    """

    operations: int
    before: int
    after: int


def codes_of(log: Log, instructions: tuple[dict[str, Integers], Integers], *, costs: bool) -> Integers:
    """By record, return a code of the kind and, unless `costs` is False, the cost of its operation.

    A planner that divides evenly may alternate between tiles of 3,400 and 3,402 rows, so costs are compared within
    `SAME_COST`.
    """
    table, rows = instructions
    barriers = np.isin(table["op"], [number for number, name in enumerate(log.ops) if name in BARRIERS])
    # Rounds of barriers differ; elements of vector instructions are in their cost.
    specific = np.where(barriers | (table["pipe"] == VECTOR), 0, table["detail"])
    kinds = [table["op"], table["pipe"], table["direction"], specific]
    if not costs:
        return _row_numbers(np.stack(kinds, axis=1))[rows]
    # Many instructions differ in other respects only, such as the barriers.
    columns = np.stack([*kinds, *(table[name] for name in ("alone_ps", "bus_read_bytes", "bus_write_bytes"))], axis=1)
    unique, code = np.unique(columns, axis=0, return_inverse=True)
    kind = _row_numbers(unique[:, :-3])
    for cost in unique[:, -3:].T:
        kind = _row_numbers(np.stack([kind, _cost_groups(kind, cost)], axis=1))
    return kind[code.reshape(-1)][rows]


def _row_numbers(rows: Integers) -> Integers:
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)


def _cost_groups(kind: Integers, cost: Integers) -> Integers:
    """Number the costs such that nearly equal costs of one kind share a number."""
    numbers = np.zeros(len(cost), np.int64)
    number, first, current_kind = 0, 0, NONE
    for index in np.lexsort((cost, kind)).tolist():
        if kind[index] != current_kind or cost[index] > first * (1 + SAME_COST):
            number, first, current_kind = number + 1, int(cost[index]), int(kind[index])
        numbers[index] = number
    return numbers


def period_at(codes: Integers, position: int, minimum: int) -> Period | None:
    """Return the repeats around an operation; None if fewer than `minimum` periods end with it.

    Args:
        codes: codes of all operations of a task, in order.
        position: index of the operation.
        minimum: minimum number of periods, 2 or more.

    If there are several periods, as for nested loops, the one that continues longest is returned.
    """
    first = max(0, position - LONGEST)
    candidates = position - first - np.flatnonzero(codes[first:position] == codes[position])[::-1]
    longest: Period | None = None
    for length in candidates.tolist():
        low = position + 1 - minimum * length
        if low < 0:
            break
        if not np.array_equal(codes[low : position + 1 - length], codes[low + length : position + 1]):
            continue
        differ = np.flatnonzero(codes[length : position + 1] != codes[: position + 1 - length])
        since = length + (int(differ[-1]) + 1 if len(differ) else 0)
        differ = np.flatnonzero(codes[position + 1 :] != codes[position + 1 - length : len(codes) - length])
        after = int(differ[0]) if len(differ) else len(codes) - position - 1
        candidate = Period(length, (position + 1 - since) // length + 1, after // length)
        if longest is None or candidate.after * length > longest.after * longest.operations:
            longest = candidate
        if after >= len(codes) - position - 1 - length:
            break
    return longest

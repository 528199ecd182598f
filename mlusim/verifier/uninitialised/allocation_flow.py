"""The allocations between which bytes may flow, by the operands of all operations.

This is an upper bound: neither the order of operations nor the bytes that they access count here.
"""

from __future__ import annotations

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.log import NONE
from mlusim.verifier.accesses.outputs import outputs_of
from mlusim.verifier.accesses.table import BY_ROWS, COLLECT, FILTERS, SORTING
from mlusim.verifier.columns import joint, ops_among
from mlusim.verifier.run import Run


class AllocationFlow:
    """The flow between the allocations of one run."""

    def __init__(self, run: Run) -> None:
        log, columns = run.log, run.columns
        self._count = len(log.allocations)
        dst, *sources = (columns[f"{side}_alloc"] for side in ("dst", "a", "b"))
        # Row numbers, masks and counts are addresses; an operation without a result in memory has one in a register.
        is_sink = ops_among(log, (*BY_ROWS, COLLECT, *FILTERS, *SORTING))[columns["op"]] | (dst == NONE)
        # One entry more, for operands that are absent.
        self._counts = np.array([*outputs_of(log), False])
        self._counts[np.concatenate([source[is_sink] for source in sources])] = True
        pairs = [(source, dst) for source in sources]
        # Additional operands of a record are all sources of `dst`, or all results of `a` and `b`.
        further = [(record, operand[0]) for record, operands in log.more_operands.items() for operand in operands]
        records, more_operands = np.array(further, np.int64).reshape(-1, 2).T
        self._counts[more_operands[is_sink[records]]] = True
        pairs += [(side[records], more_operands) for side in (dst, *sources)] + [(more_operands, dst[records])]
        self._origin, self._target = _distinct(pairs, max(self._count, 1))

    def leads_somewhere(self) -> Flags:
        """By allocation, return whether its bytes may reach an output, a register or an address."""
        return self._follow(self._counts[: self._count], self._target, self._origin)

    def reached_from(self, start: Flags) -> Flags:
        """By allocation, return whether bytes of the allocations `start` may reach it."""
        return self._follow(start, self._origin, self._target)

    def _follow(self, start: Flags, origin: Integers, target: Integers) -> Flags:
        order = np.argsort(origin, kind="stable")
        first = np.searchsorted(origin[order], np.arange(self._count + 1)).tolist()
        targets = target[order].tolist()
        is_reached = start.copy()
        pending = np.flatnonzero(start).tolist()
        while pending:
            alloc = pending.pop()
            for following in targets[first[alloc] : first[alloc + 1]]:
                if not is_reached[following]:
                    is_reached[following] = True
                    pending.append(following)
        return is_reached


def _distinct(pairs: list[tuple[Integers, Integers]], count: int) -> tuple[Integers, Integers]:
    """Return the distinct pairs of allocations, out of columns of numbers below `count`, or NONE."""
    present = [(one != NONE) & (other != NONE) for one, other in pairs]
    keys = [
        joint(one[is_present], other[is_present], count)
        for (one, other), is_present in zip(pairs, present, strict=True)
    ]
    return np.divmod(np.unique(np.concatenate(keys)), count)

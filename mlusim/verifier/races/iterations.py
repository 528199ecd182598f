"""The iterations of loops in which tasks are, and the order of their accesses that a kernel intends.

Both are derived from the lines of operations in the log, and from the loops of the source file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.sets_and_atomics import FETCHING
from mlusim.log import Log
from mlusim.verifier.accesses.table import Accesses
from mlusim.verifier.order.happens_before import Order
from mlusim.verifier.source_loops import (
    Lines,
    exclude_each_other,
    is_passed_every_iteration,
    lines_of_loop,
    loops_around,
)


@dataclass(frozen=True, slots=True)
class Iterations:
    """Where two accesses of different tasks are in the loops of their tasks; accesses are rows of the access table.

    Attributes:
        log, accesses, order: the run.
    """

    log: Log
    accesses: Accesses
    order: Order

    def in_intended_order(self, a: int, b: int) -> tuple[int, int]:
        """Return a pair of accesses in the order that the kernel intends, as far as its log and its source tell.

        Their order in the log is accidental. Of two lines that every task passes in turn, or in turn between two
        barriers, the upper one comes first, unless tasks may wait for each other by atomics. A read of bytes that
        nothing has written yet comes after their write.
        """
        write = self.accesses.write
        fresh = bool(write[b] and not write[a]) and is_fresh(self.log, self.accesses, a)
        if FETCHING & set(self.log.ops):
            return (b, a) if fresh else (a, b)
        upper, lower = sorted((a, b), key=lambda row: self._source(row)[1])
        (file, first, function), (other_file, last, other_function) = self._source(upper), self._source(lower)
        if first and (file, function) == (other_file, other_function) and not exclude_each_other(file, first, last):
            loop = lines_of_loop(file, first, last)
            if self.barrier_in(loop, upper, lower) if loop[0] else self._pass_in_turn(upper, lower):
                return upper, lower
        return (b, a) if fresh else (a, b)

    def _pass_in_turn(self, upper: int, lower: int) -> bool:
        """Return whether a task passes both lines, and each passes that of the first access only before the other."""
        order = self.order
        lines = order.line_of[self.accesses.record[[upper, lower]]]
        in_turn = []
        for task in self._tasks(upper, lower):
            line = order.line[order.first[task] : order.first[task + 1]]
            before, after = (np.flatnonzero(line == number) for number in lines)
            if len(before) and len(after):
                in_turn.append(before[-1] < after[0])
        return bool(in_turn) and all(in_turn)

    def barrier_in(self, loop: Lines, a: int, b: int) -> bool:
        """Return whether a task of the race passes a barrier in each iteration of a loop, outside of its two lines."""
        order, file = self.order, self._source(a)[0]
        upper, lower = sorted(self._source(row)[1] for row in (a, b))
        apart = exclude_each_other(file, upper, lower)
        for task in self._tasks(a, b):
            own = slice(order.first[task], order.first[task + 1])
            barriers = order.line[own][order.is_barrier[own]]
            iterations = len(self._starts(task, file, loop))
            for code in np.unique(barriers).tolist():
                other_file, line, _ = self.log.lines[code]
                inside = other_file == file and loop[0] <= line <= loop[1]
                if inside and (apart or not upper <= line < lower) and np.count_nonzero(barriers == code) >= iterations:
                    return True
        return False

    def meet_between_barriers(self, a: int, b: int) -> bool:
        """Return whether two tasks pass the same barriers in loops of their own, and access the bytes between them."""
        segments = self.order.segment[self.order.position[self.accesses.record[[a, b]]]]
        in_turn = []
        for row in (a, b):
            file, line, _ = self._source(row)
            in_turn.append(any(self.barrier_in(loop, row, row) for loop in loops_around(file, line)))
        return all(in_turn) and int(segments[0]) == int(segments[1]) > 0

    def differ(self, a: int, b: int) -> bool:
        """Return whether two accesses are in different iterations of a loop around both."""
        (file, one, _), (other_file, other, _) = self._source(a), self._source(b)
        loop = lines_of_loop(file, *sorted((one, other)))
        return file == other_file and loop[0] > 0 and (self.is_later(a, b, loop) or self.is_later(b, a, loop))

    def are_as_many(self, file: str, loop: Lines, task: int) -> bool:
        """Return whether all MLU cores of a task's job that enter a loop have as many iterations of it.

        Only then may a barrier stand in it.
        """
        job = self.order.job
        cores = (
            number
            for number, record in enumerate(self.log.tasks)
            if not record.is_memory_core and job[number] == job[task]
        )
        return len({len(self._starts(number, file, loop)) for number in cores} - {0}) <= 1

    def is_later(self, a: int, b: int, loop: Lines) -> bool:
        """Return whether the task of the second access is in a later iteration of a loop than that of the first."""
        numbers = []
        for row, task in zip((a, b), self._tasks(a, b), strict=True):
            file, line, _ = self._source(row)
            begun = self._starts(task, file, loop)
            position = int(self.order.position[self.accesses.record[row]])
            if not len(begun):
                begun = self.order.first[task] + np.flatnonzero(
                    self.order.line[self.order.first[task] : self.order.first[task + 1]] == self.order.line[position]
                )
            above = self.log.lines[int(self.order.line[begun[0]])][1] <= line
            numbers.append(np.count_nonzero(begun <= position) if above else np.count_nonzero(begun < position) + 1)
        return bool(numbers[0] < numbers[1])

    def _starts(self, task: int, file: str, loop: Lines) -> Integers:
        """Return the positions at which a task is at the first line of its that each iteration of a loop passes."""
        order = self.order
        own = order.line[order.first[task] : order.first[task + 1]]
        lines = [(self.log.lines[code][1], code) for code in np.unique(own).tolist() if self.log.lines[code][0] == file]
        passed = [code for line, code in sorted(lines) if is_passed_every_iteration(file, loop, line)]
        return order.first[task] + np.flatnonzero(own == passed[0]) if passed else np.empty(0, np.int64)

    def _source(self, row: int) -> tuple[str, int, str]:
        """Return file, line and function of an access."""
        return self.log.lines[int(self.order.line_of[self.accesses.record[row]])]

    def _tasks(self, a: int, b: int) -> list[int]:
        tasks: list[int] = self.order.task_of[self.accesses.record[[a, b]]].tolist()
        return tasks


def is_fresh(log: Log, accesses: Accesses, row: int) -> bool:
    """Return whether neither the host nor an earlier operation has written any byte of a read."""
    alloc = int(accesses.alloc[row])
    if log.allocations[alloc].read_only or alloc in log.host_writes or alloc in log.host_parts:
        return False
    return not (accesses.meeting(row) & accesses.write & (accesses.record < accesses.record[row])).any()

"""The iterations of loops in which tasks are, and the order of their accesses that a kernel intends.

Both are derived from the lines of operations in the log, and from the loops of the source file.
"""

from __future__ import annotations

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.sets_and_atomics import FETCHING
from mlusim.verifier.run import Run
from mlusim.verifier.source_loops import (
    Lines,
    exclude_each_other,
    is_passed_every_iteration,
    lines_of_loop,
    loops_around,
)


def in_intended_order(run: Run, a: int, b: int) -> tuple[int, int]:
    """Return a pair of accesses in the order that the kernel intends, as far as its log and its source tell.

    Their order in the log is accidental. Of two lines that every task passes in turn, or in turn between two
    barriers, the upper one comes first, unless tasks may wait for each other by atomics. A read of bytes that
    nothing has written yet comes after their write.
    """
    write = run.accesses.write
    fresh = bool(write[b] and not write[a]) and is_fresh(run, a)
    if FETCHING & set(run.log.ops):
        return (b, a) if fresh else (a, b)
    upper, lower = sorted((a, b), key=lambda row: run.source(row)[1])
    (file, first, function), (other_file, last, other_function) = run.source(upper), run.source(lower)
    if first and (file, function) == (other_file, other_function) and not exclude_each_other(file, first, last):
        loop = lines_of_loop(file, first, last)
        if barrier_in(run, loop, upper, lower) if loop[0] else _pass_in_turn(run, upper, lower):
            return upper, lower
    return (b, a) if fresh else (a, b)


def _pass_in_turn(run: Run, upper: int, lower: int) -> bool:
    """Return whether a task passes both lines, and each passes that of the first access only before the other."""
    order = run.order
    lines = order.line[[run.position(upper), run.position(lower)]]
    in_turn = []
    for task in (run.task(upper), run.task(lower)):
        line = order.line[order.of_task(task)]
        before, after = (np.flatnonzero(line == number) for number in lines)
        if len(before) and len(after):
            in_turn.append(before[-1] < after[0])
    return bool(in_turn) and all(in_turn)


def barrier_in(run: Run, loop: Lines, a: int, b: int) -> bool:
    """Return whether a task of the race passes a barrier in each iteration of a loop, outside of its two lines."""
    order, file = run.order, run.source(a)[0]
    upper, lower = sorted(run.source(row)[1] for row in (a, b))
    apart = exclude_each_other(file, upper, lower)
    for task in (run.task(a), run.task(b)):
        own = order.of_task(task)
        barriers = order.line[own][order.is_barrier[own]]
        iterations = len(_starts(run, task, file, loop))
        for code in np.unique(barriers).tolist():
            other_file, line, _ = run.log.lines[code]
            inside = other_file == file and loop[0] <= line <= loop[1]
            if inside and (apart or not upper <= line < lower) and np.count_nonzero(barriers == code) >= iterations:
                return True
    return False


def meet_between_barriers(run: Run, a: int, b: int) -> bool:
    """Return whether two tasks pass the same barriers in loops of their own, and access the bytes between them."""
    segments = run.order.segment[[run.position(a), run.position(b)]]
    in_turn = []
    for row in (a, b):
        file, line, _ = run.source(row)
        in_turn.append(any(barrier_in(run, loop, row, row) for loop in loops_around(file, line)))
    return all(in_turn) and int(segments[0]) == int(segments[1]) > 0


def differ(run: Run, a: int, b: int) -> bool:
    """Return whether two accesses are in different iterations of a loop around both."""
    (file, one, _), (other_file, other, _) = run.source(a), run.source(b)
    loop = lines_of_loop(file, *sorted((one, other)))
    return file == other_file and loop[0] > 0 and (is_later(run, a, b, loop) or is_later(run, b, a, loop))


def are_as_many(run: Run, file: str, loop: Lines, task: int) -> bool:
    """Return whether all MLU cores of a task's job that enter a loop have as many iterations of it.

    Only then may a barrier stand in it.
    """
    job = run.order.job
    cores = (
        number for number, record in enumerate(run.log.tasks) if not record.is_memory_core and job[number] == job[task]
    )
    return len({len(_starts(run, number, file, loop)) for number in cores} - {0}) <= 1


def is_later(run: Run, a: int, b: int, loop: Lines) -> bool:
    """Return whether the task of the second access is in a later iteration of a loop than that of the first."""
    order, numbers = run.order, []
    for row in (a, b):
        file, line, _ = run.source(row)
        task, position = run.task(row), run.position(row)
        begun = _starts(run, task, file, loop)
        if not len(begun):
            own = order.line[order.of_task(task)]
            begun = order.first[task] + np.flatnonzero(own == order.line[position])
        above = run.log.lines[int(order.line[begun[0]])][1] <= line
        numbers.append(np.count_nonzero(begun <= position) if above else np.count_nonzero(begun < position) + 1)
    return bool(numbers[0] < numbers[1])


def _starts(run: Run, task: int, file: str, loop: Lines) -> Integers:
    """Return the positions at which a task is at the first line of its that each iteration of a loop passes."""
    order = run.order
    own = order.line[order.of_task(task)]
    lines = [(run.log.lines[code][1], code) for code in np.unique(own).tolist() if run.log.lines[code][0] == file]
    passed = [code for line, code in sorted(lines) if is_passed_every_iteration(file, loop, line)]
    return order.first[task] + np.flatnonzero(own == passed[0]) if passed else np.empty(0, np.int64)


def is_fresh(run: Run, row: int) -> bool:
    """Return whether neither the host nor an earlier operation has written any byte of a read."""
    log, accesses = run.log, run.accesses
    alloc = int(accesses.alloc[row])
    if log.allocations[alloc].read_only or alloc in log.host_writes or alloc in log.host_parts:
        return False
    return not (accesses.meeting(row) & accesses.write & (accesses.record < accesses.record[row])).any()

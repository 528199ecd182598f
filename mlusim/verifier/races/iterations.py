"""The iterations of loops in which tasks are, and the order of their accesses that a kernel intends.

Both are derived from the lines of operations in the log, and from the loops of the source file.
"""

from __future__ import annotations

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.atomics import FETCHING
from mlusim.cores.synchronisation.barrier import BARRIERS, BarrierKind
from mlusim.verifier.columns import ops_among
from mlusim.verifier.races.pair import Pair
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import Lines, location_of, source_file


def in_intended_order(pair: Pair) -> Pair:
    """Return a pair of accesses in the order that the kernel intends, as far as its log and its source tell.

    Their order in the log is accidental. Of two lines that every task passes in turn, or in turn between two
    barriers, the one in the earlier iteration comes first, and in one iteration the upper one, unless tasks may wait
    for each other by atomics. A read of bytes that nothing has written yet comes after their write.
    """
    by_line = pair if pair.sources[0][1] <= pair.sources[1][1] else pair.swapped
    (file, first, function), (other_file, last, other_function) = by_line.sources
    one_function = (file, function) == (other_file, other_function)
    source = source_file(file)
    if first and one_function and not FETCHING & set(pair.run.log.ops) and not source.exclude_each_other(first, last):
        loop = source.loop_around(first, last)
        if barrier_in(by_line, loop) if loop[0] else _pass_lines_in_turn(by_line):
            return by_line.swapped if loop[0] and is_later(by_line.swapped, loop) else by_line
        if (
            not loop[0]
            and _entered_once(by_line)
            and not (by_line.writes[1] and is_fresh(by_line.run, by_line.rows[0]))
        ):
            return by_line
    return pair.swapped if pair.writes == (False, True) and is_fresh(pair.run, pair.rows[0]) else pair


def _entered_once(pair: Pair) -> bool:
    """Return whether neither of two tasks passes the other's line, and both lines are of the kernel: no helper's."""
    order, log = pair.run.order, pair.run.log
    lines = order.line[[*pair.positions]]
    pass_own_lines = not any(
        np.isin(lines[1 - side], order.line[order.of_task(task)]) for side, task in enumerate(pair.tasks)
    )
    kernels = {log.launches[log.tasks[task].launch].kernel for task in pair.tasks}
    return pass_own_lines and {function for *_, function in pair.sources} == kernels


def _pass_lines_in_turn(pair: Pair) -> bool:
    """Return whether a task passes both lines, and each passes that of the first access only before the other."""
    order = pair.run.order
    lines = order.line[[*pair.positions]]
    in_turn = []
    for task in pair.tasks:
        line = order.line[order.of_task(task)]
        first_positions, second_positions = (np.flatnonzero(line == number) for number in lines)
        if len(first_positions) and len(second_positions):
            in_turn.append(first_positions[-1] < second_positions[0])
    return bool(in_turn) and all(in_turn)


def barrier_in(pair: Pair, loop: Lines) -> bool:
    """Return whether a task of the race passes a barrier in each iteration of a loop, outside of its two lines.

    Only barriers count in which both tasks take part.
    """
    run, order, file = pair.run, pair.run.order, pair.sources[0][0]
    upper, lower = sorted(line for _, line, _ in pair.sources)
    in_branches = source_file(file).exclude_each_other(upper, lower)
    of_both = ops_among(run.log, [name for name, kind in BARRIERS.items() if _meet_at(pair, kind)])
    for task in pair.tasks:
        positions = order.of_task(task)
        barriers = order.line[positions][order.is_barrier[positions] & of_both[order.op[positions]]]
        iterations = len(_starts(run, task, file, loop))
        for code in np.unique(barriers).tolist():
            other_file, line, _ = run.log.lines[code]
            is_in_loop = other_file == file and loop[0] <= line <= loop[1]
            if (
                is_in_loop
                and (in_branches or not upper <= line < lower)
                and np.count_nonzero(barriers == code) >= iterations
            ):
                return True
    return False


def _meet_at(pair: Pair, barrier: BarrierKind) -> bool:
    """Return whether both tasks of a race take part in a barrier of a kind."""
    one, other = (pair.run.log.tasks[task] for task in pair.tasks)
    takes_part = {True: barrier.memory_cores, False: barrier.cores}
    in_other_cluster = barrier.within_cluster and one.cluster != other.cluster
    return takes_part[one.is_memory_core] and takes_part[other.is_memory_core] and not in_other_cluster


def meet_between_barriers(pair: Pair) -> bool:
    """Return whether two tasks pass the same barriers in loops of their own, and access the bytes between them."""
    in_turn = (
        any(barrier_in(Pair(pair.run, (row, row)), loop) for loop in source_file(file).loops_around(line))
        for row, (file, line, _) in zip(pair.rows, pair.sources, strict=True)
    )
    return pair.segments[0] == pair.segments[1] > 0 and all(in_turn)


def some_skip(pair: Pair) -> str:
    """Return the line of the `if` around two accesses that some MLU cores skip, where no barrier can stand; or ""."""
    (file, one, _), (other_file, other, _) = pair.sources
    ifs = [begin for begin, end in source_file(file).ifs if begin <= min(one, other) <= max(one, other) <= end]
    return location_of(file, max(ifs)) if file == other_file and ifs and cores_skip(pair) else ""


def cores_skip(pair: Pair) -> bool:
    """Return whether some MLU cores pass neither of the lines of two accesses between the same barriers."""
    run, order = pair.run, pair.run.order
    passes = np.isin(order.line, order.line[[*pair.positions]]) & (order.segment == pair.segments[0])
    tasks = np.unique(order.task[passes]).tolist()
    cores = (number for number, record in enumerate(run.log.tasks) if not record.is_memory_core)
    return any(order.job[number] == order.job[pair.tasks[0]] and number not in tasks for number in cores)


def loop_apart(pair: Pair) -> Lines:
    """Return the innermost loop around two accesses in different iterations of which they are; (0, 0) if none."""
    (file, one, _), (other_file, other, _) = pair.sources
    loops = [loop for loop in source_file(file).loops_around(one) if file == other_file and loop[0] <= other <= loop[1]]
    return max((loop for loop in loops if is_later(pair, loop) or is_later(pair.swapped, loop)), default=(0, 0))


def are_as_many(run: Run, file: str, loop: Lines, task: int) -> bool:
    """Return whether all MLU cores of a task's job that enter a loop have as many iterations of it.

    Only then may a barrier stand in it.
    """
    job = run.order.job
    cores = (
        number for number, record in enumerate(run.log.tasks) if not record.is_memory_core and job[number] == job[task]
    )
    return len({len(_starts(run, number, file, loop)) for number in cores} - {0}) <= 1


def may_skip_unseen(run: Run, file: str, loop: Lines) -> bool:
    """Return whether a task may skip an iteration of a loop without an operation, so that the log does not count it."""
    is_counted = any(len(_starts(run, task, file, loop)) for task in range(len(run.log.tasks)))
    return not is_counted and source_file(file).may_skip(loop, loop[1])


def is_later(pair: Pair, loop: Lines) -> bool:
    """Return whether the task of the second access is in a later iteration of a loop than that of the first."""
    first, second = (_iterations(pair.run, np.array([position]), loop)[0] for position in pair.positions)
    return bool(first < second)


def are_apart(run: Run, one: Integers, other: Integers) -> bool:
    """Return whether each pair of operations is in different iterations of a loop around both.

    `one`, `other`: their positions; all of `one` are at one line, and all of `other` at one.
    """
    (file, line, _), (other_file, other_line, _) = (
        run.log.lines[int(run.order.line[positions[0]])] for positions in (one, other)
    )
    differ = np.zeros(len(one), bool)
    for loop in source_file(file).loops_around(line):
        if file == other_file and loop[0] <= other_line <= loop[1]:
            differ |= _iterations(run, one, loop) != _iterations(run, other, loop)
    return bool(differ.all())


def _iterations(run: Run, positions: Integers, loop: Lines) -> Integers:
    """By position, all at one line, return the number of the iteration of a loop in which its task is."""
    order = run.order
    code = order.line[positions[0]]
    file, line, _ = run.log.lines[int(code)]
    numbers = np.empty(len(positions), np.int64)
    for task in np.unique(order.task[positions]).tolist():
        starts = _starts(run, task, file, loop)
        if not len(starts):
            task_positions = order.of_task(task)
            starts = task_positions.start + np.flatnonzero(order.line[task_positions] == code)
        is_above = run.log.lines[int(order.line[starts[0]])][1] <= line
        of_task = order.task[positions] == task
        numbers[of_task] = np.searchsorted(starts, positions[of_task], "right" if is_above else "left") + (not is_above)
    return numbers


def _starts(run: Run, task: int, file: str, loop: Lines) -> Integers:
    """Return the positions at which a task begins the iterations of a loop: at its first line that all of them pass."""
    order = run.order
    positions = order.of_task(task)
    codes = np.unique(order.line[positions]).tolist()
    lines = [(run.log.lines[code][1], code) for code in codes if run.log.lines[code][0] == file]
    candidates = [code for line, code in sorted(lines) if source_file(file).is_passed_every_iteration(loop, line)]
    if not candidates:
        return np.empty(0, np.int64)
    return np.asarray(positions.start + np.flatnonzero(order.line[positions] == candidates[0]))


def is_fresh(run: Run, row: int) -> bool:
    """Return whether neither the host nor an earlier operation has written any byte of a read."""
    log, accesses = run.log, run.accesses
    alloc = int(accesses.alloc[row])
    if log.allocations[alloc].read_only or alloc in log.host.writes:
        return False
    return not (accesses.meeting(row) & accesses.write & (accesses.record < accesses.record[row])).any()

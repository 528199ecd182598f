"""Places for a barrier that the tasks of a race pass with too few tasks, or at lines of their own."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from mlusim.arrays import Integers
from mlusim.verifier.columns import ops_among
from mlusim.verifier.findings import in_one_function
from mlusim.verifier.order.happens_before import Order
from mlusim.verifier.races.pair import Pair
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import SourceLine, function_around, location_of, source_file

_IS_MEMORY_CORE = re.compile(r"\b(?:is_memory_core|__is_mpu)\b")


class Place(NamedTuple):
    """Where a barrier belongs, as text.

    Attributes:
        text: the place.
        is_below: whether that is below the first access, in the path of both tasks.
        is_at_end: whether it is at the end of a loop.
        is_between_barriers: whether both accesses are between the same barriers of an iteration.
        loop: the first line of the loop in which it is the first or the last statement; 0 if there is none.
    """

    text: str
    is_below: bool = False
    is_at_end: bool = False
    is_between_barriers: bool = False
    loop: int = 0


def memory_cores_pass(pair: Pair, loop: int) -> bool:
    """Return whether memory cores reach a barrier between the accesses of a race.

    They do if they work in the launch, if the function of the accesses tells them from others, or if it is a kernel
    that calls helpers; unless it lets them return, or the barrier is in a branch that they skip: with both accesses, or
    with the loop, from its first line, at whose beginning or end it is.
    """
    run = pair.run
    launch = run.log.tasks[pair.tasks[0]].launch
    begin, end = in_one_function(*pair.sites)
    source = source_file(begin.file)
    first, last = source.function(begin.line)[0]
    tests = {at for at in range(first, last + 1) if _IS_MEMORY_CORE.search(SourceLine(begin.file, at).source)}
    passed = _lines_of_memory_cores(run, launch)
    if passed:
        return not any(
            begin.file == end.file
            and all(branch[0] <= line <= branch[1] for line in ((loop,) if loop else (begin.line, end.line)))
            and max(block[0] for block in source.ifs if block[0] <= branch[0] and branch[1] <= block[1]) in tests
            and passed.isdisjoint(SourceLine(begin.file, at) for at in range(branch[0], branch[1] + 1))
            for branch in source.conditional
        )
    is_kernel = bool(
        re.search(rf"\b{re.escape(run.log.launches[launch].kernel)}\s*\(", SourceLine(begin.file, first).source)
    )
    calls_helper = is_kernel and begin != SourceLine(*pair.sources[0][:2])
    return (bool(tests) or calls_helper) and not any(
        part[0] in tests and source.may_skip(part, last) and not begin.line < part[0] <= end.line for part in source.ifs
    )


def loop_without_memory_cores(pair: Pair, loop: int) -> bool:
    """Return whether memory cores pass another loop of the file in place of the one that begins at a line."""
    file, passed = pair.sources[0][0], _lines_of_memory_cores(pair.run, pair.run.log.tasks[pair.tasks[0]].launch)
    end = max(last for first, last in source_file(file).loops if first == loop)
    lines = {at.line for at in passed if at.file == file and source_file(file).loops_around(at.line)}
    return bool(lines) and lines.isdisjoint(range(loop, end + 1))


def _lines_of_memory_cores(run: Run, launch: int) -> set[SourceLine]:
    """Return the lines that the memory cores of a launch run."""
    order = run.order
    memory_cores = (at for at, task in enumerate(run.log.tasks) if task.is_memory_core and task.launch == launch)
    return {run.line_at(at) for task in memory_cores for at in _first_of_each_line(order, task)}


def _first_of_each_line(order: Order, task: int) -> list[int]:
    positions = order.of_task(task)
    return [int(at) + positions.start for at in np.unique(order.line[positions], return_index=True)[1]]


def barrier_of_one_side(pair: Pair, sync: str) -> list[str]:
    """Return the remedy for tasks whose loop has fewer barriers than that of other tasks: one before the access.

    There is none if a task passes the line of the other one; nor if the first access comes before the loop and both
    tasks pass the barrier in it: the missing one is then elsewhere.
    """
    log, order, (first, last), (before_loop, second) = pair.run.log, pair.run.order, pair.positions, pair.sites
    if not _have_lines_of_their_own(order, first, last):
        return []
    later_barriers = _barriers(order, int(order.task[last]))
    later_barriers = later_barriers[later_barriers > last][:1]
    if not len(later_barriers) or later_barriers[0] + 1 >= order.first[int(order.task[last]) + 1]:
        return []
    barrier = pair.run.line_at(int(later_barriers[0]))
    source = source_file(barrier.file)
    loop = source.loop_around(barrier.line, second.line)[0] if barrier.file == second.file else 0
    both_pass = order.line[later_barriers[0]] in order.line[order.of_task(int(order.task[first]))]
    if loop and both_pass and before_loop.file == barrier.file and before_loop.line < loop:
        return []
    if (
        not loop
        or log.ops[int(order.op[later_barriers[0]])] != sync
        or not order.before(first, int(later_barriers[0]) + 1)
    ):
        return []
    inner = [sorted(source.loops_around(line))[-1:] for _, line, _ in pair.sources]
    if len(_barrier_lines(pair.run, first, inner[0])) <= len(_barrier_lines(pair.run, last, inner[1])):
        return []
    cores_text = "memory cores" if second.task == "memory core" else "cores"
    location = location_of(barrier.file, source.line_passed_by_all(loop, second.line))
    return [f"{second.call(f'{sync}()')} in the {cores_text}, before {location}"]


def wider_barrier(pair: Pair, sync: str, later: int) -> list[str]:
    """Return the remedy for a barrier that both tasks pass between two operations, each with tasks of its own only.

    `later`: the last line that races with the second one; a barrier above it, outside of its loops, fixes only a part.
    """
    log, order, (first, last), (site, _) = pair.run.log, pair.run.order, pair.positions, pair.sites
    passes, other_passes = (_passes(order, _barriers(order, task)) for task in pair.tasks)
    common = [
        barrier_pass
        for barrier_pass, position in passes.items()
        if position > first and other_passes.get(barrier_pass, last) < last
    ]
    if not common:
        return []
    barrier = passes[common[-1]]
    at = pair.run.line_at(barrier)
    if at.file == site.file and at.line < later and not source_file(at.file).loop_around(at.line, later)[0]:
        return []
    narrow_call = site.call(f"{log.ops[int(order.op[barrier])]}()")
    return [f"{site.call(f'{sync}()')} in place of {narrow_call} at {at.location}"]


def barrier_of_cores(pair: Pair) -> tuple[str, str]:
    """Return name and location of the barrier of an MLU core that races with a memory core, between the two; or ""s."""
    log, order = pair.run.log, pair.run.order
    cores = [at for at, task in enumerate(pair.tasks) if not log.tasks[task].is_memory_core]
    if len(cores) != 1:
        return "", ""
    position, barriers = pair.positions[cores[0]], _barriers(order, pair.tasks[cores[0]])
    nearest = barriers[barriers > position][:1] if cores[0] == 0 else barriers[barriers < position][-1:]
    if not len(nearest):
        return "", ""
    return log.ops[int(order.op[nearest[0]])], pair.run.line_at(int(nearest[0])).location


def on_both_paths(pair: Pair) -> str:
    """Return where a barrier belongs on the path of the memory core, and where on that of the MLU cores.

    It is empty if both tasks of the race are of one kind, if no `if` separates their lines, or if a loop around one of
    them has a barrier: then one of its iterations lacks one.
    """
    run, log, (first, last) = pair.run, pair.run.log, pair.positions
    kinds = [log.tasks[task].is_memory_core for task in pair.tasks]
    (file, line, _), (other_file, other, _) = pair.sources
    source = source_file(file)
    one_function = file == other_file and function_around(file, line) == function_around(file, other)
    if kinds[0] == kinds[1] or not one_function or not source.on_separate_paths(line, other):
        return ""
    common_lines = [_lines_passed_by_all(run, position, file) for position in (first, last)]
    loops = [source.loops_around(number) for number in (line, other)]
    first_reached = other if other in common_lines[1] else source.line_before_conditions(other, line)
    if (first_reached == other and other not in common_lines[1]) or any(
        _barrier_lines(run, position, loops) for position, loops in zip((first, last), loops, strict=True)
    ):
        return ""
    end = max((loop[1] for loop in loops[0]), default=line)
    following = min((number for number in common_lines[0] if number > end), default=0)
    # The barriers of all cores that both tasks pass must stay in the same order.
    earlier_barriers, later_barriers = (_barriers_of_all_cores(run, position) for position in (first, last))
    begin = min([first_reached, *(loop[0] for loop in loops[1])])
    if len(later_barriers) > len(earlier_barriers):
        begin = run.line_at(int(later_barriers[len(earlier_barriers)])).line
    if len(later_barriers) < len(earlier_barriers) or source.loops_around(begin) not in ([], loops[1]):
        return ""
    places = [
        f"before {location_of(file, source.line_passed_by_all(end, following))}"
        if following
        else f"after {location_of(file, line)}",
        f"before {location_of(file, begin)}",
    ]
    return ", ".join(
        f"{place} in the {'memory ' if kind else ''}cores" for place, kind in zip(places, kinds, strict=True)
    )


def _have_lines_of_their_own(order: Order, first: int, last: int) -> bool:
    """Return whether neither of two tasks passes the line of the other's operation."""
    lines, other_lines = (set(order.line[order.of_task(task)]) for task in order.task[[first, last]].tolist())
    return order.line[last] not in lines and order.line[first] not in other_lines


def _barriers(order: Order, task: int) -> Integers:
    """Return the positions of the barriers of a task."""
    positions = order.of_task(task)
    return np.asarray(positions.start + np.flatnonzero(order.is_barrier[positions]))


def _barriers_of_all_cores(run: Run, position: int) -> Integers:
    """Return the positions of the barriers of MLU cores and memory cores that a task passes before an operation."""
    log, order = run.log, run.order
    barriers = _barriers(order, int(order.task[position]))
    of_all = ops_among(log, ("sync_cluster", "sync_all"))
    return barriers[of_all[order.op[barriers]] & (barriers < position)]


def _passes(order: Order, positions: Integers) -> dict[tuple[int, int], int]:
    """Return the positions by their line and how often their task has passed it before."""
    times: dict[int, int] = {}
    passes = {}
    for position, line in zip(positions.tolist(), order.line[positions].tolist(), strict=True):
        times[line] = times.get(line, -1) + 1
        passes[line, times[line]] = position
    return passes


def _lines_passed_by_all(run: Run, position: int, file: str) -> set[int]:
    """Return the lines of a file that all tasks pass that belong to the job of an operation and are of its kind."""
    log, order = run.log, run.order
    task = int(order.task[position])
    tasks = [
        number
        for number, record in enumerate(log.tasks)
        if record.is_memory_core == log.tasks[task].is_memory_core and order.job[number] == order.job[task]
    ]
    codes = set.intersection(*(set(order.line[order.of_task(one)].tolist()) for one in tasks))
    return {log.lines[code][1] for code in codes if log.lines[code][0] == file}


def _barrier_lines(run: Run, position: int, loops: list[tuple[int, int]]) -> set[int]:
    """Return the lines of the barriers in some loops around an operation that its task passes."""
    log, order = run.log, run.order
    lines = {log.lines[code][1] for code in order.line[_barriers(order, int(order.task[position]))].tolist()}
    return {line for line in lines for begin, end in loops if begin <= line <= end}

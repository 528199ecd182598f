"""The races of a run: one finding per pair of source lines, and one per missing sync or barrier."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mlusim.arrays import Integers
from mlusim.verifier.accesses.geometry import group_rows
from mlusim.verifier.accesses.overlaps import Pairs
from mlusim.verifier.columns import joint
from mlusim.verifier.findings import Finding, wrong_part
from mlusim.verifier.order.lanes import LANES
from mlusim.verifier.races import conflicts
from mlusim.verifier.races.atomic_remedies import flags_first
from mlusim.verifier.races.iterations import are_apart, in_intended_order
from mlusim.verifier.races.missing_barriers import Span, fold_between, fold_under_barriers
from mlusim.verifier.races.missing_syncs import Point, Race, fold_races
from mlusim.verifier.races.ordered_otherwise import drop_ordered
from mlusim.verifier.races.pair import Pair
from mlusim.verifier.races.race_findings import between_tasks, within_task
from mlusim.verifier.races.task_remedies import TaskRemedies
from mlusim.verifier.replaced import leaves_most_unread, replaces_unread
from mlusim.verifier.run import Run

# Pairs that are held at once.
_MOST_PAIRS = 1 << 20
# The numbers of the lines of a race.
_Lines = frozenset[int]


class _Occurrences(NamedTuple):
    """All times that two source lines race: the first pair, the last one of its task and of all, and their number."""

    first: Pair
    last: tuple[Pair, Pair]
    times: int


def find_races(run: Run) -> list[Finding]:
    """Return all races: one finding per pair of source lines, or per sync or barrier that would order several."""
    return fold_under_barriers(_races_within_tasks(run), _races_between_tasks(run))


def _races_within_tasks(run: Run) -> list[tuple[Finding, set[Point]]]:
    """Return the races within a task, each with the locations where a sync would order it."""
    pairs = _collect(run, conflicts.within_tasks(run))
    pairs_at = _pairs_by_lines(run, *pairs)
    races = [_race(occurrences, *pairs_at(*occurrences.first.rows)) for occurrences in _by_lines(run, *pairs)]
    return fold_races(run, races)


def _races_between_tasks(run: Run) -> list[Finding]:
    """Return the races between tasks."""
    a, b = _collect(run, (drop_ordered(run, *pairs) for pairs in conflicts.between_tasks(run)))
    if not len(a):
        return []
    races = [(in_intended_order(occurrences.first), occurrences.times) for occurrences in _by_lines(run, a, b)]
    spans = [_span_between(pair) for pair, _ in races]
    across_clusters, in_one_iteration = (
        _in_one_barrier_span([*zip(spans, [pair.lines for pair, _ in races], strict=True)], lines)
        for lines in _classify_lines(run, a, b)
    )
    times = Counter[frozenset[int]]()
    for pair, count in races:
        times[pair.lines] += count
    remedies = TaskRemedies(
        run,
        times=times,
        directions=frozenset(tuple(run.order.line[[*pair.positions]].tolist()) for pair, _ in races),
        across=across_clusters,
        at_once=in_one_iteration,
    )
    findings = [between_tasks(remedies, pair, times) for pair, times in races]
    return flags_first(fold_between([*zip(spans, findings, strict=True)]))


def _classify_lines(run: Run, a: Integers, b: Integers) -> tuple[set[_Lines], set[_Lines]]:
    """Return the lines at which tasks of different clusters of one union race, and those that race in one iteration."""
    order, across_clusters, in_one_iteration = run.order, set(), set()
    cluster = np.array([record.cluster for record in run.log.tasks], np.int64)
    numbers = {job: number for number, job in enumerate(dict.fromkeys(order.job))}
    job = np.array([numbers[job] for job in order.job], np.int64)
    one, other = (order.position[run.accesses.record[rows]] for rows in (a, b))
    for pairs in conflicts.by_label(joint(order.line[one], order.line[other], len(run.log.lines))):
        lines = frozenset(order.line[[one[pairs[0]], other[pairs[0]]]].tolist())
        tasks, others = order.task[one[pairs]], order.task[other[pairs]]
        if ((cluster[tasks] != cluster[others]) & (job[tasks] == job[others])).any():
            across_clusters.add(lines)
        if not are_apart(run, one[pairs], other[pairs]):
            in_one_iteration.add(lines)
    return across_clusters, in_one_iteration


def _in_one_barrier_span(spans: Sequence[tuple[Span, _Lines]], chosen_lines: set[_Lines]) -> frozenset[_Lines]:
    """Return the lines of races that one barrier can order together with a race at some chosen lines."""
    chosen_spans = {span for span, lines in spans if lines in chosen_lines}
    return frozenset(
        lines
        for span, lines in spans
        if any(
            span.key == other.key and max(span.begin, other.begin) < min(span.end, other.end) for other in chosen_spans
        )
    )


def _pairs_by_lines(run: Run, one: Integers, other: Integers) -> Callable[[int, int], tuple[Integers, Integers]]:
    """Return a function that returns, of all pairs of accesses, those at the lines of two of them, and on the lane."""
    line, record, lane, position = run.order.line_of, run.accesses.record, run.order.lane, run.order.position

    def key_of(a: Any, b: Any) -> Any:
        lines = joint(line[record[a]], line[record[b]], len(run.log.lines))
        return joint(lines, lane[position[record[a]]], len(LANES))

    key = key_of(one, other)
    by_key = np.argsort(key, kind="stable")
    ordered = key[by_key]

    def pairs_at(a: int, b: int) -> tuple[Integers, Integers]:
        lines = key_of(a, b)
        rows = by_key[np.searchsorted(ordered, lines) : np.searchsorted(ordered, lines, "right")]
        return one[rows], other[rows]

    return pairs_at


def _race(occurrences: _Occurrences, one: Integers, other: Integers) -> Race:
    """Return the race of two lines; `one` and `other` are all accesses there that race."""
    first, last, times = occurrences
    run = first.run
    points = [(_last_conflicting(run, pair.rows[1], one, other), pair.positions[1]) for pair in (first, *last)]
    finding = within_task(first, times)
    replacing_side = replaces_unread(run, first.rows)
    finding = replace(
        finding,
        fields=finding.fields | _executions(run, one, other),
        clues=finding.clues | {"replaces_unread": bool(replacing_side)},
    )
    wrong_part_text = ""
    if replacing_side:
        why = f"the {replacing_side} of them replaces what was written there before anything reads it"
        wrong_part_text = wrong_part(first.buffer, finding.sites, why)
    elif first.writes == (False, True) and leaves_most_unread(run, first.rows[1]):
        why = "nothing reads most of what the second of them writes"
        wrong_part_text = wrong_part(first.buffer, finding.sites, why)
    return Race(points, finding, wrong_part_text)


def _executions(run: Run, one: Integers, other: Integers) -> dict[str, Any]:
    """Return how often the first line of pairs of accesses, all of the same two lines, is executed.

    Only executions with the same kind of access count. `comparable` counts those that the second line follows, before
    anything orders the two, as often as it does in a race.
    """
    order, record = run.order, run.accesses.record
    firsts, seconds = (_similar_executions(run, int(rows[0])) for rows in (one, other))
    # Of each execution that races, the first race.
    racing, execution = np.unique(order.position[record[one]], return_inverse=True)
    first_conflicts = np.full(len(racing), np.iinfo(np.int64).max)
    np.minimum.at(first_conflicts, execution, order.position[record[other]])
    needed = np.median(np.searchsorted(seconds, first_conflicts, "right") - np.searchsorted(seconds, racing, "right"))
    following = np.searchsorted(seconds, order.done[firsts], "right") - np.searchsorted(seconds, firsts, "right")
    tasks, first_of_task = np.unique(order.task[firsts], return_index=True)
    return {
        "executions": len(firsts),
        "tasks": len(tasks),
        "comparable": max(int((following >= needed).sum()), len(racing)),
        "first_executions": bool(np.isin(racing, firsts[first_of_task]).all()),
    }


def _similar_executions(run: Run, row: int) -> Integers:
    """Return the positions of the operations of this name and line that access the same memory in the same way."""
    accesses, order = run.accesses, run.order
    memory = run.log.allocations[int(accesses.alloc[row])].memory
    in_memory = np.array([allocation.memory == memory for allocation in run.log.allocations], bool)
    record = accesses.record[np.flatnonzero((accesses.write == accesses.write[row]) & in_memory[accesses.alloc])]
    own = accesses.record[row]
    record = record[(order.line_of[record] == order.line_of[own]) & (order.op_of[record] == order.op_of[own])]
    return np.unique(order.position[record])


def _last_conflicting(run: Run, b: int, one: Integers, other: Integers) -> int:
    """Return the position of the last operation that races with that of `b`, of pairs of the same two lines.

    A sync after it is one after all of them.
    """
    record = run.accesses.record
    return int(run.order.position[record[one[record[other] == record[b]]]].max())


def _span_between(pair: Pair) -> Span:
    """Return the source lines between which one barrier would order a pair, and the barriers already passed.

    Between two queues, one wait of the host orders all pairs.
    """
    run, lines = pair.run, pair.sources
    jobs = {run.order.job[task] for task in pair.tasks}
    queues = sorted({run.log.launches[launch].queue for launch, *_ in jobs})
    if len(queues) > 1:
        return Span(("queues", *queues, bisect_right(run.log.host.waits, min(jobs)[0])), 0, 1)
    if len(jobs) > 1 or lines[0][0] != lines[1][0] or lines[0][1] == lines[1][1]:
        # No barrier can order these, or the location cannot be derived from the log alone.
        return Span(("alone", *pair.rows), 0, 1)
    first, second = sorted(line for _, line, _ in lines)
    return Span((*jobs, *sorted(pair.segments), lines[0][0]), first, second)


def _by_lines(run: Run, a: Integers, b: Integers) -> list[_Occurrences]:
    """Return the pairs of each two source lines in a memory, in the order of the log."""
    if not len(a):
        return []
    accesses, line = run.accesses, run.order.line_of
    one, other = accesses.record[a], accesses.record[b]
    kinds = sorted({record.memory for record in run.log.allocations})
    memory = np.array([kinds.index(record.memory) for record in run.log.allocations], np.int64)[accesses.alloc[a]]
    # Of the bytes two operations share, report a read after a write first and two writes last.
    priority = 2 * (accesses.write[b] & accesses.write[a]) + (~accesses.write[a])
    order = np.lexsort((priority, other, one))
    # lexsort is stable, so the first of each kind is also the first in this order.
    pairs = order[np.sort(group_rows(one[order], other[order], memory[order])[0])]
    # A line that issues operations of several pipes, such as `job()`, may lack a sync for each of them.
    lane = run.order.lane[run.order.position[one[pairs]]]
    first, kind, _ = group_rows(line[one[pairs]], line[other[pairs]], memory[pairs], lane)
    # Count the operations that come too early, not all their conflicts.
    times = np.bincount(kind[group_rows(kind, one[pairs])[0]])
    last, last_of_task = np.zeros_like(first), np.zeros_like(first)
    np.maximum.at(last, kind, np.arange(len(kind)))
    task = run.order.task_of[one[pairs]]
    within_first_task = np.flatnonzero(task == task[first[kind]])
    np.maximum.at(last_of_task, kind[within_first_task], within_first_task)
    occurrences = sorted(zip(first.tolist(), last_of_task.tolist(), last.tolist(), times.tolist(), strict=True))

    def pair(index: int) -> Pair:
        return Pair(run, (int(a[pairs[index]]), int(b[pairs[index]])))

    return [_Occurrences(pair(begin), (pair(of_task), pair(end)), count) for begin, of_task, end, count in occurrences]


def _collect(run: Run, batches: Iterable[Pairs]) -> Pairs:
    """Return all pairs of some batches; of more than can be held at once, those that decide what is reported."""
    batches_held, count, limit = [], 0, _MOST_PAIRS
    for batch in batches:
        batches_held.append(batch)
        count += len(batch[0])
        if count > limit:
            batches_held = [_decisive(run, *_concatenate(batches_held))]
            count = len(batches_held[0][0])
            limit = max(_MOST_PAIRS, 2 * count)
    return _concatenate(batches_held)


def _concatenate(batches: Sequence[Pairs]) -> Pairs:
    if not batches:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate([a for a, _ in batches]), np.concatenate([b for _, b in batches])


def _decisive(run: Run, a: Integers, b: Integers) -> Pairs:
    """Return, of each operation and line that race, the first and the last pair.

    The first and the last time that two lines race are among these, and so is each operation that races.
    """
    accesses, order = run.accesses, run.order
    cluster = np.array([record.cluster for record in run.log.tasks], np.int64)
    chosen = np.zeros(len(a), bool)
    for one, other in ((a, b), (b, a)):
        record, partner = accesses.record[one], accesses.record[other]
        _, kind, times = group_rows(
            record,
            order.line_of[partner],
            cluster[order.task_of[partner]],
            accesses.alloc[one],
            accesses.write[one],
            accesses.write[other],
        )
        order_by_kind = np.lexsort((partner, kind))
        kind_ends = np.cumsum(times)
        chosen[order_by_kind[kind_ends - times]] = True
        chosen[order_by_kind[kind_ends - 1]] = True
    return a[chosen], b[chosen]

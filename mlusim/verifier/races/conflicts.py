"""Pairs of accesses to common bytes, at least one a write, that nothing orders.

Within a task, an operation can conflict with those issued on other lanes before it is known to be complete: a window of
the program order. Between tasks, barriers delimit segments; where there are none, only the parts of a tensor that
several tasks access are compared. Pairs ordered by later syncs are pruned before any bytes are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mlusim.arrays import Integers
from mlusim.verifier.accesses.cells import Cells
from mlusim.verifier.accesses.geometry import group_rows
from mlusim.verifier.accesses.overlaps import FEW_PAIRS, Pairs, chunks, disjoint, earlier_first, in_batches, touching
from mlusim.verifier.accesses.space import Space
from mlusim.verifier.accesses.table import Accesses
from mlusim.verifier.columns import narrow
from mlusim.verifier.order.happens_before import Order
from mlusim.verifier.order.lanes import ASYNCHRONOUS_LANES, LANES, in_order
from mlusim.verifier.run import Run

# Windows are compared pair by pair up to this many pairs per access; beyond that, by kind of access.
_MAX_PAIRS_PER_ACCESS = 16
# Smallest batch of accesses, in whole tasks.
_BATCH_ROWS = 1 << 18


def within_tasks(run: Run) -> Iterator[Pairs]:
    """Yield unordered conflicting pairs of rows within a task, the earlier first.

    Of pairs that differ only in repetition, at least the first is included.
    """
    order, accesses, space = run.order, run.accesses, run.space
    if not len(accesses):
        return
    # By task, in program order. Inputs are never written.
    rows = narrow(np.argsort(order.task_of[accesses.record], kind="stable"))
    rows = rows[~space.read_only[accesses.alloc[rows]]]
    # Processing some tasks at a time bounds memory on long logs.
    task = order.task_of[accesses.record[rows]]
    task_ends = [*(np.flatnonzero(task[1:] != task[:-1]) + 1).tolist(), len(rows)]
    begin = 0
    for end in task_ends:
        if end > begin and (end - begin >= _BATCH_ROWS or end == len(rows)):
            yield from _within_some_tasks(order, accesses, space, rows[begin:end])
            begin = end


def _within_some_tasks(order: Order, accesses: Accesses, space: Space, rows: Integers) -> Iterator[Pairs]:
    """`within_tasks` for all rows of some tasks, in program order."""
    selected = accesses.where(rows)
    windows = list(_windows(order, selected))
    pairs = sum(int((window.last - window.first).sum()) for window in windows)
    if pairs > _MAX_PAIRS_PER_ACCESS * len(selected) + FEW_PAIRS:
        unordered = _pairs_by_kind(order, selected, space)
    else:
        unordered = _pairs_by_window(selected, space, windows)
    for a, b in unordered:
        yield rows[a], rows[b]


class _Window(NamedTuple):
    """The rows of a lane that are pending after their issue, and what they may conflict with.

    Each of the rows `pending` may conflict with the rows others[first:last], issued before it is complete on lanes that
    are not in order with its own. These are few if syncs are near, and all later ones if there are none.
    """

    pending: Integers
    others: Integers
    first: Integers
    last: Integers


def _windows(order: Order, accesses: Accesses) -> Iterator[_Window]:
    """Yield the window of each lane that has pending rows."""
    position = order.position[accesses.record]
    lane, done = order.lanes_of(accesses), order.done[position]
    for number in ASYNCHRONOUS_LANES:
        pending = np.flatnonzero((lane == number) & (done > position))
        if len(pending):
            unordered = np.array([not in_order(number, other) for other in range(len(LANES))])
            pending, others = narrow(pending), narrow(np.flatnonzero(unordered[lane]))
            first, last = (
                narrow(np.searchsorted(position[others], bounds[pending], side="right")) for bounds in (position, done)
            )
            has_others = last > first
            yield _Window(pending[has_others], others, first[has_others], last[has_others])


def _pairs_by_window(accesses: Accesses, space: Space, windows: list[_Window]) -> Iterator[Pairs]:
    """`within_tasks` for rows in program order: compare each pending row with all of its window."""
    number, address = space.number[accesses.alloc], space.address[accesses.alloc]
    low, high = accesses.low + address, accesses.high + address
    for pending, others, first, last in windows:
        for pending_index, index in chunks(first, last):
            a, b = pending[pending_index], others[index]
            overlap = (number[a] == number[b]) & (accesses.write[a] | accesses.write[b])
            overlap &= (low[a] < high[b]) & (low[b] < high[a])
            a, b = a[overlap], b[overlap]
            for exact in in_batches(accesses, a, b, address[a] - address[b]):
                yield a[exact], b[exact]


def _pairs_by_kind(order: Order, accesses: Accesses, space: Space) -> Iterator[Pairs]:
    """`within_tasks` for rows in program order: pair each row with the first of each kind of later access."""
    position = order.position[accesses.record]
    lane, done = order.lanes_of(accesses), order.done[position]
    line = order.line[position]
    first_rows, kind, times = group_rows(
        order.task[position], lane, line, accesses.alloc, accesses.offset, accesses.geometry, accesses.write
    )
    by_kind = np.argsort(kind, kind="stable")
    kind_ends = np.cumsum(times)
    rows_of = [by_kind[end - count : end] for end, count in zip(kind_ends.tolist(), times.tolist(), strict=True)]
    first_position = position[[rows[0] for rows in rows_of]]
    last_position = position[[rows[-1] for rows in rows_of]]
    last_done = np.maximum.reduceat(done[by_kind], kind_ends - times)
    for one, other in _overlapping_kinds(
        order.task[position][first_rows], accesses.where(first_rows), space, (first_position, last_position, last_done)
    ):
        for earlier, later in ((one, other), (other, one)):
            lanes = lane[first_rows[earlier]], lane[first_rows[later]]
            if lanes[0] not in ASYNCHRONOUS_LANES or in_order(int(lanes[0]), int(lanes[1])):
                continue
            a, b = rows_of[earlier], rows_of[later]
            following = np.searchsorted(position[b], position[a], side="right")
            valid = np.flatnonzero(following < len(b))
            valid = valid[position[b[following[valid]]] <= done[a[valid]]]
            if len(valid):
                yield a[valid], b[following[valid]]


def _overlapping_kinds(
    task: Integers, kinds: Accesses, space: Space, extents: tuple[Integers, Integers, Integers]
) -> Iterator[tuple[int, int]]:
    """Yield pairs of kinds of accesses of one task that share bytes, at least one a write, and overlap in time.

    Args:
        task: by kind, its task.
        kinds: one access of each kind.
        space: the identity of bytes.
        extents: by kind, the first and the last position, and the last position at which one of them completes.
    """
    number, address = space.number[kinds.alloc], space.address[kinds.alloc]
    # Lay out all memories of all tasks one after another in a single address space.
    _, memory, _ = group_rows(task, number)
    low, high = kinds.low + address, kinds.high + address
    length = int(high.max()) + 1
    low, high = low + memory * length, high + memory * length
    begin, last, done = extents
    # Sort by address or by time, whichever leaves fewer pairs to compare.
    by_low = np.argsort(low, kind="stable")
    in_space = np.searchsorted(low[by_low], high[by_low], side="left") - np.arange(1, len(low) + 1)
    by_begin = np.argsort(begin, kind="stable")
    completion = np.maximum(last, done)[by_begin]
    in_time = np.searchsorted(begin[by_begin], completion, side="right") - np.arange(1, len(low) + 1)
    ordered, count = (by_low, in_space) if in_space.sum() <= in_time.sum() else (by_begin, in_time)
    following = np.arange(1, len(low) + 1)
    for ordered_index, index in chunks(following, following + count):
        a, b = ordered[ordered_index], ordered[index]
        overlap = (memory[a] == memory[b]) & (kinds.write[a] | kinds.write[b])
        overlap &= (low[a] < high[b]) & (low[b] < high[a])
        overlap &= ((begin[a] < last[b]) & (begin[b] <= done[a])) | ((begin[b] < last[a]) & (begin[a] <= done[b]))
        a, b = a[overlap], b[overlap]
        for exact in in_batches(kinds, a, b, address[a] - address[b]):
            yield from zip(a[exact].tolist(), b[exact].tolist(), strict=True)


def between_tasks(run: Run) -> Iterator[Pairs]:
    """Yield unordered conflicting pairs of rows in different tasks."""
    order, accesses, space = run.order, run.accesses, run.space
    candidates = np.flatnonzero(space.shared[accesses.alloc] & ~space.read_only[accesses.alloc])
    if not len(candidates):
        return
    for rows in (candidates[indices] for indices in by_label(accesses.alloc[candidates])):
        if accesses.write[rows].any():
            task = order.task_of[accesses.record[rows]]
            if (task != task[0]).any():
                yield from _in_allocation(order, accesses, rows)


def _in_allocation(order: Order, accesses: Accesses, rows: Integers) -> Iterator[Pairs]:
    position = order.position[accesses.record[rows]]
    task, segment = order.task[position], order.segment[position]
    # Repeated accesses by a source line of a task to the same bytes between two barriers count as one.
    line = order.line[position]
    keys = [task, segment, line, accesses.offset[rows], accesses.geometry[rows], accesses.write[rows]]
    if order.log.joined:
        # A shared copy orders the accesses after a call of it, not those before.
        keys.append(order.shared_calls[position])
    first, _, _ = group_rows(*keys)
    rows, task, segment = rows[first], task[first], segment[first]
    group = order.group[task]
    for members in by_label(order.unordered_launches[order.launch[task]]):
        if accesses.write[rows[members]].any():
            yield from _across_groups(order, accesses, rows[members], task[members], group[members])
    if len(order.groups) < len(order.log.tasks):
        for members in by_label(group):
            if (task[members] != task[members[0]]).any() and accesses.write[rows[members]].any():
                yield from _within_group(order, accesses, rows[members], task[members], segment[members])


def by_label(labels: Integers) -> list[Integers]:
    """Return the indices of each label, in ascending order."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)


def _across_groups(
    order: Order, accesses: Accesses, rows: Integers, task: Integers, group: Integers
) -> Iterator[Pairs]:
    """Yield pairs of tasks that never meet at a barrier, in the cells that more than one group accesses."""
    if (group == group[0]).all():
        return
    selected_accesses = accesses.where(rows)
    if disjoint(selected_accesses):
        return
    cells = Cells(selected_accesses, int(selected_accesses.high.max()))
    is_shared = cells.count() > 1
    if not is_shared.any():
        return
    contested = cells.mixed(group, is_shared & (cells.count(selected_accesses.write) > 0))
    selected = np.flatnonzero(cells.touching(contested))
    selected = selected[np.argsort(selected_accesses.low[selected], kind="stable")]
    if not len(selected):
        return
    low, high = selected_accesses.low[selected], selected_accesses.high[selected]
    last = np.searchsorted(low, high, side="left")
    for selected_index, index in chunks(np.arange(1, len(selected) + 1), last):
        a, b = selected[selected_index], selected[index]
        overlap = (group[a] != group[b]) & (selected_accesses.write[a] | selected_accesses.write[b])
        launch, other = order.launch[task[a]], order.launch[task[b]]
        overlap &= (launch == other) | ~order.launches_in_order(launch, other)
        a, b = a[overlap], b[overlap]
        exact = touching(selected_accesses, a, b)
        yield earlier_first(rows[a[exact]], rows[b[exact]])


def _within_group(
    order: Order, accesses: Accesses, rows: Integers, task: Integers, segment: Integers
) -> Iterator[Pairs]:
    """Yield pairs of tasks that meet at barriers, in segments that no barrier orders."""
    selected_accesses = accesses.where(rows)
    tasks = np.unique(task).tolist()
    of_task = {owner: np.flatnonzero(task == owner) for owner in tasks}
    for position, owner in enumerate(tasks):
        own_rows = of_task[owner]
        for other in tasks[position + 1 :]:
            other_rows = of_task[other]
            other_rows = other_rows[np.argsort(segment[other_rows], kind="stable")]
            # Segments of the other task that end before mine begins, and the first that begins after mine ends.
            ends = order.clock_of(owner, other)[segment[own_rows]]
            begins = np.searchsorted(order.clock_of(other, owner), segment[own_rows], side="right")
            first = np.searchsorted(segment[other_rows], ends, side="left")
            last = np.searchsorted(segment[other_rows], begins, side="left")
            for own_index, index in chunks(first, last):
                a, b = own_rows[own_index], other_rows[index]
                overlap = (
                    (selected_accesses.write[a] | selected_accesses.write[b])
                    & (selected_accesses.low[a] < selected_accesses.high[b])
                    & (selected_accesses.low[b] < selected_accesses.high[a])
                )
                a, b = a[overlap], b[overlap]
                exact = touching(selected_accesses, a, b)
                yield earlier_first(rows[a[exact]], rows[b[exact]])

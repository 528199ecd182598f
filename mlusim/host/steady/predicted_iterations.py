"""Predicts the records of iterations of declared loops from those of issued iterations.

The kernel has declared (`Core.loop`) that iterations whose items, with the two items before, have equal distances issue
the same instructions, at addresses that are affine functions of the item. So iterations are divided into classes by
these distances. For each class, the functions are determined from the issued iterations of all tasks, and an iteration
is known if its class issued the same instructions each time, if the functions agree with all addresses, and if its own
item is a combination of the issued ones. Predictions are exact; nothing is predicted for other iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Array, Flags, Integers
from mlusim.host.steady.periods import SAME_COST
from mlusim.log import NONE, SCALAR

if TYPE_CHECKING:
    from mlusim.host.steady.declared_loop import DeclaredLoop
    from mlusim.log import Log


# The number of earlier items whose variables an iteration may use.
BEFORE = 2
# Numbers of buffers that a loop may use in turn.
_BUFFERS = (1, 2, 3, 4, 6, 8)
# Classes are determined from the latest iterations of a task, without its first ones, which may differ.
_WARM = 4
_LATEST = 96
# The regular iterations end before this many successive unknown ones.
_UNKNOWN = 8
# Costs that differ by less than this fraction count as equal.
_SAME_COST = 2 * SAME_COST
_ALLOCATIONS = ("dst_alloc", "a_alloc", "b_alloc")
_OFFSETS = ("dst_offset", "a_offset", "b_offset")


class PredictedIterations:
    """The iterations of the loops that tasks are executing.

    Args:
        log: the log so far.
        loops: the loops, by task.
        records: the records of each task, by task.
        operations: number of operations of an iteration.
        unit: bytes of a bus unit: the cost of a copy depends on its addresses modulo this.

    Attributes:
        operations: number of operations of an iteration.
        buffers: number of buffers that the loop uses in turn.
    """

    def __init__(
        self, log: Log, loops: dict[int, DeclaredLoop[Any]], records: dict[int, Integers], operations: int, unit: int
    ) -> None:
        self.operations = operations
        self.buffers = 1
        self._buffers = _Buffers(log)
        items = {task: loop.values for task, loop in loops.items()}
        columns = max(task_items.shape[1] for task_items in items.values())
        items = {task: task_items for task, task_items in items.items() if task_items.shape[1] == columns}
        # The items of all tasks, one task after the other, and the index of each in its loop.
        self._items = np.concatenate([*items.values()])
        self._index = np.concatenate([np.arange(len(task_items)) for task_items in items.values()])
        ends = np.cumsum([0, *map(len, items.values())]).tolist()
        self._range = dict(zip(items, pairwise(ends), strict=True))
        # The items of the issued iterations from which classes are determined, and the records of each.
        issued_by_task = [self._issued_by(task, loops[task], records[task]) for task in self._range]
        self._issued, numbers = (np.concatenate(parts) for parts in zip(*issued_by_task, strict=True))
        self._rows = log.records.rows(numbers)
        # By item: whether it is known, the issued iteration whose records it repeats, and the offsets of its operands.
        self._known = np.zeros(len(self._items), bool)
        self._example = np.zeros(len(self._items), np.int64)
        self._offsets = np.zeros((len(self._items), operations * len(_OFFSETS)), np.int64)
        if len(numbers) and _is_plain(log, numbers):
            costs = log.records.column("alone_ps", numbers.reshape(-1)).reshape(numbers.shape)
            typical = np.median(costs, axis=0)
            self._typical = (np.abs(costs - typical) <= _SAME_COST * typical).all(axis=1)
            self._predict(unit)
        self._unknown = np.flatnonzero(np.append(~self._known, True))

    def _issued_by(self, task: int, loop: DeclaredLoop[Any], records: Integers) -> tuple[Integers, Integers]:
        """Return the items of the latest iterations issued by a task, and (iterations, operations) their records."""
        first, end = self._range[task]
        begins = np.array(loop.begins)
        # The latest iteration is incomplete.
        last = min(len(begins) - 1, end - first)
        iterations = np.arange(max(last - _LATEST, _WARM), max(last, _WARM))
        iterations = iterations[np.diff(begins)[iterations] == self.operations]
        return first + iterations, records[begins[iterations][:, np.newaxis] + np.arange(self.operations)]

    def _predict(self, unit: int) -> None:
        """Divide the items into classes, and determine which of them are known, and their offsets."""
        rows = self._rows
        buffers = np.stack([self._buffers.coded(rows[name]) for name in _ALLOCATIONS], axis=2)
        offsets = np.stack([rows[name] for name in _OFFSETS], axis=2)
        # Offsets in a buffer belong to the class; those in GDRAM depend on the item.
        contents = np.dstack([rows["instruction"], rows["line"], np.where(buffers < NONE, offsets, 0)])
        offsets = offsets.reshape(len(rows), -1)
        self.buffers, self._phase, classes, differ = self._classes(contents, buffers)
        self._example_of_phase = np.unique(self._phase[self._issued], return_index=True)[1]
        by_class = np.argsort(classes, kind="stable")
        bounds = np.searchsorted(classes[by_class], np.arange(int(classes.max()) + 2))
        for number, (first, end) in enumerate(pairwise(bounds.tolist())):
            members, issued = by_class[first:end], np.flatnonzero(classes[self._issued] == number)
            if not differ[issued].any() and not self._fit(members, issued, offsets, unit):
                self._fit_by_task(members, issued, offsets, unit)
        self._known &= (self._index >= BEFORE) & (self._phase >= 0)

    def _classes(self, contents: Integers, buffers: Integers) -> tuple[int, Integers, Integers, Flags]:
        """Divide the iterations into classes, such that those of a class have issued the same instructions each time.

        Args:
            contents: (issued iterations, operations, values) what an iteration has issued, without its buffers.
            buffers: (issued iterations, operations, operands) the codes of its buffers.

        Returns how many buffers the loop uses in turn, the least number that explains them; by iteration, which of them
        and its class; and by issued iteration, whether it differs from others of its class.
        """
        distances = self._distances()
        for count in _BUFFERS:
            # The buffers used depend on the index of the iteration; or the whole iteration does.
            phase = self._row_numbers([self._index % count])
            for classes in (distances, self._row_numbers([distances, phase])):
                differ = _differ(contents, classes[self._issued]) | _differ(buffers, phase[self._issued])
                if not differ.any():
                    return count, phase, classes, differ
        return count, phase, classes, differ

    def _fit_by_task(self, members: Integers, issued: Integers, offsets: Integers, unit: int) -> None:
        """Determine the addresses of a class that differ by task; arguments as those of `_fit`."""
        for first, end in self._range.values():
            members_of_task = members[slice(*np.searchsorted(members, (first, end)))]
            of_task = self._issued[issued]
            issued_of_task = issued[(of_task >= first) & (of_task < end)]
            if len(issued_of_task):
                self._fit(members_of_task, issued_of_task, offsets, unit)

    def _fit(self, members: Integers, issued: Integers, offsets: Integers, unit: int) -> bool:
        """Determine the addresses of a class; return whether they are affine functions of the items.

        Args:
            members: its items.
            issued: its issued iterations.
            offsets: (issued iterations of all classes, operands) their addresses.
            unit: bytes of a bus unit.
        """
        base = int(issued[0])
        origin = self._items[self._issued[base]]
        from_base = (self._items[self._issued[issued]] - origin).astype(np.float64)
        away = (self._items[members] - origin).astype(np.float64)
        # The directions in which the issued items differ, and the change of addresses along each.
        _, sizes, axes = np.linalg.svd(from_base, full_matrices=False)
        axes = axes[sizes > 1e-9 * max(float(sizes.max()), 1.0)]
        steps = np.linalg.lstsq(from_base @ axes.T, (offsets[issued] - offsets[base]).astype(np.float64), rcond=None)[0]
        coordinates = away @ axes.T
        predicted = offsets[base] + np.rint(coordinates @ steps).astype(np.int64)
        self._offsets[members] = predicted
        self._example[members] = base
        if not (self._offsets[self._issued[issued]] == offsets[issued]).all():
            return False
        self._known[members] = (np.abs(away - coordinates @ axes) < 0.5).all(axis=1) & (
            (predicted - offsets[base]) % unit == 0
        ).all(axis=1)
        return True

    def _distances(self) -> Integers:
        """Number the iterations by the distances between their items and the `BEFORE` items before them."""
        step = self._row_numbers([np.diff(column, prepend=column[:1]) for column in self._items.T])
        return self._row_numbers([np.roll(step, distance) for distance in range(BEFORE)])

    def _row_numbers(self, columns: Sequence[Integers]) -> Integers:
        """Number the rows of a table, given by columns, by value; NONE for rows of no issued iteration."""
        numbers, is_issued = np.zeros(len(self._items), np.int64), np.ones(len(self._items), bool)
        for column in columns:
            codes, is_known = _codes(column, column[self._issued])
            pairs = numbers * (int(codes.max()) + 1) + codes
            # Numbered again, so that the numbers stay small.
            numbers, known_pairs = _codes(pairs, pairs[self._issued])
            is_issued &= is_known & known_pairs
        return np.where(is_issued, numbers, NONE)

    def covers(self, task: int) -> bool:
        """Return whether any iteration of a task's loop is known."""
        return task in self._range and bool(self._known[slice(*self._range[task])].any())

    def known_from(self, task: int, iteration: int) -> int:
        """Return the number of successive known iterations, from `iteration` on."""
        if task not in self._range:
            return 0
        first, end = self._range[task]
        until = int(self._unknown[np.searchsorted(self._unknown, first + iteration)])
        return int(max(min(until, end) - first - iteration, 0))

    def regular_until(self, task: int, iteration: int) -> int:
        """Return the first iteration, from `iteration` on, whose cost differs from those issued, or that is unknown."""
        first, end = self._range[task]
        items_of_task = slice(first + iteration, end)
        is_irregular = self._known[items_of_task] & ~self._typical[self._example[items_of_task]]
        unknown_before = np.cumsum(~self._known[items_of_task])
        is_irregular[:-_UNKNOWN] |= unknown_before[_UNKNOWN:] - unknown_before[:-_UNKNOWN] == _UNKNOWN
        return iteration + int(np.argmax(np.append(is_irregular, True)))

    def rows(self, task: int, iteration: int, count: int) -> Array:
        """Return the records of `count` known iterations, from `iteration` on, without valid times."""
        first = self._range[task][0] + iteration
        items = slice(first, first + count)
        rows = self._rows[self._example[items]]
        of_phase = self._rows[self._example_of_phase[self._phase[items]]]
        offsets = self._offsets[items].reshape(count, -1, len(_OFFSETS))
        for number, (allocation, offset) in enumerate(zip(_ALLOCATIONS, _OFFSETS, strict=True)):
            rows[allocation] = self._buffers.of(task, self._buffers.coded(of_phase[allocation]))
            rows[offset] = offsets[:, :, number]
        rows["task"] = task
        flat: Array = rows.reshape(-1)
        return flat


class _Buffers:
    """Codes of allocations that are equal for the same buffer of each task."""

    def __init__(self, log: Log) -> None:
        self._owner = np.array([allocation.task for allocation in log.allocations], np.int64)
        self._of_task = {
            task: np.flatnonzero(self._owner == task) for task in np.unique(self._owner).tolist() if task >= 0
        }
        self._position = np.zeros(len(self._owner), np.int64)
        for allocations in self._of_task.values():
            self._position[allocations] = np.arange(len(allocations))

    def coded(self, allocations: Integers) -> Integers:
        """Return the codes of allocations: less than NONE for those of tasks, and others themselves."""
        of_tasks = (allocations >= 0) & (self._owner[allocations] >= 0)
        return np.where(of_tasks, NONE - 1 - self._position[allocations], allocations)

    def of(self, task: int, codes: Integers) -> Integers:
        """Return the allocations of a task with these codes."""
        buffers = self._of_task.get(task, np.zeros(1, np.int64))
        return np.where(codes < NONE, buffers[(NONE - 1 - codes).clip(0, len(buffers) - 1)], codes)


def _codes(values: Integers, among: Integers) -> tuple[Integers, Flags]:
    """Return the index of each value in the distinct values of `among`, and whether it is one of these."""
    distinct = np.unique(among)
    codes = np.searchsorted(distinct, values).clip(max=len(distinct) - 1)
    return codes, distinct[codes] == values


def _differ(values: Integers, classes: Integers) -> Flags:
    """By iteration, return whether its values differ from those of the first one of its class."""
    _, first, class_index = np.unique(classes, return_index=True, return_inverse=True)
    differ: Flags = (values != values[first[class_index]]).any(axis=(1, 2))
    return differ


def _is_plain(log: Log, records: Integers) -> bool:
    """Return whether operations read no values into registers, and the log has only records of them."""
    table, rows = log.records.instructions()
    pipe, a_box = (table[name][rows[records]] for name in ("pipe", "a_box"))
    special_records = [*log.addresses, *log.more_operands, *log.seen, *log.loops, *log.joined, *log.byte_copies]
    return not ((pipe == SCALAR) & (a_box != NONE)).any() and not np.isin(records, special_records).any()

"""Lets a running task skip operations: they are logged but not simulated, take no time, and nothing waits.

By default, its kernel issues them. In a loop declared by `Core.loop`, most iterations need not even be issued: their
records follow from a `PredictedIterations`, and the loop continues after them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlusim.arrays import Array
from mlusim.host.steady.predicted_iterations import BEFORE
from mlusim.log import NONE

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.host.steady.predicted_iterations import PredictedIterations

_TASK_TIMES = ("now_ps", "waited_for", "pending_io", "pending_move")
_UNIT_TIMES = ("vector_free_ps", "vector_record", "compute_copied_ps", "compute_copy_record", "stored_ps")
# Iterations that are issued after skipped ones: the first two may use variables of skipped iterations, and the third is
# compared with the expected one.
_ISSUED = BEFORE + 1
# Skipping fewer iterations is not worth it.
_FEWEST = 4
# Iterations are skipped in this many parts, with `_ISSUED` iterations between them.
_PARTS = 4
# The length of the first part differs by task, by multiples of the golden ratio, which are evenly distributed: so the
# iterations that are issued and compared are spread over the whole loop.
_GOLDEN_RATIO = (5**0.5 - 1) / 2
_SHORTEST_FIRST_PART = 12


class FastForward:
    """Skips the next operations of a task, once the task resumes.

    Transfers in flight stay in flight. Afterwards, the core has its previous state.

    Args:
        issuer: the issuer of the task.
        operations: number of operations, whole periods.
        iterations: number of iterations of a declared loop, from its next one on; 0 outside such loops.

    Attributes:
        first: record of the first of these operations; NONE before the task resumes.
        failed: the operations differ from those expected: some had to wait, or are not one record each, or iterations
            of a declared loop differ.
        done: all are skipped.
    """

    def __init__(self, issuer: Issuer, operations: int, iterations: int = 0) -> None:
        self._issuer = issuer
        self.operations = operations
        self.first = NONE
        self.failed = self.done = False
        self._iterations = iterations
        # The iteration after the last one to skip.
        self._end_iteration = 0
        # Iterations issued since the last part, and the records expected of them.
        self._issued = 0
        self._expected: Array | None = None
        # The most iterations of the next part, with those issued after it.
        part = issuer.task.index * _GOLDEN_RATIO % 1 * iterations / _PARTS
        self._longest = max(int(part), _SHORTEST_FIRST_PART) + _ISSUED
        # In a declared loop, `skip` begins, unless the kernel has left the loop.
        issuer.at_check = self._begin_before_operation
        issuer.next_check = issuer.task.operations
        if iterations:
            issuer.next_check += 2 * operations // iterations

    def _begin_before_operation(self) -> None:
        self._begin()
        # The operation that is about to be issued is counted already.
        self._issuer.next_check -= 1

    def _begin(self) -> None:
        issuer = self._issuer
        task, unit = issuer.task, issuer.unit
        self.first = issuer.log.count
        self._now = issuer.chip.environment.now
        self._allocations = len(issuer.log.allocations)
        self._task = {name: getattr(task, name) for name in _TASK_TIMES}
        self._unit = {name: getattr(unit, name) for name in _UNIT_TIMES}
        # Skipped operations do not wait for operations in flight.
        task.pending_io = task.pending_move = 0
        issuer.set_dry(dry=True)
        issuer.at_check = self._end
        issuer.next_check = task.operations + self.operations

    def skip(self, predicted: PredictedIterations, iteration: int) -> int:
        """Log the next iterations of a declared loop, and return their number; called before each of its iterations.

        Args:
            predicted: the records of iterations.
            iteration: index of the iteration.
        """
        issuer = self._issuer
        if self.first == NONE:
            self._begin()
            self._end_iteration = iteration + self._iterations
        if self._expected is not None:
            self._issued += 1
            if self._issued < _ISSUED:
                return 0
            self._compare()
        predicted_iterations = min(predicted.known_from(issuer.task.index, iteration), self._end_iteration - iteration)
        count = min(predicted_iterations, self._longest) - _ISSUED
        # A kernel may swap its buffers at the end of each iteration.
        count -= count % predicted.buffers
        if count < _FEWEST:
            return 0
        rows = predicted.rows(issuer.task.index, iteration, count + _ISSUED)
        skipped = count * predicted.operations
        issuer.log.records.extend(rows[:skipped])
        issuer.task.operations += skipped
        self._expected, self._issued = rows[skipped:], 0
        self._longest = self._iterations // _PARTS + _ISSUED
        return count

    def _compare(self) -> None:
        """Compare the operations after the skipped ones with those expected."""
        if self._expected is None:
            return
        records, expected = self._issuer.log.records, self._expected
        last = len(expected) // _ISSUED
        self.failed |= not records.equal(records.count - last, expected[-last:])
        records.replace(records.count - len(expected), expected[:-last])
        self._expected = None

    def _end(self) -> None:
        issuer = self._issuer
        log = issuer.log
        self._compare()
        for name, value in self._task.items():
            setattr(issuer.task, name, value)
        for name, value in self._unit.items():
            setattr(issuer.unit, name, value)
        issuer.set_dry(dry=False)
        issuer.at_check = None
        # From here on, the task is checked as usual.
        issuer.next_check = issuer.task.operations
        waited = issuer.chip.environment.now != self._now
        other = log.count - self.first != self.operations or len(log.allocations) != self._allocations
        self.failed |= waited or other
        self.done = True

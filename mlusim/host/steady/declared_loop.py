"""Loops declared by `Core.loop`, in a run that may skip iterations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from mlusim.arrays import Integers
from mlusim.host.steady.predicted_iterations import BEFORE

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.tasks.task import Task
    from mlusim.host.steady.fast_forward import FastForward
    from mlusim.host.steady.predicted_iterations import PredictedIterations

Item = TypeVar("Item")
# The most iterations of a period.
_LONGEST = 64


class DeclaredLoop(Generic[Item]):
    """A loop over items, some of which can be skipped.

    Args:
        issuer: the issuer of the task.
        items: the items.
        along: by iteration, the integers that determine its operations.

    Attributes:
        task: the task.
        index: index of the next iteration.
        begins: by iteration so far, the number of operations that the task had issued before it.
        ended: whether there are no more items.
    """

    def __init__(self, issuer: Issuer, items: Sequence[Item], along: Sequence[Any]) -> None:
        self.task: Task = issuer.task
        self._items, self._along = items, along
        self.index = 0
        self.begins: list[int] = []
        self.ended = False
        # The end of the regular iterations: those that are known, and cost as much as the issued ones.
        self._regular = len(along)
        self._forward: FastForward | None = None
        self._predicted: PredictedIterations | None = None

    def __iter__(self) -> Iterator[Item]:
        items, task = self._items, self.task
        count, add = len(items), self.begins.append
        while True:
            if self._forward is not None and self._predicted is not None:
                self.index += self._forward.skip(self._predicted, self.index)
                if self._forward.done:
                    self._forward = None
            index = self.index
            if index >= count:
                self.ended = True
                return
            add(task.operations)
            self.index = index + 1
            yield items[index]

    def iterations(self, operations: int) -> int:
        """Return the number of iterations that issued the last `operations` operations; 0 if not whole."""
        begins = np.array(self.begins[-_LONGEST - 1 :])
        return int(np.argmax(begins[-1] - begins[::-1] == operations)) if len(begins) else 0

    def end(self, operations: int) -> int:
        """Return the number of operations issued by the end of its regular iterations; 0 if unknown.

        operations: number of operations of a period.
        """
        iterations = self.iterations(operations)
        if not iterations or not self._regular:
            return 0
        return self.begins[-1] + (self._regular - self.index + 1) // iterations * operations

    def limit(self, predicted: PredictedIterations | None) -> bool:
        """Set the end of its regular iterations, as far as known; return whether it is earlier than assumed."""
        regular_before, task = self._regular, self.task.index
        self._regular = (
            predicted.regular_until(task, self.index) if predicted is not None and predicted.covers(task) else 0
        )
        return self._regular < regular_before - BEFORE

    @cached_property
    def values(self) -> Integers:
        """(iterations, integers) the integers that determine each iteration; no iterations if there are other items."""
        along = self._along
        if isinstance(along, range):
            return np.arange(along.start, along.stop, along.step)[:, np.newaxis]
        columns = _columns(along) if len(along) else []
        if not columns or any(column.dtype.kind != "i" or column.ndim != 1 for column in columns):
            return np.empty((0, 1), np.int64)
        return np.stack(columns, axis=1)

    def skip(self, forward: FastForward, predicted: PredictedIterations) -> None:
        """Skip iterations from the next one on."""
        self._forward, self._predicted = forward, predicted


def _columns(items: Sequence[Any]) -> list[Integers]:
    """Return the integers of items as columns, of tuples by element."""
    if isinstance(items[0], tuple):
        return [column for part in zip(*items, strict=False) for column in _columns(part)]
    return [np.array(items)]

"""The awaitable returned by the waiting methods of `Core`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from mlusim.errors import AwaitError
from mlusim.log import NONE

if TYPE_CHECKING:
    from mlusim.cores.tasks.task import Task


class _Suspend:
    """The object that a kernel's coroutine yields to let simulated time pass."""

    __slots__ = ()


SUSPEND: Final = _Suspend()
_ONCE: Final = (SUSPEND,)


class Waiting:
    """The awaitable returned by a waiting method of `Core`. It must be awaited at once.

    Args:
        task: the task that waits; its `unawaited` record is cleared by the `await`, or once the wait is over.
        suspends: whether the task has to suspend; false if the operation is already complete.

    Attributes:
        finish: called after the wait, if not None; its result is the result of the `await`.
    """

    __slots__ = ("_task", "_yields", "finish")

    def __init__(self, task: Task, *, suspends: bool, finish: Callable[[], Any] | None = None) -> None:
        self._task = task
        self._yields = _ONCE if suspends else ()
        self.finish = finish

    @property
    def suspends(self) -> bool:
        """Whether the task has to suspend for it."""
        return bool(self._yields)

    def __await__(self) -> Generator[Any, Any, Any]:
        task = self._task
        if task.unawaited < 0:
            raise AwaitError("awaited twice: await the result of a core method once, where it is called")
        if task.chip.running is not task:
            raise AwaitError(f"this awaits an operation of {task.name}: a kernel uses only its own core")
        if self._yields:
            # `Task.resume` clears `unawaited`: until then the kernel must not go on.
            task.awaited = task.unawaited
        else:
            task.unawaited = NONE
        if self.finish is None:
            # An iterator over a tuple costs a third of a generator.
            return iter(self._yields)  # type: ignore[return-value]  # an iterator is enough
        return _finishing(self._yields, self.finish)


def _finishing(yields: tuple[_Suspend, ...], finish: Callable[[], Any]) -> Generator[Any, Any, Any]:
    if yields:
        yield SUSPEND
    return finish()

"""Simulated time: SimPy's environment counting integer picoseconds, and reusable events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import simpy


class Clock(simpy.Environment):
    """SimPy's environment, its time an integer number of picoseconds."""

    @property
    def now(self) -> int:
        """Simulated time in picoseconds."""
        return self._now  # type: ignore[return-value]

    def after(self, delay_ps: int, call: Callable[[Any], None]) -> None:
        """Call `call` with the event after `delay_ps`."""
        timer = self.timeout(delay_ps)
        assert timer.callbacks is not None  # noqa: S101 - a fresh event has callbacks
        timer.callbacks.append(call)


class Alarm:
    """An event as `simpy.Environment.step` needs it: callbacks, which the step removes, and success.

    `Environment.timeout` makes an event object and a list for every ring. The links and pipes ring millions of times,
    so they hand one object to `Environment.schedule` each time: a third of the cost.
    """

    __slots__ = ("_ring",)

    _ok = True

    def __init__(self, ring: Callable[[Any], None]) -> None:
        self._ring = (ring,)

    @property
    def callbacks(self) -> tuple[Callable[[Any], None], ...]:
        """Whom to call."""
        return self._ring

    @callbacks.setter
    def callbacks(self, taken: None) -> None:
        # SimPy takes the callbacks of an event that has happened; this one may happen again.
        pass

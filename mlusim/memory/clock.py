"""Simulated time: SimPy's environment counting integer picoseconds, and reusable events."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
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
    """A reusable event: SimPy may schedule and process it any number of times.

    `Environment.timeout` makes an event object and a list for every ring. Links and pipes ring millions of times, so
    they hand one object to `Environment.schedule` each time, at a third of the cost.
    """

    __slots__ = ("_calls",)

    # What `Environment.step` requires of an event: success, and callbacks, which it reads and then sets to None. This
    # event keeps its callbacks. Both functions are written in C: a step takes no call in Python for them.
    _ok = True
    callbacks = property(attrgetter("_calls"), lambda _event, _none: None)

    def __init__(self, ring: Callable[[Any], None]) -> None:
        self._calls = (ring,)

"""Simulated time: a SimPy environment in integer picoseconds, and reusable events."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import simpy


class Clock(simpy.Environment):
    """A SimPy environment whose time is an integer number of picoseconds."""

    # `now` is another name of this slot, set below: reading the time makes no call.
    __slots__ = ("_now",)
    if TYPE_CHECKING:
        _now: int
        now: int

    def after(self, delay_ps: int, call: Callable[[Any], None]) -> None:
        """Call `call` with the event after `delay_ps`."""
        timer = self.timeout(delay_ps)
        assert timer.callbacks is not None
        timer.callbacks.append(call)


Clock.now = vars(Clock)["_now"]


class Alarm:
    """A reusable event: SimPy may schedule and process it any number of times.

    `Environment.timeout` creates an event object and a list for every timer. Links set millions of timers, so they pass
    the same object to `Environment.schedule` each time, at a third of the cost.

    Args:
        ring: called with the alarm. It sets `callbacks` to `calls` again, as SimPy sets them to None.
    """

    __slots__ = ("_ok", "callbacks", "calls")

    def __init__(self, ring: Callable[[Any], None]) -> None:
        self.calls = self.callbacks = (ring,)
        # SimPy requires it of an event: whether it succeeded.
        self._ok = True

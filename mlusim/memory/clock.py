"""Simulated time: a SimPy environment in integer picoseconds, and reusable events."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, is_
from typing import Any

import simpy


class Clock(simpy.Environment):
    """A SimPy environment whose time is an integer number of picoseconds."""

    # A C function, so that reading the time makes no call in Python.
    now: int = property(attrgetter("_now"), doc="Simulated time in picoseconds.")  # type: ignore[assignment]  # an attribute for its users

    def after(self, delay_ps: int, call: Callable[[Any], None]) -> None:
        """Call `call` with the event after `delay_ps`."""
        timer = self.timeout(delay_ps)
        assert timer.callbacks is not None
        timer.callbacks.append(call)


class Alarm:
    """A reusable event: SimPy may schedule and process it any number of times.

    `Environment.timeout` creates an event object and a list for every timer. Links and pipes set millions of timers, so
    they pass the same object to `Environment.schedule` each time, at a third of the cost.
    """

    __slots__ = ("_calls",)

    # `Environment.step` requires an event to have a success flag and callbacks, which it reads and then sets to None.
    # This event keeps its callbacks. Getter and setter are C functions, so a step makes no call in Python for them. The
    # setter has no effect.
    _ok = True
    callbacks = property(attrgetter("_calls"), is_)  # type: ignore[arg-type]  # it returns a bool, not None

    def __init__(self, ring: Callable[[Any], None]) -> None:
        self._calls = (ring,)

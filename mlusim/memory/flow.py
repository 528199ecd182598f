"""Transfers on a link, and their shares of a full one."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlusim.memory.contention import RateClock

READ, WRITE, READ_AND_WRITE = 1, 2, 3


class Flow:
    """One transfer on a link.

    Attributes:
        work: bytes of link time it needs.
        limit: work per picosecond that its own port allows.
        ratio: bytes of work per byte through the port, 1 or more.
        port: index of the shared (cluster) port that it passes.
        traffic: READ, WRITE or both.
        weight: its share of a full link, of those of all its transfers.
    """

    __slots__ = (
        "callbacks",
        "clock",
        "finish",
        "limit",
        "order",
        "port",
        "ratio",
        "since_ps",
        "traffic",
        "weight",
        "work",
    )

    # With `callbacks`, what SimPy needs of an event: a flow can be its own alarm.
    _ok = True

    def __init__(self, work: float, limit: float, ratio: float, port: int, traffic: int) -> None:
        self.work = work
        self.weight = 1.0
        self.limit = limit
        self.ratio = ratio
        self.port = port
        self.traffic = traffic
        self.clock: RateClock | None = None
        self.finish = 0.0
        self.since_ps = 0
        self.order = 0
        self.callbacks: Any = ()

    def done(self, now: int) -> None:
        """Called when it is complete, at time `now`."""
        raise NotImplementedError


# A prime: cores that join one after the other, round by round, do not meet the same weights again.
WEIGHTS = 1021
_GOLDEN = (5**0.5 - 1) / 2
_EXACT = 1 << 12  # weights are multiples of 1 / _EXACT, so that sums of them are exact


@cache
def weights(spread: float) -> tuple[float, ...]:
    """Weights of successive transfers of a full link, within `spread` around 1.

    Multiples of the golden ratio modulo 1: any few neighbours of the sequence are spread evenly, so that the time of a
    kernel does not depend on which transfers happened to get which.
    """
    parts = (2 * (n * _GOLDEN % 1) - 1 for n in range(WEIGHTS))
    return tuple(1 + round(spread * part * _EXACT) / _EXACT for part in parts)


def port_rate(flow: Flow) -> float:
    """Bytes per picosecond that it would take of its port."""
    return flow.limit / flow.ratio


def order_of(flow: Flow) -> int:
    """Its place among all that have joined."""
    return flow.order

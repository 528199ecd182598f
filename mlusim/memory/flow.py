"""A transfer in flight on a link, and its weight when the link is full."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mlusim.memory.link import RateClock

READ: Final = 1
WRITE: Final = 2
READ_AND_WRITE: Final = 3


class Port:
    """A port of a link, shared by the cores of a cluster.

    Attributes:
        rate: bytes per picosecond of all its flows together.
        flows: its flows in flight.
        joined: number of its flows in flight or still to join.
        demand: the rate that the flows in flight would have without contention.
        unsettled: whether its flows may have a wrong limit.
        full: whether it limits some of its flows below the flows' own limit (`LoadedLink`).
    """

    __slots__ = ("demand", "flows", "full", "joined", "rate", "unsettled")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.flows: list[Flow] = []
        self.joined = 0
        self.demand = 0.0
        self.unsettled = False
        self.full = False


class Flow:
    """One transfer on a link.

    Attributes:
        work: bytes of link time that the transfer needs.
        limit: work per picosecond that the transfer's own port allows.
        ratio: bytes of work per byte through the port, 1 or more.
        port: the shared port, one of `Link.ports`.
        port_rate: bytes per picosecond that the transfer alone moves through its port.
        traffic: READ, WRITE or READ_AND_WRITE.
        weight: share of a full link, relative to the other flows.
    """

    __slots__ = (
        "callbacks",
        "clock",
        "finish",
        "limit",
        "order",
        "port",
        "port_rate",
        "ratio",
        "since_ps",
        "traffic",
        "weight",
        "work",
    )

    # Together with `callbacks`, what SimPy requires of an event: a flow can be scheduled itself.
    _ok = True

    def __init__(self, work: float, limit: float, ratio: float, port: Port, traffic: int) -> None:
        self.work = work
        self.weight = 1.0
        self.limit = limit
        self.ratio = ratio
        self.port = port
        self.port_rate = limit / ratio
        self.traffic = traffic
        self.clock: RateClock | None = None
        self.finish = 0.0
        self.since_ps = 0
        self.order = 0
        self.callbacks: Any = ()

    def done(self, now: int) -> None:
        """Called once, at time `now`, when the transfer is complete."""
        raise NotImplementedError


# The number of weights is prime, so that cores which join round-robin do not meet the same weights in every round.
WEIGHTS: Final = 1021
_GOLDEN_RATIO = (5**0.5 - 1) / 2
_STEPS = 1 << 12  # weights are multiples of 1 / _STEPS, so that their sums are exact


@cache
def weights(spread: float) -> tuple[float, ...]:
    """Weights of successive transfers on a full link, within `spread` of 1.

    They are multiples of the golden ratio modulo 1. Any few neighbours of that sequence are evenly distributed, so the
    time of a kernel does not depend on which transfer gets which weight.
    """
    offsets = (2 * (n * _GOLDEN_RATIO % 1) - 1 for n in range(WEIGHTS))
    return tuple(1 + round(spread * offset * _STEPS) / _STEPS for offset in offsets)


def port_rate(flow: Flow) -> float:
    """Sort key: bytes per picosecond that the flow alone moves through its port."""
    return flow.port_rate


def order_of(flow: Flow) -> int:
    """Sort key: the order in which flows joined the link."""
    return flow.order

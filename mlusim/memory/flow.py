"""The parts of a link: its limits and ports, the transfers in flight, and their weights."""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple

from mlusim.units import ceil_ps

READ: Final = 1
WRITE: Final = 2
READ_AND_WRITE: Final = 3
INFINITE: Final = float("inf")
# The time of an event that does not happen.
NEVER: Final = -1


class LinkLimits(NamedTuple):
    """Capacity of a link.

    Attributes:
        rate: bytes of work per picosecond.
        port_rates: for each shared port, bytes per picosecond of all its flows together.
        mixed_factor: fraction of `rate` that remains while reads and writes are in flight together.
        mixing_ps: for this long after the last flow of one kind has ended, reads and writes still count as mixed.
        mixing_reach: but no longer than this multiple of the link time of the flows that have just ended: two bytes do
            not mix with megabytes.
        spread: largest difference of the weights of transfers from 1.
    """

    rate: float
    port_rates: list[float]
    mixed_factor: float = 1.0
    mixing_ps: int = 0
    mixing_reach: float = INFINITE
    spread: float = 0.0


class Port:
    """A port of a link, shared by the cores of a cluster.

    Attributes:
        rate: bytes per picosecond of all its flows together.
        flows: its flows in flight.
        demand: the rate that the flows in flight would have without contention.
        weight: the sum of their weights; exactly 0 without flows, as weights are multiples of a power of 2.
        outdated: whether its flows may have a wrong cap.
        is_limiting: whether it limits some of its flows below the flows' own limit.
    """

    __slots__ = ("demand", "flows", "is_limiting", "outdated", "rate", "weight")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.flows: list[Flow] = []
        self.demand = 0.0
        self.weight = 0.0
        self.outdated = False
        self.is_limiting = False


class LinkCost:
    """The demand of a transfer on a link; transfers with equal demands share one. Never assigned to.

    Attributes:
        work: bytes of link time that the transfer needs.
        limit: work per picosecond that the transfer's own port allows.
        work_per_byte: bytes of work per byte through the port, 1 or more.
        traffic: READ, WRITE or READ_AND_WRITE.
        port_rate: bytes per picosecond that the transfer alone moves through its port.
        least_ps: time that it takes at its limit.
    """

    __slots__ = ("least_ps", "limit", "port_rate", "traffic", "work", "work_per_byte")

    def __init__(self, work: float, limit: float, work_per_byte: float, traffic: int) -> None:
        self.work = work
        self.limit = limit
        self.work_per_byte = work_per_byte
        self.traffic = traffic
        self.port_rate = limit / work_per_byte
        self.least_ps = ceil_ps(work / limit)


class Flow:
    """One transfer on a link. A subclass sets `cost` and `port`, the link everything else.

    Attributes:
        cost: its demand.
        port: the shared port, one of `Link.ports`.
        order: its number among the flows that joined.
        weight: share of a full link or port, relative to the other flows.
        cap: work per picosecond that its own port and the shared port allow now.
        cap_level: the level of a full link at which it reaches its cap.
        sharing: whether it shares the link, at a rate below its cap.
        finish: when it is complete, on its virtual clock: of the flows that share the link, or of those at their caps.
            Without contention, the work that was left at `since_ps`.
        since_ps: without contention, the time at which `finish` was left.
        callbacks: of the flow as an event; see `DmaPipe.start`.
    """

    __slots__ = (
        "callbacks",
        "cap",
        "cap_level",
        "cost",
        "finish",
        "order",
        "port",
        "sharing",
        "since_ps",
        "weight",
    )
    cost: LinkCost
    port: Port
    order: int
    weight: float
    cap: float
    cap_level: float
    sharing: bool
    finish: float
    since_ps: int
    callbacks: Any

    # Together with `callbacks`, what SimPy requires of an event: a flow can be scheduled itself.
    _ok = True

    def complete(self, now: int) -> None:
        """Called once, at time `now`, when the transfer is complete."""
        raise NotImplementedError


# The number of weights is prime, so that cores which join round-robin do not meet the same weights in every round.
WEIGHT_COUNT: Final = 1021
_GOLDEN_RATIO = (5**0.5 - 1) / 2
_STEPS = 1 << 12  # weights are multiples of 1 / _STEPS, so that their sums are exact


@cache
def weights(largest_difference: float) -> tuple[float, ...]:
    """Weights of successive transfers, within `largest_difference` of 1.

    They are multiples of the golden ratio modulo 1. Any few neighbours of that sequence are evenly distributed, so the
    time of a kernel does not depend on which transfer gets which weight.
    """
    offsets = (2 * (n * _GOLDEN_RATIO % 1) - 1 for n in range(WEIGHT_COUNT))
    return tuple(1 + round(largest_difference * offset * _STEPS) / _STEPS for offset in offsets)


def order_of(flow: Flow) -> int:
    """Sort key: the order in which flows joined the link."""
    return flow.order

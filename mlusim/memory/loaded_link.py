"""Bandwidth shared by cores whose latency grows with the load.

A core has a bounded number of requests in flight, so its rate is that number of bytes over their latency. Where the
latency grows with the utilisation u of the link, L(u) = L0 (1 + g u / (1 - u)), as a queue's waiting time does, every
transfer goes at the same part of its unloaded rate, and the link carries less than its capacity long before the demand
reaches it. With g = 0 nobody waits until the link is full: that is `Link`, max-min fair.

hard_sigmoid on MLU290 asks for this: its rate per task falls from 4 to 32 to 64 tasks though the total stays below two
thirds of nominal, which no limit of core, cluster and chip together gives.
"""

from __future__ import annotations

from math import sqrt

from mlusim.memory.clock import Clock
from mlusim.memory.link import Flow, Link


def carried(offered: float, capacity: float, growth: float) -> float:
    """The rate that a link of `capacity` carries, when its transfers would have `offered` together unloaded.

    The utilisation u solves u (1 + growth u / (1 - u)) = offered / capacity.
    """
    if not growth:
        return offered if offered < capacity else capacity
    demand = offered / capacity
    linear = 1 + demand
    # The form of the quadratic's smaller root that loses no digits, and holds at growth = 1 too.
    return capacity * 2 * demand / (linear + sqrt(max(linear * linear + 4 * (growth - 1) * demand, 0.0)))


class LoadedLink(Link):
    """A `Link` on which every transfer slows down with the load. `growth` is g above; the rest as `Link` has it."""

    _can_be_free = False

    def __init__(
        self,
        environment: Clock,
        rate: float,
        port_rates: list[float],
        mixed_factor: float,
        mixing_ps: int,
        growth: float,
        mixing_reach: float = float("inf"),
        spread: float = 0.0,
    ) -> None:
        super().__init__(environment, rate, port_rates, mixed_factor, mixing_ps, mixing_reach, spread)
        self._growth = growth
        # Ports that hold some of their transfers below their own limit.
        self._full: set[int] = set()
        # The fastest that any transfer so far could pass its port.
        self._fastest = 0.0

    def join(self, flow: Flow, ready_ps: int, now: int) -> None:
        """Begin a transfer at `ready_ps`, now or later."""
        alone = flow.limit / flow.ratio
        if alone > self._fastest:
            self._fastest = alone
        Link.join(self, flow, ready_ps, now)

    def _alone(self, flow: Flow, rate: float) -> float:
        return carried(flow.limit * flow.weight, rate, self._growth) / flow.weight

    def _settle_ports(self) -> None:
        for port in self._unsettled:
            flows = self._port_flows[port]
            rate = self._port_rates[port]
            if len(flows) * self._fastest <= rate and port not in self._full:
                continue
            wanted = 0.0
            for flow in flows:
                wanted += flow.limit / flow.ratio
            if wanted > rate:
                self._full.add(port)
                self._settle(rate, flows)
            elif port in self._full:
                self._full.discard(port)
                self._settle(rate, flows)
        self._unsettled.clear()

    def _share(self, now: int) -> None:
        clocks = self._clocks
        self._settle_ports()
        offered = 0.0
        for limit, clock in clocks.items():
            offered += limit * clock.weight
        # As `carried`, inlined for performance.
        demand = offered / self._capacity(now)
        linear = 1 + demand
        part = 2 / (linear + sqrt(max(linear * linear + 4 * (self._growth - 1) * demand, 0.0)))
        for limit, clock in clocks.items():
            clock.rate = limit * part


def dram_link(
    environment: Clock,
    rate: float,
    port_rates: list[float],
    mixed_factor: float = 1.0,
    growth: float = 0.0,
    mixing_ps: int = 0,
    mixing_reach: float = float("inf"),
    spread: float = 0.0,
) -> Link:
    """The link for a board whose latency grows with the load, or does not."""
    if growth:
        return LoadedLink(environment, rate, port_rates, mixed_factor, mixing_ps, growth, mixing_reach, spread)
    return Link(environment, rate, port_rates, mixed_factor, mixing_ps, mixing_reach, spread)

"""Bandwidth shared by cores whose latency grows with the load.

A core has a bounded number of requests in flight, so its rate is that number of bytes over their latency. If latency
grows with the utilisation u of the link as a queue's waiting time does, L(u) = L0 (1 + g u / (1 - u)), every transfer
runs at the same fraction of its unloaded rate, and the link carries less than its capacity long before the demand
reaches it. With g = 0 no transfer waits until the link is full: that is `Link`, max-min fair.

hard_sigmoid on MLU290 shows this: its rate per task falls from 4 to 32 to 64 tasks though the total stays below two
thirds of nominal, which no combination of core, cluster and chip limits explains.
"""

from __future__ import annotations

from math import sqrt

from mlusim.memory.clock import Clock
from mlusim.memory.flow import Flow, LinkLimits
from mlusim.memory.link import Link
from mlusim.memory.quick_link import QuickLink


def carried(offered: float, capacity: float, growth: float) -> float:
    """Return the rate that a link of `capacity` carries when its transfers would run at `offered` in total, unloaded.

    The utilisation u solves u (1 + growth u / (1 - u)) = offered / capacity.
    """
    if not growth:
        return offered if offered < capacity else capacity
    demand = offered / capacity
    linear = 1 + demand
    # The numerically stable form of the quadratic's smaller root, also valid at growth = 1.
    return capacity * 2 * demand / (linear + sqrt(max(linear * linear + 4 * (growth - 1) * demand, 0.0)))


class LoadedLink(Link):
    """A `Link` on which every transfer slows down with the load, by `limits.latency_growth`, g above.

    Only its ports are shared by weight.
    """

    def __init__(self, environment: Clock, limits: LinkLimits) -> None:
        super().__init__(environment, limits)
        self._growth = limits.latency_growth

    def _alone(self, flow: Flow, rate: float) -> float:
        return carried(flow.cost.limit, rate, self._growth)

    def _share(self, now: int) -> None:
        """Set the pace, the part of their caps at which all flows run."""
        self._update_caps()
        # `carried`, inlined for performance.
        demand = self._capped_rate / self._capacity(now)
        linear = 1 + demand
        self._pace = 2 / (linear + sqrt(max(linear * linear + 4 * (self._growth - 1) * demand, 0.0)))


def dram_link(environment: Clock, limits: LinkLimits) -> Link:
    """Return the link that models a board's DRAM: `LoadedLink` if latency grows with the load, else `QuickLink`."""
    return LoadedLink(environment, limits) if limits.latency_growth else QuickLink(environment, limits)

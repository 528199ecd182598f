"""The rates of the transfers on a link, and what each has left.

**Two virtual clocks.** Rates change only when a flow joins or leaves. A flow has a cap, the rate that its own port and
its share of the cluster's port allow. Either it runs at its cap, or the link is full and it runs at its weight times
the link's level, which is lower. The flows that run at their caps have one virtual clock, which shows the time; those
that share the link have another, which shows the level added up over time. A flow is complete when its clock reaches
the flow's `finish`. When the level changes, only flows change clocks that reach their cap or fall below it. On a full
link that is none, and joining or leaving touches no other flow: that keeps thousands of copies by 64 cores cheap.

**Weights.** Arbitration on a board is not exactly fair, and that matters: under exactly fair sharing equal cores stay
in lockstep forever, and a kernel of blocking loads and stores leaves the link idle whenever all cores compute. So each
flow has a weight within `spread` of 1, and full links and ports are shared by weight. The weights are a fixed
sequence, so runs are reproducible. What a full link or port carries in total does not depend on them, nor does a flow
that nothing slows down.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from mlusim.memory.flow import INFINITE, Flow, Port
from mlusim.units import TICK_TOLERANCE

_TWO_TICKS: Final = 2 * TICK_TOLERANCE
# A flow on one of the two virtual clocks, (finish, order, flow), or with its cap level instead of its finish.
Entry = tuple[float, int, Flow]


class Shares:
    """The flows in flight on a link and its ports, by what limits them.

    Args:
        port_rates: for each shared port, bytes per picosecond of all its flows together.
    """

    def __init__(self, port_rates: list[float]) -> None:
        self.ports = [Port(rate) for rate in port_rates]
        # The number of flows in flight.
        self._flows = 0
        # The flows that run at their caps, by (finish, order, flow), their number, and the sum of their caps.
        self._capped: list[Entry] = []
        self._capped_flows = 0
        self._capped_rate = 0.0
        self._elapsed = 0.0
        # The flows that share the link, and the sum of their weights. Their clock runs at `_level`.
        self._sharing: list[Entry] = []
        self._weight = 0.0
        self._level = 0.0
        self._served = 0.0
        # No flow that shares the link reaches its cap below this level.
        self._lowest_cap_level = INFINITE
        # Whether a flow has changed clocks, or its cap: heaps may then contain it twice.
        self._has_outdated_entries = False
        # Both kinds of flows by cap level, the highest first of those at their caps and the lowest first of the others.
        # They are kept only while flows of both kinds have been in flight lately.
        self._has_cap_order = False
        self._from_top: list[Entry] = []
        self._from_bottom: list[Entry] = []
        # Ports whose flows' caps must be recomputed. That can wait while all flows share the link at a level below
        # `_lowest_cap_level`.
        self._outdated: list[Port] = []

    def _outdate(self, port: Port) -> None:
        port.outdated = True
        self._outdated.append(port)

    def _begin_capped(self, flow: Flow, work: float) -> None:
        """Let a flow with `work` left run at its cap."""
        flow.sharing = False
        flow.cap_level = flow.cap / flow.weight
        self._capped_flows += 1
        self._capped_rate += flow.cap
        flow.finish = self._elapsed + work / flow.cap
        heappush(self._capped, (flow.finish, flow.order, flow))
        if self._has_cap_order:
            heappush(self._from_top, (-flow.cap_level, flow.order, flow))

    def _begin_sharing(self, flow: Flow, work: float) -> None:
        """Let a flow with `work` left share the link."""
        weight = flow.weight
        flow.sharing = True
        flow.cap_level = cap_level = flow.cap / weight
        self._weight += weight
        flow.finish = self._served + work / weight
        heappush(self._sharing, (flow.finish, flow.order, flow))
        if self._has_cap_order:
            heappush(self._from_bottom, (flow.cap_level, flow.order, flow))
        port = flow.port
        if port.demand > port.rate and port.rate / port.weight < cap_level:
            cap_level = port.rate / port.weight
        if cap_level < self._lowest_cap_level:
            self._lowest_cap_level = cap_level

    def _stop(self, flow: Flow) -> float:
        """Take a flow off its clock; return its work left."""
        if flow.sharing:
            self._weight -= flow.weight
            return (flow.finish - self._served) * flow.weight
        self._capped_flows -= 1
        # Reset, so that rounding errors do not accumulate.
        self._capped_rate = self._capped_rate - flow.cap if self._capped_flows else 0.0
        return (flow.finish - self._elapsed) * flow.cap

    def _balance(self, capacity: float) -> None:
        """Move flows between the clocks: a flow shares the link if its cap exceeds the share that it would get.

        Each move raises the level, so one pass each way is enough.
        """
        if not self._has_cap_order:
            self._order_by_cap_level()
        level = (capacity - self._capped_rate) / self._weight if self._weight else -1.0
        heap = self._from_top
        while heap:
            cap_level, order, flow = heap[0]
            if not (flow.sharing or flow.cap_level != -cap_level or flow.order != order or flow.finish == INFINITE):
                if flow.cap_level <= level:
                    break
                self._begin_sharing(flow, self._stop(flow))
                self._has_outdated_entries = True
                level = (capacity - self._capped_rate) / self._weight
            heappop(heap)
        if level > self._lowest_cap_level:
            level = self._cap_flows(level, capacity)
        self._level = level

    def _cap_flows(self, level: float, capacity: float) -> float:
        """Move the flows whose cap levels are below the level to the other clock; return the new level."""
        heap = self._from_bottom
        self._lowest_cap_level = INFINITE
        while heap:
            cap_level, order, flow = heap[0]
            if flow.sharing and flow.cap_level == cap_level and flow.order == order and flow.finish != INFINITE:
                if cap_level >= level:
                    self._lowest_cap_level = cap_level
                    break
                self._begin_capped(flow, self._stop(flow))
                self._has_outdated_entries = True
                level = (capacity - self._capped_rate) / self._weight if self._weight else 0.0
            heappop(heap)
        return level

    def _order_by_cap_level(self) -> None:
        self._has_cap_order = True
        self._from_top = [
            (-flow.cap_level, flow.order, flow) for port in self.ports for flow in port.flows if not flow.sharing
        ]
        self._from_bottom = [
            (flow.cap_level, flow.order, flow) for port in self.ports for flow in port.flows if flow.sharing
        ]
        heapify(self._from_top)
        heapify(self._from_bottom)

    def _forget_order(self) -> None:
        self._has_cap_order = False
        self._from_top.clear()
        self._from_bottom.clear()

    def _update_caps(self) -> None:
        """Give each flow of a port that may have a wrong cap its cap."""
        for port in self._outdated:
            port.outdated = False
            is_limiting = port.demand > port.rate
            if is_limiting or port.is_limiting:
                port.is_limiting = is_limiting
                self._update_caps_of(port)
        self._outdated.clear()

    def _update_caps_of(self, port: Port) -> None:
        """Share a port, max-min fair by weight in bytes."""
        rate_left, weight = port.rate, port.weight
        flows = port.flows
        while flows:
            share = rate_left / weight
            limited = [flow for flow in flows if flow.cost.port_rate > share * flow.weight]
            if len(limited) == len(flows):
                break
            for flow in flows:
                if flow.cost.port_rate <= share * flow.weight:
                    rate_left -= flow.cost.port_rate
                    weight -= flow.weight
                    self._set_cap(flow, flow.cost.limit)
            flows = limited
        for flow in flows:
            self._set_cap(flow, rate_left / weight * flow.weight * flow.cost.work_per_byte)

    def _set_cap(self, flow: Flow, cap: float) -> None:
        if flow.cap == cap:
            return
        work = self._stop(flow)
        flow.cap = cap
        self._has_outdated_entries = True
        if flow.sharing:
            self._begin_sharing(flow, work)
        else:
            self._begin_capped(flow, work)

    def _first_end(self) -> float:
        """Return the time until the first flow in flight ends; remove flows that have moved from the tops of heaps."""
        capped, sharing = self._capped, self._sharing
        if self._has_outdated_entries:
            # Else a long flow that changes clocks again and again would fill the heaps.
            max_entries = 2 * self._flows + 8
            _clean(capped, sharing=False, max_entries=max_entries)
            _clean(sharing, sharing=True, max_entries=max_entries)
            if len(self._from_top) + len(self._from_bottom) > 2 * max_entries:
                self._forget_order()
            self._has_outdated_entries = len(capped) + len(sharing) > self._flows
        soonest = capped[0][0] - self._elapsed if capped else INFINITE
        if sharing:
            due = (sharing[0][0] - self._served) / self._level
            if due < soonest:
                return due
        return soonest

    def _pop_due(self) -> list[Flow]:
        """Take the flows that are complete off their heaps."""
        # Flows due within the tolerance are due now, or the timer would ring at this time for ever.
        completed = self._pop(self._capped, self._elapsed + _TWO_TICKS, sharing=False)
        if self._sharing:
            completed += self._pop(self._sharing, self._served + self._level * _TWO_TICKS, sharing=True)
        return completed

    def _pop(self, heap: list[Entry], horizon: float, *, sharing: bool) -> list[Flow]:
        completed: list[Flow] = []
        has_outdated = self._has_outdated_entries
        while heap and heap[0][0] <= horizon:
            entry = heappop(heap)
            if not has_outdated or _is_current(entry, sharing=sharing):
                flow = entry[2]
                completed.append(flow)
                self._stop(flow)
                # A flow that left this clock and came back is in its heap twice.
                flow.finish = INFINITE
        return completed


def _is_current(entry: Entry, *, sharing: bool) -> bool:
    """Return whether a flow is still on the clock of this entry of its heap, with the same cap."""
    finish, order, flow = entry
    return flow.sharing is sharing and flow.finish == finish and flow.order == order


def _clean(heap: list[Entry], *, sharing: bool, max_entries: int) -> None:
    """Remove the outdated entries at the top of a heap, or all of them if it has more than `max_entries` entries."""
    if len(heap) > max_entries:
        heap[:] = [entry for entry in heap if _is_current(entry, sharing=sharing)]
        heapify(heap)
    while heap and not _is_current(heap[0], sharing=sharing):
        heappop(heap)

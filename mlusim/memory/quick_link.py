"""A link that needs one event per transfer while transfers do not contend.

Most transfers join a link with bandwidth to spare. As long as the flows in flight together demand no more than the
link and its ports can carry, each runs at its own limit, and its end is known when it joins. `QuickLink` schedules that
end and does nothing else. When a flow joins that exceeds a capacity, all flows move to the virtual clocks of `Link`;
they move back once the demand has fallen to half of the link. Both methods give the same times:
`tests/memory/test_link.py` compares them, and every transition between them.
"""

from __future__ import annotations

from typing import Final

from mlusim.memory.clock import Alarm, Clock
from mlusim.memory.flow import READ, WRITE, Flow, LinkLimits, order_of
from mlusim.memory.link import Link
from mlusim.units import ceil_ps

# Contention ends at this fraction of the link's capacity rather than at all of it, and not before as many flows have
# ended as have to be moved, to avoid frequent switching.
_UNCONTENDED_DEMAND: Final = 0.5


class QuickLink(Link):
    """A `Link` with a shortcut for uncontended transfers. Arguments and times are those of `Link`."""

    def __init__(self, environment: Clock, limits: LinkLimits) -> None:
        super().__init__(environment, limits)
        # Whether the virtual clocks are in use.
        self._contended = False
        # Without contention, the flows that end at each time.
        self._ends: dict[int, list[Flow]] = {}
        self._end_alarm = Alarm(self._ring_end)
        # The number of flows that have ended since contention began.
        self._ended_flows = 0

    def join(self, flow: Flow, ready_ps: int, now: int) -> None:
        """Begin a transfer at `ready_ps`, now or later."""
        if self._contended:
            super().join(flow, ready_ps, now)
        else:
            self._expect(flow, ready_ps)
            self._schedule_end(flow, flow.cost.work, ready_ps, ready_ps + flow.cost.least_ps, now)

    def _schedule_end(self, flow: Flow, work: float, since_ps: int, end_ps: int, now: int) -> None:
        """Schedule the end of a flow that runs at its own limit, with `work` remaining at `since_ps`."""
        flow.finish = work
        flow.since_ps = since_ps
        flows = self._ends.get(end_ps)
        if flows is not None:
            flows.append(flow)
            return
        self._ends[end_ps] = [flow]
        self._schedule(self._end_alarm, 1, end_ps - now)

    def _ring_end(self, alarm: Alarm) -> None:
        """Complete the flows that end now, unless a flow that has joined meanwhile exceeds a capacity."""
        alarm.callbacks = alarm.calls
        now = self._environment.now
        # None if contention has begun since the event was scheduled.
        completed = self._ends.pop(now, None)
        if completed is None:
            return
        arrivals = self._arrivals
        while arrivals and arrivals[0][0] <= now:
            joined_ps, _, flow = arrivals[0]
            cost, port = flow.cost, flow.port
            demand = self._demand + cost.limit
            port_demand = port.demand + cost.port_rate
            if demand > self._mixed_rate or port_demand > port.rate:
                self._begin_contention(joined_ps)
                self._ring_now(now)
                return
            del arrivals[0]
            self._demand = demand
            port.demand = port_demand
            port.weight += flow.weight
            port.flows.append(flow)
            self._flows += 1
        if len(completed) > 1:
            completed.sort(key=order_of)
        for flow in completed:
            self._leave(flow, now)
        for flow in completed:
            flow.complete(now)

    def _begin_contention(self, now: int) -> None:
        """Move all flows in flight to the virtual clocks."""
        self._contended = True
        self._ended_flows = 0
        self._ends.clear()
        self._updated_ps = now
        for port in self.ports:
            for flow in port.flows:
                flow.cap = flow.cost.limit
                self._begin_capped(flow, flow.finish - flow.cost.limit * (now - flow.since_ps))
                self._readers += flow.cost.traffic != WRITE
                self._writers += flow.cost.traffic != READ
            if port.flows:
                self._outdate(port)

    def _end_contention(self, now: int) -> bool:
        self._ended_flows += 1
        if (
            self._ended_flows < self._flows + len(self._arrivals)
            or self._demand > self._mixed_rate * _UNCONTENDED_DEMAND
        ):
            return False
        # Compiled code takes ten times as long for a generator.
        for port in self.ports:
            if port.demand > port.rate:
                return False
        self._contended = False
        for port in self.ports:
            port.outdated = port.is_limiting = False
            for flow in port.flows:
                work = self._stop(flow)
                # Rounding may leave less than nothing.
                end_ps = max(now + ceil_ps(work / flow.cost.limit), now)
                self._schedule_end(flow, work, now, end_ps, now)
        for ready_ps, _, flow in self._arrivals:
            self._schedule_end(flow, flow.cost.work, ready_ps, ready_ps + flow.cost.least_ps, now)
        self._capped.clear()
        self._sharing.clear()
        self._outdated.clear()
        self._has_outdated_entries = False
        self._readers = self._writers = 0
        self._reset_clocks()
        return True

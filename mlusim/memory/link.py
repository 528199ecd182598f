"""Bandwidth shared by the transfers in flight: processor sharing, max-min fair by weight.

A link is a chip's DRAM or a cluster's SRAM. The rate of a transfer (`Flow`) never exceeds that of its own port, its
share of its cluster's port, or its share of the link. Who gets what is in `mlusim.memory.shares`, when it changes is
here. `tests/memory/test_link.py` and `test_weighted_link.py` compare both with a plain fluid simulation.

Work is counted in bytes of DRAM time: a transfer that uses the DRAM at efficiency e has 1/e bytes of work per byte.

The way of a transfer: `join` adds it to the arrivals. When its time has come, `_admit` counts it in flight and `_share`
sets the rates. `_arm` sets the timer for the next completion, at which `_ring_now` takes the complete transfers off the
link, calls their `done`, and shares the link again.

The start-up time of a transfer is known in advance, so joining needs no event: flows that have joined since the last
completion are admitted at the next one, each at its own time, and the timer for that completion looks ahead to the
flows that will join before it.
"""

from __future__ import annotations

from bisect import insort
from math import ceil
from typing import Any

from mlusim.memory.clock import Alarm, Clock
from mlusim.memory.flow import INFINITE, NEVER, READ, WEIGHT_COUNT, WRITE, Flow, LinkCost, LinkLimits, order_of, weights
from mlusim.memory.shares import Shares
from mlusim.units import ceil_ps


class Link(Shares):
    """A shared link, driven by the events of a simulated clock.

    Args:
        environment: simulated time.
        limits: capacity.
    """

    def __init__(self, environment: Clock, limits: LinkLimits) -> None:
        rate = limits.rate
        super().__init__(limits.port_rates)
        self._environment = environment
        self._alarm = Alarm(self._ring)
        self._schedule: Any = environment.schedule
        self._armed_ps = -1
        self._completing = False
        # Capacity.
        self._rate = rate
        self._mixed_rate = rate * limits.mixed_factor
        self._weights = weights(limits.spread)
        # The number of the next flow, and of the first one of this launch.
        self._order = 0
        self._first_order = 0
        # Mixing of reads and writes: until when ended flows of each kind count as in flight, and when mixing ends
        # because one kind has ended.
        self._mixing_ps = limits.mixing_ps if limits.mixed_factor < 1 else 0
        self._reach_ps = limits.mixing_reach / rate  # per byte of work that has ended
        self._reads_until = -1
        self._writes_until = -1
        self._mixed_until = NEVER
        # The numbers of flows in flight that read and that write.
        self._readers = 0
        self._writers = 0
        # Flows still to join: (time, order, flow), sorted.
        self._arrivals: list[tuple[int, int, Flow]] = []
        # The rate that the flows in flight would have without contention.
        self._demand = 0.0
        self._updated_ps = 0

    def restart(self) -> None:
        """Reset at the start of a launch, so that it takes the same time as on a new device."""
        self._first_order = self._order
        self._reads_until = self._writes_until = -1

    def join(self, flow: Flow, ready_ps: int, now: int) -> None:
        """Begin a transfer at `ready_ps`, now or later."""
        self._expect(flow, ready_ps)
        if not (self._completing or now <= self._armed_ps <= ready_ps):
            # The flow matters before the timer rings. When flows join while others complete, the link is shared once,
            # after all of them.
            self._admit(now)
            self._serve(now)
            self._arm(now)

    def _expect(self, flow: Flow, ready_ps: int) -> None:
        """Add a flow to the arrivals; give it its number and weight."""
        order = flow.order = self._order
        self._order = order + 1
        flow.weight = self._weights[(order - self._first_order) % WEIGHT_COUNT]
        insort(self._arrivals, (ready_ps, order, flow))

    def _leave(self, flow: Flow, now: int) -> None:
        """Take a completed flow off the link and its port."""
        cost, port = flow.cost, flow.port
        flows = port.flows
        flows.remove(flow)
        port.weight -= flow.weight
        self._flows -= 1
        # Reset empty sums to exactly 0, so that rounding errors do not accumulate.
        self._demand = self._demand - cost.limit if self._flows else 0.0
        port.demand = port.demand - cost.port_rate if flows else 0.0
        if cost.traffic != WRITE:
            self._reads_until = self._mixes_until(cost, self._reads_until, now)
        if cost.traffic != READ:
            self._writes_until = self._mixes_until(cost, self._writes_until, now)

    def _mixes_until(self, cost: LinkCost, until_ps: int, now: int) -> int:
        """Return the time until which ended flows of one kind mix with flows of the other."""
        latest_ps = now + self._mixing_ps
        reach_ps = cost.work * self._reach_ps + (until_ps if until_ps > now else now)
        return latest_ps if reach_ps > latest_ps else ceil(reach_ps)

    def _serve(self, now: int) -> None:
        """Advance the virtual clocks to `now`."""
        mixed_until = self._mixed_until
        if NEVER < mixed_until < now:
            # If contention is detected late, it began before reads and writes stopped mixing.
            self._serve(mixed_until)
            self._share(mixed_until)
        elapsed = now - self._updated_ps
        self._updated_ps = now
        self._elapsed += elapsed
        self._served += self._level * elapsed

    def _admit(self, now: int) -> None:
        """Admit the flows that have joined by `now`, each at its own time; advance the clocks to the last of these."""
        arrivals = self._arrivals
        while arrivals and arrivals[0][0] <= now:
            joined_ps, _, flow = arrivals.pop(0)
            self._serve(joined_ps)
            self._enter(flow)
            # Until the link is shared again, on one clock or the other.
            if self._weight:
                self._begin_sharing(flow, flow.cost.work)
            else:
                self._begin_capped(flow, flow.cost.work)
            self._share(joined_ps)

    def _enter(self, flow: Flow) -> None:
        """Count a flow in flight."""
        cost, port = flow.cost, flow.port
        self._flows += 1
        self._demand += cost.limit
        if cost.traffic != WRITE:
            self._readers += 1
        if cost.traffic != READ:
            self._writers += 1
        port.flows.append(flow)
        port.demand += cost.port_rate
        port.weight += flow.weight
        flow.cap = cost.limit
        if not port.outdated:
            self._outdate(port)

    def _share(self, now: int) -> None:
        """Set the level, and which flows share the link."""
        capacity = self._capacity(now)
        if not self._capped_flows:
            if self._has_cap_order and len(self._from_bottom) > 4 * self._flows:
                self._forget_order()
            level = capacity / self._weight
            if level <= self._lowest_cap_level:
                self._level = level
                return
        self._update_caps()
        if self._weight or self._capped_rate > capacity:
            self._balance(capacity)

    def _capacity(self, now: int) -> float:
        """Return the current capacity in work per picosecond; set the time when mixing ends by itself."""
        self._mixed_until = NEVER
        if self._readers:
            if self._writers:
                return self._mixed_rate
            if now < self._writes_until:
                self._mixed_until = self._writes_until
                return self._mixed_rate
        elif now < self._reads_until:
            self._mixed_until = self._reads_until
            return self._mixed_rate
        return self._rate

    def _arm(self, now: int) -> None:
        """Set the timer for the next completion; it may ring too early, never too late."""
        if not self._flows:
            if self._arrivals:
                self._ring_after(self._arrivals[0][0] - now, now)
            return
        soonest = self._first_end()
        arrivals = self._arrivals
        if arrivals and arrivals[0][0] - now < soonest:
            soonest = self._look_ahead(soonest, now)
        if self._mixed_until != NEVER and self._mixed_until - now < soonest:
            # Rates rise when mixing ends. Compiled code takes no int where the variable is a float.
            soonest = float(self._mixed_until - now)
        self._ring_after(soonest, now)

    def _ring_after(self, delay: float, now: int) -> None:
        due_ps = now + ceil_ps(delay)
        # A timer that rings too early is set again, so only one that would ring too late has to be replaced.
        if self._armed_ps < now or due_ps < self._armed_ps:
            if due_ps < now:
                due_ps = now
            self._armed_ps = due_ps
            self._schedule(self._alarm, 1, due_ps - now)

    def _look_ahead(self, soonest: float, now: int) -> float:
        """Time from `now` to the next completion, given the flows that join before it; a lower bound.

        If all flows share the link, the bound is exact. Otherwise it assumes that joining flows slow down no other.
        """
        level = 0.0 if self._capped_flows else self._level
        weight = self._weight
        added = 0.0
        for ready_ps, _, flow in self._arrivals:
            until_ready = ready_ps - now
            if until_ready >= soonest:
                break
            if not level:
                # At best the flow has the link to itself.
                until_end = until_ready + flow.cost.work / min(flow.cost.limit, self._rate)
                if until_end < soonest:
                    soonest = until_end
                continue
            added += flow.weight
            slower = level * weight / (weight + flow.weight)
            weight += flow.weight
            port = flow.port
            if slower * flow.weight > flow.cost.limit or slower * (port.weight + added) > port.rate:
                # The port limits this flow and leaves more to the others: share again when it joins.
                return until_ready
            work = flow.cost.work / flow.weight
            work_served = (soonest - until_ready) * level
            if work < work_served:
                work_served = work
            level = slower
            soonest = until_ready + work_served / level
        return soonest

    def _ring(self, alarm: Alarm) -> None:
        alarm.callbacks = alarm.calls
        now = self._environment.now
        # The event of a timer that has been replaced is ignored.
        if now == self._armed_ps:
            self._ring_now(now)

    def _ring_now(self, now: int) -> None:
        """Complete the flows that are due, share the link again and set the timer."""
        self._armed_ps = -1
        if self._arrivals and self._arrivals[0][0] <= now:
            self._admit(now)
        self._serve(now)
        completed = self._pop_due()
        if completed:
            self._complete(completed, now)
            if self._arrivals and self._arrivals[0][0] <= now:
                self._admit(now)
            elif self._end_contention(now):
                return
            elif self._flows:
                self._share(now)
            else:
                self._reset_clocks()
        elif NEVER < self._mixed_until <= now:
            self._share(now)
        self._arm(now)

    def _reset_clocks(self) -> None:
        """Reset the clocks once the last flow has left."""
        self._mixed_until = NEVER
        self._level = self._served = self._elapsed = 0.0
        self._lowest_cap_level = INFINITE
        self._forget_order()

    def _complete(self, completed: list[Flow], now: int) -> None:
        """Remove flows from the link, and call their `completed`."""
        if len(completed) > 1:
            completed.sort(key=order_of)
        for flow in completed:
            if not flow.port.outdated:
                self._outdate(flow.port)
            if flow.cost.traffic != WRITE:
                self._readers -= 1
            if flow.cost.traffic != READ:
                self._writers -= 1
            self._leave(flow, now)
        # Completed transfers often begin the next one: the link is shared once, after all of them.
        self._completing = True
        for flow in completed:
            flow.complete(now)
        self._completing = False

    def _end_contention(self, now: int) -> bool:  # noqa: ARG002 - a hook for `QuickLink`
        """Stop using the virtual clocks if a subclass does not need them; return whether they were stopped."""
        return False

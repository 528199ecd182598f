"""Bandwidth shared by the transfers in flight: processor sharing, max-min fair.

A link is a chip's DRAM or a cluster's SRAM. The rate of a transfer (`Flow`) never exceeds that of its own port, its
fair share of its cluster's port, or its fair share of the link. `tests/memory/test_link.py` compares this with a plain
fluid simulation.

Work is counted in bytes of DRAM time: a transfer that uses the DRAM at efficiency e has 1/e bytes of work per byte.

**Virtual clocks.** Rates change only when a flow joins or leaves. All flows with the same limit run at the same rate,
so they share one virtual clock, and a flow is complete when its clock has advanced by the flow's work. Joining and
leaving touch the flows of one cluster and a handful of clocks, never all flows: that keeps thousands of copies by 64
cores cheap. The start-up time of a transfer is known in advance, so joining needs no event: flows that have joined
since the last completion are admitted at the next one, each at its own time, and the timer for that completion looks
ahead to the flows that will join before it.

**Weights.** Arbitration on a board is not exactly fair, and that matters: under exactly fair sharing equal cores stay
in lockstep forever, and a kernel of blocking loads and stores leaves the link idle whenever all cores compute. So a
flow that joins a link or a port that cannot serve all of its flows at full speed gets a weight within `spread` of 1,
and link and port are shared by weight. The weights are a fixed sequence, so runs are reproducible. The total rate of a
full link is that of fair sharing, and a single flow is exact. Not modelled: a flow keeps its weight when the link is
no longer full, and may then exceed its port by that weight.
"""

from __future__ import annotations

from bisect import insort
from heapq import heappop, heappush
from math import ceil
from typing import Any, Final

from mlusim.memory.clock import Alarm, Clock
from mlusim.memory.flow import (
    INFINITE,
    NEVER,
    READ,
    WEIGHTS,
    WRITE,
    Flow,
    LinkLimits,
    Port,
    RateClock,
    order_of,
    port_rate,
    weights,
)
from mlusim.units import TICK_TOLERANCE, ceil_ps

_TWO_TICKS: Final = 2 * TICK_TOLERANCE
# Below this part of a link's capacity, its flows' limits certainly leave some of it.
_NEARLY_FULL = 1 - 1e-9


class Link:
    """A shared link, driven by the events of a simulated clock.

    Args:
        environment: simulated time.
        limits: capacity; `latency_growth` is used by `LoadedLink` only.
    """

    def __init__(self, environment: Clock, limits: LinkLimits) -> None:
        rate = limits.rate
        self._environment = environment
        self._alarm = Alarm(self._ring)
        self._schedule: Any = environment.schedule
        self._armed_ps = -1
        self._completing = False
        # Whether the virtual clocks are in use: always, except in a `QuickLink`.
        self._contended = True
        # Capacity.
        self._rate = rate
        self._mixed_rate = rate * limits.mixed_factor
        self.ports = [Port(rate) for rate in limits.port_rates]
        self._weights = weights(limits.spread)
        self._weighted = 0
        # Mixing of reads and writes: until when ended flows of each kind count as in flight, and when mixing ends
        # because one kind has ended.
        self._mixing_ps = limits.mixing_ps if limits.mixed_factor < 1 else 0
        self._reach_ps = limits.mixing_reach / rate  # per byte of work that has ended
        self._reads_until = -1
        self._writes_until = -1
        self._mixed_until = NEVER
        # Flows in flight, and those still to join: (time, order, flow), sorted.
        self._order = 0
        self._flows = 0
        self._weight = 0.0
        self._readers = 0
        self._writers = 0
        self._arrivals: list[tuple[int, int, Flow]] = []
        # The rate that the flows in flight would have without contention.
        self._demand = 0.0
        # Virtual clocks, and the same by limit. Compiled code iterates over a list in an eighth of the time of a dict.
        self._clocks: list[RateClock] = []
        self._clock_by_limit: dict[float, RateClock] = {}
        self._least_limit = INFINITE
        self._common_rate = 0.0  # of all clocks, if they share one because the link is full; else 0
        self._served = 0.0
        self._updated_ps = 0
        # Whether a flow has moved to another clock: heaps may then contain it twice.
        self._moved = False
        # Ports whose flows may have a wrong limit. That does not matter while the link is so full that no flow reaches
        # `_port_floor`, the least rate that any of these ports gives a flow.
        self._unsettled: list[Port] = []
        self._port_floor = INFINITE

    def restart(self) -> None:
        """Reset at the start of a launch, so that it takes the same time as on a new device."""
        self._weighted = 0
        self._reads_until = self._writes_until = -1

    def join(self, flow: Flow, ready_ps: int, now: int) -> None:
        """Begin a transfer at `ready_ps`, now or later."""
        self._order = flow.order = self._order + 1
        arrivals = self._arrivals
        others = self._flows + len(arrivals)
        port = flow.port
        sharers = port.joined = port.joined + 1
        if others and (
            (others + 1) * flow.limit > self._rate or (sharers > 1 and sharers * flow.limit > port.rate * flow.ratio)
        ):
            flow.weight = self._weights[self._weighted % WEIGHTS]
            self._weighted += 1
        else:
            flow.weight = 1.0
        insort(arrivals, (ready_ps, self._order, flow))
        if not self._contended:
            self._schedule_end(flow, flow.work / flow.weight, ready_ps, now)
        elif not (self._completing or now <= self._armed_ps <= ready_ps):
            # The flow matters before the timer rings. When flows join while others complete, the link is shared once,
            # after all of them.
            self._admit(now)
            self._serve(now)
            self._arm(now)

    def _schedule_end(self, flow: Flow, work: float, since_ps: int, now: int) -> None:
        """Schedule the end of a flow without contention; a hook for `QuickLink`."""
        raise NotImplementedError

    def _leave(self, flow: Flow, now: int) -> None:
        """Take a completed flow off the link and its port."""
        port = flow.port
        flows = port.flows
        flows.remove(flow)
        port.joined -= 1
        self._flows -= 1
        # Reset empty sums to exactly 0, so that rounding errors do not accumulate.
        self._demand = self._demand - flow.limit * flow.weight if self._flows else 0.0
        port.demand = port.demand - flow.port_rate if flows else 0.0
        if flow.traffic != WRITE:
            self._reads_until = self._mixes_until(flow, self._reads_until, now)
        if flow.traffic != READ:
            self._writes_until = self._mixes_until(flow, self._writes_until, now)

    def _mixes_until(self, flow: Flow, until_ps: int, now: int) -> int:
        """Return the time until which ended flows of one kind mix with flows of the other."""
        latest_ps = now + self._mixing_ps
        reach_ps = flow.work * self._reach_ps + (until_ps if until_ps > now else now)
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
        if self._common_rate:
            self._served += self._common_rate * elapsed
        elif elapsed:
            for clock in self._clocks:
                clock.ahead += clock.rate * elapsed

    def _admit(self, now: int) -> None:
        """Admit the flows that have joined by `now`, each at its own time; advance the clocks to the last of these."""
        arrivals = self._arrivals
        while arrivals and arrivals[0][0] <= now:
            joined_ps, order, flow = arrivals.pop(0)
            self._serve(joined_ps)
            limit, weight, port = flow.limit, flow.weight, flow.port
            clock = flow.clock = self._clock_of(limit)
            clock.weight += weight
            flow.finish = finish = self._served + clock.ahead + flow.work / weight
            heappush(clock.heap, (finish, order, flow))
            self._flows += 1
            self._weight += weight
            if flow.traffic != WRITE:
                self._readers += 1
            if flow.traffic != READ:
                self._writers += 1
            flows = port.flows
            flows.append(flow)
            self._demand += limit * weight
            port.demand += flow.port_rate
            if not port.unsettled:
                self._unsettle(port)
            floor = port.rate / len(flows)
            if floor < self._port_floor:
                self._port_floor = floor
            self._share(joined_ps)

    def _unsettle(self, port: Port) -> None:
        port.unsettled = True
        self._unsettled.append(port)

    def _clock_of(self, limit: float) -> RateClock:
        """Return the clock of a limit, created at its first flow."""
        clock = self._clock_by_limit.get(limit)
        if clock is None:
            clock = self._clock_by_limit[limit] = RateClock(limit)
            self._clocks.append(clock)
            if limit < self._least_limit:
                self._least_limit = limit
        return clock

    def _drop_clock(self, clock: RateClock) -> None:
        del self._clock_by_limit[clock.limit]
        self._clocks.remove(clock)
        if clock.limit == self._least_limit:
            self._least_limit = min(self._clock_by_limit, default=INFINITE)

    def _share(self, now: int) -> None:
        """Set the rate of every clock."""
        capacity = self._capacity(now)
        rate = capacity / self._weight
        if rate <= self._port_floor and rate <= self._least_limit:
            self._common_rate = rate
            return
        self._common_rate = 0.0
        self._settle_ports()
        demand = 0.0
        for clock in self._clocks:
            clock.rate = clock.limit
            demand += clock.limit * clock.weight
        # Optimised: where ports leave some of the link idle, `_level` would find that it limits no clock. The margin is
        # beyond the rounding of `demand`.
        if demand > capacity * _NEARLY_FULL:
            level = self._level(capacity)
            for clock in self._clocks:
                clock.rate = min(clock.limit, level)

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

    def _settle_ports(self) -> None:
        """Give each flow of a port that may have a wrong limit its limit."""
        for port in self._unsettled:
            port.unsettled = False
            if port.flows:
                self._settle(port.rate, port.flows)
        self._unsettled.clear()
        self._port_floor = INFINITE

    def _level(self, left: float) -> float:
        """Return the common rate of the flows that no port limits, given the capacity that is left."""
        weight_left = self._weight
        for limit in sorted(self._clock_by_limit):
            if limit * weight_left >= left:
                return left / weight_left
            clock_weight = self._clock_by_limit[limit].weight
            left -= limit * clock_weight
            weight_left -= clock_weight
        return INFINITE

    def _settle(self, left: float, flows: list[Flow]) -> None:
        """Share a port, max-min fair in bytes, and move each of its flows to the clock of its new limit."""
        waiting = len(flows)
        for flow in flows:
            # Most flows of a port are equal, and then they are in order.
            if flow.port_rate != flows[0].port_rate:
                flows = sorted(flows, key=port_rate)
                break
        for flow in flows:
            rate = min(flow.port_rate, left / waiting)
            left -= rate
            waiting -= 1
            limit = min(rate * flow.ratio, flow.limit)
            clock = flow.clock
            assert clock is not None
            if clock.limit != limit:
                self._moved = True
                remaining = flow.finish - clock.ahead
                clock.weight -= flow.weight
                if not clock.weight:
                    self._drop_clock(clock)
                clock = flow.clock = self._clock_of(limit)
                clock.weight += flow.weight
                flow.finish = clock.ahead + remaining
                heappush(clock.heap, (flow.finish, flow.order, flow))

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

    def _first_end(self) -> float:
        """Return the time until the first flow in flight ends; remove flows that have moved from the tops of heaps."""
        moved, served, rate = self._moved, self._served, self._common_rate
        soonest = INFINITE
        entries = 0
        for clock in self._clocks:
            heap = clock.heap
            finish, order, flow = heap[0]
            if moved:
                while flow.clock is not clock or flow.order != order or flow.finish != finish:
                    heappop(heap)
                    finish, order, flow = heap[0]
                entries += len(heap)
            due = finish - clock.ahead - served
            if not rate:
                due /= clock.rate
            if due < soonest:
                soonest = due
        self._moved = entries > self._flows
        return soonest / rate if rate else soonest

    def _look_ahead(self, soonest: float, now: int) -> float:
        """Time from `now` to the next completion, given the flows that join before it; a lower bound.

        On a full link the bound is exact. Otherwise it assumes that joining flows slow down no other.
        """
        rate = self._common_rate
        weight = self._weight
        added = 0
        for ready_ps, _, flow in self._arrivals:
            ahead = ready_ps - now
            if ahead >= soonest:
                break
            work = flow.work / flow.weight
            if not rate:
                # At best the flow has the link to itself.
                alone = ahead + work / self._alone(flow, self._rate)
                if alone < soonest:
                    soonest = alone
                continue
            added += 1
            slower = rate * weight / (weight + flow.weight)
            weight += flow.weight
            port = flow.port
            if slower > flow.limit or slower * (len(port.flows) + added) > port.rate:
                # The port limits this flow and leaves more to the others: share anew when it joins.
                return ahead
            left = (soonest - ahead) * rate
            if work < left:
                left = work
            rate = slower
            soonest = ahead + left / rate
        return soonest

    def _alone(self, flow: Flow, rate: float) -> float:
        """Work per picosecond and weight of a flow that has a link of `rate` to itself."""
        share = rate / flow.weight
        return flow.limit if flow.limit < share else share

    def _ring(self, _: object) -> None:
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
        done = self._pop_due()
        if done:
            self._complete(done, now)
            if self._arrivals and self._arrivals[0][0] <= now:
                self._admit(now)
            elif self._end_contention(now):
                return
            elif self._flows:
                self._share(now)
            else:
                self._common_rate = 0.0
                self._mixed_until = NEVER
        elif NEVER < self._mixed_until <= now:
            self._share(now)
        self._arm(now)

    def _pop_due(self) -> list[Flow]:
        """Take the flows that are complete off their heaps."""
        done: list[Flow] = []
        rate, served, moved = self._common_rate, self._served, self._moved
        for clock in self._clocks:
            heap = clock.heap
            # Flows due within the tolerance are due now, or the timer would ring at this time for ever.
            horizon = served + clock.ahead + (rate or clock.rate) * _TWO_TICKS
            while heap and heap[0][0] <= horizon:
                finish, order, flow = heappop(heap)
                if not moved or (flow.clock is clock and flow.order == order and flow.finish == finish):
                    done.append(flow)
                    # A flow that left this clock and came back is in its heap twice.
                    flow.finish = INFINITE
        return done

    def _complete(self, done: list[Flow], now: int) -> None:
        """Remove flows from the link, and call their `done`."""
        if len(done) > 1:
            done.sort(key=order_of)
        for flow in done:
            clock, weight = flow.clock, flow.weight
            assert clock is not None
            clock.weight -= weight
            self._weight -= weight
            if not clock.weight:
                self._drop_clock(clock)
            if not flow.port.unsettled:
                self._unsettle(flow.port)
            if flow.traffic != WRITE:
                self._readers -= 1
            if flow.traffic != READ:
                self._writers -= 1
            self._leave(flow, now)
        # Completed transfers often begin the next one: the link is shared once, after all of them.
        self._completing = True
        for flow in done:
            flow.done(now)
        self._completing = False

    def _end_contention(self, now: int) -> bool:  # noqa: ARG002 - a hook for `QuickLink`
        """Stop using the virtual clocks if a subclass does not need them; return whether they were stopped."""
        return False

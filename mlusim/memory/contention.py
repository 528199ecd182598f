"""Transfers that hinder each other: a rate for each of them, worked out anew when one joins or leaves.

Rates change only then, so there is one virtual clock per distinct limit: all transfers of it run at one rate, and one
is done when its clock has advanced by its work. Joining and leaving touch the transfers of one cluster and the handful
of clocks, never all transfers: that is what keeps thousands of copies by 64 cores cheap.

When a transfer will have started up is known when it begins to. So joining is no event of the simulation: those who
have joined since the last completion are counted in at the next one, each at its own time, and the timer of that one
looks ahead at those who are still to join before it.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import ceil
from typing import Any

from mlusim.memory.clock import Alarm, Clock
from mlusim.memory.flow import Flow, order_of, port_rate
from mlusim.units import TICK_TOLERANCE

_INFINITE = float("inf")
_TWO_TICKS = 2 * TICK_TOLERANCE


class RateClock:
    """The virtual clock of all transfers with one limit: bytes of work that each of them has had, over its weight."""

    __slots__ = ("flows", "heap", "limit", "rate", "served", "weight")

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.rate = 0.0
        self.served = 0.0
        self.flows = 0
        self.weight = 0.0
        self.heap: list[tuple[float, int, Flow]] = []


class Contention:
    """The transfers of a link, while they hinder each other. Arguments as `Link` has them."""

    def __init__(
        self,
        environment: Clock,
        rate: float,
        port_rates: list[float],
        mixed_factor: float = 1.0,
        mixing_ps: int = 0,
        mixing_reach: float = _INFINITE,
    ) -> None:
        # Picoseconds that a byte of work which has ended counts as in flight.
        self._reach_ps = mixing_reach / rate
        self._environment = environment
        self._alarm = Alarm(self._ring)
        self._schedule: Any = environment.schedule
        self._rate = rate
        self._mixed_rate = rate * mixed_factor
        self._mixing_ps = mixing_ps if mixed_factor < 1 else 0
        # When mixing is over by itself, because one kind has ended; else never.
        self._mixed_until = _INFINITE
        self._reads_until = -1
        self._writes_until = -1
        self._port_rates = port_rates
        self._port_flows: list[list[Flow]] = [[] for _ in port_rates]
        # How many transfers of each port are in flight or still to join.
        self._port_joined = [0] * len(port_rates)
        self._clocks: dict[float, RateClock] = {}
        self._least_limit = _INFINITE
        # Whether any transfer has changed its clock: heaps may then hold it twice.
        self._moved = False
        # The rate of all clocks where it is one, because the link is full; else 0.
        self._common_rate = 0.0
        self._flows = 0
        self._weight = 0.0
        self._readers = 0
        self._writers = 0
        self._updated_ps = 0
        self._armed_ps = -1
        self._telling = False
        # Whether nobody hinders anybody, and all of this stands still.
        self._free = False
        # What those in flight would have of the link and of each port if nobody hindered them.
        self._demand = 0.0
        self._port_demand = [0.0] * len(port_rates)
        # Ports whose transfers may stand at a wrong limit. That does not matter while the whole link is so full that
        # no transfer reaches `_port_floor`, the least that any of these ports gives one.
        self._unsettled: set[int] = set()
        # Who is still to join, by time.
        self._arrivals: list[tuple[int, int, Flow]] = []
        self._port_floor = _INFINITE

    def _leave(self, flow: Flow, now: int) -> None:
        """Let a transfer leave the link and its port."""
        port = flow.port
        flows = self._port_flows[port]
        flows.remove(flow)
        self._port_joined[port] -= 1
        self._flows -= 1
        # Sums of floats are off by their rounding; those of nothing are not.
        self._demand = self._demand - flow.limit * flow.weight if self._flows else 0.0
        self._port_demand[port] = self._port_demand[port] - flow.limit / flow.ratio if flows else 0.0
        traffic = flow.traffic
        if traffic & 1:
            self._reads_until = self._counts_until(flow, self._reads_until, now)
        if traffic >> 1:
            self._writes_until = self._counts_until(flow, self._writes_until, now)

    def _serve(self, now: int) -> None:
        """Move the clocks on."""
        over_ps = self._mixed_until
        if over_ps < now:
            # Contention that is found late began before reads and writes ceased to mix.
            self._serve(int(over_ps))
            self._share(int(over_ps))
        elapsed = now - self._updated_ps
        if not elapsed:
            return
        self._updated_ps = now
        rate = self._common_rate
        if rate:
            served = rate * elapsed
            for clock in self._clocks.values():
                clock.served += served
        else:
            for clock in self._clocks.values():
                clock.served += clock.rate * elapsed

    def _admit(self, now: int) -> None:
        """Let everybody join whose time has come, each at its own time. The clocks stand at the last of these."""
        arrivals = self._arrivals
        clocks = self._clocks
        while arrivals and arrivals[0][0] <= now:
            joined_ps, order, flow = arrivals.pop(0)
            self._serve(joined_ps)
            # The clock of its limit, inlined for performance.
            limit = flow.limit
            if limit not in clocks:
                self._add_clock(limit)
            clock = flow.clock = clocks[limit]
            weight = flow.weight
            clock.flows += 1
            clock.weight += weight
            flow.finish = finish = clock.served + flow.work / weight
            heappush(clock.heap, (finish, order, flow))
            self._flows += 1
            self._weight += weight
            traffic = flow.traffic
            self._readers += traffic & 1
            self._writers += traffic >> 1
            port = flow.port
            flows = self._port_flows[port]
            flows.append(flow)
            self._demand += limit * weight
            self._port_demand[port] += limit / flow.ratio
            self._unsettled.add(port)
            floor = self._port_rates[port] / len(flows)
            if floor < self._port_floor:
                self._port_floor = floor
            self._share(joined_ps)

    def _add_clock(self, limit: float) -> None:
        self._clocks[limit] = RateClock(limit)
        if limit < self._least_limit:
            self._least_limit = limit

    def _drop_clock(self, clock: RateClock) -> None:
        del self._clocks[clock.limit]
        if clock.limit == self._least_limit:
            self._least_limit = min(self._clocks, default=_INFINITE)

    def _share(self, now: int) -> None:
        """Set the rate of every clock."""
        # As `_capacity` has it, inlined for performance: most often both kinds are in flight.
        if self._readers and self._writers:
            left = self._mixed_rate
            self._mixed_until = _INFINITE
        else:
            left = self._capacity(now)
        rate = left / self._weight
        if rate <= self._port_floor and rate <= self._least_limit:
            self._common_rate = rate
            return
        self._common_rate = 0.0
        level = self._level(left)
        for limit, clock in self._clocks.items():
            clock.rate = limit if limit < level else level

    def _arm(self, now: int) -> None:
        """Set the timer for the next completion; it may ring too early, never too late."""
        if not self._flows:
            if self._arrivals:
                self._ring_after(self._arrivals[0][0] - now, now)
            return
        if self._moved:
            self._drop_moved()
        soonest = _INFINITE
        rate = self._common_rate
        for clock in self._clocks.values():
            due = (clock.heap[0][0] - clock.served) / (rate or clock.rate)
            if due < soonest:
                soonest = due
        arrivals = self._arrivals
        if arrivals and arrivals[0][0] - now < soonest:
            soonest = self._look_ahead(soonest, now)
        if self._mixed_until - now < soonest:
            # Everybody is faster from then on.
            soonest = self._mixed_until - now
        self._ring_after(soonest, now)

    def _ring_after(self, soonest: float, now: int) -> None:
        # As units.ceil_ps, inlined for performance.
        due_ps = now + ceil(soonest - TICK_TOLERANCE)
        # A timer that rings too early is set again; only one that would ring too late must be replaced.
        if self._armed_ps < now or due_ps < self._armed_ps:
            if due_ps < now:
                due_ps = now
            self._armed_ps = due_ps
            self._schedule(self._alarm, 1, due_ps - now)

    def _drop_moved(self) -> None:
        """Take from the tops of the heaps who has another clock by now."""
        for clock in self._clocks.values():
            heap = clock.heap
            finish, order, flow = heap[0]
            while flow.clock is not clock or flow.order != order or flow.finish != finish:
                heappop(heap)
                finish, order, flow = heap[0]

    def _look_ahead(self, soonest: float, now: int) -> float:
        """When the next transfer is done, from now, given those who join before it. It may say too early.

        While the link is full that is worked out; else, at best, nobody slows down for who joins.
        """
        rate = self._common_rate
        weights = self._weight
        added = 0
        for ready_ps, _, flow in self._arrivals:
            ahead = ready_ps - now
            if ahead >= soonest:
                break
            work = flow.work / flow.weight
            if not rate:
                # It has the link for itself at best.
                alone = ahead + work / self._alone(flow, self._rate)
                if alone < soonest:
                    soonest = alone
                continue
            added += 1
            slower = rate * weights / (weights + flow.weight)
            weights += flow.weight
            port = flow.port
            if slower > flow.limit or slower * (len(self._port_flows[port]) + added) > self._port_rates[port]:
                # What its port withholds from it is left to the others.
                return ahead
            left = (soonest - ahead) * rate
            if work < left:
                left = work
            rate = slower
            soonest = ahead + left / rate
        return soonest

    def _alone(self, flow: Flow, rate: float) -> float:
        """Work per picosecond and weight of a transfer that has a link of `rate` for itself."""
        share = rate / flow.weight
        return flow.limit if flow.limit < share else share

    def _capacity(self, now: int) -> float:
        """Work per picosecond that the link does now."""
        self._mixed_until = _INFINITE
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

    def _level(self, left: float) -> float:
        """The rate at which the transfers that no port limits share what the others leave."""
        for port in self._unsettled:
            flows = self._port_flows[port]
            if flows:
                self._settle(self._port_rates[port], flows)
        self._unsettled.clear()
        self._port_floor = _INFINITE
        weight_left = self._weight
        for limit in sorted(self._clocks):
            if limit * weight_left >= left:
                return left / weight_left
            clocked = self._clocks[limit].weight
            left -= limit * clocked
            weight_left -= clocked
        return _INFINITE

    def _settle(self, left: float, flows: list[Flow]) -> None:
        """Share a port, max-min fair in bytes, and give each of its transfers the clock of its limit."""
        waiting = len(flows)
        if waiting > 1:
            flows = sorted(flows, key=port_rate)
        for flow in flows:
            rate = min(flow.limit / flow.ratio, left / waiting)
            left -= rate
            waiting -= 1
            limit = min(rate * flow.ratio, flow.limit)
            clock = flow.clock
            assert clock is not None  # noqa: S101 - for the type checker
            if clock.limit != limit:
                self._moved = True
                remaining = flow.finish - clock.served
                clock.flows -= 1
                clock.weight -= flow.weight
                if not clock.flows:
                    self._drop_clock(clock)
                if limit not in self._clocks:
                    self._add_clock(limit)
                clock = flow.clock = self._clocks[limit]
                clock.flows += 1
                clock.weight += flow.weight
                flow.finish = clock.served + remaining
                heappush(clock.heap, (flow.finish, flow.order, flow))

    def _ring(self, _: object) -> None:
        now = self._environment.now
        if now == self._armed_ps and not self._free:
            self._ring_now(now)

    def _ring_now(self, now: int) -> None:
        self._armed_ps = -1
        self._admit(now)
        self._serve(now)
        done: list[Flow] = []
        rate = self._common_rate
        for clock in self._clocks.values():
            heap = clock.heap
            # What would be due within the tolerance of a tick is due now, or the timer would ring here for ever.
            horizon = clock.served + (rate or clock.rate) * _TWO_TICKS
            while heap and heap[0][0] <= horizon:
                finish, order, flow = heappop(heap)
                if flow.clock is clock and flow.order == order and flow.finish == finish:
                    done.append(flow)
                    # One that left this clock and came back stands in its heap twice.
                    flow.finish = _INFINITE
        if done:
            self._complete(done, now)
        elif now >= self._mixed_until:
            self._share(now)
        if not self._free:
            self._arm(now)

    def _counts_until(self, flow: Flow, until_ps: int, now: int) -> int:
        """Until when what has ended counts as in flight, for the mixing of reads and writes."""
        latest_ps = now + self._mixing_ps
        counts_ps = flow.work * self._reach_ps + (until_ps if until_ps > now else now)
        return latest_ps if counts_ps > latest_ps else ceil(counts_ps)

    def _complete(self, done: list[Flow], now: int) -> None:
        """Let transfers leave, and tell whom it concerns."""
        if len(done) > 1:
            done.sort(key=order_of)
        for flow in done:
            left = flow.clock
            flow.clock = None
            assert left is not None  # noqa: S101 - for the type checker
            left.flows -= 1
            left.weight -= flow.weight
            self._weight -= flow.weight
            if not left.flows:
                self._drop_clock(left)
            self._unsettled.add(flow.port)
            self._readers -= flow.traffic & 1
            self._writers -= flow.traffic >> 1
            self._leave(flow, now)
        # Those who are told of the end often begin the next transfer: share once, after all of them.
        self._telling = True
        for flow in done:
            flow.done(now)
        self._telling = False
        if self._arrivals and self._arrivals[0][0] <= now:
            self._admit(now)
        elif self._ends(now):
            return
        elif self._flows:
            self._share(now)
        else:
            self._common_rate = 0.0
            self._mixed_until = _INFINITE

    def _ends(self, now: int) -> bool:
        """Whether the contention ends now: then this has been done."""
        raise NotImplementedError

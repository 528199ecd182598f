"""Bandwidth shared by the transfers in flight: processor sharing, max-min fair.

A link is a chip's DRAM or a cluster's SRAM. A transfer (`Flow`) never goes faster than its own port, nor than its
fair share of its cluster's port, nor than its fair share of the link. Rates change only when a transfer joins or
leaves, so the link keeps one virtual clock per distinct limit ("class"): all transfers of a class run at one rate,
and a transfer is done when its class's clock has advanced by its work. Joining and leaving touch the transfers of one
cluster and the handful of classes, never all transfers: that is what keeps thousands of copies by 64 cores cheap.

When a transfer will have started up is known when it begins to. So joining is no event of the simulation: those who
have joined since the last completion are counted in at the next one, each at its own time, and the timer of that one
looks ahead at those who are still to join before it.

Work is counted in bytes of DRAM time: a transfer that uses the DRAM at efficiency e has 1/e bytes of work a byte.

Arbitration on a board is not exactly fair, and that matters: under exact sharing, equal cores stay in step for ever,
and a kernel of blocking loads and stores leaves the link idle whenever all of them compute. So a transfer that joins a
link or a port where its like cannot all go at full speed has a weight, up to `spread` more or less than 1, and link
and port are shared by weight. The weights are a fixed sequence: runs repeat. The link carries what it carries under
fair sharing; a transfer alone is exact. Not modelled: the weight stays with a transfer that the link, once less full,
no longer holds back, and then goes past its port by as much.
"""

from __future__ import annotations

from bisect import insort
from functools import cache
from heapq import heappop, heappush
from math import ceil
from typing import Any

from mlusim.memory.clock import Alarm, Clock
from mlusim.units import TICK_TOLERANCE

_INFINITE = float("inf")
_TWO_TICKS = 2 * TICK_TOLERANCE

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

    __slots__ = ("callbacks", "clock", "finish", "limit", "order", "port", "ratio", "traffic", "weight", "work")

    # With `callbacks`, what SimPy needs of an event: a flow can be its own alarm.
    _ok = True

    def __init__(self, work: float, limit: float, ratio: float, port: int, traffic: int) -> None:
        self.work = work
        self.weight = 1.0
        self.limit = limit
        self.ratio = ratio
        self.port = port
        self.traffic = traffic
        self.clock: _Clock | None = None
        self.finish = 0.0
        self.order = 0
        self.callbacks: Any = ()

    def done(self, now: int) -> None:
        """Called when it is complete, at time `now`."""
        raise NotImplementedError


class _Clock:
    """The virtual clock of all transfers with one limit: bytes of work that each of them has had, over its weight."""

    __slots__ = ("flows", "heap", "limit", "rate", "served", "weight")

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.rate = 0.0
        self.served = 0.0
        self.flows = 0
        self.weight = 0.0
        self.heap: list[tuple[float, int, Flow]] = []


class Link:
    """A shared link on a clock.

    Args:
        environment: simulated time.
        rate: bytes of work per picosecond.
        port_rates: for each shared port, bytes per picosecond that its transfers have together.
        mixed_factor: what is left of `rate` while reads and writes are in flight together.
        mixing_ps: reads and writes count as together, too, for this long after the last of one kind has ended.
        mixing_reach: but no longer than this many times the link's time for the work of those that have ended lately:
            two bytes do not mix with megabytes.
        spread: by how much, as a part of 1, shares of a full link differ from fair ones.
    """

    def __init__(
        self,
        environment: Clock,
        rate: float,
        port_rates: list[float],
        mixed_factor: float = 1.0,
        mixing_ps: int = 0,
        mixing_reach: float = _INFINITE,
        spread: float = 0.0,
    ) -> None:
        self._weights = weights(spread)
        self._weighted = 0
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
        self._clocks: dict[float, _Clock] = {}
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
        # When the timer rings for the end of the one transfer that then has had the link for itself; else -1.
        self._alone_ps = -1
        self._telling = False
        self._order = 0
        # Ports whose transfers may stand at a wrong limit. That does not matter while the whole link is so full that
        # no transfer reaches `_port_floor`, the least that any of these ports gives one.
        self._unsettled: set[int] = set()
        # Who is still to join, by time.
        self._arrivals: list[tuple[int, int, Flow]] = []
        self._port_floor = _INFINITE

    def restart(self) -> None:
        """A launch begins: it takes the time that it takes on a new device."""
        self._weighted = 0
        self._reads_until = self._writes_until = -1

    def join(self, flow: Flow, ready_ps: int, now: int) -> None:
        """Begin a transfer at `ready_ps`, now or later."""
        self._order = flow.order = self._order + 1
        arrivals = self._arrivals
        others = self._flows + len(arrivals)
        port = flow.port
        sharers = self._port_joined[port] = self._port_joined[port] + 1
        if others and (
            (others + 1) * flow.limit > self._rate
            or (sharers > 1 and sharers * flow.limit > self._port_rates[port] * flow.ratio)
        ):
            flow.weight = self._weights[self._weighted % _WEIGHTS]
            self._weighted += 1
        else:
            flow.weight = 1.0
        insort(arrivals, (ready_ps, flow.order, flow))
        # The timer stands where it rings first; and those who are told of an end share once, after all of them.
        if not (self._telling or now <= self._armed_ps <= ready_ps):
            self._admit(now)
            self._serve(now)
            self._arm(now)

    def _serve(self, now: int) -> None:
        """Move the clocks on."""
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
            # As `_set_clock`, inlined for performance.
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
            self._unsettled.add(port)
            floor = self._port_rates[port] / len(flows)
            if floor < self._port_floor:
                self._port_floor = floor
            self._share(joined_ps)

    def _add_clock(self, limit: float) -> None:
        self._clocks[limit] = _Clock(limit)
        if limit < self._least_limit:
            self._least_limit = limit

    def _drop_clock(self, clock: _Clock) -> None:
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
        self._alone_ps = -1
        if not self._flows:
            if self._arrivals:
                self._ring_after(self._first_ahead(now), now)
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
        if self._alone_ps >= 0:
            self._alone_ps = due_ps

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

    def _first_ahead(self, now: int) -> float:
        """The same on an empty link: when the first to join is done alone, or things change before.

        In the first case it leaves `_alone_ps` other than -1: the transfer needs no clock.
        """
        ready_ps, _, flow = self._arrivals[0]
        other_until = self._writes_until if flow.traffic & READ else self._reads_until
        if ready_ps < other_until or flow.traffic == READ_AND_WRITE:
            rate, until_ps = self._mixed_rate, float(other_until)
        else:
            rate, until_ps = self._rate, _INFINITE
        soonest = ready_ps - now + flow.work / flow.weight / self._alone(flow, rate)
        if len(self._arrivals) > 1 and self._arrivals[1][0] < until_ps:
            until_ps = self._arrivals[1][0]
        changes = (until_ps if until_ps > ready_ps else ready_ps) - now
        if soonest > changes:
            return changes
        if flow.limit <= self._port_rates[flow.port] * flow.ratio:
            self._alone_ps = ready_ps
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
            flows = sorted(flows, key=_port_rate)
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
        if now != self._armed_ps:
            return
        self._armed_ps = -1
        if now == self._alone_ps:
            self._complete_alone(now)
            self._arm(now)
            return
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
        self._arm(now)

    def _complete_alone(self, now: int) -> None:
        """Let the first to join leave: it came to an empty link, nobody has joined since, and it is done.

        It has needed no clock and no port. `_admit`, `_share` and `_complete` would come to the same end.
        """
        flow = self._arrivals.pop(0)[2]
        self._port_joined[flow.port] -= 1
        if flow.traffic & 1:
            self._reads_until = self._counts_until(flow, self._reads_until, now)
        if flow.traffic >> 1:
            self._writes_until = self._counts_until(flow, self._writes_until, now)
        self._updated_ps = now
        self._telling = True
        flow.done(now)
        self._telling = False
        self._admit(now)

    def _counts_until(self, flow: Flow, until_ps: int, now: int) -> int:
        """Until when what has ended counts as in flight, for the mixing of reads and writes."""
        latest_ps = now + self._mixing_ps
        counts_ps = flow.work * self._reach_ps + (until_ps if until_ps > now else now)
        return latest_ps if counts_ps > latest_ps else ceil(counts_ps)

    def _complete(self, done: list[Flow], now: int) -> None:
        """Let transfers leave, and tell whom it concerns."""
        if len(done) > 1:
            done.sort(key=_order)
        for flow in done:
            left = flow.clock
            flow.clock = None
            assert left is not None  # noqa: S101 - for the type checker
            left.flows -= 1
            left.weight -= flow.weight
            self._weight -= flow.weight
            if not left.flows:
                self._drop_clock(left)
            port = flow.port
            self._port_flows[port].remove(flow)
            self._port_joined[port] -= 1
            self._unsettled.add(port)
            traffic = flow.traffic
            if traffic & 1:
                self._readers -= 1
                self._reads_until = self._counts_until(flow, self._reads_until, now)
            if traffic >> 1:
                self._writers -= 1
                self._writes_until = self._counts_until(flow, self._writes_until, now)
        self._flows -= len(done)
        # Those who are told of the end often begin the next transfer: share once, after all of them.
        self._telling = True
        for flow in done:
            flow.done(now)
        self._telling = False
        if self._arrivals and self._arrivals[0][0] <= now:
            self._admit(now)
        elif self._flows:
            self._share(now)
        else:
            self._common_rate = 0.0
            self._mixed_until = _INFINITE


# A prime: cores that join one after the other, round by round, do not meet the same weights again.
_WEIGHTS = 1021
_GOLDEN = (5**0.5 - 1) / 2
_EXACT = 1 << 12  # weights are multiples of 1 / _EXACT, so that sums of them are exact


@cache
def weights(spread: float) -> tuple[float, ...]:
    """Weights of successive transfers of a full link, within `spread` around 1.

    Multiples of the golden ratio modulo 1: any few neighbours of the sequence are spread evenly, so that the time of a
    kernel does not depend on which transfers happened to get which.
    """
    parts = (2 * (n * _GOLDEN % 1) - 1 for n in range(_WEIGHTS))
    return tuple(1 + round(spread * part * _EXACT) / _EXACT for part in parts)


def _port_rate(flow: Flow) -> float:
    return flow.limit / flow.ratio


def _order(flow: Flow) -> int:
    return flow.order

"""Bandwidth shared by the transfers in flight: processor sharing, max-min fair.

A link is a chip's DRAM or a cluster's SRAM. A transfer (`Flow`) never goes faster than its own port, nor than its
fair share of its cluster's port, nor than its fair share of the link. While the transfers in flight want no more than
link and ports have, each goes at its own limit, and its end is known when it begins: one event of the simulation for
each. Who joins beyond that begins a contention (`mlusim.memory.contention`), which lasts until the link is half empty.
`tests/memory/test_link.py` compares both, and every change from one to the other, with a plain fluid simulation.

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
from heapq import heappush
from math import ceil
from operator import le

from mlusim.memory.clock import Alarm, Clock
from mlusim.memory.contention import Contention
from mlusim.memory.flow import READ, READ_AND_WRITE, WEIGHTS, WRITE, Flow, order_of, weights
from mlusim.units import TICK_TOLERANCE

__all__ = ["READ", "READ_AND_WRITE", "WRITE", "Flow", "Link", "weights"]

_INFINITE = float("inf")


class Link(Contention):
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

    # Whether transfers go at their own limits while they want no more than the link and its ports have.
    _can_be_free = True

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
        super().__init__(environment, rate, port_rates, mixed_factor, mixing_ps, mixing_reach)
        self._weights = weights(spread)
        self._weighted = 0
        self._order = 0
        # While nobody hinders anybody: who is done when.
        self._free = self._can_be_free
        self._due: dict[int, list[Flow]] = {}
        self._due_alarm = Alarm(self._ring_free)

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
            flow.weight = self._weights[self._weighted % WEIGHTS]
            self._weighted += 1
        else:
            flow.weight = 1.0
        insort(arrivals, (ready_ps, flow.order, flow))
        if self._free:
            self._expect(flow, flow.work / flow.weight, ready_ps, now)
            return
        # The timer stands where it rings first; and those who are told of an end share once, after all of them.
        if not (self._telling or now <= self._armed_ps <= ready_ps):
            self._admit(now)
            self._serve(now)
            self._arm(now)

    def _expect(self, flow: Flow, work: float, since_ps: int, now: int) -> None:
        """Have the end of a transfer known: `work`, over its weight, is left at `since_ps`, and nobody hinders it."""
        flow.finish = work
        flow.since_ps = since_ps
        # As units.ceil_ps, inlined for performance.
        due_ps = since_ps + ceil(work / flow.limit - TICK_TOLERANCE)
        if due_ps < now:
            due_ps = now
        together = self._due.get(due_ps)
        if together is not None:
            together.append(flow)
            return
        self._due[due_ps] = [flow]
        self._schedule(self._due_alarm, 1, due_ps - now)

    def _ring_free(self, _: object) -> None:
        """Transfers that nobody has hindered are done, unless somebody has joined since who does."""
        now = self._environment.now
        done = self._due.pop(now, None)
        if done is None:
            return
        arrivals = self._arrivals
        while arrivals and arrivals[0][0] <= now:
            joined_ps, _, flow = arrivals[0]
            port = flow.port
            demand = self._demand + flow.limit * flow.weight
            wanted = self._port_demand[port] + flow.limit / flow.ratio
            if demand > self._mixed_rate or wanted > self._port_rates[port]:
                self._contend(joined_ps)
                self._ring_now(now)
                return
            del arrivals[0]
            self._demand = demand
            self._port_demand[port] = wanted
            self._port_flows[port].append(flow)
            self._flows += 1
        if len(done) > 1:
            done.sort(key=order_of)
        for flow in done:
            self._leave(flow, now)
        for flow in done:
            flow.done(now)

    def _contend(self, now: int) -> None:
        """From `now` on transfers hinder each other: clocks serve them."""
        self._free = False
        self._due.clear()
        self._updated_ps = now
        for port, flows in enumerate(self._port_flows):
            for flow in flows:
                limit, weight = flow.limit, flow.weight
                if limit not in self._clocks:
                    self._add_clock(limit)
                clock = flow.clock = self._clocks[limit]
                clock.flows += 1
                clock.weight += weight
                flow.finish = clock.served + flow.finish - limit * (now - flow.since_ps)
                heappush(clock.heap, (flow.finish, flow.order, flow))
                self._weight += weight
                self._readers += flow.traffic & 1
                self._writers += flow.traffic >> 1
            if flows:
                self._unsettled.add(port)
                self._port_floor = min(self._port_floor, self._port_rates[port] / len(flows))

    def _ends(self, now: int) -> bool:
        # At half of the link, so that it does not change with every other transfer.
        if not (self._can_be_free and self._demand <= self._mixed_rate / 2):
            return False
        if not all(map(le, self._port_demand, self._port_rates)):
            return False
        self._free = True
        for flows in self._port_flows:
            for flow in flows:
                clock = flow.clock
                assert clock is not None  # noqa: S101 - for the type checker
                flow.clock = None
                self._expect(flow, flow.finish - clock.served, now, now)
        for ready_ps, _, flow in self._arrivals:
            self._expect(flow, flow.work / flow.weight, ready_ps, now)
        self._clocks.clear()
        self._least_limit = self._port_floor = self._mixed_until = _INFINITE
        self._moved = False
        self._common_rate = self._weight = 0.0
        self._readers = self._writers = 0
        self._unsettled.clear()
        return True

"""Bandwidth shared between the transfers in flight: processor sharing, max-min fair.

A link is a chip's DRAM or a cluster's SRAM. A transfer (`Flow`) never goes faster than its own port, nor than its
fair share of its cluster's port, nor than its fair share of the link. Rates change only when a transfer joins or
leaves, so the link keeps one virtual clock per distinct limit ("class"): all transfers of a class run at one rate,
and a transfer is done when its class's clock has advanced by its work. Joining and leaving touch the transfers of one
cluster and the handful of classes, never all transfers: that is what keeps thousands of copies by 64 cores cheap.

Work is counted in bytes of DRAM time: a transfer that uses the DRAM at efficiency e has 1/e bytes of work a byte.
"""

from __future__ import annotations

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
    """

    __slots__ = ("callbacks", "clock", "finish", "limit", "order", "port", "ratio", "traffic", "work")

    # With `callbacks`, what SimPy needs of an event: a flow can be its own alarm.
    _ok = True

    def __init__(self, work: float, limit: float, ratio: float, port: int, traffic: int) -> None:
        self.work = work
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
    """The virtual clock of all transfers with one limit: bytes of work that each of them has had."""

    __slots__ = ("flows", "heap", "limit", "rate", "served")

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.rate = 0.0
        self.served = 0.0
        self.flows = 0
        self.heap: list[tuple[float, int, Flow]] = []


class Link:
    """A shared link on a clock.

    Args:
        environment: simulated time.
        rate: bytes of work per picosecond.
        port_rates: for each shared port, bytes per picosecond that its transfers have together.
        mixed_factor: what is left of `rate` while reads and writes are in flight together.
        mixing_ps: reads and writes count as together, too, for this long after the last of one kind has ended. It is
            looked at when a transfer joins or leaves.
    """

    def __init__(
        self,
        environment: Clock,
        rate: float,
        port_rates: list[float],
        mixed_factor: float = 1.0,
        mixing_ps: int = 0,
    ) -> None:
        self._environment = environment
        self._alarm = Alarm(self._ring)
        self._schedule: Any = environment.schedule
        self._rate = rate
        self._mixed_rate = rate * mixed_factor
        self._mixing_ps = mixing_ps
        self._mixed = False
        self._reads_until = -1
        self._writes_until = -1
        self._port_rates = port_rates
        self._port_flows: list[list[Flow]] = [[] for _ in port_rates]
        self._clocks: dict[float, _Clock] = {}
        self._flows = 0
        self._readers = 0
        self._writers = 0
        self._updated_ps = 0
        self._armed_ps = -1
        self._telling = False
        self._order = 0
        # Ports whose transfers may stand at a wrong limit. That does not matter while the whole link is so full that
        # no transfer reaches `_port_floor`, the least that any of these ports gives one.
        self._unsettled: set[int] = set()
        self._port_floor = _INFINITE

    def join(self, flow: Flow, now: int) -> None:
        """Begin a transfer now."""
        clocks = self._clocks
        elapsed = now - self._updated_ps
        if elapsed:
            self._updated_ps = now
            for clock in clocks.values():
                clock.served += clock.rate * elapsed
        self._order = flow.order = self._order + 1
        self._flows += 1
        traffic = flow.traffic
        self._readers += traffic & 1
        self._writers += traffic >> 1
        port = flow.port
        flows = self._port_flows[port]
        flows.append(flow)
        clock = self._set_clock(flow, flow.limit, flow.work)
        self._unsettled.add(port)
        floor = self._port_rates[port] / len(flows)
        if floor < self._port_floor:
            self._port_floor = floor
        if self._telling:
            return
        # One more transfer never makes another one faster, so the timer stands unless this one is done before it.
        mixed = (self._readers or now < self._reads_until) and (self._writers or now < self._writes_until)
        # Where mixing is over, all are faster.
        if self._armed_ps >= now and clock.heap[0][2] is not flow and (mixed or not self._mixed):
            level = (self._mixed_rate if mixed else self._rate) / self._flows
            if level <= self._port_floor and level <= min(clocks):
                self._mixed = bool(mixed)
                for clock in clocks.values():
                    clock.rate = level
                return
        self._share(now)

    def _set_clock(self, flow: Flow, limit: float, remaining: float) -> _Clock:
        clock = self._clocks.get(limit)
        if clock is None:
            clock = self._clocks[limit] = _Clock(limit)
        clock.flows += 1
        flow.clock = clock
        flow.finish = finish = clock.served + remaining
        heappush(clock.heap, (finish, flow.order, flow))
        return clock

    def _leave(self, clock: _Clock) -> None:
        clock.flows -= 1
        if not clock.flows:
            del self._clocks[clock.limit]

    def _share(self, now: int) -> None:
        """Set the rate of every clock and the time of the next completion."""
        clocks = self._clocks
        if not clocks:
            return
        left = self._capacity(now)
        level = left / self._flows
        if level > self._port_floor or level > min(clocks):
            level = self._level(left)
        soonest = _INFINITE
        for limit, clock in clocks.items():
            rate = clock.rate = limit if limit < level else level
            heap = clock.heap
            finish, order, flow = heap[0]
            while flow.clock is not clock or flow.order != order or flow.finish != finish:
                heappop(heap)
                finish, order, flow = heap[0]
            due = (finish - clock.served) / rate
            if due < soonest:
                soonest = due
        # As units.ceil_ps, inlined for performance.
        due_ps = now + ceil(soonest - TICK_TOLERANCE)
        # A timer that rings too early is set again; only one that would ring too late must be replaced.
        if self._armed_ps < now or due_ps < self._armed_ps:
            if due_ps < now:
                due_ps = now
            self._armed_ps = due_ps
            self._schedule(self._alarm, 1, due_ps - now)

    def _capacity(self, now: int) -> float:
        """Work per picosecond that the link does now."""
        self._mixed = bool((self._readers or now < self._reads_until) and (self._writers or now < self._writes_until))
        return self._mixed_rate if self._mixed else self._rate

    def _level(self, left: float) -> float:
        """The rate at which the transfers that no port limits share what the others leave."""
        for port in self._unsettled:
            flows = self._port_flows[port]
            if flows:
                self._settle(self._port_rates[port], flows)
        self._unsettled.clear()
        self._port_floor = _INFINITE
        flows_left = self._flows
        for limit in sorted(self._clocks):
            if limit * flows_left >= left:
                return left / flows_left
            clocked = self._clocks[limit].flows
            left -= limit * clocked
            flows_left -= clocked
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
                remaining = flow.finish - clock.served
                self._leave(clock)
                self._set_clock(flow, limit, remaining)

    def _ring(self, _: object) -> None:
        now = self._environment.now
        if now != self._armed_ps:
            return
        self._armed_ps = -1
        elapsed = now - self._updated_ps
        self._updated_ps = now
        done: list[Flow] = []
        for clock in self._clocks.values():
            rate = clock.rate
            served = clock.served = clock.served + rate * elapsed
            heap = clock.heap
            # What would be due within the tolerance of a tick is due now, or the timer would ring here for ever.
            horizon = served + rate * _TWO_TICKS
            while heap and heap[0][0] <= horizon:
                finish, order, flow = heappop(heap)
                if flow.clock is clock and flow.order == order and flow.finish == finish:
                    done.append(flow)
                    # One that left this clock and came back stands in its heap twice.
                    flow.finish = _INFINITE
        if len(done) > 1:
            done.sort(key=_order)
        for flow in done:
            left = flow.clock
            flow.clock = None
            assert left is not None  # noqa: S101 - for the type checker
            left.flows -= 1
            if not left.flows:
                del self._clocks[left.limit]
            self._port_flows[flow.port].remove(flow)
            self._unsettled.add(flow.port)
            traffic = flow.traffic
            if traffic & 1:
                self._readers -= 1
                self._reads_until = now + self._mixing_ps
            if traffic >> 1:
                self._writers -= 1
                self._writes_until = now + self._mixing_ps
        self._flows -= len(done)
        # Those who are told of the end often begin the next transfer: share once, after all of them.
        self._telling = True
        for flow in done:
            flow.done(now)
        self._telling = False
        self._share(now)


def _port_rate(flow: Flow) -> float:
    return flow.limit / flow.ratio


def _order(flow: Flow) -> int:
    return flow.order

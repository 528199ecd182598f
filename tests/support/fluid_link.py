"""A fluid simulation of a link that recomputes every rate after every event: a reference for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlusim.memory.flow import READ, WRITE


@dataclass
class Wish:
    """One transfer: when it joins, what it needs, and its weight in shares."""

    at_ps: int
    work: float
    limit: float
    port: int = 0
    ratio: float = 1.0
    traffic: int = READ
    weight: float = 1.0


# The rates of transfers from the rate of the link, those of its ports, and the transfers.
Rule = Callable[[float, list[float], list[Wish]], list[float]]


def shares(total: float, demands: list[float], weights: list[float]) -> list[float]:
    """Divide one resource by weight: no flow gets more than its demand, and the rest goes to the others."""
    given = [0.0] * len(demands)
    weight = sum(weights)
    for k in sorted(range(len(demands)), key=lambda k: demands[k] / weights[k]):
        given[k] = min(demands[k], total * weights[k] / weight)
        total -= given[k]
        weight -= weights[k]
    return given


def port_then_link(rate: float, ports: list[float], flows: list[Wish]) -> list[float]:
    """A share of the port in bytes, and then of the link in work."""
    limits = [0.0] * len(flows)
    for port, capacity in enumerate(ports):
        here = [k for k, flow in enumerate(flows) if flow.port == port]
        demands = [flows[k].limit / flows[k].ratio for k in here]
        for k, share in zip(here, shares(capacity, demands, [flows[k].weight for k in here]), strict=True):
            limits[k] = share * flows[k].ratio
    return shares(rate, limits, [flow.weight for flow in flows])


def fluid(
    rate: float, ports: list[float], wishes: list[Wish], rule: Rule, *, mixed: float = 1.0, mixing_ps: int = 0
) -> dict[int, float]:
    """When each transfer is done, in exact fluid time."""
    now = 0.0
    until_ps = {READ: -1.0, WRITE: -1.0}
    waiting = sorted(range(len(wishes)), key=lambda k: wishes[k].at_ps)
    left: dict[int, float] = {}
    ended: dict[int, float] = {}
    while waiting or left:
        flows = [wishes[k] for k in left]
        both = all(now < until_ps[kind] or any(f.traffic & kind for f in flows) for kind in (READ, WRITE))
        rates = dict(zip(left, rule(rate * mixed if both else rate, ports, flows), strict=True))
        until = min((left[k] / rates[k] for k in left), default=float("inf"))
        arrival = wishes[waiting[0]].at_ps - now if waiting else float("inf")
        # What has ended of one kind counts for a while: then all rates change.
        over = min((time - now for time in until_ps.values() if time > now), default=float("inf"))
        step = min(until, arrival, over)
        now += step
        for k in list(left):
            left[k] -= rates[k] * step
            if left[k] <= 1e-9:
                ended[k] = now
                del left[k]
                until_ps |= {kind: now + mixing_ps for kind in (READ, WRITE) if wishes[k].traffic & kind}
        while waiting and wishes[waiting[0]].at_ps <= now:
            k = waiting.pop(0)
            left[k] = wishes[k].work
    return ended

"""Guarantees of a link for any weights: caps, work conservation, and shares by weight."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluid_link import Wish, fluid, port_then_link
from mlusim.memory.clock import Clock
from mlusim.memory.flow import LinkLimits, weights
from mlusim.memory.link import Link
from mlusim.memory.quick_link import QuickLink
from mlusim.version import is_compiled
from recorded_flows import Recorded, ends_on

pytestmark = pytest.mark.skipif(is_compiled(), reason="a compiled class cannot be a base class here")


def run(rate: float, ports: list[float], wishes: list[Wish], spread: float) -> list[int]:
    """When each transfer is done; they join in the order of the list."""
    clock = Clock()
    ended = ends_on(QuickLink(clock, LinkLimits(rate, ports, spread=spread)), clock, wishes, ahead=True)
    return [ended[number] for number in range(len(wishes))]


wish_lists = st.lists(
    st.builds(
        Wish,
        at_ps=st.sampled_from([0, 0, 0, 7, 100, 1000, 2500]),
        work=st.sampled_from([64.0, 256.0, 1000.0, 4096.0, 100_000.0]),
        limit=st.sampled_from([0.02, 0.05, 0.06]),
        port=st.integers(0, 2),
    ),
    min_size=1,
    max_size=16,
)
rates = st.sampled_from([0.07, 0.15, 0.3072, 1.0])
port_lists = st.lists(st.sampled_from([0.06, 0.128, 0.2, 1.0]), min_size=3, max_size=3)
spreads = st.sampled_from([0.0, 0.1, 0.3, 0.6])


@given(rates, port_lists, wish_lists, spreads)
@settings(max_examples=150, deadline=None)
def test_ports_and_link_are_shared_by_weight(
    rate: float, ports: list[float], wishes: list[Wish], spread: float
) -> None:
    ends = run(rate, ports, wishes, spread)
    weighted = [replace(wish, weight=weight) for wish, weight in zip(wishes, weights(spread), strict=False)]
    ideal = fluid(rate, ports, weighted, port_then_link)
    # Ends are rounded up to picoseconds, each of which may delay what comes after it.
    assert ends == [pytest.approx(ideal[k], abs=2 * len(wishes)) for k in range(len(wishes))]


@given(rates, port_lists, wish_lists, spreads)
@settings(max_examples=150, deadline=None)
def test_no_transfer_exceeds_its_limit_and_none_waits_beside_spare_bandwidth(
    rate: float, ports: list[float], wishes: list[Wish], spread: float
) -> None:
    total = sum(wish.work for wish in wishes)
    for wish, end in zip(wishes, run(rate, ports, wishes, spread), strict=True):
        took = end - wish.at_ps
        assert took >= wish.work / wish.limit - 1
        # While it is below its limit, its port or the link is full with the work of others.
        beside = sum(other.work for other in wishes if other.port == wish.port) - wish.work
        longest = wish.work / min(wish.limit, rate) + (total - wish.work) / rate + beside / ports[wish.port]
        assert took <= longest * (1 + 1e-9) + 2 * len(wishes)


@given(port_lists, wish_lists, spreads)
@settings(max_examples=100, deadline=None)
def test_a_port_carries_no_more_than_its_rate(ports: list[float], wishes: list[Wish], spread: float) -> None:
    ends = run(10.0, ports, wishes, spread)
    for port, rate in enumerate(ports):
        here = [(wish, end) for wish, end in zip(wishes, ends, strict=True) if wish.port == port]
        if here:
            span = max(end for _, end in here) - min(wish.at_ps for wish, _ in here)
            assert span >= sum(wish.work for wish, _ in here) / rate - 1


@given(wish_lists, spreads)
@settings(max_examples=50, deadline=None)
def test_with_bandwidth_to_spare_every_transfer_goes_at_its_limit(wishes: list[Wish], spread: float) -> None:
    ends = run(1.0, [1.0] * 3, wishes, spread)
    assert ends == [pytest.approx(wish.at_ps + wish.work / wish.limit, abs=2) for wish in wishes]


@pytest.mark.parametrize("spread", [0.0, 0.25])
def test_a_large_copy_beside_tiny_ones_goes_at_the_rate_of_its_port(spread: float) -> None:
    """The link is full at first, for a moment only."""
    tiny = [Wish(0, 64, 0.06, 1) for _ in range(30)]
    for before in range(0, 30, 5):
        ends = run(0.3, [10.0] * 3, [*tiny[:before], Wish(0, 400_000, 0.06, 0), *tiny[before:]], spread)
        assert ends[before] == pytest.approx(400_000 / 0.06, rel=0.002)


def test_a_long_transfer_that_changes_clocks_keeps_the_heaps_short() -> None:
    clock = Clock()
    link = Link(clock, LinkLimits(1.0, [10.0], spread=0.25))
    wishes = [Wish(0, 1e6, 0.5), *(Wish(150 * number, 100 + number % 7, 0.4) for number in range(2000))]
    ended: dict[int, int] = {}
    longest = 0
    for number, wish in enumerate(wishes):
        link.join(Recorded(link, number, wish, ended), wish.at_ps, 0)
    while clock.peek() != float("inf"):
        clock.step()
        longest = max(longest, len(link._capped) + len(link._sharing))
    assert len(ended) == len(wishes)
    assert longest < 60

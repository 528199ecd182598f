"""Shared bandwidth, compared with a fluid simulation that recomputes every rate after every event."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluid_link import Wish, fluid, port_then_link
from mlusim.memory.clock import Clock
from mlusim.memory.flow import READ, READ_AND_WRITE, WRITE, LinkLimits
from mlusim.memory.link import Link
from mlusim.memory.quick_link import QuickLink
from mlusim.version import is_compiled
from recorded_flows import Recorded, ends_on

pytestmark = pytest.mark.skipif(is_compiled(), reason="a compiled class cannot be a base class here")


def run(
    rate: float, ports: list[float], wishes: list[Wish], mixed: float = 1.0, *, mixing_ps: int = 0
) -> dict[int, int]:
    """When each transfer is done on the link of a board."""
    clock = Clock()
    return ends_on(QuickLink(clock, LinkLimits(rate, ports, mixed, mixing_ps)), clock, wishes)


def max_min(rate: float, ports: list[float], flows: list[Wish]) -> list[float]:
    """Progressive filling: all rates grow together; each stops where its own limit, its port or the link is full."""
    rates = [0.0] * len(flows)
    growing = set(range(len(flows)))
    while growing:
        room = [(rate - sum(rates)) / len(growing)]
        for port, capacity in enumerate(ports):
            here = [k for k, flow in enumerate(flows) if flow.port == port]
            speed = sum(1 / flows[k].ratio for k in here if k in growing)
            if speed:
                room.append((capacity - sum(rates[k] / flows[k].ratio for k in here)) / speed)
        room += [flows[k].limit - rates[k] for k in growing]
        step = max(min(room), 0.0)
        for k in growing:
            rates[k] += step
        full = {k for k in growing if flows[k].limit - rates[k] <= 1e-12 * flows[k].limit}
        if rate - sum(rates) <= 1e-12 * rate:
            full = set(growing)
        for port, capacity in enumerate(ports):
            here = [k for k, flow in enumerate(flows) if flow.port == port]
            if capacity - sum(rates[k] / flows[k].ratio for k in here) <= 1e-12 * capacity:
                full |= growing.intersection(here)
        growing -= full
    return rates


def wish_lists(*, ratio_by_port: bool) -> st.SearchStrategy[list[Wish]]:
    ratios = st.sampled_from([1.0, 1.087, 1.25])
    wish = st.builds(
        Wish,
        at_ps=st.sampled_from([0, 0, 0, 7, 100, 101, 333, 1000, 2500]),
        work=st.integers(1, 400).map(lambda n: n * 3.7),
        limit=st.sampled_from([0.05, 0.064, 0.1, 0.3]),
        ratio=ratios,
        port=st.integers(0, 2),
        traffic=st.sampled_from([READ, WRITE, READ_AND_WRITE]),
    )

    def by_port(wishes: list[Wish]) -> list[Wish]:
        for item in wishes:
            item.ratio = (1.0, 1.087, 1.25)[item.port]
        return wishes

    lists = st.lists(wish, min_size=1, max_size=14)
    return lists.map(by_port) if ratio_by_port else lists


RATES = st.sampled_from([0.07, 0.15, 0.3072, 2.0])
PORTS = st.lists(st.sampled_from([0.06, 0.128, 0.2, 1.0]), min_size=3, max_size=3)


def assert_agrees(ended: dict[int, int], ideal: dict[int, float]) -> None:
    """Each end is rounded up to a picosecond, and so delays what comes after it by less than one."""
    for k, expected in ideal.items():
        assert expected - 0.01 <= ended[k] + len(ideal)
        assert abs(ended[k] - expected) <= len(ideal) + 1, (k, ended[k], expected)


@given(
    rate=RATES,
    ports=PORTS,
    wishes=wish_lists(ratio_by_port=True),
    mixed=st.sampled_from([1.0, 0.94, 0.5]),
    mixing_ps=st.sampled_from([0, 150, 10**9]),
)
@settings(max_examples=80, deadline=None)
def test_sharing_is_max_min_fair(
    rate: float, ports: list[float], wishes: list[Wish], mixed: float, mixing_ps: int
) -> None:
    ideal = fluid(rate, ports, wishes, max_min, mixed=mixed, mixing_ps=mixing_ps)
    assert_agrees(run(rate, ports, wishes, mixed, mixing_ps=mixing_ps), ideal)


@given(rate=RATES, ports=PORTS, wishes=wish_lists(ratio_by_port=False), mixed=st.sampled_from([1.0, 0.94]))
@settings(max_examples=80, deadline=None)
def test_a_port_is_shared_in_bytes_and_the_link_in_work(
    rate: float, ports: list[float], wishes: list[Wish], mixed: float
) -> None:
    assert_agrees(run(rate, ports, wishes, mixed), fluid(rate, ports, wishes, port_then_link, mixed=mixed))


@given(wishes=wish_lists(ratio_by_port=True), rate=RATES)
@settings(max_examples=50, deadline=None)
def test_a_run_repeats(wishes: list[Wish], rate: float) -> None:
    first, again = (run(rate, [0.128, 0.2, 1.0], wishes, 0.9) for _ in range(2))
    assert list(first.items()) == list(again.items())


def wish(
    work: float, limit: float = 1.0, at_ps: int = 0, port: int = 0, ratio: float = 1.0, traffic: int = READ
) -> Wish:
    return Wish(at_ps, work, limit, port, ratio, traffic)


def test_alone_a_transfer_goes_at_its_own_limit() -> None:
    assert run(1.0, [1.0], [wish(1000, limit=0.25)]) == {0: 4000}
    assert run(1.0, [0.5], [wish(1000)]) == {0: 2000}
    assert run(0.1, [0.5], [wish(1000)]) == {0: 10_000}


def test_an_end_is_rounded_up() -> None:
    assert run(1.0, [1.0], [wish(1000, limit=0.3)]) == {0: 3334}
    assert run(1.0, [1.0], [wish(0.1)]) == {0: 1}


@pytest.mark.parametrize("count", [2, 5, 16, 64])
def test_k_equal_transfers_on_a_full_link_take_k_times(count: int) -> None:
    assert set(run(0.1, [1.0] * count, [wish(1000, port=k) for k in range(count)]).values()) == {10_000 * count}
    assert set(run(9.0, [0.1], [wish(1000) for _ in range(count)]).values()) == {10_000 * count}


def test_a_port_limits_its_own_transfers_only() -> None:
    # Port 0 gives each of its two 0.1; the link has 0.8 left for the third, whose own limit is 0.5.
    ended = run(1.0, [0.2, 1.0], [wish(100), wish(100), wish(100, limit=0.5, port=1)])
    assert ended == {0: 1000, 1: 1000, 2: 200}


def test_an_unused_share_goes_to_the_others() -> None:
    ended = run(1.0, [9.0], [wish(100, limit=0.1), wish(900, limit=5.0)])
    assert ended == {0: 1000, 1: 1000}


def test_reads_and_writes_together_lose_the_mixed_factor() -> None:
    alone = run(1.0, [9.0, 9.0], [wish(500, 9.0), wish(500, 9.0)], 0.8)
    both = run(1.0, [9.0, 9.0], [wish(500, 9.0), wish(500, 9.0, traffic=WRITE)], 0.8)
    copy = run(1.0, [9.0, 9.0], [wish(1000, 9.0, traffic=READ_AND_WRITE)], 0.8)
    assert (alone, both, copy) == ({0: 1000, 1: 1000}, {0: 1250, 1: 1250}, {0: 1250})


def test_the_factor_ends_with_the_last_of_a_kind() -> None:
    # Together 0.4 each until 250 are done after 625 ps; the reader's last 250 go alone.
    ended = run(1.0, [9.0], [wish(500, 9.0), wish(250, 9.0, traffic=WRITE)], 0.8)
    assert ended == {1: 625, 0: 875}


def test_mixing_lasts_a_while_after_the_last_of_a_kind() -> None:
    """Readers after a writer: the link counts as mixed for a fixed time, whatever else happens."""
    wishes = [wish(80, 9.0, traffic=WRITE), wish(40, 9.0, at_ps=150), wish(100, 9.0, at_ps=230)]
    # The writer ends at 80; until 280 reads count as mixed with it: 40 B of the last one by then, 60 B after it.
    assert run(1.0, [9.0], wishes, 0.8, mixing_ps=200) == {0: 80, 1: 200, 2: 340}
    assert run(1.0, [9.0], wishes, 0.8) == {0: 80, 1: 190, 2: 330}


def test_mixing_ends_at_a_time_that_a_float_does_not_represent() -> None:
    begin = (1 << 60) + 1
    wishes = [wish(80, 9.0, begin, traffic=WRITE), wish(40, 9.0, begin + 150), wish(100, 9.0, begin + 230)]
    assert run(1.0, [9.0], wishes, 0.8, mixing_ps=200) == {0: begin + 80, 1: begin + 200, 2: begin + 340}


def test_the_next_transfer_begins_when_one_ends() -> None:
    clock = Clock()
    link = QuickLink(clock, LinkLimits(1.0, [1.0]))
    ended: dict[int, int] = {}
    flows = [Recorded(link, number, wish(100), ended) for number in range(5)]
    for one, two in pairwise(flows):
        one.following = two
    link.join(flows[0], 0, 0)
    clock.run()
    assert ended == {0: 100, 1: 200, 2: 300, 3: 400, 4: 500}


@pytest.mark.parametrize("work", [3.0e12, 1.0e15])
def test_long_transfers_end(work: float) -> None:
    """Terabytes through one clock: float error must not make the timer ring for ever."""
    wishes = [wish(work, 0.064, port=0), *(wish(997.3, 0.064, at_ps=k * 10**9, port=0) for k in range(200))]
    ended = run(0.3, [0.128], wishes)
    assert ended[0] == pytest.approx(work / 0.064, rel=1e-6)
    assert all(ended[k + 1] - k * 10**9 == pytest.approx(997.3 / 0.064, abs=20) for k in range(200))


def test_mixing_ends_after_hours() -> None:
    """Beyond 2.5 h a float does not hold each picosecond: the timer must not ring at one time for ever."""
    wishes = [wish(3, 9.0, traffic=WRITE, at_ps=2**53 + 1), *(wish(40, 9.0, at_ps=2**53 + 1) for _ in range(2))]
    ended = run(1.0, [9.0], wishes, 0.5, mixing_ps=4)
    # The writer ends after 18 ps, reads count as mixed for 4 more; of their 74 B left, 2 are mixed.
    assert {key: end - (2**53 + 1) for key, end in ended.items()} == {0: 18, 1: 94, 2: 94}


@given(
    wishes=wish_lists(ratio_by_port=True),
    more=st.sampled_from([1.0, 1.01, 1.5, 4.0]),
    which=st.sampled_from(["link", "ports", "limits"]),
)
@settings(max_examples=60, deadline=None)
def test_one_transfer_is_never_slower_with_more_bandwidth(wishes: list[Wish], more: float, which: str) -> None:
    one = wishes[:1]
    before = run(0.15, [0.128] * 3, one)
    one[0].limit *= more if which == "limits" else 1
    after = run(0.15 * (more if which == "link" else 1), [0.128 * (more if which == "ports" else 1)] * 3, one)
    assert after[0] <= before[0]


@given(
    rate=st.sampled_from([0.3, 1.2, 2.0]),
    port_rate=st.sampled_from([0.064, 0.1, 0.5, 10.0]),
    mixed=st.sampled_from([1.0, 0.9]),
    mixing_ps=st.sampled_from([0, 30_000, 10**9]),
    latency_ps=st.sampled_from([0, 5_000, 100_000]),
    copies=st.lists(
        st.tuples(
            st.sampled_from([64, 256, 4096 * 1.087, 100_000]),
            st.sampled_from([0.01, 0.03, 0.064]),
            st.sampled_from([READ, WRITE]),
            st.sampled_from([0, 0, 1000, 12_345]),
        ),
        min_size=1,
        max_size=60,
    ),
    cores=st.sampled_from([1, 4, 16, 32]),
)
@settings(max_examples=60, deadline=None)
def test_the_shortcut_for_uncontended_transfers_changes_no_time(
    rate: float,
    port_rate: float,
    mixed: float,
    mixing_ps: int,
    latency_ps: int,
    copies: list[tuple[float, float, int, int]],
    cores: int,
) -> None:
    ends = []
    for kind in (Link, QuickLink):
        clock = Clock()
        link = kind(clock, LinkLimits(rate, [port_rate, port_rate], mixed, mixing_ps, 4.0, 0.3))
        ended: dict[int, int] = {}
        last: dict[int, Recorded] = {}
        for number, (work, limit, traffic, think_ps) in enumerate(copies):
            # Each core does its copies one after the other, as soon as it has thought.
            core = number % cores
            copy = Wish(0, work, limit, core % 2, traffic=traffic)
            after = Recorded(link, number, copy, ended, start_up_ps=latency_ps + think_ps)
            if core in last:
                last[core].following = after
            else:
                link.join(after, after.start_up_ps, 0)
            last[core] = after
        clock.run()
        ends.append(ended)
    assert ends[0] == ends[1]

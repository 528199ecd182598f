"""A link whose latency grows with the load: the law, its limits, and no advantage for a late transfer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluid_link import Wish
from mlusim.memory.clock import Clock
from mlusim.memory.flow import READ, WRITE, LinkLimits
from mlusim.memory.loaded_link import LoadedLink, carried, dram_link
from mlusim.memory.quick_link import QuickLink
from mlusim.version import is_compiled
from recorded_flows import ends_on

rates = st.floats(1e-3, 1e3)

pytestmark = pytest.mark.skipif(is_compiled(), reason="a compiled class cannot be a base class here")


def run(wishes: list[Wish], rate: float, ports: list[float], growth: float, mixed: float = 1.0) -> list[int]:
    """When each transfer is done."""
    clock = Clock()
    ended = ends_on(dram_link(clock, LinkLimits(rate, ports, mixed, latency_growth=growth)), clock, wishes)
    return [ended[number] for number in range(len(wishes))]


@given(rates, rates, st.floats(0.01, 5))
def test_the_carried_load_solves_the_latency_law(offered: float, capacity: float, growth: float) -> None:
    u = carried(offered, capacity, growth) / capacity
    assert 0 < u < 1
    assert u * (1 + growth * u / (1 - u)) == pytest.approx(offered / capacity, rel=1e-6)


@given(rates, rates)
def test_without_growth_it_is_the_smaller_of_demand_and_capacity(offered: float, capacity: float) -> None:
    assert carried(offered, capacity, 0.0) == min(offered, capacity)
    assert carried(offered, capacity, 1e-9) == pytest.approx(min(offered, capacity), rel=1e-3)


@given(rates, rates, st.floats(0, 5), st.floats(1, 10))
def test_the_carried_rate_is_monotonic_and_bounded(offered: float, capacity: float, growth: float, more: float) -> None:
    here = carried(offered, capacity, growth) * (1 - 1e-12)
    assert here <= min(offered, capacity)
    assert here <= carried(offered * more, capacity, growth)
    assert here <= carried(offered, capacity * more, growth)


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_equal_transfers_take_the_time_of_the_law(count: int) -> None:
    work, limit, rate, growth = 174_080.0, 0.0337, 1.2, 0.68
    ends = run([Wish(0, work, limit)] * count, rate, [1e9], growth)
    assert ends == [pytest.approx(work * count / carried(count * limit, rate, growth), abs=2)] * count


def test_mixed_reads_and_writes_have_reduced_capacity() -> None:
    ends = run([Wish(0, 1e6, 1.0), Wish(0, 1e6, 1.0, traffic=WRITE)], 1.0, [1e9], 0.5, mixed=0.8)
    assert ends == [pytest.approx(2e6 / carried(2.0, 0.8, 0.5), abs=2)] * 2


def test_a_full_port_limits_its_transfers() -> None:
    on_full, alone = Wish(0, 1e6, 1.0), Wish(0, 1e6, 1.0, port=1)
    ends = run([on_full, on_full, alone], 10.0, [1.0, 9.0], 0.3)
    part = carried(2.0, 10.0, 0.3) / 2.0
    assert ends[2] == pytest.approx(1e6 / part, abs=2)
    # The port's two share its rate throughout: while the third is there at that part, afterwards at a better one.
    served = ends[2] * part * 0.5
    later = carried(1.0, 10.0, 0.3)
    assert ends[0] == ends[1] == pytest.approx(ends[2] + (1e6 - served) / (0.5 * later), abs=3)


wish = st.builds(
    Wish,
    at_ps=st.integers(0, 2000),
    work=st.floats(10, 5000),
    limit=st.floats(0.1, 3),
    port=st.integers(0, 2),
    traffic=st.sampled_from([READ, WRITE]),
)


@given(st.lists(wish, min_size=1, max_size=8), wish, st.floats(0.05, 3))
def test_a_new_transfer_speeds_up_no_other(wishes: list[Wish], newcomer: Wish, growth: float) -> None:
    ports = [2.0, 1.0, 4.0]
    before = run(wishes, 3.0, ports, growth, mixed=0.9)
    after = run([*wishes, newcomer], 3.0, ports, growth, mixed=0.9)
    assert all(late >= early - 2 for early, late in zip(before, after, strict=False))


def test_a_board_without_growth_has_the_plain_link() -> None:
    assert type(dram_link(Clock(), LinkLimits(1.0, [1.0]))) is QuickLink
    assert type(dram_link(Clock(), LinkLimits(1.0, [1.0], latency_growth=0.1))) is LoadedLink

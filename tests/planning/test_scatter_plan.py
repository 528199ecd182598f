"""Plans of scatter: each element has one task, each update is applied once, within NRAM; tiers, reasons, times."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

import mlusim
from lookup_plans import BOARDS, check_auto_is_fastest, lookups_by_element, lookups_by_row, plan_or_none
from mlusim import ops
from mlusim.errors import InputError, PlanError
from mlusim.hardware import board
from mlusim.kernels.scatter import _chunks
from mlusim.planning.scatter import STRATEGIES
from mlusim.planning.sorted_scatter import SortedParameters
from operator_runs import small


def owners(tiles, shape):
    """The task of each element; fails where an element has none, or a second."""
    owner = np.full(shape, -1)
    corners = zip(tiles.task.tolist(), tiles.start.tolist(), tiles.stop.tolist(), strict=True)
    for task, start, stop in corners:
        box = tuple(slice(low, high) for low, high in zip(start, stop, strict=True))
        assert (owner[box] == -1).all()
        owner[box] = task
    assert (owner >= 0).all()
    return owner


def check(plan, shape):
    """Check any plan: each element has one task, NRAM, the balance of tasks, a reason."""
    plan.check()
    assert plan.nram_bytes <= plan.board.nram_usable_bytes
    assert plan.reason
    if not plan.tier:
        assert 0 in shape
        return
    if isinstance(plan.parameters, SortedParameters):
        # x and the output are flat.
        assert plan.output_shape == (math.prod(shape),)
        owner = owners(plan.tiles, plan.output_shape)
        largest = plan.parameters.binning.size
    else:
        assert plan.output_shape == shape
        owner = owners(plan.tiles, shape)
        regions = plan.parameters.regions
        assert np.array_equal(owner, owners(regions, shape))
        largest = int(regions.elements().max())
    busy = np.bincount(owner.reshape(-1))
    assert busy.max() - busy.min() <= largest
    assert plan.predicted_ps > 0


def check_updates(plan):
    """Each region applies every update that may reach it once, and those of one element in row-major order."""
    lookups = plan.parameters.lookups
    if isinstance(plan.parameters, SortedParameters):
        first, start, stop = plan.parameters.binning.boxes(lookups)
        order = np.arange(math.prod(lookups.positions)).reshape(lookups.positions)
        taken = [
            order[tuple(slice(a, b) for a, b in zip(low, high, strict=True))].reshape(-1)
            for low, high in zip(start.tolist(), stop.tolist(), strict=True)
        ]
        assert np.array_equal(np.concatenate(taken), order.reshape(-1))
        assert first.tolist() == [some[0] for some in taken]
        assert max(map(len, taken)) <= plan.parameters.binning.lookups_at_once
        return
    chunk = plan.parameters.chunk
    if chunk is None:
        return
    number = np.arange(math.prod(lookups.value_shape)).reshape(lookups.value_shape)
    regions = plan.parameters.regions
    for start, stop in zip(regions.start.tolist(), regions.stop.tolist(), strict=True):
        values = lookups.values_of(tuple(start), tuple(stop))
        expected = number[tuple(slice(a, b) for a, b in zip(*values, strict=True))]
        taken = [
            number[tuple(slice(a, b) for a, b in zip(*box, strict=True))]
            for box in _chunks(lookups, values, chunk.sizes)
        ]
        assert len(taken) <= chunk.count
        together = np.concatenate([some.reshape(-1) for some in taken]) if taken else np.empty(0, int)
        assert np.array_equal(np.sort(together), np.sort(expected.reshape(-1)))
        # Values of one place have the shared coordinates in common: seen one after the other they only grow.
        last = {}
        for value in together.tolist():
            place = np.unravel_index(value, lookups.value_shape)
            shared = tuple(int(place[axis]) for axis in lookups.shared_axes)
            assert last.get(shared, -1) < value
            last[shared] = value


@given(lookups_by_element(STRATEGIES, rank=3, extent=24, shared=9, along=40))
@settings(deadline=None, max_examples=50)
def test_any_shape_by_element(call):
    (x, index), arguments = call
    plan = plan_or_none("scatter", x, index, index, may_not_fit=("slab", "bins"), **arguments)
    if plan is None:
        return
    check(plan, x)
    check_updates(plan)
    if 0 not in index:
        assert (plan.tier == 3) == (plan.parameters.strategy == "rows")
        assert arguments["strategy"] in ("auto", plan.parameters.strategy)


@given(lookups_by_row(rank=3, extent=16, along=12))
@settings(deadline=None, max_examples=50)
def test_any_shape_by_row(call):
    (x, index, src), arguments = call
    plan = mlusim.plan("scatter_nd", x, index, src, **arguments)
    check(plan, x)
    if 0 not in src:
        check_updates(plan)


class TestBorders:
    """A unit is a row of 512 float32, 2048 B, on one core of a board before arch 592."""

    SHAPE = (4, 512)

    def plan(self, nram_bytes, strategy, shape=SHAPE, cores=1, name="mlu370-x4"):
        on = small(name, nram_bytes, cores=cores)
        return mlusim.plan("scatter", shape, shape, shape, axis=1, device=on, strategy=strategy, index_dtype="int32")

    def test_a_slab_may_take_three_quarters_of_nram(self):
        """2048 B are three quarters of 2730 2/3. On MLU290, sorting takes longer, which would keep the slab whole."""
        for nram_bytes, tier in ((2816, 1), (2688, 2)):
            plan = self.plan(nram_bytes, "slab", name="mlu290-m5")
            check(plan, self.SHAPE)
            assert plan.tier == tier
        assert self.plan(2688, "slab", name="mlu290-m5").tiles.elements().max() == 256

    def test_a_region_of_bins_may_take_fifteen_sixteenths_of_nram(self):
        """16 384 B are 15 / 16 of 17 476 4/15."""
        for nram_bytes, tier, largest in ((17_536, 1, 4096), (17_408, 2, 2048)):
            plan = self.plan(nram_bytes, "bins", (1, 4096))
            check(plan, (1, 4096))
            assert plan.tier == tier
            assert plan.tiles.elements().max() == largest

    def test_the_counters_of_a_sort_and_its_updates_share_nram(self):
        options = {"axis": 0, "device": "mlu270-s4", "strategy": "bins", "nram_limit_bytes": 8192}
        assert mlusim.plan("scatter", (2**18,), (2**16,), (2**16,), **options).nram_bytes <= 8192

    @pytest.mark.parametrize(("strategy", "shape"), [("slab", SHAPE), ("bins", (1, 512))])
    @pytest.mark.grid(2)
    def test_more_nram_never_gives_a_higher_tier(self, strategy, shape):
        tiers = [self.plan(nram_bytes, strategy, shape).tier for nram_bytes in range(1536, 8192, 128)]
        assert tiers == sorted(tiers, reverse=True)
        assert set(tiers) == {1, 2}

    def test_rows_take_any_board_that_holds_an_update(self):
        for nram_bytes in (512, 2048, 2**20):
            plan = self.plan(nram_bytes, "rows")
            check(plan, self.SHAPE)
            assert plan.tier == 3

    def test_not_one_update_fits(self):
        with pytest.raises(PlanError, match="give the board more nram_bytes or fewer nram_reserved_bytes"):
            mlusim.plan("scatter", (400, 2), (4, 2), (4, 2), axis=0, device=small("mlu370-x4", 128))

    def test_not_one_element_fits_where_there_are_no_updates(self):
        with pytest.raises(
            PlanError, match=r"the 64 B of usable NRAM of mlu370-x4, where each buffer is rounded up to"
        ):
            mlusim.plan("scatter", (400, 2), (0, 2), (0, 2), axis=0, device=small("mlu370-x4", 64))

    def test_windows_split_a_single_row_among_cores(self):
        for strategy, cores in (("slab", 8), ("rows", 8), ("bins", 8)):
            plan = self.plan(2**18, strategy, (1, 4096), cores=cores)
            check(plan, (1, 4096))
            assert len(set(plan.tiles.task.tolist())) == cores


class TestReasons:
    def test_the_reason_has_the_times_of_all_strategies(self):
        plan = mlusim.plan("scatter", (64, 64), (64, 64), (64, 64), axis=1)
        assert plan.reason.count(" us") == 3
        for strategy in ("slab", "rows", "bins"):
            assert strategy in plan.reason
        assert "asked for" not in plan.reason

    @pytest.mark.parametrize("strategy", ["slab", "rows", "bins"])
    def test_a_requested_strategy_is_used_and_named(self, strategy):
        plan = mlusim.plan("scatter", (64, 64), (64, 64), (64, 64), axis=1, strategy=strategy)
        assert plan.reason.startswith(f"{strategy}, as requested: ")
        assert plan.parameters.strategy == plan.strategy == strategy

    def test_rows_of_src_are_not_sorted(self):
        plan = mlusim.plan("scatter_nd", (400, 6), (50, 1), (50, 6), mode="standard")
        assert "bins" not in plan.reason
        with pytest.raises(PlanError, match=r"each lookup here replaces a row of 6; choose strategy 'rows' or 'auto'"):
            mlusim.plan("scatter_nd", (400, 6), (50, 1), (50, 6), mode="standard", strategy="bins")

    def test_no_updates_and_no_output(self):
        plan = mlusim.plan("scatter", (4, 4), (0, 4), (0, 4), axis=0)
        check(plan, (4, 4))
        assert plan.reason == "there are no updates, so x is copied"
        plan = mlusim.plan("scatter", (4, 0), (2, 0), (2, 0), axis=0)
        assert (plan.tier, len(plan.tiles)) == (0, 0)
        assert "the output [4, 0] has no elements, so nothing is launched" in plan.reason

    def test_an_index_without_columns(self):
        plan = mlusim.plan("scatter_nd", (4, 6), (5, 0), (5, 4, 6), mode="standard")
        check(plan, (4, 6))
        assert plan.reason == "an index without columns selects all of x, which src replaces"

    def test_unknown_strategy(self):
        with pytest.raises(InputError, match=r"strategy='bin': did you mean bins\?"):
            mlusim.plan("scatter", (4, 4), (4, 4), (4, 4), axis=0, strategy="bin")


class TestPredictedTimes:
    def test_auto_chooses_the_fastest_strategy(self):
        check_auto_is_fastest("scatter", STRATEGIES, may_not_fit=("slab", "bins"))

    @pytest.mark.grid(8)
    @pytest.mark.parametrize("name", BOARDS)
    @pytest.mark.parametrize("strategy", ["slab", "rows", "bins"])
    @pytest.mark.parametrize(
        ("shape", "count"), [((256, 512), 512), ((4, 20_000), 3000), ((64, 64), 64), ((1, 30_000), 60_000)]
    )
    def test_within_a_factor_of_two(self, name, strategy, shape, count):
        """Predictions choose between strategies whose times differ by more."""
        if strategy == "bins" and board(name).needs_aligned_vectors:
            pytest.skip("sorting takes vector operands of any length")
        rng = np.random.default_rng(1)
        x = rng.standard_normal(shape, np.float32)
        index = rng.integers(0, shape[1], (shape[0], count)).astype(np.int32)
        src = rng.standard_normal(index.shape, np.float32)
        result = ops.scatter(x, index, src, 1, device=name, strategy=strategy)
        assert 0.5 < result.plan.predicted_ps / result.time_ps < 2

    @pytest.mark.grid(2)
    @pytest.mark.parametrize("name", ["mlu370-x4", "mlu590-h8"])
    @pytest.mark.parametrize("strategy", ["slab", "rows"])
    def test_batches_forced_by_small_nram_are_predicted(self, name, strategy):
        """NRAM holds the values of a few updates at a time, and each batch of copies starts up anew."""
        rng = np.random.default_rng(1)
        x = np.zeros((15, 5360), np.int64)
        rows = rng.integers(0, 15, (61, 1))
        src = rng.integers(0, 99, (61, 5360))
        result = ops.scatter_nd(x, rows, src, mode="standard", device=name, strategy=strategy, nram_limit_bytes=12_005)
        assert 0.5 < result.plan.predicted_ps / result.time_ps < 2


def test_tiles_of_rows_end_where_their_regions_end():
    """Each region of 5 001 is copied in two tiles, which are not the halves of 2 501 of a row without regions."""
    on = small("mlu370-x4", 4096 * 4, cores=4)
    plan = mlusim.plan("scatter", (1, 20_003), (1, 50), (1, 50), axis=1, device=on, strategy="rows")
    regions, tiles = plan.parameters.regions, plan.tiles
    assert len(tiles) > len(regions) > 1
    check(plan, (1, 20_003))
    assert (regions.stop[:, 1] - regions.start[:, 1]).max() % (tiles.stop[:, 1] - tiles.start[:, 1]).max()


def test_of_equally_fast_splits_the_one_with_fewer_operations_is_chosen():
    """Here, filtering all updates by window takes as long as sorting them, with more than twice the operations."""
    x, index = np.zeros((128, 32_768)), np.zeros((128, 32_768), np.int64)
    result = ops.scatter(x, index, x, 1, device="mlu590-h8", strategy="rows")
    assert isinstance(result.plan.parameters, SortedParameters)
    assert len(result.log) < 8000

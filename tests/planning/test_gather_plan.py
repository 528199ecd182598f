"""Plans of gather: each output element once, within NRAM; tiers at their limits, reasons, predicted times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import mlusim
from lookup_plans import BOARDS, check_auto_is_fastest, lookups_by_element, lookups_by_row, plan_or_none
from mlusim import ops
from mlusim.errors import InputError, PlanError
from mlusim.hardware import board
from mlusim.planning.gather import STRATEGIES
from operator_runs import small


def times_covered(tiles, shape):
    """By element, the number of tiles that contain it, counted tile by tile."""
    count = np.zeros(shape, int)
    for start, stop in zip(tiles.start.tolist(), tiles.stop.tolist(), strict=True):
        count[tuple(slice(low, high) for low, high in zip(start, stop, strict=True))] += 1
    return count


def check(plan, shape):
    """Check any plan: each element once, within NRAM, tasks balanced to one tile, a reason, a time."""
    plan.check()
    assert plan.output_shape == shape
    assert (times_covered(plan.tiles, shape) == 1).all()
    assert plan.nram_bytes <= plan.board.nram_usable_bytes
    assert plan.reason
    if plan.tier:
        counts = np.bincount(plan.tiles.task)
        assert counts.max() - counts.min() <= 1
        assert len(counts) == min(plan.tasks, len(plan.tiles))
        assert plan.predicted_ps > 0


@given(lookups_by_element(STRATEGIES, rank=4, extent=40, shared=40, along=60))
@settings(deadline=None, max_examples=50)
def test_any_shape_by_element(call):
    (x, index), arguments = call
    plan = plan_or_none("gather", x, index, may_not_fit=("slab",), **arguments)
    if plan is None:
        return
    check(plan, index)
    if plan.tier:
        assert (plan.tier == 3) == (plan.parameters.strategy == "rows")
        assert arguments["strategy"] in ("auto", plan.parameters.strategy)


@given(lookups_by_row(rank=4, extent=30, along=40))
def test_any_shape_by_row(call):
    (x, index, values), arguments = call
    check(mlusim.plan("gather_nd", x, index, **arguments), values)


class TestBorders:
    """A unit is a row of 512 float32, 2048 B; with 512 int32 of index and as many values it takes 6144 B.

    Around these a planner keeps the rounding of two more buffers to 128 B free, 2 x 127 B.
    """

    SHAPE = (4, 512)

    def plan(self, nram_bytes, strategy="slab", cores=1):
        on = small("mlu370-x4", nram_bytes, cores=cores)
        return mlusim.plan("gather", self.SHAPE, self.SHAPE, axis=1, device=on, strategy=strategy, index_dtype="int32")

    @pytest.mark.parametrize(
        ("nram_bytes", "tier", "sizes"),
        [
            (6144 + 256, 1, [1, 512]),
            (6144 + 128, 2, [1, 256]),
            (2048 + 384, 2, [1, 16]),
        ],
    )
    def test_a_unit_is_whole_or_cut(self, nram_bytes, tier, sizes):
        plan = self.plan(nram_bytes)
        check(plan, self.SHAPE)
        assert plan.tier == tier
        tiles = (plan.tiles.stop - plan.tiles.start).tolist()
        assert [max(extents) for extents in zip(*tiles, strict=True)] == sizes

    def test_a_slab_that_does_not_fit_is_an_error_and_auto_goes_to_gdram(self):
        for nram_bytes in (2048 + 256, 2048 - 128):
            with pytest.raises(PlanError, match=r"the 2 048 B of x that an index can address and one lookup do not"):
                self.plan(nram_bytes)
            plan = self.plan(nram_bytes, "auto")
            check(plan, self.SHAPE)
            assert (plan.tier, plan.parameters.strategy) == (3, "rows")
            assert "rows: each lookup accesses GDRAM" in plan.reason
            assert f"slab does not fit: 2 048 B in {nram_bytes // 1000} {nram_bytes % 1000:03} B" in plan.reason

    def test_more_nram_never_gives_a_higher_tier(self):
        tiers = [self.plan(nram_bytes).tier for nram_bytes in range(2048 + 384, 8192, 128)]
        assert tiers == sorted(tiers, reverse=True)
        assert set(tiers) == {1, 2}

    def test_whole_units_are_cut_only_if_there_are_too_few(self):
        """Four units: on four cores each stays whole; eight cores have more to do with halves."""
        for cores, tier in ((2, 1), (4, 1), (8, 2)):
            plan = self.plan(2**16, cores=cores)
            assert plan.tier == tier
            assert len(set(plan.tiles.task.tolist())) == cores

    def test_not_one_lookup_fits(self):
        for strategy in ("auto", "rows"):
            message = (
                r"the buffers of one lookup of 4 B do not fit in the 128 B of usable NRAM of mlu370-x4, where each "
                r"buffer is rounded up to 128 B; give the board more nram_bytes or fewer nram_reserved_bytes"
            )
            with pytest.raises(PlanError, match=message):
                mlusim.plan("gather", (400, 2), (4, 2), axis=0, device=small("mlu370-x4", 128), strategy=strategy)


class TestReasons:
    def test_the_reason_has_the_times_of_both_strategies(self):
        plan = mlusim.plan("gather", (64, 64), (64, 64), axis=1)
        assert plan.reason.count(" us") == 2
        assert "slab" in plan.reason
        assert "rows" in plan.reason
        assert "asked for" not in plan.reason

    @pytest.mark.parametrize("strategy", ["slab", "rows"])
    def test_a_requested_strategy_is_used_and_named(self, strategy):
        plan = mlusim.plan("gather", (64, 64), (64, 64), axis=1, strategy=strategy)
        assert plan.reason.startswith(f"{strategy}, as requested: ")
        assert plan.parameters.strategy == plan.strategy == strategy

    def test_nothing_to_do(self):
        plan = mlusim.plan("gather", (4, 4), (0, 4), axis=0)
        assert (plan.tier, len(plan.tiles)) == (0, 0)
        assert "the output [0, 4] has no elements, so nothing is launched" in plan.reason

    def test_an_index_without_columns(self):
        plan = mlusim.plan("gather_nd", (4, 6), (5, 0), mode="standard")
        check(plan, (5, 4, 6))
        assert plan.reason == "an index without columns selects all of x, which is copied"

    def test_unknown_strategy(self):
        with pytest.raises(InputError, match=r"strategy='slap': did you mean slab\?"):
            mlusim.plan("gather", (4, 4), (4, 4), axis=0, strategy="slap")


class TestPredictedTimes:
    def test_auto_chooses_the_fastest_strategy(self):
        check_auto_is_fastest("gather", STRATEGIES, may_not_fit=("slab",))

    def test_a_few_long_rows_are_cut_to_occupy_idle_cores(self):
        """30 rows of 70 KB on 64 cores: in less NRAM, which forces shorter tiles, the plan is not faster."""
        shape, places = (1, 17_476), (30, 1)
        on = board("mlu290-m5")
        plan = mlusim.plan("gather_nd", shape, places, mode="standard", device=on)
        assert len(plan.tiles) > places[0]
        for part in (2, 4, 8):
            less = on.replace(nram_bytes=on.nram_usable_bytes // part, nram_reserved_bytes=0)
            shorter = mlusim.plan("gather_nd", shape, places, mode="standard", device=less)
            assert plan.predicted_ps <= shorter.predicted_ps

    @pytest.mark.grid(3)
    @pytest.mark.parametrize("name", BOARDS)
    @pytest.mark.parametrize("strategy", ["slab", "rows"])
    @pytest.mark.parametrize(
        ("shape", "count"), [((256, 512), 512), ((4, 20_000), 3000), ((64, 64), 64), ((1, 30_000), 60_000)]
    )
    def test_within_a_factor_of_two(self, name, strategy, shape, count):
        """Predictions choose between strategies whose times differ by more."""
        rng = np.random.default_rng(1)
        x = rng.standard_normal(shape, np.float32)
        index = rng.integers(0, shape[1], (shape[0], count)).astype(np.int32)
        result = ops.gather(x, index, 1, device=name, strategy=strategy)
        assert 0.5 < result.plan.predicted_ps / result.time_ps < 2


class TestNothingToSelect:
    def test_lookups_along_an_axis_without_elements_are_an_error(self):
        with pytest.raises(PlanError, match=r"x has shape \[0, 4\].* axes \[0\].* 12 lookups: make the index empty"):
            mlusim.plan("gather", (0, 4), (3, 4))
        with pytest.raises(PlanError, match=r"indexed axes \[0, 1\].* 2 lookups"):
            mlusim.plan("gather_nd", (0, 4), (2, 2), mode="standard")

    def test_an_empty_index_has_an_empty_plan(self):
        assert mlusim.plan("gather", (0, 4), (0, 4)).tier == 0

"""Plans of gather and scatter: every shape covered once, within NRAM, dealt out evenly; tiers by what fits; why."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlusim import ops
from mlusim.errors import InputError, PlanError
from mlusim.hardware import Board, board
from mlusim.ops.gather import plan_gather, plan_gather_nd
from mlusim.ops.scatter import plan_scatter, plan_scatter_nd

NAMES = st.sampled_from(["mlu270-s4", "mlu370-x4", "mlu290-m5", "mlu590-h8"])
STRATEGIES = ["slab", "rows"]


def small(name: str, nram_bytes: int) -> Board:
    return board(name).replace(nram_bytes=nram_bytes, nram_reserved_bytes=0)


@st.composite
def element_plans(draw):
    rank = draw(st.integers(1, 4))
    x = tuple(draw(st.integers(1, 40)) for _ in range(rank))
    axis = draw(st.integers(-rank, rank - 1))
    index = [draw(st.integers(0, extent)) for extent in x]
    index[axis] = draw(st.integers(0, 60))
    on = small(draw(NAMES), draw(st.sampled_from([2048, 4096, 65_536, 2**20])))
    return {
        "x_shape": x,
        "index_shape": tuple(index),
        "axis": axis,
        "dtype": draw(st.sampled_from(["int8", "float16", "float32", "int64"])),
        "index_dtype": draw(st.sampled_from(["int32", "int64"])),
        "device": on,
        "strategy": draw(st.sampled_from(["auto", *STRATEGIES])),
    }


def planned(plan_of, arguments):
    """The plan, or None where the strategy that is asked for does not fit, which `auto` never says on these boards."""
    try:
        return plan_of(**arguments)
    except PlanError as error:
        message = str(error)
    assert arguments["strategy"] != "auto"
    assert "usable NRAM" in message
    return None


class TestAnyShape:
    @given(element_plans(), st.sampled_from([plan_gather, plan_scatter]))
    @settings(deadline=None, max_examples=150)
    def test_the_output_is_covered_once_and_a_tile_fits(self, arguments, plan_of):
        plan = planned(plan_of, arguments)
        if plan is None:
            return
        plan.check()
        wanted = arguments["index_shape"] if plan_of is plan_gather else arguments["x_shape"]
        assert plan.output_shape == wanted
        assert plan.nram_bytes <= plan.board.nram_usable_bytes
        assert plan.reason
        assert plan.tier in ((0, 1, 2, 3) if arguments["strategy"] != "slab" else (0, 1, 2))

    @given(element_plans())
    @settings(deadline=None, max_examples=80)
    def test_tiles_of_a_gather_are_dealt_out_evenly(self, arguments):
        plan = planned(plan_gather, arguments)
        if plan is None or not plan.tier:
            return
        counts = np.bincount(plan.tiles.task, minlength=plan.tasks)
        counts = counts[: min(plan.tasks, len(plan.tiles))]
        assert counts.max() - counts.min() <= 1

    @given(
        st.tuples(st.integers(1, 30), st.integers(1, 30), st.integers(1, 30)),
        st.integers(1, 2),
        st.integers(0, 300),
        NAMES,
        st.sampled_from([4096, 65_536]),
    )
    @settings(deadline=None, max_examples=60)
    def test_rows_too(self, x, columns, count, name, nram_bytes):
        on = small(name, nram_bytes)
        plan = plan_gather_nd(x, (count, columns), mode="standard", device=on)
        plan.check()
        assert plan.output_shape == (count, *x[columns:])
        plan = plan_scatter_nd(x, (count, columns), (count, *x[columns:]), mode="standard", device=on)
        plan.check()
        assert plan.output_shape == x


class TestTiers:
    """16 rows of 32 float32: a slab of one row is 128 B, all of x 2048 B."""

    SHAPE = (16, 32)

    @pytest.mark.parametrize(("nram_bytes", "tier"), [(8192, 1), (2048, 2), (1024, 2)])
    def test_a_slab_is_whole_or_cut(self, nram_bytes, tier):
        on = small("mlu370-x4", nram_bytes).replace(clusters=1, cores_per_cluster=1)
        plan = plan_gather(self.SHAPE, self.SHAPE, 0, device=on, strategy="slab", index_dtype="int32")
        assert plan.tier == tier
        assert plan.parameters["strategy"] == "slab"

    def test_a_slab_that_does_not_fit(self):
        on = small("mlu370-x4", 1024)
        with pytest.raises(PlanError, match=r"the 1 600 B of x that an index can address and one lookup do not fit"):
            plan_gather((400, 2), (4, 2), 0, device=on, strategy="slab")
        plan = plan_gather((400, 2), (4, 2), 0, device=on)
        assert (plan.tier, plan.parameters["strategy"]) == (3, "rows")
        assert "slab does not fit" in plan.reason

    def test_not_one_lookup_fits(self):
        with pytest.raises(PlanError, match="give the board more nram_bytes or fewer nram_reserved_bytes"):
            plan_gather((400, 2), (4, 2), 0, device=small("mlu370-x4", 128))

    @pytest.mark.parametrize("plan_of", [plan_gather, plan_scatter])
    def test_the_reason_has_the_times_of_both_ways(self, plan_of):
        plan = plan_of((64, 64), (64, 64), 1)
        assert plan.reason.count(" us") == 2
        assert "slab" in plan.reason
        assert "rows" in plan.reason
        assert plan.predicted_ps > 0

    @pytest.mark.parametrize("plan_of", [plan_gather, plan_scatter])
    def test_auto_takes_what_is_predicted_to_be_faster(self, plan_of):
        for shape, axis in (((64, 64), 1), ((8, 4096), 1), ((2, 100_000), 1), ((50_000, 4), 0)):
            plans = {}
            for strategy in ("auto", *STRATEGIES):
                try:
                    plans[strategy] = plan_of(
                        shape, (shape[0], 16) if axis else (16, shape[1]), axis, strategy=strategy
                    )
                except PlanError:
                    assert strategy == "slab"
            auto = plans.pop("auto")
            assert auto.predicted_ps <= min(plan.predicted_ps for plan in plans.values())

    def test_nothing_to_do(self):
        plan = plan_gather((4, 4), (0, 4), 0)
        assert (plan.tier, len(plan.tiles)) == (0, 0)
        assert "no elements" in plan.reason
        plan = plan_scatter((4, 4), (0, 4), 0)
        assert "there are no updates: x is copied" in plan.reason
        assert plan.tier > 0

    def test_unknown_strategy(self):
        with pytest.raises(InputError, match=r"strategy='slap': did you mean 'slab'\?"):
            plan_gather((4, 4), (4, 4), 0, strategy="slap")


class TestScatterPartition:
    def test_each_place_belongs_to_one_task(self):
        """Last-wins needs no order between cores, because all updates of a place are the work of one."""
        plan = plan_scatter((7, 300), (7, 1000), 1, strategy="rows")
        owner = np.full(plan.output_shape, -1)
        regions = plan.parameters["regions"]
        for task in range(plan.tasks):
            for region in regions.of_task(task):
                box = tuple(slice(low, high) for low, high in zip(region.start, region.stop, strict=True))
                assert (owner[box] == -1).all()
                owner[box] = task
        assert (owner >= 0).all()
        for tile in plan.tiles:
            box = tuple(slice(low, high) for low, high in zip(tile.start, tile.stop, strict=True))
            assert (owner[box] == tile.task).all()


@pytest.mark.parametrize("name", ["mlu370-x4", "mlu590-h8", "mlu270-s4"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("operator", ["gather", "scatter"])
def test_predicted_times_are_of_the_right_size(name, strategy, operator):
    """Within a factor of two: they choose between ways that differ by more, and say so where they do not."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((256, 512), np.float32)
    index = rng.integers(0, 512, x.shape).astype(np.int32)
    inputs = (x, index) if operator == "gather" else (x, index, x)
    result = getattr(ops, operator)(*inputs, 1, device=name, strategy=strategy)
    assert 0.5 < result.plan.predicted_ps / result.time_ps < 2


@pytest.mark.parametrize("name", ["mlu370-x4", "mlu590-h8"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64"])
def test_kernels_in_little_nram_keep_the_last_of_thousands(name, strategy, dtype):
    """Four places of each row take all the updates, so that every core and chunk meets every place."""
    rng = np.random.default_rng(2)
    x = rng.integers(-99, 99, (3, 40)).astype(dtype)
    index = rng.integers(-4, 0, (3, 3000)).astype(np.int32)
    src = rng.integers(-99, 99, index.shape).astype(dtype)
    expected = x.copy()
    for row, column in np.ndindex(index.shape):
        expected[row, index[row, column]] = src[row, column]
    result = ops.scatter(x, index, src, 1, device=small(name, 4096), strategy=strategy)
    assert np.array_equal(result.output, expected)
    gathered = ops.gather(x, index, 1, device=small(name, 4096), strategy=strategy)
    assert np.array_equal(gathered.output, np.take_along_axis(x, index.astype(np.int64) % 40, 1))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("bad", [40, -41, 2**31 - 1])
def test_an_index_out_of_range_is_found_before_anything_runs(strategy, bad):
    x = np.zeros((3, 40), np.float32)
    index = np.zeros((3, 5), np.int32)
    index[2, 4] = bad
    for call in (
        lambda: ops.gather(x, index, 1, strategy=strategy),
        lambda: ops.scatter(x, index, np.ones((3, 5), np.float32), 1, strategy=strategy),
        lambda: ops.gather_nd(x, index[:, :1] * 0 + bad, mode="standard", strategy=strategy),
        lambda: ops.scatter_nd(x, index[:, :1] * 0 + bad, np.ones((3, 40), np.float32), mode="standard"),
    ):
        with pytest.raises(InputError, match=rf"{bad}"):
            call()
    assert not x.any()

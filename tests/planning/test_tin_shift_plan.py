"""Plans of tin_shift: every shape is covered once, fits and is balanced; each strategy splits as defined."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlusim.errors import PlanError
from mlusim.hardware import Board, board
from mlusim.ops import tin_shift_forward
from mlusim.planning.plan import Plan
from mlusim.planning.tin_shift import STRATEGIES, plan_tin_shift

REAL = board("mlu370-x4")
F16, F32 = np.dtype(np.float16), np.dtype(np.float32)


def small(nram_bytes: int, name: str = "mlu370-x4") -> Board:
    return board(name).replace(nram_bytes=nram_bytes, nram_reserved_bytes=0)


def boxes_of(plan: Plan, task: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(tile.start, tile.stop) for tile in plan.tiles_of(task)]


@st.composite
def plans(draw: st.DrawFn) -> tuple[Plan, int]:
    groups = draw(st.integers(1, 4))
    shape = (
        draw(st.integers(1, 5)),
        draw(st.integers(0, 40)),
        groups * draw(st.integers(1, 9)),
        draw(st.integers(1, 200)),
    )
    on = draw(st.sampled_from([128, 256, 300, 1000, 4096, 655_360]).map(small))
    strategy = draw(st.sampled_from(list(STRATEGIES)))
    clusters = draw(st.integers(1, 8))
    dtype = draw(st.sampled_from([F16, F32]))
    try:
        return plan_tin_shift(on.replace(clusters=clusters), shape, groups, dtype, strategy), groups
    except PlanError:
        # Half of 128 B is less than one aligned allocation.
        assert (strategy, on.nram_bytes) == ("pingpong", 128) or shape[1] == 0
        return plan_tin_shift(small(256), shape, groups, dtype, strategy), groups


class TestAnyShape:
    @given(plans())
    def test_covered_once_and_fits(self, planned: tuple[Plan, int]) -> None:
        planned[0].check()

    @given(plans())
    def test_dealt_out_evenly(self, planned: tuple[Plan, int]) -> None:
        plan, _ = planned
        if not plan.tier:
            return
        tiles = plan.tiles
        # A row that is walked in chunks is one item of one core.
        first = tiles.start[:, 3] == 0
        items = np.bincount(tiles.task[first], minlength=plan.tasks)
        assert items.max() - items.min() <= 1
        if plan.strategy != "shipped":
            largest = plan.output_shape[3] if plan.tier == 3 else int(tiles.elements().max())
            loads = plan.elements_by_task()
            assert loads.max() - loads.min() <= largest
            assert plan.tasks - min(len(tiles), plan.tasks) < plan.board.cores_per_cluster

    @given(plans())
    def test_tiles_are_what_a_kernel_can_copy_at_once(self, planned: tuple[Plan, int]) -> None:
        plan, groups = planned
        if not plan.tier:
            return
        batch, rows, channels, elements = (plan.tiles.stop - plan.tiles.start).T
        hw = plan.output_shape[3]
        per_group = plan.output_shape[2] // groups
        last_channel = plan.tiles.stop[:, 2] - 1
        assert (batch == 1).all()
        assert (rows <= 65536).all()
        assert (plan.tiles.start[:, 2] // per_group == last_channel // per_group).all()
        assert ((elements == hw) | (rows * channels == 1)).all()
        buffer = plan.nram_bytes // plan.parameters.buffers
        assert buffer % plan.board.vector_alignment_bytes == 0
        assert int((rows * channels * elements).max()) * plan.itemsize <= buffer

    @given(plans())
    def test_explain_shows_every_line_of_the_plan(self, planned: tuple[Plan, int]) -> None:
        plan, _ = planned
        text = plan.explain()
        assert f"strategy {plan.strategy}" in text
        assert plan.reason in text


class TestDocumented:
    def test_whole_channels_are_dealt_out_in_turn(self) -> None:
        plan = plan_tin_shift(REAL, (2, 8, 256, 196), 4, F16, "documented")
        assert (plan.tier, plan.kind, plan.dim) == (1, "UNION1", (4, 8, 1))
        assert plan.unit_bytes == 8 * 196 * 2
        assert plan.reason == "a unit of 3 136 B fits in a buffer of 655 360 B"
        assert plan.arithmetic == (
            "usable NRAM 655 360 B; 655 360 B // 3 136 B per unit = 208 units",
            "512 items: assigned to 32 tasks in turn, largest first",
        )
        assert boxes_of(plan, 3)[:2] == [((0, 0, 3, 0), (1, 8, 4, 196)), ((0, 0, 35, 0), (1, 8, 36, 196))]
        assert boxes_of(plan, 31)[-1] == ((1, 0, 255, 0), (2, 8, 256, 196))

    def test_time_is_cut_into_segments_with_a_short_last_one(self) -> None:
        # A row is 64 B: 4 of 10 fit in 256 B. The short segments are dealt last, so both tasks get their share.
        plan = plan_tin_shift(small(256).replace(cores_per_cluster=2, clusters=1), (1, 10, 2, 16), 1, F32, "documented")
        assert plan.tier == 2
        assert plan.arithmetic[-2] == "10 rows = 3 segments of up to 4, the last of 2"
        rows = [[(start[2], start[1], stop[1]) for start, stop in boxes_of(plan, task)] for task in range(2)]
        assert rows == [[(0, 0, 4), (0, 8, 10), (1, 0, 4)], [(0, 4, 8), (1, 4, 8), (1, 8, 10)]]

    def test_the_chunks_of_a_row_belong_to_one_core(self) -> None:
        plan = plan_tin_shift(small(256), (1, 2, 3, 150), 1, F32, "documented")
        assert plan.tier == 3
        assert boxes_of(plan, 1) == [
            ((0, 1, 0, 0), (1, 2, 1, 64)),
            ((0, 1, 0, 64), (1, 2, 1, 128)),
            ((0, 1, 0, 128), (1, 2, 1, 150)),
        ]

    def test_fewer_clusters_for_fewer_units(self) -> None:
        assert plan_tin_shift(REAL, (1, 8, 7, 4), 1, F32, "documented").dim == (4, 2, 1)

    def test_more_rows_than_one_copy_takes(self) -> None:
        plan = plan_tin_shift(REAL, (1, 70_000, 1, 1), 1, F16, "documented")
        assert plan.tier == 2
        assert plan.tiles.stop[:, 1].tolist() == [65_536, 70_000]
        assert "segnum 65 535" in plan.reason

    def test_an_input_without_frames_is_tier_0(self) -> None:
        plan = plan_tin_shift(REAL, (1, 0, 4, 4), 1, F32, "documented")
        assert (plan.tier, len(plan.tiles)) == (0, 0)
        assert "tier       0 (nothing to do): T is 0" in plan.explain()
        assert "launch     none" in plan.explain()


class TestShipped:
    @pytest.mark.parametrize(("items", "clusters"), [(1, 1), (3, 1), (7, 1), (8, 2), (31, 7), (32, 8), (500, 8)])
    def test_floor_division_of_the_tasks(self, items: int, clusters: int) -> None:
        plan = plan_tin_shift(REAL, (1, 8, items, 4), 1, F32, "shipped")
        assert plan.dim == (4, clusters, 1)
        assert plan.elements_by_task().sum() == items * 32

    def test_floor_division_runs_seven_items_on_four_tasks(self) -> None:
        plan = plan_tin_shift(REAL, (1, 8, 7, 4), 1, F32, "shipped")
        assert np.bincount(plan.tiles.task).tolist() == [2, 2, 2, 1]
        assert plan.arithmetic[-1] == "7 items: dim.y = min(7, 32 cores) // 4 = 1; assigned to 4 tasks in turn"

    def test_shipped_allocates_all_nram_for_every_item(self) -> None:
        assert plan_tin_shift(REAL, (1, 8, 7, 4), 1, F32, "shipped").nram_bytes == 655_360
        assert plan_tin_shift(REAL, (1, 8, 7, 4), 1, F32, "documented").nram_bytes == 128

    def test_segments_in_their_own_order(self) -> None:
        plan = plan_tin_shift(small(256), (1, 6, 2, 16), 1, F32, "shipped")
        assert plan.tiles.task.tolist() == [0, 1, 2, 3]
        assert plan.tiles.start[:, 1:3].tolist() == [[0, 0], [4, 0], [0, 1], [4, 1]]


class TestBatched:
    def test_blocks_stay_within_their_group(self) -> None:
        # One core: the fewest copies win. Two units of 96 B fit in 256 B; a group has five channels.
        alone = small(256).replace(cores_per_cluster=1, clusters=1)
        plan = plan_tin_shift(alone, (1, 3, 10, 8), 2, F32, "batched")
        first, last = plan.tiles.start[:, 2], plan.tiles.stop[:, 2]
        assert (first // 5 == (last - 1) // 5).all()
        assert plan.arithmetic[-2].startswith("5 channels per group in ")

    def test_no_core_is_left_idle_for_larger_blocks(self) -> None:
        # 64 channels fit at once, and 32 cores want two each.
        plan = plan_tin_shift(REAL, (1, 8, 64, 196), 1, F32, "batched")
        assert len(plan.tiles) == plan.tasks == 32

    def test_a_unit_that_does_not_fit_is_split_as_in_tight(self) -> None:
        batched, tight = (plan_tin_shift(small(256), (1, 10, 4, 16), 2, F32, name) for name in ("batched", "tight"))
        assert batched.tier == tight.tier == 2
        rows = batched.tiles.stop[:, 1] - batched.tiles.start[:, 1]
        assert rows.max() - rows.min() <= 1


class TestPingpong:
    def test_tiles_fit_in_half_the_nram(self) -> None:
        whole = plan_tin_shift(small(1024), (1, 8, 1, 16), 1, F32, "pingpong")
        cut = plan_tin_shift(small(1024), (1, 9, 1, 16), 1, F32, "pingpong")
        assert whole.nram_bytes <= cut.board.nram_usable_bytes == 1024
        assert cut.tier == 2
        assert cut.nram_bytes <= 1024
        assert max(cut.tiles.stop[:, 1].tolist()) == 9


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name not in ("auto", "pingpong")])
def test_nram_too_small_for_an_element_is_an_error(strategy: str) -> None:
    with pytest.raises(PlanError, match="no element of 4 B fits; give the board more nram_bytes"):
        plan_tin_shift(small(127), (1, 2, 2, 2), 1, F32, strategy)


class TestAuto:
    """On boards and shapes that it was not tuned to: the choice is not always the fastest, but never far from it."""

    @pytest.mark.parametrize("name", ["mlu370-x4", "mlu290-m5", "mlu590-h8", "mlu270-s4"])
    @pytest.mark.parametrize(
        ("shape", "groups"),
        [((4, 8, 64, 196), 4), ((1, 16, 3, 12_544), 3), ((2, 2, 256, 49), 1), ((1, 4, 2, 100_000), 2)],
    )
    def test_is_near_the_fastest(self, name: str, shape: tuple[int, int, int, int], groups: int) -> None:
        x = np.zeros(shape, np.float32)
        shifts = np.random.default_rng(3).integers(-2, 3, (shape[0], groups)).astype(np.int32)
        times = {
            strategy: tin_shift_forward(x, shifts, device=name, strategy=strategy, data=False).time_ps
            for strategy in STRATEGIES
        }
        assert times["auto"] <= 1.2 * min(times.values())
        assert times["auto"] in (times["batched"], times["pingpong"])

    def test_says_why(self) -> None:
        plan = plan_tin_shift(board("mlu370-x4"), (4, 8, 64, 196), 4, F32, "auto")
        assert plan.strategy == "batched"
        assert re.search(r"; predicted: batched [\d.]+ us, pingpong [\d.]+ us$", plan.reason)
        assert plan.predicted_ps

    def test_takes_what_fits(self) -> None:
        plan = plan_tin_shift(small(128), (1, 2, 1, 40), 1, F32, "auto")
        assert plan.strategy == "batched"
        with pytest.raises(PlanError, match="no element"):
            plan_tin_shift(small(100), (1, 2, 1, 40), 1, F32, "auto")

"""The split of reverse: groups, tiers, methods, and the predicted times that decide."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlusim
from mlusim.errors import InputError, PlanError
from mlusim.planning.reverse import STRATEGIES, plan_reverse
from mlusim.planning.reverse_groups import Group, coalesce, method_of, mirrored_index
from operator_runs import small

SHAPES = st.lists(st.integers(1, 7), max_size=6).map(tuple)
NAMES = ("mlu270-s4", "mlu370-x4", "mlu590-h8")


@st.composite
def shapes_and_axes(draw):
    shape = draw(SHAPES)
    return shape, tuple(axis for axis in range(len(shape)) if draw(st.booleans()))


class TestGroups:
    @pytest.mark.parametrize(
        ("shape", "axes", "groups"),
        [
            ((2, 3, 4), (), [(24, False)]),
            ((2, 3, 4), (0, 1, 2), [(24, True)]),
            ((2, 3, 4), (0, 1), [(6, True), (4, False)]),
            ((2, 3, 4), (0, 2), [(2, True), (3, False), (4, True)]),
            ((2, 1, 4), (0, 2), [(8, True)]),
            ((2, 1, 4), (1,), [(8, False)]),
            ((1, 1), (0, 1), [(1, False)]),
            ((), (), [(1, False)]),
        ],
    )
    def test_by_hand(self, shape, axes, groups):
        assert coalesce(shape, axes) == tuple(Group(*group) for group in groups)

    @given(shapes_and_axes())
    def test_reversing_the_groups_is_reversing_the_axes(self, drawn):
        shape, axes = drawn
        x = np.arange(math.prod(shape)).reshape(shape)
        groups = coalesce(shape, axes)
        assert all(group.flipped != other.flipped for group, other in pairwise(groups))
        merged = x.reshape([group.extent for group in groups])
        turned = np.flip(merged, [axis for axis, group in enumerate(groups) if group.flipped])
        assert np.array_equal(turned.reshape(shape), np.flip(x, axes))

    @given(shapes_and_axes())
    def test_mirrored_index(self, drawn):
        groups = coalesce(*drawn)
        extents = [group.extent for group in groups]
        x = np.arange(math.prod(extents)).reshape(extents)
        turned = np.flip(x, [axis for axis, group in enumerate(groups) if group.flipped]).reshape(-1)
        assert [mirrored_index(index, groups) for index in range(x.size)] == turned.tolist()

    @given(shapes_and_axes(), st.data())
    def test_mirrors_from_each_pass_inwards_reverse_the_groups(self, drawn, data):
        groups = coalesce(*drawn)
        pivot = data.draw(st.integers(0, len(groups) - 1))
        extents = [group.extent for group in groups[pivot:]]
        x = np.arange(math.prod(extents))
        turned = x
        for first in method_of(groups, pivot, "mirror").passes:
            turned = turned.reshape(-1, math.prod(extents[first - pivot :]))[:, ::-1].reshape(-1)
        axes = [axis for axis, group in enumerate(groups[pivot:]) if group.flipped]
        assert np.array_equal(turned, np.flip(x.reshape(extents), axes).reshape(-1))

    @pytest.mark.parametrize(
        ("name", "segment", "passes"),
        [("mirror", 0, (0, 1, 2)), ("mixed", 1, (2,)), ("strided", 3, ())],
    )
    def test_mirror_passes_of_a_reversed_row(self, name, segment, passes):
        method = method_of(coalesce((4, 5, 6), (0, 2)), 0, name)
        assert (method.segment, method.passes) == (segment, passes)

    @pytest.mark.parametrize(
        ("name", "segment", "passes"), [("mirror", 0, (0, 1)), ("mixed", 1, ()), ("strided", 1, ())]
    )
    def test_mirror_passes_of_a_row_that_is_not_reversed(self, name, segment, passes):
        method = method_of(coalesce((4, 5), (0,)), 0, name)
        assert (method.segment, method.passes) == (segment, passes)


class TestPlans:
    @given(
        shapes_and_axes(),
        st.sampled_from(NAMES),
        st.sampled_from([1024, 2048, 1 << 14, 1 << 19]),
        st.sampled_from([1, 2, 4, 8, 16]),
        st.sampled_from([*STRATEGIES]),
    )
    @settings(deadline=None, max_examples=50)
    def test_every_plan_covers_its_output_and_fits(self, drawn, name, nram_bytes, itemsize, strategy):
        shape, axes = drawn
        plan = plan_reverse(small(name, nram_bytes), shape, axes, itemsize, strategy)
        plan.check()
        assert math.prod(plan.output_shape) == math.prod(shape)
        assert strategy in {plan.strategy, "auto"}
        assert plan.strategy in STRATEGIES
        assert plan.nram_bytes <= nram_bytes
        assert plan.tasks <= plan.board.cores
        counts = np.bincount(plan.tiles.task, minlength=plan.tasks)
        assert counts.max() - counts.min() <= 1
        assert plan.predicted_ps > 0

    # 4096 B of NRAM: 4 buffers of 1024 B for a mirror, 2 of 2048 B without, or half as many twice as large.
    @pytest.mark.parametrize(
        ("shape", "axis", "strategy", "tier", "reason"),
        [
            ((64, 16), 1, "mirror", 1, r"a slice of 64 B fits in NRAM, up to \d+ per tile"),
            ((640, 16, 16), 1, "strided", 1, "a slice of 1 024 B fits in NRAM, up to . per tile"),
            ((64, 256), 0, "strided", 2, "a slice of 65 536 B is cut along its outer axes into .* parts of up to .* B"),
            ((3, 64, 256), (1, 2), "mirror", 3, r"a slice of 65 536 B is cut into \d+ parts"),
            ((3, 64, 5, 16), (1, 3), "mixed", 2, "a slice of 20 480 B is cut along its outer axes"),
            ((2, 5000), 1, "mirror", 3, "a slice of 20 000 B is cut into .* parts of up to .* B"),
            ((2, 5000), 0, "strided", 3, r"a row of 20 000 B is cut into \d+ parts"),
            ((0, 5000), 0, "auto", 0, "no elements, so nothing is launched"),
        ],
    )
    def test_tiers(self, shape, axis, strategy, tier, reason):
        plan = mlusim.plan("reverse", shape, axis=axis, device=small("mlu370-x4", 4096), strategy=strategy)
        plan.check()
        assert plan.tier == tier
        assert re.search(reason, plan.reason)
        assert plan.reason in plan.explain()

    def test_a_slice_that_fits_is_cut_to_occupy_the_cores(self):
        plan = mlusim.plan("reverse", (3, 256, 256), axis=1, strategy="strided")
        plan.check()
        assert plan.tier == 2
        assert re.search(r"a slice of 262 144 B is cut .* to occupy .* cores, although it would fit", plan.reason)

    def test_chunks_of_a_row_are_loaded_from_mirrored_positions(self):
        plan = mlusim.plan("reverse", (2, 5000), axis=1, device=small("mlu370-x4", 4096), strategy="mirror")
        (starts, stops) = (plan.tiles.start[:, 1], plan.tiles.stop[:, 1])
        assert plan.output_shape == (2, 5000, 1)
        assert all(start % 16 == 0 for start in starts), "chunks of the output begin at whole bus units"
        assert (stops - starts).max() * 4 <= 4096 // 2

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize(
        ("shape", "axis", "wins"),
        [
            ((2048, 2048), 1, "mirror"),  # a segment for each element against one vector instruction
            ((100_000, 3), 0, "mirror"),  # rows of 12 B
            ((64, 65536), 0, "strided"),  # runs of 256 KiB are their own tiles
            ((4, 5, 100, 300), (0, 3), "mirror"),
        ],
    )
    def test_auto_chooses_the_shortest_predicted_time(self, name, shape, axis, wins):
        plan = mlusim.plan("reverse", shape, axis=axis, device=name)
        times = {
            strategy: mlusim.plan("reverse", shape, axis=axis, device=name, strategy=strategy).predicted_ps
            for strategy in STRATEGIES
        }
        assert plan.strategy == wins
        assert plan.predicted_ps == times[wins] <= 1.06 * min(times.values())

    def test_the_reason_has_the_predicted_times_of_all_strategies(self):
        plan = mlusim.plan("reverse", (4, 1000, 300), axis=(1, 2))
        assert plan.strategy == "mirror"
        assert re.search(
            r"; predicted: mirror \d+\.\d\d us \(contiguous, 1 mirror\), "
            r"strided [\d ]+\.\d\d us \(1 200 000 segments of 1 element, 0 mirrors\)$",
            plan.reason,
        )
        assert plan.arithmetic[0] == "[4, 1000, 300] reversed along [1, 2] is 4 x 300 000 reversed"

    def test_few_elements_are_loaded_backward(self):
        # A mirror costs 64 cycles of start-up and a sync; a segment of a load 9 ns on this board.
        plan = mlusim.plan("reverse", (4,), axis=0, device="mlu590-h8")
        assert plan.strategy == "strided"
        assert "strided " in plan.reason

    def test_errors(self):
        for strategy, needed in (("auto", "1 buffer of 128 B"), ("mirror", "2 buffers of 128 B")):
            message = rf"^mlu370-x4 has 64 B of usable NRAM, and reverse, strategy {strategy}, needs {needed}; give "
            with pytest.raises(PlanError, match=message):
                mlusim.plan("reverse", (8,), axis=0, device=small("mlu370-x4", 64), strategy=strategy)
        with pytest.raises(InputError, match=r"^strategy='mirrored': did you mean mirror\? choose one of auto"):
            mlusim.plan("reverse", (8,), axis=0, strategy="mirrored")

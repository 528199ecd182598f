"""Common parts of the planners: distribution, launches, cuts and boxes."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlusim.errors import InputError
from mlusim.hardware import Board, board
from mlusim.planning.split import (
    boxes,
    cut,
    cut_evenly,
    in_runs,
    in_turn,
    union1_launch,
)

REAL = board("mlu370-x4")


def small(nram_bytes: int, reserved_bytes: int = 0) -> Board:
    return REAL.replace(nram_bytes=nram_bytes, nram_reserved_bytes=reserved_bytes)


class TestDealing:
    def test_equal_items_are_dealt_out_round_robin(self) -> None:
        assert in_turn(np.full(7, 5), 3).tolist() == [0, 1, 2, 0, 1, 2, 0]

    def test_short_items_are_spread_over_tasks(self) -> None:
        # In their own order two tasks would take 9 + 9 + 9 and 1 + 1 + 1.
        sizes = np.array([9, 1, 9, 1, 9, 1])
        task = in_turn(sizes, 2)
        assert sorted(np.bincount(task, sizes).tolist()) == [11, 19]
        assert task.tolist() == [0, 1, 1, 0, 0, 1]

    @given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 9))
    def test_no_two_tasks_differ_by_more_than_an_item(self, sizes: list[int], tasks: int) -> None:
        task = in_turn(np.array(sizes), tasks)
        counts = np.bincount(task, minlength=tasks)
        loads = np.bincount(task, sizes, minlength=tasks)
        assert counts.max() - counts.min() <= 1
        assert loads.max() - loads.min() <= max(sizes)

    @given(st.integers(0, 100), st.integers(1, 20))
    def test_runs_are_contiguous_and_even(self, count: int, tasks: int) -> None:
        expected = [np.full(len(part), task) for task, part in enumerate(np.array_split(np.arange(count), tasks))]
        assert in_runs(count, tasks).tolist() == np.concatenate(expected).tolist()


class TestLaunch:
    @pytest.mark.parametrize(("units", "clusters"), [(0, 1), (1, 1), (4, 1), (5, 2), (32, 8), (33, 8), (10**6, 8)])
    def test_no_more_clusters_than_units_occupy(self, units: int, clusters: int) -> None:
        assert union1_launch(REAL, units) == ("UNION1", (4, clusters, 1))


class TestBoxes:
    @given(st.integers(1, 50), st.integers(1, 60))
    def test_cut_leaves_a_short_last_part(self, extent: int, size: int) -> None:
        starts, stops = cut(extent, size)
        expected = [(low, min(low + size, extent)) for low in range(0, extent, size)]
        assert list(zip(starts.tolist(), stops.tolist(), strict=True)) == expected

    @given(st.integers(1, 50), st.integers(1, 50))
    def test_even_parts_differ_by_one(self, extent: int, parts: int) -> None:
        starts, stops = cut_evenly(extent, min(parts, extent))
        assert starts[0] == 0
        assert stops[-1] == extent
        assert (starts[1:] == stops[:-1]).all()
        assert set((stops - starts).tolist()) <= {extent // len(starts), -(-extent // len(starts))}

    @given(st.permutations(range(3)), st.tuples(*[st.integers(0, 4)] * 3))
    def test_boxes_are_nested_loops(self, order: list[int], extents: tuple[int, ...]) -> None:
        cuts = [cut(extent, 1) for extent in extents]
        start, stop = boxes(cuts, order)
        expected = []
        for at in itertools.product(*(range(extents[axis]) for axis in order)):
            box = [0, 0, 0]
            for axis, index in zip(order, at, strict=True):
                box[axis] = index
            expected.append(box)
        assert start.tolist() == expected
        assert stop.tolist() == [[index + 1 for index in box] for box in expected]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cut(10, 0), r"^cut: size=0: pass an integer of at least 1$"),
        (lambda: cut(10, 2.5), r"^cut: size=2\.5: pass an integer of at least 1$"),
        (lambda: cut(-1, 3), r"^cut: extent=-1: pass an integer of at least 0$"),
        (lambda: cut_evenly(10, 0), r"^cut_evenly: parts=0: pass an integer of at least 1$"),
        (lambda: in_turn(np.ones(3), 0), r"^in_turn: tasks=0: pass an integer of at least 1$"),
        (lambda: in_runs(3, -1), r"^in_runs: tasks=-1: pass an integer of at least 1$"),
        (
            lambda: boxes([cut(10, 3), cut(5, 5)], [0]),
            r"^boxes: order=\[0\] for the cuts of 2 axes: name each axis once$",
        ),
        (lambda: boxes([cut(10, 3)], [1]), r"^boxes: order=\[1\] for the cuts of 1 axes: name each axis once$"),
    ],
)
def test_arguments_that_no_split_has(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (lambda: cut(10**30, 2), f"cut: extent={10**30}, size=2"),
        (lambda: cut(10**30, 10**29), f"cut: extent={10**30}, size={10**29}"),
        (lambda: cut_evenly(4, 10**30), f"cut_evenly: extent=4, parts={10**30}"),
        (lambda: in_runs(4, 10**30), f"runs: count=4, tasks={10**30}"),
        (lambda: in_turn(np.ones(2, int), 10**30), f"in_turn: tasks={10**30}"),
        (lambda: in_runs(10**30, 4), f"runs: count={10**30}, tasks=4"),
    ],
)
def test_more_parts_than_can_be_listed_are_refused(call: Callable[[], object], given: str) -> None:
    with pytest.raises(InputError, match=rf"^{given}: at most 2147483647 parts, .*; use a smaller extent$"):
        call()


def test_a_part_larger_than_the_extent_is_the_whole_extent() -> None:
    assert [part.tolist() for part in cut(5, 10**30)] == [[0], [5]]
    assert [part.tolist() for part in cut(0, 10**30)] == [[], []]


def test_integers_of_numpy_of_any_width() -> None:
    """They neither wrap nor overflow: int8 has no 127 + 1."""
    for narrow, parts in ((np.int8, 127), (np.int32, 50_000), (np.uint64, 7)):
        for function in (cut, cut_evenly):
            expected = [part.tolist() for part in function(100_000, parts)]
            assert [part.tolist() for part in function(np.int32(100_000), narrow(parts))] == expected
        assert in_runs(100, narrow(100)).tolist() == [*range(100)]
        assert union1_launch(REAL, narrow(parts)) == union1_launch(REAL, parts)

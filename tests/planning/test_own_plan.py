"""User-defined plans from tiles, and plans as JSON."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import mlusim
from mlusim import AllocationError, InputError, Plan, PlanError, Tiles


def own(task=(0, 1), start=((0, 0), (2, 0)), stop=((2, 3), (5, 3)), nram_bytes=64, **options):
    return Plan.from_tiles(Tiles(task, start, stop, nram_bytes), (5, 3), "float16", **options)


def test_omitted_arguments_come_from_the_board():
    plan = own(device="mlu590-h8", name="mine")
    board = mlusim.board("mlu590-h8")
    assert (plan.kind, plan.dim) == ("UNION1", (board.cores_per_cluster, board.clusters, 1))
    assert (plan.output_shape, plan.itemsize, plan.nram_bytes) == ((5, 3), 2, 64)
    assert plan.unit == "the largest tile, 3 x 3 elements of 2 B"
    plan.check()
    assert plan.explain().startswith("mine on mlu590-h8, strategy own\n  output     [5, 3] of 2 B\n")
    assert own(kind="BLOCK", dim=(2, 1, 1), parameters={"n": 1}).parameters == {"n": 1}


def test_axes_that_no_tile_splits_cost_nothing():
    """A grid of all borders would have 2^60 cells."""
    stop = [(1,) * 30 + (row,) + (1,) * 30 for row in (2, 5)]
    tiles = Tiles((0, 1), [(0,) * 61, (0,) * 30 + (2,) + (0,) * 30], stop, 64)
    Plan.from_tiles(tiles, stop[1], "int8").check()
    missing = Plan.from_tiles(Tiles((0,), [(0,) * 61], stop[:1], 64), stop[1], "int8")
    with pytest.raises(PlanError, match=r"elements \[(0, ){30}2, .* are never written"):
        missing.check()


def test_a_tensor_that_the_board_cannot_hold_has_no_plan():
    message = (
        r"^flip: x takes 68 719 476 736 B \(64 GiB\): it can never fit in the GDRAM of mlu370-x4, .* choose a smaller "
        r"shape"
    )
    with pytest.raises(AllocationError, match=message):
        mlusim.plan("flip", (2**34,), axis=0)


def test_many_cuts_of_several_axes_are_counted_part_by_part():
    """A grid of all cuts would have 3000^3 cells."""
    start = np.repeat(np.arange(3000), 3).reshape(3000, 3)
    with pytest.raises(PlanError, match=r"elements \[0, 0, 1\] to \[1, 1, 2\] .* are never written"):
        Plan.from_tiles(Tiles(start[:, 0] % 32, start, start + 1, 64), (3000, 3000, 3000)).check()


def test_a_part_that_a_tile_covers_twice_is_found_in_any_part(monkeypatch):
    monkeypatch.setattr("mlusim.planning.tiles._MAX_CELLS", 4)
    rows, columns = np.divmod(np.arange(64), 8)
    start = np.stack([rows, columns], axis=1)
    Plan.from_tiles(Tiles(rows, start, start + 1, 64), (8, 8)).check()
    stop = start + 1
    stop[37] += (0, 1)
    with pytest.raises(PlanError, match=r"elements \[4, 6\] to \[5, 7\] .* written 2 times by tasks \[4, 4\]"):
        Plan.from_tiles(Tiles(rows, start, stop, 64), (8, 8)).check()


@pytest.mark.parametrize(
    ("tasks", "message"), [((), "are never written"), ((0, 1), r"are written 2 times by tasks \[0, 1\]")]
)
def test_one_tile_covers_an_output_of_rank_0(tasks, message):
    Plan.from_tiles(Tiles([0], np.empty((1, 0)), np.empty((1, 0)), 4), ()).check()
    corners = np.empty((len(tasks), 0))
    with pytest.raises(PlanError, match=message):
        Plan.from_tiles(Tiles(tasks, corners, corners, 4), ()).check()


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"stop": ((2, 3), (4, 3))}, r"elements \[4, 0\] to \[5, 3\] of the output \[5, 3\] are never written"),
        ({"start": ((0, 0), (1, 0))}, r"elements \[1, 0\] to \[2, 3\] .* written 2 times by tasks \[0, 1\]"),
        (
            {"task": (0, 32)},
            r"a tile is assigned to task 32, and the grid has tasks 0 to 31; assign it to one of these, or change dim$",
        ),
        (
            {"task": (-1, 0)},
            r"a tile is assigned to task -1, and the grid has tasks 0 to 31; assign it to one of these, or change dim$",
        ),
        ({"nram_bytes": (64, 700_000)}, r"a tile needs 700 000 B .* of NRAM and mlu370-x4 has 655 360 B"),
    ],
)
def test_check_names_the_fault_of_a_plan(plan, message):
    with pytest.raises(PlanError, match=message):
        own(**plan).check()


@pytest.mark.parametrize("task", [-1, 1.0, "0", None], ids=repr)
def test_tiles_of_a_task_that_does_not_exist_are_an_error(task):
    with pytest.raises(
        PlanError, match=r"^tiles of task .*: pass its number, core\.task_id, an integer of at least 0$"
    ):
        list(own().tiles_of(task))
    assert [tile.start for tile in own().tiles_of(1)] == [(2, 0)]
    assert list(own().tiles_of(9)) == []


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"task": (0, 1, 2)}, "^3 tasks for 2 boxes: each tile has one task and one box$"),
        ({"task": (0,), "start": ((0, 0),)}, "^1 task for 2 boxes: "),
        ({"task": ("a", "b")}, r"^task of Tiles is \('a', 'b'\): it must be an array of integers$"),
        ({"task": ((0, 1), (2, 3))}, r"^task of Tiles has shape \[2, 2\]: give one task for each tile$"),
        ({"start": (1,)}, r"^start of Tiles has shape \[1\] for 2 tasks: it is \(tiles, rank\)$"),
        ({"task": 0}, "^task of Tiles is 0: pass an array with an entry for each tile$"),
        ({"stop": 3}, "^stop of Tiles is 3: pass an array with an entry for each tile$"),
        ({"start": ((0, 0), (2,))}, "^start of Tiles is .*: it must be an array of integers$"),
        (
            {"stop": ((2, 3), (5, 2.5))},
            r"^stop of Tiles holds 2\.5: it must be an array of integers of 64 bits; round fr",
        ),
        (
            {"stop": ((2, 3), (5, 1 << 63))},
            r"^stop of Tiles holds 9\.22\S+: it must be an array of integers of 64 bits",
        ),
        ({"stop": (("2", "3"), ("5", "3"))}, r"^stop of Tiles is .*: it must be an array of integers$"),
        ({"start": ((0,), (2,))}, "^start has 1 coordinate and stop 2: both need one for each axis of the output$"),
        ({"nram_bytes": (1, -2)}, "^nram_bytes holds -2: a tile needs 0 bytes or more$"),
        ({"nram_bytes": (1, 2, 3)}, "^3 values of nram_bytes for 2 tasks: give one for each tile, or one for all$"),
    ],
)
def test_columns_that_are_no_tiles_are_refused(columns, message):
    with pytest.raises(PlanError, match=message):
        own(**columns)


def test_a_plan_that_is_wrong_can_be_explained():
    assert "tier       7 (unknown)" in own(tier=7).explain()
    assert "0.0 % even" in own(start=((2, 3), (5, 3))).explain()
    for task in (-1, 1 << 40):
        with pytest.raises(PlanError, match=rf"a tile is assigned to task {task}, and the grid has tasks 0 to 31;"):
            own(task=(task, 0)).explain()


def test_whole_floats_are_integers():
    assert own(start=np.array([[0.0, 0], [2, 0]])).to_json()["boxes"][1]["start"] == (2, 0)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"start": ((0,), (2,)), "stop": ((2,), (5,))},
            r"^the tiles have 1 coordinate, and the output \[5, 3\] has rank 2",
        ),
        ({"stop": ((2, 3), (6, 3))}, r"^tile 1 \(task 1\) is \[2, 0\] to \[6, 3\], empty or outside .*; clip stop "),
    ],
)
def test_tiles_of_another_rank_or_beyond_the_output(columns, message):
    with pytest.raises(PlanError, match=message):
        own(**columns).check()


def test_no_tiles_cover_an_output_of_no_elements():
    plan = Plan.from_tiles(Tiles((), np.empty((0, 2)), np.empty((0, 2)), 0), (0, 3))
    plan.check()
    assert plan.to_json()["boxes"] == []


def test_json_has_the_figures_and_every_box():
    plan = own(task=(1, 1))
    found = json.loads(json.dumps(plan.to_json()))
    assert found["tiles_by_task"] == [0, 2, *[0] * 30]
    assert found["elements_by_task"] == [0, 15, *[0] * 30]
    assert found["boxes"] == [
        {"task": 1, "iteration": 0, "start": [0, 0], "stop": [2, 3], "nram_bytes": 64},
        {"task": 1, "iteration": 1, "start": [2, 0], "stop": [5, 3], "nram_bytes": 64},
    ]
    assert {**found, "boxes": None} == {**json.loads(json.dumps(plan.to_json(boxes=False))), "boxes": None}


def test_json_of_a_plan_with_nothing_to_do():
    plan = mlusim.plan("bitcast_convert", (4,), dtype="int32", input_dtype="float32")
    found = plan.to_json()
    assert (found["tier"], found["tiles"], found["boxes"]) == (0, 0, [])


def test_a_grid_may_leave_out_its_last_axes():
    assert own(dim=4).dim == own(dim=(4,)).dim == (4, 1, 1)
    for wrong in ("4", (4, 1, 1, 1), (4.0,), (), -4, (4, 0)):
        with pytest.raises(
            PlanError, match=rf"^dim={re.escape(repr(wrong))} is not a grid: pass one to three integers"
        ):
            own(dim=wrong)


def test_tiles_and_a_shape_of_integers_are_needed():
    with pytest.raises(PlanError, match=r"^tiles=\[\(0, 0, 5\)\] are not tiles: pass mlusim\.Tiles\(task, start, "):
        Plan.from_tiles([(0, 0, 5)], (5,))
    for wrong in ((5.5,), "5", None):
        with pytest.raises(
            InputError, match=rf"^the output of the plan {re.escape(repr(wrong))}: a shape is an integer"
        ):
            Plan.from_tiles(Tiles([0], [[0]], [[5]], 20), wrong)

"""Writers of the output: planned tiles against slices, logged writes against task numbers written by the kernel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.tile_grid import TileGrid, logged_writers, planned_writers, tile_grid
from mlusim.host.device import Device
from mlusim.memory.kinds import Direction
from mlusim.planning.tiles import Tiles


def every_element(shape, split):
    rows, columns = int(np.prod(shape[:split])), int(np.prod(shape[split:]))
    return TileGrid(tuple(shape), split, 0, np.arange(rows), np.arange(columns))


@st.composite
def some_tiles(draw):
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    count = draw(st.integers(0, 6))
    start = [[draw(st.integers(0, extent - 1)) for extent in shape] for _ in range(count)]
    stop = [[draw(st.integers(low + 1, extent)) for low, extent in zip(row, shape, strict=True)] for row in start]
    starts, stops = (np.reshape(corners, (count, len(shape))) for corners in (start, stop))
    divided = draw(st.integers(0, len(shape)))  # leading axes; tiles cover the others
    starts[:, divided:], stops[:, divided:] = 0, shape[divided:]
    tasks = [draw(st.integers(0, 3)) for _ in range(count)]
    return shape, Tiles(tasks, starts, stops, 0), draw(st.integers(0, len(shape)))


@given(some_tiles())
def test_planned_writers_match_the_tile_slices(drawn):
    shape, tiles, split = drawn
    expected = np.full(shape, -1)
    iteration = np.full(shape, -1)
    for number in range(len(tiles)):
        box = tuple(slice(*bounds) for bounds in zip(tiles.start[number], tiles.stop[number], strict=True))
        expected[box] = tiles.task[number]
        iteration[box] = tiles.iteration[number]
    found = planned_writers(every_element(shape, split), tiles)
    assert (found.task == expected.reshape(found.task.shape)).all()
    assert (found.iteration == iteration.reshape(found.task.shape)).all()
    grid = tile_grid(tuple(shape), tiles)
    cells = expected.reshape(grid.row_extent, grid.column_extent, -1)[grid.rows][:, grid.columns]
    assert (planned_writers(grid, tiles).task == cells[:, :, 0]).all()
    assert (cells == cells[:, :, :1]).all()


@pytest.mark.parametrize(
    ("shape", "starts", "stops", "extents", "split"),
    [
        ((2, 8, 5, 49), [[0, 0, c, 0] for c in range(5)], [[1, 8, c + 1, 49] for c in range(5)], (16, 5), (2, 1)),
        ((3, 7), [[n, 0] for n in range(3)], [[n + 1, 7] for n in range(3)], (3, 7), None),
    ],
    ids=["one tile per channel", "rows"],
)
def test_a_grid_makes_rectangles_of_the_tiles(shape, starts, stops, extents, split):
    grid = tile_grid(shape, Tiles(range(len(starts)), np.array(starts), np.array(stops), 0))
    assert (grid.row_extent, grid.column_extent) == extents
    assert split is None or (grid.split, grid.inner) == split


def test_the_grid_of_a_long_line_is_coarse():
    line = np.array([[0], [500_000]]), np.array([[500_000], [1_000_000]])
    grid = tile_grid((1_000_000,), Tiles(range(2), *line, 0))
    assert grid.row_extent * grid.column_extent == 1_000_000
    assert len(grid.rows) * len(grid.columns) <= 1000
    owners = planned_writers(grid, Tiles(range(2), *line, 0))
    assert np.bincount(owners.task.reshape(-1)).tolist() == [500, 500]


def test_logged_writers_match_the_output():
    """Each task writes its own number, by every kind of write; the output is the expected map."""

    async def signs(core, out):
        stage = core.sram.alloc((4, 16), np.int32, "stage")
        if core.is_memory_core:
            await core.sync_cluster()
            if core.cluster_id == 0 and core.task_id == 0:
                await core.memcpy(out[12:14], stage[:2])
            return
        me = core.nram.alloc((8, 16), np.int32)
        core.fill(me, core.task_id)
        await core.sync()
        if core.task_id == 0:
            await core.memcpy(stage, me[:4])
        await core.sync_cluster()
        if core.task_id == 1:
            await core.memcpy(out[0:4], me[:4])
        if core.task_id == 2:
            core.scalar(2000)
            await core.memcpy(out[2:6, 3:9], me[:4, :6])
            await core.memcpy(out[::2, 15], me[:8, 0])
        if core.task_id == 3:
            core.scalar(8000)
            await core.memcpy_rows(out, me, np.array([10, 9, 9]), np.array([0, 1, 2]))
            core.store(out[15, 15], 3)
            # Three segments of two elements, a row and a half apart.
            await core.memcpy(out[6].pointer, me.pointer, 8, Direction.NRAM2GDRAM, 96, 64, 2)

    device = Device("mlu370-x4")
    out = device.alloc((16, 16), np.int32)
    device.launch(signs, out, dim=(4, 1, 1))
    device.synchronize()
    found = logged_writers(every_element((16, 16), 1), LogColumns(device.log, device.board), out.allocation.identity, 4)
    task = np.array([-1 if record.is_memory_core else record.task_id for record in device.log.tasks] + [-1])
    assert found.complete
    logged = task[found.task]
    # The memory core passed on what task 0 had put in SRAM.
    written_by_memory_core = np.zeros((16, 16), bool)
    written_by_memory_core[12:14] = True
    written_by_memory_core[12, 15] = False
    logged[written_by_memory_core] = 0
    assert (logged == device.download(out)).all()
    assert sorted(np.unique(logged).tolist()) == [-1, 0, 1, 2, 3]


def test_plan_and_log_of_tin_shift_agree(make_result):
    for strategy in ("documented", "shipped", "batched", "pingpong"):
        result = make_result(strategy)
        plan = result.plan
        grid = every_element(plan.output_shape, 2)
        records = LogColumns(result.log, result.board)
        output = next(n for n, a in enumerate(result.log.allocations) if a.task == -1 and not a.read_only)
        logged = logged_writers(grid, records, output, plan.itemsize)
        ids = np.array([task.task_id for task in result.log.tasks])
        assert (ids[logged.task] == planned_writers(grid, plan.tiles).task).all(), strategy

"""The log of one launch, extracted from a device's log, equals the log of a device that ran only that launch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mlusim.analysis.launch_log import Operand, log_of_launch
from mlusim.analysis.metrics import measure
from mlusim.host.device import Device

TIMES = ("issue_ps", "start_ps", "end_ps")


async def mixed(core, x, index, out):
    """Copies, vector and counted operations, barriers, a scratch buffer that is freed."""
    tile = core.nram.alloc((8, 16), x.dtype)
    total = core.nram.alloc((16,), x.dtype)
    picked = await core.load(index[core.task_id])
    await core.memcpy(tile[0], x[picked])
    await core.memcpy(tile[1], x[7 - picked])
    core.add(total, tile[0], tile[1])
    await core.sync()
    await core.memcpy(out[core.task_id], total)


def alone(arrays):
    device = Device("mlu590-h8")
    x, index = (device.upload(array, name) for name, array in arrays.items())
    out = device.alloc((4, 16), np.float32, "out")
    device.launch(mixed, x, index, out, dim=(4, 1, 1), kind="BLOCK")
    device.synchronize()
    return device.log


@pytest.fixture
def arrays():
    rng = np.random.default_rng(3)
    return {"x": rng.standard_normal((8, 16)).astype(np.float32), "index": np.array([3, 0, 7, 5], np.int32)}


def of_many(arrays, which, *, arena):
    """One of three equal launches, chosen by `which`; its tensors are separate allocations or parts of one."""
    device = Device("mlu590-h8")
    if arena:
        whole = device.alloc((1 << 12,), np.uint8, "arena")
        x = type(whole).of(whole.allocation, (8, 16), np.dtype(np.float32), 256)
        index = type(whole).of(whole.allocation, (4,), np.dtype(np.int32), 1024)
        out = type(whole).of(whole.allocation, (4, 16), np.dtype(np.float32), 2048)
        x.typed()[...], index.typed()[...] = arrays["x"], arrays["index"]
    else:
        x, index = (device.upload(array, name) for name, array in arrays.items())
        out = device.alloc((4, 16), np.float32, "out")
    for number in range(3):
        first = len(device.log)
        device.launch(mixed, x, index, out, dim=(4, 1, 1), kind="BLOCK")
        device.synchronize()
        if number == which:
            chosen = first
    operands = [Operand("x", x, True), Operand("index", index, True), Operand("out", out, False)]
    return log_of_launch(device.log, range(which, which + 1), operands, chosen), operands


@pytest.mark.parametrize("which", [0, 1, 2])
def test_the_log_of_a_launch_equals_a_run_of_it_alone(arrays, which):
    expected = alone(arrays)
    log, _ = of_many(arrays, which, arena=False)
    shift = log.launches[0].start_ps - expected.launches[0].start_ps
    found, wanted = log.columns(), expected.columns()
    for name in TIMES:
        found[name] = found[name] - shift
    for name, column in found.items():
        np.testing.assert_array_equal(column, wanted[name], err_msg=name)
    assert (log.ops, log.lines, log.boxes) == (expected.ops, expected.lines, expected.boxes)
    assert [replace(record, start_ps=0, end_ps=0) for record in log.allocations] == [
        replace(record, start_ps=0, end_ps=0) for record in expected.allocations
    ]
    assert [replace(record, start_ps=0, end_ps=0) for record in log.tasks] == [
        replace(record, start_ps=0, end_ps=0) for record in expected.tasks
    ]


@pytest.mark.parametrize("arena", [False, True])
def test_the_figures_of_a_launch_equal_a_run_of_it_alone(arrays, arena):
    expected = alone(arrays)
    log, operands = of_many(arrays, 1, arena=arena)
    board = Device("mlu590-h8").board
    found, wanted = measure(log, board), measure(expected, board)
    for name in ("time_ps", "bytes_requested", "compulsory_bytes", "theory_io_bytes", "operations", "where_time_went"):
        assert getattr(found, name) == getattr(wanted, name), name
    assert found.peak_nram_bytes == wanted.peak_nram_bytes
    assert found.bus_bytes == wanted.bus_bytes
    assert [record.name for record in log.allocations[:3]] == ["x", "index", "out"]
    assert [record.read_only for record in log.allocations[:3]] == [True, True, False]
    assert [record.shape for record in log.allocations[:3]] == [operand.view.shape for operand in operands]
    assert len(log.table()) == len(expected.table())


def test_an_operator_without_a_launch_has_its_tensors_and_nothing_else(arrays):
    device = Device("mlu590-h8")
    x = device.upload(arrays["x"], "x")
    log = log_of_launch(device.log, range(0), [Operand("x", x, True)])
    assert (len(log), len(log.launches), len(log.tasks)) == (0, 0, 0)
    assert [record.nbytes for record in log.allocations] == [512]
    assert measure(log, device.board).time_ps == 0


def test_memory_that_is_not_an_operand_has_no_bytes(arrays):
    device = Device("mlu590-h8")
    x, index = (device.upload(array, name) for name, array in arrays.items())
    out = device.alloc((4, 16), np.float32, "out")
    device.launch(mixed, x, index, out, dim=(4, 1, 1), kind="BLOCK")
    device.synchronize()
    log = log_of_launch(device.log, range(1), [Operand("x", x, True), Operand("out", out, False)])
    (other,) = (record for record in log.allocations if record.name == "index")
    assert (other.nbytes, other.read_only) == (0, True)
    assert set(log.columns()["a_alloc"].tolist()) <= set(range(-1, len(log.allocations)))

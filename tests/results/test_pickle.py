"""Results, boards and plans can be pickled for other processes and caches."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import mlusim
from mlusim.analysis.summary import to_json
from mlusim.hardware import presets


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_result_is_the_same_after_pickling(protocol):
    x = np.arange(24, dtype=np.int32).reshape(4, 6)
    run = mlusim.ops.gather(x, np.zeros((2, 6), np.int64), 0)
    other = pickle.loads(pickle.dumps(run, protocol))
    assert to_json(other) == to_json(run)
    assert np.array_equal(other.output, run.output)
    assert other.plan.explain() == run.plan.explain()
    assert np.array_equal(other.log.table(), run.log.table())


def test_every_board_is_the_same_after_pickling():
    for board in presets():
        other = pickle.loads(pickle.dumps(board))
        assert other == board
        assert dict(other.sources) == dict(board.sources)


def test_a_device_can_continue_after_its_log_was_pickled():
    device = mlusim.Device()

    async def kernel(core, out):
        core.scalar(10)

    out = device.alloc(4, "int8")
    for _ in range(2):
        device.launch(kernel, out, dim=4, kind="BLOCK")
        device.synchronize()
        assert len(pickle.loads(pickle.dumps(device.log)).records) == len(device.log.records)


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_device_is_not_duplicated(duplicate):
    """A copy would share the memories of the first."""
    with pytest.raises(TypeError, match=r"^a Device cannot be copied or pickled: create one in each process"):
        duplicate(mlusim.Device())


def test_the_report_of_a_verification_is_the_same_after_pickling():
    async def races(core, x, out):
        if core.is_memory_core:
            return
        tile = core.nram.alloc(x.shape, x.dtype)
        core.memcpy_async(tile, x)
        await core.memcpy(out, tile)

    x = np.arange(8, dtype=np.int32)
    report = mlusim.verify(races, x, mlusim.Output.like(x))
    other = pickle.loads(pickle.dumps(report))
    assert other.text() == report.text()
    assert other.result.time_ps == report.result.time_ps
    with pytest.raises(mlusim.VerificationError) as raised:
        report.check()
    assert pickle.loads(pickle.dumps(raised.value)).report.text() == report.text()


def test_boards_are_keys_of_caches():
    first, second = mlusim.board("mlu370-x4"), mlusim.board("mlu370-x4")
    other = first.replace(clusters=2, max_union=2)
    assert {first: 1, other: 2}[second] == 1
    assert {first: 1, other: 2}[pickle.loads(pickle.dumps(other))] == 2

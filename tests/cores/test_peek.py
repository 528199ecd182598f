"""Reading memory for debugging while a kernel runs, and views in messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlusim.cores.core import Core
from mlusim.errors import AccessError, InputError
from mlusim.host.device import Device
from mlusim.memory.view import View


def test_peek_sees_completed_operations_only(run: Any) -> None:
    seen = []

    async def kernel(core: Core) -> None:
        tile = core.nram.alloc(4, "float32")
        core.fill(tile, 7.0)
        seen.append(core.peek(tile))
        await core.sync()
        before = core.issuer.task.now_ps
        seen.append(core.peek(tile))
        assert core.issuer.task.now_ps == before

    device = run(kernel)
    assert np.isnan(seen[0]).all()
    assert seen[1].tolist() == [7.0] * 4
    assert len(device.log) == 2


def test_print_shows_the_task_and_its_time(run: Any) -> None:
    seen = []

    async def kernel(core: Core) -> None:
        seen.append(repr(core))
        core.scalar(1000)  # the clock has 1 GHz
        seen.append(repr(core))

    board = run(kernel).board
    start_ns = board.kernel_start_ps // 1000
    times = f"{start_ns} ns", f"1 {start_ns} ns"
    assert seen == [f"<core of task 0 (cluster 0, core 0), at {time}>" for time in times]


def test_peek_is_an_error_in_a_timing_only_run(run: Any) -> None:
    async def kernel(core: Core) -> None:
        tile = core.nram.alloc(4, "float32")
        assert str(tile) == repr(tile)
        name = "the NRAM of cluster 0 core 0 of mlu370-x4"
        assert repr(core.nram) == f"<{name}: 128 B of 655 360 B in use, nram buffer 0 16 B>"
        core.peek(tile)

    with pytest.raises(AccessError, match="has a size but no bytes: this run is timing-only"):
        run(kernel, data=False)


def test_a_view_prints_its_values() -> None:
    x = Device().upload(np.arange(3, dtype=np.int32), "x")
    assert str(x) == "<view of x (gdram): int32 [3]>\n[0 1 2]"


def test_download_before_synchronize() -> None:
    async def double(core: Core, out: View) -> None:
        core.store(out[0], 1)

    device = Device()
    out = device.alloc(1, "int32", "out")
    device.launch(double, out, dim=1, kind="BLOCK")
    with pytest.raises(InputError, match=r"download of <view of out .*> before double has run: a launch only queues; "):
        device.download(out)
    device.synchronize()
    assert device.download(out).tolist() == [1]

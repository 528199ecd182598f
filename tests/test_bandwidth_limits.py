"""No bandwidth is exceeded in any window of time: DRAM, ports of clusters, ports of cores."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlusim.analysis.log_columns import LogColumns
from mlusim.hardware import board
from mlusim.host.device import Device
from mlusim.units import PS_PER_S

BOARDS = ["mlu370-x4", "mlu590-m9", "mlu290-m5", "mlu270-s4", "mlu220-m2"]
MOST = 40_000  # bytes of a copy


async def random_copies(core, x, out, seed):
    rng = random.Random(f"{seed} {core.task_id}")
    held = core.nram.alloc(MOST, x.dtype)
    for _ in range(rng.randrange(1, 8)):
        size, offset = rng.choice((1, 63, 64, 100, 4096, 30_000, MOST)), rng.choice((0, 7, 64))
        far = (x if rng.random() < 0.5 else out)[core.task_id, offset : offset + size]
        if size % 4 == 0 and rng.random() < 0.5:
            far = far.reshape(4, size // 4)[:, : max(size // 8, 1)]
        near = held[: far.size].reshape(*far.shape)
        to, origin = (near, far) if rng.random() < 0.5 else (far, near)
        if to.allocation.read_only or to.allocation is x.allocation:
            to, origin = origin, to
        if rng.random() < 0.5:
            await core.memcpy(to, origin)
        else:
            core.memcpy_async(to, origin)
    await core.sync()


def most_beyond(start, end, nbytes, rate):
    """The most bytes, over all windows, of transfers that begin and end in a window beyond what `rate` moves in it."""
    beyond = 0.0
    order = np.argsort(end, kind="stable")
    start, end, nbytes = start[order], end[order], nbytes[order]
    for first in np.unique(start):
        inside = start >= first
        moved = np.cumsum(nbytes[inside]) - (end[inside] - first) * (rate / PS_PER_S)
        beyond = max(beyond, float(moved.max()))
    return beyond


@pytest.mark.parametrize("name", BOARDS)
@given(seed=st.integers(0, 10**6), tasks=st.integers(1, 48))
@settings(max_examples=6, deadline=None)
def test_no_bandwidth_is_exceeded_in_any_window(name, seed, tasks):
    on = board(name)
    device = Device(on, data=False)
    x = device.upload(np.broadcast_to(np.uint8(0), (tasks, 2 * MOST)))
    device.launch(random_copies, x, device.alloc(x.shape, x.dtype), seed, dim=tasks, kind="BLOCK")
    device.synchronize()
    columns = LogColumns(device.log, on)
    copies = columns.is_copy
    start, end, unit = columns.moving_ps[copies], columns.end_ps[copies], columns.unit[copies]
    read, written = columns.bus_read_bytes[copies], columns.bus_write_bytes[copies]
    # What a store reads first stays between the DRAM and its controller.
    loaded = np.where(columns.is_write[copies], 0, read)
    # Ends are rounded to picoseconds.
    assert most_beyond(start, end, read + written, on.dram_bandwidth_bytes_per_s) < 1
    for way, nbytes in (("read", loaded), ("write", written)):
        for place, of_place in (("core", unit), ("cluster", unit // on.cores_per_cluster)):
            rate = getattr(on, f"{place}_{way}_bandwidth_bytes_per_s")
            for number in np.unique(of_place):
                here = of_place == number
                assert most_beyond(start[here], end[here], nbytes[here], rate) < 1

"""Facts about real boards that are not rows of `mlusim validate`, as in the table of docs/accuracy.md.

Each is the time of a kernel published without its size or launch, or a difference or ratio of two times.
"""

from __future__ import annotations

import numpy as np
import pytest

from mlusim.hardware import board
from mlusim.host.device import Device
from mlusim.units import KIB, MIB, PS_PER_NS, PS_PER_S, PS_PER_US
from mlusim.validation import kernels
from mlusim.validation.measurements import measurements
from mlusim.validation.recreate import recreate, simulated_us

ROWS = {row.name: row for row in measurements()}


def launched(name, kernel, *arguments, data=False, **launch):
    """Launch a kernel on bytes, given by their number, or by a negative number if the kernel writes them; its time."""
    device = Device(name, data=data)
    tensors = [
        device.alloc(-item, np.int8) if item < 0 else device.upload(np.broadcast_to(np.int8(0), item), "x")
        for item in arguments
    ]
    device.launch(kernel, *tensors, **launch)
    device.synchronize()
    record = device.log.launches[0]
    return record.end_ps - record.start_ps


def gb_per_s(nbytes, time_ps):
    return nbytes / (time_ps / PS_PER_S) / 1e9


def chunks_of(core, x, chunk):
    share = x.shape[0] // core.task_dim
    return [slice(at, at + chunk) for at in range(core.task_id * share, (core.task_id + 1) * share, chunk)]


@pytest.mark.parametrize("chunk", [16 * KIB, 64 * KIB, 192 * KIB])
def test_staging_through_sram_on_mlu290(chunk):
    """About 400 GB/s with two buffers in SRAM, of a size that is not stated (I24). 15 % is what is left."""

    async def staged(core, x):
        cores = core.board.cores_per_cluster
        buffers = [core.sram.alloc(cores * chunk, x.dtype, name=f"staged {number}") for number in range(2)]
        share = x.shape[0] // (core.task_dim // cores)
        first = core.task_id // cores * share
        steps = share // (cores * chunk)
        mine = slice(core.core_id * chunk, (core.core_id + 1) * chunk)
        loaded = None if core.is_memory_core else core.nram.alloc(chunk, x.dtype)
        for step in range(steps + 1):
            at = first + step * cores * chunk
            if core.is_memory_core and step < steps:
                core.memcpy_async(buffers[step % 2], x[at : at + cores * chunk])
            elif loaded is not None and step:
                await core.memcpy(loaded, buffers[(step - 1) % 2][mine])
            await core.sync()
            await core.sync_cluster()

    nbytes = 48 * MIB
    rate = gb_per_s(nbytes, launched("mlu290", staged, nbytes, dim=64, kind="UNION1"))
    assert rate == pytest.approx(400, rel=0.15)


def test_loads_and_stores_together_on_mlu290():
    """600 to 700 GB/s for equal loads and stores, where loads alone reach 490 (I24); 600 on all cores (I27)."""
    nbytes = 96 * MIB

    async def copy(core, x, out):
        await kernels.copy(core, [out], x)

    rate = gb_per_s(2 * nbytes, launched("mlu290", copy, nbytes, -nbytes, dim=64, kind="BLOCK"))
    assert 0.95 * 600 < rate < 1.05 * 700


@pytest.mark.parametrize(("chip", "rel"), [("370x8", 0.05), ("370x4", 0.02)])
@pytest.mark.grid(2)
def test_staging_against_the_pipeline_of_three_stages(chip, rel):
    """1.07 x the time on MLU370-X8, 0.99 x on MLU370-X4."""
    names = f"matmul-sram-pipe5-{chip}", f"matmul-pipe3-{chip}"
    measured = [ROWS[name].time_us for name in names]
    simulated = [simulated_us(ROWS[name], recreate(ROWS[name])) for name in names]
    assert simulated[0] / simulated[1] == pytest.approx(measured[0] / measured[1], rel=rel)


def test_the_fixed_cost_of_a_copy_by_48_tasks():
    """About 2.3 us on MLU590-M9: what two copies extrapolate to, so 1 % more of the larger is 5 % less of this."""
    few, many = ROWS["copy-8.4MB"], ROWS["copy-44.8MB"]
    times = [simulated_us(row, recreate(row)) for row in (few, many)]
    fixed = times[0] - few.bytes_read * (times[1] - times[0]) / (many.bytes_read - few.bytes_read)
    assert fixed == pytest.approx(2.3, rel=0.2)


def test_a_second_wave_against_a_loop_in_the_kernel():
    """About 2.4 us more on MLU590-H8."""
    part = 4 * KIB

    async def copy(core, x, out):
        buffer = core.nram.alloc(part, x.dtype)
        for chunk in chunks_of(core, x, part):
            await core.memcpy(buffer, x[chunk])
            await core.memcpy(out[chunk], buffer)

    loop, waves = (
        launched("mlu590-h8", copy, 96 * part, -96 * part, dim=dim, kind="BLOCK") / PS_PER_US for dim in (48, 96)
    )
    assert waves - loop == pytest.approx(2.4, rel=0.12)


def test_a_core_of_mlu590_reads_46_bytes_per_cycle():
    async def read(core, x):
        buffer = core.nram.alloc(256 * KIB, x.dtype)
        for chunk in chunks_of(core, x, 256 * KIB):
            await core.memcpy(buffer, x[chunk])

    rate = gb_per_s(32 * MIB, launched("mlu590-h8", read, 32 * MIB, dim=1, kind="BLOCK"))
    assert rate * 1e9 / board("mlu590-h8").clock_hz >= 46


def test_a_scalar_read_modify_write_on_mlu370_m8():
    """629.5 ns for two loads, and a load and store of the sum."""

    async def accumulate(core, x, out):
        for index in range(500):
            await core.load(x[index])
            await core.load(x[index + 1])
            core.scalar(count=6)
            core.store(out[0], await core.load(out[0]))

    time_ps = launched("mlu370-m8", accumulate, 501, -1, data=True, dim=1, kind="BLOCK")
    assert time_ps / 500 / PS_PER_NS == pytest.approx(629.5, rel=0.01)


def test_a_strided_store_on_mlu270_pays_200_ns_for_each_segment():
    async def store(core, out):
        buffer = core.nram.alloc((512, 512), out.dtype)
        await core.memcpy(out.reshape(512, 65_536)[:, :512], buffer)

    time_ps = launched("mlu270", store, -512 * 65_536, dim=1, kind="BLOCK")
    assert time_ps / 512 / PS_PER_NS == pytest.approx(200, rel=0.02)


def test_element_wise_strided_access_is_100_times_slower_than_the_transpose():
    row = ROWS["transpose-44.8MB"]
    height, width = 2048, 10944

    async def transpose(core, x, out):
        columns = width // core.task_dim
        mine = slice(core.task_id * columns, (core.task_id + 1) * columns)
        buffer = core.nram.alloc((columns, 512), "float16")
        x, out = x.view("float16").reshape(height, width), out.view("float16").reshape(width, height)
        for top in range(0, height, 512):
            await core.memcpy(buffer, x[top : top + 512, mine].transpose(1, 0))
            await core.memcpy(out[mine, top : top + 512], buffer)

    nbytes = 2 * height * width
    time_ps = launched("mlu590-m9", transpose, nbytes, -nbytes, dim=48, kind="BLOCK")
    assert time_ps / PS_PER_US == pytest.approx(100 * row.time_us, rel=0.05)


def test_a_gather_on_mlu590_takes_55_to_60_ns_for_each_element_of_a_core():
    count = 4096

    async def gather(core, x, index):
        offsets, values = core.nram.alloc(count, np.uint32), core.nram.alloc((count, 1), np.int8)
        await core.memcpy(offsets, index.view(np.uint32))
        core.gather(values, x.reshape(-1, 1), offsets)
        await core.sync()

    time_ps = launched("mlu590-m9", gather, MIB, 4 * count, data=True, dim=1, kind="BLOCK")
    assert 55 <= time_ps / count / PS_PER_NS <= 60


@pytest.mark.parametrize(("rows", "width", "measured_us"), [(4608, 1024, 106), (18432, 512, 350)])
@pytest.mark.grid(2)
def test_rows_copied_by_blocking_copies_on_mlu590_m9(rows, width, measured_us):
    """mlu-ops' moe_dispatch_backward_data: each row is loaded from anywhere, scaled and stored, by 48 tasks.

    Which of its rows are valid is not stated. Invalid ones are skipped, so a row takes at least the measured time.
    """
    nbytes = width * 4
    anywhere = np.random.default_rng(0).permutation(rows * 5 // 4)[:rows].tolist()

    async def scale(core, x, out):
        if core.is_memory_core:
            return
        tile = core.nram.alloc(width, "float32")
        share = rows // core.task_dim
        for row in range(core.task_id * share, (core.task_id + 1) * share):
            core.scalar(3 * core.board.scalar_nram_cycles)  # whether it is valid, its place, and its factor
            await core.memcpy(tile.view("int8"), x[anywhere[row] * nbytes : (anywhere[row] + 1) * nbytes])
            core.mul(tile, tile, 2.0)
            await core.memcpy(out[row * nbytes : (row + 1) * nbytes], tile.view("int8"))

    time_ps = launched("mlu590-m9", scale, rows * nbytes * 5 // 4, -rows * nbytes, dim=48)
    assert 0.84 * measured_us < time_ps / PS_PER_US < measured_us

"""Bytes on the DRAM bus over time, compared with the log."""

import numpy as np

from mlusim.analysis.bandwidth import bus_bytes_over_time
from mlusim.analysis.log_columns import LogColumns
from mlusim.hardware import board
from mlusim.host.device import Device


def test_bandwidth_keeps_every_byte_and_never_exceeds_the_peak(staged_device, result):
    for log, on in ((staged_device.log, staged_device.board), (result.log, result.board)):
        records = LogColumns(log, on)
        for bins in (1, 7, 300):
            edges = np.linspace(records.start_of_run_ps, records.end_of_run_ps, bins + 1).round().astype(np.int64)
            read, write = bus_bytes_over_time(records, edges)
            np.testing.assert_allclose(read.sum(), records.bus_read_bytes.sum(), rtol=1e-9)
            np.testing.assert_allclose(write.sum(), records.bus_write_bytes.sum(), rtol=1e-9)
            peak = on.dram_bandwidth_bytes_per_s * np.diff(edges) / 1e12
            assert ((read + write) <= peak).all()


def test_the_bytes_of_a_copy_are_spread_over_its_transfer_time():
    async def reads(core, source):
        await core.memcpy(core.nram.alloc(4096, np.float32), source)

    on = board("mlu370-x4")
    device = Device(on)
    device.launch(reads, device.upload(np.zeros(4096, np.float32)), dim=1, kind="BLOCK")
    device.synchronize()
    moving = on.kernel_start_ps + on.cycles_ps(on.issue_cycles) + on.dma_read_latency_ps
    done = device.log.tasks[0].end_ps
    edges = np.array([0, moving, moving + (done - moving) // 4, done, device.log.launches[0].end_ps])
    read, write = bus_bytes_over_time(LogColumns(device.log, on), edges)
    assert read.tolist() == [0, 4096, 3 * 4096, 0]
    assert write.tolist() == [0, 0, 0, 0]

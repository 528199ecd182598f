"""Time bins of the pictures, compared with arrays of booleans; bandwidth, compared with the log."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlusim.analysis.bandwidth import bus_bytes_over_time
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.spans import KINDS, covered_fraction, shares, spans
from mlusim.hardware import board
from mlusim.host.device import Device

ROWS, END = 3, 60


@st.composite
def spans_and_edges(draw):
    row, start, end = [], [], []
    for line in range(ROWS):
        cuts = sorted(draw(st.sets(st.integers(0, END), max_size=10)))
        for low, high in zip(cuts[::2], cuts[1::2], strict=False):
            row.append(line)
            start.append(low)
            end.append(high)
    edges = np.array(sorted(draw(st.sets(st.integers(0, END), min_size=2, max_size=12))))
    return tuple(np.array(column, np.int64) for column in (row, start, end)), edges


@given(spans_and_edges())
def test_coverage_is_a_fraction_per_bin(given_spans):
    (row, start, end), edges = given_spans
    busy = np.zeros((ROWS, END), bool)
    for line, low, high in zip(row, start, end, strict=True):
        busy[line, low:high] = True
    expected = [[busy[line, low:high].mean() for low, high in pairwise(edges)] for line in range(ROWS)]
    np.testing.assert_allclose(covered_fraction(row, start, end, ROWS, edges), expected, atol=1e-12)


def test_shares_of_a_bin_never_exceed_one(staged_device):
    records = LogColumns(staged_device.log, staged_device.board)
    every = spans(records)
    edges = np.linspace(records.start_of_run_ps, records.end_of_run_ps, 41).round().astype(np.int64)
    found = shares(every, every.unit, records.units, edges)
    assert found.shape == (records.units, 40, len(KINDS))
    assert found.min() >= 0
    assert found.sum(axis=2).max() <= 1 + 1e-9
    assert {KINDS[kind][0] for kind in np.flatnonzero(found.sum(axis=(0, 1)))} == {
        "io read",
        "io write",
        "DMA start-up",
        "move",
        "vector",
        "scalar",
        "waiting in a sync",
    }


def test_spans_of_a_lane_do_not_overlap(staged_device):
    every = spans(LogColumns(staged_device.log, staged_device.board))
    order = np.lexsort((every.start_ps, every.lane, every.unit))
    same = (np.diff(every.unit[order]) == 0) & (np.diff(every.lane[order]) == 0)
    assert (every.start_ps[order][1:] >= every.end_ps[order][:-1])[same].all()


def test_a_copy_to_sram_is_shown_on_the_memory_cores_pipe():
    async def stages(core, source):
        buffer = core.sram.alloc(256, np.float32, "stage")
        if core.core_id == 2:
            await core.memcpy(buffer, source)

    on = board("mlu370-x4")
    device = Device(on)
    device.launch(stages, device.upload(np.zeros(256, np.float32)), dim=(4, 1, 1))
    device.synchronize()
    every = spans(LogColumns(device.log, on))
    assert set(every.unit.tolist()) == {on.cores}
    assert LogColumns(device.log, on).unit_name(on.cores) == "cluster 0 memory core"


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

"""Figures of small kernels, compared with hand calculations from the board's parameters."""

import math
import re

import numpy as np
import pytest

from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.metrics import measure, peak_bytes, verdict
from mlusim.dtypes import dtype_of
from mlusim.errors import HangError
from mlusim.hardware import board
from mlusim.host.device import Device
from mlusim.memory.kinds import Direction, MemoryKind

X4 = board("mlu370-x4")
NBYTES = 4096


def run(kernel, *, on=X4, dim=(1, 1, 1), kind="BLOCK", elements=NBYTES // 4, dtype=np.float32):
    device = Device(on)
    source = device.upload(np.arange(elements).astype(dtype), "source")
    out = device.alloc((elements,), dtype, "out")
    device.launch(kernel, source, out, dim=dim, kind=kind)
    device.synchronize()
    return device


def by_cause(metrics, core):
    return {name: ps for name, ps in zip(CAUSES, metrics.core_causes_ps[core].tolist(), strict=True) if ps}


async def copy_in(core, source, out):
    if core.is_memory_core:
        return
    await core.memcpy(core.nram.alloc(source.shape, source.dtype), source)


def transfer_ps(nbytes, bandwidth):
    return math.ceil(nbytes * 10**12 / bandwidth)


def test_the_time_of_a_4096_byte_copy_matches_the_closed_form():
    device = run(copy_in)
    metrics = measure(device.log, X4)
    assert X4.core_read_bandwidth_bytes_per_s < X4.cluster_read_bandwidth_bytes_per_s
    moving = transfer_ps(NBYTES, X4.core_read_bandwidth_bytes_per_s)
    issue = X4.cycles_ps(X4.issue_cycles)
    assert metrics.time_ps == X4.kernel_start_ps + issue + X4.dma_read_latency_ps + moving + X4.kernel_end_ps
    assert metrics.cycles == math.ceil(metrics.time_ps * X4.clock_hz / 10**12)
    assert metrics.bytes_requested == {"GDRAM2NRAM": NBYTES}
    assert metrics.bus_bytes == {"read": NBYTES, "write": 0}
    assert metrics.compulsory_bytes == {"read": NBYTES, "write": NBYTES}
    assert metrics.theory_io_bytes == 2 * NBYTES
    assert metrics.peak_nram_bytes == NBYTES
    assert metrics.peak_sram_bytes == 0
    assert metrics.operations == {"memcpy": 1}
    assert by_cause(metrics, 0) == {
        "transfer": moving,
        "dma_latency": X4.dma_read_latency_ps,
        "issue": issue,
        "launch": X4.kernel_start_ps + X4.kernel_end_ps,
    }
    for core in range(1, X4.cores):
        assert by_cause(metrics, core) == {
            "launch": X4.kernel_start_ps + X4.kernel_end_ps,
            "idle": issue + X4.dma_read_latency_ps + moving,
        }
    assert metrics.task_busy_ps.tolist() == [X4.dma_read_latency_ps + moving]
    assert metrics.task_idle_ps.tolist() == [issue]
    assert metrics.pipe_busy_ps["io"] == X4.dma_read_latency_ps + moving


def test_efficiencies_are_the_vendors_formulas():
    device = run(copy_in)
    metrics = measure(device.log, X4, theory_ops=5000)
    seconds = metrics.time_ps / 1e12
    assert metrics.io_efficiency == pytest.approx(2 * NBYTES / (seconds * 307.2e9))
    # T: 32 operations a cycle and core for float, 64 for half; 32 cores at 1 GHz.
    assert metrics.peak_ops_per_s == 32 * 32 * 10**9
    assert metrics.compute_efficiency == pytest.approx(5000 / (seconds * metrics.peak_ops_per_s))
    assert metrics.bottleneck == "io"
    assert measure(device.log, X4, theory_ops=10**9).bottleneck == "compute"
    unknown = measure(device.log, X4)
    assert (unknown.theory_ops, unknown.compute_efficiency, unknown.bottleneck) == (None, None, "unknown")


@pytest.mark.parametrize(
    ("dtype", "rate"), [("float16", 64), ("int16", 64), ("bfloat16", 64), ("float32", 32), ("int32", 32), ("int8", 32)]
)
def test_the_peak_is_the_vendors_rate_for_the_first_input(dtype, rate):
    device = Device(X4)
    source, out = device.upload(np.zeros(64, dtype_of(dtype))), device.alloc(64, "float16")

    async def convert_nothing(core, source, out):
        held = core.nram.alloc(source.shape, source.dtype)
        await core.memcpy(held, source)
        await core.memcpy(out, core.nram.alloc(out.shape, out.dtype))

    device.launch(convert_nothing, source, out, dim=1, kind="BLOCK")
    device.synchronize()
    assert measure(device.log, X4).peak_ops_per_s == rate * X4.cores * X4.clock_hz


def test_four_cores_of_a_cluster_wait_for_its_port():
    elements = 1 << 16
    on = X4.replace(core_start_skew_ps=0, cluster_start_ps=0, dram_share_spread=0.0)
    device = run(copy_in, on=on, dim=(4, 1, 1), kind="UNION1", elements=elements)
    metrics = measure(device.log, on)
    alone = transfer_ps(4 * elements, on.core_read_bandwidth_bytes_per_s)
    together = transfer_ps(16 * elements, on.cluster_read_bandwidth_bytes_per_s)
    assert together > alone
    for core in range(4):
        assert by_cause(metrics, core)["transfer"] == alone
        assert by_cause(metrics, core)["bandwidth_wait"] == together - alone


def test_compute_overlapped_by_a_copy_is_hidden():
    async def overlapped(core, source, out):
        loaded = core.nram.alloc(source.shape, source.dtype)
        other = core.nram.alloc(1 << 15, source.dtype)
        core.memcpy_async(loaded, source)
        core.fill(other, 0)
        await core.sync()

    elements = 1 << 14
    metrics = measure(run(overlapped, elements=elements).log, X4)
    copying = transfer_ps(4 * elements, X4.core_read_bandwidth_bytes_per_s)
    fill = X4.cycles_ps(X4.vector_startup_cycles + 4 * (1 << 15) // X4.vector_bytes_per_cycle)
    issue = X4.cycles_ps(X4.issue_cycles)
    start_up = X4.dma_read_latency_ps
    assert start_up < issue + fill < start_up + copying
    # The fill runs in the start-up of the copy, where no byte moves yet, and on behind its transfer.
    assert by_cause(metrics, 0)["vector"] == start_up - issue
    assert by_cause(metrics, 0)["transfer"] == copying
    assert by_cause(metrics, 0)["dma_latency"] == issue
    assert metrics.pipe_busy_ps["vector"] == fill


def test_scalar_accesses_are_counted_apart_and_short_stores_read_their_unit():
    async def scalars(core, source, out):
        await core.load(source[3])
        await core.load_array(source[:4])
        core.store(out[5], 1.0)
        core.store(out[40], 1.0)
        core.scalar()

    metrics = measure(run(scalars).log, X4)
    unit = X4.dram_unit_bytes
    assert metrics.bytes_requested == {"scalar GDRAM load": 4 + 16, "scalar GDRAM store": 8}
    assert metrics.bus_bytes == {"read": unit + 4 * unit + 2 * unit, "write": 2 * unit}
    assert metrics.operations == {"load": 1, "load_array": 4, "store": 2, "scalar": 1}
    issue, ordinary = X4.cycles_ps(X4.issue_cycles), X4.cycles_ps(X4.scalar_op_cycles)
    causes = by_cause(metrics, 0)
    # A store does not hold its core up; the second lands after the first, and the task ends then. The
    # time of a load includes its issue.
    assert causes["scalar"] == 7 * X4.scalar_gdram_latency_ps - 2 * issue
    assert causes["issue"] == 3 * issue
    assert issue + ordinary < X4.scalar_gdram_latency_ps


def test_time_at_a_barrier_counts_as_waiting_for_the_slowest_task():
    async def uneven(core, source, out):
        if core.is_memory_core:
            return
        if core.core_id == 0:
            core.scalar(1000)
        await core.sync_all_ipu()

    on = X4.replace(core_start_skew_ps=0, cluster_start_ps=0, dram_share_spread=0.0)
    metrics = measure(run(uneven, on=on, dim=(4, 1, 1), kind="UNION1").log, on)
    issue, slow = on.cycles_ps(on.issue_cycles), on.cycles_ps(1000)
    assert by_cause(metrics, 0)["scalar"] == slow - issue
    assert by_cause(metrics, 0)["sync"] == on.union_barrier_ps
    for core in (1, 2, 3):
        assert by_cause(metrics, core)["sync"] == slow + on.union_barrier_ps


def test_a_second_wave_costs_launch_time_not_idle_time():
    async def thinks(core, source, out):
        core.scalar(500)

    metrics = measure(run(thinks, dim=(X4.cores + 1, 1, 1)).log, X4)
    around = X4.kernel_start_ps + X4.wave_ps + X4.kernel_end_ps
    late = X4.core_start_skew_ps * (X4.cores - 1) + X4.cluster_start_ps * (X4.clusters - 1)
    task, issue = X4.cycles_ps(500), X4.cycles_ps(X4.issue_cycles)
    assert metrics.time_ps == around + late + 2 * task
    # Core 0 has both tasks and waits for the last core of the first wave.
    assert by_cause(metrics, 0) == {
        "scalar": 2 * (task - issue),
        "issue": 2 * issue,
        "launch": around,
        "idle": late,
    }
    last = by_cause(metrics, X4.cores - 1)
    assert (last["launch"], last["idle"]) == (around + late, task)


def test_nram_peak_counts_simultaneous_allocations():
    async def scopes(core, source, out):
        with core.nram.scope():
            core.nram.alloc(1000, np.uint8)
            core.scalar()
        with core.nram.scope():
            core.nram.alloc(1000, np.uint8)
            core.scalar()
            core.nram.alloc(100, np.uint8)
            core.scalar()
        core.nram.alloc(300, np.uint8)
        core.scalar()

    metrics = measure(run(scopes, dim=(3, 1, 1)).log, X4)
    assert metrics.peak_nram_bytes == 1024 + 128


def test_peak_of_a_memory_agrees_with_the_memory_itself(staged_device):
    clusters = staged_device._chip.clusters
    nram = max(core.nram.peak_bytes for cluster in clusters for core in cluster.units if core.nram is not None)
    assert peak_bytes(staged_device.log, MemoryKind.NRAM, X4) == nram > 0
    assert peak_bytes(staged_device.log, MemoryKind.SRAM, X4) == max(c.sram.peak_bytes for c in clusters) > 0


def test_a_device_without_launches_takes_no_time():
    device = Device(X4)
    device.upload(np.zeros(4, np.float32))
    metrics = measure(device.log, X4)
    assert (metrics.time_ps, metrics.cycles, metrics.io_efficiency, metrics.core_time_ps) == (0, 0, None, 0)
    assert metrics.theory_io_bytes == 16
    assert set(metrics.where_time_went.values()) == {0}


@pytest.mark.parametrize(
    ("efficiency", "words"),
    [
        (0.6, "meets the vendor's bar: 60 % on network shapes"),
        (0.5999, r"meets the vendor's bar for any shape \(30 %\), not for network shapes \(60 %\)"),
        (0.3, r"meets the vendor's bar for any shape \(30 %\)"),
        (0.2999, "below the vendor's bar: 60 % on network shapes, 30 % on any shape"),
        (1.02, "above 100 %"),
    ],
)
def test_verdict_names_the_acceptance_bar(efficiency, words):
    assert re.match(words, verdict(efficiency))


# SRAM2SRAM needs two clusters; LDRAM2WRAM, and LDRAM2LDRAM without strides, do not exist (B).
OTHERS = (Direction.SRAM2SRAM, Direction.LDRAM2WRAM, Direction.LDRAM2LDRAM)
ALONE = [direction for direction in Direction if direction not in OTHERS]


@pytest.mark.parametrize("direction", ALONE, ids=lambda direction: direction.name)
def test_a_copy_alone_on_the_board_has_no_contention(direction):
    async def copies(core, source, out):
        if core.task_id != 0 or core.is_memory_core:
            return

        def end(kind, gdram):
            if kind is MemoryKind.GDRAM:
                return gdram
            return getattr(core, kind.value).alloc(gdram.shape, gdram.dtype, gdram.allocation.name)

        await core.memcpy(end(direction.destination, out), end(direction.source, source))

    metrics = measure(run(copies, dim=(4, 1, 1), kind="UNION1").log, X4)
    causes = by_cause(metrics, 0)
    off_chip = direction.source.off_chip or direction.destination.off_chip
    assert set(causes) - {"issue", "launch", "idle"} == ({"transfer", "dma_latency"} if off_chip else {"on_chip_copy"})
    whole = metrics.pipe_busy_ps["io"] + metrics.pipe_busy_ps["move"]
    if off_chip:
        latency_ps = X4.dma_read_latency_ps * direction.source.off_chip
        latency_ps += X4.dma_write_latency_ps * direction.destination.off_chip
        assert causes["dma_latency"] == latency_ps
        assert causes["transfer"] == whole - latency_ps
    else:
        assert causes["on_chip_copy"] == whole


def test_the_log_of_a_run_that_stopped_can_still_be_measured():
    async def hangs(core, source, out):
        if core.is_memory_core:
            return
        core.memcpy_async(core.nram.alloc(source.shape, source.dtype), source)
        if core.core_id:
            await core.sync_all_ipu()

    device = Device(X4)
    source = device.upload(np.zeros(1024, np.float32))
    device.launch(hangs, source, device.alloc((1024,), np.float32), dim=(4, 1, 1), kind="UNION1")
    with pytest.raises(HangError):
        device.synchronize()
    metrics = measure(device.log, X4)
    assert metrics.time_ps > X4.kernel_start_ps
    assert metrics.bytes_requested == {"GDRAM2NRAM": 4 * NBYTES}
    assert (metrics.core_causes_ps.sum(axis=1) == metrics.time_ps).all()


def test_a_gathered_table_counts_only_the_bytes_read():
    """The vendor's figure counts the whole table and exceeds 100 %; the compulsory bytes of these rows do not."""

    async def rows_of(core, table, out):
        tile = core.nram.alloc(out.shape, out.dtype)
        await core.memcpy(tile, table[: out.shape[0]])
        await core.memcpy(out, tile)

    device = Device(X4, data=False)
    table, out = (
        device.upload(np.broadcast_to(np.zeros((), np.float32), (1 << 20, 256)), "table"),
        device.alloc((64, 256), np.float32),
    )
    device.launch(rows_of, table, out, dim=1, kind="BLOCK")
    device.synchronize()
    metrics = measure(device.log, X4)
    assert metrics.vendor_io_efficiency > 1 > metrics.io_efficiency
    assert metrics.compulsory_bytes == {"read": 65_536, "write": 65_536}
    assert metrics.theory_io_bytes == (1 << 30) + 65_536
    assert metrics.verdict.startswith("above 100 %")


def test_bytes_that_move_twice_do_not_count_for_those_that_never_move():
    """`x` is read twice, half of `y` never; a scalar load of 4 B moves 64 B."""

    async def kernel(core, x, y, n, out):
        tile = core.nram.alloc(out.shape, out.dtype)
        for source in (x, x, y):
            await core.memcpy(tile, source[: out.shape[0]])
        await core.load(n[0])
        await core.memcpy(out, tile)

    device = Device(X4)
    x, y = (device.upload(np.zeros(count, np.float32), name) for name, count in (("x", 1024), ("y", 2048)))
    n = device.upload(np.zeros(1, np.int32), "n")
    device.launch(kernel, x, y, n, device.alloc((1024,), np.float32), dim=1, kind="BLOCK")
    device.synchronize()
    metrics = measure(device.log, X4)
    assert metrics.bus_bytes == {"read": 3 * NBYTES + 64, "write": NBYTES}
    assert metrics.compulsory_bytes == {"read": 2 * NBYTES + 4, "write": NBYTES}


@pytest.mark.parametrize(
    ("dtype", "rate"), [("float32", X4.tensor_ops_per_cycle_fp32), ("float16", X4.tensor_ops_per_cycle_fp16)]
)
def test_compute_efficiency_of_a_matmul_is_relative_to_the_tensor_pipes(dtype, rate):
    device = Device(X4)
    a, weights = (device.upload(np.ones(shape, dtype)) for shape in ((128, 128), (64, 4, 128)))
    out = device.alloc((128, 256), dtype, "out")

    async def multiply(core, a, weights, out):
        left, right = core.nram.alloc(a.shape, a.dtype), core.wram.alloc(weights.shape, weights.dtype)
        result = core.nram.alloc(out.shape, out.dtype)
        await core.memcpy(left, a)
        await core.memcpy(right, weights)
        for _ in range(15):
            core.matmul(result, left, right)
        await core.memcpy(out, result)

    device.launch(multiply, a, weights, out, dim=(1, 1, 1), kind="BLOCK")
    device.synchronize()
    operations = 15 * 2 * 128 * 128 * 256
    metrics = measure(device.log, X4, theory_ops=operations)
    assert (metrics.peak_pipe, metrics.peak_ops_per_s) == ("tensor", rate * X4.cores * X4.clock_hz)
    # One of 32 cores works, at `tensor_efficiency` of its peak at most.
    assert 0.5 * X4.tensor_efficiency / X4.cores < metrics.compute_efficiency < X4.tensor_efficiency / X4.cores


async def rows_by_a_copy(core, source, out):
    if not core.is_memory_core:
        await core.memcpy(core.nram.alloc((8, 64), source.dtype), source.reshape(16, 64)[::2])


async def rows_by_a_loop(core, source, out):
    if not core.is_memory_core:
        numbers = core.nram.alloc(8, "int32")
        await core.memcpy(numbers, out.reshape(-1)[:8])
        await core.memcpy_rows(core.nram.alloc((8, 64), source.dtype), source.reshape(16, 64), None, numbers)


async def all_rows(core, source, out):
    if not core.is_memory_core:
        await core.memcpy(core.nram.alloc((16, 64), source.dtype), source.reshape(16, 64))


@pytest.mark.parametrize(
    ("kernel", "strided"), [(rows_by_a_copy, [True]), (rows_by_a_loop, [False, True]), (all_rows, [False])]
)
def test_copies_at_the_strided_dram_rate_count_as_strided(kernel, strided):
    device = Device(X4)
    source = device.upload(np.arange(1024, dtype=np.float32), "source")
    numbers = device.upload(np.arange(0, 16, 2, dtype=np.int32), "numbers")
    device.launch(kernel, source, numbers, dim=(1, 1, 1), kind="BLOCK")
    device.synchronize()
    records = LogColumns(device.log, X4)
    assert records.strided[records.is_copy].tolist() == strided

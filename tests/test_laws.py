"""Laws that times obey on every board, for all parameters."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.lower_bound import lower_bound_of
from mlusim.analysis.metrics import measure
from mlusim.hardware import board
from mlusim.host.device import Device
from mlusim.units import PS_PER_S, ceil_ps

BOARDS = ["mlu370-x4", "mlu590-m9", "mlu290-m5", "mlu270-s4"]
FASTER = [
    *("dram_bandwidth_bytes_per_s", "core_read_bandwidth_bytes_per_s", "core_write_bandwidth_bytes_per_s"),
    *("cluster_read_bandwidth_bytes_per_s", "cluster_write_bandwidth_bytes_per_s", "clock_hz"),
]
few = settings(max_examples=20, deadline=None)
boards = st.sampled_from(BOARDS)
elements = st.integers(1, 1500).map(lambda units: 32 * units)


async def there_and_back(core, x, out, rounds):
    """Blocking: load, compute, store."""
    held = core.nram.alloc(x.shape[-1], x.dtype)
    for _ in range(rounds):
        await core.memcpy(held, x[core.task_id])
        core.add(held, held, 1.0)
        await core.sync()
        await core.memcpy(out[core.task_id], held)


def run(on, count, tasks=1, rounds=1, kernel=there_and_back, data=False, array=None):
    device = Device(on, data=data)
    x = device.upload(np.broadcast_to(np.float32(0), (tasks, count)) if array is None else array)
    out = device.alloc((tasks, count), np.float32)
    device.launch(kernel, x, out, rounds, dim=tasks, kind="BLOCK")
    device.synchronize()
    return device


def time_ps(device):
    launch = device.log.launches[0]
    return launch.end_ps - launch.start_ps


@few
@given(boards, elements, st.integers(1, 3))
def test_the_time_of_one_core_matches_the_closed_form(name, count, rounds):
    on = board(name)
    nbytes = 4 * count
    units = -(-nbytes // 64) * 64
    capacity = on.dram_bandwidth_bytes_per_s

    def transfer_ps(port, efficiency):
        part = min(1, capacity / (port / efficiency))
        return max(ceil_ps(units * PS_PER_S / (port * part)), on.dma_segment_ps)

    load = on.dma_read_latency_ps + transfer_ps(on.core_read_bandwidth_bytes_per_s, on.dram_read_efficiency)
    store = on.dma_write_latency_ps + transfer_ps(on.core_write_bandwidth_bytes_per_s, on.dram_write_efficiency)
    compute = on.cycles_ps(on.vector_startup_cycles + -(-nbytes // on.vector_bytes_per_cycle))
    # The sync waits for the vector pipe; load, add and store are issued one by one.
    each = 3 * on.cycles_ps(on.issue_cycles) + load + compute + store
    syncs = on.cycles_ps(on.issue_cycles)
    total = on.kernel_start_ps + rounds * each + on.kernel_end_ps
    assert total <= time_ps(run(on, count, rounds=rounds)) + rounds <= total + rounds * (syncs + 3)


@few
@given(boards, st.integers(2, 16))
def test_k_equal_cores_on_a_saturated_link_take_k_times(name, k):
    on = board(name)
    slow = on.replace(
        dram_bandwidth_bytes_per_s=10**9,
        core_start_skew_ps=0,
        cluster_start_ps=0,
        dram_share_spread=0.0,
    )

    async def load(core, x, out, rounds):
        await core.memcpy(core.nram.alloc(x.shape[-1], x.dtype), x[core.task_id])

    def moving_ps(tasks):
        return time_ps(run(slow, 16384, tasks, kernel=load)) - fixed_ps

    fixed_ps = on.kernel_start_ps + on.kernel_end_ps + on.dma_read_latency_ps + on.cycles_ps(on.issue_cycles)
    assert moving_ps(k) == pytest.approx(k * moving_ps(1), abs=2 * k)


@few
@given(boards, elements, st.sampled_from(FASTER), st.integers(2, 4))
def test_one_cores_time_and_the_lower_bound_never_grow_with_more_bandwidth_or_clock(name, count, field, times):
    on = board(name)
    faster = on.replace(**{field: times * getattr(on, field)})
    before, after = run(on, count), run(faster, count)
    assert time_ps(after) <= time_ps(before)
    metrics = [measure(device.log, device.board, theory_ops=count) for device in (before, after)]
    columns = [LogColumns(device.log, device.board) for device in (before, after)]
    bounds = [lower_bound_of(*pair).time_ps for pair in zip(columns, metrics, strict=True)]
    assert bounds[1] <= bounds[0]


@few
@given(boards, st.integers(2, 40), st.integers(1, 300).map(lambda size: 4 * size), st.integers(1, 300), st.booleans())
def test_a_strided_copy_is_never_slower_than_a_loop_of_copies_of_its_rows(name, rows, width, gap, store):
    async def kernel(core, x, out, strided):
        far = (out if store else x)[0].reshape(-1, width + 4 * gap)[:rows, :width]
        near = core.nram.alloc((rows, width), x.dtype)
        to, origin = (far, near) if store else (near, far)
        if strided:
            core.memcpy_async(to, origin)
        else:
            for row in range(rows):
                core.memcpy_async(to[row], origin[row])
        await core.sync()

    on = fair(name)
    count = rows * (width + 4 * gap)
    whole, rowwise = (time_ps(run(on, count, rounds=strided, kernel=kernel)) for strided in (True, False))
    # The strided rate differs from the contiguous one only where the DRAM is full.
    assert whole <= rowwise + rows


@few
@given(boards, st.integers(1, 8), st.integers(1, 200), st.integers(0, 30))
def test_bytes_equal_hand_counts(name, tasks, count, offset):
    async def kernel(core, x, out, rounds):
        held = core.nram.alloc(count, x.dtype)
        await core.memcpy(held, x[core.task_id, offset : offset + count])
        await core.memcpy(out[core.task_id, offset : offset + count], held)

    device = run(board(name), 256, tasks, kernel=kernel)
    metrics = measure(device.log, device.board)
    # Rows are 1024 B, so every one of them begins on a unit.
    first, last = 4 * offset, 4 * (offset + count)
    touched = -(-last // 64) - first // 64
    whole = max(0, last // 64 - -(-first // 64))
    assert metrics.bytes_requested == {"GDRAM2NRAM": 4 * tasks * count, "NRAM2GDRAM": 4 * tasks * count}
    assert metrics.bus_bytes == {"read": 64 * tasks * (touched + touched - whole), "write": 64 * tasks * touched}


@few
@given(boards, st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_time_depends_on_data_only_through_scalar_loads(name, tasks, seed):
    array = np.random.default_rng(seed).standard_normal((tasks, 4096)).astype(np.float32)
    times = {
        time_ps(run(board(name), 4096, tasks, data=True, array=array)),
        time_ps(run(board(name), 4096, tasks, data=True, array=np.zeros_like(array))),
        time_ps(run(board(name), 4096, tasks)),
    }
    assert len(times) == 1


def rate(name, *, write, strided):
    """Bytes per picosecond of one kind of access by all cores."""
    on = board(name)
    rows, width = 64, 1024

    async def kernel(core, x, out, rounds):
        held = core.nram.alloc((rows, width), np.float32)
        far = (out if write else x)[core.task_id].reshape(2 * rows, width)
        far = far[::2] if strided else far[:rows]
        for _ in range(8):
            if write:
                core.memcpy_async(far, held)
            else:
                core.memcpy_async(held, far)
        await core.sync()

    device = run(on, 2 * rows * width, on.cores, kernel=kernel)
    return 1 / time_ps(device)


def fair(name):
    """A board whose cores start together and share the DRAM fairly; else a few per cent hang on who comes first."""
    return board(name).replace(dram_share_spread=0.0, cluster_start_ps=0)


@pytest.mark.parametrize("name", BOARDS)
def test_access_patterns_rank_as_expected(name):
    on = fair(name)
    rates = [rate(on, write=write, strided=strided) for strided in (False, True) for write in (False, True)]
    if on.clusters * on.cluster_read_bandwidth_bytes_per_s < 0.5 * on.dram_bandwidth_bytes_per_s:
        # The ports of the clusters bound all four, and what is left between them is the start-up of a read.
        assert all(slower <= 1.02 * faster for faster, slower in pairwise(rates))
        return
    assert rates == sorted(rates, reverse=True)
    assert len(set(rates)) == len(rates)


@pytest.mark.grid(3)
@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("total", [1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 28])
def test_more_tasks_up_to_one_per_core_are_never_slower(name, total):
    # Tasks that have one copy each make more copies of less: in less, the starts of more cores show.
    on = fair(name)
    times = []

    async def kernel(core, x, out, rounds):
        count = x.shape[1]
        most = min(count, 32768)
        held = core.nram.alloc(most, x.dtype)
        for start in range(0, count, most):
            await core.memcpy(held[: min(most, count - start)], x[core.task_id, start : min(start + most, count)])
            await core.memcpy(out[core.task_id, start : min(start + most, count)], held[: min(most, count - start)])

    tasks = 1
    while tasks <= on.cores:
        times.append(time_ps(run(on, total // 4 // tasks, tasks, kernel=kernel)))
        tasks *= 2
    assert times == sorted(times, reverse=True)


@pytest.mark.grid(3)
@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("elements", [16, 256, 4096, 32768])
@pytest.mark.parametrize("tiles", [48, 240])
def test_more_tasks_are_never_slower_with_the_same_copies(name, elements, tiles):
    on = fair(name)

    async def kernel(core, x, out):
        held = core.nram.alloc(elements, x.dtype)
        each = tiles // core.task_dim
        for tile in range(core.task_id * each, core.task_id * each + each):
            await core.memcpy(held, x[tile])
            await core.memcpy(out[tile], held)

    times = []
    for tasks in range(1, on.cores + 1):
        # Where two tasks of a cluster share what one could have, a cluster with one task more is the last.
        shared = on.cluster_read_bandwidth_bytes_per_s < 2 * on.core_read_bandwidth_bytes_per_s
        if tiles % tasks == 0 and (not shared or tasks <= on.clusters or tasks % on.clusters == 0):
            device = Device(on, data=False)
            x = device.upload(np.broadcast_to(np.float32(0), (tiles, elements)))
            device.launch(kernel, x, device.alloc(x.shape, x.dtype), dim=tasks, kind="BLOCK")
            device.synchronize()
            times.append(time_ps(device))
    # Some counts that do not double mix reads and writes for longer.
    assert all(more <= 1.01 * fewer for fewer, more in pairwise(times))
    assert len(times) > 5


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("useful", [1, 2, 4, 16, 32, 63])
def test_a_store_of_part_of_a_unit_is_at_most_x_over_128_efficient(name, useful):
    async def kernel(core, x, out, rounds):
        held = core.nram.alloc(useful, np.uint8)
        await core.memcpy(out.view(np.uint8)[core.task_id, :useful], held)

    device = run(board(name), 64, 4, kernel=kernel)
    bus = measure(device.log, device.board).bus_bytes
    assert 4 * useful / (bus["read"] + bus["write"]) == useful / 128


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("dtype", ["int8", "int16", "float16", "float32"])
def test_the_bound_of_operations_is_near_the_time_of_a_kernel_that_only_computes(name, dtype):
    rounds = 50

    async def compute(core, x, out):
        held = core.nram.alloc(131_072 // np.dtype(dtype).itemsize, dtype)
        for _ in range(rounds):
            core.add(held, held, held)
        await core.sync()

    on = board(name)
    device = Device(on, data=False)
    x = device.upload(np.broadcast_to(np.zeros((), dtype), 64))
    device.launch(compute, x, device.alloc(64, dtype), dim=on.cores, kind="BLOCK")
    device.synchronize()
    columns = LogColumns(device.log, on)
    operations = rounds * on.cores * 131_072 // np.dtype(dtype).itemsize
    for each, near in ((1, 0.85), (2, 0)):
        # Two operations for each element of an instruction exceed the peak, which then is no bound.
        bound = lower_bound_of(columns, measure(device.log, on, theory_ops=each * operations))
        assert near * time_ps(device) <= bound.compute_ps <= (near > 0) * time_ps(device)
        assert bound.time_ps == max(bound.io_ps, bound.compute_ps)

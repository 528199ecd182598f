"""Time by cause: every core-picosecond has exactly one cause, for any kernel."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.by_line import time_by_line
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.lower_bound import lower_bound_of
from mlusim.analysis.metrics import measure
from mlusim.hardware import board
from mlusim.host.device import Device
from mlusim.log import MOVE, VECTOR

BOARDS = [board("mlu370-x4"), board("mlu590-h8"), board("mlu290-m5")]
STEPS = (
    *("all", "load", "store", "in", "in_async", "out", "out_async", "move", "fill", "sync", "scalar", "rows", "stage"),
)


def program(steps):
    async def kernel(core, source, out):
        stage = core.sram.alloc(4096, np.float32, "stage") if core.cluster_dim else None
        if not core.is_memory_core:
            held, other = core.nram.alloc(4096, np.float32), core.nram.alloc(4096, np.float32)
        do = {
            "all": core.sync_all,
            "load": lambda: core.load(source[core.task_id % 7]),
            "store": lambda: core.store(out[core.task_id], 1.0),
            "in": lambda: core.memcpy(held, source),
            "in_async": lambda: core.memcpy_async(held, source),
            "out": lambda: core.memcpy(out[::2], held[:2048]),
            "out_async": lambda: core.memcpy_async(out, other),
            "move": lambda: core.move(other, held),
            "fill": lambda: core.fill(other, 1),
            "sync": core.sync,
            "scalar": lambda: core.scalar(20 * (1 + core.task_id % 5)),
            "rows": lambda: core.memcpy_rows(held.reshape(64, 64), source.reshape(64, 64), None, np.arange(0, 64, 2)),
            "stage": lambda: None if stage is None else core.memcpy(stage, source),
        }
        for step in steps:
            skipped = core.is_memory_core or (core.task_id % 3 == 1 and step in ("in", "fill"))
            if step == "all" or not skipped:
                waiting = do[step]()
                if waiting is not None:
                    await waiting

    return kernel


def assert_lines_sum_to_the_causes(device, on, metrics):
    lines = time_by_line(LogColumns(device.log, on))
    assert all((line.spent_ps >= 0).all() for line in lines)
    total = sum((line.spent_ps for line in lines), np.zeros(len(CAUSES), np.int64))
    assert dict(zip(CAUSES, total.tolist(), strict=True)) == dict(metrics.where_time_went)


def assert_losses_sum_to_the_time_above_the_lower_bound(device, on, metrics):
    bound = lower_bound_of(LogColumns(device.log, on), metrics)
    assert (bound.core_losses_ps >= 0).all()
    assert (bound.core_losses_ps.sum(axis=1) == metrics.time_ps - bound.time_ps).all()
    assert sum(bound.losses_ps.values()) == on.cores * (metrics.time_ps - bound.time_ps)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(BOARDS),
    st.lists(st.tuples(st.lists(st.sampled_from(STEPS), max_size=8), st.integers(1, 70), st.booleans()), max_size=3),
    st.booleans(),
)
def test_causes_sum_to_the_time_of_every_core(on, launches, two_queues):
    device = Device(on)
    source = device.upload(np.zeros(4096, np.float32))
    out = device.alloc((4096,), np.float32)
    queues = [device.queue(), device.queue()]
    for number, (steps, tasks, union) in enumerate(launches):
        dim = (4, -(-tasks // 4), 1) if union else (tasks, 1, 1)
        kind = "UNION1" if union else "BLOCK"
        device.launch(program(steps), source, out, dim=dim, kind=kind, queue=queues[number % 2 if two_queues else 0])
    device.synchronize()
    metrics = measure(device.log, on)
    assert metrics.core_causes_ps.shape == (on.cores, len(CAUSES))
    assert (metrics.core_causes_ps >= 0).all()
    assert (metrics.core_causes_ps.sum(axis=1) == metrics.time_ps).all()
    assert sum(metrics.where_time_went.values()) == metrics.core_time_ps == on.cores * metrics.time_ps
    assert_lines_sum_to_the_causes(device, on, metrics)
    assert_losses_sum_to_the_time_above_the_lower_bound(device, on, metrics)
    assert (metrics.task_busy_ps >= 0).all()
    assert (metrics.task_idle_ps >= 0).all()
    used = {task.cluster * on.cores_per_cluster + task.core for task in device.log.tasks if not task.is_memory_core}
    unused = sorted(set(range(on.cores)) - used)
    without_task = [list(CAUSES).index(name) for name in ("launch", "idle")]
    assert (metrics.core_causes_ps[unused][:, without_task].sum(axis=1) == metrics.time_ps).all()


def test_what_a_core_does_alone_is_the_cause_of_its_time():
    """Each core of a cluster computes for a different time, then waits for the slowest."""
    on = BOARDS[0]

    async def kernel(core):
        if not core.is_memory_core:
            held, other = core.nram.alloc(4096, np.float32), core.nram.alloc(4096, np.float32)
            core.scalar(1000 * (1 + core.task_id))
            core.fill(held, 1)
            await core.sync()
            core.move(other, held)
            await core.sync()
        await core.sync_cluster()

    device = Device(on)
    device.launch(kernel, dim=4)
    device.synchronize()
    columns = device.log.columns()
    spent = {name: measure(device.log, on).core_causes_ps[:4, index].tolist() for index, name in enumerate(CAUSES)}
    took_ps = columns["end_ps"] - columns["start_ps"]
    # The issue of an instruction is not a time of its pipe.
    assert spent["scalar"] == [on.cycles_ps(1000 * (1 + core) - on.issue_cycles) for core in range(4)]
    assert spent["vector"] == took_ps[columns["pipe"] == VECTOR].tolist()
    assert spent["on_chip_copy"] == took_ps[columns["pipe"] == MOVE].tolist()
    # The cores of a cluster start one after the other.
    step_ps = on.cycles_ps(1000) + on.core_start_skew_ps
    assert [waited - spent["sync"][3] for waited in spent["sync"]] == [3 * step_ps, 2 * step_ps, step_ps, 0]
    assert not any(spent["transfer"] + spent["bandwidth_wait"] + spent["dma_latency"])

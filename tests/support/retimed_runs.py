"""Runs for retiming, and their comparison."""

from __future__ import annotations

from dataclasses import replace as with_fields
from functools import cache

import numpy as np

import mlusim
from mlusim import ops
from mlusim.log import NONE
from mlusim.ops.call import Input
from mlusim.ops.call import run as run_call
from mlusim.ops.registry import OPERATORS
from mlusim.records import COLUMNS
from mlusim.results.saved import short_names

# Numbers of records, tasks and allocations hang on who was first; what they stand for does not.
PLAIN = [
    name
    for name in COLUMNS
    if name not in {"op", "task", "line", "waited_for", "detail"} and not name.endswith(("_alloc", "_box"))
]

RNG = np.random.default_rng(3)
X = RNG.standard_normal((2, 4, 8, 50), np.float32)
INDEX = RNG.integers(-4, 4, (2, 3, 8, 50))
PAIRS = RNG.integers(0, 2, (3, 5, 2))
LENGTHS = np.array([3, 1])
# So many elements that each core works on a window of them, and most find nothing to do.
FAR, ONE = np.zeros(400_000, np.int8), np.array([3])
SHIFTS = np.array([[1], [-9]], np.int32)


def operands_of(log):
    """The further operands of records, with their boxes."""
    return {
        record: [(alloc, offset, log.boxes[box]) for alloc, offset, box in some]
        for record, some in log.more_operands.items()
    }


def portable(log):
    """The lines of a log, with their files as a saved run names them."""
    names = short_names(file for file, _, _ in log.lines)
    return [(names[file], line, function) for file, line, function in log.lines]


def same_log(again, log):
    """Every number of two logs, except indices of names."""
    one, other = again.table(), log.table()
    assert one.shape == other.shape
    for place, name in enumerate(COLUMNS):
        if name not in {"op", "dst_box", "a_box", "b_box"}:
            np.testing.assert_array_equal(one[:, place], other[:, place], name)
    assert portable(again) == portable(log)
    for name in ("tasks", "launches", "allocations", "host"):
        assert getattr(again, name) == getattr(log, name), name
    assert operands_of(again) == operands_of(log)
    assert (again.loops, again.byte_copies) == (log.loops, log.byte_copies)
    assert [again.ops[code] for code in one[:, 0]] == [log.ops[code] for code in other[:, 0]]
    assert again.addresses.keys() == log.addresses.keys()
    assert again.selected == log.selected
    assert again.attributes == log.attributes
    assert (again.released.keys(), again.seen, again.remarks) == (log.released.keys(), log.seen, log.remarks)
    assert (again.swallowed, again.of_file) == (log.swallowed, log.of_file)


def programs(log):
    """By task, what it did, when, and with what; independent of the order of tasks in the log."""
    columns = {name: column.tolist() for name, column in log.columns().items()}
    lines = portable(log)
    keys = [(task.launch, task.task_id, task.is_memory_core) for task in log.tasks]
    place = [0] * len(log)
    found = {key: [(task.start_ps, task.end_ps)] for key, task in zip(keys, log.tasks, strict=True)}
    for record in range(len(log)):
        key = keys[columns["task"][record]]
        place[record] = (key, len(found[key]))
        waited = columns["waited_for"][record]
        words = [log.ops[columns["op"][record]], lines[columns["line"][record]]]
        boxes = [columns[f"{side}_box"][record] for side in ("dst", "a", "b")]
        words += [None if box == NONE else log.boxes[box] for box in boxes]
        # A barrier is answered by whoever was last, who may have issued it later in the log.
        words.append("later" if waited > record else place[waited] if waited != NONE else None)
        found[key].append((*words, *(columns[name][record] for name in PLAIN)))
    return found


def launches(log):
    """The launches of a log, without the lines of the host program, which launched one of two runs."""
    return [with_fields(launch, launched_at="") for launch in log.launches]


def same_run(again, fresh):
    assert programs(again.log) == programs(fresh.log)
    assert launches(again.log) == launches(fresh.log)
    assert again.time_ps == fresh.time_ps
    assert again.metrics.where_time_went == fresh.metrics.where_time_went
    assert again.metrics.peak_nram_bytes == fresh.metrics.peak_nram_bytes
    assert again.metrics.peak_sram_bytes == fresh.metrics.peak_sram_bytes
    assert again.lower_bound.losses_ps == fresh.lower_bound.losses_ps


RUNS = {
    "tin_shift": lambda **o: ops.tin_shift_forward(X, SHIFTS, **o),
    "tin_shift_documented": lambda **o: ops.tin_shift_forward(X, SHIFTS, strategy="documented", **o),
    "tin_shift_pingpong": lambda **o: ops.tin_shift_backward(X, SHIFTS, "adjoint", strategy="pingpong", **o),
    "gather": lambda **o: ops.gather(X, INDEX, 1, **o),
    "gather_rows": lambda **o: ops.gather(X, INDEX, 1, strategy="rows", **o),
    "gather_nd": lambda **o: ops.gather_nd(X, PAIRS, mode="standard", **o),
    "scatter": lambda **o: ops.scatter(X, INDEX, X[:, :3], 1, **o),
    "scatter_rows": lambda **o: ops.scatter(X, INDEX, X[:, :3], 1, strategy="rows", **o),
    "scatter_far": lambda **o: ops.scatter(FAR, ONE, ONE.astype(np.int8), strategy="rows", **o),
    "cast": lambda **o: ops.cast(X, "int16", **o),
    "flip": lambda **o: ops.flip(X, [0, -1], **o),
    "reverse_sequence": lambda **o: ops.reverse_sequence(X, LENGTHS, **o),
    "bitcast": lambda **o: ops.bitcast_convert(X, "int8", strategy="copy", **o),
    "view": lambda **o: ops.bitcast_convert(X, "int8", strategy="view", **o),
    "empty": lambda **o: ops.flip(np.empty((0, 3), np.int8), 1, **o),
}


@cache
def ran(name, board, *, data=False):
    return RUNS[name](device=board, data=data, check=False)


FASTER = {
    "dram_bandwidth_bytes_per_s": 1.7,
    "clock_hz": 0.77,
    "dma_read_latency_ps": 2.5,
    "dma_write_latency_ps": 0,
    "dma_segment_ps": 3,
    "dram_mixed_efficiency": 0.8,
    "core_read_bandwidth_bytes_per_s": 0.3,
    "cluster_write_bandwidth_bytes_per_s": 0.2,
    "vector_startup_cycles": 5,
    "issue_cycles": 7,
    "core_start_skew_ps": 0,
    "kernel_start_ps": 0,
    "wave_ps": 3,
    "scalar_gdram_latency_ps": 0.1,
    "scalar_op_cycles": 5,
    "scalar_add_cycles": 3,
    "scalar_nram_cycles": 4,
    "scalar_loop_cycles": 3,
    "gather_element_ps": 2,
    "move_startup_cycles": 6,
    "cluster_barrier_ps": 4,
    "union_barrier_ps": 0,
    "sram_bandwidth_bytes_per_s": 0.5,
    "queued_kernel_gap_ps": 9,
}


def changed(board, *names):
    board = mlusim.board(board)
    values = {}
    for name in names:
        value = getattr(board, name) * FASTER[name]
        values[name] = round(value) if isinstance(getattr(board, name), int) else value
    return values


def fresh(run, board):
    """The recorded split, run on another board."""
    operator, request = OPERATORS[run.operator], run.request
    known = {array.shape: array for array in (SHIFTS, LENGTHS, INDEX, PAIRS, ONE)}
    inputs = []
    for name, shape, dtype in request.tensors:
        looked_at = name in operator.reads_values
        inputs.append(
            Input(name=name, array=known[shape] if looked_at else np.zeros(shape, dtype), keep_data=looked_at)
        )
    call = operator.prepare(run.board, request.strategy, *inputs, **request.attributes)
    return run_call(with_fields(call, plan=with_fields(call.plan, board=board)), data=False, check=False)

"""Re-timing: on its own board a log gives itself again, on another what a fresh run gives, or a reason why not."""

from __future__ import annotations

import random
from dataclasses import replace as with_fields
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mlusim
from mlusim import InputError, ops
from mlusim.analysis.table import to_json
from mlusim.log import NONE
from mlusim.memory.kinds import Direction, MemoryKind
from mlusim.ops.common import Input
from mlusim.ops.common import run as run_call
from mlusim.ops.registry import OPERATORS
from mlusim.records import COLUMNS
from mlusim.results.saved import short_names
from mlusim.retiming.retime import planned, retime

# Numbers of records, tasks and allocations hang on who was first; what they stand for does not.
PLAIN = [
    name for name in COLUMNS if name not in {"op", "task", "line", "waited_for", "detail"} and "_alloc" not in name
]
PLAIN = [name for name in PLAIN if not name.endswith("_box")]

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
    """Every number of two logs, but those of names."""
    one, other = again.table(), log.table()
    assert one.shape == other.shape
    for place, name in enumerate(COLUMNS):
        if name not in {"op", "dst_box", "a_box", "b_box"}:
            np.testing.assert_array_equal(one[:, place], other[:, place], name)
    assert portable(again) == portable(log)
    for name in ("tasks", "launches", "allocations", "host_waits", "host_writes"):
        assert getattr(again, name) == getattr(log, name), name
    assert operands_of(again) == operands_of(log)
    assert (again.loops, again.byte_copies) == (log.loops, log.byte_copies)
    assert [again.ops[code] for code in one[:, 0]] == [log.ops[code] for code in other[:, 0]]
    assert again.addresses.keys() == log.addresses.keys()


def programs(log):
    """By task: what it did, when, and what for, in words that do not hang on who was first."""
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


def same_run(again, fresh):
    assert programs(again.log) == programs(fresh.log)
    assert again.log.launches == fresh.log.launches
    assert again.time_ps == fresh.time_ps
    assert again.metrics.where_time_went == fresh.metrics.where_time_went
    assert again.metrics.peak_nram_bytes == fresh.metrics.peak_nram_bytes
    assert again.metrics.peak_sram_bytes == fresh.metrics.peak_sram_bytes
    assert again.floor.losses_ps == fresh.floor.losses_ps


# Operators.

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
BOARDS = ("mlu370-x4", "mlu270-s4", "mlu590-h8")


@cache
def ran(name, board, *, data=False):
    return RUNS[name](device=board, data=data, check=False)


@pytest.mark.grid(3)
@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("name", RUNS)
def test_on_its_own_board_an_operator_is_itself_again(name, board, tmp_path):
    run = ran(name, board, data=True)
    again = retime(run)
    same_log(again.log, run.log)
    assert to_json(again) == to_json(run)
    assert again.output is None
    assert again.plan.explain() == run.plan.explain()
    saved = retime(run.save(tmp_path / "run"))
    same_log(saved.log, run.log)
    assert [*saved.sources.values()] == [*run.sources.values()]


@pytest.mark.parametrize("board", BOARDS)
def test_without_data_it_is_the_same(board):
    for name in ("gather_rows", "scatter", "cast"):
        same_log(retime(ran(name, board)).log, ran(name, board).log)


FASTER = {
    "dram_bandwidth_bytes_per_s": 1.7,
    "clock_hz": 0.77,
    "dma_read_latency_ps": 2.5,
    "dma_write_latency_ps": 0,
    "dma_segment_ps": 3,
    "dram_latency_growth": 0,
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
    call = operator.prepared(run.board, request.strategy, *inputs, **request.attributes)
    return run_call(with_fields(call, plan=with_fields(call.plan, board=board)), data=False, check=False)


@pytest.mark.grid(3)
@pytest.mark.parametrize(("number", "parameter"), list(enumerate(FASTER)))
def test_with_another_parameter_an_operator_takes_what_a_fresh_run_takes(number, parameter):
    """A third of the operators for each parameter, so that neighbours share them all."""
    for name, board in zip(list(RUNS)[number % 3 :: 3], (BOARDS * len(RUNS))[number:], strict=False):
        values = changed(board, parameter)
        again = retime(ran(name, board), keep_split=True, **values)
        same_run(again, fresh(ran(name, board), mlusim.board(board).replace(**values)))


def test_on_another_board_an_operator_takes_what_a_fresh_run_takes():
    same = 0
    for name, operation in RUNS.items():
        for board, other in (("mlu370-x4", "mlu370-s4"), ("mlu370-x4", "mlu370-x8"), ("mlu590-h8", "mlu590-m9")):
            plan, difference = planned(ran(name, board), mlusim.board(other))
            if not difference:
                same += 1
                again = retime(ran(name, board), other)
                straight = operation(device=other, data=False, check=False)
                same_run(again, straight)
                assert to_json(again) == to_json(straight)
                assert again.plan.explain() == straight.plan.explain() == plan.explain()
    assert same > 10


# Kernels of a user's own: everything that a core can do, in random order.


def _core_step(core, rng, step, arrays, here):  # noqa: PLR0911 - a case for each
    """One random operation; gives what is to be awaited, if anything."""
    x, out, index = arrays
    a, b, c, rows, wide, ldram, wram, shared = here
    start = rng.randrange(0, 64) * 32
    size = rng.choice((32, 64, 96, 17))
    match step:
        case "load_in":
            return core.memcpy(a[:size], x[start : start + size])
        case "async_in":
            return core.memcpy_async(b[:size], x[start : start + size])
        case "async_out":
            return core.memcpy_async(out[start : start + size], a[:size])
        case "out":
            return core.memcpy(out[start : start + size], b[:size])
        case "strided":
            view = x[: 64 * 32].reshape(64, 32)[:: rng.choice((1, 2, 4)), : rng.choice((8, 16, 32))]
            return core.memcpy(wide[: view.shape[0], : view.shape[1]], view)
        case "bytes":
            times, stride = rng.choice((1, 2, 3)), rng.choice((128, 256))
            to, origin = a.pointer, (x.pointer + start)
            return core.memcpy(to, origin, 128, Direction.GDRAM2NRAM, 128, stride, times - 1)
        case "bytes_async":
            return core.memcpy_async(out.pointer + start, a.pointer, 256, Direction.NRAM2GDRAM)
        case "bytes_3d" if core.board.has_3d_memcpy:
            to = (128, 2, 640, 0) if rng.random() < 0.5 else (128, 0, 256, 2)
            return core.memcpy(wide.pointer, x.pointer, 128, Direction.GDRAM2NRAM, *to, 256, 2, 0, 0)
        case "to_neighbour" if core.cluster_dim == 2:
            other = core.sram.alloc(LENGTH, "float32", "shared", cluster=1 - core.cluster_id)
            return core.memcpy(other[start : start + 64], shared[:64])
        case "move":
            return core.move(b[:64], a[:64])
        case "to_sram" | "from_sram" if shared is None:
            return core.scalar()
        case "to_sram":
            return core.memcpy_async(shared[start : start + 32], a[:32])
        case "from_sram":
            return core.memcpy(b[:96], shared[start : start + 96])
        case "stage":
            return core.scalar(3) if shared is None else core.memcpy_async(shared[start : start + 64], x[:64])
        case "ldram":
            return core.memcpy(ldram[:size], a[:size])
        case "wram":
            return core.memcpy(wram[:64], a[:64])
        case "vector":
            return core.add(c, a, b)
        case "reduce":
            return core.max_rows(c[:32], a.reshape(3, 32))
        case "select":
            return core.mask_select(c, a, b, a)
        case "fill":
            return core.fill(b, 1)
        case "load":
            return core.load(rng.choice((x, a, x))[start % 96])
        case "load_array":
            return core.load_array(rng.choice((index[:7], rows)))
        case "store":
            return core.store(rng.choice((a, out))[start % 96], 2)
        case "scalar":
            return core.scalar(rng.choice((None, 0, 7)), count=rng.choice((1, 5)))
        case "scalar_copy":
            return core.scalar_copy(a[:32], b, src_rows=np.arange(32) * 3, extra_cycles=rng.choice((0, 2)))
        case "rows":
            return core.memcpy_rows(a[:8], x, src_rows=np.arange(8) * rng.choice((3, 16)), blocking=rng.random() < 0.5)
        case "rows_by_list":
            return core.memcpy_rows(a[:7], x, src_rows=rows[:7])
        case "gather" if core.board.has_gather:
            return core.gather(c[:7], x, rows[:7])
        case "sync":
            return getattr(core, rng.choice(("sync", "sync_io", "sync_move", "sync_compute")))()
        case "sync_some":
            return core.sync_io_move_compute(move=False)
    return core.scalar(count=2)


LENGTH = 64 * 32 + 256
STEPS = (
    *("load_in", "async_in", "async_out", "out", "strided", "bytes", "bytes_async", "move", "to_sram", "from_sram"),
    *(
        "stage",
        "ldram",
        "wram",
        "bytes_3d",
        "to_neighbour",
        "vector",
        "reduce",
        "select",
        "fill",
        "load",
        "load_array",
        "store",
        "scalar",
    ),
    *("scalar_copy", "rows", "rows_by_list", "gather", "sync", "sync_some"),
)
BARRIERS = ("sync_cluster", "sync_all", "sync_all_ipu", "none")


async def anything(core, seed, x, out, index):
    """Random operations between random barriers, the same for all tasks."""
    barriers = random.Random(seed)  # noqa: S311
    rng = random.Random(f"{seed} {core.task_id} {core.is_memory_core}")  # noqa: S311
    shared = None
    if core.cluster_dim:
        shared = core.sram.alloc(LENGTH, "float32", "shared")
    here = (None,) * 7
    if not core.is_memory_core:
        a, b, c = (core.nram.alloc(96, "float32") for _ in range(3))
        rows, wide = core.nram.alloc(32, "int32"), core.nram.alloc((64, 32), "float32")
        here = (a, b, c, rows, wide, core.ldram.alloc(96, "float32"), core.wram.alloc(64, "float32"))
        core.fill(rows, 3)
        core.fill(a, 0)
        await core.sync()
    for _ in range(barriers.randrange(1, 4)):
        for _ in range(rng.randrange(5)):
            if core.is_memory_core:
                end = rng.randrange(1, 64) * 32
                await core.memcpy(shared[:end], x[:end])
                continue
            with core.nram.scope():
                if rng.random() < 0.3:
                    extra = core.nram.alloc(rng.randrange(1, 500), "int8")
                    if extra.size >= 128:
                        core.fill(extra[: extra.size // 128 * 128], 1)
                        await core.sync_compute()
                waits = _core_step(core, rng, rng.choice(STEPS), (x, out, index), (*here, shared))
                if waits is not None:
                    value = await waits
                    if isinstance(value, float) and value > 0.5:
                        core.scalar(11)
        barrier = barriers.choice(BARRIERS)
        if barrier != "none" and not (core.is_memory_core and barrier == "sync_all_ipu"):
            await getattr(core, barrier)()


def everything(board, seed):
    """Two queues, unions and waves, a host that waits, and buffers that come and go."""
    rng = random.Random(seed)  # noqa: S311
    device = mlusim.Device(board)
    x = device.upload(np.random.default_rng(seed).random(LENGTH, np.float32), "x")
    index = device.upload(np.arange(16, dtype=np.int32), "index")
    out = device.alloc(LENGTH, "float32")
    queues = [device.queue(), device.queue()]
    union = f"UNION{rng.choice((1, 2))}"
    width = int(union[5:]) * device.board.cores_per_cluster
    for turn in range(rng.randrange(1, 4)):
        kind, dim = rng.choice(((union, (width, 1, 1)), (union, (width, 2, 1)), ("BLOCK", (3, 7, 1)), ("BLOCK", 1)))
        device.launch(anything, seed + turn, x, out, index, dim=dim, kind=kind, queue=rng.choice(queues))
        if rng.random() < 0.4:
            device.synchronize()
            device.free(out)
            out = device.alloc(LENGTH, "float32", f"out {turn}")
    device.synchronize()
    return device.result()


@given(seed=st.integers(0, 10**6), board=st.sampled_from(("mlu370-x4", "mlu290-m5", "mlu590-m9")))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_on_its_own_board_any_kernel_is_itself_again(seed, board):
    run = everything(board, seed)
    same_log(retime(run).log, run.log)


@given(
    seed=st.integers(0, 10**6),
    board=st.sampled_from(("mlu370-x4", "mlu290-m5", "mlu590-m9")),
    names=st.sets(st.sampled_from(sorted(FASTER)), min_size=1, max_size=4),
    clusters=st.sampled_from((None, 3)),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_on_another_board_any_kernel_takes_what_a_fresh_run_takes(seed, board, names, clusters):
    values = changed(board, *sorted(names)) | ({} if clusters is None else {"clusters": clusters, "max_union": 2})
    again = retime(everything(board, seed), **values)
    same_run(again, everything(mlusim.board(board).replace(**values), seed))


# What is refused, and why.


def refused(run, *device, **values):
    with pytest.raises(InputError) as caught:
        retime(run, *device, **values)
    return caught.value.message


def test_a_smaller_nram_is_refused_with_what_the_run_used():
    run = ops.cast(np.zeros(10**6, np.float32), "int16", data=False)
    used = run.metrics.peak_nram_bytes
    board = run.board
    message = refused(run, nram_bytes=board.nram_reserved_bytes + used - 1)
    assert f"buffers in {used:,}".replace(",", " ") in message
    in_nram = [one for one in run.log.allocations if MemoryKind(one.memory) is MemoryKind.NRAM]
    last = max(in_nram, key=lambda one: one.address)
    assert f"of the NRAM of a core (up to {last.name!r}), and " in message
    assert "mlu370-x4 has" in message
    assert message.endswith("run it on that board")
    assert retime(run, nram_bytes=board.nram_reserved_bytes + used, keep_split=True).time_ps == run.time_ps


def test_other_memories_that_are_too_small_are_refused():
    run = everything("mlu370-x4", 4)
    assert run.metrics.peak_sram_bytes
    board = run.board
    assert "of the SRAM of a cluster (up to 'shared')" in refused(run, sram_bytes=board.sram_reserved_bytes + 128)
    assert "of the GDRAM of the board (up to" in refused(run, gdram_bytes=8000)
    assert "of the WRAM of a core" in refused(run, wram_bytes=128)
    assert "of the LDRAM of a core" in refused(run, ldram_bytes_per_core=64)


def test_other_alignments_are_refused_where_they_move_buffers():
    run = ran("cast", "mlu370-x4")
    assert "buffers in GDRAM are rounded up to 256 B on mlu370-x4 and were to 128 B" in refused(
        run, vector_alignment_bytes=256
    )
    assert "buffers in LDRAM are rounded up to 32 B" in refused(everything("mlu370-x4", 4), dram_unit_bytes=32)


def test_a_launch_that_the_board_cannot_hold_is_refused():
    async def nothing(core):
        core.scalar()

    device = mlusim.Device("mlu370-x4")
    device.launch(nothing, dim=(16, 1, 1), kind="UNION4")
    device.synchronize()
    assert "cannot launch what the run did: nothing: UNION4 needs 4 clusters at once" in refused(
        device.result(), clusters=2, max_union=2
    )
    assert "on clusters of 4 cores, and mlu370-x4 has clusters of 2" in refused(device.result(), cores_per_cluster=2)


def test_instructions_that_a_board_lacks_are_refused():
    run = ran("gather", "mlu590-h8")
    assert "the run uses __gather, which exists from arch 592 on, and mlu370-x4 is arch 372" in refused(
        run, "mlu370-x4", keep_split=True
    )

    async def deep(core, x):
        if not core.is_memory_core:
            await core.memcpy(core.nram.alloc((2, 3, 4), "float32"), x[:, :3, :4])

    device = mlusim.Device("mlu370-x4")
    device.launch(deep, device.upload(np.zeros((2, 5, 6), np.float32)), dim=4)
    device.synchronize()
    message = refused(device.result(), "mlu290-m5")
    assert "mlu290-m5 does not do what the run did at" in message
    assert f"{__file__}:" in message
    assert "3-D __memcpy needs arch 300 or later" in message

    async def odd(core):
        if not core.is_memory_core:
            core.fill(core.nram.alloc(300, "int8")[:70], 1)

    device = mlusim.Device("mlu370-x4")
    device.launch(odd, dim=4)
    device.synchronize()
    assert "arch 290 needs 64 B alignment and a multiple of 128 B" in refused(device.result(), "mlu290-m5")


def test_another_split_is_refused_unless_it_is_to_be_kept():
    run = ran("tin_shift_documented", "mlu370-x4")
    one_cluster = RUNS["tin_shift_documented"](device=run.board.replace(clusters=1, max_union=1), data=False)
    assert one_cluster.plan.dim != run.plan.dim
    message = refused(run, clusters=1, max_union=1)
    assert "tin_shift_forward would be split in another way on mlu370-x4: " in message
    assert f"grid {one_cluster.plan.dim} instead of {run.plan.dim}" in message
    assert "keep_split=True (--keep-split)" in message
    kept = retime(run, clusters=1, max_union=1, keep_split=True)
    assert kept.plan.dim == run.plan.dim
    assert kept.plan.board.clusters == 1
    assert "vector operands are rounded out to 128 B on arch 270, and on arch 372 not" in refused(run, "mlu270-s4")
    assert "there are __gather and __scatter on arch 592" in refused(ran("scatter", "mlu370-x4"), "mlu590-h8")


def test_a_plan_that_differs_in_any_part_is_another(tmp_path):
    run = ops.cast(X, "int16", data=False)
    plan = run.plan
    shifted = plan.tiles.start.copy()
    shifted[0] += 1
    others = {
        "strategy auto": {"strategy": "other"},
        "task type BLOCK instead of UNION1": {"kind": "UNION1"},
        "NRAM ": {"nram_bytes": plan.nram_bytes + 1},
        "tiles instead of": {"tiles": mlusim.Tiles([0], [[0]], [[1]], 0)},
        "its tiles would be others": {"tiles": mlusim.Tiles(plan.tiles.task, shifted, plan.tiles.stop, 1)},
        "the kernel would take overlapped = ": {"parameters": {**plan.named_parameters, "overlapped": None}},
    }
    for message, change in others.items():
        run.plan = with_fields(plan, **change)
        assert planned(run, run.board)[0] is not None
        assert message.replace("auto", plan.strategy) in refused(run)
        assert message.replace("auto", plan.strategy) in refused(run.save(tmp_path / "run"))


def test_buffers_are_as_large_as_the_memory_makes_them():
    async def small(core):
        if not core.is_memory_core:
            core.fill(core.nram.alloc(100, "int8"), 1)

    device = mlusim.Device("mlu370-x4")
    device.launch(small, dim=4)
    device.synchronize()
    reserved = device.board.nram_reserved_bytes
    assert "buffers in 128 B of the NRAM" in refused(device.result(), nram_bytes=reserved + 127)
    assert retime(device.result(), nram_bytes=reserved + 128).time_ps == device.result().time_ps


def test_parameters_that_are_none_are_refused():
    run = ran("cast", "mlu370-x4")
    for values, message in (
        ({"warp_size": 32}, "no parameter 'warp_size'"),
        ({"clock_hz": 0}, "clock_hz = 0 must be positive"),
        ({"clock_hz": "fast"}, "clock_hz = 'fast' must be an integer"),
        ({"kernel_start_ps": 10**25}, "is a delay of more than 1,000 s"),
        ({"dma_read_latency_ps": 1 << 63}, "is a delay of more than 1,000 s"),
        ({"core_start_skew_ps": 10**17}, "is a delay of more than 1,000 s"),
        ({"dram_read_efficiency": 0.1}, "must be less than dram_read_efficiency"),
    ):
        with pytest.raises(mlusim.BoardError, match=message):
            retime(run, **values)
    with pytest.raises(mlusim.BoardError, match="no-such-board"):
        retime(run, "no-such-board")


@pytest.mark.parametrize(
    "values",
    [
        {"dram_latency_growth": 1e300},
        {"dram_bandwidth_bytes_per_s": 1, "core_read_bandwidth_bytes_per_s": 1, "dram_latency_growth": 1e18},
    ],
)
def test_times_beyond_all_numbers_are_refused(values):
    # Of the split that was recorded: the planner may well choose another one for such a board.
    message = refused(ran("tin_shift", "mlu370-x4"), keep_split=True, **values)
    assert "a parameter of this board is out of all proportion" in message


def test_a_run_that_did_not_end_is_refused(tmp_path):
    async def fails(core):
        core.scalar()
        if core.task_id == 2:
            raise ValueError("no")

    device = mlusim.Device("mlu370-x4")
    device.launch(fails, dim=4)
    assert "kernel fails has not ended: only what ran can be timed again" in refused(device.result())
    with pytest.raises(mlusim.KernelError):
        device.synchronize()
    for run in (device.result(), device.save(tmp_path / "run")):
        assert "the run stopped with an error (KernelError: task 2" in refused(run)


def test_a_run_of_nothing_takes_no_time():
    assert retime(mlusim.Device("mlu370-x4").result(), clock_hz=1).time_ps == 0
    assert retime(ran("empty", "mlu370-x4"), "mlu590-h8").time_ps == 0


def test_an_operator_of_a_net_takes_as_long_as_it_did():
    from mlusim.cinn import Float, NetBuilder

    net = NetBuilder("net")
    x = net.create_input(Float(32), (64, 96), "x")
    net.cast(net.flip(x, [0]), "int8")
    result = net.build("mlu370-x4").execute({"x": np.ones((64, 96), np.float32)})
    for step in result.steps:
        again = retime(step.result)
        assert again.time_ps == step.result.time_ps
        assert again.metrics.bus_bytes == step.result.metrics.bus_bytes
    assert {step.result.log.launches[0].start_ps > 0 for step in result.steps} == {False, True}


def test_what_was_timed_again_can_be_saved_and_timed_again(tmp_path):
    run = everything("mlu590-m9", 8)
    slow = retime(run, clock_hz=10**8)
    back = retime(slow.save(tmp_path / "slow"), "mlu590-m9")
    assert slow.time_ps > run.time_ps == back.time_ps
    same_run(back, run)


def test_what_a_kernel_loaded_and_decided_stays_as_recorded():
    """A kernel that polls a flag issues fewer loads on a board where they are slow; the log keeps its own."""

    async def polls(core, flag, x):
        if core.is_memory_core:
            return
        if core.task_id == 0:
            await core.memcpy(core.nram.alloc(x.shape, "int8"), x)
            core.store(flag[0], 1)
        else:
            while await core.load(flag[0]) != 1:
                core.scalar(100)

    def run(board):
        device = mlusim.Device(board)
        flag = device.alloc(1, "int32")
        device.launch(polls, flag, device.upload(np.zeros(400_000, np.int8)), dim=4)
        device.synchronize()
        return device.result()

    board = mlusim.board("mlu370-x4")
    slower = board.replace(scalar_gdram_latency_ps=20 * board.scalar_gdram_latency_ps)
    here, there = run(board), run(slower)
    assert there.metrics.operations["load"] < here.metrics.operations["load"]
    assert retime(here, slower).metrics.operations == here.metrics.operations


def test_the_cost_of_scalar_work_by_default_is_the_boards_and_by_hand_the_kernels():
    async def works(core, cycles):
        core.scalar(cycles, count=1000)

    times = {}
    for cycles in (None, 7):
        device = mlusim.Device("mlu370-x4")
        device.launch(works, cycles, dim=1, kind="BLOCK")
        device.synchronize()
        again = retime(device.result(), scalar_op_cycles=50)
        times[cycles] = again.time_ps - device.result().time_ps
    board = mlusim.board("mlu370-x4")
    assert times == {None: board.cycles_ps(1000 * (50 - board.scalar_op_cycles)), 7: 0}

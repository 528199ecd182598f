"""The golden table: time, bytes, log and output of about ninety runs, to the picosecond, the byte and the bit.

`golden/table.json` has an entry for each run. It changes only with an intended change of behaviour: then
`pytest tests/test_golden.py --update-golden` rewrites it, and the commit explains which entries changed and why.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import cinn, mluop, ops
from mlusim.log import PIPES

TABLE = Path(__file__).parent / "golden" / "table.json"
X4, S4, M5, H8, M9 = "mlu370-x4", "mlu270-s4", "mlu290-m5", "mlu590-h8", "mlu590-m9"
RECORD = ("issue_ps", "start_ps", "end_ps", "count", "bytes_requested", "bus_read_bytes", "bus_write_bytes")


def records_of(log):
    """(operation, pipe, task, *RECORD) of each record, in order: all that this table knows of a log's layout."""
    columns = {name: column.tolist() for name, column in log.columns().items()}
    rows = zip(*(columns[name] for name in ("op", "pipe", "task", *RECORD)), strict=True)
    return [(log.ops[op], PIPES[pipe], *rest) for op, pipe, *rest in rows]


def links_of(metrics):
    """Bytes by direction of copy, and on the DRAM bus."""
    return dict(sorted(metrics.bytes_requested.items())) | {f"bus {way}": n for way, n in metrics.bus_bytes.items()}


def sha(data):
    return hashlib.sha256(data).hexdigest()[:16]


def sha_of(array):
    array = np.ascontiguousarray(array)
    return f"{array.dtype.name} {list(array.shape)} {sha(array.reshape(-1).view(np.uint8).tobytes())}"


def entry(result, *outputs):
    """What the table has of one result."""
    outputs = outputs or (() if result.output is None else (result.output,))
    records = records_of(result.log)
    return {
        "strategy": result.strategy,
        "time_ps": result.time_ps,
        "bytes": links_of(result.metrics),
        "operations": dict(sorted(Counter(name for name, *_ in records).items())),
        "log": sha(repr(records).encode()),
        "output": [sha_of(array) for array in outputs],
    }


# ---------------------------------------------------------------- inputs


def numbers(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(mlusim.dtypes.dtype_of(dtype))


def index(low, high, *shape, dtype="int32", seed=1):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


CLIP = numbers(2, 8, 24, 196)
SHIFTS = index(-4, 5, 2, 4)
MATRIX = numbers(96, 700)
TABLE_X = numbers(300, 64)

# ---------------------------------------------------------------- own kernels


async def double_buffered(core, x, out, rows):
    """Loads ahead, adds, stores behind: asynchronous copies and syncs."""
    if core.is_memory_core:
        return
    buffers = core.nram.alloc((2, rows, x.shape[1]), x.dtype)
    tiles = range(core.task_id, x.shape[0] // rows, core.task_dim)
    for step in range(len(tiles) + 1):
        if step < len(tiles):
            core.memcpy_async(buffers[step % 2], x[tiles[step] * rows : (tiles[step] + 1) * rows])
        if step:
            held = buffers[(step - 1) % 2]
            core.add(held, held, held)
            await core.sync_compute()
            core.memcpy_async(out[tiles[step - 1] * rows : (tiles[step - 1] + 1) * rows], held)
        await core.sync()


async def through_sram(core, x, out):
    """The memory core brings a block to SRAM; each core reduces its rows; scalar code stores the sum."""
    block = core.sram.alloc((4, x.shape[1]), x.dtype, "block")
    first = core.cluster_id * 4
    if core.is_memory_core:
        await core.memcpy(block, x[first : first + 4])
    await core.sync_cluster()
    if not core.is_memory_core:
        row = core.nram.alloc(x.shape[1], x.dtype)
        total = core.nram.alloc(1, x.dtype)
        await core.memcpy(row, block[core.core_id])
        core.sum_rows(total, row)
        await core.sync()
        core.store(out[first + core.core_id], await core.load(total[0]))
    await core.sync_all()


async def rows_by_index(core, x, index, out):
    """Rows chosen by an index that scalar code loads; strided copies and a move within NRAM."""
    if core.is_memory_core:
        return
    rows = core.nram.alloc((8, x.shape[1]), x.dtype)
    turned = core.nram.alloc((8, x.shape[1]), x.dtype)
    for first in range(core.task_id * 8, index.shape[0], core.task_dim * 8):
        chosen = await core.load_array(index[first : first + 8])
        await core.memcpy_rows(rows, x, src_rows=chosen, blocking=first % 16 == 0)
        core.move(turned[:, : x.shape[1] // 2], rows[:, : x.shape[1] // 2])
        core.move(turned[:, x.shape[1] // 2 :], rows[:, x.shape[1] // 2 :])
        await core.sync()
        await core.memcpy(out[first : first + 8], turned)


async def vectors(core, x, mask, out):
    """Comparisons, select, convert, mirror, transpose, reductions."""
    if core.is_memory_core or core.task_id:
        return
    a, b, c = (core.nram.alloc((32, 64), "float32") for _ in range(3))
    half, flags = core.nram.alloc((32, 64), "float16"), core.nram.alloc((32, 64), "float32")
    await core.memcpy(a, x)
    await core.memcpy(flags, mask)
    core.fill(b, 0.5)
    core.gt(c, a, b)
    core.mul(b, a, b)
    core.mask_select(b, c, a, b)
    core.maxequal(b, b, flags)
    core.convert(half, b)
    core.convert(c, half)
    core.mirror(a[0], c[0])
    core.sub(c[1], c[1], a[0])
    core.transpose(flags.reshape((64, 32)), c)
    await core.sync()
    await core.memcpy(out, flags.reshape((32, 64)))


def own(kernel, *arrays, out, board=X4, settings=(), launches=1, queues=1, **options):
    """A device, its launches, and the result with what the kernel left in `out`."""
    device = mlusim.Device(board)
    given = [device.upload(array, f"input {n}") for n, array in enumerate(arrays)]
    outputs = [device.alloc(out, arrays[0].dtype, f"output {n}") for n in range(queues)]
    lanes = [device.queue() for _ in range(queues)]
    for turn in range(launches):
        lane = turn % queues
        device.launch(kernel, *given, outputs[lane], *settings, queue=lanes[lane], **options)
    device.synchronize()
    return entry(device.result(), *(device.download(view) for view in outputs))


# ---------------------------------------------------------------- runs


def run(operator, *inputs, **options):
    return lambda tmp: entry(getattr(ops, operator)(*inputs, **options))


def saved(operator, *inputs, **options):
    def through_a_file(tmp):
        result = getattr(ops, operator)(*inputs, **options)
        return entry(mlusim.load(result.save(tmp / "run.zip", output=True)))

    return through_a_file


def retimed(changes, operator, *inputs, **options):
    def again(tmp):
        result = getattr(ops, operator)(*inputs, **options)
        return entry(mlusim.retime(result.save(tmp / "run.zip"), **changes))

    return again


FIGURES = ("status", "strategy", "time_ps", "bus_read_bytes", "bus_write_bytes", "requested_bytes", "tiles", "tasks")


def swept(operator, **axes):
    def rows(tmp):
        table = mlusim.sweep(operator, workers=0, **axes).rows
        return [{name: row[name] for name in FIGURES if name in row} for row in table]

    return rows


def net(tmp):
    builder = cinn.NetBuilder("golden")
    a = builder.create_input(cinn.Float(32), (64, 96), "a")
    i = builder.create_input(cinn.Int(32), (16, 96), "i")
    chosen = builder.gather(a, index=i, dim=0)
    out = builder.cast(builder.flip(chosen, [1]), cinn.Float(16))
    result = builder.build(X4, outputs=[chosen, out]).execute({"a": MATRIX[:64, :96], "i": index(0, 64, 16, 96)})
    return [entry(step.result) for step in result.steps] + [sha_of(result[chosen]), sha_of(result[out])]


def vendor_call(tmp):
    device = mlusim.Device(X4)
    described, pointers = [], []
    for array, dtype in (
        (CLIP, mluop.MLUOP_DTYPE_FLOAT),
        (SHIFTS, mluop.MLUOP_DTYPE_INT32),
        (CLIP, mluop.MLUOP_DTYPE_FLOAT),
    ):
        _, descriptor = mluop.mluOpCreateTensorDescriptor()
        mluop.mluOpSetTensorDescriptor(descriptor, mluop.MLUOP_LAYOUT_ARRAY, dtype, array.ndim, array.shape)
        _, pointer = mluop.cnrtMalloc(device, array.nbytes)
        mluop.cnrtMemcpy(pointer, array, array.nbytes, mluop.cnrtMemcpyHostToDev)
        described.append(descriptor)
        pointers.append(pointer)
    _, handle = mluop.mluOpCreate(device)
    call = [each for pair in zip(described, pointers, strict=True) for each in pair]
    found = []
    for function in (mluop.mluOpTinShiftForward, mluop.mluOpTinShiftBackward):
        assert function(handle, *call) == mluop.MLUOP_STATUS_SUCCESS
        out = np.empty_like(CLIP)
        mluop.cnrtMemcpy(out, pointers[2], out.nbytes, mluop.cnrtMemcpyDevToHost)
        found.append(entry(handle.last_result, out))
    return found


tin, back = partial(run, "tin_shift_forward"), partial(run, "tin_shift_backward")
rev, seq = partial(run, "reverse"), partial(run, "reverse_sequence")
take, take_nd = partial(run, "gather"), partial(run, "gather_nd")
put, put_nd = partial(run, "scatter"), partial(run, "scatter_nd")
cast, bits = partial(run, "cast"), partial(run, "bitcast_convert")

LENGTHS = index(0, 9, 2)
ALONG, UPDATES = index(0, 300, 120, 64), numbers(120, 64, seed=2)
ROWS = index(-300, 300, 256, 1)
PAIRS = index(0, 8, 40, 2)
FAR, ONE = numbers(400_000, dtype="int8"), index(0, 400_000, 3)
HALF = CLIP.astype(np.float16)
MASK = index(0, 2, 32, 64).astype(np.float32)

RUNS = {
    **{f"tin_shift {s}": tin(CLIP, SHIFTS, strategy=s) for s in ("documented", "shipped", "tight", "batched")},
    **{f"tin_shift pingpong {b}": tin(CLIP, SHIFTS, strategy="pingpong", device=b) for b in (X4, S4, M5, H8)},
    **{f"tin_shift auto {b}": tin(HALF, SHIFTS, device=b) for b in (X4, S4, M5, H8, M9)},
    "tin_shift one limit": tin(CLIP, SHIFTS, strategy="documented", nram_limit_bytes=4096),
    "tin_shift pingpong limit": tin(HALF, SHIFTS, strategy="pingpong", nram_limit_bytes=6000),
    "tin_shift wide": tin(numbers(1, 8, 3, 50_000), SHIFTS[:1, :1]),
    "tin_shift late": tin(HALF, SHIFTS, dma="late"),
    "tin_shift empty": tin(CLIP[:, :0], SHIFTS),
    "tin_shift_backward": back(CLIP, SHIFTS),
    "tin_shift_backward adjoint": back(CLIP, SHIFTS, "adjoint", device=H8),
    **{f"reverse {s}": rev(MATRIX, [0, 1], strategy=s) for s in ("auto", "strided", "mirror", "mixed")},
    **{f"reverse {b}": rev(CLIP, [1, 3], device=b) for b in (S4, M5, H8)},
    "reverse bytes": rev(index(-99, 99, 5, 3, 1001, dtype="int8"), -1),
    "reverse limit": rev(MATRIX, 0, nram_limit_bytes=2048),
    "flip": run("flip", HALF, 2, device=M9),
    "flip empty": run("flip", np.empty((0, 3), np.int8), 1),
    **{f"reverse_sequence {s}": seq(CLIP, LENGTHS, strategy=s) for s in ("strided", "staged")},
    "reverse_sequence axes": seq(CLIP, index(0, 9, 24), seq_axis=1, batch_axis=2, device=H8),
    "reverse_sequence limit": seq(HALF, LENGTHS, nram_limit_bytes=3000),
    **{f"gather {s} {b}": take(TABLE_X, ALONG, strategy=s, device=b) for s in ("slab", "rows") for b in (X4, H8)},
    "gather axis": take(MATRIX, index(-700, 700, 90, 33), 1, device=M5),
    "gather far": take(FAR, ONE),
    "gather limit": take(TABLE_X, ALONG, nram_limit_bytes=8192),
    **{f"gather_nd rows {b}": take_nd(TABLE_X, ROWS, mode="standard", device=b) for b in (X4, S4, H8)},
    "gather_nd slab": take_nd(TABLE_X, ROWS, mode="standard", strategy="slab"),
    "gather_nd aligned": take_nd(CLIP, index(0, 2, 2, 5, 24, 9, 2), [1, 0]),
    "gather_nd pairs": take_nd(numbers(8, 8, 30, dtype="bfloat16"), PAIRS, mode="standard"),
    **{f"scatter {s}": put(TABLE_X, ALONG, UPDATES, strategy=s) for s in ("slab", "rows", "bins")},
    **{f"scatter {b}": put(TABLE_X, ALONG, UPDATES, device=b) for b in (S4, H8)},
    "scatter limit": put(TABLE_X, ALONG, UPDATES, nram_limit_bytes=16384),
    "scatter far": put(FAR, ONE, FAR[:3]),
    **{
        f"scatter_nd {s}": put_nd(TABLE_X, ROWS, numbers(256, 64, seed=3), mode="standard", strategy=s)
        for s in ("slab", "rows")
    },
    "scatter_nd bins": put_nd(MATRIX[:64, :64], index(0, 64, 3000, 2), numbers(3000), mode="standard", strategy="bins"),
    "scatter_nd pairs": put_nd(numbers(8, 8, 30), PAIRS, numbers(40, 30), mode="standard", device=H8),
    "scatter_nd aligned": put_nd(MATRIX, index(0, 96, 40, 700, 1), MATRIX[:40], device=M9),
    **{f"cast {s}": cast(MATRIX, "float16", strategy=s) for s in ("pingpong", "serial")},
    **{f"cast to {t}": cast(MATRIX, t) for t in ("int8", "bool", "bfloat16", "float8_e4m3fn", "int64", "float32")},
    "cast integers": cast(index(-999, 999, 4000, dtype="int64"), "uint8", device=M5),
    "cast limit": cast(HALF, "int32", device=H8, nram_limit_bytes=1024),
    "bitcast view": bits(MATRIX, "int8"),
    "bitcast copy": bits(MATRIX, "int16", strategy="copy", device=S4),
    "cast timing only": cast(numbers(2000, 1000), "int16", data=False),
    "tin_shift timing only": tin(numbers(4, 8, 64, 3136), index(-3, 4, 4, 8), data=False, device=M9),
    # Own kernels
    "own double buffered": lambda tmp: own(double_buffered, MATRIX, out=MATRIX.shape, settings=(4,), dim=(4, 4, 1)),
    "own two queues": lambda tmp: own(
        double_buffered, MATRIX, out=MATRIX.shape, settings=(2,), dim=4, kind="UNION1", launches=4, queues=2, board=H8
    ),
    "own waves": lambda tmp: own(double_buffered, MATRIX, out=MATRIX.shape, settings=(1,), dim=(7, 7, 1), kind="BLOCK"),
    "own through SRAM": lambda tmp: own(through_sram, MATRIX[:16], out=16, dim=(4, 4, 1)),
    "own through SRAM union": lambda tmp: own(
        through_sram, MATRIX[:16], out=16, dim=(16, 1, 1), kind="UNION4", board=M5
    ),
    "own rows by index": lambda tmp: own(rows_by_index, TABLE_X, index(0, 300, 64), out=(64, 64), dim=4),
    "own vectors": lambda tmp: own(vectors, MATRIX[:32, :64].copy(), MASK, out=(32, 64), dim=1, kind="BLOCK"),
    # The same runs through a file, on other boards, in sweeps, nets and vendor calls
    "saved gather": saved("gather", TABLE_X, ALONG, device=H8),
    "saved scatter bins": saved("scatter", TABLE_X, ALONG, UPDATES, strategy="bins"),
    "retimed faster DRAM": retimed(
        {"dram_bandwidth_bytes_per_s": 614_400_000_000, "keep_split": True}, "reverse", MATRIX, 0
    ),
    "retimed slower clock": retimed({"clock_hz": 500_000_000}, "gather_nd", TABLE_X, ROWS, mode="standard"),
    "retimed other board": retimed({"device": M9, "keep_split": True}, "tin_shift_forward", HALF, SHIFTS, device=M5),
    "swept tin_shift": swept("tin_shift", shape=(1, 8, 16, 98), device=[X4, H8], strategy=["batched", "pingpong"]),
    "swept gather": swept("gather_nd", shape=(128, 64), mode="standard", dtype=["float16", "float32"], device=X4),
    "swept cores": swept("cast", shape=(64, 1000), dtype="int8", input_dtype="float16", cores=[1, 4, 16]),
    "cinn net": net,
    "mluop calls": vendor_call,
}


@pytest.fixture(scope="module")
def table(request):
    """The table as it is; with `--update-golden` one that the runs fill, written at the end."""
    if not request.config.getoption("--update-golden"):
        yield json.loads(TABLE.read_text())
        return
    filled = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    yield filled
    kept = {name: filled[name] for name in RUNS if name in filled}
    TABLE.write_text(json.dumps(kept, indent=1) + "\n")


@pytest.mark.parametrize("name", RUNS)
def test_runs_match_the_golden_table(name, table, request, tmp_path):
    found = json.loads(json.dumps(RUNS[name](tmp_path)))
    if request.config.getoption("--update-golden"):
        table[name] = found
    assert name in table, "no entry: pytest tests/test_golden.py --update-golden adds it"
    assert found == table[name]


def test_the_table_has_no_other_entries(table):
    assert set(table) <= set(RUNS)

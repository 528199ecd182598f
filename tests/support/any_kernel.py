"""Random kernels that use every instruction."""

from __future__ import annotations

import random

import numpy as np

import mlusim
from mlusim.memory.kinds import Direction


def _core_step(core, rng, step, arrays, here):
    """Issue one random operation; return what must be awaited, or None."""
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
    *("stage", "ldram", "wram", "bytes_3d", "to_neighbour", "vector", "reduce", "select", "fill", "load", "load_array"),
    *("store", "scalar", "scalar_copy", "rows", "rows_by_list", "gather", "sync", "sync_some"),
)
BARRIERS = ("sync_cluster", "sync_all", "sync_all_ipu", "none")


async def anything(core, seed, x, out, index):
    """Random operations between random barriers, the same for all tasks."""
    barriers = random.Random(seed)
    rng = random.Random(f"{seed} {core.task_id} {core.is_memory_core}")
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
    rng = random.Random(seed)
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

# %% [markdown]
# # 12. The matmul ladder
#
# Matrix multiplication is often taught as a ladder of optimisations. The first rung is a scalar loop, the last one a
# pipeline of five stages, and each rung uses one more part of the chip. This lesson climbs the ladder on a simulated
# MLU370-X8, for a tall matrix `a` (M x 128) and a small one, `b` (128 x 256).

# %%
import numpy as np

from tools import draw_causes, draw_pipes, run, show, table

K, N, ROWS = 128, 256, 128
rng = np.random.default_rng(0)
# Small integers: a float sum of them is exact in any order, so results compare bit for bit.
a = rng.integers(-8, 8, (16384, K)).astype(np.float32)
b = rng.integers(-8, 8, (K, N)).astype(np.float32)


async def scalar_gdram(core, a, b, out):
    """Rung 1: three loops of scalar code, operands in GDRAM. An iteration loads two elements."""
    for i in range(a.shape[0]):
        left = await core.load_array(a[i].broadcast_to(N, K))
        right = await core.load_array(b)
        core.scalar(count=N * K * 6)  # multiply, add, two addresses, loop
        core.store_array(out[i], (left * right.T).sum(axis=1))


async def scalar_nram(core, a, b, out):
    """Rung 2: the same loops on copies in NRAM."""
    left, right = core.nram.alloc(a.shape, a.dtype), core.nram.alloc(b.shape, b.dtype)
    result = core.nram.alloc(out.shape, out.dtype)
    await core.memcpy(left, a)
    await core.memcpy(right, b)
    await scalar_gdram(core, left, right, result)
    await core.memcpy(out, result)


async def one_matmul(core, a, weights, out):
    """Rung 3: one instruction of the tensor pipe."""
    left, right = core.nram.alloc(a.shape, a.dtype), core.wram.alloc(weights.shape, weights.dtype)
    result = core.nram.alloc(out.shape, out.dtype)
    await core.memcpy(left, a)
    await core.memcpy(right, weights)
    core.matmul(result, left, right)
    await core.memcpy(out, result)


# %% [markdown]
# ## One core
#
# Scalar code pays the memory latency for every element. NRAM has a shorter latency than GDRAM, but two loads for each
# multiply-add remain. The tensor pipe reads whole rows and does hundreds of multiply-adds per cycle. Its weights are in
# WRAM, which has 64 lanes: column i of `b` goes to lane i % 64. Here the host arranges them; in a kernel,
# `core.reshape_filter` does.

# %%
weights = np.ascontiguousarray(b.T.reshape(N // 64, 64, K).swapaxes(0, 1))
block = a[:ROWS]
expected = block @ b
rungs = {"scalar, GDRAM": (scalar_gdram, b), "scalar, NRAM": (scalar_nram, b), "one matmul": (one_matmul, weights)}
steps = {}
for name, (kernel, right) in rungs.items():
    step = run(kernel, block, right, out=((ROWS, N), np.float32), board="mlu370-x8", dim=1, kind="BLOCK")
    assert np.array_equal(step.output, expected)
    steps[name] = step
table(steps, causes=1)
assert steps["one matmul"].result.time_ps * 1000 < steps["scalar, GDRAM"].result.time_ps

# %% [markdown]
# On a real MLU370-X8, kernels of the same shape took 2716 ms, 126 ms and 0.05 ms. Most of the last figure is the host's
# time for a launch, which these times do not include. `mlusim validate` shows all measurements.
#
# ## All cores
#
# Now M is 16384. Each task takes an equal share of the rows, in blocks of 128. The weights stay in WRAM.


# %%
async def blocking(core, a, weights, out):
    """Rung 4: load, multiply, store, one after the other."""
    if core.is_memory_core:
        return
    left, result = core.nram.alloc((ROWS, K), a.dtype), core.nram.alloc((ROWS, N), out.dtype)
    right = core.wram.alloc(weights.shape, weights.dtype)
    await core.memcpy(right, weights)
    for start in range(core.task_id * ROWS, a.shape[0], core.task_dim * ROWS):
        await core.memcpy(left, a[start : start + ROWS])
        core.matmul(result, left, right)
        await core.memcpy(out[start : start + ROWS], result)


async def three_stages(core, a, weights, out):
    """Rung 5: the store of block i - 1, the load of block i + 1 and the matmul of block i share a step."""
    if core.is_memory_core:
        return
    left, result = core.nram.alloc((2, ROWS, K), a.dtype), core.nram.alloc((2, ROWS, N), out.dtype)
    right = core.wram.alloc(weights.shape, weights.dtype)
    await core.memcpy(right, weights)
    starts = range(core.task_id * ROWS, a.shape[0], core.task_dim * ROWS)
    for step in range(len(starts) + 2):
        if step >= 2:
            core.memcpy_async(out[starts[step - 2] : starts[step - 2] + ROWS], result[step % 2])
        if step < len(starts):
            core.memcpy_async(left[step % 2], a[starts[step] : starts[step] + ROWS])
        if 1 <= step <= len(starts):
            core.matmul(result[(step - 1) % 2], left[(step - 1) % 2], right)
        await core.sync()


async def five_stages(core, a, weights, out):
    """Rung 6: the memory core loads to SRAM and stores from it, for the four cores of its cluster."""
    rows = core.board.cores_per_cluster * ROWS
    sram_in = core.sram.alloc((2, rows, K), a.dtype, "in")
    sram_out = core.sram.alloc((2, rows, N), out.dtype, "out")
    cluster, clusters = core.task_id // core.core_dim, core.task_dim // core.core_dim
    starts = range(cluster * rows, a.shape[0], clusters * rows)
    if core.is_memory_core:
        for step in range(len(starts) + 4):
            if step >= 4:
                core.memcpy_async(out[starts[step - 4] : starts[step - 4] + rows], sram_out[step % 2])
            if step < len(starts):
                core.memcpy_async(sram_in[step % 2], a[starts[step] : starts[step] + rows])
            await core.sync()
            await core.sync_cluster()
        return
    mine = slice(core.core_id * ROWS, (core.core_id + 1) * ROWS)
    left, result = core.nram.alloc((2, ROWS, K), a.dtype), core.nram.alloc((2, ROWS, N), out.dtype)
    right = core.wram.alloc(weights.shape, weights.dtype)
    await core.memcpy(right, weights)
    for step in range(len(starts) + 4):
        if 1 <= step <= len(starts):
            core.memcpy_async(left[(step - 1) % 2], sram_in[(step - 1) % 2][mine])
        if 2 <= step <= len(starts) + 1:
            core.matmul(result[step % 2], left[step % 2], right)
        if 3 <= step <= len(starts) + 2:
            core.memcpy_async(sram_out[(step - 1) % 2][mine], result[(step - 1) % 2])
        await core.sync()
        await core.sync_cluster()


# %%
expected = a @ b
steps = {}
for name, kernel in (("blocking", blocking), ("three stages", three_stages), ("five stages", five_stages)):
    step = run(kernel, a, weights, out=((len(a), N), np.float32), board="mlu370-x8", dim=16)
    assert np.array_equal(step.output, expected)
    steps[name] = step
table(steps, causes=3)
assert steps["three stages"].result.time_ps < steps["blocking"].result.time_ps

# %%
show(draw_causes(steps, "Three ways to feed the tensor pipe"), "12_causes")

# %% [markdown]
# Blocking copies leave the tensor pipe idle. With three stages they overlap the matmul, and two resources are nearly
# saturated: the tensor pipe of every core, and the DRAM that they share.

# %%
show(draw_pipes(steps, "The first blocks on one core", until_us=90), "12_pipes")

# %% [markdown]
# The last rung is not the fastest. The memory core relieves the cores of the copies, but every byte moves twice, and
# the barrier of each step makes four cores wait for the slowest. Measurements of boards agree: on MLU370-X8, five
# stages took 7 % longer than three; on MLU370-X4, they took the same time.
#
# ## Exercise
#
# `lessons/exercises/12_matmul_ladder.py` is at rung 4. Improve it to rung 5.

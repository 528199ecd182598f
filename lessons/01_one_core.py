# %% [markdown]
# # 1. One core, blocking
#
# This lesson adds two vectors on a single core. Vector instructions cannot access off-chip memory (GDRAM), so for every
# tile the kernel copies both operands to NRAM, adds them there, and copies the sum back.
#
# All times in these lessons come from mlusim's model of a board, here an MLU370-X4. They are not measurements.

# %%
import numpy as np

import mlusim
from tools import draw_causes, draw_pipes, draw_steps, run, show, table

COUNT, TILE = 1 << 18, 8192
rng = np.random.default_rng(0)
a = rng.standard_normal(COUNT, np.float32)
b = rng.standard_normal(COUNT, np.float32)


async def add_blocking(core, a, b, out):
    if core.is_memory_core:  # the memory core runs every kernel, too, and has no work here
        return
    left, right = core.nram.alloc(TILE, a.dtype, "left"), core.nram.alloc(TILE, a.dtype, "right")
    for start in range(0, a.size, TILE):
        await core.memcpy(left, a[start : start + TILE])
        await core.memcpy(right, b[start : start + TILE])
        core.add(left, left, right)
        await core.memcpy(out[start : start + TILE], left)


# %% [markdown]
# `memcpy` blocks: the task is suspended until the copy is done, hence the `await`. `add` is only issued. The store is a
# blocking copy, which waits for all earlier operations of its core, so it waits for the add. A BLOCK launch of one task
# uses one core.

# %%
step = run(add_blocking, a, b, out=(a.shape, a.dtype), dim=1, kind="BLOCK")
assert np.array_equal(step.output, a + b)
table({"one core, blocking": step}, causes=4)

# %% [markdown]
# The picture shows one tile, step by step. `mlusim.verify` can reconstruct the contents of memory at any time of the
# run; the bytes written by each operation are blue.

# %%
small = [np.arange(64, dtype=np.float32), np.arange(100, 164, dtype=np.float32)]
TILE = 32
report = mlusim.verify(add_blocking, *small, mlusim.Output.like(small[0]), dim=1, kind="BLOCK")
show(draw_steps(report.result, 4, "The path of a tile: from GDRAM to NRAM, the sum, and back"), "01_steps")

# %% [markdown]
# The large run stays far below the 307 GB/s of this board's DRAM. The timeline of the first microseconds shows why: the
# core never does two things at the same time.

# %%
show(draw_pipes({"one core, blocking": step}, "The first tiles", until_us=12), "01_pipes")

# %% [markdown]
# Every copy also begins with a start-up, the DMA latency. A blocking kernel pays it in full for each copy, so larger
# tiles, with fewer copies, are faster:

# %%
steps = {}
for TILE in (512, 2048, 8192, 32768):
    steps[f"tiles of {TILE * 4 // 1024:3} KiB"] = run(add_blocking, a, b, out=(a.shape, a.dtype), dim=1, kind="BLOCK")
table(steps, causes=3)
times = [step.result.time_ps for step in steps.values()]
assert times == sorted(times, reverse=True)  # larger tiles are faster here, every time
show(draw_causes(steps, "One core: the effect of the tile size"), "01_tiles")

# %% [markdown]
# With large tiles, the latency hardly matters, and the limit is the core's own port. A single core cannot fill the
# memory bus. The [next lesson](02_all_cores.md) uses all cores.
#
# ## Exercise
#
# `lessons/exercises/01_one_core.py` is an incomplete kernel that scales a vector. Complete it, and run `python
# lessons/check.py lessons/exercises/01_one_core.py`.

# %% [markdown]
# # 1. One core, blocking
#
# The smallest program that does something on an MLU: add two vectors on a single core. Off-chip memory (GDRAM) cannot
# be computed on, so every tile takes three trips: two copies in, the sum in NRAM, one copy out.
#
# All times in these lessons are those of mlusim's model of an MLU370-X4, not measurements of a board.

# %%
import numpy as np

import mlusim
from tools import draw_causes, draw_pipes, draw_steps, run, show, table

COUNT, TILE = 1 << 18, 8192
rng = np.random.default_rng(0)
a = rng.standard_normal(COUNT, np.float32)
b = rng.standard_normal(COUNT, np.float32)


async def add_blocking(core, a, b, out):
    if core.is_memory_core:  # it runs every kernel too, and has nothing to do here
        return
    left, right = core.nram.alloc(TILE, a.dtype, "left"), core.nram.alloc(TILE, a.dtype, "right")
    for start in range(0, a.size, TILE):
        await core.memcpy(left, a[start : start + TILE])
        await core.memcpy(right, b[start : start + TILE])
        core.add(left, left, right)
        await core.memcpy(out[start : start + TILE], left)


# %% [markdown]
# `memcpy` blocks: the task stops until the bytes are there, and Python says so with `await`. `add` only issues; the
# store, a blocking copy, waits for it, as for everything before it in its core. A BLOCK launch of one task uses one
# core.

# %%
step = run(add_blocking, a, b, out=(a.shape, a.dtype), dim=1, kind="BLOCK")
assert np.array_equal(step.output, a + b)
table({"one core, blocking": step}, causes=4)

# %% [markdown]
# One tile, step by step. `mlusim.verify` can say what memory held at any moment of the run; blue is what each operation
# wrote.

# %%
small = [np.arange(64, dtype=np.float32), np.arange(100, 164, dtype=np.float32)]
TILE = 32
report = mlusim.verify(add_blocking, *small, mlusim.Output.like(small[0]), dim=1, kind="BLOCK")
show(draw_steps(report.result, 4, "The way of one tile: from GDRAM to NRAM, the sum, and back"), "01_steps")

# %% [markdown]
# The large run stays far below the 307 GB/s of this board's DRAM. Look at what the core did in its first
# microseconds: nothing ever happens at the same time as anything else.

# %%
show(draw_pipes({"one core, blocking": step}, "The first tiles", until_us=12), "01_pipes")

# %% [markdown]
# And a copy is not all bytes. Each waits for its start-up first (the latency of a DMA), which a blocking kernel pays
# in full, every time: a larger tile pays it less often.

# %%
steps = {}
for TILE in (512, 2048, 8192, 32768):
    steps[f"tiles of {TILE * 4 // 1024:3} KiB"] = run(add_blocking, a, b, out=(a.shape, a.dtype), dim=1, kind="BLOCK")
table(steps, causes=3)
times = [step.result.time_ps for step in steps.values()]
assert times == sorted(times, reverse=True)  # larger tiles are faster here, every time
show(draw_causes(steps, "One core: what the size of a tile buys"), "01_tiles")

# %% [markdown]
# Large tiles take the latency away, and then the core's own port is the limit. One core cannot fill the memory bus,
# however well it is programmed. The [next lesson](02_all_cores.md) takes all of them.
#
# ## Exercise
#
# `lessons/exercises/01_one_core.py` is a kernel that scales a vector, with a hole in it. Fill it, and run `python
# lessons/check.py lessons/exercises/01_one_core.py`.

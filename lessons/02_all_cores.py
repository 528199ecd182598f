# %% [markdown]
# # 2. All cores
#
# A kernel is launched as a grid of tasks, and all tasks run the same function. Each task selects its part of the work
# by `core.task_id` and `core.task_dim`. In this lesson, each task computes every `task_dim`-th tile.

# %%
import numpy as np

from tools import draw_causes, run, show, table

COUNT, TILE = 1 << 20, 8192
rng = np.random.default_rng(0)
a = rng.standard_normal(COUNT, np.float32)
b = rng.standard_normal(COUNT, np.float32)


async def add(core, a, b, out):
    if core.is_memory_core:
        return
    left, right = core.nram.alloc(TILE, a.dtype), core.nram.alloc(TILE, a.dtype)
    for start in range(core.task_id * TILE, a.size, core.task_dim * TILE):
        await core.memcpy(left, a[start : start + TILE])
        await core.memcpy(right, b[start : start + TILE])
        core.add(left, left, right)
        await core.memcpy(out[start : start + TILE], left)


# %%
steps = {}
for tasks in (1, 4, 8, 16, 32):
    name = "1 task" if tasks == 1 else f"{tasks} tasks"
    steps[name] = run(add, a, b, out=(a.shape, a.dtype), dim=tasks, kind="BLOCK")
    assert np.array_equal(steps[name].output, a + b)
table(steps)
times = [step.result.time_ps for step in steps.values()]
assert times == sorted(times, reverse=True)

# %% [markdown]
# More cores are faster, but not in proportion. The column of causes shows why: a few cores spend their time on the
# latency of copies, and on data transfer at the rate of a core's port. Many cores contend for the bandwidth that they
# share.

# %%
show(draw_causes(steps, "Vector add: the average working core"), "02_cores")

# %% [markdown]
# ## Uneven work
#
# If the number of tasks does not divide the work, cores are idle at the end. 33 tiles on 32 cores need two rounds, just
# as 64 tiles do:

# %%
uneven = {}
for tiles in (32, 33, 64):
    x, y = a[: tiles * TILE], b[: tiles * TILE]
    uneven[f"{tiles} tiles"] = run(add, x, y, out=(x.shape, x.dtype), dim=32, kind="BLOCK")
for name, step in uneven.items():
    idle = step.result.metrics.where_time_went["idle"] / step.result.metrics.core_time_ps
    print(f"{name}: {step.result.time_us:6.2f} us, {idle:.0%} of the cores' time idle")
assert uneven["33 tiles"].result.time_ps > 1.15 * uneven["32 tiles"].result.time_ps

# %% [markdown]
# The 33rd tile has the bandwidth of the whole board, so it takes less time than the 32 before it, but 31 cores are idle
# in the meantime. Divide the work into as many parts as there are cores, or into many more.
#
# ## Exercise
#
# In `lessons/exercises/02_all_cores.py`, every task does all of the work. Divide it among the tasks. `python
# lessons/check.py lessons/exercises/02_all_cores.py` checks the result.

# %% [markdown]
# # 10. A missing sync, and how the checker finds it
#
# The pipes of a core run in parallel, and only a sync or a blocking copy orders them. A kernel that lacks a necessary
# sync is wrong, but its result may be correct: that depends on which operation happens to come first.

# %%
import numpy as np

import mlusim
from tools import draw_pipes, run, show

x = np.arange(1 << 14, dtype=np.float32)


async def scale(core, x, out, wait_for_load):
    """Three times x. While a tile is loaded, a long fill happens to keep the vector pipe busy."""
    if core.is_memory_core:
        return
    tile = x.size // core.task_dim
    mine = slice(core.task_id * tile, (core.task_id + 1) * tile)
    data = core.nram.alloc(tile, x.dtype, "data")
    other = core.nram.alloc(1 << 16, x.dtype, "other")
    core.memcpy_async(data, x[mine])
    core.fill(other, 0)
    if wait_for_load:
        await core.sync_io()
    core.mul(data, data, 3.0)
    await core.memcpy(out[mine], data)


# %% [markdown]
# Without the sync, the multiplication does not wait for the load. But it waits for the long fill in its own pipe, and
# by then the load has ended:

# %%
lucky = run(scale, x, out=(x.shape, x.dtype), extra=(False,), dim=4)
print("correct without the sync:", np.array_equal(lucky.output, 3 * x))
show(draw_pipes({"no sync, and correct by luck": lucky}, "The load is over before the mul begins"), "10_luck")

# %% [markdown]
# With a faster vector pipe or a busier DRAM, the load would not have ended in time. `dma="late"` simulates another
# legal outcome: asynchronous copies take effect as late as the syncs allow.

# %%
late = run(scale, x, out=(x.shape, x.dtype), extra=(False,), dim=4, dma="late")
right = run(scale, x, out=(x.shape, x.dtype), extra=(True,), dim=4, dma="late")
print("correct without the sync, copies late:", np.array_equal(late.output, 3 * x))
print("correct with the sync, copies late:   ", np.array_equal(right.output, 3 * x))
assert np.array_equal(lucky.output, 3 * x)
assert not np.array_equal(late.output, 3 * x)
assert np.array_equal(right.output, 3 * x)

# %% [markdown]
# This shows the bug only in some kernels. The checker uses the order that the syncs guarantee, not times, so it finds
# the race even in the run with the correct result:

# %%
report = mlusim.verify(scale, x, mlusim.Output.like(x), False, dim=4, reference=lambda x: 3 * x)
print(str(report).partition("\n\nsplit proof")[0])
assert not report.ok

# %% [markdown]
# The report shows both lines with their times, the bytes, the rule, and where the sync belongs. With the sync:

# %%
report = mlusim.verify(scale, x, mlusim.Output.like(x), True, dim=4, reference=lambda x: 3 * x)
print(str(report).partition("\n")[0])
assert report.ok

# %% [markdown]
# The checker does not need a reference to find races, and it works for any kernel: `mlusim.verify(...)` in Python,
# `mlusim verify` or `--check` on the command line.
#
# ## Exercise
#
# `lessons/exercises/10_missing_sync.py` computes the correct result and has two races. Find both.

# %% [markdown]
# # 10. What a missing sync does, and how the checker shows it
#
# The pipes of a core run side by side, and only a sync, or a blocking copy, orders them. A kernel that forgets one is
# wrong. It does not have to give a wrong answer: that depends on who happens to be first.

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
    held = core.nram.alloc(tile, x.dtype, "held")
    other = core.nram.alloc(1 << 16, x.dtype, "other")
    core.memcpy_async(held, x[mine])
    core.fill(other, 0)
    if wait_for_load:
        await core.sync_io()
    core.mul(held, held, 3.0)
    await core.memcpy(out[mine], held)


# %% [markdown]
# Without the sync, the multiplication does not wait for the load. But it waits behind the long fill in its own pipe,
# and by then the load is over:

# %%
lucky = run(scale, x, out=(x.shape, x.dtype), extra=(False,), dim=4)
print("right without the sync:", np.array_equal(lucky.output, 3 * x))
show(draw_pipes({"no sync, and right by luck": lucky}, "The load is over before the mul begins"), "10_luck")

# %% [markdown]
# On a board with a faster vector pipe, or a busier DRAM, it would not be. `dma="late"` is one more outcome that the
# board may have: asynchronous copies act as late as the syncs allow.

# %%
late = run(scale, x, out=(x.shape, x.dtype), extra=(False,), dim=4, dma="late")
right = run(scale, x, out=(x.shape, x.dtype), extra=(True,), dim=4, dma="late")
print("right without the sync, copies late:", np.array_equal(late.output, 3 * x))
print("right with the sync, copies late:   ", np.array_equal(right.output, 3 * x))
assert np.array_equal(lucky.output, 3 * x)
assert not np.array_equal(late.output, 3 * x)
assert np.array_equal(right.output, 3 * x)

# %% [markdown]
# But luck is no method. The checker looks at what the syncs order, and never at the clock, so it finds the race in
# the run that gave the right answer:

# %%
report = mlusim.verify(scale, x, mlusim.Output.like(x), False, dim=4, reference=lambda x: 3 * x)
print(str(report).partition("\n\nsplit proof")[0])
assert not report.ok

# %% [markdown]
# Both lines, when each ran, which bytes, the rule, and where the sync belongs. With it:

# %%
report = mlusim.verify(scale, x, mlusim.Output.like(x), True, dim=4, reference=lambda x: 3 * x)
print(str(report).partition("\n")[0])
assert report.ok

# %% [markdown]
# The checker needs no reference to say so, and it runs on any kernel: `mlusim.verify(...)` in Python, `--check` on
# the command line.
#
# ## Exercise
#
# `lessons/exercises/10_missing_sync.py` gives the right numbers and has two races. Find both.

# %% [markdown]
# # 5. tin_shift in three tiers
#
# A vector can be cut anywhere. The tensors of real operators have more structure, and mlu-ops splits them in three
# tiers, depending on what fits in the NRAM of a core. `tin_shift` shifts each group of channels along time by its own
# number of steps, and fills the vacated rows with zeros. Its unit is one channel with all its time steps: T rows of HW
# elements.
#
# 1. **whole units**: a unit fits. Tasks take turns to process units;
# 2. **unit split**: a unit does not fit, but a row does. The unit is cut along time;
# 3. **row split**: a row does not fit. A core processes a row in chunks.
#
# For a given board, the shape determines the tier. This lesson keeps the shape and reduces the NRAM instead.

# %%
import numpy as np

from mlusim import board, ops
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.tile_map import draw_tile_map
from tools import Step, draw_causes, show, table

x = np.random.default_rng(0).standard_normal((2, 8, 64, 196), np.float32)
shifts = np.array([[1, -1, 2, 0], [3, -2, 0, -8]], np.int32)
unit, row = x.shape[1] * x.shape[3] * x.itemsize, x.shape[3] * x.itemsize
print(f"a unit is {x.shape[1]} rows of {row} B: {unit} B")

# %%
expected = ops.tin_shift_forward(x, shifts, strategy="documented").output
steps = {}
for nram_bytes in (16_384, 2_048, 512):
    small_board = board("mlu370-x4").replace(nram_bytes=nram_bytes, nram_reserved_bytes=0)
    result = ops.tin_shift_forward(x, shifts, device=small_board, strategy="documented")
    assert np.array_equal(result.output, expected)
    steps[f"tier {result.plan.tier}: NRAM of {nram_bytes} B"] = Step(result, result.output, 2 * x.nbytes)
    print(f"{nram_bytes:6} B: tier {result.plan.tier}, {result.plan.reason}")
    print(f"          {len(result.plan.tiles)} tiles, busiest task: {max(np.bincount(result.plan.tiles.task))}")
assert [step.result.plan.tier for step in steps.values()] == [1, 2, 3]

# %% [markdown]
# The results are equal, bit for bit. The tiers differ in the number of tiles, and so in the number of copies and their
# start-ups:

# %%
table(steps, causes=3)
show(draw_causes(steps, "tin_shift in its three tiers"), "05_causes")
times = [step.result.time_ps for step in steps.values()]
assert times == sorted(times)

# %% [markdown]
# The picture shows the tiles of the output in the second tier, coloured by the core that writes them. Axes 0 and 1
# (batch and time) are vertical, channels horizontal.

# %%
middle = list(steps.values())[1].result
canvas = draw_tile_map(
    LogColumns(middle.log, middle.board), middle.plan, "Tier 2: which core writes what", middle.plan.reason
)
show(canvas, "05_tiles")

# %% [markdown]
# A plan is a data structure. `print(result.plan.explain())` prints it with all its arithmetic, and so does, without
# running anything, `mlusim run tin_shift --shape 2,8,64,196 --strategy documented --explain`.

# %%
print(middle.plan.explain())

# %% [markdown]
# ## Exercise
#
# `lessons/exercises/05_three_tiers.py` copies channels that may not fit in NRAM. It implements tier 1. Add tier 2.

# %% [markdown]
# # 8. gather in its tiers
#
# `gather` selects elements of x by an index: out[i, j] = x[i, index[i, j]]. A strided copy cannot do that. There are
# two strategies:
#
# - **slab**: load everything that the index can address into NRAM, and select there. This is tier 1 if it fits as a
#   whole, tier 2 if it is cut;
# - **rows**: access GDRAM for every element or row. This is tier 3, for slabs that do not fit, and sometimes faster for
#   those that do.
#
# From arch 592 on (MLU590-H8), there is an instruction for gathers; on other boards, a loop of scalar code selects the
# elements on chip.

# %%
import numpy as np

from mlusim import board, ops
from tools import Step, draw_causes, show, table

rng = np.random.default_rng(0)
x = rng.standard_normal((64, 2048), np.float32)
index = rng.integers(0, 2048, (64, 8192)).astype(np.int32)
expected = np.take_along_axis(x, index.astype(np.int64), 1)

steps = {}
for strategy, kib in (("slab", 640), ("slab", 24), ("rows", 8)):
    small_board = board("mlu370-x4").replace(nram_bytes=kib * 1024, nram_reserved_bytes=0)
    result = ops.gather(x, index, 1, device=small_board, strategy=strategy)
    assert np.array_equal(result.output, expected)
    name = f"tier {result.plan.tier}: {strategy}, NRAM of {kib} KiB"
    steps[name] = Step(result, result.output, x.nbytes + index.nbytes + result.output.nbytes)
    print(f"{name}\n  {result.plan.reason}")
table(steps, causes=3)
assert [step.result.plan.tier for step in steps.values()] == [1, 2, 3]

# %% [markdown]
# If a slab fits, contiguous copies load whole rows of x, and scalar code then selects each element on chip. If it does
# not fit, every element is a copy of its own: 4 bytes that occupy a bus unit of 64. The times are close here, but
# the bus traffic is not:

# %%
for name, step in steps.items():
    asked = sum(step.result.bytes_requested.values())
    bus = sum(step.result.bus_bytes.values())
    print(f"{name:32} asked for {asked / 1e6:6.2f} MB, bus {bus / 1e6:6.2f} MB")
show(draw_causes(steps, "gather: the same elements with less and less NRAM"), "08_tiers")

# %% [markdown]
# ## The faster strategy depends on the board
#
# Both strategies can be selected by name. On MLU590-H8, the instruction changes which one is faster:

# %%
ways = {}
for name in ("mlu370-x4", "mlu590-h8"):
    for strategy in ("slab", "rows"):
        result = ops.gather(x, index, 1, device=name, strategy=strategy)
        assert np.array_equal(result.output, expected)
        ways[f"{name}, {strategy}"] = Step(result, result.output, x.nbytes + index.nbytes + result.output.nbytes)
table(ways, causes=3)
show(draw_causes(ways, "gather: two strategies on two boards"), "08_ways")

# %% [markdown]
# The planner knows the shapes but not the index values. It predicts both times from the board's cost functions; the
# plan's reason, printed above, shows them.
#
# ## Exercise
#
# `lessons/exercises/08_gather.py` copies rows of a table with one blocking copy per row. Many of the rows are
# consecutive in the table: copy each sequence of consecutive rows at once.

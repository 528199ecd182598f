# %% [markdown]
# # 8. gather in its tiers
#
# `gather` takes elements of x by an index: out[i, j] = x[i, index[i, j]]. No strided copy can do that. There are two
# ways:
#
# - **slab**: load all that the index can address into NRAM, and select there: tier 1 where it fits whole, tier 2
#   where it is cut;
# - **rows**: go to GDRAM for every element or row: tier 3, when the slab does not fit, and sometimes when it does.
#
# From arch 592 on (MLU590-H8) an instruction gathers; before, selecting on chip is a loop of scalar code.

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
    on = board("mlu370-x4").replace(nram_bytes=kib * 1024, nram_reserved_bytes=0)
    result = ops.gather(x, index, 1, device=on, strategy=strategy)
    assert np.array_equal(result.output, expected)
    name = f"tier {result.plan.tier}: {strategy}, NRAM of {kib} KiB"
    steps[name] = Step(result, result.output, x.nbytes + index.nbytes + result.output.nbytes)
    print(f"{name}\n  {result.plan.reason}")
table(steps, causes=3)
assert [step.result.plan.tier for step in steps.values()] == [1, 2, 3]

# %% [markdown]
# Where a slab fits, whole rows of x come in by contiguous copies, and each element is then found on chip, by scalar
# code on this board. Where it does not, every element is a copy of its own: 4 bytes that cost a bus unit of 64. In
# time the two come out close here. On the bus they do not:

# %%
for name, step in steps.items():
    asked = sum(step.result.bytes_requested.values())
    bus = sum(step.result.bus_bytes.values())
    print(f"{name:32} asked for {asked / 1e6:6.2f} MB, bus {bus / 1e6:6.2f} MB")
show(draw_causes(steps, "gather: the same elements, less and less NRAM"), "08_tiers")

# %% [markdown]
# ## Which way is faster depends on the board
#
# Both ways can be asked for by name. On MLU590-H8 the instruction changes the balance:

# %%
ways = {}
for name in ("mlu370-x4", "mlu590-h8"):
    for strategy in ("slab", "rows"):
        result = ops.gather(x, index, 1, device=name, strategy=strategy)
        assert np.array_equal(result.output, expected)
        ways[f"{name}, {strategy}"] = Step(result, result.output, x.nbytes + index.nbytes + result.output.nbytes)
table(ways, causes=3)
show(draw_causes(ways, "gather: two ways on two boards"), "08_ways")

# %% [markdown]
# The planner does not know the index values, only the shapes: it predicts both times from the board's cost functions
# and says so in the plan's reason, printed above.
#
# ## Exercise
#
# `lessons/exercises/08_gather.py` picks rows of a table, one blocking copy for each. Many rows follow each other:
# copy runs.

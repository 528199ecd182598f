# %% [markdown]
# # 7. What clearing costs
#
# Rows that a shift vacates must be zero, so part of the NRAM has to be cleared. The strategies of `tin_shift` differ in
# what they clear:
#
# - `shipped`: all of the usable NRAM for every tile, like the kernel of mlu-ops;
# - `documented`: the buffer of the tile, as in the design document;
# - `tight`: only the rows that the shift vacates, while the other rows load;
# - `batched`, `pingpong`: the same as `tight`, but with several channels in a copy, or with two buffers.

# %%
import numpy as np

from mlusim import ops
from tools import Step, draw_causes, show, table

x = np.random.default_rng(0).standard_normal((2, 8, 256, 196)).astype(np.float16)
shifts = np.array([[1, -1, 2, 0], [3, -2, 0, 1]], np.int32)
steps = {}
for strategy in ("shipped", "documented", "tight", "pingpong", "batched"):
    result = ops.tin_shift_forward(x, shifts, strategy=strategy)
    steps[strategy] = Step(result, result.output, 2 * x.nbytes)
reference = steps["documented"].output
assert all(np.array_equal(step.output, reference) for step in steps.values())
table(steps, causes=3)

# %% [markdown]
# `write_zero` clears 128 B per cycle. Clearing the whole usable NRAM of 640 KiB takes 5 120 cycles, several times as
# long as loading a tile of 3 KiB. The log has the totals:

# %%
for name, step in steps.items():
    columns, log = step.result.log.columns(), step.result.log
    fills = columns["op"] == log.op("write_zero")
    cleared = int(columns["bytes_requested"][fills].sum())
    print(f"{name:10} clears {cleared / 2**20:7.2f} MiB in {fills.sum():4} instructions")
print(f"and the output has {x.nbytes / 2**20:.2f} MiB")

# %%
show(draw_causes(steps, "The same shift by five strategies"), "07_causes")
time_of = {name: step.result.time_ps for name, step in steps.items()}
assert time_of["shipped"] > time_of["documented"] > time_of["tight"] > time_of["pingpong"] > time_of["batched"]
print(f"clearing less makes it {time_of['shipped'] / time_of['tight']:.2f} times as fast,")
print(f"larger copies {time_of['tight'] / time_of['batched']:.2f} times on top of that")

# %% [markdown]
# Clearing less gains more than any buffering scheme. The next largest cost is the latency of thousands of small
# copies, which `batched` pays once for many channels. By default (`strategy="auto"`), mlusim's planner predicts the
# times of `batched` and `pingpong` and chooses the faster one.
#
# `mlusim compare tin_shift --shape 2,8,256,196 --dtype float16` prints this comparison for any shape and board.
#
# ## Exercise
#
# `lessons/exercises/07_clearing.py` pads rows with zeros and clears far too much. Clear only the padding.

# %% [markdown]
# # 13. The ladder in BANG C
#
# BANG C is C++ with keywords and intrinsics for the memories and instructions of MLUs. mlusim runs it unmodified. This
# lesson writes a vector add and the ladder of lesson 12 in a `.mlu` file, [`13_bang_c.mlu`](../13_bang_c.mlu). It needs
# a C++ compiler: g++ 12, clang++, or `pip install 'mlusim[bangc]'`.

# %%
from pathlib import Path

import numpy as np

import mlusim
from tools import draw_causes, draw_pipes, run, show, table

FILE = Path(__file__).with_name("13_bang_c.mlu") if "__file__" in globals() else Path("13_bang_c.mlu")
module = mlusim.bangc.compile(FILE, "mlu370-x8")
source = FILE.read_text(encoding="utf-8")


def print_entry(name):
    """The C++ of an entry."""
    start = source.index(f"__mlu_entry__ void {name}(")
    print(source[start : source.index("\n}", start) + 2])


# %% [markdown]
# ## A vector add
#
# The first rung is plain C++. Each task computes every `taskDim`-th element, from `taskId` on.

# %%
print_entry("add_scalar")
print_entry("add_tiles")

# %% [markdown]
# In `add_scalar`, every `a[i]` is a load from GDRAM, and the core waits for it. `add_tiles` loads tiles into NRAM, and
# one instruction adds 4096 elements. `add_pipelined` has two buffers for each operand, and overlaps copies and adds by
# `__memcpy_async` and `__sync`, as in lesson 3.
#
# `module["name"]` is a kernel, as in the other lessons. Here the three kernels run on one core:

# %%
rng = np.random.default_rng(0)
x, y = rng.standard_normal((2, 1 << 20)).astype(np.float32)
steps = {}
for name in ("add_scalar", "add_tiles", "add_pipelined"):
    small = name == "add_scalar"
    count = 1 << 12 if small else 1 << 18
    label = f"{name}, {count >> 10} K elements"
    steps[label] = run(
        module[name], x[:count], y[:count], out=((count,), np.float32), extra=(count,), board="mlu370-x8", dim=1,
        kind="BLOCK",
    )  # fmt: skip
    assert np.array_equal(steps[label].output, x[:count] + y[:count])
table(steps, causes=1)
bandwidth = [step.gbytes_per_s for step in steps.values()]
assert bandwidth == sorted(bandwidth)

# %%
tiles = {name: step for name, step in steps.items() if "scalar" not in name}
show(draw_pipes(tiles, "The first tiles on one core", until_us=20), "13_pipes")

# %% [markdown]
# On all cores, the last two have the same bottleneck, the DRAM:

# %%
steps = {
    name: run(module[name], x, y, out=(x.shape, x.dtype), extra=(x.size,), board="mlu370-x8")
    for name in ("add_tiles", "add_pipelined")
}
table(steps, causes=1)

# %% [markdown]
# ## Matrix multiplication
#
# These are the first rungs of lesson 12. The loops are compiled C++, and every load and store is charged. `multiply` is
# a template, instantiated once with pointers to GDRAM and once with arrays in NRAM.

# %%
a = rng.integers(-8, 8, (128, 128)).astype(np.float32)
b = rng.integers(-8, 8, (128, 256)).astype(np.float32)
weights = np.ascontiguousarray(b.T.reshape(4, 64, 128).swapaxes(0, 1))
steps = {}
for name, right in (("matmul_gdram", b), ("matmul_nram", b), ("matmul_tensor", weights)):
    step = run(module[name], a, right, out=((128, 256), np.float32), board="mlu370-x8", dim=1, kind="BLOCK")
    assert np.array_equal(step.output, a @ b)
    steps[name] = step
table(steps, causes=1)
times = [step.result.time_ps for step in steps.values()]
assert times == sorted(times, reverse=True)

# %%
tensor = steps["matmul_tensor"]
show(draw_causes({"matmul_tensor": tensor}, "Where the time of the last rung goes"), "13_causes")

# %% [markdown]
# The loops of `multiply` load eight million elements, which takes seconds on the host: mlusim counts plain accesses in
# C, and checks the bounds of each one. `mlusim.verify(module["add_tiles"], ...)` finds races and uninitialised reads
# and names their lines in the C++ source. `mlusim bangc run` does all of this from a shell. The page "Run your BANG C"
# (`docs/bangc.md`) has the details.
#
# ## Exercise
#
# `lessons/exercises/13_bang_c.mlu` adds two vectors, slowly. Improve the C++ until 100 tiles take at most 150 us on one
# core. `python lessons/check.py lessons/exercises/13_bang_c.py` compiles and checks it.

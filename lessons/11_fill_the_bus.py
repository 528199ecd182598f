# %% [markdown]
# # 11. How many cores does it take to fill the memory bus?
#
# Each core has a port of its own, the cores of a cluster share its port, and all cores share the DRAM. Which of these
# is the bottleneck? This lesson runs a kernel that only copies, in large tiles, on more and more cores.

# %%
import numpy as np

from mlusim import board
from mlusim.analysis.style import SERIES_COLOURS, drawing
from tools import run, show


async def copy(core, x, out):
    """Each task copies an equal part, in tiles of up to a quarter of its NRAM, with two alternating buffers."""
    part = -(-x.size // core.task_dim)
    first, last = core.task_id * part, min((core.task_id + 1) * part, x.size)
    tile = core.board.nram_usable_bytes // 4 // x.itemsize // 64 * 64
    data = core.nram.alloc((2, tile), x.dtype)
    for number, start in enumerate(range(first, last, tile)):
        n = min(tile, last - start)
        core.memcpy_async(data[number % 2, :n], x[start : start + n])
        core.memcpy_async(out[start : start + n], data[number % 2, :n])
    await core.sync()


x = np.zeros(1 << 22, np.float32)
found = {}
for name in ("mlu370-x4", "mlu290-m5", "mlu590-h8"):
    target = board(name)
    counts = sorted({1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64} & set(range(1, target.cores + 1)) | {target.cores})
    rates = [
        run(copy, x, out=(x.shape, x.dtype), board=target, dim=count, kind="BLOCK").gbytes_per_s for count in counts
    ]
    found[name] = counts, rates
    peak = target.dram_bandwidth_bytes_per_s / 1e9
    enough = next(count for count, rate in zip(counts, rates, strict=True) if rate >= 0.9 * max(rates))
    print(f"{name}: DRAM {peak:.0f} GB/s by the data sheet")
    print(f"  one core   {rates[0]:6.1f} GB/s, {rates[0] / peak:.0%} of it")
    print(f"  all {target.cores:2}     {rates[-1]:6.1f} GB/s, {rates[-1] / peak:.0%}")
    print(f"  {enough} of {target.cores} cores reach 90 % of the most that this kernel gets")
    assert rates[-1] <= peak
    assert rates[0] < 0.3 * peak

# %%
with drawing():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    axes = figure.subplots()
    for (name, (counts, rates)), colour in zip(found.items(), SERIES_COLOURS, strict=False):
        axes.plot(counts, rates, "o-", color=colour, label=name)
        axes.axhline(board(name).dram_bandwidth_bytes_per_s / 1e9, color=colour, linestyle=":", linewidth=1)
    axes.set_xlabel("cores at work")
    axes.set_ylabel("read and written [GB/s]")
    axes.set_title("A copy by more and more cores; dotted: the DRAM's data sheet")
    axes.grid(visible=True)
    axes.legend(loc="lower right")
show(figure, "11_cores")

# %% [markdown]
# The curves show three things. A single core uses a small part of the bandwidth. The bandwidth grows in proportion to
# the number of cores until the bus is full; more cores then only add compute. And no kernel reaches the dotted line:
# DRAM is slower than its data sheet even for contiguous copies, and slower again for mixed reads and writes
# (`docs/accuracy.md` describes how well these losses are known).
#
# On MLU290, the limit is the port of a cluster, which carries 31 B per cycle in each direction and which four cores
# share.
#
# ## Exercise
#
# `lessons/exercises/11_fill_the_bus.py` is a copy kernel that leaves most of the bus unused. Improve it to 70 % of the
# data sheet.

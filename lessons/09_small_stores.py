# %% [markdown]
# # 9. Why a store of 32 B costs four times its bytes
#
# The DRAM bus moves whole, aligned units of 64 B. A load of 32 B moves 64 B. A store of 32 B is a read-modify-write:
# the unit is read, changed, and written back, which moves 128 B.

# %%
import numpy as np

from mlusim.analysis.style import SERIES_COLOURS, drawing
from tools import run, show

ROWS = 512


async def store_rows(core, x, out, width):
    """Write `width` bytes at the front of each row of `out`: short stores, one after the other."""
    tile = core.nram.alloc(x.shape[1], x.dtype)
    await core.memcpy(tile, x[0])
    for row in range(core.task_id, out.shape[0], core.task_dim):
        core.memcpy_async(out[row, :width], tile[:width])
    await core.sync()


x = np.full((1, 256), 7, np.uint8)
widths = (16, 32, 48, 63, 64, 65, 96, 128, 192, 256)
efficiency, bandwidth = [], []
print("store    asked for     bus read    bus write   useful    law for x < 64: x / 128")
for width in widths:
    step = run(store_rows, x, out=((ROWS, 256), np.uint8), extra=(width,), dim=32, kind="BLOCK")
    assert (step.output[:, :width] == 7).all()
    asked = ROWS * width
    bus = step.result.bus_bytes
    read = bus["read"] - 32 * 256  # less the load of x by 32 tasks
    efficiency.append(asked / (read + bus["write"]))
    bandwidth.append(asked / step.result.time_ps * 1000)
    law = f"{width / 128:7.1%}" if width < 64 else ""
    print(f"{width:4} B {asked:10} B {read:10} B {bus['write']:10} B {efficiency[-1]:8.1%}    {law}")
    if width < 64:
        assert abs(efficiency[-1] - width / 128) < 1e-9
assert efficiency[widths.index(64)] == efficiency[widths.index(128)] == 1
assert efficiency[widths.index(65)] < 0.5

# %% [markdown]
# Stores of 64 B are efficient; stores of 65 B are not, because the additional byte costs a unit read and a unit
# written. The vendor's rule is to store whole, aligned units.

# %%
with drawing():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(widths, efficiency, "o-", color=SERIES_COLOURS[0])
    left.set_ylim(0, 1.05)
    left.set_ylabel("bytes stored / bytes on the bus")
    left.set_title("Useful part of the bus traffic")
    right.plot(widths, bandwidth, "o-", color=SERIES_COLOURS[1])
    right.set_ylim(0)
    right.set_ylabel("bytes stored per time [GB/s]")
    right.set_title("Useful bandwidth of 32 cores")
    for axes in (left, right):
        axes.set_xlabel("size of each store [B]")
        axes.set_xticks((0, 64, 128, 192, 256))
        axes.grid(visible=True)
show(figure, "09_stores")

# %% [markdown]
# The same happens at both ends of any row that does not begin or end at a unit boundary: a tensor with rows of 100 B
# pays this cost in every row. To see it in a run, compare `result.bus_bytes` with `result.bytes_requested`; the split
# proof of `mlusim.verify` shows it for every source line.
#
# ## Exercise
#
# `lessons/exercises/09_small_stores.py` stores 32 B at a time, at adjacent addresses. Store them together.

# %% [markdown]
# # 6. The three cases of the time split
#
# In tier 2, a channel is cut along time into segments. Row *t* of the output is row *t - shift* of the input, or zeros
# if there is no such row. A segment may therefore be loaded in full, in part, or not at all. The boundary between
# rows that exist and rows that do not may be
#
# 1. between two segments,
# 2. inside a segment,
# 3. inside the last segment, which may be shorter than the others,
#
# for shifts of either sign. A mistake in one of these cases is the classic bug of this operator.

# %%
import numpy as np

from mlusim import board, ops
from mlusim.analysis.style import drawing
from tools import show

TIME, ROW = 10, 16
x = np.arange(1, TIME * ROW + 1, dtype=np.float32).reshape(1, TIME, 1, ROW)
# Four rows of 64 B fit, so ten rows are segments of 4, 4 and 2.
small_board = board("mlu370-x4").replace(nram_bytes=256, nram_reserved_bytes=0)


def shifted(shift):
    """Return the run with this shift, and the number of rows that it loaded for each segment, from the log."""
    result = ops.tin_shift_forward(x, np.array([[shift]], np.int32), device=small_board, strategy="documented")
    log, columns = result.log, result.log.columns()
    copies = np.flatnonzero(columns["op"] == log.op("memcpy"))
    copies = copies[np.argsort(columns["dst_offset"][copies], kind="stable")]
    stores = [k for k in copies if log.allocations[columns["dst_alloc"][k]].memory == "gdram"]
    loads = {}
    for load in copies:
        if load not in stores:
            same = columns["task"] == columns["task"][load]
            store = min(k for k in stores if same[k] and k > load)
            loads[store] = columns["bytes_requested"][load] // (ROW * 4)
    return result, [int(loads.get(store, 0)) for store in stores]


cases = {
    "between two segments": (4, -4, 8, -6),
    "inside a segment": (1, -1, 5, -5),
    "inside the last, short one": (9, -1, -9),
    "no shift, or beyond the end": (0, 10, -10),
}
print(f"{'':28} shift   rows loaded of segments of 4, 4, 2")
shown = {}
for words, chosen in cases.items():
    for shift in chosen:
        result, loaded = shifted(shift)
        expected = np.zeros_like(x)
        kept = max(TIME - abs(shift), 0)
        source, target = max(-shift, 0), max(shift, 0)
        expected[:, target : target + kept] = x[:, source : source + kept]
        assert np.array_equal(result.output, expected)
        assert sum(loaded) == kept
        shown[shift] = result.output[0, :, 0, 0]
        print(f"{words:28} {shift:5}   {loaded}")

# %% [markdown]
# Every row that exists is loaded exactly once: the numbers in a line add up to T - |shift|. In the picture, each column
# is one shift, a white cell is a row of zeros, and the lines are the boundaries of segments.

# %%
with drawing():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots()
    order = sorted(shown)
    picture = np.array([shown[shift] for shift in order]).T
    image = axes.imshow(np.where(picture > 0, (picture - 1) // ROW, np.nan), cmap="viridis", aspect="auto")
    axes.set_xticks(range(len(order)), order)
    axes.set_yticks(range(TIME))
    for border in (3.5, 7.5):
        axes.axhline(border, color="black", linewidth=1.5)
    axes.set_xlabel("shift")
    axes.set_ylabel("row of the output")
    axes.set_title("The input row that each output row comes from")
    figure.colorbar(image, label="row of the input")
show(figure, "06_rows")

# %% [markdown]
# A test of all shifts is short, and finds more bugs than single examples:

# %%
for shift in range(-TIME - 1, TIME + 2):
    result, _ = shifted(shift)
    padded = np.concatenate([np.zeros((TIME + 1, ROW)), x[0, :, 0], np.zeros((TIME + 1, ROW))])
    first = TIME + 1 - max(-TIME - 1, min(shift, TIME + 1))
    assert np.array_equal(result.output[0, :, 0], padded[first : first + TIME])
print("all shifts from", -TIME - 1, "to", TIME + 1, "are correct")

# %% [markdown]
# ## Exercise
#
# `lessons/exercises/06_time_split.py` is a kernel with segments that misses one of the cases. Correct it.

"""Steady-state timing: a launch without data is simulated until it repeats itself, and the rest is added.

    mlusim.ops.cast(x, "float16", data=False, steady=True)

Its steps, a file each: `steady` runs the kernels dry, which says what they issue but not when; `periods` finds loops in
that; `cuts` replays it, and once the tasks are steady leaves repeats out; `expand` writes the times of what was left
out. The log is complete: every operation with its operands and bytes. What is extrapolated is times.
"""

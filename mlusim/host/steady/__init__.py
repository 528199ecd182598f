"""Steady-state timing: a launch without data is simulated until it repeats itself, and the rest is extrapolated.

  mlusim.ops.cast(x, "float16", data=False, steady=True)

There are four steps, one per file: `steady` runs the kernels dry, which logs the operations without times; `periods`
finds loops in them; `skips` replays the log and, once the tasks are steady, skips repeats; `expand` fills in the times
of the skipped operations. The resulting log is complete: every operation with its operands and bytes. Only times are
extrapolated.
"""

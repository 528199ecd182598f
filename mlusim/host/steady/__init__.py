"""Steady-state timing: a launch without data is simulated until it repeats itself, and the rest is extrapolated.

  mlusim.ops.cast(x, "float16", data=False, steady=True)

It is an ordinary run that is watched (`watch`):

1. From time to time, the loops of all tasks are found in the log (`task_loops`, `periods`), and their common pace and
   its uncertainty are measured (`pace`).
2. Once that suffices, every task skips the middle of its loop (`fast_forward`): the kernel issues the operations, and
   they are not simulated; or, in a loop that it has declared (`declared_loop`), the kernel does not even execute the
   iterations, and their records are computed from those of other ones (`pattern`).
3. The last iterations are simulated again. Afterwards, the times of the skipped operations are filled in (`expand`).

The resulting log is complete: every operation with its operands and bytes. Only times are extrapolated. A run that is
not extrapolated costs little more than without being watched.
"""

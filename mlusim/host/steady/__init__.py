"""Steady-state timing: a launch without data is simulated until it repeats itself, and the rest is extrapolated.

`mlusim.ops.cast(x, "float16", data=False, steady=True)` is an ordinary run that is watched. From time to time, the
loops of all tasks are found in the log, and their common pace and its uncertainty are measured. Once that suffices,
every task skips the middle of its loop: the kernel issues the operations, and they are not simulated; or, in a loop
that it has declared, the kernel does not even execute the iterations, and their records are computed from those of
other ones. The last iterations are simulated again. Afterwards, the times of the skipped operations are filled in.

The resulting log is complete: every operation with its operands and bytes. Only times are extrapolated. A run that is
not extrapolated costs little more than without being watched.

The run:
  steady                   `run_timed`: extrapolates, or runs in full
  watch                    watches a run, and decides what to skip
  refusals                 why a run is not extrapolated

What repeats:
  task_loops, periods      the loop that each task is in; where operations repeat
  pace, task_group         the pace of tasks and its uncertainty; that of tasks with the same loop, and their errors

What is skipped:
  skips                    the periods that each task skips
  fast_forward             a task skips operations
  declared_loop            loops declared by `Core.loop`; `predicted_iterations`: their records
  skipped_times            the times of skipped operations
"""

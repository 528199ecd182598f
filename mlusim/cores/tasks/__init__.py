"""Launches and their tasks.

Execution:
  launch, launch_checks    queues, launches and the placement of jobs on units; which launches are refused
  task                     a task of a launch, driven by events
  waiting                  what a kernel awaits

Errors:
  kernel_errors            errors of kernels, located at their lines by `source_line`
  unawaited, endless       coroutines that are never awaited; tasks without end
"""

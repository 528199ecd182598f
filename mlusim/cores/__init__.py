"""Cores: the machine from a kernel's point of view, and the execution of its tasks.

Letters in parentheses, such as (B) or (G 5.3), name the sources of rules, which docs/hardware.md lists.

What a kernel calls:
  core                     `Core`, its first argument: a line for each method
  instruction_methods      its vector and tensor instructions; `conversion_methods`: those of element types
  scratch                  allocation in NRAM, WRAM, SRAM and LDRAM

Machine:
  chip, unit               clusters with their memories and links; a core or memory core with its pipes
  pipe, ordering           a DMA pipe; what waits for what on a core
  launch, launch_checks    queues, launches and the placement of jobs on units; which launches are refused
  task, waiting            a task of a launch, driven by events; what a kernel awaits

Instructions:
  issuer                   counts, charges and records each of them
  operands                 checks of what a kernel passes: views and numbers
  copies                   `__memcpy`; `byte_copies` by pointers and strides, `shared_copy` by the memory core
  copy_geometry            limits and cost of a copy; `copy_effect` its movement of bytes
  scalar, syncs            scalar code, loads and stores; syncs, and `barrier` and `locks`
  vector                   instructions of the table, `instructions/`; `uncached_vector` all others
  vector_call              cost and checks of one on certain layouts; `deferred_vector` on deferred loads
  sets_and_atomics         sets of a memory, and atomics on GDRAM
  counted                  loops of equal small instructions: `row_loop`, `row_copies`, `masks`
  convert                  the values of conversions between element types

Errors:
  kernel_errors            errors of kernels, located at their lines by `source_line`
  unawaited, endless       forgotten awaits; tasks without end
  closing                  the coroutines of a run that an error has ended
"""

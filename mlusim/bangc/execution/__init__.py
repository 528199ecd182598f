"""Execution of compiled kernels, task by task.

Tasks:
  kernel                   an entry as a kernel of the simulator; `entry_points`: its address and parameters
  image                    a copy of the binary for each core, and its fibre
  runtime_layout           what Python and `runtime.cpp` share
  crossing                 runs a task from one call of the simulator to the next

Memory:
  bridge                   the pointers of a task as views
  placed_arrays            arrays with a memory space; `fixed_addresses`: where a linker places them
  gdram_map                tensors by their address
  device_variables         variables in GDRAM; `file_variables`: those outside the memories of the board
  filter_forms             the layout of filters in WRAM
  accesses                 plain C++ accesses to device memory

Errors:
  faults                   signals, wild addresses, `abort`, exceptions
  repetition               loops without end
  lines                    lines of C++ in tracebacks of Python
"""

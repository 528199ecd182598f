"""Execution of compiled kernels, task by task.

Tasks:
  kernel                   an entry as a kernel of the simulator; `entry_points`: its address and parameters
  image                    a copy of the binary for each core, and its fibre
  fibre_runner             runs a task from one call of the simulator to the next

Memory:
  compiled_task            a task: its pointers as views, and its calls
  placed_arrays            arrays with a memory space, at addresses as a linker places them
  gdram_map                tensors by their address
  device_variables         variables in GDRAM; `file_variables`: those outside the memories of the board
  filter_forms             the layout of filters in WRAM
  accesses                 plain C++ accesses to device memory

Errors:
  faults                   signals, wild addresses, `abort`, exceptions
  repetition               endless loops
"""

"""BANG C: run an unmodified `.mlu` file on a simulated board.

module = mlusim.bangc.compile("kernel.mlu", "mlu370-x4")
device.launch(module["name"], x, out, 8)

From source to binary:
  source, rewriting        tokens of a preprocessed file, and what C++ does not have; by construct:
  memory_arrays, launches  `__nram__` arrays, `<<<...>>>`; `entries`, `device_variables`, `file_variables`, `assembly`
  device_functions         functions of the board that each file of a program has for itself
  compilation, linking     preprocess, compile, link; `toolchain`: compilers and a cache; `loading`: test loads
  compiler_messages        messages at the user's lines; `debug_lines`: lines of instructions
  undeclared_names         names that clash or are missing; `unknown_names`: neither instructions nor in the headers
  survey                   which files compile, and what is missing

Kernels:
  module, kernel           a compiled file, and an entry as a kernel; `entry_points`, `kernel_files`: by name
  image, crossing          a copy of the binary for each core, and its fibre; a task from call to call
  intrinsics, calls        every intrinsic by number; the records of calls, with `type_codes` of their values
  instruction_calls        vector and tensor instructions; `copy_calls`, `device_calls`: copies, and all others
  bridge, placed_arrays    pointers as views; the arrays of a task, at `fixed_addresses`; `gdram_map`: tensors
  filter_forms             filters in WRAM
  accesses                 plain C++ accesses to device memory
  faults, repetition       signals and wild addresses; loops without end; `lines`: their lines

Programs:
  host, own_process        a file with `main`, in a process of its own
  cnrt, host_memory        functions of CNRT; `host_calls`: which there are; `volumes`: copies in 3D
  host_order, host_spans   memory used while a launch or copy may still use it
"""

from mlusim.bangc.module import Module, compile  # noqa: A004 - mlusim.bangc.compile, as users read it

__all__ = ["Module", "compile"]

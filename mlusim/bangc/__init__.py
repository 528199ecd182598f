"""BANG C: run an unmodified `.mlu` file on a simulated board.

module = mlusim.bangc.compile("kernel.mlu", "mlu370-x4")
device.launch(module["name"], x, out, 8)

  module                   a compiled file, and its entries as kernels
  kernel_files             kernels by name, `file.mlu:entry`
  survey                   which files compile, and which of their calls are unsupported
  compiler                 from source to binary
  calls                    intrinsics, and the operations of the core that they call
  execution                the tasks of a compiled kernel
  host                     files with `main`, and CNRT

What several of these use:
  runtime_layout           what Python and `runtime/fibre.h` share
  debug_lines              the source lines of machine instructions; `lines`: lines of C++ in tracebacks of Python

In C and C++: `include/` has the headers, `runtime/` the fibres and the instrumentation.
"""

from mlusim.bangc.module import Module, compile  # noqa: A004 - mlusim.bangc.compile, as users read it

__all__ = ["Module", "compile"]

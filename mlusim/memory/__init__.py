"""Memories: allocations, views, copy geometry, bus rules and shared links. Independent of cores and kernels.

Letters in parentheses, such as (B) or (G 5.3), name the sources of rules, which docs/hardware.md lists.

Bytes:
  kinds, sizes             the memories, and the directions of copies between them; how large each is on a board
  allocation               a memory and its allocations; `reused`: host memory of earlier results and devices
  view, layout             typed, strided ranges; `slicing` of them, `not_numeric`: arithmetic that they refuse
  addresses                rows by number, such as the lookups of a gather
  deferred                 large loads whose bytes are written when they are needed
  row_copy                 the bytes of a loop of row copies
  element_loops            loops over elements, in C where the package is compiled, else in NumPy
  docstrings               the docstring of a compiled class

Cost of a copy:
  copy_shape, copy_limits  segments and strides of a copy; the limits of the hardware
  bus, copy_cost           bytes on the DRAM bus; start-up, work and rate
  loop_costs, bin_costs    loops of equal small instructions; sorting into bins

Shared bandwidth:
  flow                     a transfer in flight, and the limits of a link and its ports
  shares, link             the rates of the transfers on a link; when they change
  quick_link               links without contention
  clock                    simulated time, and reusable events
"""

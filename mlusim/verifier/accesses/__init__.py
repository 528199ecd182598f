"""The bytes that each operand of the log reads or writes.

One access:
  table                    every operand of the log, as a row of a table
  geometry, row_geometry   the bytes of an operand: strided, or rows by number; exact overlap tests
  outputs                  which tensors leave the board
  partial_results          what an instruction leaves unwritten of its destination
  coordinates              byte ranges as tensor coordinates
  space                    allocations that share addresses, and tasks that share allocations

Many accesses:
  overlaps                 which of many pairs share bytes
  cells                    how often, and by which task, each byte of a tensor is accessed
  condensed                smaller tables with the same counts
  range_extrema            minima and maxima over ranges
"""

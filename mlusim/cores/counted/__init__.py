"""Counted operations: one record for a loop of many equal small instructions.

Such a record has the number of instructions, their addresses as an array, and their total cost; NumPy computes the
result in one step, so a kernel needs no Python loop over elements.

  scalar_copy              loops of scalar code that copy elements within NRAM
  row_copies               copies of rows: `memcpy_rows`, `gather` and `scatter`
  row_loop                 the rows that both move
  collect, bin_sort        selection by a mask; sorting into bins
"""

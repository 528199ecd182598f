"""Counted operations: one record for a loop of many equal small instructions.

Loops:
  loops                    of scalar code and of copies
  row_loop                 their checks, and the rows that they move

Instructions:
  row_copies               gathers and scatters of rows, and one transfer of many rows
  masks, bin_sort          selection of elements by a mask; sorting into bins
"""

"""Counted operations: one record for a loop of many equal small instructions.

Loops:
  loops                    `scalar_copy` and `memcpy_rows`
  row_loop                 their checks, and the rows that they move

Instructions:
  row_copies               `gather` and `scatter`, and one transfer of many rows
  masks, bin_sort          `collect`, selection by a mask; sorting into bins
"""

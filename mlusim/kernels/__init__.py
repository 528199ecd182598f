"""The kernels of the operators, each of which follows a plan of `mlusim.planning`.

Kernels:
  cast, bitcast            conversions; bitwise copies
  reverse                  reverse and flip; `reverse_sequence`
  tin_shift                four kernels
  gather, index_select     gather and gather_nd; index_select
  scatter, sorted_scatter  scatter and scatter_nd; those that sort the updates first

What they share:
  pipeline                 the schedule of a task's tiles: load, compute, store
  boxes                    strided copies of boxes
  index_tiles              the index of gather and scatter in NRAM, and the row numbers computed from it
"""

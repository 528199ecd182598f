"""BANG C's vector and tensor instructions: one table entry each, with types, limits, cost and numerics.

The table:
  table                    all instructions, by name and by intrinsic
  record                   `Instruction`, an entry of the table
  limits                   the checks that all have in common
  cost                     cycles of the pipe
  c_signatures             BANG C's argument lists

Its entries, by group:
  elementwise              arithmetic, comparison, logic and bits; `numerics`: what they compute
  functions                functions and activations; `library_functions`: those of the vendor's vector library
  conversion, int4         conversions between element types; `rounding`: modes other than to nearest
  reduction, selection     sums, extrema and counts; selection by masks
  movement                 transposes, layouts, tables, fills
  pooling                  pools; `windows`: those of pools and convolutions
  tensor, convolution      the tensor pipe; `tensor_pipe`, `wram_layout`: what they share, and filters in WRAM

Names:
  vector_library           the public names of the vector library, such as `__cn_vector_add_f32_rn`
"""

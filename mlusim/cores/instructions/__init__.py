"""BANG C's vector and tensor instructions: one table entry each, with types, limits, cost and numerics.

`table.INSTRUCTIONS` has all of them by name; `c_forms` knows BANG C's argument lists.
"""

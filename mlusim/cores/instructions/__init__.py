"""BANG C's vector and tensor instructions: one table entry each, with types, limits, cost and numerics.

`table.INSTRUCTIONS` maps names to instructions; `c_signatures` contains BANG C's argument lists.
"""

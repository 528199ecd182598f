"""The compute pipe, which executes vector and tensor instructions.

Instructions:
  vector                   issues those in the table, `mlusim.cores.instructions`; `uncached_vector`: all others
  vector_call              cost and checks of an instruction, for operands of given layouts
  deferred_vector          instructions on deferred loads
"""

"""Reads of uninitialised bytes that have an effect.

  reads, read_findings     the reads, as findings; `nearby`: writes beside them
  unselected               elements that are stored beyond those that a filter selected
  flow                     whether uninitialised bytes reach an output, a register or an address

What the flow works on:
  agenda                   the operations to examine, in log order
  allocation_flow          between which allocations bytes may flow
  equal_tasks              tasks that do the same, of which one is examined
  marks, propagation       which elements of a result depend on which of the sources: by instruction, by operation
  mark_store               where marks are kept: whole operands in `operand_marks`, bits of bit masks in `marked_bits`
"""

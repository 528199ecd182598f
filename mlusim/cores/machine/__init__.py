"""The machine: the parts of the chip that execute tasks.

Parts:
  chip                     clusters with their memories and links
  unit                     a core or memory core with its pipes
  pipe                     a DMA pipe
"""

"""Cores: the machine from a kernel's point of view, and the execution of its tasks.

Letters in parentheses, such as (B) or (G 5.3), name the sources of rules, which docs/hardware.md lists.

What a kernel calls:
  core                     `Core`, its first argument: a line for each method
  instruction_methods      its vector and tensor instructions; `conversion_methods`: those of element types
  scratch                  allocation in NRAM, WRAM, SRAM and LDRAM

What executes it:
  machine                  clusters, cores and their pipes
  tasks                    launches, tasks, and the errors that end them
  synchronisation          what waits for what: the order on a core, syncs, barriers and locks

Instructions:
  issuer                   counts, charges and records each of them; `frame_lines`: the line that calls it
  operands                 checks of what a kernel passes: views and numbers; `foreign_names`: names of other languages
  convert                  how conversions between element types round
  copies                   `__memcpy`
  counted                  loops of equal small instructions, and selection of elements by a mask
  compute                  the compute pipe; `instructions`: the table of what it executes
  scalar                   scalar code, loads and stores
  atomics, memory_sets     atomics on GDRAM, and sets of a memory
"""

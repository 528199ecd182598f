"""Host programs: files with `main`.

Execution:
  program                  runs `main`; `own_process`: in a process of its own
  cnrt                     the functions of CNRT and CNDRV
  host_time                the host's time for launches, between notifiers
  memory                   functions that allocate, copy and set memory; `copies_3d`: the rows of 3-D copies

Checks:
  argument_types           numbers in place of addresses, and results of another size
  missing_waits            memory used while a queued launch or copy may still use it
  spans                    the bytes that each call and launch uses
"""

from mlusim.bangc.host.program import Program, run_program

__all__ = ["Program", "run_program"]

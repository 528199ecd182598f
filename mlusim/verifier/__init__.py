"""Verification of a kernel and its split, as pure functions of the log.

  check                    runs every check over one log, if there is `memory_needed` for it
  check_by_default         checks every operator and device in a block

What the checks work on:
  run                      the log of a run, with its accesses and their order: the input of every check
  columns                  the columns of the log, in as few bytes as their numbers need
  accesses                 the bytes that each operand of the log reads or writes
  order                    which operations are ordered

Checks:
  races                    accesses to the same bytes that nothing orders, and what would order them
  uninitialised            reads of uninitialised bytes, and whether they have an effect
  split                    the split proof, and the balance of the split
  deadlocks                barriers and locks for which tasks wait forever, and locks that are never released
  raised_errors            the error that ended a run, and those that a kernel caught; `polling`: what an endless task
                           waits for
  wrong_values, producer   wrong values, and the operations that computed them; `value_remedies`: those to check first
  unused, unread           unused allocations and leaks, and results on chip that nothing reads
  replaced                 results that are replaced before anything reads them
  hints, remarks           redundant syncs, and observations made during the run
  launch_types             kernels for a union that were launched as BLOCK

Results:
  findings                 a finding, its text and its JSON
  changes                  changes of one line that fix a kernel, as its first remedy
  consequences             findings that follow from another one, which are folded into it
  source_file              loops and branches of a source file, of C++ by `cpp_text`; `call_sites`: the calls that an
                           operation may come from; `core_names`: what the kernel calls its core there
  report                   all findings and figures of a run, as text, JSON or a picture

`mlusim.verify`, which runs a kernel and checks its log, is in `mlusim.host.verify`.
"""

from __future__ import annotations

from mlusim.verifier.check_by_default import checked

__all__ = ["checked"]

"""Verification of a kernel and its split, as pure functions of the log.

  check                    runs every check over one log, if there is `memory_needed` for it
  check_by_default         over that of every operator and device in a block

Bytes:
  geometry, row_geometry   the bytes of an operand, and exact overlap tests between operands
  accesses                 every operand of the log, as a row of a table
  overlaps                 which of many pairs of accesses share bytes
  cells, condensed         how often, and by which task, each byte of a tensor is accessed; `range_extrema`: of ranges
  coordinates              byte ranges as tensor coordinates

Order:
  lanes                    operations that are in order among themselves
  happens_before           the order of the operations that the hardware guarantees
  handshakes               the order between tasks that atomics establish

Checks:
  conflicts, races         pairs of accesses to the same bytes that nothing orders, as findings
  missing_syncs, remedies  races that one sync would fix, and that sync; `source_loops`: where it could stand
  executions               how often a line races, and how often it could: a wrong index, or a missing sync
  task_remedies            what orders two tasks: a barrier and its place, a lock; `flags`: an atomic
  releases                 buffers released while a transfer may use them
  uninitialised            uninitialised reads; `uninitialised_flow` follows their effect; `nearby`: writes beside them
  unused                   unused allocations and leaks
  marks, propagation       what each instruction and each operation passes on of them
  mark_store               where they are kept: `operand_marks` by operand, else by byte; `marked_bits` by bit
  agenda, allocation_flow  which operations it has to look at; `equal_tasks`: which tasks
  coverage, overwrites     the split proof: each byte written once, by the right task
  plan_comparison          whether a run follows its plan
  early_exit, locks_left   deadlocks, errors in kernels, locks that are not released
  reference, producer      wrong values, and the operation that computed them
  partial_results          what an instruction leaves unwritten; `unselected`: what is stored behind a filter's result
  hints, unread, remarks   redundant syncs, results without effect, and observations made while the run went on

Results:
  findings                 a finding, its text and its JSON; `consequences` folds findings into their cause
  balance, tensor_use      figures of the split
  report, proof_map        all findings and figures of a run, as text, JSON or a picture

`mlusim.verify`, which runs a kernel and checks its log, is in `mlusim.host.verify`.
"""

from __future__ import annotations

from mlusim.verifier.check_by_default import checked

__all__ = ["checked"]

"""Verification of a kernel and its split, as pure functions of the log.

geometry         the bytes of an operand, and exact overlap tests between operands
accesses         every operand of the log, as a row of a table
happens_before   the order of the operations that the hardware guarantees
conflicts        pairs of conflicting accesses that are not ordered
races            conflicting pairs that share bytes, as findings
cells            how often, and by which task, each byte of a tensor is accessed
uninitialised    uninitialised reads, unused allocations, leaks
coverage         the split proof: each byte written once, by the right task, and the traffic
hints            redundant syncs
findings         a finding, its text and its JSON
report           all findings and figures of a run
check            runs every check over one log
check_by_default whether operators are verified by default: `checked()`

`mlusim.verify`, which runs a kernel and checks its log, is in `mlusim.host.verify`.
"""

from __future__ import annotations

from mlusim.verifier.check_by_default import checked

__all__ = ["checked"]

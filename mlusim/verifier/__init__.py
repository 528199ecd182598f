"""Verification of a kernel and its split, as pure functions of the log.

boxes       the bytes of an operand, and exact overlap tests between operands
accesses    every operand of the log, as a row of a table
order       the happens-before order of the operations
conflicts   pairs of conflicting accesses that are not ordered
races       conflicting pairs that share bytes, as findings
cells       how often, and by which task, each byte of a tensor is accessed
memory      uninitialised reads, unused allocations, leaks
coverage    the split proof: each byte written once, by the right task, and the traffic
hints       redundant syncs
findings    a finding, its text and its JSON
report      all findings and figures of a run
check       runs every check over one log
switch      whether operators are verified by default: `checked()`
api         `verify`: runs a kernel and checks its log
"""

from __future__ import annotations

from mlusim.verifier.switch import checked

__all__ = ["checked"]

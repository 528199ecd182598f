"""Verification of a kernel and its split: pure functions of the log.

boxes       which bytes an operand touches; whether two operands share one, exactly
accesses    every operand of the log as a row of a table
order       what happens before what
joins       pairs of accesses that are not ordered
races       those that share bytes, as findings
cells       how often, and by whom, each byte of a tensor is touched
memory      bytes read that nobody wrote, allocations never used or left
coverage    the split proof: written once, by whom, and what it moved
hints       syncs that order nothing
findings    a finding, its text in ten seconds of reading, its JSON
report      all findings and figures of a run
check       the whole of it over one log
switch      whether operators are verified by default: `checked()`
api         `verify`: runs a kernel and checks its log
"""

from __future__ import annotations

from mlusim.verifier.switch import checked

__all__ = ["checked"]

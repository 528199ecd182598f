"""The remedy of a race, given the result of a run in which each operation of a core is done before its next is issued.

If that result is right, a sync is missing. If it is wrong, no sync would mend the kernel: an operation accesses a wrong
part of its buffer.

C++ code tells nothing of that: it reads memory as soon as it runs, however late the operations before it are issued.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mlusim.verifier.findings import Finding, wrong_part

# Remedies other than a sync.
_NO_SYNC = ("correct the ", "let what uses ")


def is_told_by_result(findings: Iterable[Finding]) -> bool:
    """Return whether there are races within a task, and no C++ code reads the bytes of one."""
    races = [finding for finding in findings if finding.kind == "race"]
    return bool(races) and not any(site.is_compiled and site.pipe == "scalar" for race in races for site in race.sites)


def with_result_in_order(findings: Iterable[Finding], *, is_right: bool) -> tuple[Finding, ...]:
    """Return findings with the remedies of races within a task in the order that the result in program order tells."""
    return tuple(_ranked(finding, is_right=is_right) if finding.kind == "race" else finding for finding in findings)


def _ranked(race: Finding, *, is_right: bool) -> Finding:
    syncs = [remedy for remedy in race.remedies if not remedy.startswith(_NO_SYNC)]
    others = [remedy for remedy in race.remedies if remedy.startswith(_NO_SYNC)]
    if is_right:
        return replace(race, remedies=(*syncs, *others))
    if not others:
        why = "with each operation done before the next, the values are wrong all the same"
        others = [wrong_part(race.fields["buffer"], race.sites, why)]
    return replace(race, remedies=(*others, *syncs))

"""What follows from a missing sync or barrier: findings that go under the one that names it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mlusim.verifier.findings import Finding

_CAUSES = ("race", "release", "task-race")


def fold_consequences(found: Iterable[Finding]) -> list[Finding]:
    """Put what one missing sync explains under the finding that names it.

    Wrong values go under the first missing sync, bytes written again under the race of the same writes, and races
    between tasks of clusters that wait for a barrier under the hang: some are at another barrier than the others.

    Whether the values are wrong for that reason alone shows when the sync is there. Without a cause, findings stay.
    """
    findings = list(found)
    for consequence in [one for one in findings if one.kind in ("task-race", "wrong-value", "written-again")]:
        cause = next((one for one in findings if _explains(one, consequence)), None)
        if cause is not None:
            findings.remove(consequence)
            under = (replace(consequence, folded=()), *consequence.folded)
            findings[findings.index(cause)] = replace(cause, folded=(*cause.folded, *under))
    return findings


def _explains(cause: Finding, consequence: Finding) -> bool:
    if cause.kind == "hang":
        clusters = {site.cluster for site in cause.sites}
        return consequence.kind == "task-race" and clusters.issuperset(site.cluster for site in consequence.sites)
    if cause.kind not in _CAUSES or consequence.kind == "task-race":
        return False
    if consequence.kind == "wrong-value":
        return True
    writes = all(site.role == "writes" for site in cause.sites)
    return writes and _places(cause) == _places(consequence) and cause.kind == "task-race"


def _places(finding: Finding) -> set[tuple[str, int]]:
    return {(site.file, site.line) for site in finding.sites}

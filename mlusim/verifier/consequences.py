"""What follows from a missing sync: findings that go under the one that names it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mlusim.verifier.findings import Finding

_CAUSES = ("race", "release", "task-race")


def fold_consequences(found: Iterable[Finding]) -> list[Finding]:
    """Put wrong values under the first missing sync, and bytes written again under the race of the same writes.

    Whether the values are wrong for that reason alone shows when the sync is there. Without a cause, findings stay.
    """
    findings = list(found)
    for consequence in [one for one in findings if one.kind in ("wrong-value", "written-again")]:
        cause = next((one for one in findings if _explains(one, consequence)), None)
        if cause is not None:
            findings.remove(consequence)
            findings[findings.index(cause)] = replace(cause, folded=(*cause.folded, consequence))
    return findings


def _explains(cause: Finding, consequence: Finding) -> bool:
    if cause.kind not in _CAUSES:
        return False
    if consequence.kind == "wrong-value":
        return True
    writes = all(site.role == "writes" for site in cause.sites)
    return writes and _places(cause) == _places(consequence) and cause.kind == "task-race"


def _places(finding: Finding) -> set[tuple[str, int]]:
    return {(site.file, site.line) for site in finding.sites}

"""Folding: the consequences of a fault go into the finding of their cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mlusim.verifier.consequences.one_fault import same_wrong_part
from mlusim.verifier.consequences.rules import remedies_with
from mlusim.verifier.findings import Finding, Remedy, Way, fixes_by
from mlusim.verifier.source_file import locations_of


def fold_consequences(findings: Iterable[Finding]) -> list[Finding]:
    """Fold consequences into the finding of their cause.

    A consequence that has another cause, too, reappears once this one is fixed. Findings without a cause are unchanged.
    Of two findings of a kind that explain each other, the first is the cause.
    """
    findings = list(findings)
    number = 0
    while number < len(findings):
        consequence = findings[number]
        causes = (
            (at, remedies)
            for at, finding in enumerate(findings)
            if at != number
            and (remedies := remedies_with(finding, consequence)) is not None
            and not (
                at > number and finding.kind == consequence.kind and remedies_with(consequence, finding) is not None
            )
        )
        cause = next(causes, None)
        if cause is None:
            number += 1
            continue
        at, remedies = cause
        findings[at] = replace(findings[at].fold(consequence), remedies=remedies)
        del findings[number]
    return _fold_wrong_parts(findings)


def _fold_wrong_parts(findings: list[Finding]) -> list[Finding]:
    """Fold races on outputs that lack as much as that of an earlier race: the tasks have a wrong number in both.

    A task may also race on one output and leave out another one with the same line.
    """
    folded: list[Finding] = []
    for finding in findings:
        at = next((at for at, cause in enumerate(folded) if same_wrong_part(cause, finding)), None)
        if at is None:
            folded.append(finding)
        else:
            cause = folded[at]
            folded[at] = cause.fold(finding)
            if finding.kind == "task-race":
                lines = locations_of({*cause.lines, *finding.lines})
                tasks = " and ".join(site.task for site in cause.sites)
                number = f"correct the number that gives each task its part at {lines}: {tasks} have the same"
                alone = (remedy for remedy in cause.remedies[:1] if fixes_by(remedy, Way.ONE_TASK))
                folded[at] = replace(folded[at], remedies=(*alone, Remedy(number, Way.ACCESS)))
    return folded

"""Rules: whether a finding is the cause of another, and what that tells about its remedies.

Each rule takes a finding that may be the cause, and another one, the consequence. It returns the remedies of the cause,
which the consequence may make more precise; None if it is no cause.
"""

from __future__ import annotations

from collections.abc import Callable

from mlusim.verifier.consequences import output_rules, race_rules
from mlusim.verifier.consequences.one_fault import BAD_VALUES, stops
from mlusim.verifier.findings import Finding

_STOPS = ("access", "allocation", "copy", "operand", "endless", "stopped")
# What a kernel may do because its plan is wrong, races of its stores aside.
_OF_PLAN = (*_STOPS, "never-written", "written-again", "wrong-value")


def remedies_with(cause: Finding, consequence: Finding) -> tuple[str, ...] | None:
    """Return the remedies of a cause: by the rule of the consequence's kind, or because of what comes first.

    That is a wrong plan, or an operation that was not awaited, and did not run. None if one is not the cause of the
    other.
    """
    lacks = cause.kind == "await" and consequence.kind in BAD_VALUES
    if lacks or _of_plan(cause, consequence):
        return cause.remedies
    rule = _RULES.get(consequence.kind)
    return None if rule is None else rule(cause, consequence)


def _of_plan(cause: Finding, consequence: Finding) -> bool:
    """Return whether a wrong plan may cause it: wrong, missing or repeated stores, a buffer that does not fit."""
    if cause.kind != "bad-plan":
        return False
    return consequence.kind in _OF_PLAN or (consequence.kind == "task-race" and consequence.writes_twice)


def _stop(cause: Finding, stop: Finding) -> tuple[str, ...] | None:
    return cause.remedies if stops(cause, stop) else None


# By kind of consequence.
_RULES: dict[str, Callable[[Finding, Finding], tuple[str, ...] | None]] = {
    **dict.fromkeys(_STOPS, _stop),
    "race": race_rules.race,
    "release": race_rules.release,
    "task-race": race_rules.task_race,
    "lookup": race_rules.lookup,
    "memory-core": race_rules.memory_core,
    "unawaited": race_rules.unawaited,
    "wrong-value": output_rules.wrong_value,
    "uninitialised": output_rules.uninitialised,
    "never-written": output_rules.never_written,
    "written-again": output_rules.written_again,
    "not-planned": output_rules.not_planned,
    "unselected": output_rules.unselected,
    "unread": output_rules.unread,
    "unused": output_rules.unused,
}

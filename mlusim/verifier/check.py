"""Runs every check over one log."""

from __future__ import annotations

from collections.abc import Iterable

from mlusim.errors import InputError, PlanError, shown
from mlusim.hardware import Board
from mlusim.log import Log
from mlusim.planning.plan import Plan
from mlusim.verifier.consequences.folding import fold_consequences
from mlusim.verifier.deadlocks import find_locks_left
from mlusim.verifier.findings import ERROR, KINDS, Finding
from mlusim.verifier.hints import find_overlapping_copies, find_redundant, find_unawaited
from mlusim.verifier.launch_types import with_launch_types
from mlusim.verifier.memory_needed import check_memory_needed
from mlusim.verifier.races.race_search import find_races
from mlusim.verifier.races.releases import find_releases
from mlusim.verifier.raised_errors import find_swallowed, stop_finding
from mlusim.verifier.remarks import find_remarks
from mlusim.verifier.report import Report
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import use_texts
from mlusim.verifier.split.balance import balance_of, memory_traffic, traffic_of
from mlusim.verifier.split.coverage import Coverage
from mlusim.verifier.split.plan_comparison import nram_beyond_plan
from mlusim.verifier.split.stale import find_stale
from mlusim.verifier.uninitialised.read_findings import find_uninitialised
from mlusim.verifier.unread import find_unread
from mlusim.verifier.unused import find_left, find_unused


def check_names(**options: object) -> None:
    """Raise `InputError` for an option that is neither a boolean nor names of outputs.

    A text would allow each of its parts.
    """
    for option, value in options.items():
        is_collection = isinstance(value, tuple | list | set | frozenset) and all(
            isinstance(name, str) for name in value
        )
        if not (is_collection or isinstance(value, bool)):
            raise InputError(
                f"{option}={shown(value)}: pass a tuple of names of outputs, such as ('out',), or True for all"
            )


def check_log(
    log: Log,
    board: Board,
    *,
    name: str = "",
    plan: Plan | None = None,
    rewrites: bool | tuple[str, ...] = (),
    partial: bool | tuple[str, ...] = (),
    planned: str = "",
    stopped: BaseException | None = None,
    left: bool = False,
    found: Iterable[Finding] = (),
) -> Report:
    """Verify a run from its log.

    Args:
        log: the log of one device.
        board: its board.
        name: name of the run; by default the kernels of the launches.
        plan: the split that the run should follow; the plan itself is also checked. Its parameter `rewrites` states
            that the kernel writes elements again on purpose.
        rewrites: names of outputs that may be written more than once; True for all.
        partial: names of outputs of which a part may stay unwritten; True for all.
        planned: name of the output that the plan splits, if ambiguous.
        stopped: the error that ended the run early. Bytes never written are then not reported.
        left: report host allocations that were not freed.
        found: findings that the log does not show.

    Raises `InputError` if the free memory is too small for a log of this length.

    Not seen: accesses by host code; in a timing-only run, the rows accessed by an instruction with offsets in NRAM.
    """
    check_memory_needed(len(log))
    use_texts(log.sources)
    run = Run(log)
    findings = [*found] if stopped is None else [*found, stop_finding(stopped, run)]
    if plan is not None:
        rewrites = rewrites or plan.rewrites
        if wrong_plan := prove(plan):
            # No run can follow it.
            findings += wrong_plan
            plan = None
    findings += find_swallowed(log, stopped)
    findings += find_races(run)
    findings += find_releases(run)
    uninitialised, padding = find_uninitialised(run)
    findings += uninitialised
    findings += find_remarks(run, padding)
    uses, coverage_findings = Coverage(run, plan, rewrites, partial, planned).measure()
    if plan is not None:
        coverage_findings += nram_beyond_plan(log, plan)
    if stopped is None:
        findings += coverage_findings
        for find in (find_locks_left, find_unread, find_stale, find_overlapping_copies, find_unawaited):
            findings += find(run)
        # With an empty tensor, a run does not show what its buffers and syncs are for.
        if len(log) and all(record.nbytes for record in log.allocations):
            findings += find_unused(run)
            # If the bytes accessed are unknown, so is what a sync protects.
            if not (any(finding.severity == ERROR for finding in findings) or run.accesses.unknown):
                findings += find_redundant(run)
    if left:
        findings += find_left(log)
    return Report(
        name=name or ", ".join(dict.fromkeys(launch.kernel for launch in log.launches)) or "nothing",
        board=board.name,
        findings=tuple(
            finding
            for finding in with_launch_types(sort_findings(findings), run)
            # A path that did not run may use them.
            if finding.kind not in ("unused", "unread") or not run.may_use(finding.fields["buffer"])
        ),
        tensors=tuple(uses),
        balance=balance_of(run, board) if log.tasks else None,
        traffic=tuple(traffic_of(run)),
        memories=memory_traffic(run),
        stopped=stopped is not None,
        log=log,
        records=len(log),
        tasks=len(log.tasks),
    )


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Sort errors before hints and causes before consequences; fold the consequences of one missing sync into it."""
    order = list(KINDS)
    return fold_consequences(sorted(findings, key=lambda finding: order.index(finding.kind)))


def prove(plan: Plan) -> list[Finding]:
    """Check a plan on its own: tiles that leave gaps, overlap, exceed the output or do not fit."""
    try:
        plan.check()
    except PlanError as error:
        return [
            Finding(
                kind="bad-plan",
                title=error.message,
                rule="tiles must cover the output exactly once, and each must fit in the NRAM of its core",
                remedies=("correct the planner; plan.explain() prints its arithmetic",),
            )
        ]
    return []

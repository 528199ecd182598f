"""Kernels for a union that were launched as BLOCK: no memory core runs them, and their barriers are only syncs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.verifier.columns import ops_among
from mlusim.verifier.findings import Finding
from mlusim.verifier.run import Run

# What such a launch leads to.
_KINDS = frozenset(("task-race", "never-written", "uninitialised"))


def with_launch_types(findings: Iterable[Finding], run: Run) -> list[Finding]:
    """Return the findings, with the remedy of another task type if a launch as BLOCK reaches barriers of a union."""
    log, order = run.log, run.order
    reached = np.unique(order.launch[order.task_of[ops_among(log, BARRIERS)[order.op_of]]]).tolist()
    blocks = [log.launches[number] for number in reached if log.launches[number].kind == "BLOCK"]
    if not blocks:
        return [*findings]
    launch_text = f"{blocks[0].kernel}{f' at {blocks[0].launched_at}' if blocks[0].launched_at else ''}"
    remedy = (
        f"launch {launch_text} as UNION1, if it is written for a union: as BLOCK, it runs on no memory core, and its "
        "barriers order no tasks"
    )
    return [
        replace(finding, remedies=(remedy, *finding.remedies)) if finding.kind in _KINDS else finding
        for finding in findings
    ]

"""Stale results: bytes that the host copies back again, although the launches in between have written others."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.units import format_bytes
from mlusim.verifier.accesses.cells import Cells
from mlusim.verifier.accesses.coordinates import describe
from mlusim.verifier.findings import Finding
from mlusim.verifier.run import Run


def find_stale(run: Run) -> list[Finding]:
    """Return a hint for each tensor that the host copies back twice, and of which a later launch writes a part again.

    The other part holds the results of an earlier launch. Tensors that the later launches also read are updated in
    place, and launches that write bytes for the first time go on where others ended.
    """
    copies: dict[int, list[tuple[int, int, int]]] = {}
    for launches, identity, first, end in run.log.host.copied_back:
        copies.setdefault(identity, []).append((launches, first, end))
    findings = []
    for identity, copies_of_tensor in copies.items():
        if len({launches for launches, _, _ in copies_of_tensor}) > 1 and identity not in run.log.host.writes:
            hint = _stale_cells(run, identity, copies_of_tensor)
            findings += [] if hint is None else [hint]
    return findings


def _stale_cells(run: Run, identity: int, copies: list[tuple[int, int, int]]) -> Finding | None:
    accesses, allocation = run.accesses, run.log.allocations[identity]
    rows = np.flatnonzero(accesses.alloc == identity)
    if not len(rows) or identity in accesses.unknown:
        return None
    launch = run.order.launch[run.order.task_of[accesses.record[rows]]]
    cells = Cells(accesses.where(rows), allocation.nbytes)
    cell_ends = np.append(cells.cuts[1:], allocation.nbytes)[: len(cells)]
    for (earlier, *span), (later, *other_span) in pairwise(copies):
        first, end = max(span[0], other_span[0]), min(span[1], other_span[1])
        in_between = (launch >= earlier) & (launch < later)
        writes = in_between & accesses.write[rows]
        if first >= end or not writes.any() or (in_between & ~accesses.write[rows]).any():
            continue
        is_copied: Flags = (cells.cuts[: len(cells)] >= first) & (cell_ends <= end)
        written_now = (cells.count(writes) > 0) & is_copied
        written_before = (cells.count((launch < earlier) & accesses.write[rows]) > 0) & is_copied
        if (written_now & ~written_before).any() or not written_now.any() or not (written_before & ~written_now).any():
            continue
        starts, stops = cells.runs(written_before & ~written_now)
        return _finding(run, identity, int(accesses.record[rows[writes]][-1]), starts, stops)
    return None


def _finding(run: Run, identity: int, record: int, starts: Integers, stops: Integers) -> Finding:
    allocation = run.log.allocations[identity]
    nbytes = int((stops - starts).sum())
    number = run.log.tasks[int(run.order.task_of[record])].launch
    launch = run.log.launches[number]
    at = f" at {launch.launched_at}" if launch.launched_at else ""
    return Finding(
        kind="stale",
        title=f"{format_bytes(nbytes)} of {allocation.name} are copied back again, unchanged since the last time",
        region=describe(allocation, starts, stops),
        nbytes=nbytes,
        sites=(run.site(record, "nearby"),),
        rule="memory keeps what an earlier launch has written there",
        remedies=(
            f"look for a bound that is too small in the launch of {launch.kernel}{at}",
            "copy back only what it writes",
        ),
        fields={"tensor": allocation.name},
    )

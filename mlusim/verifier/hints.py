"""Hints: syncs without which the same operations would be ordered, copies that overlap themselves or outlive a task."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlusim.log import SYNC, Log
from mlusim.verifier.accesses import Accesses
from mlusim.verifier.boxes import Integers, geometry_of, overlap
from mlusim.verifier.conflicts import Space, between_tasks, within_tasks
from mlusim.verifier.findings import Finding, site_of
from mlusim.verifier.lanes import LANES
from mlusim.verifier.order import Order
from mlusim.verifier.releases import TRANSFERS, in_flight
from mlusim.verifier.remedies import LANE_SYNCS

# What a sync is for mostly shows in the first operations of a log.
_FIRST_LOOK = 2000


def find_overlapping_copies(log: Log, columns: dict[str, Integers]) -> list[Finding]:
    """Copies within an allocation that read bytes which they write elsewhere, those of one line as one.

    What no order makes right never runs (`mlusim.memory.copy.check_apart`); the others rely on ascending order.
    """
    copies = [code for code, name in enumerate(log.ops) if name in ("memcpy", "move")]
    inside = (columns["dst_alloc"] == columns["a_alloc"]) & np.isin(columns["op"], copies)
    inside &= (columns["dst_offset"] != columns["a_offset"]) | (columns["dst_box"] != columns["a_box"])
    records = np.flatnonzero(inside)
    names = ("line", "dst_offset", "dst_box", "a_offset", "a_box")
    kinds, first, counts = np.unique(
        np.stack([columns[name][records] for name in names]), axis=1, return_index=True, return_counts=True
    )
    by_line: dict[int, tuple[int, int]] = {}
    for (line, to, dst_box, origin, a_box), record, times in zip(
        kinds.T.tolist(), records[first].tolist(), counts.tolist(), strict=True
    ):
        written, read = geometry_of(log.boxes[dst_box]), geometry_of(log.boxes[a_box])
        if written is not None and read is not None and overlap(written, to, read, origin):
            known, before = by_line.get(line, (record, 0))
            by_line[line] = min(known, record), before + times
    return [
        Finding(
            kind="overlapping-copy",
            title=f"{site.operation} reads bytes of its buffer that it writes elsewhere",
            sites=(site,),
            rule="the header does not say in which order a copy moves its bytes; in ascending order this one is right",
            remedy="copy through another buffer where it must not depend on that",
            times=times,
        )
        for record, times in by_line.values()
        for site in (site_of(log, record, "copies"),)
    ]


def _unawaited(order: Order) -> Integers:
    """Records of copies that nothing in their task waits for."""
    return np.sort(order.record[np.isin(order.lane, TRANSFERS) & ~order.awaited])


def find_unawaited(log: Log, order: Order) -> list[Finding]:
    """Copies that their task never waits for, those of one line as one. ASSUMED: a task ends when they have."""
    records = _unawaited(order)
    _, first, counts = np.unique(order.line[order.place[records]], return_index=True, return_counts=True)
    found = []
    for record, times in sorted(zip(records[first].tolist(), counts.tolist(), strict=True)):
        lane = int(order.lane[order.place[record]])
        site = site_of(log, record, "copies", LANES[lane])
        sync, pipe = LANE_SYNCS[lane]
        found.append(
            Finding(
                kind="unawaited",
                title=f"a task ends while {site.operation} may still run",
                sites=(site,),
                rule="no public text says that the end of a task waits for its copies; here it does (ASSUMED)",
                remedy=f"{site.call(sync + '()')}, which waits for {pipe}, before the kernel ends",
                times=times,
            )
        )
    return found


def find_redundant(
    log: Log, columns: dict[str, Integers], accesses: Accesses, space: Space, order: Order
) -> list[Finding]:
    """Syncs that order nothing on the paths that ran, given the others. For a log without races.

    One that waits for the last copies of a task is not redundant.
    """
    if {"gather", "scatter"} & set(log.ops):
        # Their offsets are taken when they are issued, so a sync may order what no pipe shows.
        return []
    dropped: list[int] = []
    found = []
    unawaited = len(_unawaited(order))
    for lines in _groups_of_lines(columns, order):
        without = Order(log, columns, [*dropped, *lines])
        if len(_unawaited(without)) > unawaited or _needed(log, columns, accesses, space, without):
            continue
        dropped += lines
        records = np.flatnonzero((columns["pipe"] == SYNC) & np.isin(columns["line"], lines))
        sites = tuple(
            site_of(log, int(records[columns["line"][records] == line][0]), "waits", "sync") for line in lines
        )
        found.append(
            Finding(
                kind="redundant-sync",
                title=f"{sites[0].operation} orders nothing on any path that ran",
                sites=sites,
                rule="a sync is needed only between operations of different pipes, or cores, on the same bytes",
                remedy="drop it if no other path needs it; the other syncs order all that ran here",
                times=len(records),
            )
        )
    return found


def _groups_of_lines(columns: dict[str, Integers], order: Order) -> Iterator[list[int]]:
    """Source lines of syncs; those that meet in one barrier together, because one of them alone cannot go."""
    is_sync = columns["pipe"] == SYNC
    # What else has a record on its line waits by itself, and cannot do without.
    others = {int(line) for line in columns["line"][~is_sync]}
    lines = sorted({int(line) for line in columns["line"][is_sync]} - others)
    together: list[set[int]] = []
    for _, places in order.rounds:
        met = {int(line) for line in columns["line"][order.record[places]]}
        joined = [some for some in together if some & met]
        for some in joined:
            together.remove(some)
            met |= some
        together.append(met)
    for line in lines:
        group = next((some for some in together if line in some), {line})
        if line == min(group):
            yield sorted(group)


def _needed(log: Log, columns: dict[str, Integers], accesses: Accesses, space: Space, order: Order) -> bool:
    """Whether a race, or a release in flight, shows in an order without some syncs."""
    early = np.flatnonzero(
        order.place[accesses.record] - order.first[columns["task"][accesses.record]]
        < _FIRST_LOOK // max(1, len(log.tasks))
    )
    for rows in (early, slice(None)):
        some = accesses.where(rows)
        if len(in_flight(log, some, order)):
            return True
        for join in (within_tasks, between_tasks):
            if any(len(a) for a, _ in join(order, some, space)):
                return True
    return False

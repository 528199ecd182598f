"""Redundant syncs: without them the same operations would be ordered."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from mlusim.log import SYNC, Log
from mlusim.verifier.accesses import Accesses
from mlusim.verifier.boxes import Integers
from mlusim.verifier.conflicts import Space, between_tasks, within_tasks
from mlusim.verifier.findings import Finding, site_of
from mlusim.verifier.order import Order
from mlusim.verifier.releases import in_flight

# What a sync is for mostly shows in the first operations of a log.
_FIRST_LOOK = 2000


def find_redundant(
    log: Log, columns: dict[str, Integers], accesses: Accesses, space: Space, order: Order
) -> list[Finding]:
    """Syncs that order nothing on the paths that ran, given the others. For a log without races."""
    if {"gather", "scatter"} & set(log.ops):
        # Their offsets are taken when they are issued, so a sync may order what no pipe shows.
        return []
    dropped: list[int] = []
    found = []
    for lines in _groups_of_lines(columns, order):
        if _needed(log, columns, accesses, space, [*dropped, *lines]):
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


def _needed(log: Log, columns: dict[str, Integers], accesses: Accesses, space: Space, without: Collection[int]) -> bool:
    """Whether a race, or a release in flight, would show if the syncs on these lines were not there."""
    order = Order(log, columns, without)
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

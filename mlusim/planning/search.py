"""The search of all planners: they list candidates, each with its predicted time, and the fastest is taken.

A planner lists one candidate for each strategy, tile size and grid worth a thought: with all of the NRAM that there is,
and with parts of it (`rooms`), because smaller tiles overlap better and spread more evenly. Predicted times are those
of `mlusim.planning.prediction`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from mlusim.hardware import Board

Split = TypeVar("Split")

# Predictions that differ by less do not tell which split is faster: then the most tasks, and the fewest tiles, decide.
NEAR = 1.005

# Parts of the NRAM that tiles are tried in.
_PARTS = (1, 2, 3, 4, 6, 8, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(Generic[Split]):
    """One way to split a call.

    Attributes:
        strategy: the name by which a user may choose it.
        predicted_ps: its predicted time.
        tasks, tiles: how many share the work, and what there is to handle, tiles and chunks.
        split: what the planner makes a plan of.
    """

    strategy: str
    predicted_ps: int
    tasks: int
    tiles: int
    split: Split


def best(candidates: Sequence[Candidate[Split]]) -> Candidate[Split]:
    """The fastest of some candidates; of those within `NEAR` of it, most tasks, then fewest tiles."""
    limit = NEAR * min(candidate.predicted_ps for candidate in candidates)
    near = [candidate for candidate in candidates if candidate.predicted_ps <= limit]
    return min(near, key=lambda candidate: (-candidate.tasks, candidate.tiles, candidate.predicted_ps))


def best_by_strategy(candidates: Iterable[Candidate[Split]]) -> dict[str, Candidate[Split]]:
    """The best of each strategy that has a candidate, the fastest strategy first."""
    groups: dict[str, list[Candidate[Split]]] = {}
    for candidate in candidates:
        groups.setdefault(candidate.strategy, []).append(candidate)
    found = [best(group) for group in groups.values()]
    return {one.strategy: one for one in sorted(found, key=lambda candidate: candidate.predicted_ps)}


def rooms(nbytes: int) -> tuple[int, ...]:
    """Bytes of NRAM to try where there are `nbytes`, the most first."""
    return tuple(nbytes // part for part in _PARTS if nbytes >= part)


def task_counts(board: Board, most: int) -> tuple[int, ...]:
    """Numbers of tasks to try where there is work for `most`: powers of two, whole clusters, and all cores."""
    limit = min(board.cores, most)
    by_cluster = (board.clusters * each for each in range(1, board.cores_per_cluster + 1))
    return tuple(sorted({count for count in (*(1 << k for k in range(8)), *by_cluster, limit) if count <= limit}))

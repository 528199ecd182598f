"""The search of all planners: they list candidates with predicted times, and the fastest is chosen.

A planner lists one candidate per strategy, tile size and grid worth trying, both with all available NRAM and with
fractions of it (`fractions_of`), because smaller tiles overlap better and spread more evenly. Times are predicted by
`mlusim.planning.prediction`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mlusim.hardware import Board
from mlusim.units import format_us

Split = TypeVar("Split")

# Predictions within this ratio count as equal: then more tasks and fewer operations decide.
NEAR = 1.005

# Fractions (1/n) of NRAM to try for tiles.
_PARTS = (1, 2, 3, 4, 6, 8, 16)
# Tile counts to try if there are more cores than tiles.
_FEW_TILES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 19, 23, 27, 32, 38, 45, 54)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(Generic[Split]):
    """One way to split a call.

    Attributes:
        strategy: the name of its strategy.
        predicted_ps: its predicted time.
        tasks: number of tasks.
        operations: number of operations; of tiles, if all tiles take equally many.
        split: the planner's data for building the plan.
    """

    strategy: str
    predicted_ps: int
    tasks: int
    operations: int
    split: Split


def best(candidates: Sequence[Candidate[Split]]) -> Candidate[Split]:
    """Return the fastest candidate; among those within `NEAR` of it, prefer more tasks, then fewer operations."""
    limit = NEAR * min(candidate.predicted_ps for candidate in candidates)
    near_best = [candidate for candidate in candidates if candidate.predicted_ps <= limit]
    return min(near_best, key=lambda candidate: (-candidate.tasks, candidate.operations, candidate.predicted_ps))


def best_by_strategy(candidates: Iterable[Candidate[Split]]) -> dict[str, Candidate[Split]]:
    """Return the best candidate of each strategy, the fastest strategy first."""
    groups: dict[str, list[Candidate[Split]]] = {}
    for candidate in candidates:
        groups.setdefault(candidate.strategy, []).append(candidate)
    winners = [best(group) for group in groups.values()]
    return {
        candidate.strategy: candidate for candidate in sorted(winners, key=lambda candidate: candidate.predicted_ps)
    }


def predicted_text(fastest: Mapping[str, Candidate[Any]]) -> str:
    """Format the predicted times of the strategies, for the reason of a plan."""
    time_texts = (f"{name} {format_us(candidate.predicted_ps)}" for name, candidate in fastest.items())
    return f"predicted: {', '.join(time_texts)}"


def strategies_to_try(strategies: Mapping[str, str], strategy: str) -> tuple[str, ...]:
    """Return the names of the strategies to compare: for "auto", all others of the table; else the requested one."""
    return tuple(name for name in strategies if name != "auto") if strategy == "auto" else (strategy,)


def fractions_of(amount: int) -> tuple[int, ...]:
    """Return the parts to try of an amount of NRAM, or of what fits in it, in descending order."""
    return tuple(amount // part for part in _PARTS if amount >= part)


def tile_counts_below(cores: int) -> tuple[int, ...]:
    """Return tile counts to try that leave cores idle.

    Clusters start one after another, so a small tensor may finish sooner on few cores.
    """
    return tuple(count for count in _FEW_TILES if count < cores)


def task_counts(board: Board, parts: int) -> tuple[int, ...]:
    """Return task counts to try for at most `parts` pieces of work: powers of two, whole clusters, and all cores."""
    limit = min(board.cores, parts)
    by_cluster = (board.clusters * cores for cores in range(1, board.cores_per_cluster + 1))
    return tuple(sorted({count for count in (*(1 << k for k in range(8)), *by_cluster, limit) if count <= limit}))

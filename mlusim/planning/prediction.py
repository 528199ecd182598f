"""Predicted time of a split. Planners choose by it.

A launch is a closed queueing network: equal tasks proceed from tile to tile, and queue for the port of their cluster
and for the DRAM. All tasks start with an equal tile, so all first loads contend. After that, uneven arbitration
(`Board.dram_share_spread`) takes them out of step, and a task waits for the average number of tasks that it meets. Mean
value analysis gives that number for a station; this module uses Schweitzer's approximation [1] for the station with
the longest wait. Effects of individual runs, such as which transfers happen to meet, and of data are not predicted.

[1] P. Schweitzer, "Approximate analysis of multiclass closed networks of queues", 1979: with n tasks, a station of
    service time s, and a time z between two visits, a visit takes r = s (1 + (n - 1) r / (r + z)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from mlusim.hardware import Board
from mlusim.planning.cost import Cost
from mlusim.units import ceil_div

# Instructions per tile, besides its copies, that the core issues sequentially: a sync, and two for the loop.
_OTHER_INSTRUCTIONS = 3


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The tiles and tasks of a launch.

    Attributes:
        board: the board.
        tiles, tasks: their numbers; tiles are assigned to the tasks in turn.
        union: tasks fill one cluster after another (UNION1), instead of all clusters in turn (BLOCK).
    """

    board: Board
    tiles: int
    tasks: int
    union: bool = False

    @classmethod
    def of_unions(cls, board: Board, parts: int) -> Grid:
        """Return the grid of a UNION1 launch over `parts` parts: a task for each, but at most one for each core."""
        return cls(board=board, tiles=parts, tasks=min(board.cores, parts), union=True)

    @cached_property
    def most_tiles(self) -> int:
        """Tiles of the task with the most."""
        return ceil_div(self.tiles, self.tasks)

    @cached_property
    def tasks_on_port(self) -> int:
        """Tasks per cluster, which share its ports."""
        if self.union:
            return min(self.tasks, self.board.cores_per_cluster)
        return ceil_div(self.tasks, self.board.clusters)

    @cached_property
    def tasks_on_dram(self) -> float:
        """Tasks that share the DRAM, on average: in the last round some may have no tile left."""
        return self.tiles / self.most_tiles

    def at_once_ps(self, cost: Cost) -> float:
        """Return the time of operations that all tasks of a cluster execute at the same time, limited by its ports."""
        return cost.own_ps + max(
            cost.transfer_ps, self.tasks_on_port * cost.read_ps, self.tasks_on_port * cost.write_ps
        )

    def in_step_ps(self, cost: Cost) -> float:
        """Return the time of operations that all tasks execute at the same time, such as those of their first tiles."""
        return max(self.at_once_ps(cost), cost.own_ps + self.tasks * cost.dram_ps)

    def out_of_step_ps(self, cycle_ps: float, cost: Cost) -> float:
        """Return the time per tile for tasks that meet at random, where a task alone takes `cycle_ps`."""
        return cycle_ps + max(
            _waiting_ps(self.tasks_on_port, max(cost.read_ps, cost.write_ps), cycle_ps),
            _waiting_ps(self.tasks_on_dram, cost.dram_ps / self.board.dram_mixed_efficiency, cycle_ps),
        )

    def streamed_ps(self, cost: Cost) -> float:
        """Return the time that the DRAM takes for the copies of all tiles.

        The first loads and the last stores have it to themselves; in between, reads and writes mix.
        """
        mixed_share = (self.most_tiles - 1) / self.most_tiles
        return self.tiles * cost.dram_ps * ((1 - mixed_share) + mixed_share / self.board.dram_mixed_efficiency)

    def launch_ps(self, first_ps: float, next_ps: float, dram_ps: float = 0.0) -> int:
        """Return the time of the launch.

        Args:
            first_ps, next_ps: time of a task's first tile, and of each later one.
            dram_ps: lower bound set by the DRAM.
        """
        board = self.board
        quotient, remainder = divmod(self.tiles, self.tasks)
        # Tasks with one tile more come first; the others start later and may still end later.
        ends = [
            self.last_start_ps(last) + first_ps + (count - 1) * next_ps
            for last, count in ((remainder, quotient + 1), (self.tasks, quotient))
            if last and count
        ]
        return board.kernel_start_ps + round(max(*ends, dram_ps)) + board.kernel_end_ps

    def last_start_ps(self, tasks: int) -> int:
        """Return when the last of the first `tasks` tasks starts, relative to the first."""
        board = self.board
        clusters = ceil_div(tasks, board.cores_per_cluster) if self.union else min(tasks, board.clusters)
        return tasks * board.core_start_skew_ps + (clusters - 1) * board.cluster_start_ps


@dataclass(frozen=True, slots=True, kw_only=True)
class TileCost:
    """The cost of one tile.

    Attributes:
        load, store: the copies of each stage.
        compute_ps: time on the vector pipe.
        move_ps: time on the Move pipe, which before the 3xx series is in order with the IO pipe.
        scalar_ps: time of exposed scalar work of a tile that has any.
        scalar_tiles: number of a task's tiles that have scalar work, the first among them; None: all.
    """

    load: Cost
    store: Cost
    compute_ps: int = 0
    move_ps: int = 0
    scalar_ps: int = 0
    scalar_tiles: int | None = None

    @property
    def on_chip_ps(self) -> int:
        """Time between load and store without scalar work."""
        return self.compute_ps + self.move_ps

    @property
    def between_copies_ps(self) -> int:
        """Time between load and store of a tile with scalar work."""
        return self.on_chip_ps + self.scalar_ps

    def scalar_share(self, tiles: int, skipped_tiles: int = 0) -> float:
        """Return the share of a task's tiles, without the first ones, that have scalar work."""
        if self.scalar_tiles is None or tiles <= skipped_tiles:
            return 1.0
        return max(self.scalar_tiles - skipped_tiles, 0) / (tiles - skipped_tiles)

    def next_ps(self, copying_ps: float, others_ps: float, tiles: int) -> float:
        """Return the mean time of a task's tiles after the first: of their copies, or of other work if that is longer.

        Args:
            copying_ps: time of the copies of a tile.
            others_ps: time of the other work of a tile, without its scalar work.
            tiles: number of the task's tiles.
        """
        share = self.scalar_share(tiles, skipped_tiles=1)
        return share * max(copying_ps, others_ps + self.scalar_ps) + (1 - share) * max(copying_ps, others_ps)


def predict_ps(grid: Grid, tile: TileCost, *, overlapped: bool, queued: bool = False) -> int:
    """Predict the time of a launch whose tiles are loaded, computed and stored.

    Args:
        grid: tiles and tasks.
        tile: cost of one tile.
        overlapped: successive tiles of a task are in different stages at the same time.
        queued: the copies of all tiles are issued back to back, without syncs.
    """
    if overlapped and grid.most_tiles > 1:
        return _predict_overlapped_ps(grid, tile)
    if queued:
        return _predict_queued_ps(grid, tile)
    between_copies_ps = tile.on_chip_ps + tile.scalar_share(grid.most_tiles) * tile.scalar_ps
    return predict_serial_ps(grid, (tile.load, Cost(between_copies_ps), tile.store))


def _predict_overlapped_ps(grid: Grid, tile: TileCost) -> int:
    """`predict_ps` for successive tiles in different stages; each task has two or more."""
    board, load, store, between_copies_ps = grid.board, tile.load, tile.store, tile.between_copies_ps
    copies, issue_ps = load + store, _issue_ps(board)
    load_ps, store_ps = grid.at_once_ps(load), grid.at_once_ps(store)
    # A load is issued right after a store, so its start-up overlaps the store.
    hidden_ps = min(store.alone_ps, load.own_ps)
    in_order_ps = 0 if board.has_independent_move else tile.move_ps
    copying_ps = grid.out_of_step_ps(copies.alone_ps + issue_ps - hidden_ps + in_order_ps, copies)
    next_ps = tile.next_ps(copying_ps, tile.on_chip_ps, grid.most_tiles)
    dram_ps = grid.streamed_ps(copies) + copies.own_ps + between_copies_ps
    if tile.on_chip_ps:
        # The first tile is computed while the second is loaded, and the last while the one before it is stored.
        second_ps = tile.on_chip_ps if tile.scalar_tiles == 1 else between_copies_ps
        two_ps = load_ps + max(load_ps, between_copies_ps) + max(store_ps, second_ps) + store_ps + 2 * issue_ps
        first_ps = two_ps - next_ps
    else:
        # The IO pipe executes the copies of a tile one after another, and all tasks those of the first in step.
        first_ps = load_ps + between_copies_ps + store_ps + issue_ps
        in_step_ps = grid.in_step_ps(load) + between_copies_ps + grid.in_step_ps(store) + issue_ps
        dram_ps = max(dram_ps, in_step_ps + (grid.most_tiles - 1) * next_ps)
    return grid.launch_ps(first_ps, next_ps, dram_ps)


def _predict_queued_ps(grid: Grid, tile: TileCost) -> int:
    """`predict_ps` for back-to-back copies in the one IO pipe: every start-up but the first overlaps a copy."""
    load, store, between_copies_ps = tile.load, tile.store, tile.between_copies_ps
    copies, issue_ps = load + store, _issue_ps(grid.board)
    first_ps = grid.at_once_ps(load) + between_copies_ps + grid.at_once_ps(store) + issue_ps - store.own_ps
    copying_ps = grid.out_of_step_ps(copies.transfer_ps, copies)
    next_ps = tile.next_ps(copying_ps, issue_ps, grid.most_tiles)
    # Every load of the first tiles ends at about the same time, and the stores contend again.
    in_step_ps = grid.in_step_ps(load) + between_copies_ps + grid.in_step_ps(store) + issue_ps - store.own_ps
    in_step_ps += (grid.most_tiles - 1) * next_ps
    return grid.launch_ps(
        first_ps, next_ps, max(in_step_ps, grid.streamed_ps(copies) + load.own_ps + between_copies_ps)
    )


def _issue_ps(board: Board) -> int:
    """Return the time in which a core issues the other instructions of a tile."""
    return _OTHER_INSTRUCTIONS * board.cycles_ps(board.issue_cycles)


def predict_serial_ps(
    grid: Grid,
    stages: Sequence[Cost],
    *,
    preparation: Sequence[Cost] = (),
    rounds: Sequence[Cost] = (),
    rounds_per_tile: int = 0,
) -> int:
    """Predict the time of a launch whose tasks execute the stages of each tile one after another.

    Args:
        grid: tiles and tasks.
        stages: stages executed once per tile.
        preparation: stages executed once, before the first tile.
        rounds, rounds_per_tile: stages executed several times per tile, and how often.
    """
    issue_ps = _issue_ps(grid.board)
    # All tasks begin at the same time, so each stage of the first tile, with its first round, is executed in step.
    at_first = (*preparation, *stages, *rounds)
    in_step_ps = sum(map(grid.in_step_ps, at_first)) + issue_ps
    first_ps = sum(map(grid.at_once_ps, at_first)) + issue_ps
    if grid.board.dram_share_spread > 0:
        round_cost = sum(rounds, Cost())
        tile_cost = sum((*stages, *(stage * rounds_per_tile for stage in rounds)), Cost())
        round_ps = grid.out_of_step_ps(round_cost.alone_ps, round_cost)
        tile_ps = grid.out_of_step_ps(tile_cost.alone_ps + issue_ps, tile_cost)
    else:
        # With even arbitration, equal tasks stay in step.
        round_ps = sum(map(grid.in_step_ps, rounds))
        tile_ps = sum(map(grid.in_step_ps, stages)) + issue_ps + rounds_per_tile * round_ps
    more_rounds_ps = max(rounds_per_tile - 1, 0) * round_ps
    more_tiles_ps = (grid.most_tiles - 1) * tile_ps
    return grid.launch_ps(first_ps + more_rounds_ps, tile_ps, in_step_ps + more_rounds_ps + more_tiles_ps)


def _waiting_ps(tasks: float, served_ps: float, cycle_ps: float) -> float:
    """Return the wait at a station that serves a task `served_ps` per cycle, shared by `tasks` tasks [1]."""
    elsewhere_ps = max(cycle_ps - served_ps, 0.0)
    surplus_ps = tasks * served_ps - elsewhere_ps
    visit_ps = (surplus_ps + math.sqrt(surplus_ps * surplus_ps + 4 * served_ps * elsewhere_ps)) / 2
    return max(visit_ps - served_ps, 0.0)

"""Predicted time of a split. Planners choose by it.

A launch is a closed queueing network: equal tasks walk from tile to tile, and queue for the port of their cluster and
for the DRAM. All of them start with the same tile, so the first load meets the first loads of all others. After that
uneven arbitration (`Board.dram_share_spread`) takes them out of step, and a task waits for as many others as it meets
on average. Mean value analysis gives that number for a station; here it is Schweitzer's approximation of it [1], for
the station that lets tasks wait longest. Which transfers meet in one run is not predicted, nor what depends on data.

[1] P. Schweitzer, "Approximate analysis of multiclass closed networks of queues", 1979: with n tasks, a station that
    serves one of them for s, and z elsewhere between two visits, a visit takes r = s (1 + (n - 1) r / (r + z)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from mlusim.hardware import Board
from mlusim.planning.cost import Cost
from mlusim.units import ceil_div

# Instructions of a tile beside its copies that the core issues one after the other: a sync, and its loop.
_OTHER_INSTRUCTIONS = 3


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The tiles and tasks of a launch.

    Attributes:
        board: the board's record.
        tiles, tasks: how many; the tasks share the tiles in turn.
        union: tasks fill one cluster after the other (UNION1) instead of all in turn (BLOCK).
    """

    board: Board
    tiles: int
    tasks: int
    union: bool = False

    @cached_property
    def each(self) -> int:
        """Tiles of the task that has the most."""
        return ceil_div(self.tiles, self.tasks)

    @cached_property
    def on_port(self) -> int:
        """Tasks on a cluster, which share its ports."""
        if self.union:
            return min(self.tasks, self.board.cores_per_cluster)
        return ceil_div(self.tasks, self.board.clusters)

    @cached_property
    def on_dram(self) -> float:
        """Tasks that share the DRAM, on average: in the last round some may have no tile left."""
        return self.tiles / self.each

    def at_once_ps(self, cost: Cost) -> float:
        """Time of operations that all tasks of a cluster do at the same time, by their ports."""
        return cost.own_ps + max(cost.transfer_ps, self.on_port * cost.read_ps, self.on_port * cost.write_ps)

    def in_step_ps(self, cost: Cost) -> float:
        """Time of operations that all tasks do at the same time."""
        return max(self.at_once_ps(cost), cost.own_ps + self.on_dram * cost.dram_ps)

    def out_of_step_ps(self, cycle_ps: float, cost: Cost) -> float:
        """Time from tile to tile of tasks that meet at random, where one alone takes `cycle_ps`."""
        return cycle_ps + max(
            _waiting_ps(self.on_port, max(cost.read_ps, cost.write_ps), cycle_ps),
            _waiting_ps(self.on_dram, cost.dram_ps / self.board.dram_mixed_efficiency, cycle_ps),
        )

    def launch_ps(self, first_ps: float, next_ps: float, dram_ps: float = 0.0) -> int:
        """Time of the launch.

        Args:
            first_ps, next_ps: what a task takes for its first tile, and for each of the others.
            dram_ps: what the DRAM needs, at least.
        """
        board = self.board
        each, more = divmod(self.tiles, self.tasks)
        # Tasks with a tile more than others come first; the others start later and may end later all the same.
        ends = [
            self.late_ps(last) + first_ps + (count - 1) * next_ps
            for last, count in ((more, each + 1), (self.tasks, each))
            if last and count
        ]
        return board.kernel_start_ps + round(max(*ends, dram_ps)) + board.kernel_end_ps

    def late_ps(self, tasks: int) -> int:
        """When the last of the first `tasks` tasks starts, after the first one does."""
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
        scalar_ps: time of scalar work that nothing hides.
    """

    load: Cost
    store: Cost
    compute_ps: int = 0
    move_ps: int = 0
    scalar_ps: int = 0

    @property
    def within_ps(self) -> int:
        """Time between load and store."""
        return self.compute_ps + self.move_ps + self.scalar_ps


def predict_ps(grid: Grid, tile: TileCost, *, overlapped: bool, queued: bool = False) -> int:
    """Time of a launch whose tiles are loaded, computed and stored.

    Args:
        grid: tiles and tasks.
        tile: what one tile costs.
        overlapped: successive tiles are in different stages at once.
        queued: the copies of all tiles are issued one behind the other, without a sync between them.
    """
    board, load, store, within_ps = grid.board, tile.load, tile.store, tile.within_ps
    if not overlapped and not queued:
        return predict_serial_ps(grid, (load, Cost(within_ps), store))
    copied, issue_ps = load + store, _OTHER_INSTRUCTIONS * board.cycles_ps(board.issue_cycles)
    load_ps, store_ps = grid.at_once_ps(load), grid.at_once_ps(store)
    first_ps = load_ps + within_ps + store_ps + issue_ps
    # The first loads and the last stores have the DRAM to themselves; in between it reads and writes.
    mixed = (grid.each - 1) / grid.each
    streamed_ps = grid.tiles * copied.dram_ps * ((1 - mixed) + mixed / board.dram_mixed_efficiency)
    if overlapped:
        # A load is issued right behind a store: its start-up passes while the store starts up and moves its bytes.
        hidden_ps = min(store.alone_ps, load.own_ps)
        in_order_ps = 0 if board.has_independent_move else tile.move_ps
        copying_ps = grid.out_of_step_ps(copied.alone_ps + issue_ps - hidden_ps + in_order_ps, copied)
        next_ps = max(copying_ps, within_ps)
        if grid.each > 1 and (tile.compute_ps or tile.move_ps):
            # The first tile is computed while the second is loaded, and the last while the one before it is stored.
            two_ps = load_ps + max(load_ps, within_ps) + max(store_ps, within_ps) + store_ps + 2 * issue_ps
            first_ps = two_ps - next_ps
        return grid.launch_ps(first_ps, next_ps, streamed_ps + copied.own_ps + within_ps)
    # Copies behind each other in the one IO pipe: every start-up but the first passes while the copy before moves.
    copying_ps = grid.out_of_step_ps(copied.transfer_ps, copied)
    return grid.launch_ps(
        first_ps - store.own_ps, max(copying_ps, issue_ps + tile.scalar_ps), streamed_ps + load.own_ps + within_ps
    )


def predict_serial_ps(
    grid: Grid, stages: Sequence[Cost], *, before: Sequence[Cost] = (), rounds: Sequence[Cost] = (), times: int = 0
) -> int:
    """Time of a launch whose tasks do the stages of a tile one after the other, tile by tile.

    Args:
        grid: tiles and tasks.
        stages: what a task does once for each tile.
        before: what it does once, before its first tile.
        rounds, times: what it does that many times for each tile.
    """
    board = grid.board
    issue_ps = _OTHER_INSTRUCTIONS * board.cycles_ps(board.issue_cycles)
    at_first = (*before, *stages, *rounds)
    in_step_ps = sum(map(grid.in_step_ps, at_first)) + issue_ps
    first_ps = sum(map(grid.at_once_ps, at_first)) + issue_ps
    # Nothing takes equal tasks out of step where arbitration is even.
    drifts = board.dram_share_spread > 0
    a_round, a_tile = sum(rounds, Cost()), sum((*stages, *(one * times for one in rounds)), Cost())
    more_ps = 0.0
    if times > 1:
        again_ps = grid.out_of_step_ps(a_round.alone_ps, a_round) if drifts else sum(map(grid.in_step_ps, rounds))
        more_ps = (times - 1) * again_ps
    next_ps = 0.0
    if grid.each > 1 and drifts:
        next_ps = grid.out_of_step_ps(a_tile.alone_ps + issue_ps, a_tile)
    elif grid.each > 1:
        next_ps = sum(map(grid.in_step_ps, stages)) + issue_ps + times * sum(map(grid.in_step_ps, rounds))
    return grid.launch_ps(first_ps + more_ps, next_ps, in_step_ps + more_ps + (grid.each - 1) * next_ps)


def _waiting_ps(tasks: float, served_ps: float, cycle_ps: float) -> float:
    """How long a task waits for a station that serves it for a part of its cycle, for `tasks` tasks in all [1]."""
    elsewhere_ps = max(cycle_ps - served_ps, 0.0)
    surplus_ps = tasks * served_ps - elsewhere_ps
    visit_ps = (surplus_ps + math.sqrt(surplus_ps * surplus_ps + 4 * served_ps * elsewhere_ps)) / 2
    return max(visit_ps - served_ps, 0.0)

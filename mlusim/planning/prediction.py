"""Predicted time of a split, by the board's own cost functions. Planners choose by it.

A tile is loaded, computed and stored. The busiest task cannot be faster than its chain of these at the speed of its
ports, and all tasks together not faster than the DRAM. Not predicted: how the transfers of different cores meet. Tasks
that overlap their stages are taken to read and write at the same time but for the first loads and the last stores;
others to lie half way between cores in lockstep, which never do, and cores that always do.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlusim.hardware import Board
from mlusim.memory.bus import Loops, read_bus_bytes, write_bus_bytes
from mlusim.memory.copy import CopyShape
from mlusim.memory.kinds import Direction
from mlusim.memory.timing import CopyCost, copy_cost
from mlusim.units import PS_PER_S, ceil_div

# Of the time that cores in lockstep lose, what cores that leave the step win back in simulations, on the mean.
_OUT_OF_STEP = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TileCost:
    """The cost of one tile.

    Attributes:
        load, store: one copy of each stage.
        loads, stores: copies of each stage, on average.
        compute_ps: time on the vector pipe.
        move_ps: time on the Move pipe, which before the 3xx series is in order with the IO pipe.
        scalar_ps: time of scalar work that nothing hides.
        busiest, mean: elements of a tile of the busiest task, and of any task, on average, over those of this one.
    """

    load: CopyCost
    store: CopyCost
    loads: float = 1
    stores: float = 1
    compute_ps: int = 0
    move_ps: int = 0
    scalar_ps: int = 0
    busiest: float = 1.0
    mean: float = 1.0


def load_cost(board: Board, segment_bytes: int, loops: Loops = ()) -> CopyCost:
    """Cost of a copy from GDRAM to NRAM: segments and the loops over them in GDRAM, (count, stride in bytes)."""
    bus = read_bus_bytes(0, segment_bytes, loops, board.dram_unit_bytes)
    return _cost(board, Direction.GDRAM2NRAM, segment_bytes, loops, bus, 0)


def store_cost(board: Board, segment_bytes: int, loops: Loops = ()) -> CopyCost:
    """Cost of a copy from NRAM to GDRAM; arguments as `load_cost`."""
    bus_read, bus_write = write_bus_bytes(0, segment_bytes, loops, board.dram_unit_bytes)
    return _cost(board, Direction.NRAM2GDRAM, segment_bytes, loops, bus_read, bus_write)


def vector_ps(board: Board, nbytes: int, passes: int = 1) -> int:
    """Time of `passes` vector instructions, each on operands of up to `nbytes`."""
    cycles = board.vector_startup_cycles + max(1, ceil_div(nbytes, board.vector_bytes_per_cycle))
    return board.cycles_ps(passes * cycles)


def move_ps(board: Board, nbytes: int, moves: int = 1) -> int:
    """Time of `moves` copies inside a core that move `nbytes` in all."""
    cycles = moves * board.move_startup_cycles + ceil_div(nbytes, board.move_bytes_per_cycle)
    return board.cycles_ps(cycles)


def predict_ps(
    board: Board,
    tile: TileCost,
    *,
    tiles: int,
    tasks: int,
    overlapped: bool,
    queued: bool = False,
    union: bool = False,
) -> int:
    """Time of a launch of `tasks` tasks that share `tiles` equal tiles in turn.

    Args:
        board: the board's record.
        tile: what one tile costs.
        tiles, tasks: how many.
        overlapped: successive tiles are in different stages at once.
        queued: the copies of all tiles are issued one behind the other, without a sync between them.
        union: tasks fill one cluster after the other (UNION1) instead of all in turn (BLOCK).
    """
    each = ceil_div(tiles, tasks)
    rate = board.dram_bandwidth_bytes_per_s / PS_PER_S
    issue_ps = (tile.loads + tile.stores + 3) * board.cycles_ps(board.issue_cycles)
    together = min(tasks, board.cores_per_cluster) if union else ceil_div(tasks, board.clusters)
    load_ps = tile.loads * _port_ps(tile.load, board.cluster_read_bandwidth_bytes_per_s, together)
    store_ps = tile.stores * _port_ps(tile.store, board.cluster_write_bandwidth_bytes_per_s, together)
    alone_ps = tile.loads * _port_ps(tile.load, board.cluster_read_bandwidth_bytes_per_s, 1)
    alone_ps += tile.stores * _port_ps(tile.store, board.cluster_write_bandwidth_bytes_per_s, 1)
    load_ps, store_ps, alone_ps = (time_ps * tile.busiest for time_ps in (load_ps, store_ps, alone_ps))
    load_work, store_work = (tile.mean * work for work in (tile.loads * tile.load.work, tile.stores * tile.store.work))
    latency_ps = tile.load.latency_ps + tile.store.latency_ps
    own_ps = tile.compute_ps + tile.move_ps + tile.scalar_ps
    once_ps = latency_ps + load_ps + own_ps + store_ps + issue_ps
    # The first loads and the last stores have the DRAM to themselves; in between it reads and writes.
    mixed = (each - 1) / each
    slowdown = (1 - mixed) + mixed / board.dram_mixed_efficiency
    streamed_ps = tiles * (load_work + store_work) / rate * slowdown
    # Of cores that share a port some load while others store, once unfair shares take them out of step.
    out_of_step = _OUT_OF_STEP if board.dram_share_spread else 0.0
    won_back_ps = out_of_step * (load_ps + store_ps - max(load_ps, store_ps, alone_ps))
    if overlapped:
        # A load is issued right behind a store: its start-up passes while the store starts up and moves its bytes.
        hidden_ps = min(tile.store.latency_ps + store_ps, tile.load.latency_ps)
        in_order_ps = 0 if board.has_independent_move else tile.move_ps
        next_ps = max(once_ps - own_ps - hidden_ps + in_order_ps - won_back_ps, own_ps)
        dram_ps = streamed_ps + latency_ps + own_ps
    elif queued:
        # Copies behind each other in the one IO pipe: every start-up but the first passes while the copy before moves.
        once_ps -= tile.store.latency_ps
        next_ps = max(load_ps + store_ps - won_back_ps, issue_ps + tile.scalar_ps)
        dram_ps = streamed_ps + tile.load.latency_ps + own_ps
    else:
        next_ps = once_ps
        # Equal tiles keep in step: all load, all compute, all store, and meanwhile the DRAM does one thing or nothing.
        load_ps = max(load_ps, load_work * tiles / (each * rate))
        store_ps = max(store_ps, store_work * tiles / (each * rate))
        dram_ps = each * (latency_ps + load_ps + own_ps + store_ps)
        # After the first tile the cores are out of step here, too.
        overlapped_ps = max(streamed_ps + latency_ps + own_ps, each * once_ps)
        dram_ps -= (each > 1) * out_of_step * max(dram_ps - overlapped_ps, 0)
    return launch_ps(board, (once_ps, next_ps), dram_ps, tiles=tiles, tasks=tasks, union=union)


def launch_ps(
    board: Board, chain_ps: tuple[float, float], dram_ps: float, *, tiles: int, tasks: int, union: bool
) -> int:
    """Time of a launch of `tasks` tasks that share `tiles` equal tiles in turn.

    Args:
        board: the board's record.
        chain_ps: what a task takes for its first tile, and for each of the others.
        dram_ps: what the DRAM takes for all tasks.
        tiles, tasks, union: as `predict_ps`.
    """
    once_ps, next_ps = chain_ps
    each, more = divmod(tiles, tasks)
    # Tasks with a tile more than others come first; the others may end later all the same, because they start later.
    ends = [
        late_ps(board, last, union=union) + once_ps + (count - 1) * next_ps
        for last, count in ((more, each + 1), (tasks, each))
        if last and count
    ]
    return board.kernel_start_ps + round(max(*ends, dram_ps)) + board.kernel_end_ps


def late_ps(board: Board, tasks: int, *, union: bool) -> int:
    """When the last of the first `tasks` tasks starts, after the first one does."""
    clusters = ceil_div(tasks, board.cores_per_cluster) if union else min(tasks, board.clusters)
    return tasks * board.core_start_skew_ps + (clusters - 1) * board.cluster_start_ps


def _cost(
    board: Board, direction: Direction, segment_bytes: int, loops: Loops, bus_read: int, bus_write: int
) -> CopyCost:
    segments = 1
    gaps = False
    reach = segment_bytes
    for count, stride in reversed(loops):
        segments *= count
        gaps |= count > 1 and stride != reach
        reach *= count
    shape = CopyShape(
        direction, segments * segment_bytes, segment_bytes, segments, loops, loops, bus_read, bus_write, gaps
    )
    return copy_cost(board, shape, memory_core=False)


def _port_ps(cost: CopyCost, cluster_bandwidth: int, together: int) -> float:
    """Time of a transfer at the speed of its core's port, or of its share of the cluster's, of `together` tasks."""
    return cost.work / min(cost.limit, cost.ratio * cluster_bandwidth / PS_PER_S / together)

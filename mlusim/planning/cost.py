"""Costs of operations by the board's cost functions: the terms of every prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mlusim.hardware import Board
from mlusim.memory.bus import Loops, read_bus_bytes, write_bus_bytes
from mlusim.memory.copy_cost import CopyCost, copy_cost, move_cycles
from mlusim.memory.copy_shape import CopyShape, has_gaps
from mlusim.memory.flow import READ, WRITE
from mlusim.memory.kinds import Direction
from mlusim.units import PS_PER_S, ceil_div


@dataclass(frozen=True, slots=True)
class Cost:
    """The time that operations take in a task, and their use of shared resources, in picoseconds.

    Attributes:
        own_ps: start-ups of copies, and work within the core; independent of other tasks.
        transfer_ps: transfer time on an otherwise idle board.
        read_ps, write_ps: time on the ports of the cluster, which its cores share.
        dram_ps: time on the DRAM, which all cores share.
    """

    own_ps: float = 0.0
    transfer_ps: float = 0.0
    read_ps: float = 0.0
    write_ps: float = 0.0
    dram_ps: float = 0.0

    @property
    def alone_ps(self) -> float:
        """Total time on an otherwise idle board."""
        return self.own_ps + self.transfer_ps

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.own_ps + other.own_ps,
            self.transfer_ps + other.transfer_ps,
            self.read_ps + other.read_ps,
            self.write_ps + other.write_ps,
            self.dram_ps + other.dram_ps,
        )

    def __mul__(self, count: float) -> Cost:
        return Cost(
            self.own_ps * count,
            self.transfer_ps * count,
            self.read_ps * count,
            self.write_ps * count,
            self.dram_ps * count,
        )

    def overlapped_with(self, own_ps: float) -> Cost:
        """Return the cost with the transfers overlapped by `own_ps` of work in the core: the longer one counts."""
        return replace(self, transfer_ps=max(self.transfer_ps, own_ps - self.own_ps))

    def with_dram_of(self, other: Cost) -> Cost:
        """Return the cost with the DRAM time of `other`, for tasks whose load differs from the average."""
        return replace(self, dram_ps=other.dram_ps)


def load_cost(
    board: Board, segment_bytes: int, loops: Loops = (), *, copies: float = 1, hides_start_up: bool = False
) -> Cost:
    """Return the cost of equal back-to-back copies from GDRAM to NRAM: only the first start-up is exposed.

    Args:
        segment_bytes: bytes of each contiguous segment.
        loops: loops over the segments in GDRAM, (count, stride in bytes), outermost first.
        copies: number of copies, on average.
        hides_start_up: the copies are issued after other copies, so that every start-up is hidden.
    """
    bus = read_bus_bytes(0, segment_bytes, loops, board.dram_unit_bytes)
    shape = _shape(Direction.GDRAM2NRAM, segment_bytes, loops, bus, 0)
    return transfer_cost(board, copy_cost(board, shape, memory_core=False), copies, hides_start_up=hides_start_up)


def store_cost(board: Board, segment_bytes: int, loops: Loops = ()) -> Cost:
    """Return the cost of a copy from NRAM to GDRAM; arguments as in `load_cost`."""
    bus_read, bus_write = write_bus_bytes(0, segment_bytes, loops, board.dram_unit_bytes)
    shape = _shape(Direction.NRAM2GDRAM, segment_bytes, loops, bus_read, bus_write)
    return transfer_cost(board, copy_cost(board, shape, memory_core=False))


def transfer_cost(board: Board, cost: CopyCost, copies: float = 1, *, hides_start_up: bool = False) -> Cost:
    """Return the cost of copies with a known `CopyCost`; `copies` and `hides_start_up` as in `load_cost`."""
    issue_ps = copies * board.cycles_ps(board.issue_cycles)
    if not cost.work:
        return Cost(issue_ps + copies * cost.alone_ps)
    port_bytes = copies * cost.work / cost.work_per_byte
    return Cost(
        issue_ps + (0 if hides_start_up else cost.latency_ps),
        copies * cost.work / cost.limit,
        port_bytes * PS_PER_S / board.cluster_read_bandwidth_bytes_per_s if cost.traffic & READ else 0.0,
        port_bytes * PS_PER_S / board.cluster_write_bandwidth_bytes_per_s if cost.traffic & WRITE else 0.0,
        copies * cost.work * PS_PER_S / board.dram_bandwidth_bytes_per_s,
    )


def vector_ps(board: Board, nbytes: int, passes: int = 1) -> int:
    """Return the time of `passes` vector instructions, each on operands of up to `nbytes`."""
    cycles = board.vector_startup_cycles + max(1, ceil_div(nbytes, board.vector_bytes_per_cycle))
    return board.cycles_ps(passes * cycles)


def move_ps(board: Board, segment_bytes: int, segments: int = 1, *, moves: int = 1) -> int:
    """Return the time of `moves` copies inside a core that move `segments` in total."""
    cycles = move_cycles(board, segment_bytes, segments) + (moves - 1) * board.move_startup_cycles
    return board.cycles_ps(cycles)


def _shape(direction: Direction, segment_bytes: int, loops: Loops, bus_read: int, bus_write: int) -> CopyShape:
    segments = math.prod(count for count, _ in loops)
    strided = has_gaps(segment_bytes, loops)
    return CopyShape(
        direction, segments * segment_bytes, segment_bytes, segments, loops, loops, bus_read, bus_write, strided
    )

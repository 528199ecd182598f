"""What operations cost by the board's own cost functions: the terms that every prediction is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlusim.hardware import Board
from mlusim.memory.bus import Loops, read_bus_bytes, write_bus_bytes
from mlusim.memory.copy import CopyShape
from mlusim.memory.kinds import Direction
from mlusim.memory.link import READ, WRITE
from mlusim.memory.timing import CopyCost, copy_cost
from mlusim.units import PS_PER_S, ceil_div


@dataclass(frozen=True, slots=True)
class Cost:
    """Time that operations take of a task, and of what tasks share, in picoseconds.

    Attributes:
        own_ps: start-ups of copies, and work within the core. What other tasks do does not change it.
        transfer_ps: transfers, with nobody else on the board.
        read_ps, write_ps: of the ports of the cluster, which its cores share.
        dram_ps: of the DRAM, which all cores share.
    """

    own_ps: float = 0.0
    transfer_ps: float = 0.0
    read_ps: float = 0.0
    write_ps: float = 0.0
    dram_ps: float = 0.0

    @property
    def alone_ps(self) -> float:
        """All of it with nobody else on the board."""
        return self.own_ps + self.transfer_ps

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.own_ps + other.own_ps,
            self.transfer_ps + other.transfer_ps,
            self.read_ps + other.read_ps,
            self.write_ps + other.write_ps,
            self.dram_ps + other.dram_ps,
        )

    def __mul__(self, times: float) -> Cost:
        return Cost(
            self.own_ps * times,
            self.transfer_ps * times,
            self.read_ps * times,
            self.write_ps * times,
            self.dram_ps * times,
        )

    def beside(self, own_ps: float) -> Cost:
        """The same operations while the core works for `own_ps`: whatever takes longer."""
        return replace(self, transfer_ps=max(self.transfer_ps, own_ps - self.own_ps))

    def with_dram_of(self, other: Cost) -> Cost:
        """The same time of a task, where the DRAM has another amount to do: tasks are not equal."""
        return replace(self, dram_ps=other.dram_ps)


def load_cost(board: Board, segment_bytes: int, loops: Loops = (), *, copies: float = 1, behind: bool = False) -> Cost:
    """Equal copies from GDRAM to NRAM, issued one behind the other: only the first shows its start-up.

    Args:
        board: the board's record.
        segment_bytes: of each contiguous segment.
        loops: over the segments in GDRAM, (count, stride in bytes), the outermost first.
        copies: how many, on average.
        behind: whether they are issued behind other copies, so that all start-ups pass unseen.
    """
    bus = read_bus_bytes(0, segment_bytes, loops, board.dram_unit_bytes)
    shape = _shape(Direction.GDRAM2NRAM, segment_bytes, loops, bus, 0)
    return transferred(board, copy_cost(board, shape, memory_core=False), copies, behind=behind)


def store_cost(board: Board, segment_bytes: int, loops: Loops = ()) -> Cost:
    """A copy from NRAM to GDRAM; arguments as `load_cost`."""
    bus_read, bus_write = write_bus_bytes(0, segment_bytes, loops, board.dram_unit_bytes)
    shape = _shape(Direction.NRAM2GDRAM, segment_bytes, loops, bus_read, bus_write)
    return transferred(board, copy_cost(board, shape, memory_core=False))


def transferred(board: Board, cost: CopyCost, copies: float = 1, *, behind: bool = False) -> Cost:
    """Copies of a known cost; `copies` and `behind` as `load_cost`."""
    issue_ps = copies * board.cycles_ps(board.issue_cycles)
    if not cost.work:
        return Cost(issue_ps + copies * cost.alone_ps)
    port_bytes = copies * cost.work / cost.ratio
    return Cost(
        issue_ps + (0 if behind else cost.latency_ps),
        copies * cost.work / cost.limit,
        port_bytes * PS_PER_S / board.cluster_read_bandwidth_bytes_per_s if cost.traffic & READ else 0.0,
        port_bytes * PS_PER_S / board.cluster_write_bandwidth_bytes_per_s if cost.traffic & WRITE else 0.0,
        copies * cost.work * PS_PER_S / board.dram_bandwidth_bytes_per_s,
    )


def vector_ps(board: Board, nbytes: int, passes: int = 1) -> int:
    """Time of `passes` vector instructions, each on operands of up to `nbytes`."""
    cycles = board.vector_startup_cycles + max(1, ceil_div(nbytes, board.vector_bytes_per_cycle))
    return board.cycles_ps(passes * cycles)


def move_ps(board: Board, nbytes: int, moves: int = 1) -> int:
    """Time of `moves` copies inside a core that move `nbytes` in all."""
    cycles = moves * board.move_startup_cycles + ceil_div(nbytes, board.move_bytes_per_cycle)
    return board.cycles_ps(cycles)


def _shape(direction: Direction, segment_bytes: int, loops: Loops, bus_read: int, bus_write: int) -> CopyShape:
    segments = 1
    gaps = False
    reach = segment_bytes
    for count, stride in reversed(loops):
        segments *= count
        gaps |= count > 1 and stride != reach
        reach *= count
    return CopyShape(
        direction, segments * segment_bytes, segment_bytes, segments, loops, loops, bus_read, bus_write, gaps
    )

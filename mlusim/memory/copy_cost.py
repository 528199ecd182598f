"""The cost of a copy on a board: start-up, work on the DRAM, and the rate of the ports.

Planners and the simulator use the same functions; the simulator's `Link` adds the effect of contention.
"""

from __future__ import annotations

from mlusim.hardware.board_record import Board
from mlusim.memory.copy_shape import CopyShape
from mlusim.memory.flow import READ, READ_AND_WRITE, WRITE, LinkCost
from mlusim.memory.kinds import Direction, MemoryKind
from mlusim.units import PS_PER_S, ceil_div, ceil_ps


class CopyCost(LinkCost):
    """Cost of one copy, and what it needs of the shared link (DRAM or SRAM), inefficiency included.

    A move inside a core has no work. Traffic is READ, WRITE or both from the DRAM's point of view.

    Attributes:
        latency_ps: from issue to the first byte.
        alone_ps: latency and transfer time on an otherwise idle board.
    """

    __slots__ = ("alone_ps", "latency_ps")

    def __init__(self, work: float, limit: float, ratio: float, traffic: int, latency_ps: int, alone_ps: int) -> None:
        super().__init__(work, limit, ratio, traffic)
        self.latency_ps = latency_ps
        self.alone_ps = alone_ps


def dram_work(board: Board, bus_read_bytes: int, bus_write_bytes: int, *, strided: bool) -> float:
    """Return the bytes of DRAM time at full bandwidth that an access needs."""
    if strided:
        return (
            bus_read_bytes / board.dram_strided_read_efficiency + bus_write_bytes / board.dram_strided_write_efficiency
        )
    return bus_read_bytes / board.dram_read_efficiency + bus_write_bytes / board.dram_write_efficiency


def start_up_ps(board: Board, direction: Direction) -> int:
    """Return the time from the issue of a copy to its first byte; 0 inside a core, where a copy has one cost."""
    if direction.off_chip:
        reads, writes = direction.source.off_chip, direction.destination.off_chip
        return board.dma_read_latency_ps * reads + board.dma_write_latency_ps * writes
    return board.sram_latency_ps if MemoryKind.SRAM in (direction.source, direction.destination) else 0


def copy_cost(board: Board, copy: CopyShape, *, memory_core: bool) -> CopyCost:
    """Return the cost of a copy on a board, by its direction."""
    direction = copy.direction
    if direction.off_chip:
        return _dram_cost(board, copy, memory_core=memory_core)
    if MemoryKind.SRAM in (direction.source, direction.destination):
        bandwidth, latency = board.core_sram_bandwidth_bytes_per_s, start_up_ps(board, direction)
        return _cost(board, copy, copy.nbytes, copy.nbytes, bandwidth, READ, latency)
    duration = board.cycles_ps(move_cycles(board, copy.segment_bytes, copy.segments))
    return CopyCost(0.0, 1.0, 1.0, READ, duration, duration)


def _dram_cost(board: Board, copy: CopyShape, *, memory_core: bool) -> CopyCost:
    work = dram_work(board, copy.bus_read_bytes, copy.bus_write_bytes, strided=copy.strided)
    if not copy.direction.destination.off_chip:
        traffic, port_bytes = READ, copy.bus_read_bytes
        bandwidth = board.core_read_bandwidth_bytes_per_s
        cluster = board.cluster_read_bandwidth_bytes_per_s
    elif not copy.direction.source.off_chip:
        traffic, port_bytes = WRITE, copy.bus_write_bytes
        bandwidth = board.core_write_bandwidth_bytes_per_s
        cluster = board.cluster_write_bandwidth_bytes_per_s
    else:
        traffic, port_bytes = READ_AND_WRITE, copy.bus_read_bytes
        bandwidth = min(board.core_read_bandwidth_bytes_per_s, board.core_write_bandwidth_bytes_per_s)
        cluster = min(board.cluster_read_bandwidth_bytes_per_s, board.cluster_write_bandwidth_bytes_per_s)
    if memory_core or copy.direction.by_memory_core:
        bandwidth = board.memory_core_bandwidth_bytes_per_s
    latency_ps = start_up_ps(board, copy.direction)
    return _cost(board, copy, work, port_bytes, min(bandwidth, cluster), traffic, latency_ps)


def _cost(
    board: Board, copy: CopyShape, work: float, port_bytes: int, bandwidth: int, traffic: int, latency_ps: int
) -> CopyCost:
    port_rate = bandwidth / PS_PER_S
    off_chip = bool(copy.bus_read_bytes or copy.bus_write_bytes)
    segment_ps = segment_cost_ps(board, copy.segment_bytes, off_chip=off_chip)
    if segment_ps:
        # A copy without gaps is one segment: else a loop of row copies would be faster than the strided copy.
        port_rate = min(port_rate, port_bytes / (copy.segments * segment_ps))
    ratio = work / port_bytes
    limit = port_rate * ratio
    rate = rate_alone(board, limit, off_chip=off_chip, mixes=traffic == READ_AND_WRITE)
    return CopyCost(work, limit, ratio, traffic, latency_ps, latency_ps + ceil_ps(work / rate))


def segment_cost_ps(board: Board, segment_bytes: int, *, off_chip: bool) -> int:
    """Return the least time per segment of a copy; one without gaps is one segment.

    Off chip, it depends on whether the segment fills a bus unit. Between SRAM and NRAM or WRAM, a segment takes the
    cycles of its lines.
    """
    if not off_chip:
        return board.cycles_ps(_lines(board, segment_bytes))
    return board.dma_segment_ps if segment_bytes >= board.dram_unit_bytes else board.dma_element_ps


def move_cycles(board: Board, segment_bytes: int, segments: int) -> int:
    """Return the cycles of a copy inside a core: a start-up, then the lines of each segment."""
    return board.move_startup_cycles + segments * _lines(board, segment_bytes)


def _lines(board: Board, segment_bytes: int) -> int:
    """Return the cycles for a segment on chip: one for each `move_bytes_per_cycle`, at least one (ASSUMED)."""
    return ceil_div(segment_bytes, board.move_bytes_per_cycle)


def rate_alone(board: Board, limit: float, *, off_chip: bool, mixes: bool) -> float:
    """Return the rate in work per picosecond of a transfer limited to `limit` on an otherwise idle link, DRAM or SRAM.

    `mixes`: it reads and writes the DRAM, so that the mixed efficiency applies even to a single transfer.
    """
    link = board.dram_bandwidth_bytes_per_s if off_chip else board.sram_bandwidth_bytes_per_s
    return min(limit, link * (board.dram_mixed_efficiency if mixes else 1) / PS_PER_S)

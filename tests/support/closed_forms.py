"""Boards and terms of closed forms for the time of a copy."""

from __future__ import annotations

from typing import Any

from mlusim.hardware import board as board_of
from mlusim.hardware.board_record import Board
from mlusim.host.device import Device

# The closed forms are those of reads and writes that mix only while they are in flight together; the window of mixing
# has tests with the links.
X4, H8, S4 = (board_of(name).replace(dram_mixing_ps=0) for name in ("mlu370-x4", "mlu590-h8", "mlu270-s4"))
BOARDS = [X4, H8, S4]
PS = 10**12


def by_name(value: Any) -> str:
    return getattr(value, "name", None) or str(value)


def took(device: Device, record: int = 0) -> int:
    """From the issue of a record to its end."""
    columns = device.log.columns()
    return int(columns["end_ps"][record] - columns["issue_ps"][record])


def span(device: Device) -> int:
    """From the first issue to the last end."""
    columns = device.log.columns()
    return int(columns["end_ps"].max() - columns["issue_ps"].min())


def transfer_ps(
    board: Board,
    *,
    reads: int = 0,
    writes: int = 0,
    first_reads: int = 0,
    segments: int = 1,
    strided: bool = False,
    elements: bool = False,
) -> float:
    """The slowest of core port, cluster port, segments (`elements`: below 64 B) and DRAM, for bytes on the bus."""
    kind = "dram_strided_" if strided else "dram_"
    work = (reads + first_reads) / getattr(board, f"{kind}read_efficiency")
    work += writes / getattr(board, f"{kind}write_efficiency")
    through = [work / board.dram_bandwidth_bytes_per_s * PS]
    for name, nbytes in (("read", reads), ("write", writes)):
        ports = (getattr(board, f"{port}_{name}_bandwidth_bytes_per_s") for port in ("core", "cluster"))
        through += [nbytes / port * PS for port in ports]
    through.append(segments * (board.dma_element_ps if elements else board.dma_segment_ps))
    return max(through)

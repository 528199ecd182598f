"""Checks of a board's values: types, ranges, sources, and consistency."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from typing import TYPE_CHECKING

from mlusim.errors import BoardError, shown
from mlusim.units import PS_PER_S, cycles_to_ps

if TYPE_CHECKING:
    from mlusim.hardware.board_record import Board

# G 5.3: the fastest kind of access first.
EFFICIENCY_ORDER = (
    "dram_read_efficiency",
    "dram_write_efficiency",
    "dram_strided_read_efficiency",
    "dram_strided_write_efficiency",
)
_MAX_CORES = 4096
# A vector operand of the generations below arch 300 is a multiple of this (B).
ALIGNED_SIZE_BYTES = 128
# Times are 64-bit integers of picoseconds, and a run sums many delays.
_MAX_DELAY_PS = 10**15
# For the same reason. Element-wise strided access, the slowest known, takes about 100 times as long as a transpose.
_MIN_EFFICIENCY = 0.001
_UNIONS = (1, 2, 4, 8, 16)
_POWERS_OF_TWO = frozenset({"dram_unit_bytes", "vector_alignment_bytes", "wram_alignment_bytes"})
_POSITIVE = frozenset(
    {
        "arch",
        "clusters",
        "cores_per_cluster",
        "max_union",
        "clock_hz",
        "nram_bytes",
        "gdram_bytes",
        "dram_bandwidth_bytes_per_s",
        "dram_unit_bytes",
        "core_read_bandwidth_bytes_per_s",
        "core_write_bandwidth_bytes_per_s",
        "cluster_read_bandwidth_bytes_per_s",
        "cluster_write_bandwidth_bytes_per_s",
        "memory_core_bandwidth_bytes_per_s",
        "sram_bandwidth_bytes_per_s",
        "core_sram_bandwidth_bytes_per_s",
        "move_bytes_per_cycle",
        "vector_bytes_per_cycle",
        "vector_alignment_bytes",
        "wram_alignment_bytes",
    }
)
# Rates and sizes are converted to floats, and times are computed from them.
_BEYOND_64_BITS = 1 << 63


def check_types(board: Board) -> None:
    """Raise `BoardError` for a value whose type differs from its field's."""
    for item in fields(board):
        _check_type(board, item.name, item.type)


def check_values(board: Board) -> None:
    """Raise `BoardError` for a value that is out of range, has no source, or is inconsistent with another one."""
    for item in fields(board):
        _check_value(board, item.name)
    _check_sources(board)
    _check_together(board)


def _check_type(board: Board, field_name: str, annotation: object) -> None:
    value = getattr(board, field_name)
    if annotation == "int" and (isinstance(value, bool) or not isinstance(value, int)):
        raise BoardError(
            f"{board.name}: {field_name} = {shown(value)} must be an integer, not {type(value).__name__}; its unit is "
            "part of its name"
        )
    if annotation == "float" and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise BoardError(f"{board.name}: {field_name} = {shown(value)} must be a number, not {type(value).__name__}")
    if annotation == "str" and not (isinstance(value, str) and value and value.isprintable()):
        raise BoardError(f"{board.name}: {field_name} = {shown(value)} must be a string of printable characters")


def _check_value(board: Board, field_name: str) -> None:
    value = getattr(board, field_name)
    if field_name.endswith("_efficiency"):
        if not _MIN_EFFICIENCY <= value <= 1:
            raise BoardError(f"{board.name}: {field_name} = {shown(value)} must be in [{_MIN_EFFICIENCY}, 1]")
    elif isinstance(value, int | float):
        if not value >= 0:
            raise BoardError(f"{board.name}: {field_name} = {shown(value)} must not be negative")
        if value >= _BEYOND_64_BITS:
            raise BoardError(f"{board.name}: {field_name} = {shown(value)} is too large for a number of 64 bits")
        if field_name in _POSITIVE and value == 0:
            raise BoardError(f"{board.name}: {field_name} = 0 must be positive")
    if field_name.endswith("_spread") and not value < 1:
        raise BoardError(f"{board.name}: {field_name} = {shown(value)} must be less than 1")
    if field_name in _POWERS_OF_TWO and value & (value - 1):
        raise BoardError(f"{board.name}: {field_name} = {shown(value)} must be a power of two")
    if field_name == "max_union" and value not in _UNIONS:
        raise BoardError(f"{board.name}: max_union = {shown(value)} must be one of {', '.join(map(str, _UNIONS))}")


def _check_sources(board: Board) -> None:
    names = {item.name for item in fields(board)} - {"sources"}
    for key, source in board.sources.items():
        if key not in names:
            raise BoardError(f"{board.name}: sources names {key!r}, which is not a parameter")
        if not (isinstance(source, str) and source.strip()):
            raise BoardError(f"{board.name}: the source of {key} is {source!r}; name one or write ASSUMED and why")
    for item in fields(board):
        if item.name in names - {"name"} and item.name not in board.sources:
            raise BoardError(f"{board.name}: {item.name} has no source; name one or write ASSUMED and why")


def _check_together(board: Board) -> None:
    if board.clusters * board.cores_per_cluster > _MAX_CORES:
        raise BoardError(
            f"{board.name}: clusters = {board.clusters} of cores_per_cluster = {board.cores_per_cluster} are more than "
            f"{_MAX_CORES} cores, which no chip has"
        )
    if board.needs_aligned_vectors and board.vector_alignment_bytes < ALIGNED_SIZE_BYTES:
        raise BoardError(
            f"{board.name}: vector_alignment_bytes = {board.vector_alignment_bytes} must be at least "
            f"{ALIGNED_SIZE_BYTES} on arch {board.arch}: below arch 300 a vector operand is a multiple of "
            f"{ALIGNED_SIZE_BYTES} B (B)"
        )
    for item in fields(board):
        value = getattr(board, item.name)
        delay_ps = cycles_to_ps(value, board.clock_hz) if item.name.endswith("_cycles") else value
        if item.name.endswith(("_cycles", "_ps")) and delay_ps > _MAX_DELAY_PS:
            raise BoardError(
                f"{board.name}: {item.name} = {shown(value)} is a delay of more than {_MAX_DELAY_PS // PS_PER_S:,} s; "
                "no instruction of a chip takes that long"
            )
    for memory in ("nram", "sram"):
        total, reserved = getattr(board, f"{memory}_bytes"), getattr(board, f"{memory}_reserved_bytes")
        if reserved and reserved >= total:
            raise BoardError(
                f"{board.name}: {memory}_reserved_bytes = {reserved} leaves nothing of {memory}_bytes = {total}"
            )
    for higher, lower in pairwise(EFFICIENCY_ORDER):
        high, low = getattr(board, higher), getattr(board, lower)
        if low >= high:
            raise BoardError(
                f"{board.name}: {lower} = {low!r} must be less than {higher} = {high!r}: "
                "contiguous read > contiguous write > strided read > strided write (G 5.3)"
            )

"""The memories of an MLU and the directions in which `__memcpy` moves bytes between them."""

from __future__ import annotations

from enum import Enum

from mlusim.errors import CopyError, shown
from mlusim.spelling import nearest


class MemoryKind(Enum):
    """A memory of the machine, by the vendor's name.

    Attributes:
        off_chip: whether it is in DRAM (GDRAM and LDRAM) or on chip (all others).
    """

    GDRAM = "gdram"
    LDRAM = "ldram"
    SRAM = "sram"
    NRAM = "nram"
    WRAM = "wram"

    # Members are singletons, so identity is equality; Enum's own hash is a Python call on every lookup.
    __hash__ = object.__hash__

    def __init__(self, name: str) -> None:
        self.off_chip = name in {"gdram", "ldram"}


class Direction(Enum):
    """`mluMemcpyDirection_t`, named after its memories: `GDRAM2NRAM` copies from GDRAM to NRAM (B).

    Attributes:
        source, destination: memories that the copy reads and writes.
        off_chip: whether it reads or writes the DRAM.
        by_memory_core: whether the copy runs on the engine of the cluster's memory core, whichever core issues it (B).
    """

    GDRAM2NRAM = (MemoryKind.GDRAM, MemoryKind.NRAM)
    NRAM2GDRAM = (MemoryKind.NRAM, MemoryKind.GDRAM)
    LDRAM2NRAM = (MemoryKind.LDRAM, MemoryKind.NRAM)
    NRAM2LDRAM = (MemoryKind.NRAM, MemoryKind.LDRAM)
    GDRAM2WRAM = (MemoryKind.GDRAM, MemoryKind.WRAM)
    WRAM2GDRAM = (MemoryKind.WRAM, MemoryKind.GDRAM)
    LDRAM2WRAM = (MemoryKind.LDRAM, MemoryKind.WRAM)
    WRAM2LDRAM = (MemoryKind.WRAM, MemoryKind.LDRAM)
    NRAM2NRAM = (MemoryKind.NRAM, MemoryKind.NRAM)
    NRAM2WRAM = (MemoryKind.NRAM, MemoryKind.WRAM)
    WRAM2NRAM = (MemoryKind.WRAM, MemoryKind.NRAM)
    GDRAM2SRAM = (MemoryKind.GDRAM, MemoryKind.SRAM)
    SRAM2GDRAM = (MemoryKind.SRAM, MemoryKind.GDRAM)
    LDRAM2SRAM = (MemoryKind.LDRAM, MemoryKind.SRAM)
    SRAM2LDRAM = (MemoryKind.SRAM, MemoryKind.LDRAM)
    SRAM2NRAM = (MemoryKind.SRAM, MemoryKind.NRAM)
    NRAM2SRAM = (MemoryKind.NRAM, MemoryKind.SRAM)
    SRAM2WRAM = (MemoryKind.SRAM, MemoryKind.WRAM)
    WRAM2SRAM = (MemoryKind.WRAM, MemoryKind.SRAM)
    GDRAM2GDRAM = (MemoryKind.GDRAM, MemoryKind.GDRAM)
    GDRAM2LDRAM = (MemoryKind.GDRAM, MemoryKind.LDRAM)
    LDRAM2GDRAM = (MemoryKind.LDRAM, MemoryKind.GDRAM)
    SRAM2SRAM = (MemoryKind.SRAM, MemoryKind.SRAM)
    LDRAM2LDRAM = (MemoryKind.LDRAM, MemoryKind.LDRAM)

    __hash__ = object.__hash__

    def __init__(self, source: MemoryKind, destination: MemoryKind) -> None:
        # Attributes, because planners read them for thousands of candidates.
        self.source = source
        self.destination = destination
        self.off_chip = source.off_chip or destination.off_chip
        self.by_memory_core = {source, destination} == {MemoryKind.GDRAM, MemoryKind.SRAM}

    @property
    def asynchronous(self) -> bool:
        """Whether `__memcpy_async` supports this direction: not from LDRAM, not between clusters' SRAMs (B)."""
        return self in _ASYNCHRONOUS


def direction_of(direction: object) -> Direction:
    """Return a direction, given itself or its name (`"GDRAM2NRAM"`). Raises `CopyError` for anything else."""
    if isinstance(direction, Direction):
        return direction
    name = direction.upper() if isinstance(direction, str) else ""
    if name not in Direction.__members__:
        suggestion = nearest(name, Direction.__members__)
        raise CopyError(
            f"direction={shown(direction)} is not a direction of __memcpy: {suggestion}write Direction.GDRAM2NRAM or "
            f"'GDRAM2NRAM'; choose one of {', '.join(Direction.__members__)}"
        )
    return Direction[name]


DIRECTIONS: dict[tuple[MemoryKind, MemoryKind], Direction] = {direction.value: direction for direction in Direction}
DIRECTION_CODES: dict[Direction, int] = {direction: code for code, direction in enumerate(Direction)}

_ASYNCHRONOUS = frozenset(
    {
        Direction.GDRAM2GDRAM,
        Direction.GDRAM2LDRAM,
        Direction.GDRAM2SRAM,
        Direction.GDRAM2NRAM,
        Direction.GDRAM2WRAM,
        Direction.SRAM2GDRAM,
        Direction.SRAM2NRAM,
        Direction.SRAM2WRAM,
        Direction.NRAM2GDRAM,
        Direction.NRAM2SRAM,
        Direction.NRAM2NRAM,
        Direction.NRAM2WRAM,
        Direction.WRAM2SRAM,
        Direction.WRAM2NRAM,
    }
)

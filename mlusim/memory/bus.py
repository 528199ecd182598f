"""The cost of an access on the DRAM bus: 64 B units, alignment, read-modify-write (G 5.3).

Each segment of a copy is charged separately: the bus moves whole aligned units, so a segment that begins or ends
inside a unit moves all of it, and a store to part of a unit first reads that unit. Not modelled: caches and write
combining between segments.
"""

from __future__ import annotations

import math
from functools import lru_cache

# (count, stride in bytes) of nested loops.
Loops = tuple[tuple[int, int], ...]


@lru_cache(maxsize=65536)
def unit_counts(phase: int, segment_bytes: int, loops: Loops, unit_bytes: int) -> tuple[int, int]:
    """Count the units touched, and those of them covered only in part, over all segments of a copy.

    Args:
        phase: address of the first segment modulo `unit_bytes`.
        segment_bytes: bytes of each segment, positive.
        loops: (count, stride in bytes) of each loop over segments.
        unit_bytes: size of a bus unit, 64 B.
    """
    units = partial_units = 0
    for start, segments in _phases(phase, loops, unit_bytes).items():
        stop = start + segment_bytes
        segment_units = -(-stop // unit_bytes)
        full_units = max(0, stop // unit_bytes - (1 if start else 0))
        units += segments * segment_units
        partial_units += segments * (segment_units - full_units)
    return units, partial_units


def _phases(phase: int, loops: Loops, unit_bytes: int) -> dict[int, int]:
    """Return the number of segments that begin at each offset within a unit."""
    phases = {phase % unit_bytes: 1}
    for count, stride in loops:
        period = unit_bytes // math.gcd(stride, unit_bytes)
        rounds, extra_steps = divmod(count, period)
        next_phases: dict[int, int] = {}
        for start, segments in phases.items():
            for step in range(min(count, period)):
                key = (start + step * stride) % unit_bytes
                next_phases[key] = next_phases.get(key, 0) + segments * (rounds + (step < extra_steps))
        phases = next_phases
    return phases


def read_bus_bytes(phase: int, segment_bytes: int, loops: Loops, unit_bytes: int) -> int:
    """Return the bytes that a load moves on the bus.

    Args:
        phase, segment_bytes, loops, unit_bytes: as in `unit_counts`.
    """
    return unit_counts(phase % unit_bytes, segment_bytes, loops, unit_bytes)[0] * unit_bytes


def write_bus_bytes(phase: int, segment_bytes: int, loops: Loops, unit_bytes: int) -> tuple[int, int]:
    """Return the bytes that a store moves on the bus: those read first (units covered in part), and those written."""
    units, partial_units = unit_counts(phase % unit_bytes, segment_bytes, loops, unit_bytes)
    return partial_units * unit_bytes, units * unit_bytes

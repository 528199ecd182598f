"""The host memory needed by a check, compared with the free memory before it starts."""

from __future__ import annotations

from pathlib import Path

from mlusim.errors import InputError
from mlusim.units import group_digits, short_bytes

# Measured with copies and vector instructions: 150 to 200 B, and up to 270 B for one task alone, which is checked as a
# whole. Checks that need less than _SMALL always proceed.
BYTES_PER_OPERATION = 270
_SMALL = 1 << 30
_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def check_memory_needed(records: int) -> None:
    """Raise `InputError` if checking this many records needs more memory than is free; does nothing if unknown."""
    needed = records * BYTES_PER_OPERATION
    available = free_bytes() if needed > _SMALL else None
    if available is not None and needed > available:
        raise InputError(
            f"the checker needs about {short_bytes(needed)} of memory for {group_digits(records)} operations, and "
            f"{short_bytes(available)} are free: check a smaller run of the kernel, as faults show in a few iterations "
            "of each task, or use a machine with more memory"
        )


def free_bytes() -> int | None:
    """Return the memory still available to this process, on Linux; None if unknown."""
    try:
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text(encoding="ascii").splitlines())
        available_bytes = int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, ValueError, LookupError):
        return None
    try:
        limit_bytes, used_bytes = (
            int((_GROUP / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current")
        )
    except (OSError, ValueError):  # no group, or one without a limit
        return available_bytes
    return min(available_bytes, max(limit_bytes - used_bytes, 0))
